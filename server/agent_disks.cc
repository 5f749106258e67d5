#include "server/agent_disks.h"

#include <utility>

namespace stria {

std::vector<size_t> ToldDisks(const std::vector<AgentDisk>& disks) {
  std::vector<size_t> out;
  for (size_t i = 0; i < disks.size(); ++i) {
    if (!disks[i].left) out.push_back(i);
  }
  return out;
}

std::vector<size_t> LeavingDisks(const std::vector<AgentDisk>& disks) {
  std::vector<size_t> out = ToldDisks(disks);
  std::erase_if(out, [&disks](size_t i) { return !disks[i].leaves; });
  return out;
}

std::vector<DiskHello> HellosOf(const std::vector<AgentDisk>& disks, const std::function<DiskSmart(size_t i)>& smart) {
  std::vector<DiskHello> out;
  for (const size_t i : ToldDisks(disks)) {
    const AgentDisk& d = disks[i];
    DiskHello h;
    h.uuid = d.uuid;
    h.label = d.label;
    h.channel = d.channel;
    h.target = d.target;
    if (d.store == nullptr) {
      h.absent = true;
      h.failed = d.give_up;
      h.problem = d.problem;
      out.push_back(std::move(h));
      continue;
    }
    if (smart) h.smart = smart(i);
    const DiskUsage usage = d.store->Usage();
    h.failed = usage.failed;
    if (d.store->failed()) h.problem = d.store->failure().message;
    h.capacity_bytes = usage.capacity_bytes;
    h.free_bytes = usage.free_bytes;
    h.used_bytes = usage.used_bytes;
    h.read_errors = usage.read_errors;
    h.write_errors = usage.write_errors;
    h.checksum_errors = usage.checksum_errors;
    h.read_us = usage.read_us;
    h.filesystem = usage.filesystem;
    out.push_back(std::move(h));
  }
  return out;
}

void SpreadOver(size_t disks, const std::vector<size_t>& told, RegisterNodeReply* reply) {
  std::vector<TargetId> targets(disks);
  std::vector<std::string> proofs(disks);
  for (size_t n = 0; n < told.size(); ++n) {
    targets[told[n]] = reply->targets[n];
    if (n < reply->disk_proofs.size()) proofs[told[n]] = std::move(reply->disk_proofs[n]);
  }
  reply->targets = std::move(targets);
  reply->disk_proofs = std::move(proofs);
}

}  // namespace stria
