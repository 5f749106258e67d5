// For tests: members of a replicated store in one process, in virtual time. Their disks are MemKvMedia, which lose what is not
// synced; their messages are lost, late and doubled, as the world is told. The register is one variable, changed by
// compare-and-swap.
//
// Tests drive members by hand (Follow, Open, Crash), or let Run do everything from its seed: writers, failures, failovers,
// changes of the set, and in the end rest. Whatever happens, these hold (`problem()`):
//   - a batch whose Sync has returned is in each later primary, and at that moment with every member of the register's set;
//   - a store that is whole is what its log says;
//   - when all is healed, all members come back, and their stores are equal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_executor.h"
#include "common/exec/task.h"
#include "common/kv/mem_kv.h"
#include "common/random.h"
#include "meta/replica/follower.h"
#include "meta/replica/replica_joiner.h"
#include "meta/replica/replica_primary.h"
#include "meta/replica/replica_roles.h"
#include "meta/replica/replica_source.h"
#include "meta/replica/replicated_kv.h"

namespace stria {

// The whole content of the replicated families.
using StoreContent = std::map<std::pair<KvFamily, std::string>, std::string>;

struct WorldRegister {
  uint64_t version = 1;
  uint64_t term = 0;
  std::string primary;
  MemberSet in_sync;
};

class ReplicaWorld {
 public:
  // `members`: "m0", "m1", ... The first has a log that begins at 0; the others are empty.
  ReplicaWorld(uint64_t seed, size_t members);
  ~ReplicaWorld();

  class Member;
  Member& member(size_t i) { return *members_[i]; }
  Member& member(const std::string& name);
  size_t size() const { return members_.size(); }
  SimExecutor& ex() { return ex_; }
  Random& rng() { return rng_; }
  WorldRegister& reg() { return register_; }

  // ---- By hand
  void Start(Member& m);                 // opens its disk, and follows
  void Follow(Member& m);                // gives up whatever role it had
  // It becomes the primary of `term`, connected to all others; needed are those of the register's set.
  void Open(Member& m, uint64_t term);
  void Crash(Member& m, bool power);     // kill -9, or a power cut
  void Write(Member& m, const KvBatch& batch);
  // Sync of that primary returns within that time without an error.
  bool Syncs(Member& m, int64_t ns);
  void RunFor(int64_t ns) { ex_.RunFor(ns); }
  bool RunUntil(const std::function<bool()>& done, int64_t ns) { return ex_.RunUntil(done, ex_.NowNs() + ns); }
  void Cut(const std::string& from, const std::string& to, bool cut);
  static StoreContent ContentOf(KvStore& kv);
  // What a log that ends with that point says the store is.
  StoreContent ContentAt(const LogPoint& point) const;

  // ---- By the seed
  // Returns problem().
  std::string Run();
  const std::string& problem() const { return problem_; }
  struct Counts {
    uint64_t acked = 0, terms = 0, rewinds = 0, copies = 0, shrinks = 0, grows = 0, crashes = 0;
  };
  const Counts& counts() const { return counts_; }

  // What messages suffer, and how members are set.
  struct Settings {
    uint64_t loss_percent = 0;
    uint64_t double_percent = 0;
    int64_t max_delay_ns = 1 * kMillisecond;
    int64_t straggle_ns = 0;       // one message in 50 takes up to so long; 0: none
    size_t min_in_sync = 1;
    size_t max_rewind_bytes = 1 * kMiB;
    int64_t max_sync_ns = 1 * kMillisecond;
    ReplicaStoreOptions store;
    ShipperOptions shipper;
    ReplicaSourceOptions source;
  };
  Settings& settings() { return settings_; }

 private:
  class Link;
  struct Node {  // of the tree of all batches that were ever written, by chain
    uint64_t before = 0;
    LogPoint point;
    KvBatch batch;
  };
  template <class Reply, class Request>
  Task<Result<Reply>> Pass(std::string from, std::string to, Request request,
                           Task<Result<Reply>> (ReplicaService::*call)(Request));
  int64_t Delay();
  bool Loses(const std::string& from, const std::string& to);
  void Fail(std::string what);
  bool HasPoint(Member& m, const LogPoint& point);
  std::set<uint64_t> PathTo(const LogPoint& point) const;

  Task<bool> Swap(WorldRegister old, WorldRegister next);
  Task<void> Writer(Member* m);
  Task<void> Durably(Member* m, LogPoint point);
  Task<void> Shrink(Member* m, std::string who);
  Task<void> Grow(Member* m, std::string who);
  Task<void> Control();
  Task<void> Failover();
  Task<void> Faults();
  void CheckWhole(Member& m);
  void Heal();
  bool Settled();

  SimExecutor ex_;
  Random rng_;
  Settings settings_;
  WorldRegister register_;
  std::map<uint64_t, Node> nodes_;
  std::map<CommitSeq, LogPoint> acked_;
  std::set<std::pair<std::string, std::string>> cut_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ReplicaService>> links_;
  std::string problem_;
  Counts counts_;
  bool quiet_ = false;    // nothing fails any more
  bool writing_ = false;
  uint64_t written_ = 0;
  bool failing_over_ = false;
  std::vector<std::unique_ptr<Member>> members_;
  TaskScope scope_;  // what outlives members; last
};

// A process: all of it but media and name goes with a crash.
class ReplicaWorld::Member final : public PrimaryHost, public FollowerHost {
 public:
  Member(ReplicaWorld* world, std::string own_name) : name(std::move(own_name)), world_(world) {}

  // PrimaryHost, FollowerHost
  void AskDrop(const std::string& who, const std::string& why) override;
  void CaughtUp(const std::string& who) override;
  void Heard(const std::string& who, int64_t) override { heard.insert(who); }
  void Deposed(uint64_t) override { deposed = true; }
  uint64_t RegisterVersion() const override { return world_->reg().version; }
  int64_t TokenTimeNs() const override { return world_->ex().WallNs(); }
  Result<void> Hear(uint64_t, const std::string&, uint64_t, int64_t) override { return Ok(); }

  const std::string name;
  const std::shared_ptr<MemKvMedia> media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  bool up = false;
  uint64_t life = 0;
  bool deposed = false;  // seen; it is made to follow soon
  bool changing = false; // the set
  uint64_t rewinds_seen = 0;
  std::map<std::string, std::string> asked_drop;  // by member, why
  MemberSet caught_up;
  MemberSet heard;

  std::shared_ptr<MemKv> kv;
  std::unique_ptr<ReplicaStore> store;
  std::unique_ptr<Follower> follower;
  std::unique_ptr<ReplicaJoiner> joiner;
  std::unique_ptr<ReplicaPrimary> primary;
  std::unique_ptr<ReplicaSource> source;
  std::unique_ptr<ReplicatedKv> top;  // of the primary
  ReplicaRoles roles;
  std::unique_ptr<TaskScope> answering;  // calls of others that it works on
  std::unique_ptr<TaskScope> work;       // what it does by itself

  // Gives up its role, and with `all` the store.
  void Drop(bool all);

 private:
  ReplicaWorld* const world_;
};

}  // namespace stria
