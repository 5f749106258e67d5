// Both ends of api/replica_api.h on a transport. As stubs.h says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/beat_api.h"
#include "api/replica_api.h"
#include "proto/stubs.h"
#include "proto/transport.h"

namespace stria {

inline constexpr char kReplicaServiceName[] = "stria.v1.Replica";

#define STRIA_REPLICA_METHODS(X)                    \
  X(Append, AppendRequest, AppendReply)             \
  X(Join, ReplicaJoinRequest, ReplicaJoinReply)     \
  X(FetchKeys, FetchKeysRequest, FetchKeysReply)    \
  X(FetchPage, FetchPageRequest, FetchPageReply)

class ReplicaStub final : public ReplicaService {
 public:
  explicit ReplicaStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_REPLICA_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

inline constexpr char kBeatServiceName[] = "stria.v1.Beats";

#define STRIA_BEAT_METHODS(X) X(Beat, BeatRequest, BeatReply)

class BeatStub final : public BeatService {
 public:
  explicit BeatStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_BEAT_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

inline constexpr char kMemberServiceName[] = "stria.v1.Members";

#define STRIA_MEMBER_METHODS(X)                                \
  X(Locate, LocateRequest, LocateReply)                        \
  X(Ask, AskRequest, AskReply)                                 \
  X(MemberStatus, MemberStatusRequest, MemberStatusReply)      \
  X(ChangeMembers, ChangeMembersRequest, ChangeMembersReply)

class MemberStub final : public MemberService {
 public:
  explicit MemberStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_MEMBER_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

using MemberDispatcher = ServiceDispatcher<MemberService>;
extern template class ServiceDispatcher<MemberService>;

using BeatDispatcher = ServiceDispatcher<BeatService>;
extern template class ServiceDispatcher<BeatService>;

using ReplicaDispatcher = ServiceDispatcher<ReplicaService>;
extern template class ServiceDispatcher<ReplicaService>;

class TransportReplicaConnector final : public ReplicaConnector {
 public:
  explicit TransportReplicaConnector(TransportFactory* factory) : factory_(factory) {}
  std::shared_ptr<ReplicaService> ConnectReplica(const std::string& address) override {
    std::shared_ptr<ReplicaService>& stub = stubs_[address];
    if (!stub) stub = std::make_shared<ReplicaStub>(factory_->Make(address));
    return stub;
  }

 private:
  TransportFactory* factory_;
  std::map<std::string, std::shared_ptr<ReplicaService>> stubs_;  // of the few metadata servers
};

class TransportBeatConnector final : public BeatConnector {
 public:
  explicit TransportBeatConnector(TransportFactory* factory) : cache_(factory) {}
  std::shared_ptr<BeatService> ConnectBeats(const std::string& address) override { return cache_.Get(address); }

 private:
  PeerCache<BeatService, BeatStub> cache_;
};

class TransportMemberConnector final : public MemberConnector {
 public:
  explicit TransportMemberConnector(TransportFactory* factory) : cache_(factory) {}
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return cache_.Get(address); }

 private:
  PeerCache<MemberService, MemberStub> cache_;
};

}  // namespace stria
