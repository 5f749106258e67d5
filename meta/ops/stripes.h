// Shared by the operations on stripes. Internal to meta/ops.
//
// A stripe's life:   OpAllocate -> allocated -> OpCommit -> live -> last reference gone -> garbage
//                                      \-> OpFreeStripe, OpCollectSession -------------> garbage
// OpFold (fold.cc) makes one live stripe of parts of others, which end with that.
#pragma once

#include "meta/ops/ops.h"

namespace stria {

// The stripe's record goes, its shards become garbage of this transaction. It has no references.
Result<void> DiscardStripe(Txn& txn, StripeId stripe, Touched* touched);
// `allocated`: of a stripe that was never committed; 0: a reader may still use it.
void PutGarbage(Txn& txn, TargetId target, ShardId shard, StripeId stripe, CommitSeq allocated = {});
// Counts a live stripe in (by = 1) or out (-1).
void CountLive(Txn& txn, const StripeInfo& info, int64_t by);
// Takes a sealed stripe as the session reports it. kConflict: not allocated to it, or not as allocated.
// The commit that allocated it.
Result<CommitSeq> MakeStripeLive(Txn& txn, SessionId session, const StripeInfo& sealed);

}  // namespace stria
