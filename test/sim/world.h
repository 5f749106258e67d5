// What a simulation runs and checks: files with one writer each, read by everyone; names in a directory
// per client; a fault driver within a budget; the state that must come back by itself.
//
// A check that fails stops the run; failure() says what, where and when. The same seed gives the same
// run, step by step (trace()).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "test/sim/file_model.h"
#include "test/sim/sim_cluster.h"

namespace stria {

struct SimFaultPlan {
  bool network = true;       // delays, losses, duplicates
  bool crash_clients = true;
  bool crash_meta = true;
  bool crash_nodes = true;   // and bring them back
  bool power_cuts = true;    // crashes may lose what was not synced
  bool partitions = true;
  bool lose_nodes = false;   // for good; a fresh one comes
  bool bit_rot = false;
  bool slow_disks = true;
};

struct SimRunOptions {
  SimClusterOptions cluster;
  SimFaultPlan faults;
  size_t files_per_client = 2;
  uint64_t max_file_bytes = 1 * kMiB;
  int64_t duration_ns = 60 * kSecond;  // of the time with faults
  int64_t settle_ns = 900 * kSecond;   // at most, until everything is whole again
};

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
  struct File {
    std::string name;
    size_t writer = 0;  // client
    FileModel model;
    AsyncMutex mu;      // held by the writer from open to close, and by readers
    uint64_t opened_generation = 0;  // of the session of the last open for writing; 0 none
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
  };
  struct Opened {
    VfsHandlePtr handle;
    InodeId ino;
    std::string content;
  };

  void Fail(const std::string& what);
  // With STRIA_SIM_TRACE set: a line per step of the workload and per fault.
  void Trace(const std::string& what) const;
  bool failed() const { return !failure_.empty(); }
  bool stopping() const { return stopping_ || failed(); }
  std::string Now() const;

  // workload.cc
  Task<void> Setup();
  void StartActors(size_t client);
  Task<void> Writer(size_t client, File* file, uint64_t seed);
  Task<bool> WriteSession(size_t client, File* file, Random& rng);
  Task<bool> OneOperation(size_t client, File* file, VfsHandlePtr h, InodeId ino, Random& rng);
  Task<void> Reader(size_t client, uint64_t seed);
  Task<void> Namer(size_t client, uint64_t seed);
  Task<bool> OneNameOperation(size_t client, Names* names, Random& rng);
  Task<bool> ResyncNames(size_t client, Names* names);
  Task<Result<Opened>> OpenAndRead(size_t client, File* file, bool for_write);
  Task<Result<std::string>> ReadAll(size_t client, VfsHandlePtr h, InodeId ino);
  bool CheckContent(size_t client, File* file, const std::string& content, const char* who);

  // faults.cc
  Task<void> Driver();
  void OneFault();
  void CrashClientNow(size_t c);
  void After(int64_t ns, std::function<void()> fn);
  void HealAll();
  bool Whole(const StatusReply& s) const;
  Task<void> FollowRepairs();
  Task<void> ReplaceNode(size_t n);
  Task<bool> AdminOnNode(AdminVerb verb, size_t n);  // false: not done (yet)
  Task<void> Settle();
  Task<void> FinalChecks();

  const SimRunOptions options_;
  const bool tracing_;
  SimCluster cluster_;
  Random rng_;
  std::string failure_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<std::unique_ptr<Names>> names_;
  size_t actors_ = 0;
  // Nodes whose shards may be missing or wrong now: at most m at a time.
  std::set<size_t> impaired_;
  std::set<size_t> lost_;      // never come back
  std::set<size_t> must_heal_;  // impaired until the cluster is whole again
  std::map<std::string, uint64_t> counts_;
  std::vector<std::unique_ptr<Timer>> timers_;
  TaskScope scope_;
};

}  // namespace stria
