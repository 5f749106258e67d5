// Messages of replica.proto.
#include "api/replica_api.h"
#include "proto/replica.pb.h"
#include "proto/wire_data_header.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_ENUM(AppendResult, kTaken, kOldTerm);
WIRE_ENUM(JoinVerdict, kTail, kWait);

WIRE_MESSAGE(LogPoint) { F(seq); F(term); F(chain); }
WIRE_MESSAGE(TermRun) { F(term); F(first); }
WIRE_MESSAGE(ShippedBatch) { F(term); F(length); }
WIRE_MESSAGE(AppendRequest) {
  F(header); F(term); F(primary); F(version); F(token_time_ns); F(follows); F(prev); F(batches); F(commit); F(sync); F(join);
}
WIRE_MESSAGE(AppendReply) { F(result); F(term); F(last); F(durable); F(whole); F(fetched); }
WIRE_MESSAGE(ReplicaJoinRequest) { F(header); F(term); F(member); F(last); F(history); F(whole); F(fetched); F(copy); }
WIRE_MESSAGE(ReplicaJoinReply) { F(verdict); F(term); F(incarnation); F(common); F(history); }
WIRE_MESSAGE(FetchKey) { F(family); F(key); }
WIRE_MESSAGE(FetchKeysRequest) { F(header); F(term); F(keys); }
WIRE_MESSAGE(FetchKeysReply) { F(answered); F(at); }
WIRE_MESSAGE(FetchPageRequest) { F(header); F(term); F(family); F(from); }
WIRE_MESSAGE(FetchPageReply) { F(at); F(end); F(next_family); F(next_from); }

}  // namespace wire

WIRE_CODEC(AppendRequest);
WIRE_CODEC(AppendReply);
WIRE_CODEC(ReplicaJoinRequest);
WIRE_CODEC(ReplicaJoinReply);
WIRE_CODEC(FetchKeysRequest);
WIRE_CODEC(FetchKeysReply);
WIRE_CODEC(FetchPageRequest);
WIRE_CODEC(FetchPageReply);

}  // namespace stria
