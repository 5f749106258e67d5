// A member while it is primary in one term: the log that it ships, the set as it knows it, and the gate for its answers. Keeps the
// two ends in step: what the shipping needs of the set, and what the set needs of the shipping.
//
// The rules (README.md): who is to enter the set counts for commits and authority before the register is asked; it is asked
// only when that member has said that it is whole, durably. Who is to leave counts until the register has been read without it.
// Nothing leaves the gate from before the place is offered to another until that is decided.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "meta/replica/answer_gate.h"
#include "meta/replica/beats/beat_desk.h"
#include "meta/replica/in_sync_set.h"
#include "meta/replica/replica_primary.h"
#include "meta/replica/replica_source.h"
#include "meta/replica/replica_store.h"

namespace stria {

// Who is told. None of these may destroy the life; they may end it.
class PrimaryLifeHost {
 public:
  virtual ~PrimaryLifeHost() = default;
  virtual void AskSwap(RegisterSwap swap) = 0;   // the coordinator, soon; the answer comes back by OnRegister
  virtual void SawTerm(uint64_t term) = 0;       // somebody knows a higher one
  virtual bool CoordinatorAnswers() const = 0;   // it has, lately
  virtual void OwnDiskHangs() = 0;               // and another one of the set could go on
  virtual int64_t TokenTimeNs() const = 0;       // for the beats
  virtual Uuid FreshNonce() = 0;
};

struct PrimaryLifeOptions {
  Uuid cluster;
  InSyncOptions in_sync;
  ShipperOptions shipper;
  ReplicaSourceOptions source;
};

class PrimaryLife final : private PrimaryHost {
 public:
  // `named`: the register that names this member, `self`, in the term of the life. REQUIRES: the store is whole and of lower terms.
  // All outlive it. `beats`: of this member, which beats for this life while it lasts.
  PrimaryLife(ReplicaStore* store, ReplicaConnector* connector, BeatDesk* beats, PrimaryLifeHost* host, const std::string& self,
              const Register& named, const PrimaryLifeOptions& options);
  ~PrimaryLife() override;

  const MetaLife& life() const { return life_; }
  const InSyncSet& set() const { return set_; }
  const std::shared_ptr<LifeGate>& gate() const { return gate_; }
  ReplicaPrimary* primary() { return &primary_; }
  ReplicaSource* source() { return &source_; }
  // The store of who serves: its batches are shipped, and durable when they are committed. Not used after the life is destroyed.
  std::unique_ptr<KvStore> MakeStore(std::shared_ptr<KvStore> local);

  // Often: at least with each beat. `step_ns`: how long ago the last one was.
  void Tick(int64_t step_ns);
  // A register that was read, or that a swap gave. False: this life is over.
  bool OnRegister(const Register& seen);
  // Nothing is answered any more. `term`: the one that is known; `where`: a sentence that says who is primary now. Idempotent.
  void End(uint64_t term, const std::string& where);
  bool ended() const { return ended_; }

  // ---- What people ask for
  using MakeNext = std::function<Result<Register>(const Register& now, const MetaLife& self, const Uuid& nonce)>;
  // T7. The register as it will be, if nothing comes between. kBusy, or why it may not be.
  Result<Register> Change(const MakeNext& make);
  // As InSyncSet's. "": whoever of the set has most.
  Result<std::string> BeginHandOver(std::string to);
  // Why a member is not, or is about not to be, in the set: a sentence; "" if nothing is known.
  std::string ProblemOf(const std::string& member) const;

 private:
  class Store;
  // ---- PrimaryHost
  void AskDrop(const std::string& member, const std::string& why) override { problems_[member] = why; }
  void CaughtUp(const std::string& member) override { problems_.erase(member); }
  void Heard(const std::string& member, int64_t sent_ns) override;
  void Deposed(uint64_t term) override;
  uint64_t RegisterVersion() const override { return set_.known().version; }
  int64_t TokenTimeNs() const override { return host_->TokenTimeNs(); }

  int64_t Now() const { return Executor::Current().NowNs(); }
  void TakeBeats();  // what was promised to the beat thread, to the set
  void Feed();     // what the shipping knows, to the set
  void Require();  // what the set needs, to the shipping
  void Connect();  // to the members as the register has them
  void Drain();    // for a planned hand-over
  Task<void> SyncAll();

  ReplicaStore* const store_;
  ReplicaConnector* const connector_;
  BeatDesk* const beats_;
  PrimaryLifeHost* const host_;
  const MetaLife life_;
  const int64_t suspect_ns_;
  bool ended_ = false;
  InSyncSet set_;
  const std::shared_ptr<LifeGate> gate_;
  std::map<std::string, MetaMember> connected_;
  std::map<std::string, std::string> problems_;  // by member
  bool syncing_ = false;
  ReplicaPrimary primary_;
  ReplicaSource source_;
  TaskScope scope_;  // last: its tasks use everything above
};

}  // namespace stria
