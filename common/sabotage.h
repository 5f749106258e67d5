// Bugs that tests switch on to prove that the simulator's checkers find them (test/sim/sabotage_test).
// Production code asks Sabotaged() at the one place where each would be; nothing but
// common/sabotage_testing.h switches one on. Costs a relaxed load.
#pragma once

#include <atomic>
#include <cstdint>

namespace stria {

enum class Sabotage : uint8_t {
  kNone,
  kCommitBeforeSeal,    // a writer commits a stripe without having sealed its shards
  kSealBeforeSync,      // a data server says "sealed" without having synced the bytes
  kForgetTail,          // a data server does not look for small shards that its index has lost
  kSkipChecksum,        // reads are not compared with their checksums
  kCollectAtOnce,       // garbage is deleted although readers may still need it
  kRebuildWrongColumn,  // a rebuild makes another column's bytes and does not compare them
  kReuseShardIds,       // a restarted metadata server gives out shard ids again
  kRetryTwice,          // a repeated request is carried out again
  kLoseInvalidation,    // others are not told of changes
  kAckBeforeSync,       // fsync returns before the journal is synced
  kForgetLocks,         // a client does not claim its locks after a restart of the metadata server
  kLoseLockFree,        // a waiter for a lock is not told that it is free
  kCloneInTwo,          // a clone is made of two, some time after each other
  kAnswerBeforeTold,    // answers about names overtake invalidations of these names
  kFreeOpenFiles,       // unlinked files that a session has open are freed
  kLeaveLonely,         // the last column of a fold is not mirrored again
  kAppendAtKnownSize,   // an append goes where the client believes the end to be
  kOpenHoldsLeaseMu,    // an open holds the lock that a recall of its client waits for
  kDropNames,           // any failed lookup takes a name that the kernel has for gone
  kVisitUnasked,        // names of a directory are looked at although a client has it to itself
  kBelieveRevoked,      // certificates that were revoked are believed
  kBelieveExpired,      // certificates that are over are believed
  kBelieveFormer,       // certificates of an authority that was removed are believed
  kRenewExpired,        // a certificate that is over is renewed
  kTakeFencedTokens,    // a data server takes tokens of a session that was ended
  kKeepOldKeys,         // a data server believes every key that it ever had
  kCommitByMajority,    // a batch counts as committed although not all members of the set have it
  kFollowUnsynced,      // a follower says "durable" of batches that it has not synced
  kFollowBlindly,       // a follower takes batches without looking at what precedes them
  kRewindLogOnly,       // a rewind leaves what the batches have written
  kForgetMarker,        // a rewind forgets the keys of the rewind before it
  kIgnoreFetched,       // what was fetched from a primary whose history ended is believed
  kServeDeposed,        // a metadata server goes on although a later life of it has been
  kIgnoreTerms,         // and clients and data servers listen to it
  // Of the metadata servers among each other (test/sim/replica).
  kUncleanElection,     // a member that is not in the in-sync set takes over
  kEagerTakeover,       // a standby does not wait until the primary's authority is over
  kPromiseAsCandidate,  // a member that has asked for the primary's place goes on promising
  kForgetPromises,      // a restarted member believes that it has promised nothing
  kGrowBeforeRequired,  // a member joins the set before its acknowledgements are required
  kAnswerBeforeShrink,  // a silent member is not waited for before the register says so
  kMajorityCommits,     // acknowledgements of most of the set are taken for those of all
  kIgnoreAuthority,     // a primary answers although promises have run out
  kCountFromAnswer,     // promises are counted from the answer to a beat
  kServeWhileHanding,   // a primary serves while it has asked to hand over
  kBeatForHung,         // beats go on however long the logic of their member has hung
};

namespace sabotage_internal {
inline std::atomic<Sabotage> active{Sabotage::kNone};
}  // namespace sabotage_internal

inline bool Sabotaged(Sabotage s) {
  return sabotage_internal::active.load(std::memory_order_relaxed) == s;
}

}  // namespace stria
