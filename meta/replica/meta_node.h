// This process as a member of the metadata servers: reads the register, follows or is primary, and changes from one to the other
// without a restart. What it decides by is Election; this gives it the clock, the coordinator's answers and the beats, and carries
// out what it says: the log that follows, or the life that leads (primary_life.h) with the house that serves clients.
//
//   Election --> After() --> wanted_ --> KeepRole() --> Follower, ReplicaJoiner | PrimaryLife, ServingHouse
//                  |
//                  '-> at once: who may be answered (the gate is shut), what is promised, whether the log stays as it is
//
// Durable: what README.md says of the parts. An error of the own store ends this member (WaitFatal): the process is to end then.
//
// Destroying it at any point is a crash. Destroy first whoever holds calls of replica(), then this, then the house, which may be in
// the middle of opening; nothing of what it serves may run in between.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "api/coordinator.h"
#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/purpose_mac.h"
#include "meta/replica/beats/beat_desk.h"
#include "meta/replica/election.h"
#include "meta/replica/follower.h"
#include "meta/replica/primary_life.h"
#include "meta/replica/register_client.h"
#include "meta/replica/replica_joiner.h"
#include "meta/replica/replica_roles.h"
#include "meta/replica/replica_store.h"
#include "meta/replica/serving_house.h"

namespace stria {

struct MetaNodeOptions {
  std::string self;   // the member's name
  Uuid uuid;          // of its data directory
  Uuid cluster;
  int64_t tick_ns = 50 * kMillisecond;
  ElectionOptions election;   // self and uuid are filled in
  PrimaryLifeOptions life;    // so is the cluster
  BeatOptions beats;
  ReplicaStoreOptions store;
  JoinerOptions joiner;       // so are member and cluster
  std::function<Uuid()> nonce;                     // gives one that was never used; needed
  std::function<void(const std::string&)> alarm;   // is told, in a sentence, what people should know
  std::function<Task<void>()> held;                // for tests: returns when the logic goes on, as a long step of it ends
};

// All outlive the node.
struct MetaNodeEnv {
  std::shared_ptr<KvStore> kv;  // of kReplicatedFamilies families
  Coordinator* coordinator = nullptr;
  const PurposeMac* mac = nullptr;  // kRegisterPurpose
  std::vector<const PurposeMac*> other_macs;  // of the cluster's other keys: RegisterClient
  ReplicaConnector* replicas = nullptr;
  MemberConnector* members = nullptr;
  ServingHouse* house = nullptr;
};

class MetaNode final : private FollowerHost, private PrimaryLifeHost {
 public:
  MetaNode(MetaNodeOptions options, MetaNodeEnv env);
  ~MetaNode() override;

  // Opens the log, and takes part from then on. Once. Errors: ReplicaStore::Open's.
  Result<void> Start();
  // A planned end: gives the place to another if there is one that has everything, serves no more, and does not take the place again.
  // In a few seconds, whatever happens.
  Task<void> Leave();
  // Resumes when the own store has failed, or the house; a primary has told the others by then that it serves no more, if they can be
  // reached within a second: none of them waits for what it had promised.
  Task<Error> WaitFatal();

  // What the other members call.
  ReplicaService* replica() { return &roles_; }
  // For whoever answers and sends beats, on whichever thread; it may outlive the node. After Start.
  const std::shared_ptr<BeatDesk>& beats() const { return beats_; }

  // ---- What is so now
  const MetaNodeOptions& options() const { return options_; }
  const std::optional<Register>& known() const { return election_->known(); }  // the newest that was seen
  MetaRole role() const { return election_->role(); }
  bool serving() const { return serving_ && life_ != nullptr && !life_->ended(); }
  bool leads() const { return life_ != nullptr && !life_->ended(); }  // also before it serves, which may need others of the set
  const PrimaryLife* life() const { return life_.get(); }  // null: it is not primary
  const ReplicaStore& store() const { return *store_; }
  // The primary, as far as is known here: by the register, or by its beats.
  struct Place {
    uint64_t term = 0;    // the highest known; 0: none
    std::string primary;  // "": not known
    std::string address;  // "": not known
  };
  Place FindPrimary() const;
  std::string WhereSentence() const;  // the same for people and for those that ask the wrong one
  // While it does not serve, for who asks it: kNotReady, it is about to, and nobody else is; else kNotLeader with WhereSentence.
  Error WhyAway() const;
  // kNotReady: the register was not read since the start, or its store has failed.
  Result<AskReply> AnswerAsk() const;
  // This member, and as far as it knows of them the others.
  MemberState OwnState() const;
  MemberState StateOf(const std::string& member) const;
  // The time for tokens by the primary that was heard last, as of now; 0: none was.
  int64_t HeardTokenTimeNs() const;
  bool IsRegisterToBeSealedAnew() const { return client_.IsToBeSealedAnew(); }
  // Resumes soon after the role, the register or the primary has changed.
  Task<void> WaitChange();

  // ---- What people ask for, of the primary. kNotLeader if this is not it
  // T6, to its end. "": any of the set. kRetryLater: the other one did not catch up in time, or the coordinator does not answer.
  Task<Result<void>> HandOver(std::string to);
  // T7. The register with the change in it. kRetryLater: it is not known whether it was carried out, or another came first.
  // `is_done`: whether a register has it.
  Task<Result<Register>> Change(PrimaryLife::MakeNext make, std::function<bool(const Register&)> is_done);
  // T8: this member, which is not in the set, becomes primary although what only the set has is lost. Its store is revived, and is nobody's
  // standby any more. `again`: its name, as a person has given it a second time; `answered`: the others that were reached just now. It goes
  // on though the task is destroyed. kRetryLater: it is not known whether the register has it; again is fine.
  Task<Result<Register>> PromoteLosing(std::string again, std::set<std::string> answered);

 private:
  struct Wanted {
    MetaLife life;
  };
  // ---- FollowerHost
  Result<void> Hear(uint64_t term, const std::string& primary, uint64_t version, int64_t token_time_ns) override;
  void Ended(uint64_t term, const std::string& primary) override;
  // ---- PrimaryLifeHost
  void AskSwap(RegisterSwap swap) override { scope_.Spawn(SwapRegister(std::move(swap))); }
  void SawTerm(uint64_t term) override { After(election_->OnTerm(Now(), term)); }
  bool CoordinatorAnswers() const override;
  void OwnDiskHangs() override;
  int64_t TokenTimeNs() const override;
  Uuid FreshNonce() override { return options_.nonce(); }

  int64_t Now() const { return Executor::Current().NowNs(); }
  OwnLog Own() const;
  bool IsListed() const { return known() && IsListedIn(*known()); }
  bool IsListedIn(const Register& r) const;
  void After(Election::Actions actions);
  void TellChange();
  void EndLife();
  void Fail(Error error);
  Task<void> EndWith(MetaLife life);
  // ---- The coordinator
  void ReadSoon();
  Task<void> ReadRegister();
  Task<void> SwapRegister(RegisterSwap swap);
  void SeeRegister(const Register& seen);
  void NoteCoordinator(const Error& error);
  Task<void> AskOther(uint64_t attempt, std::string member, std::string address);
  // ---- Roles
  Task<void> TickLoop();
  Task<void> KeepRole();
  void Follow();
  Task<void> BeginServing();
  Task<void> EndServing();
  Task<Result<Register>> TakeOverLosing(std::string again, std::set<std::string> answered);

  MetaNodeOptions options_;
  const MetaNodeEnv env_;
  RegisterClient client_;
  std::shared_ptr<BeatDesk> beats_;
  Promises* promises_ = nullptr;  // the desk's
  std::unique_ptr<Election> election_;
  std::unique_ptr<ReplicaStore> store_;
  std::unique_ptr<Follower> follower_;  // as long as the store: calls of others may wait in it over changes of the role
  ReplicaRoles roles_;
  uint64_t opened_term_ = 0;
  uint64_t asked_term_ = 0;  // the highest that was promised to, and the register read for
  bool reading_ = false;
  int64_t coordinator_ns_ = 0;  // when it answered last
  std::string coordinator_problem_ = "it has not answered yet";
  int64_t token_ahead_ns_ = 0;  // of NowNs, by the primary that was heard last
  bool token_known_ = false;
  Error fatal_;
  Event fatal_event_;
  using Told = std::tuple<MetaRole, uint64_t, uint64_t, bool>;  // role, version, term of the promises, whether it serves
  Told told_;
  Event changed_;

  std::optional<Wanted> wanted_;  // as primary; else it follows
  Event turn_;                    // wanted_ has changed
  bool following_ = false;
  bool serving_ = false;
  bool reviving_ = false;  // nobody else uses the store
  std::unique_ptr<ReplicaJoiner> joiner_;
  std::unique_ptr<TaskScope> joiner_work_;
  std::unique_ptr<PrimaryLife> life_;
  TaskScope watch_;  // of the house that is open
  TaskScope scope_;  // last: its tasks use everything above
};

}  // namespace stria
