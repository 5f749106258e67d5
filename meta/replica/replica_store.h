// One copy of the replicated store, on this member's disk: the store's families and its log, which change in the same batches.
// It knows no roles: the primary adds batches, a follower takes those it is sent, goes back, or is made anew.
//
// After any crash the store holds a prefix of what was done here, and what was synced is in it. So each step below is one
// batch, or a row of batches of which every prefix is a state that the next start understands.
//
// For the executor's thread. Errors of the KvStore end its use, as KvStore says.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/buffer.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/units.h"
#include "meta/replica/replica_log.h"

namespace stria {

struct ReplicaStoreOptions {
  uint64_t keep_bytes = 256 * kMiB;   // of the log's batches; older ones are removed, a few with each batch that is added
  size_t recent_bytes = 8 * kMiB;     // of the newest batches, in memory
  size_t max_marked_keys = 65'536;    // a rewind that touches more is no rewind: copy
};

struct LogRow {
  LogPoint point;
  Buffer encoded;
};

class ReplicaStore {
 public:
  // kCorrupt, kIo. A store that was never replicated opens without a log: Begin, or a copy, gives it one.
  // `kv` has kReplicatedFamilies families.
  static Result<std::unique_ptr<ReplicaStore>> Open(std::shared_ptr<KvStore> kv, ReplicaStoreOptions options = {});

  // The log of a store that is served already begins with its present state. `base.chain` is random: no two clusters have the
  // same. Not durable before a Sync. REQUIRES: !begun().
  Result<void> Begin(const LogPoint& base, uint64_t incarnation);
  // False: empty, or a copy is under way (also one that a crash has cut off). Then last() is 0 and no batch is taken.
  bool begun() const { return begun_; }
  uint64_t incarnation() const { return base_.incarnation; }
  const LogPoint& last() const { return last_; }
  // The oldest batch that is there; last() + 1 if none is.
  CommitSeq first() const { return first_; }
  const std::vector<TermRun>& history() const { return history_; }
  // The store is what its log says. Never in the set, never a candidate without.
  bool whole() const { return begun_ && !marker_; }
  const std::optional<LogMarkerRecord>& marker() const { return marker_; }
  // It was being made fit to be served after a loss (BeginRevival), which has not come to its end.
  bool reviving() const { return reviving_; }
  // Grows with each rewind and copy of this life: what was promised of the log before is void.
  uint64_t changes() const { return changes_; }
  KvStore& kv() { return *kv_; }
  // The first error of a write or a sync: the store takes nothing more, and this member cannot go on. Ok if there was none.
  const Error& failure() const { return failure_; }

  // The point of a sequence; nullopt beyond the last, or if its batch is not kept any more.
  Result<std::optional<LogPoint>> At(CommitSeq seq) const;
  // True if the log goes through that very point.
  bool Has(const LogPoint& point) const;
  // Batches after `after`, at least one if there is one, else about `max_bytes`. kNoEnt: not kept any more.
  Result<std::vector<LogRow>> Read(CommitSeq after, size_t max_bytes, size_t max_rows) const;

  // ---- Batches. In the journal of this machine on return; durable after a Sync. REQUIRES: begun()
  // The next batch, made here. kInval for a term below the last one's.
  Result<LogRow> Add(uint64_t term, int64_t wall_ns, const KvBatch& batch);
  // The next batch, made elsewhere. kCorrupt if it is none, or not the next.
  Result<void> Take(uint64_t term, std::string_view encoded);
  // Older batches than this stay for now: somebody is copying, and needs them. nullopt: nobody.
  void HoldFrom(std::optional<CommitSeq> seq) { hold_ = seq; }
  // Everything of before the call is durable on return; gives the last point of then. kRetryLater if that was rewound meanwhile.
  Task<Result<LogPoint>> Sync();

  // ---- Going back
  // What batches after `to` wrote, and what an unfinished rewind had fetched; in order. kTooBig, kNoEnt: copy.
  Result<std::vector<FetchKey>> KeysBeyond(CommitSeq to) const;
  // One batch: `values` of those keys, as a primary has them at `fetched`; no log beyond `to`. Whole when the log reaches
  // `fetched`.
  Result<void> Rewind(const LogPoint& to, const KvBatch& values, const LogPoint& fetched, std::vector<FetchKey> keys);

  // ---- A copy. From BeginCopy until EndCopy begun() is false, also over crashes
  Result<void> BeginCopy();
  // As a copy begins, and what is there stays: from now on it is not of this log. Until Begin. REQUIRES: whole() or reviving()
  Result<void> BeginRevival();
  // Removes some of what was there. True when nothing is left.
  Result<bool> WipeStep();
  Result<void> TakePage(const KvBatch& puts) { return WriteKv(puts); }
  // The pages began at `base`, of a log with that history; the last one is of `fetched`.
  Result<void> EndCopy(const LogPoint& base, uint64_t incarnation, std::vector<TermRun> history, const LogPoint& fetched);

 private:
  struct Mark {
    CommitSeq seq;
    uint64_t total = 0;
  };
  ReplicaStore(std::shared_ptr<KvStore> kv, const ReplicaStoreOptions& options) : kv_(std::move(kv)), options_(options) {}
  Result<void> Load();
  Result<void> LoadMarks();
  Result<std::optional<LogRowRecord>> Row(CommitSeq seq) const;
  // Adds the row of the next batch, what it makes of history and marker, and what is removed for it; writes all; takes it over.
  Result<LogRow> Write(uint64_t term, std::string encoded, KvBatch batch);
  void Trim(KvBatch* batch, uint64_t total, CommitSeq* first);
  Result<void> WriteKv(const KvBatch& batch);
  Result<void> EndLog(bool reviving);

  const std::shared_ptr<KvStore> kv_;
  const ReplicaStoreOptions options_;
  bool begun_ = false;
  LogBaseRecord base_;
  LogPoint last_;
  uint64_t total_ = 0;  // at last_
  CommitSeq first_{1};
  std::vector<TermRun> history_;
  std::optional<LogMarkerRecord> marker_;
  bool reviving_ = false;
  uint64_t changes_ = 0;
  std::deque<LogRow> recent_;  // the last ones
  size_t recent_bytes_ = 0;
  std::deque<Mark> marks_;  // some rows, to know how many bytes there are up to them
  CommitSeq trim_to_;       // rows before it go
  std::optional<CommitSeq> hold_;
  Error failure_;
};

}  // namespace stria
