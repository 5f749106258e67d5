// What a mount is doing, for people and for tests: calls under way, what inodes wait for, what was read and written.
//
// Owns no state. Executor's thread only.
//
// Called through Vfs::report(): by metrics, logs, user.stria.* attributes and tests. Invariant: changes nothing, and waits for nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/types.h"
#include "client/vfs/calls.h"
#include "client/vfs/io_counters.h"
#include "client/vfs/waits.h"

namespace stria {

class Inodes;
class NodeCache;
class WriteBack;

class VfsReport {
 public:
  // All of them outlive it.
  VfsReport(const Inodes& inodes, const NodeCache& nodes, const WriteBack& write_back, const CallList& calls,
            const IoCounters& counters)
      : inodes_(inodes), nodes_(nodes), write_back_(write_back), calls_(calls), counters_(counters) {}
  VfsReport(const VfsReport&) = delete;
  VfsReport& operator=(const VfsReport&) = delete;

  // What is held and under way of an inode, in one line for an operator who wonders why it takes so long.
  std::string Describe(InodeId ino) const;
  std::vector<InodeWaits> Waits() const;            // of inodes that wait for something
  const CallList& calls() const { return calls_; }  // of programs, under way
  const IoCounters& counters() const { return counters_; }
  uint64_t dirty_bytes() const;

 private:
  const Inodes& inodes_;
  const NodeCache& nodes_;
  const WriteBack& write_back_;
  const CallList& calls_;
  const IoCounters& counters_;
};

}  // namespace stria
