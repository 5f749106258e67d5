// One of several metadata servers, as the program has it: the member (meta/replica/meta_node.h), the house that it serves with while it
// is the primary, and the desk for questions about the members. What listens is elsewhere (meta_listeners.h), and so are store and
// coordinator.
//
// It keeps the register true about itself: address and release, and, if it is told to join, that it is there at all.
//
// Destroying it at any point is a crash of this member. Destroy first whoever holds calls of it.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/coordinator.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/purpose_mac.h"
#include "meta/authority_follower.h"
#include "meta/core/members_seen.h"
#include "meta/enrolment/member_authorities.h"
#include "meta/ha_config.h"
#include "meta/member_view.h"
#include "meta/meta_house.h"
#include "meta/replica/beats/beat_sender.h"
#include "meta/replica/member_desk.h"
#include "meta/replica/meta_node.h"
#include "proto/replica_stubs.h"
#include "proto/stubs.h"
#include "proto/transport.h"
#include "proto/trust_stubs.h"
#include "trust/audit/audit_sink.h"

namespace stria {

// What it is given by pointer outlives it.
struct OneOfSeveralParams {
  HaConfig ha;  // complete
  ClusterKey key;                      // seals the register
  std::vector<ClusterKey> other_keys;  // may have sealed it
  Uuid cluster;
  Uuid store;           // of this directory
  std::string release;
  std::string address;  // of the server, for tokens
  bool joins = false;   // an empty store asks to become a member
  std::shared_ptr<KvStore> kv;  // of kReplicatedFamilies
  Coordinator* coordinator = nullptr;
  TransportFactory* transports = nullptr;  // to the other members
  std::function<ServedMetaParams()> served;  // for a life that begins, as things are now
  DispatchOptions admission;                 // of calls of and about members
  AuditSink* audit = nullptr;                // of what admins change about them; null: nobody is told
  bool beats_elsewhere = false;  // its beats are sent by somebody else, by beats(); else here, on the executor
  std::function<void(const std::vector<std::string>&)> members;  // is told their addresses when these change
  AuthorityFollower* authority = nullptr;    // its own files of the cluster's authority; null: insecure
  std::function<Uuid()> nonce;               // gives one that was never used; null: by the operating system's chance
};

// The times of the settings.
MetaNodeOptions NodeOptionsOf(const HaConfig& ha);

class OneOfSeveral {
 public:
  explicit OneOfSeveral(OneOfSeveralParams params);
  ~OneOfSeveral();
  OneOfSeveral(const OneOfSeveral&) = delete;
  OneOfSeveral& operator=(const OneOfSeveral&) = delete;

  // Opens the log, and takes part from then on. Once. As MetaNode::Start.
  Result<void> Start();
  // Its services, in every role; it outlives the router's calls. After Start.
  void AddTo(Router* router);
  // As MetaNode's.
  Task<void> Leave() { return node_->Leave(); }
  Task<Error> WaitFatal() { return node_->WaitFatal(); }

  ServedMeta* served() { return house_.served(); }  // null: it does not serve now
  MetaServer* server() { return house_.server(); }
  const std::shared_ptr<BeatDesk>& beats() const { return node_->beats(); }  // after Start; it may outlive this
  const MetaNode& node() const { return *node_; }
  std::string Describe() const;  // its role, for people
  // All of them, as this one sees them now; before Start nobody.
  MemberStatusReply Members() const { return view_ ? view_->Now() : MemberStatusReply(); }
  // The cluster's map of now: its own, or what the primary said lately. Null: nobody has said yet.
  std::shared_ptr<const ClusterMap> Map();

  // A change of the cluster's authority is not at all of them yet: this one keeps its certificate of the former one.
  bool KeepsFormer();

  // As EnrolmentRoom's, here or at the primary. What only the primary can do gives MetaNode::WhyAway.
  Task<Result<std::string>> Join(std::string request, std::string binding, std::string address);
  Task<Result<RenewCertificateReply>> Renew(Peer who, std::string request);

 private:
  // Runs what needs the server, no longer than that is there. kNotLeader if it goes meanwhile.
  template <class T>
  Task<Result<T>> WhileItServes(Task<Result<T>> call) {
    const uint64_t number = ++calls_;
    const OneShot<Result<T>> answer;
    unanswered_.emplace(number, [answer](Error why) { answer.Set(std::move(why)); });
    inside_.Spawn(std::move(call), [this, number, answer](Result<T> r) {
      unanswered_.erase(number);
      answer.Set(std::move(r));
    });
    co_return co_await answer.Take();
  }
  ServedMetaParams NewServer();
  void ServerGoes();
  Task<void> Keep();
  Task<void> KeepListed();
  Task<void> Ask(ChangeMembersRequest request, std::string what);
  Task<void> AskForMap();
  std::vector<ListedMember> Others() const;
  Task<void> KeepAuthority();
  Task<Result<void>> FollowAuthority(std::string address);

  const OneOfSeveralParams params_;
  const PurposeMac mac_;
  std::vector<PurposeMac> other_macs_;
  TransportReplicaConnector replicas_;
  TransportMemberConnector members_;
  TransportBeatConnector beat_connector_;
  TransportMetaConnector metas_;
  TransportTrustConnector trust_;
  bool ending_ = false;
  uint64_t calls_ = 0;
  std::map<uint64_t, std::function<void(Error)>> unanswered_;
  TaskScope inside_;  // calls of the server that is there
  MetaHouse house_;
  std::unique_ptr<MetaNode> node_;
  std::unique_ptr<MemberDesk> desk_;
  std::unique_ptr<MemberView> view_;
  bool handed_ = false;  // its place as primary was given to it
  std::unique_ptr<ReplicaDispatcher> replica_dispatcher_;
  std::unique_ptr<MemberDispatcher> member_dispatcher_;
  std::unique_ptr<BeatAnswerer> beat_answerer_;
  std::unique_ptr<BeatDispatcher> beat_dispatcher_;
  std::unique_ptr<BeatSender> beat_sender_;  // null: elsewhere
  std::shared_ptr<const ClusterMap> primarys_map_;
  int64_t map_asked_ns_ = 0;
  uint64_t told_version_ = 0;  // of the register, whose addresses `members` was told
  bool was_listed_ = false;
  std::string authority_said_;  // of following the authority, to the log
  std::string said_;  // of its own place among the members, to the log
  TaskScope scope_;   // last
};

}  // namespace stria
