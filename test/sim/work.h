// A workload of the simulator: what its actors do on every client, and what they must see. Each is a class of
// its own in a file of its own, which begins with what it relies on and how it judges.
//
// Actors run in their client's scope and die with it in the middle of anything, without a word: what they know of
// what they have done is kept in the workload, and is written down before it is done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/vfs/vfs.h"
#include "common/exec/task.h"
#include "common/random.h"
#include "test/sim/sim_cluster.h"

namespace stria {

class SimWorld;

class SimWork {
 public:
  static VfsHandle Flags(bool write, bool append = false);

  explicit SimWork(SimWorld* world) : world_(world) {}
  virtual ~SimWork() = default;
  // Before any fault, when the values of watched.cc are there.
  virtual Task<Result<void>> Setup() { co_return Ok(); }
  // The client's process has started: its actors begin (Spawn).
  virtual void Start(size_t client, uint64_t seed) = 0;
  // Its process has ended, and its actors with it.
  virtual void Died(size_t client) { (void)client; }
  // Called before the metadata server loses what it has not synced.
  virtual void BeforePowerCut() {}
  // It has nothing under way beside its actors.
  virtual bool Idle() const { return true; }
  // All faults are over, all actors have ended, it is idle, everything is whole.
  virtual Task<void> FinalChecks() { co_return; }

 protected:
  // Who did something, to tell later whether what it was told still holds.
  struct Who {
    size_t client = 0;
    uint64_t generation = 0;
    SessionId session;
    uint64_t era = 0;
  };
  // Of the client as it is now; it is up.
  Who Me(size_t client);
  // The client has not lost that session, whose lease has not run out since, and may rely on its lease now. (What becomes of
  // who comes back after his lease had run out gaps_test judges.) What an administrator ends is over for others at once, before
  // the client hears of it: so it is meant.
  bool Lives(const Who& who);
  // Nor will what it was told be lost: the session is not known to be lost, on either side.
  bool Keeps(const Who& who);

  SimCluster& cluster();
  Vfs& vfs(size_t client) { return cluster().vfs(client); }
  size_t clients();
  int64_t NowNs();
  bool stopping();
  bool faults_over();
  void Fail(const std::string& what);
  void Trace(const std::string& what);
  void Count(const std::string& what, uint64_t n = 1);
  void After(int64_t ns, std::function<void()> fn);
  // See SimWorld.
  void Strike();
  void StrikeClient(size_t client);
  void Spawn(size_t client, Task<void> actor);
  Task<Result<std::string>> ReadAll(size_t client, VfsHandlePtr h);
  static std::string Name(size_t client) { return "c" + std::to_string(client + 1); }
  // Errors after which nobody knows whether it was done.
  static bool Unknown(FsError e);

  SimWorld* const world_;

 private:
  Task<void> Run(Task<void> actor);
};

std::unique_ptr<SimWork> MakeLockWork(SimWorld* world);
std::unique_ptr<SimWork> MakeCloneWork(SimWorld* world);
std::unique_ptr<SimWork> MakeSharedNamesWork(SimWorld* world);
std::unique_ptr<SimWork> MakeOrphanWork(SimWorld* world);
std::unique_ptr<SimWork> MakeAppendWork(SimWorld* world);
std::unique_ptr<SimWork> MakeTrustWork(SimWorld* world);  // a cluster with certificates

}  // namespace stria
