#include "meta/replica/replica_store.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/sabotage.h"
#include "meta/backup/archive.h"

namespace stria {
namespace {

constexpr uint64_t kMarks = 64;         // of which the log's bytes are known, about
constexpr uint64_t kTrimAtOnce = 4;     // rows that one batch removes at most
constexpr size_t kWipeAtOnce = 512;     // keys that one step removes
constexpr uint64_t kHeldTimes = 4;      // a log that is held may grow to so many times what it keeps

Error NotKept(CommitSeq seq) {
  return Error(FsError::kNoEnt, "the replica's log does not keep batch " + std::to_string(seq.v) + " any more");
}

}  // namespace

// ---- Opening --------------------------------------------------------------------------------------

Result<std::unique_ptr<ReplicaStore>> ReplicaStore::Open(std::shared_ptr<KvStore> kv, ReplicaStoreOptions options) {
  std::unique_ptr<ReplicaStore> store(new ReplicaStore(std::move(kv), options));
  RETURN_IF_ERROR(store->Load());
  return store;
}

Result<void> ReplicaStore::Load() {
  ASSIGN_OR_RETURN(const auto marker, kv_->Get(kReplicaStateFamily, LogMarkerKey()));
  if (marker) {
    ASSIGN_OR_RETURN(marker_, LogMarkerRecord::Decode(*marker));
    ASSIGN_OR_RETURN(const auto reviving, kv_->Get(kReplicaStateFamily, LogRevivingKey()));
    reviving_ = reviving.has_value();
  }
  ASSIGN_OR_RETURN(const auto base, kv_->Get(kReplicaStateFamily, LogBaseKey()));
  if (!base) return Ok();
  ASSIGN_OR_RETURN(base_, LogBaseRecord::Decode(*base));
  ASSIGN_OR_RETURN(const auto history, kv_->Get(kReplicaStateFamily, LogHistoryKey()));
  if (!history) return Error(FsError::kCorrupt, "the replica's history of terms is missing");
  ASSIGN_OR_RETURN(history_, DecodeHistory(*history));
  begun_ = true;
  last_ = base_.point;
  first_ = CommitSeq(last_.seq.v + 1);
  ASSIGN_OR_RETURN(const auto oldest, kv_->Scan(kReplicaLogFamily, "", "", 1));
  if (oldest.empty()) return Ok();
  ASSIGN_OR_RETURN(const auto newest, kv_->Last(kReplicaLogFamily, "", LogRowKey(CommitSeq(UINT64_MAX))));
  uint64_t first = 0, last = 0;
  if (!ParseKey64(oldest.front().first, &first) || !newest || !ParseKey64(newest->first, &last) || last <= base_.point.seq.v) {
    return Error(FsError::kCorrupt, "the replica's log has a row that is not of its kind");
  }
  ASSIGN_OR_RETURN(const LogRowRecord row, LogRowRecord::Decode(CommitSeq(last), newest->second));
  first_ = CommitSeq(first);
  last_ = {CommitSeq(last), row.term, row.chain};
  total_ = row.total_bytes;
  return LoadMarks();
}

Result<void> ReplicaStore::LoadMarks() {
  const uint64_t step = std::max<uint64_t>((last_.seq.v - first_.v) / kMarks, 1);
  for (uint64_t seq = first_.v; seq <= last_.seq.v; seq += step) {
    ASSIGN_OR_RETURN(const auto row, Row(CommitSeq(seq)));
    if (row) marks_.push_back({CommitSeq(seq), row->total_bytes});
  }
  return Ok();
}

Result<void> ReplicaStore::Begin(const LogPoint& base, uint64_t incarnation) {
  CHECK(!begun_, "a log begins once");
  const std::vector<TermRun> history = {{base.term, base.seq}};
  KvBatch batch;
  batch.Put(kReplicaStateFamily, LogBaseKey(), LogBaseRecord{base, incarnation}.Encode());
  batch.Put(kReplicaStateFamily, LogHistoryKey(), EncodeHistory(history));
  batch.Delete(kReplicaStateFamily, LogMarkerKey());
  batch.Delete(kReplicaStateFamily, LogRevivingKey());
  RETURN_IF_ERROR(WriteKv(batch));
  begun_ = true;
  reviving_ = false;
  base_ = {base, incarnation};
  last_ = base;
  first_ = CommitSeq(base.seq.v + 1);
  history_ = history;
  marker_.reset();
  return Ok();
}

// ---- Reading --------------------------------------------------------------------------------------

Result<std::optional<LogRowRecord>> ReplicaStore::Row(CommitSeq seq) const {
  ASSIGN_OR_RETURN(const auto value, kv_->Get(kReplicaLogFamily, LogRowKey(seq)));
  if (!value) return std::optional<LogRowRecord>();
  ASSIGN_OR_RETURN(LogRowRecord row, LogRowRecord::Decode(seq, *value));
  return std::optional<LogRowRecord>(std::move(row));
}

Result<std::optional<LogPoint>> ReplicaStore::At(CommitSeq seq) const {
  if (!begun_ || seq > last_.seq) return std::optional<LogPoint>();
  if (seq == last_.seq) return std::optional<LogPoint>(last_);
  if (seq == base_.point.seq) return std::optional<LogPoint>(base_.point);
  if (!recent_.empty() && seq >= recent_.front().point.seq) {
    return std::optional<LogPoint>(recent_[seq.v - recent_.front().point.seq.v].point);
  }
  if (seq < first_) return std::optional<LogPoint>();
  ASSIGN_OR_RETURN(const auto row, Row(seq));
  if (!row) return std::optional<LogPoint>();
  return std::optional<LogPoint>(LogPoint{seq, row->term, row->chain});
}

bool ReplicaStore::Has(const LogPoint& point) const {
  const auto mine = At(point.seq);
  return mine.ok() && mine.value() && *mine.value() == point;
}

Result<std::vector<LogRow>> ReplicaStore::Read(CommitSeq after, size_t max_bytes, size_t max_rows) const {
  std::vector<LogRow> out;
  size_t bytes = 0;
  for (CommitSeq seq(after.v + 1); seq <= last_.seq && out.size() < max_rows; ++seq.v) {
    LogRow row;
    if (seq < first_) return NotKept(seq);
    if (!recent_.empty() && seq >= recent_.front().point.seq) {
      row = recent_[seq.v - recent_.front().point.seq.v];
    } else {
      ASSIGN_OR_RETURN(auto record, Row(seq));
      if (!record) return NotKept(seq);
      row.point = {seq, record->term, record->chain};
      row.encoded = Buffer::FromString(std::move(record->encoded));
    }
    if (!out.empty() && bytes + row.encoded.size() > max_bytes) break;
    bytes += row.encoded.size();
    out.push_back(std::move(row));
  }
  return out;
}

// ---- Batches --------------------------------------------------------------------------------------

Result<LogRow> ReplicaStore::Add(uint64_t term, int64_t wall_ns, const KvBatch& batch) {
  CHECK(begun_, "a batch for a log that has not begun");
  if (term < last_.term) {
    return Error(FsError::kInval, "a batch of term " + std::to_string(term) + " cannot follow one of term " +
                                      std::to_string(last_.term));
  }
  return Write(term, EncodeArchivedBatch(CommitSeq(last_.seq.v + 1), wall_ns, batch), batch);
}

Result<void> ReplicaStore::Take(uint64_t term, std::string_view encoded) {
  CHECK(begun_, "a batch for a log that has not begun");
  ASSIGN_OR_RETURN(ArchivedBatch batch, DecodeArchivedBatch(encoded));
  if (batch.seq.v != last_.seq.v + 1 || term < last_.term) {
    return Error(FsError::kCorrupt, "batch " + std::to_string(batch.seq.v) + " of term " + std::to_string(term) +
                                        " cannot follow batch " + std::to_string(last_.seq.v) + " of term " +
                                        std::to_string(last_.term));
  }
  const Result<LogRow> row = Write(term, std::string(encoded), std::move(batch.batch));
  return row.ok() ? Result<void>() : row.error();
}

Result<void> ReplicaStore::WriteKv(const KvBatch& batch) {
  Result<void> written = kv_->Write(batch);
  if (!written.ok() && failure_.ok()) failure_ = written.error();
  return written;
}

Result<LogRow> ReplicaStore::Write(uint64_t term, std::string encoded, KvBatch batch) {
  LogRow row;
  row.point = {CommitSeq(last_.seq.v + 1), term, ChainAfter(last_.chain, term, encoded)};
  const uint64_t total = total_ + encoded.size();
  batch.Put(kReplicaLogFamily, LogRowKey(row.point.seq), LogRowRecord{term, row.point.chain, total, encoded}.Encode());
  std::vector<TermRun> history;
  if (term > history_.back().term) {
    history = history_;
    history.push_back({term, row.point.seq});
    if (history.size() > kMaxTermRuns) history.erase(history.begin());
    batch.Put(kReplicaStateFamily, LogHistoryKey(), EncodeHistory(history));
  }
  const bool whole_now = marker_ && marker_->fetched == row.point;
  if (whole_now) batch.Delete(kReplicaStateFamily, LogMarkerKey());
  CommitSeq first = first_;
  Trim(&batch, total, &first);
  RETURN_IF_ERROR(WriteKv(batch));

  row.encoded = Buffer::FromString(std::move(encoded));
  if (!history.empty()) history_ = std::move(history);
  if (whole_now) marker_.reset();
  last_ = row.point;
  total_ = total;
  first_ = first;
  recent_.push_back(row);
  recent_bytes_ += row.encoded.size();
  while (recent_bytes_ > options_.recent_bytes && recent_.size() > 1) {
    recent_bytes_ -= recent_.front().encoded.size();
    recent_.pop_front();
  }
  if (marks_.empty() || total - marks_.back().total >= options_.keep_bytes / kMarks) marks_.push_back({last_.seq, total});
  return row;
}

void ReplicaStore::Trim(KvBatch* batch, uint64_t total, CommitSeq* first) {
  const auto may_be_first = [&](const Mark& m) {
    const uint64_t kept = total - m.total;
    return kept > options_.keep_bytes && (!hold_ || m.seq <= *hold_ || kept > kHeldTimes * options_.keep_bytes);
  };
  while (marks_.size() > 1 && may_be_first(marks_[1])) {
    trim_to_ = marks_[1].seq;
    marks_.pop_front();
  }
  const CommitSeq to = std::min(trim_to_, last_.seq);  // the last one stays: it says where the log is
  for (uint64_t n = 0; n < kTrimAtOnce && *first < to; ++n, ++first->v) batch->Delete(kReplicaLogFamily, LogRowKey(*first));
}

Task<Result<LogPoint>> ReplicaStore::Sync() {
  const LogPoint last = last_;
  const uint64_t changes = changes_;
  const Result<void> synced = co_await kv_->Sync();
  if (!synced.ok() && failure_.ok()) failure_ = synced.error();
  if (!synced.ok()) co_return synced.error();
  if (changes != changes_) co_return Error(FsError::kRetryLater, "the replica's log was rewound while it was being synced");
  co_return last;
}

// ---- Going back -----------------------------------------------------------------------------------

Result<std::vector<FetchKey>> ReplicaStore::KeysBeyond(CommitSeq to) const {
  std::set<FetchKey> keys;
  if (marker_ && !Sabotaged(Sabotage::kForgetMarker)) keys.insert(marker_->keys.begin(), marker_->keys.end());
  if (Sabotaged(Sabotage::kRewindLogOnly)) return std::vector<FetchKey>();
  for (CommitSeq seq(to.v + 1); seq <= last_.seq; ++seq.v) {
    ASSIGN_OR_RETURN(const auto row, Row(seq));
    if (!row) return NotKept(seq);
    ASSIGN_OR_RETURN(ArchivedBatch batch, DecodeArchivedBatch(row->encoded));
    for (KvOp& op : batch.batch.ops) keys.insert({op.family, std::move(op.key)});
    if (keys.size() > options_.max_marked_keys) {
      return Error(FsError::kTooBig,
                   "the replica has to go back over more than " + std::to_string(options_.max_marked_keys) + " keys");
    }
  }
  return std::vector<FetchKey>(keys.begin(), keys.end());
}

Result<void> ReplicaStore::Rewind(const LogPoint& to, const KvBatch& values, const LogPoint& fetched,
                                  std::vector<FetchKey> keys) {
  CHECK(begun_ && Has(to) && to.seq <= fetched.seq, "a rewind to where the log never was");
  uint64_t total = 0;
  if (to.seq != base_.point.seq) {
    ASSIGN_OR_RETURN(const auto row, Row(to.seq));
    if (!row) return NotKept(to.seq);
    total = row->total_bytes;
  }
  KvBatch batch = values;
  for (CommitSeq seq(to.seq.v + 1); seq <= last_.seq; ++seq.v) batch.Delete(kReplicaLogFamily, LogRowKey(seq));
  std::vector<TermRun> history = HistoryUpTo(history_, to.seq);
  if (history.empty()) return Error(FsError::kNoEnt, "the replica's history of terms does not reach back that far");
  batch.Put(kReplicaStateFamily, LogHistoryKey(), EncodeHistory(history));
  std::optional<LogMarkerRecord> marker;
  const bool all = marker_ && marker_->all;
  if (fetched.seq > to.seq) {
    marker = LogMarkerRecord{all, fetched, std::move(keys)};
    batch.Put(kReplicaStateFamily, LogMarkerKey(), marker->Encode());
  } else {
    batch.Delete(kReplicaStateFamily, LogMarkerKey());
  }
  RETURN_IF_ERROR(WriteKv(batch));

  last_ = to;
  total_ = total;
  first_ = std::min(first_, CommitSeq(to.seq.v + 1));
  history_ = std::move(history);
  marker_ = std::move(marker);
  ++changes_;
  recent_.clear();
  recent_bytes_ = 0;
  while (!marks_.empty() && marks_.back().seq > to.seq) marks_.pop_back();
  return Ok();
}

// ---- A copy ---------------------------------------------------------------------------------------

Result<void> ReplicaStore::BeginCopy() { return EndLog(false); }

Result<void> ReplicaStore::BeginRevival() {
  CHECK(whole() || reviving_, "a store is revived that lacks something");
  return EndLog(true);
}

Result<void> ReplicaStore::EndLog(bool reviving) {
  const LogMarkerRecord marker{true, LogPoint(), {}};
  KvBatch batch;
  if (reviving) batch.Put(kReplicaStateFamily, LogRevivingKey(), "1");
  else batch.Delete(kReplicaStateFamily, LogRevivingKey());
  batch.Put(kReplicaStateFamily, LogMarkerKey(), marker.Encode());
  batch.Delete(kReplicaStateFamily, LogBaseKey());
  batch.Delete(kReplicaStateFamily, LogHistoryKey());
  RETURN_IF_ERROR(WriteKv(batch));
  begun_ = false;
  reviving_ = reviving;
  base_ = {};
  last_ = {};
  total_ = 0;
  first_ = CommitSeq(1);
  history_.clear();
  marker_ = marker;
  ++changes_;
  recent_.clear();
  recent_bytes_ = 0;
  marks_.clear();
  trim_to_ = {};
  return Ok();
}

Result<bool> ReplicaStore::WipeStep() {
  CHECK(!begun_, "a store that is in use is wiped");
  for (size_t f = 0; f < kReplicatedFamilies; ++f) {
    const auto family = static_cast<KvFamily>(f);
    if (family == kReplicaStateFamily) continue;
    ASSIGN_OR_RETURN(auto entries, kv_->Scan(family, "", "", kWipeAtOnce));
    if (entries.empty()) continue;
    KvBatch batch;
    for (KvEntry& e : entries) batch.Delete(family, std::move(e.first));
    RETURN_IF_ERROR(WriteKv(batch));
    return false;
  }
  return true;
}

Result<void> ReplicaStore::EndCopy(const LogPoint& base, uint64_t incarnation, std::vector<TermRun> history,
                                   const LogPoint& fetched) {
  CHECK(!begun_, "a copy ends that did not begin");
  if (history.empty() || !IsHistory(history) || history.back().first > base.seq || history.back().term != base.term ||
      fetched.seq < base.seq) {
    return Error(FsError::kBadRequest, "the primary's history does not fit the copy that it gave");
  }
  KvBatch batch;
  batch.Put(kReplicaStateFamily, LogBaseKey(), LogBaseRecord{base, incarnation}.Encode());
  batch.Put(kReplicaStateFamily, LogHistoryKey(), EncodeHistory(history));
  std::optional<LogMarkerRecord> marker;
  if (fetched.seq > base.seq) {
    marker = LogMarkerRecord{true, fetched, {}};
    batch.Put(kReplicaStateFamily, LogMarkerKey(), marker->Encode());
  } else {
    batch.Delete(kReplicaStateFamily, LogMarkerKey());
  }
  RETURN_IF_ERROR(WriteKv(batch));
  begun_ = true;
  base_ = {base, incarnation};
  last_ = base;
  first_ = CommitSeq(base.seq.v + 1);
  history_ = std::move(history);
  marker_ = std::move(marker);
  ++changes_;
  return Ok();
}

}  // namespace stria
