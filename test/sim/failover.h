// A cluster with several metadata servers, while these fail: clients make, rename, remove and read files of their own, and know of each
// answer what it means.
//
// What must hold, beside what SimMetas looks for (sim_metas.h):
//   - a client that lives loses nothing that it was answered, and nothing of it is done twice: a name that is made anew is not there
//     yet, one that it has is there, with its bytes;
//   - what was made durable is there although the client has died as well;
//   - it loses its session only where the plan says what took it (KeepsSessions);
//   - the primary knows of each lease that a client believes to have;
//   - when all is healed, one serves, all members are in the set, their stores are the same, no file lacks a shard, fsck is clean.
//
// Where a client has died, or its session has lapsed, names of which it was not told that they are durable may be there or not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/task.h"
#include "common/random.h"
#include "test/sim/audit.h"
#include "test/sim/progress.h"
#include "test/sim/sim_cluster.h"
#include "test/sim/sim_metas.h"

namespace stria {

// How often each thing happens, against the others; 0: never. It is often the primary that is met.
struct FailoverPlan {
  std::string name;
  size_t metas = 2;
  size_t clients = 2;
  bool network = true;           // messages are late, lost and doubled, with every second seed
  bool late_coordinator = true;  // so are its requests, up to 8 s
  uint32_t kill = 0;             // one member: kill -9 or its power; back within 12 s
  uint32_t kill_two = 0;         // two at once
  uint32_t kill_all = 0;         // the power of all
  uint32_t cut_members = 0;      // two members, one way or both
  uint32_t cut_off = 0;          // one member from all others, half the time from the coordinator as well
  uint32_t freeze = 0;           // nothing reaches or leaves a member, as if it were stopped; for longer than any promise
  uint32_t cut_coordinator = 0;  // a member from the coordinator, one way or both
  uint32_t cut_client = 0;       // a client from a member or from all
  uint32_t cut_node = 0;         // a node from a member or from all
  uint32_t coordinator_down = 0;
  uint32_t hand_over = 0;        // by an admin, asked at any member
  uint32_t wipe = 0;             // the disk of a member that does not serve
  uint32_t client_death = 0;
  uint32_t full_disk = 0;        // of a member, for up to 20 s: it can write nothing, so it ends, and ends again when it is started
  uint32_t slow_disk = 0;        // of a member that starts again: syncs take up to half a second
  uint32_t strike_percent = 0;   // of 100 durable answers: right after it the primary loses its power, half the time with the client
  int64_t coordinator_away_ns = 15 * kSecond;  // at most
  bool same_term = false;        // nothing of all that may change who serves
  int64_t duration_ns = 60 * kSecond;
  int64_t fault_pause_ns = 8 * kSecond;  // between two faults, at most

  // Nothing of it takes a client's session away that lives: another member serves, or the same one again, before it is over.
  bool KeepsSessions() const { return kill_two + kill_all + freeze + cut_client == 0; }
};

const std::vector<FailoverPlan>& FailoverPlans();
// CHECK: there is one of that name.
const FailoverPlan& FindFailoverPlan(const std::string& name);

class FailoverWorld {
 public:
  FailoverWorld(uint64_t seed, FailoverPlan plan);
  ~FailoverWorld();

  // The whole run. Empty: all held; else the first thing that did not.
  std::string RunAll();
  // For people: what happened.
  std::string Summary() const;
  uint64_t trace() const;

  // ---- By hand: RunAll is Begin, faults, and Finish
  void Begin();   // boots; clients work from then on
  void Finish();  // heals, waits until all is well, and looks at everything
  // True: it came about, and nothing failed.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns);
  void RunFor(int64_t ns) { (void)RunUntil([] { return false; }, ns); }
  const std::string& failure() const { return failure_; }
  SimCluster& cluster() { return cluster_; }
  SimMetas& metas() { return *cluster_.several(); }
  uint64_t count(const std::string& what) const;
  void CrashClientNow(size_t c);
  // A member from all other members and from the coordinator, both ways, or not any more. Who cuts twice heals twice.
  void CutOff(size_t m, bool cut, bool coordinator_too = true);
  // From now on clients make files and look at them, and take none away: shards of what has come back are there.
  void OnlyMake() { only_make_ = true; }
  // Of each client the names that are durable now.
  std::vector<std::set<std::string>> DurableNames() const;
  // What else was answered is lost with the members that had it, and may be there or not. REQUIRES: clients are dead.
  void GiveUpAllBut(const std::vector<std::set<std::string>>& names);
  // An admin asks this member to be primary although it lacks something; count("losses") when it is.
  void AskToPromoteLosing(size_t m) { scope_.Spawn(PromoteLosing(m)); }
  // It starts with an empty disk, and the former one is removed.
  void Replace(size_t m);

 private:
  struct File {
    std::string made_as;   // says its bytes
    size_t size = 0;
    uint64_t changed = 0;  // the number of the answer that named it so
    bool stored = false;   // fsync has answered: its bytes are durable
    bool named = false;    // and so is this name, by the same answer
  };
  struct Mine {  // of one client
    InodeId dir;
    std::map<std::string, File> files;
    std::map<std::string, uint64_t> removed;  // names that it had, by the number of the answer
    std::set<std::string> unsure;             // may be there or not, for ever
    std::set<std::string> busy;               // something is done with them now
    uint64_t next = 0;
    uint64_t answers = 0;  // of changes
    uint64_t durable = 0;  // up to that number
    uint64_t era = 0;      // of its session, which grows when that was lost or has lapsed
    bool untold = false;   // a session was lost, and no sync has failed because of its changes yet: one may
  };
  using Fault = void (FailoverWorld::*)();

  void Fail(const std::string& what);
  void Trace(const std::string& what) const;
  bool stopping() const { return stopping_ || !failure_.empty(); }
  void LookOn();
  void After(int64_t ns, std::function<void()> fn);
  int64_t Upto(int64_t ns) { return static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(ns))); }

  // ---- What clients do
  Task<void> Setup();
  void StartActors(size_t c);
  Task<void> Actor(size_t c, uint64_t seed);
  Task<void> Make(size_t c, Random* rng);
  Task<void> Remove(size_t c, std::string name);
  Task<void> Rename(size_t c, std::string name);
  Task<void> Look(size_t c, std::string name);
  Task<void> MakeDurable(size_t c);
  Task<Result<void>> WriteFile(size_t c, std::string name, size_t size, bool fsync);
  Task<Result<std::string>> ReadFile(size_t c, InodeId dir, std::string name);
  uint64_t EraOf(size_t c) { return cluster_.client(c).session().era(); }
  // The names are free again; if it was to change something and the answer does not count, nobody knows what is there. True: it counts.
  bool Judge(size_t c, uint64_t era, const Error& error, const std::string& what, const std::vector<std::string>& names,
             bool changes = true);
  void Died(size_t c);
  void LostSession(size_t c, const std::string& seen);
  void MaybeStrike(size_t c);

  // ---- Faults
  Task<void> Driver();
  void OneFault();
  size_t PickMember();
  void CrashFor(size_t m, bool power, int64_t ns);
  void Kill();
  void KillTwo();
  void KillAll();
  void CutMembers();
  void CutOffOne();
  void Freeze();
  void CutToCoordinator(const std::string& host, bool cut);
  void CutFromCoordinator(const std::string& host, bool cut);
  void CutCoordinator();
  void CutClient();
  void CutNode();
  void StopCoordinator();
  void HandOver();
  void Wipe();
  void KillClient();
  void SlowDisk();
  void FillDisk();
  void Block(const std::set<std::string>& a, const std::set<std::string>& b, int64_t ns, const std::string& what);
  Task<void> AskToPromote(std::string at, std::string name);
  Task<void> PromoteLosing(size_t m);
  Task<void> RemoveFormer(size_t m);
  void HealAll();
  Task<void> FinalChecks();

  const FailoverPlan plan_;
  const bool tracing_;
  SimCluster cluster_;
  CircleWatch circles_;
  Progress progress_;  // of plans in which nothing that clients need fails
  Random rng_;
  std::string failure_;
  bool stopping_ = false;
  bool faults_over_ = false;
  bool struck_ = false;
  bool only_make_ = false;
  bool coordinator_away_ = false;
  std::set<size_t> full_;  // members with a full disk
  std::map<std::string, int> cuts_to_coordinator_, cuts_from_coordinator_;  // how many each has
  size_t actors_ = 0;
  uint64_t term_ = 0;  // after the boot
  int64_t looked_ns_ = 0;
  AuditMemory memory_;
  std::vector<Mine> mine_;
  std::map<std::string, uint64_t> counts_;
  std::vector<std::unique_ptr<Timer>> timers_;
  TaskScope scope_;  // last
};

}  // namespace stria
