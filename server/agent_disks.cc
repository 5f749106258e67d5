#include "server/agent_disks.h"

#include <utility>

namespace stria {
namespace {

// Somebody has answered that it cannot be taken, or a disk could not note it.
bool IsRefusal(FsError code) {
  switch (code) {
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kTimedOut:
    case FsError::kNotLeader:
    case FsError::kNotReady:
    case FsError::kRetryLater:
      return false;
    default:
      return true;
  }
}

}  // namespace

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

std::vector<size_t> RegisteredDisks(const std::vector<AgentDisk>& disks) {
  std::vector<size_t> out = ToldDisks(disks);
  std::erase_if(out, [&disks](size_t i) { return disks[i].held_back; });
  return out;
}

std::vector<DiskHello> HellosOf(const std::vector<AgentDisk>& disks, const std::vector<size_t>& numbers,
                                const std::function<DiskSmart(size_t i)>& smart) {
  std::vector<DiskHello> out;
  for (const size_t i : numbers) {
    const AgentDisk& d = disks[i];
    DiskHello h;
    h.uuid = d.uuid;
    h.label = d.label;
    h.channel = d.channel;
    h.target = d.target;
    if (d.store == nullptr || d.held_back) {
      h.absent = true;
      h.failed = d.give_up;
      h.problem = d.held_back && !d.leaves ? d.refusal : d.problem;
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

std::optional<std::vector<size_t>> HoldBack(std::vector<AgentDisk>* disks, const Error& failed) {
  std::optional<std::vector<size_t>> news;
  if (!IsRefusal(failed.code)) return news;
  const std::string refusal = "the node is not registered with it: " + failed.message;
  for (const size_t i : RegisteredDisks(*disks)) {
    AgentDisk& d = (*disks)[i];
    if (!d.fresh) continue;
    if (!news) news.emplace();
    if (std::exchange(d.refusal, refusal) != refusal) news->push_back(i);
    d.held_back = true;
  }
  return news;
}

bool TryHeldBack(std::vector<AgentDisk>* disks) {
  bool any = false;
  for (const size_t i : ToldDisks(*disks)) any = std::exchange((*disks)[i].held_back, false) || any;
  return any;
}

}  // namespace stria
