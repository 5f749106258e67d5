// Messages of replica.proto.
#include "api/beat_api.h"
#include "api/replica_api.h"
#include "proto/replica.pb.h"
#include "proto/wire_data_header.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_ENUM(AppendResult, kTaken, kOldTerm);
WIRE_ENUM(JoinVerdict, kTail, kWait);
WIRE_ENUM(MemberRole, kUnreachable, kStalled);
WIRE_ENUM(MemberChange, kPromote, kPromoteLosing);

WIRE_MESSAGE(LogPoint) { F(seq); F(term); F(chain); }
WIRE_MESSAGE(TermRun) { F(term); F(first); }
WIRE_MESSAGE(ShippedBatch) { F(term); F(length); }
WIRE_MESSAGE(AppendRequest) {
  F(header); F(term); F(primary); F(version); F(token_time_ns); F(follows); F(prev); F(batches); F(commit); F(sync); F(join);
  F(over); F(to);
}
WIRE_MESSAGE(AppendReply) { F(result); F(term); F(last); F(durable); F(whole); F(fetched); }
WIRE_MESSAGE(BeatRequest) { F(header); F(term); F(primary); F(to); }
WIRE_MESSAGE(BeatReply) { F(term); F(promised); }
WIRE_MESSAGE(ReplicaJoinRequest) { F(header); F(term); F(member); F(last); F(history); F(whole); F(fetched); F(copy); }
WIRE_MESSAGE(ReplicaJoinReply) { F(verdict); F(term); F(incarnation); F(common); F(history); }
WIRE_MESSAGE(FetchKey) { F(family); F(key); }
WIRE_MESSAGE(FetchKeysRequest) { F(header); F(term); F(keys); }
WIRE_MESSAGE(FetchKeysReply) { F(answered); F(at); }
WIRE_MESSAGE(FetchPageRequest) { F(header); F(term); F(family); F(from); }
WIRE_MESSAGE(FetchPageReply) { F(at); F(end); F(next_family); F(next_from); }

WIRE_MESSAGE(LocateRequest) { F(header); F(known_term); F(wait_ns); }
WIRE_MESSAGE(MemberAddress) { F(name); F(address); }
WIRE_MESSAGE(LocateReply) { F(term); F(primary); F(address); F(members); }
WIRE_MESSAGE(AskRequest) { F(header); F(member); }
WIRE_MESSAGE(AskReply) { F(term); F(last); F(history); F(whole); F(silent_ns); }
WIRE_MESSAGE(MemberState) {
  F(name); F(uuid); F(address); F(role); F(term); F(last); F(durable); F(lag); F(in_sync); F(coordinator); F(coordinator_problem);
  F(problem);
}
WIRE_MESSAGE(MemberStatusRequest) { F(header); F(alone); }
WIRE_MESSAGE(MemberStatusReply) { F(self); F(version); F(incarnation); F(term); F(primary); F(min_in_sync); F(members); }
WIRE_MESSAGE(ChangeMembersRequest) {
  F(header); F(change); F(name); F(uuid); F(address); F(release); F(features); F(min_in_sync); F(handed_on);
  F(name_again);
}
WIRE_MESSAGE(ChangeMembersReply) { F(version); F(term); F(primary); }

}  // namespace wire

WIRE_CODEC(AppendRequest);
WIRE_CODEC(AppendReply);
WIRE_CODEC(BeatRequest);
WIRE_CODEC(BeatReply);
WIRE_CODEC(ReplicaJoinRequest);
WIRE_CODEC(ReplicaJoinReply);
WIRE_CODEC(FetchKeysRequest);
WIRE_CODEC(FetchKeysReply);
WIRE_CODEC(FetchPageRequest);
WIRE_CODEC(FetchPageReply);
WIRE_CODEC(LocateRequest);
WIRE_CODEC(LocateReply);
WIRE_CODEC(AskRequest);
WIRE_CODEC(AskReply);
WIRE_CODEC(MemberStatusRequest);
WIRE_CODEC(MemberStatusReply);
WIRE_CODEC(ChangeMembersRequest);
WIRE_CODEC(ChangeMembersReply);

}  // namespace stria
