#include "test/sim/plans.h"

namespace stria {
namespace {

SimFaultPlan NoFaults() {
  SimFaultPlan p;
  p.network = p.power_cuts = false;
  p.client_crash = p.meta_crash = p.node_crash = p.partition = p.slow_disk = p.clock_jump = 0;
  return p;
}

SimPlan Calm() {
  SimPlan p{"Calm", {}};
  p.options.faults = NoFaults();
  p.options.duration_ns = 8 * kSecond;
  return p;
}

SimPlan BadNetwork() {
  SimPlan p{"Network", {}};
  p.options.faults = NoFaults();
  p.options.faults.network = true;
  p.options.faults.partition = 1;
  return p;
}

// Whatever can be overtaken is: mappings that come when their stripes are gone, events after answers.
SimPlan Overtaken() {
  SimPlan p{"Overtaken", {}};
  p.options.faults = NoFaults();
  p.options.faults.network = true;
  p.options.faults.straggle_ppm = 60'000;
  p.options.watchers_per_client = 5;
  return p;
}

SimPlan Crashes() {
  SimPlan p{"Crashes", {}};
  p.options.faults.strike_percent = 3;
  return p;
}

// Clients that die in the middle of writes; servers that die right after an answer.
SimPlan Strikes() {
  SimPlan p{"Strikes", {}};
  p.options.faults = NoFaults();
  p.options.faults.network = p.options.faults.power_cuts = true;
  p.options.faults.client_crash = p.options.faults.meta_crash = p.options.faults.node_crash = 1;
  p.options.faults.strike_percent = 12;
  p.options.fault_pause_ns = 20 * kSecond;
  return p;
}

// Two nodes in trouble at once, of any kind.
SimPlan Raid6() {
  SimPlan p{"Raid6", {}};
  p.options.cluster.nodes = 8;
  p.options.cluster.layout = "raid6:4+2,unit=64K,stripe=512K";
  p.options.budget = 2;
  p.options.faults.node_crash = 5;
  p.options.faults.lose_node = 1;
  p.options.faults.bit_rot = 1;
  p.options.faults.dead_disk = 1;
  p.options.cluster.scrub_pause_ns = 5 * kSecond;
  return p;
}

SimPlan Losses() {
  SimPlan p{"Losses", {}};
  p.options.cluster.nodes = 7;
  p.options.faults.lose_node = 2;
  p.options.faults.stale_node = 2;
  p.options.duration_ns = 40 * kSecond;
  return p;
}

SimPlan BitRot() {
  SimPlan p{"BitRot", {}};
  p.options.faults = NoFaults();
  p.options.faults.bit_rot = 4;
  p.options.faults.bad_writes = 1;
  p.options.faults.meta_crash = p.options.faults.client_crash = 1;
  p.options.cluster.scrub_pause_ns = 5 * kSecond;
  return p;
}

SimPlan Disks() {
  SimPlan p{"Disks", {}};
  SimFaultPlan& f = p.options.faults;
  f.partition = 0;
  f.disk_errors = 3;
  f.dead_disk = f.hung_disk = f.full_disk = f.bad_writes = f.bit_rot = 1;
  p.options.cluster.scrub_pause_ns = 8 * kSecond;
  p.options.duration_ns = 40 * kSecond;
  return p;
}

// The metadata store fails syncs, too.
SimPlan MetaDisk() {
  SimPlan p = Disks();
  p.name = "MetaDisk";
  p.options.faults.meta_disk = 2;
  return p;
}

SimPlan Blackouts() {
  SimPlan p{"Blackouts", {}};
  p.options.faults.blackout = 2;
  p.options.faults.isolation = 2;
  p.options.duration_ns = 40 * kSecond;
  p.options.fault_pause_ns = 12 * kSecond;
  return p;
}

// Everything that changes who is a member, with scrubs and crashes; also with fewer nodes than stripes have columns.
SimPlan Members() {
  SimPlan p{"Members", {}};
  SimFaultPlan& f = p.options.faults;
  p.options.cluster.nodes = 7;
  f.drain = 3;
  f.shrink = 4;
  f.lose_node = f.stale_node = f.dead_disk = f.add_node = 1;
  p.options.cluster.scrub_pause_ns = 10 * kSecond;
  p.options.duration_ns = 60 * kSecond;
  p.options.fault_pause_ns = 6 * kSecond;
  return p;
}

// A room as small as the layout, of which node after node is given up, while it is written to.
SimPlan Shrinking() {
  SimPlan p{"Shrinking", {}};
  SimFaultPlan& f = p.options.faults;
  p.options.cluster.nodes = 5;
  p.options.cluster.meta.cluster.out_ns = 20 * kSecond;  // also by itself
  f.shrink = 8;
  f.drain = f.stale_node = f.add_node = 1;
  f.clock_jump = f.slow_disk = 0;
  p.options.duration_ns = 60 * kSecond;
  return p;
}

// Everything lies on its writer's node, mirrored, and is folded while it is changed, cloned and deleted. In the end all that
// the files of one client were folded with goes.
SimPlan Folding() {
  SimPlan p{"Folding", {}};
  p.options.cluster.nodes = 7;
  p.options.cluster.clients = 5;
  p.options.cluster.layout = "raid5:4+1,unit=64K,stripe=512K,arrange=gathered,place=local";
  p.options.thin_out = true;
  p.options.cluster.meta.fold = {.age_ns = 2 * kSecond, .rest_ns = kSecond};
  SimFaultPlan& f = p.options.faults;
  f.lose_node = f.stale_node = f.bit_rot = 1;
  f.meta_crash = 2;
  f.strike_percent = 2;
  p.options.cluster.scrub_pause_ns = 8 * kSecond;
  p.options.duration_ns = 40 * kSecond;
  return p;
}

// Nobody may do everything, so that what is repeated after a restart is asked for its right, too.
SimPlan Squashed() {
  SimPlan p = Crashes();
  p.name = "Squashed";
  p.options.cluster.meta.root_squash = true;
  return p;
}

// Clients are away for longer than leases, and calls, last; and now and then the metadata server restarts meanwhile.
SimPlan Gaps() {
  SimPlan p{"Gaps", {}};
  p.options.faults = NoFaults();
  p.options.faults.network = p.options.faults.power_cuts = true;
  p.options.faults.gap = 8;
  p.options.faults.meta_crash = 1;
  p.options.duration_ns = 120 * kSecond;
  p.options.fault_pause_ns = 15 * kSecond;
  return p;
}

// Certificates expire, keys change and peers are revoked, while servers restart.
SimPlan Trust() {
  SimPlan p{"Trust", {}};
  p.options.faults = NoFaults();
  p.options.faults.power_cuts = true;
  p.options.faults.meta_crash = p.options.faults.node_crash = 1;
  p.options.cluster.nodes = 7;
  p.options.cluster.clients = 3;
  p.options.cluster.certificates = true;
  p.options.work.trust = true;
  p.options.duration_ns = 150 * kSecond;
  p.options.fault_pause_ns = 40 * kSecond;
  return p;
}

// Calls end before their session does, so that nobody knows whether they were done.
SimPlan Impatient() {
  SimPlan p = BadNetwork();
  p.name = "Impatient";
  p.options.faults.partition = 8;
  p.options.faults.meta_crash = p.options.faults.client_crash = 1;
  p.options.cluster.client_timeout_ns = 4 * kSecond;
  return p;
}

}  // namespace

// Where no message is lost or late calls take some ten milliseconds, and up to a second beside restarts and rot.
constexpr int64_t kNothingLostNs = 5 * kSecond;
// A message that is lost, request or answer, is missed when the time of its call is over: 10.5 s at the metadata server, 15 s of
// a write with its seal, as a server that answers other questions may only be busy (common/silence.h). (Connections
// lose no message without breaking; then it is missed at once.)
constexpr int64_t kLostNs = 15 * kSecond;
// Of up to 0.6 % of all; in a call of ten that wait for each other (recall, flush, seals, answer) four in a row are lost in less
// than one of 10^7.
constexpr int64_t kLostInARow = 3;

Patience::Bounds BoundsOf(const SimRunOptions& options) {
  const SimFaultPlan& f = options.faults;
  Patience::Bounds b;
  b.longest_ns = kNothingLostNs;
  if (f.network) b.longest_ns += kLostInARow * kLostNs;
  b.message_ns = f.network ? SimFaults().straggle_ns + kSecond : 100 * kMillisecond;
  return b;
}

// The last message that was lost is missed, while others may miss theirs; then all goes on.
Patience::Bounds BoundsAfterFaults() { return {.longest_ns = kNothingLostNs + kLostNs, .message_ns = SimFaults().straggle_ns + kSecond}; }

const std::vector<SimPlan>& SimPlans() {
  static const std::vector<SimPlan> plans = {Calm(),   BadNetwork(), Overtaken(), Crashes(),  Strikes(),   Raid6(),
                                             Losses(), BitRot(),  Disks(),     MetaDisk(), Blackouts(), Members(), Shrinking(),
                                             Folding(), Squashed(), Gaps(),    Impatient(), Trust()};
  return plans;
}

const SimPlan& FindSimPlan(const std::string& name) {
  for (const SimPlan& p : SimPlans()) {
    if (p.name == name) return p;
  }
  CHECK(false, "there is no plan " + name);
}

}  // namespace stria
