// Shared by the operations on stripes. Internal to meta/ops.
//
// A stripe's life:   OpAllocate -> allocated -> OpCommit -> live -> last reference gone -> garbage
//                                      \-> OpFreeStripe, OpCollectSession -------------> garbage
#pragma once

#include "meta/ops/ops.h"

namespace stria {

// The stripe's record goes, its shards become garbage of this transaction. It has no references.
Result<void> DiscardStripe(Txn& txn, StripeId stripe, Touched* touched);
// `allocated`: of a stripe that was never committed; 0: somebody may still read it.
void PutGarbage(Txn& txn, TargetId target, ShardId shard, StripeId stripe, CommitSeq allocated = {});
// Takes a sealed stripe as the session reports it. kConflict: not allocated to it, or not as allocated.
// The commit that allocated it.
Result<CommitSeq> MakeStripeLive(Txn& txn, SessionId session, const StripeInfo& sealed);

}  // namespace stria
