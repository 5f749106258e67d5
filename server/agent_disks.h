// The disks of a node as its agent knows them, and what it tells the metadata server of them. A disk keeps its number for as long as the
// program runs, also when it is not this node's any more. For the executor's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "server/shard_store.h"

namespace stria {

struct AgentDisk {
  ShardStore* store = nullptr;  // null if the disk cannot be used
  Uuid uuid;
  std::string label;
  std::string channel;
  TargetId target;  // as last registered, 0 if never
  std::string proof;     // DiskHello::proof
  std::string problem;   // why it cannot be used
  bool give_up = false;  // it is not expected to be usable again
  bool leaves = false;   // it is not this node's any more: the metadata server is told so once
  bool left = false;     // and was
};

// The numbers of those that the metadata server is told of, and among these of those that it is told of for the last time.
std::vector<size_t> ToldDisks(const std::vector<AgentDisk>& disks);
std::vector<size_t> LeavingDisks(const std::vector<AgentDisk>& disks);
// One for each told disk. `smart`: what is known of the device below a disk, by its number; may be empty.
std::vector<DiskHello> HellosOf(const std::vector<AgentDisk>& disks, const std::function<DiskSmart(size_t i)>& smart);
// Of a reply that has a target and a proof for each told disk: from now on one for each of `disks` numbers, none for the others.
// REQUIRES: as many targets as told disks.
void SpreadOver(size_t disks, const std::vector<size_t>& told, RegisterNodeReply* reply);

}  // namespace stria
