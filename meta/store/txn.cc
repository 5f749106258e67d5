#include "meta/store/txn.h"

#include <algorithm>

#include "common/check.h"

namespace stria {
namespace {

constexpr KvFamily Kv(Family f) { return static_cast<KvFamily>(f); }
constexpr size_t kScanChunk = 256;

// The largest key that is smaller, among keys up to kMaxKeyBytes.
std::string KeyBefore(std::string_view key) {
  std::string out(key);
  const uint8_t last = static_cast<uint8_t>(out.back());
  out.pop_back();
  if (last == 0) return out;
  out.push_back(static_cast<char>(last - 1));
  out.resize(kMaxKeyBytes + 1, '\xff');
  return out;
}

}  // namespace

Txn::Txn(MetaStore& store) : store_(store), base_(store.last_seq()), next_ids_(store.next_ids_) {}

Result<std::optional<std::string>> Txn::Get(Family f, std::string_view key) {
  const Pending& pending = pending_[Kv(f)];
  if (auto it = pending.find(key); it != pending.end()) return it->second;
  return store_.kv_->Get(Kv(f), key);
}

Result<std::vector<KvEntry>> Txn::Scan(Family f, std::string_view begin, std::string_view end, size_t limit) {
  const Pending& pending = pending_[Kv(f)];
  auto over = pending.lower_bound(begin);
  auto over_done = [&] { return over == pending.end() || (!end.empty() && over->first >= end); };
  if (over_done()) return store_.kv_->Scan(Kv(f), begin, end, limit);
  std::vector<KvEntry> out;
  auto take_over = [&] {
    if (over->second) out.emplace_back(over->first, *over->second);
    ++over;
  };
  std::string from(begin);
  for (bool more = true; more && out.size() < limit;) {
    const size_t chunk = std::max(limit - out.size(), kScanChunk);
    ASSIGN_OR_RETURN(std::vector<KvEntry> below, store_.kv_->Scan(Kv(f), from, end, chunk));
    more = below.size() == chunk;
    if (more) from = below.back().first + '\0';
    for (KvEntry& e : below) {
      while (!over_done() && over->first < e.first && out.size() < limit) take_over();
      if (out.size() == limit) return out;
      if (!over_done() && over->first == e.first) {
        take_over();
      } else {
        out.push_back(std::move(e));
      }
      if (out.size() == limit) return out;
    }
  }
  while (!over_done() && out.size() < limit) take_over();
  return out;
}

Result<std::vector<KvEntry>> Txn::ScanPrefix(Family f, std::string_view prefix, size_t limit) {
  return Scan(f, prefix, PrefixEnd(prefix), limit);
}

Result<std::optional<KvEntry>> Txn::Last(Family f, std::string_view begin, std::string_view at) {
  if (at < begin) return std::optional<KvEntry>();
  const Pending& pending = pending_[Kv(f)];
  auto over = pending.upper_bound(at);
  ASSIGN_OR_RETURN(std::optional<KvEntry> below, store_.kv_->Last(Kv(f), begin, at));
  while (true) {
    // Go down through both, the larger key first, until one is not deleted.
    const bool has_over = over != pending.begin() && std::prev(over)->first >= begin;
    if (has_over && (!below || std::prev(over)->first >= below->first)) {
      --over;
      if (over->second) return std::optional<KvEntry>(KvEntry(over->first, *over->second));
      if (below && below->first == over->first) {
        const std::string before = over->first.empty() ? std::string() : KeyBefore(over->first);
        below.reset();
        if (before >= begin && !over->first.empty()) {
          ASSIGN_OR_RETURN(below, store_.kv_->Last(Kv(f), begin, before));
        }
      }
      continue;
    }
    return below;
  }
}

void Txn::Add(Family f, std::string key, std::optional<std::string> value) {
  CHECK(!committed_, "a transaction is written to after its commit");
  const size_t value_bytes = value ? value->size() : 0;
  auto [it, fresh] = pending_[Kv(f)].try_emplace(std::move(key));
  if (fresh) {
    ++records_;
    bytes_ += it->first.size();
  } else if (it->second) {
    bytes_ -= it->second->size();
  }
  bytes_ += value_bytes;
  it->second = std::move(value);
}

void Txn::Put(Family f, std::string key, std::string value) { Add(f, std::move(key), std::move(value)); }
void Txn::Delete(Family f, std::string key) { Add(f, std::move(key), std::nullopt); }

CommitSeq Txn::seq() const { return CommitSeq(base_.v + 1); }

uint64_t Txn::Count(Counter c) const {
  return store_.Count(c) + static_cast<uint64_t>(count_deltas_[static_cast<size_t>(c)]);
}

Result<uint64_t> Txn::NewId(IdKind kind) {
  const size_t i = static_cast<size_t>(kind);
  if (IsRanged(kind) && next_ids_[i] >= store_.durable_limits_[i]) {
    return Error(FsError::kRetryLater, "the next range of ids is not durable yet; try again");
  }
  return next_ids_[i]++;
}

Result<uint64_t> Txn::Stamp() {
  if (stamp_ == 0) {
    ASSIGN_OR_RETURN(stamp_, NewId(IdKind::kStamp));
  }
  return stamp_;
}

Result<InodeId> Txn::NewInode() {
  ASSIGN_OR_RETURN(uint64_t id, NewId(IdKind::kInode));
  return InodeId(id);
}

bool Txn::IsFormer(InodeId ino) const {
  return ino > kRootInode && ino.v < store_.first_ids_[static_cast<size_t>(IdKind::kInode)];
}

Result<StripeId> Txn::NewStripe() {
  ASSIGN_OR_RETURN(uint64_t id, NewId(IdKind::kStripe));
  return StripeId(id);
}

Result<ShardId> Txn::NewShard() {
  ASSIGN_OR_RETURN(uint64_t id, NewId(IdKind::kShard));
  return ShardId(id);
}

Result<CommitSeq> Txn::Commit() {
  CHECK(!committed_, "a transaction is committed twice");
  CHECK(store_.last_seq() == base_, "another transaction was committed in between");
  committed_ = true;
  const bool counts = std::any_of(count_deltas_.begin(), count_deltas_.end(), [](int64_t d) { return d != 0; });
  if (empty() && !counts) return base_;
  if (records_ + 1 > kMaxBatchRecords || bytes_ > kMaxBatchBytes) {
    return Error(FsError::kTooBig, "the change has " + std::to_string(records_) + " records of " +
                                       std::to_string(bytes_) + " bytes, too many for one; split it");
  }
  KvBatch batch;
  batch.ops.reserve(records_ + 1);
  for (size_t f = 0; f < kFamilies; ++f) {
    while (!pending_[f].empty()) {
      auto node = pending_[f].extract(pending_[f].begin());
      if (node.mapped()) {
        batch.Put(static_cast<KvFamily>(f), std::move(node.key()), std::move(*node.mapped()));
      } else {
        batch.Delete(static_cast<KvFamily>(f), std::move(node.key()));
      }
    }
  }
  Result<CommitSeq> seq = store_.Apply(std::move(batch), next_ids_, count_deltas_);
  if (dir_moved_ && seq.ok()) ++store_.dir_moves_;
  return seq;
}

}  // namespace stria
