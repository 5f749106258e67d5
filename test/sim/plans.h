// The plans that the simulator runs: which cluster, which faults, how often. Shared by sim_test (a few
// seeds of each), sabotage_test and sim-soak (thousands).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "test/sim/patience.h"
#include "test/sim/sim_cluster.h"

namespace stria {

// How often each thing happens, against the others; 0: never. Budget: together they never leave a
// stripe with fewer shards than it can be decoded from (World::Trouble).
struct SimFaultPlan {
  bool network = true;     // delays, losses, duplicates, all the time
  uint32_t straggle_ppm = 0;  // of messages that are late by up to 2 s; 0: some, by the seed
  bool power_cuts = true;  // crashes may lose what was not synced
  uint32_t client_crash = 1;
  uint32_t meta_crash = 1;
  uint32_t node_crash = 2;  // and back
  uint32_t partition = 1;   // up to 25 s, one way or both
  uint32_t gap = 0;         // one client from one host, 1 s to 5 min
  uint32_t isolation = 0;   // all clients from the metadata server or from all nodes, up to 60 s
  uint32_t blackout = 0;    // everything down at once, and back
  uint32_t slow_disk = 1;
  uint32_t clock_jump = 1;  // of all wall clocks at once, by up to 200 h, forward or back
  // Processes or hosts are struck right after they acknowledged something, or in the middle of a write:
  // of 100 such moments.
  uint32_t strike_percent = 0;
  // A node's disks misbehave for a while; then what they damaged must heal.
  uint32_t bit_rot = 0;     // a flipped bit in any file or index record
  uint32_t bad_writes = 0;  // writes that are lost or land elsewhere
  uint32_t disk_errors = 0;  // EIO of some reads, writes or syncs; one that was given up is replaced
  uint32_t dead_disk = 0;    // and replaced by a fresh one later
  uint32_t hung_disk = 0;
  uint32_t full_disk = 0;
  uint32_t meta_disk = 0;  // the metadata store fails a sync; the server ends and starts again
  // Membership.
  uint32_t lose_node = 0;    // for good; a fresh one comes
  uint32_t shrink = 0;       // a node for good, and no other one for a while: down to fewer than the layout has columns
  uint32_t stale_node = 0;   // comes back after an administrator declared it out
  uint32_t drain = 0;        // a disk or node is emptied, and used again or removed
  uint32_t add_node = 0;

  bool has_disk_faults() const {
    return bit_rot + bad_writes + disk_errors + dead_disk + hung_disk + full_disk > 0;
  }
};

// What clients do.
struct SimWorkPlan {
  bool files = true;   // workload.cc
  bool names = true;   // names.cc
  bool values = true;  // watched.cc
  bool locks = true;
  bool clones = true;  // of values
  bool shared_names = true;
  bool orphans = true;
  bool appends = true;
  bool trust = false;  // trust.cc; with certificates
};

struct SimRunOptions {
  SimClusterOptions cluster;
  SimFaultPlan faults;
  SimWorkPlan work;
  size_t budget = 1;  // nodes in trouble at a time; at most the layout's m
  size_t files_per_client = 2;
  size_t watchers_per_client = 1;
  uint64_t max_file_bytes = 512 * kKiB;
  int64_t duration_ns = 25 * kSecond;  // of the time with faults
  int64_t fault_pause_ns = 3 * kSecond;  // between two faults, at most
  int64_t settle_ns = 900 * kSecond;   // at most, until everything is whole again
  bool thin_out = false;               // in the end the files of one client are left alone, and it settles again
};

struct SimPlan {
  std::string name;
  SimRunOptions options;
};

// How long calls may be under way while their client can reach all that it needs.
Patience::Bounds BoundsOf(const SimRunOptions& options);
// The same when faults have ended; calls that are under way then began before.
Patience::Bounds BoundsAfterFaults();

const std::vector<SimPlan>& SimPlans();
// CHECK: there is one of that name.
const SimPlan& FindSimPlan(const std::string& name);

}  // namespace stria
