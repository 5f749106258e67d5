#include "test/sim/progress.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace stria {
namespace {

// Longer than messages and kernels need, where nothing fails.
constexpr int64_t kApartNs = 100 * kMillisecond;

std::string Of(InodeId ino) { return "inode " + std::to_string(ino.v); }
std::string Since(int64_t ns) { return " (since " + std::to_string(ns / kMillisecond) + " ms)"; }

bool TakesOpenMu(const std::string& call) {
  for (const char* one : {"open of", "last close of", "change of attributes of", "change of a range of", "copy into"}) {
    if (call == one) return true;
  }
  return false;
}
// What it waits for is all that its file has to be committed.
bool Flushes(const std::string& call) { return call == "fsync of" || call == "last close of"; }
bool IsOfPages(const std::string& call) { return call == "read of pages of" || call == "write of pages to"; }

class Filler {
 public:
  explicit Filler(SimCluster& cluster) : cluster_(cluster) {
    for (size_t c = 0; c < cluster.options().clients; ++c) {
      if (cluster.client_up(c)) names_[cluster.client(c).session().id()] = ClientHost(c);
    }
  }
  WaitGraph Fill() {
    for (size_t c = 0; c < cluster_.options().clients; ++c) {
      if (cluster_.client_up(c)) FillClient(c);
    }
    if (cluster_.meta_up()) FillMeta(*cluster_.meta_server());
    return std::move(graph_);
  }

 private:
  std::string Name(SessionId s) const {
    const auto it = names_.find(s);
    return it != names_.end() ? it->second : "session " + std::to_string(s.v);
  }
  // ---- Names of nodes
  std::string Call(size_t c, const CallList::Call& call) const {
    return ClientHost(c) + ": " + call.what() + " " + Of(call.ino()) + Since(call.since_ns());
  }
  std::string Lock(size_t c, InodeId ino, const char* lock, const char* held_for) const {
    return ClientHost(c) + ": " + lock + " of " + Of(ino) + ", held for " + held_for;
  }
  std::string WriteBack(size_t c, InodeId ino) const { return ClientHost(c) + ": write-back of " + Of(ino); }
  std::string Telling(size_t c, InodeId ino) const {
    return ClientHost(c) + ": the metadata server is told of " + Of(ino) + ", which was made ahead";
  }
  std::string Room(size_t c) const { return ClientHost(c) + ": room for bytes to be written"; }
  std::string Kernel(size_t c, InodeId ino) const { return ClientHost(c) + ": its kernel forgets pages of " + Of(ino); }
  std::string Demand(SessionId s, InodeId ino, uint64_t event) const {
    return Name(s) + ": recall or flush of " + Of(ino) + ", event " + std::to_string(event);
  }
  std::string Ack(SessionId s, uint64_t event) const { return Name(s) + ": acknowledgement of event " + std::to_string(event); }
  std::string Wait(const WaitList::Wait& w) const {
    static constexpr const char* kWhat[] = {"open", "change", "mapping", "question", "mapping for pages"};
    return "meta: " + std::string(kWhat[static_cast<size_t>(w.why)]) + " of " + Of(w.ino) + " by " + Name(w.asks) + Since(w.since_ns);
  }

  // `from` is an operation of the session on the inode that is perhaps at the metadata server.
  void AddAtMeta(const std::string& from, SessionId s, InodeId ino, const std::set<WaitList::For>& why) {
    if (!cluster_.meta_up()) return;
    for (const auto& [number, w] : cluster_.meta_server()->waits().all()) {
      if (w->asks == s && w->ino == ino && why.contains(w->why)) graph_.Add(from, Wait(*w));
    }
  }

  void FillClient(size_t c) {
    Vfs& vfs = cluster_.vfs(c);
    const SessionId s = cluster_.client(c).session().id();
    std::map<InodeId, InodeWaits> inodes;
    for (const InodeWaits& w : vfs.report().Waits()) inodes[w.ino] = w;
    for (const CallList::Call* call = vfs.report().calls().oldest(); call != nullptr; call = call->next()) FillCall(c, *call, s, inodes);
    for (const auto& [ino, w] : inodes) FillInode(c, w, s, inodes);
    FillEvents(c, s, inodes);
  }

  void FillCall(size_t c, const CallList::Call& call, SessionId s, const std::map<InodeId, InodeWaits>& inodes) {
    const std::string node = Call(c, call), what = call.what();
    const InodeId ino = call.ino();
    graph_.Add(node);
    AddTellings(node, c, ino, inodes);
    // A page's own call may be lost on its way. A call of another read of the same file, which waits at the server, is not its.
    AddAtMeta(node, s, ino, IsOfPages(what) ? std::set{WaitList::For::kPages}
                                            : std::set{WaitList::For::kOpen, WaitList::For::kChange, WaitList::For::kMapping,
                                                       WaitList::For::kQuestion});
    const auto it = inodes.find(ino);
    if (it == inodes.end()) return;
    const InodeWaits& w = it->second;
    const bool writes = what == "write to";
    if (w.room && (writes || what == "write of pages to")) graph_.Add(node, Room(c));
    if (w.dirty && Flushes(what)) graph_.Add(node, WriteBack(c, ino));
    if (w.open_mu && (TakesOpenMu(what) || (writes && w.cut))) graph_.Add(node, Lock(c, ino, "open_mu", w.open_mu));
    if (w.lease_mu && writes) graph_.Add(node, Lock(c, ino, "lease_mu", w.lease_mu));
  }

  // Files that the server is told of before it is asked anything about this inode: itself, or those made in it.
  void AddTellings(const std::string& from, size_t c, InodeId ino, const std::map<InodeId, InodeWaits>& inodes) {
    for (const auto& [file, w] : inodes) {
      if (w.ahead_in && (file == ino || w.ahead_in == ino)) graph_.Add(from, Telling(c, file));
    }
  }
  // What is flushed for others.
  void AddFlush(const std::string& from, size_t c, const InodeWaits& w, const std::map<InodeId, InodeWaits>& inodes) {
    AddTellings(from, c, w.ino, inodes);
    if (w.dirty) graph_.Add(from, WriteBack(c, w.ino));
  }

  void FillInode(size_t c, const InodeWaits& w, SessionId s, const std::map<InodeId, InodeWaits>& inodes) {
    if (w.dirty) {
      const std::string node = WriteBack(c, w.ino);
      graph_.Add(node);
      graph_.AddAny(Room(c), node);
      AddAtMeta(node, s, w.ino, {WaitList::For::kChange});
      if (w.ahead_in) graph_.Add(node, Telling(c, w.ino));
      if (w.paused && w.open_mu) graph_.Add(node, Lock(c, w.ino, "open_mu", w.open_mu));
    }
    if (w.ahead_in) {
      graph_.Add(Telling(c, w.ino));
      AddAtMeta(Telling(c, w.ino), s, w.ino, {WaitList::For::kChange});
    }
    if (w.lease_mu && w.demand == DemandAt::kFlush) AddFlush(Lock(c, w.ino, "lease_mu", w.lease_mu), c, w, inodes);
    const std::set<WaitList::For> theirs = {WaitList::For::kOpen, WaitList::For::kChange};
    if (w.open_mu) AddAtMeta(Lock(c, w.ino, "open_mu", w.open_mu), s, w.ino, theirs);
    if (w.open_mu && w.lease_mu && std::string(w.lease_mu) == "open") {
      graph_.Add(Lock(c, w.ino, "lease_mu", w.lease_mu), Lock(c, w.ino, "open_mu", w.open_mu));
    }
    if (!w.forgetting) return;
    graph_.Add(Kernel(c, w.ino));
    for (const CallList::Call* call = cluster_.vfs(c).report().calls().oldest(); call != nullptr; call = call->next()) {
      if (call->ino() == w.ino && IsOfPages(call->what())) graph_.Add(Kernel(c, w.ino), Call(c, *call));
    }
  }

  void FillEvents(size_t c, SessionId s, const std::map<InodeId, InodeWaits>& inodes) {
    std::map<std::pair<InodeId, bool>, uint64_t> begun;
    for (const MetaSession::InHand& e : cluster_.client(c).session().EventsInHand()) {
      const std::string node = e.demand ? Demand(s, e.ino, e.seq) : Ack(s, e.seq);
      graph_.Add(node);
      if (!e.demand) to_forget_[s].push_back(e.seq);
      if (e.begun) {
        begun[{e.ino, e.demand}] = e.seq;
      } else {
        const uint64_t first = begun.at({e.ino, e.demand});
        // A session that goes on anew has its events numbered anew: another one may have the same number.
        if (first != e.seq) graph_.Add(node, e.demand ? Demand(s, e.ino, first) : Ack(s, first));
        continue;
      }
      const auto it = inodes.find(e.ino);
      if (it == inodes.end()) continue;
      const InodeWaits& w = it->second;
      if (e.demand && w.demand == DemandAt::kLeaseMu && w.lease_mu) graph_.Add(node, Lock(c, e.ino, "lease_mu", w.lease_mu));
      if (e.demand && w.demand == DemandAt::kFlush) AddFlush(node, c, w, inodes);
      const bool forgets = e.demand ? w.demand == DemandAt::kKernel : true;
      if (forgets && w.forgetting && !w.cut) graph_.Add(node, Kernel(c, e.ino));
    }
  }

  void FillMeta(const MetaServer& meta) {
    const std::vector<LeaseTable::Unanswered> demanded = meta.leases().Demanded();
    std::map<std::pair<SessionId, uint64_t>, InodeId> demands;
    for (const LeaseTable::Unanswered& d : demanded) demands[{d.session, d.event}] = d.ino;
    for (const auto& [number, w] : meta.waits().all()) {
      const std::string node = Wait(*w);
      graph_.Add(node);
      if (w->events == nullptr) {
        for (const LeaseTable::Unanswered& d : demanded) {
          if (d.recall && d.ino == w->ino && d.session != w->asks) graph_.Add(node, Demand(d.session, d.ino, d.event));
        }
        continue;
      }
      for (const auto& [session, event] : *w->events) {
        const auto demand = demands.find({session, event});
        if (demand != demands.end()) graph_.Add(node, Demand(session, demand->second, event));
        else AddAck(node, session, event);
      }
    }
  }
  // Given when all before are handled.
  void AddAck(const std::string& node, SessionId s, uint64_t event) {
    const std::string ack = Ack(s, event);
    graph_.Add(node, ack);
    for (const uint64_t seq : to_forget_[s]) {
      if (seq < event) graph_.Add(ack, Ack(s, seq));
    }
  }

  SimCluster& cluster_;
  std::map<SessionId, std::string> names_;
  std::map<SessionId, std::vector<uint64_t>> to_forget_;  // events that clients have in hand, demands left out
  WaitGraph graph_;
};

const CallList::Call* OldestOf(SimCluster& cluster, size_t c) {
  return cluster.client_up(c) ? cluster.vfs(c).report().calls().oldest() : nullptr;
}

}  // namespace

WaitGraph WaitsIn(SimCluster& cluster) { return Filler(cluster).Fill(); }

std::string WhatWaits(SimCluster& cluster) {
  std::string out = "\n  it is " + std::to_string(cluster.executor().NowNs() / kMillisecond) + " ms" + WaitsIn(cluster).Text();
  std::set<InodeId> asked;
  for (size_t c = 0; c < cluster.options().clients; ++c) {
    for (const CallList::Call* call = OldestOf(cluster, c); call != nullptr; call = call->next()) asked.insert(call->ino());
  }
  for (size_t c = 0; c < cluster.options().clients; ++c) {
    if (!cluster.client_up(c)) continue;
    out += "\n  " + ClientHost(c) + " is session " + std::to_string(cluster.client(c).session().id().v);
    for (const InodeId ino : asked) out += "\n    " + Of(ino) + ": " + cluster.vfs(c).report().Describe(ino);
    for (const InodeId ino : cluster.kernel(c).pages().Reading()) out += "\n    its kernel reads pages of " + Of(ino);
  }
  if (!cluster.meta_up()) return out + "\n  the metadata server is down";
  for (const std::string& wait : cluster.meta_server()->leases().Waits()) out += "\n  meta, " + wait;
  const SessionTable& sessions = cluster.meta_server()->sessions();
  for (const SessionId s : sessions.All()) {
    const EventQueue& events = *sessions.FindEvents(s);
    if (events.empty()) continue;
    out += "\n  meta, session " + std::to_string(s.v) + ": " + std::to_string(events.size()) +
           " events not acknowledged, the first is " + std::to_string(events.first());
  }
  return out;
}

std::string CircleWatch::Look() {
  const int64_t now_ns = cluster_->executor().NowNs();
  if (now_ns < looked_ns_ + apart_ns_) return "";
  looked_ns_ = now_ns;
  bool waits = false;
  for (size_t c = 0; c < cluster_->options().clients && !waits; ++c) {
    const CallList::Call* const oldest = OldestOf(*cluster_, c);
    waits = oldest != nullptr && now_ns - oldest->since_ns() >= apart_ns_;
  }
  const std::string before = std::exchange(seen_, waits ? WaitGraph::Text(WaitsIn(*cluster_).FindCycle()) : "");
  if (seen_.empty() || seen_ != before) return "";
  return "calls wait in a circle:" + seen_ + "\n  all that waits:" + WhatWaits(*cluster_);
}

Progress::Progress(SimCluster* cluster, int64_t longest_ns)
    : cluster_(cluster), longest_ns_(longest_ns), circles_(cluster, kApartNs) {}

std::string Progress::Stalled() {
  const int64_t now_ns = cluster_->executor().NowNs();
  for (size_t c = 0; c < cluster_->options().clients; ++c) {
    const CallList::Call* const oldest = OldestOf(*cluster_, c);
    if (oldest == nullptr || now_ns - oldest->since_ns() <= longest_ns_) continue;
    return "a call waits for longer than " + std::to_string(longest_ns_ / kMillisecond) + " ms:" + WhatWaits(*cluster_);
  }
  return circles_.Look();
}

}  // namespace stria
