// What a simulation runs and checks: files with one writer each, read by everyone; names in a directory
// per client; values that are looked at while they change (watched.cc); more workloads (work.h); a fault driver
// within a budget; the state that must come back by itself.
//
// A check that fails stops the run; RunAll says what, where and when. The same seed gives the same run,
// step by step (trace()).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "meta/cluster/cluster_state.h"
#include "test/sim/audit.h"
#include "test/sim/file_model.h"
#include "test/sim/patience.h"
#include "test/sim/plans.h"
#include "test/sim/sim_cluster.h"
#include "test/sim/work.h"

namespace stria {

class SimWorld {
 public:
  SimWorld(uint64_t seed, SimRunOptions options);
  ~SimWorld();
  // The whole run. Empty: all held; else the first thing that did not.
  std::string RunAll();
  uint64_t trace() const;
  // For people: what happened.
  std::string Summary() const;

 private:
  friend class SimWork;
  friend class CloneWork;
  friend class TrustWork;
  struct File {
    std::string name;
    size_t writer = 0;  // client
    FileModel model;
    AsyncMutex mu;      // held by the writer from open to close, and by readers
    uint64_t opened_generation = 0;  // of the session of the last open for writing; 0 none
    uint64_t opened_era = 0;         // likewise
    // The writer's client crashed or lost its session, or an operation ended with an unknown result: the
    // content may be any that FileModel::Recover takes.
    bool unsure = false;
  };
  struct Names {  // of one client's directory
    InodeId dir;
    std::map<std::string, bool> entries;  // -> is a directory
    std::set<std::string> unsure;         // an operation on it ended with an unknown result
    bool all_unsure = false;
    uint64_t next = 0;
    uint64_t generation = 0;  // of the client's session
    bool cut = false;  // the metadata server's power was cut, and has not answered that session since
  };
  using Life = std::pair<SessionId, uint64_t>;  // of a session, until its lease has run out
  struct Watched {
    enum class Kind { kBytes, kTime, kSize, kName };
    Kind kind = Kind::kBytes;
    std::string name;
    InodeId ino;  // kName: of the directory
    size_t writer = 0;
    uint64_t offset = 0;   // kBytes; not 0: in a file of many
    uint64_t length = 0;
    uint64_t started = 0;  // the newest number whose write began
    uint64_t acked = 0;    // the newest whose write was answered, in this life of the session
    uint64_t durable = 0;  // survives any crash
    Life session;
    bool unsure = false;  // kName: the last change may or may not have been done
  };
  struct Opened {
    VfsHandlePtr handle;
    InodeId ino;
    std::string content;
  };
  // Why a node counts against the budget.
  struct Trouble {
    int active = 0;       // faults that last
    bool rotten = false;  // its disks may hold less than the metadata says
    int64_t quiet_ns = 0;  // rotten at least until then
  };
  using Fault = void (SimWorld::*)();

  void Fail(const std::string& what);
  // With STRIA_SIM_TRACE set: a line per operation of a client, with its answer, and per fault.
  void Trace(const std::string& what) const;
  static std::string ClientName(size_t c) { return "c" + std::to_string(c + 1); }
  bool failed() const { return !failure_.empty(); }
  bool stopping() const { return stopping_ || failed(); }
  std::string Now() const;

  // run.cc
  void SetNetworkFaults();
  void HealAll();
  bool Whole(const StatusReply& s) const;
  Task<void> Settle();
  std::string WhoHasOpen(InodeId ino);
  Task<void> FollowLeases();
  // Runs until `done`, the time is over, or something failed; watches that calls go on.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns);
  bool Run(Task<void> task, int64_t limit_ns);
  void LookAtCalls();
  Task<std::string> WhatIsLeft();  // empty: all is whole
  Task<void> FinalChecks();
  Task<void> CheckStore();
  Task<void> ThinOut();
  void CheckMappings();

  void MakeWorks();

  // workload.cc
  Task<void> Setup();
  void StartActors(size_t client);
  Task<void> Writer(size_t client, File* file, uint64_t seed);
  Task<bool> SetMode(size_t client, const std::string& name, uint32_t mode);
  Task<bool> WriteSession(size_t client, File* file, Random& rng);
  Task<bool> OneOperation(size_t client, File* file, VfsHandlePtr h, InodeId ino, Random& rng);
  Task<void> Reader(size_t client, uint64_t seed);
  Task<Result<Opened>> OpenAndRead(size_t client, File* file, bool for_write);
  Task<Result<std::string>> ReadAll(size_t client, VfsHandlePtr h, InodeId ino);
  // Nothing was stored: for want of space only while disks are full, for want of disks only where so few may be left.
  void CheckPlaceError(size_t client, const File& file, const Error& error);
  // `same_session`: the writer looks at what it has written itself.
  bool CheckContent(size_t client, File* file, const std::string& content, const char* who, bool same_session = false);

  // names.cc
  Task<void> Namer(size_t client, uint64_t seed);
  Task<bool> OneNameOperation(size_t client, Names* names, Random& rng);
  Task<bool> ResyncNames(size_t client, Names* names);

  // watched.cc
  Task<Result<void>> MakeWatched(size_t client);
  Task<Result<void>> MakeCells(size_t client);
  static std::string ValueBytes(const Watched& w, uint64_t number);
  bool WasFull() const { return counts_.contains("full disks"); }  // for a while there was no space
  Life LifeOf(size_t client);
  uint64_t FloorOf(const Watched& w);
  void Acked(Watched* w, uint64_t number, Life session);
  Task<void> Updater(size_t client, uint64_t seed);
  Task<void> UpdateBytes(size_t client, Watched* w, VfsHandlePtr* h, Random& rng);
  Task<void> UpdateAttr(size_t client, Watched* w, Random& rng);
  Task<void> UpdateName(size_t client, Watched* w, Random& rng);
  Task<Result<uint64_t>> ReadNumber(size_t client, Watched* w);
  Task<void> Watcher(size_t client, uint64_t seed);
  Task<Result<uint64_t>> Look(size_t client, Watched* w, VfsHandlePtr* h);
  static std::optional<uint64_t> OldestPage(const Watched& w, const std::string& bytes);
  Task<Result<uint64_t>> LookAtBytes(size_t client, Watched* w, VfsHandlePtr* h);
  Task<Result<uint64_t>> LookAtSize(size_t client, Watched* w, VfsHandlePtr* h);
  Task<Result<uint64_t>> LookAtTime(size_t client, Watched* w);
  Task<Result<uint64_t>> LookAtName(size_t client, Watched* w, uint64_t floor);
  Task<void> CheckWatched();

  // faults.cc: processes and the network
  std::vector<std::pair<uint32_t, Fault>> Faults() const;
  Task<void> Driver();
  void OneFault();
  void After(int64_t ns, std::function<void()> fn);
  // Something was just acknowledged, or is under way: perhaps the worst moment for a crash.
  void Strike();
  void StrikeClient(size_t c);
  void CrashClientNow(size_t c);
  void CrashMetaNow(bool power_cut, int64_t down_ns);
  void RestartNodeAfter(size_t n, int64_t ns);
  void CrashClient();
  void CrashMeta();
  void CrashNode();
  void PartitionSome();
  void Gap();
  void Isolate();
  void BlackOut();
  void SlowDisk();
  void JumpClocks();
  void FailMetaSync();

  // disk_faults.cc, and who counts against the budget
  bool Room() const { return troubles_.size() < options_.budget; }
  bool Bearable(size_t n);  // with it in trouble, too, every stripe can still be decoded
  std::optional<size_t> PickNode();  // up and sound, if there is room in the budget
  std::optional<size_t> PickForDiskFault();
  SimDiskFaults& DiskTrouble(size_t n, size_t d, const std::string& what, int64_t lasts_ns);
  void FlipBit();
  void BadWrites();
  void DiskErrors();
  void KillDisk();
  void HangDisk();
  void FillDisk();
  ClusterAudit Audit();
  std::map<TargetId, TargetState> StatesInMeta();
  bool Broken(size_t n, size_t d, const std::map<TargetId, TargetState>& states);
  void CheckSound(const ClusterAudit& audit);
  Task<void> FollowTroubles();
  Task<bool> Recovered(size_t n, NodeAudit audit);

  // members.cc
  size_t InUse() const;
  void LoseNode();
  void Shrink();
  void FillUp();
  void StaleNode();
  void Drain();
  void AddOne();
  Task<void> OutAndRemoved(size_t n);
  Task<void> OutAndBack(size_t n, int64_t away_ns);
  Task<void> DrainAndBack(size_t n, std::optional<size_t> disk, bool for_good);
  // False: not done (yet).
  Task<bool> AdminCall(AdminRequest r, const std::string& what);
  Task<bool> AdminOnNode(AdminVerb verb, size_t n);
  Task<bool> AdminOnTarget(AdminVerb verb, TargetId target);
  Task<bool> AdminOnEither(AdminVerb verb, size_t n, std::optional<size_t> disk);

  const SimRunOptions options_;
  const bool tracing_;
  const size_t columns_;  // of a whole stripe
  SimCluster cluster_;
  Random rng_;
  std::string failure_;
  bool stopping_ = false;
  bool faults_over_ = false;
  bool meta_failing_ = false;  // its store has failed and it was not restarted yet
  int disks_full_ = 0;         // or were made so, and not emptied yet
  bool struck_ = false;  // a strike is on its way
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<Names>> names_;
  std::vector<std::unique_ptr<Watched>> watched_;
  std::vector<std::unique_ptr<SimWork>> works_;
  std::vector<int64_t> client_died_ns_;
  size_t actors_ = 0;
  AuditMemory audited_;
  std::map<size_t, Trouble> troubles_;  // by node: at most options_.budget
  std::set<size_t> gone_;               // nodes that never come back
  std::set<size_t> removed_;            // of those: the metadata knows it, and takes no shard on them any more
  std::set<size_t> away_;               // nodes that OutAndBack brings back
  std::set<size_t> draining_;
  std::set<SessionId> evicted_;         // sessions that an administrator has ended, or is about to
  std::set<size_t> revoked_;            // clients whose certificate an administrator has revoked, or is about to
  std::map<std::string, uint64_t> counts_;
  std::vector<std::unique_ptr<Timer>> timers_;
  Patience patience_;
  int64_t looked_ns_ = 0;  // when it was asked last
  TaskScope scope_;
};

}  // namespace stria
