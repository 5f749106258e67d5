// The disks of a node as its agent knows them, and what it tells the metadata server of them. A disk keeps its number for as long as the
// program runs, also when it is not this node's any more. For the executor's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
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
  // It came after the last registration that was taken. If one is refused that is perhaps for such a disk: it is held back, so that the
  // node goes on with what it had.
  bool fresh = false;
  bool held_back = false;  // the node is registered without it
  std::string refusal;     // why, or was before
  bool leaves = false;   // it is not this node's any more: the metadata server is told so once
  bool left = false;     // and was
};

// The numbers of those that the metadata server is told of, and among these of those that it is told of for the last time.
std::vector<size_t> ToldDisks(const std::vector<AgentDisk>& disks);
std::vector<size_t> LeavingDisks(const std::vector<AgentDisk>& disks);
// Of the told ones those that the node registers.
std::vector<size_t> RegisteredDisks(const std::vector<AgentDisk>& disks);
// One for each of these numbers. What is held back is absent. `smart`: what is known of the device below a disk, by its number; may be empty.
std::vector<DiskHello> HellosOf(const std::vector<AgentDisk>& disks, const std::vector<size_t>& numbers,
                                const std::function<DiskSmart(size_t i)>& smart);
// Of a reply that has a target and a proof for each registered disk: from now on one for each of `disks` numbers, none for the others.
// REQUIRES: as many targets as registered disks.
void SpreadOver(size_t disks, const std::vector<size_t>& told, RegisterNodeReply* reply);
// A registration of all but the held back disks failed: holds back the fresh ones if it was refused. Gives those whose refusal is news;
// nullopt: nobody has refused it, or there are none to be held back.
std::optional<std::vector<size_t>> HoldBack(std::vector<AgentDisk>* disks, const Error& failed);
// The next registration has them again. False: none is held back.
bool TryHeldBack(std::vector<AgentDisk>* disks);

}  // namespace stria
