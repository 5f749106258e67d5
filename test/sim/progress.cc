#include "test/sim/progress.h"

#include <set>

namespace stria {
namespace {

std::string WhatWaits(SimCluster& cluster) {
  const int64_t now_ns = cluster.executor().NowNs();
  std::string out;
  std::set<InodeId> asked;
  for (size_t c = 0; c < cluster.options().clients; ++c) {
    if (!cluster.client_up(c)) continue;
    const CallList& calls = cluster.vfs(c).calls();
    for (const CallList::Call* call = calls.oldest(); call != nullptr; call = call->next()) {
      out += "\n  " + cluster.client_host(c) + ": " + call->what() + " inode " + std::to_string(call->ino().v) + ", since " +
             std::to_string((now_ns - call->since_ns()) / kMillisecond) + " ms";
      asked.insert(call->ino());
    }
  }
  for (size_t c = 0; c < cluster.options().clients; ++c) {
    if (!cluster.client_up(c)) continue;
    out += "\n  " + cluster.client_host(c) + " is session " + std::to_string(cluster.client(c).session().id().v);
    for (const InodeId ino : asked) out += "\n    inode " + std::to_string(ino.v) + ": " + cluster.vfs(c).Describe(ino);
    for (const InodeId ino : cluster.kernel(c).pages().Reading()) out += "\n    its kernel reads pages of inode " + std::to_string(ino.v);
  }
  if (!cluster.meta_up()) return out + "\n  the metadata server is down";
  for (const std::string& wait : cluster.meta_server()->leases().Waits()) out += "\n  meta, " + wait;
  const SessionTable& sessions = cluster.meta_server()->sessions();
  for (const SessionId s : sessions.All()) {
    if (!sessions.HasEvents(s)) continue;
    out += "\n  meta, session " + std::to_string(s.v) + ": " + std::to_string(sessions.Queued(s)) +
           " events not acknowledged, the first is " + std::to_string(sessions.first_event(s));
  }
  return out;
}

}  // namespace

std::string Stalled(SimCluster& cluster, int64_t longest_ns) {
  const int64_t now_ns = cluster.executor().NowNs();
  for (size_t c = 0; c < cluster.options().clients; ++c) {
    if (!cluster.client_up(c)) continue;
    const CallList::Call* const oldest = cluster.vfs(c).calls().oldest();
    if (oldest == nullptr || now_ns - oldest->since_ns() <= longest_ns) continue;
    return "a call waits for longer than " + std::to_string(longest_ns / kMillisecond) + " ms:" + WhatWaits(cluster);
  }
  return "";
}

}  // namespace stria
