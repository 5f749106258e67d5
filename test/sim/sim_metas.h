// Several metadata servers of a simulated cluster: each is a whole OneOfSeveral, as stria-meta has it, on a host of its own, with a
// store that outlives its process; and the coordinator by which they agree.
//
// It looks on all the time. What may never be, and was seen, is problem():
//   - two members may answer at a time, or one answers a client although a later term has opened;
//   - something was said to be durable that a member of the register's set does not have at that moment, or that a later primary does
//     not have;
//   - two whole stores are of the same point of the log, and differ.
//
// Not thread-safe: all is on the simulator's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/coordinator.h"
#include "common/exec/sim_executor.h"
#include "common/exec/task.h"
#include "common/kv/mem_kv.h"
#include "common/purpose_mac.h"
#include "common/random.h"
#include "meta/one_of_several.h"
#include "meta/replica/register.h"
#include "meta/service/meta_server.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "test/sim/replica/fake_coordinator.h"

namespace stria {

// "meta1", "meta2", ...: members count from 0.
std::string MetaHost(size_t m);
std::string MetaAddress(size_t m);

// What is given by pointer outlives it.
struct SimMetasNeeds {
  SimExecutor* executor = nullptr;
  SimNetwork* network = nullptr;
  Random* rng = nullptr;
  ClusterKey key;
  Uuid cluster;
  MetaServerOptions server;
  DispatchOptions doors;  // of calls of clients, nodes and members
};

class SimMetas {
 public:
  // Nobody is started, and all stores are empty.
  SimMetas(SimMetasNeeds needs, size_t members);
  ~SimMetas();
  SimMetas(const SimMetas&) = delete;
  SimMetas& operator=(const SimMetas&) = delete;

  size_t size() const { return members_.size(); }
  std::vector<std::string> addresses() const;
  FakeCoordinator& coordinator() { return coordinator_; }

  // ---- Before the first start. The first member's store is formatted, under this id.
  const std::shared_ptr<MemKvMedia>& media(size_t m) const { return members_[m]->media; }
  const Uuid& store_id(size_t m) const { return members_[m]->store; }
  // It becomes the first of several; the others ask to be taken in when they run.
  Task<Result<void>> Found();

  // ---- Processes. Not from within one of them
  // Nothing if it runs already.
  void Start(size_t m);
  void StartAll();
  // kill -9, or a power cut, which loses what was not synced. Nothing if it is down.
  void Crash(size_t m, bool power_cut);
  // A fresh disk under the same name, which is another member: it is taken in when people have removed the former one. REQUIRES: down.
  void Wipe(size_t m);
  bool up(size_t m) const { return members_[m]->process != nullptr; }
  // What a sync takes at most; counts from the member's next start.
  void SetSyncNs(size_t m, int64_t ns) { members_[m]->sync_ns = ns; }
  // While its disk is full, the first thing that a life of it writes fails, and so it ends; its machine starts it again after a while.
  void SetFull(size_t m, bool full);

  // ---- What is so now
  // Who serves; if several believe it, in the highest term.
  std::optional<size_t> Primary() const;
  MetaServer* server() const;  // its; null: nobody serves
  const MetaNode* node(size_t m) const { return up(m) ? &members_[m]->process->node() : nullptr; }
  // Where calls go best: the primary's address, else the one that the register names.
  std::string PrimaryAddress() const;
  // What a metadata server started on the store of the primary, or of the one that the register names, would find.
  KvStore& Contents();
  const Register& InForce() const;
  // One serves, as the register has it, and all members are in the set.
  bool AllIn() const;
  // All run, and have the same log to the same point, and what it says.
  bool AllEqual();
  // For people.
  std::string Describe() const;
  // What was said to be durable is lost with those that had it, and nobody is to have it any more.
  void GiveUp() { durable_ = LogPoint(); }

  // "" or the first thing that may not be.
  const std::string& problem() const { return problem_; }
  struct Counts {
    uint64_t terms = 0, crashes = 0, ends = 0, durable = 0, answers = 0, compared = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  class Door;
  struct Member {
    size_t number = 0;
    std::string host;
    Uuid store;
    bool joins = false;
    int64_t sync_ns = 2 * kMillisecond;
    bool full = false;
    uint64_t term = 0;  // the last in which it was seen to serve
    std::shared_ptr<MemKvMedia> media;
    std::unique_ptr<MemKv> contents;
    std::unique_ptr<Coordinator> coordinator;
    std::unique_ptr<TransportFactory> factory;
    std::unique_ptr<TransportDataConnector> data;
    std::unique_ptr<OneOfSeveral> process;
    std::unique_ptr<Door> door;
    std::unique_ptr<TaskScope> scope;
  };
  Uuid FreshId();
  MetaServer* ServerOf(const Member& m) const { return m.process ? m.process->server() : nullptr; }
  void Fail(const std::string& what);
  Task<void> Watch();
  void Look();
  void Serves(Member* m, uint64_t term);
  void NoteDurable(Member* m, MetaServer* server);
  bool HasPoint(const Member& m, const LogPoint& point) const;
  void Compare(const Member& m);
  void Answered(Member* m, const std::string& method, const Result<WireMessage>& reply);
  void Ended(Member* m, const Error& why);
  Task<void> StartLater(size_t number);

  const SimMetasNeeds needs_;
  Random rng_;
  const PurposeMac mac_;
  FakeCoordinator coordinator_;
  mutable Register in_force_;         // decoded
  mutable uint64_t in_force_of_ = 0;  // the coordinator's change of which that is
  uint64_t ids_ = 0;
  std::string problem_;
  Counts counts_;
  uint64_t highest_ = 0;  // term that has opened
  LogPoint durable_;      // the last that a primary has said to be durable
  std::map<uint64_t, uint64_t> digests_;  // of whole stores, by chain
  std::vector<std::unique_ptr<Member>> members_;
  TaskScope scope_;  // last
};

}  // namespace stria
