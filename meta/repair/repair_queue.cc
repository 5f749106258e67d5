#include "meta/repair/repair_queue.h"

#include <algorithm>

#include "common/codec.h"

namespace stria {
namespace {

Error Corrupt(const char* what) { return Error(FsError::kCorrupt, std::string(what) + " does not decode"); }

}  // namespace

std::string EncodeRepairTask(const RepairTaskRecord& t) {
  ByteWriter w;
  w.U64(t.task);
  w.U64(t.stripe.v);
  w.U16(t.column);
  w.U8(static_cast<uint8_t>(t.kind));
  w.U64(t.old_shard.v);
  w.U32(t.old_target.v);
  w.U64(t.new_shard.v);
  w.U32(t.new_target.v);
  w.U64(t.shard_bytes);
  w.Bool(t.copy);
  w.Bool(t.crowded);
  return SealRecord(1, w.str());
}

Result<RepairTaskRecord> DecodeRepairTask(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return Corrupt("a repair task");
  ByteReader r(body);
  RepairTaskRecord t;
  t.task = r.U64();
  t.stripe = StripeId(r.U64());
  t.column = r.U16();
  const uint8_t kind = r.U8();
  t.kind = static_cast<RepairKind>(kind);
  t.old_shard = ShardId(r.U64());
  t.old_target = TargetId(r.U32());
  t.new_shard = ShardId(r.U64());
  t.new_target = TargetId(r.U32());
  t.shard_bytes = r.U64();
  t.copy = r.Bool();
  t.crowded = r.Bool();
  if (!r.ok() || kind > static_cast<uint8_t>(RepairKind::kMove) || t.column >= kMaxColumns || t.task == 0) {
    return Corrupt("a repair task");
  }
  return t;
}

bool IsShardLoss(FsError reason) {
  return reason == FsError::kChecksum || reason == FsError::kNoSuchShard || reason == FsError::kDiskFailed;
}

std::string EncodeBadShard(const ReportedShard& b) {
  ByteWriter w;
  w.U64(b.stripe.v);
  w.U16(b.column);
  w.U64(b.shard.v);
  w.U16(static_cast<uint16_t>(b.reason));
  return SealRecord(1, w.str());
}

Result<ReportedShard> DecodeBadShard(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return Corrupt("a record of a bad shard");
  ByteReader r(body);
  ReportedShard b;
  b.stripe = StripeId(r.U64());
  b.column = r.U16();
  b.shard = ShardId(r.U64());
  const uint16_t reason = r.U16();
  if (!r.ok() || !IsKnownFsError(reason) || b.column >= kMaxColumns) return Corrupt("a record of a bad shard");
  b.reason = static_cast<FsError>(reason);
  return b;
}

std::string EncodeRepairSettings(const RepairSettings& s) {
  ByteWriter w;
  w.Bool(s.paused);
  w.U64(s.limit_bytes_per_s);
  w.Bool(s.rebalance);
  return SealRecord(1, w.str());
}

Result<RepairSettings> DecodeRepairSettings(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return Corrupt("the record of repair settings");
  ByteReader r(body);
  RepairSettings s;
  s.paused = r.Bool();
  s.limit_bytes_per_s = r.U64();
  s.rebalance = r.left() > 0 && r.Bool();  // the first release had none
  if (!r.ok()) return Corrupt("the record of repair settings");
  return s;
}

std::string EncodeRepairDone(const RepairDone& d) {
  ByteWriter w;
  w.U64(d.stripes);
  w.U64(d.bytes);
  return SealRecord(1, w.str());
}

Result<RepairDone> DecodeRepairDone(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return Corrupt("the progress of a repair");
  ByteReader r(body);
  RepairDone d;
  d.stripes = r.U64();
  d.bytes = r.U64();
  if (!r.ok()) return Corrupt("the progress of a repair");
  return d;
}

bool RepairQueue::Add(StripeId stripe, int spare) {
  auto it = candidates_.find(stripe);
  if (it == candidates_.end()) {
    if (candidates_.size() >= kMaxRepairCandidates) return false;
    it = candidates_.try_emplace(stripe).first;
  } else if (it->second.parked) {
    return true;
  } else {
    order_.erase({it->second.spare, stripe});
  }
  it->second.spare = spare;
  order_.insert({spare, stripe});
  return true;
}

void RepairQueue::Forget(StripeId stripe) {
  auto it = candidates_.find(stripe);
  if (it == candidates_.end()) return;
  order_.erase({it->second.spare, stripe});
  parked_.erase(stripe);
  candidates_.erase(it);
}

std::vector<StripeId> RepairQueue::Best(size_t n) const {
  std::vector<StripeId> out;
  for (const auto& [spare, stripe] : order_) {
    if (out.size() >= n) break;
    if (!HasTask(stripe)) out.push_back(stripe);
  }
  return out;
}

void RepairQueue::Park(StripeId stripe, Parked why, std::vector<TargetId> targets, int64_t until_ns) {
  auto it = candidates_.find(stripe);
  if (it == candidates_.end()) {
    if (candidates_.size() >= kMaxRepairCandidates) return;
    it = candidates_.try_emplace(stripe).first;
  }
  order_.erase({it->second.spare, stripe});
  parked_.insert(stripe);
  it->second.parked = why;
  it->second.targets = std::move(targets);
  it->second.until_ns = until_ns;
}

void RepairQueue::Unpark(int64_t now_ns) {
  for (auto it = parked_.begin(); it != parked_.end();) {
    Candidate& c = candidates_.at(*it);
    if (c.until_ns > now_ns) {
      ++it;
      continue;
    }
    c.parked.reset();
    c.targets.clear();
    order_.insert({c.spare, *it});
    it = parked_.erase(it);
  }
}

uint64_t RepairQueue::StuckOn(TargetId target) const {
  uint64_t n = 0;
  for (StripeId s : parked_) {
    const Candidate& c = candidates_.at(s);
    if (*c.parked != Parked::kUnrepairable && *c.parked != Parked::kHomeless) continue;
    n += std::count(c.targets.begin(), c.targets.end(), target) > 0;
  }
  return n;
}

void RepairQueue::Start(const RepairTaskRecord& record, RepairTask plan) {
  tasks_[record.task] = {record, std::move(plan), false};
}

const RepairTaskRecord* RepairQueue::Find(uint64_t task) const {
  auto it = tasks_.find(task);
  return it == tasks_.end() ? nullptr : &it->second.record;
}

std::vector<RepairTask> RepairQueue::InFlight() const {
  std::vector<RepairTask> out;
  for (const auto& [id, t] : tasks_) out.push_back(t.plan);
  return out;
}

bool RepairQueue::HasTask(StripeId stripe) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& t) { return t.second.record.stripe == stripe; });
}

std::vector<RepairTaskRecord> RepairQueue::HandOut(const std::set<TargetId>& targets, uint32_t slots) {
  std::vector<RepairTaskRecord> out;
  for (auto& [id, t] : tasks_) {
    if (!targets.count(t.record.new_target)) continue;
    if (!t.handed_out) {
      if (slots == 0 || settings.paused) continue;
      --slots;
      t.handed_out = true;
    }
    out.push_back(t.record);
  }
  return out;
}

void RepairQueue::ForgetHandedOut(const std::set<TargetId>& targets) {
  for (auto& [id, t] : tasks_) {
    if (targets.count(t.record.new_target)) t.handed_out = false;
  }
}

std::vector<RepairTaskRecord> RepairQueue::Where(const std::function<bool(const RepairTaskRecord&)>& match) const {
  std::vector<RepairTaskRecord> out;
  for (const auto& [id, t] : tasks_) {
    if (match(t.record)) out.push_back(t.record);
  }
  return out;
}

bool RepairQueue::MarkBad(const ReportedShard& bad) {
  auto it = bad_.find({bad.stripe, bad.column});
  if (it != bad_.end() && it->second.shard == bad.shard) return false;
  if (it == bad_.end() && bad_.size() >= kMaxBadShards) return false;
  bad_[{bad.stripe, bad.column}] = bad;
  return true;
}

bool RepairQueue::IsBad(StripeId stripe, uint16_t column, ShardId shard) const {
  auto it = bad_.find({stripe, column});
  return it != bad_.end() && it->second.shard == shard;
}

std::set<StripeId> RepairQueue::BadStripes() const {
  std::set<StripeId> out;
  for (const auto& [key, bad] : bad_) out.insert(key.first);
  return out;
}

void RepairQueue::Started(uint64_t bytes, int64_t now_ns) {
  if (settings.limit_bytes_per_s == 0) {
    next_start_ns_ = 0;
    return;
  }
  const double seconds = static_cast<double>(bytes) / static_cast<double>(settings.limit_bytes_per_s);
  next_start_ns_ = std::max(next_start_ns_, now_ns) + static_cast<int64_t>(seconds * kSecond);
}

void RepairQueue::BeginTarget(TargetId target, std::string reason) {
  progress_[target].reason = std::move(reason);
}

void RepairQueue::LoadDone(TargetId target, RepairDone done) {
  TargetProgress& p = progress_[target];
  p.stripes_done = done.stripes;
  p.bytes_done = done.bytes;
}

RepairDone RepairQueue::DoneOf(TargetId target) const {
  auto it = progress_.find(target);
  return it == progress_.end() ? RepairDone() : RepairDone{it->second.stripes_done, it->second.bytes_done};
}

std::vector<TargetId> RepairQueue::Targets() const {
  std::vector<TargetId> out;
  for (const auto& [target, p] : progress_) out.push_back(target);
  return out;
}

void RepairQueue::SetRemaining(TargetId target, uint64_t stripes, uint64_t bytes) {
  auto it = progress_.find(target);
  if (it == progress_.end()) return;
  it->second.stripes_left = stripes;
  it->second.bytes_left = bytes;
}

void RepairQueue::Done(TargetId old_target, uint64_t bytes, int64_t now_ns) {
  auto it = progress_.find(old_target);
  if (it == progress_.end()) return;
  TargetProgress& p = it->second;
  ++p.stripes_done;
  p.bytes_done += bytes;
  p.stripes_left -= std::min<uint64_t>(p.stripes_left, 1);
  p.bytes_left -= std::min(p.bytes_left, bytes);
  p.recent.emplace_back(now_ns, bytes);
  while (p.recent.front().first < now_ns - kRateWindowNs) p.recent.pop_front();
}

std::vector<RepairProgress> RepairQueue::Progress(int64_t now_ns) const {
  std::vector<RepairProgress> out;
  for (const auto& [target, p] : progress_) {
    RepairProgress o;
    o.target = target;
    o.reason = p.reason;
    o.stripes_done = p.stripes_done;
    o.stripes_total = p.stripes_done + p.stripes_left;
    o.bytes_done = p.bytes_done;
    o.bytes_total = p.bytes_done + p.bytes_left;
    o.paused = settings.paused;
    o.stuck = StuckOn(target);
    uint64_t bytes = 0;
    int64_t since = now_ns;
    for (const auto& [when, n] : p.recent) {
      if (when < now_ns - kRateWindowNs) continue;
      bytes += n;
      since = std::min(since, when);
    }
    const int64_t span_ns = std::max<int64_t>(now_ns - since, kSecond);
    o.bytes_per_s = static_cast<double>(bytes) * kSecond / static_cast<double>(span_ns);
    if (p.stripes_left == 0) o.eta_s = 0;
    else if (o.bytes_per_s > 0) o.eta_s = static_cast<int64_t>(static_cast<double>(p.bytes_left) / o.bytes_per_s) + 1;
    out.push_back(std::move(o));
  }
  return out;
}

}  // namespace stria
