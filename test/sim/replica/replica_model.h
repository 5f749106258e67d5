// Metadata servers among each other, without their metadata: two or three members whose stores are logs of numbered batches, which follow
// the rules of meta/replica (Election, InSyncSet, Promises, Register) over a simulated network and a simulated coordinator. One seed is a
// minute: messages are lost, doubled and late, clocks run at different rates, members pause, are killed, lose power, also all at
// once and in the middle of a rewind or a takeover; links are cut in one or both ways; the coordinator is away. After that all heals.
//
// What must hold: every acknowledged operation is in each later primary, and is durable on each member of the register's set at that
// moment; no answer leaves a member after a later term has opened; at most one member has authority; the store of a primary is what its
// log says; in the end one member serves, all are in the set, and their stores are the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_executor.h"
#include "common/purpose_mac.h"
#include "meta/replica/log_shape.h"
#include "meta/replica/register.h"
#include "test/sim/replica/fake_coordinator.h"

namespace stria {

struct ReplicaStats {
  uint64_t acks = 0, reads = 0, stalls = 0, terms = 0, rewinds = 0, joins = 0, shrinks = 0, offers = 0, at_once = 0, crashes = 0;
  void Add(const ReplicaStats& other);
  std::string ToString() const;
};

// A store: writes are atomic and in order, a power cut leaves a prefix with all that was synced.
class ModelStore {
 public:
  using Puts = std::vector<std::pair<uint32_t, uint64_t>>;  // key, value
  using Values = std::map<uint32_t, uint64_t>;
  struct Entry {
    uint64_t term;
    Puts puts;
    size_t record;  // the write that brought it
    bool operator==(const Entry& o) const { return term == o.term && puts == o.puts; }
  };
  // Of a store that was rewound: its values of `keys` are those of sequence `whole_from`, written in `term`.
  struct Marker {
    std::set<uint32_t> keys;
    uint64_t whole_from = 0, term = 0;
  };

  void Append(uint64_t term, Puts puts);
  // Keeps the log up to `seq`, and has `values` (nullopt: none) under `keys` from now on.
  void Rewind(uint64_t seq, const std::set<uint32_t>& keys, const Values& values, uint64_t whole_from, uint64_t term);
  void SyncUpTo(size_t records) { synced_ = std::max(synced_, std::min(records, records_.size())); }
  void PowerCut(Random* rng);

  size_t records() const { return records_.size(); }
  const std::vector<Entry>& log() const { return log_; }
  const LogShape& shape() const { return shape_; }
  const Values& values() const { return values_; }
  const std::unique_ptr<Marker>& marker() const { return marker_; }
  uint64_t last() const { return log_.size(); }
  bool Has(uint64_t seq, uint64_t term) const { return seq <= last() && log_[seq - 1].term == term; }
  bool HasDurably(uint64_t seq, uint64_t term) const { return Has(seq, term) && log_[seq - 1].record <= synced_; }
  uint64_t DurableUpTo() const;  // the longest prefix that is synced
  Values Replayed() const;       // what the log says
  uint64_t rewinds = 0;
  uint64_t opened = 0;  // a file of its own, written at once

 private:
  struct Record {
    bool rewind = false;
    uint64_t term = 0;
    Puts puts;
    uint64_t seq = 0;
    std::set<uint32_t> keys;
    Values values;
    uint64_t whole_from = 0;
  };
  void Apply(const Record& r, size_t number);
  std::vector<Record> records_;
  size_t synced_ = 0;
  std::vector<Entry> log_;
  LogShape shape_;
  Values values_;
  std::unique_ptr<Marker> marker_;
};

class ReplicaModel {
 public:
  explicit ReplicaModel(uint64_t seed);
  ~ReplicaModel();
  // "" or the first thing that does not hold.
  std::string Run();
  const ReplicaStats& stats() const { return stats_; }

 private:
  struct Member;
  struct Append;
  struct Reply;
  // ---- the world
  double Unit(double low, double high) { return low + (high - low) * ex_.rng().Unit(); }
  bool Chance(double p) { return ex_.rng().Unit() < p; }
  void At(double delay_s, std::function<void()> fn);
  void AtMember(double delay_s, Member* m, std::function<void()> fn);
  void Deliver(Member* to, std::function<void()> fn);
  void Send(Member* from, Member* to, std::function<void()> fn);
  double MessageDelay();
  void Bad(std::string what);
  void Start(Member* m);
  void Crash(Member* m, bool power);
  void Strike(Member* m);
  void Fault();
  void Heal();
  void CheckEnd(uint64_t acks_before);
  // ---- a member
  void Loop(Member* m);
  void Do(Member* m, std::vector<struct ElectionAction> actions);
  Task<void> ReadRegister(Member* m);
  Task<void> SwapRegister(Member* m, RegisterSwap swap);
  void OnRegister(Member* m, const Register& r);
  void Poll(Member* m, uint64_t attempt);
  void Open(Member* m, const Register& r);
  // ---- a primary
  void Client(Member* m);
  void PrimaryTick(Member* m);
  void Ship(Member* m, Member* to);
  void ShipAll(Member* m);
  void Flush(Member* m);
  void OnReply(Member* m, Member* from, Reply reply);
  void Rewind(Member* m, Member* to, const Reply& reply, uint64_t common);
  // ---- a follower
  void OnAppend(Member* m, Member* from, const Append& a);
  void Sync(Member* m);
  int64_t Now(const Member* m) const;
  Register InForce() const;

  SimExecutor ex_;
  PurposeMac mac_;
  FakeCoordinator etcd_;
  TaskScope scope_;
  std::vector<std::unique_ptr<Member>> members_;
  std::set<std::pair<size_t, size_t>> cut_;  // from, to
  double lost_ = 0, straggle_ = 0;
  bool quiet_ = false, faults_ = true;
  uint64_t nonce_ = 0, op_ = 0;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> acked_;  // sequence: term, operation
  std::vector<std::pair<uint64_t, size_t>> opened_;          // term, member
  std::string bad_;
  ReplicaStats stats_;
};

}  // namespace stria
