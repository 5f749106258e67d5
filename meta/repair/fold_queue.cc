#include "meta/repair/fold_queue.h"

#include <algorithm>

#include "common/check.h"
#include "common/codec.h"
#include "meta/model/records.h"

namespace stria {

std::vector<Column> FoldRecord::leftovers() const {
  if (swapped) return copies;
  return {plan.fold.columns.begin() + plan.fold.shape.data_columns(), plan.fold.columns.end()};
}

std::string EncodeFold(const FoldRecord& f) {
  ByteWriter out;
  out.U32(static_cast<uint32_t>(f.tasks.size()));
  for (uint64_t t : f.tasks) out.U64(t);
  out.Bool(f.swapped);
  EncodeStripeInfo(f.plan.fold, &out);
  EncodeLayout(f.plan.layout, &out);
  out.U32(static_cast<uint32_t>(f.plan.members.size()));
  for (const FoldMember& m : f.plan.members) {
    out.U64(m.stripe.v);
    out.U16(m.column);
  }
  out.U32(static_cast<uint32_t>(f.copies.size()));
  for (const Column& c : f.copies) {
    out.U64(c.shard.v);
    out.U32(c.target.v);
    out.U64(c.length);
    out.U64(c.digest);
  }
  return SealRecord(1, out.str());
}

Result<FoldRecord> DecodeFold(std::string_view bytes) {
  const Error corrupt(FsError::kCorrupt, "the record of a fold does not decode");
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return corrupt;
  ByteReader r(body);
  FoldRecord f;
  uint32_t n = 0;
  if (!r.Count(&n, 8)) return corrupt;
  for (uint32_t i = 0; i < n; ++i) f.tasks.push_back(r.U64());
  f.swapped = r.Bool();
  f.plan.fold = DecodeStripeInfo(&r);
  f.plan.layout = DecodeLayout(&r);
  if (!r.Count(&n, 10)) return corrupt;
  for (uint32_t i = 0; i < n; ++i) {
    FoldMember m;
    m.stripe = StripeId(r.U64());
    m.column = r.U16();
    f.plan.members.push_back(m);
  }
  if (!r.Count(&n, 28)) return corrupt;
  for (uint32_t i = 0; i < n; ++i) {
    Column c;
    c.shard = ShardId(r.U64());
    c.target = TargetId(r.U32());
    c.length = r.U64();
    c.digest = r.U64();
    f.copies.push_back(c);
  }
  const StripeShape& shape = f.plan.fold.shape;
  if (!r.ok() || f.tasks.empty() || f.tasks.size() != shape.parity_columns() || f.tasks.front() == 0 ||
      f.plan.members.size() != shape.data_columns() || f.plan.fold.columns.size() != shape.columns()) {
    return corrupt;
  }
  return f;
}

// ---- Candidates ----

bool FoldQueue::Note(FoldKind kind, FoldUnit unit, int64_t now_ns) {
  CHECK(!unit.columns.empty());
  const auto it = candidates_.find(unit.stripe);
  if (it != candidates_.end() && it->second.kind == kind && it->second.unit == unit) {
    it->second.seen = true;
    return true;
  }
  Drop(unit.stripe);
  Candidate c{kind, std::move(unit), now_ns, true};
  size_t& taken = taken_[RoomOf(c)];
  if (taken >= kMaxFoldCandidatesPerDomain || candidates_.size() >= kMaxFoldCandidates) return false;
  ++taken;
  const StripeId stripe = c.unit.stripe;
  candidates_.emplace(stripe, std::move(c));
  return true;
}

void FoldQueue::Drop(StripeId stripe) {
  const auto it = candidates_.find(stripe);
  if (it == candidates_.end()) return;
  const auto room = taken_.find(RoomOf(it->second));
  if (--room->second == 0) taken_.erase(room);
  candidates_.erase(it);
}

void FoldQueue::EndScan() {
  std::vector<StripeId> gone;
  for (auto& [stripe, c] : candidates_) {
    if (!std::exchange(c.seen, false)) gone.push_back(stripe);
  }
  for (const StripeId stripe : gone) Drop(stripe);
}

std::map<FoldKind, std::vector<FoldUnit>> FoldQueue::Ripe(int64_t since_ns) const {
  std::map<FoldKind, std::vector<FoldUnit>> out;
  for (const auto& [_, c] : candidates_) {
    if (c.since_ns <= since_ns) out[c.kind].push_back(c.unit);
  }
  return out;
}

// ---- Tasks ----

void FoldQueue::Start(FoldRecord record) {
  const uint64_t task = record.task();
  for (uint64_t part : record.tasks) parts_[part] = task;
  for (const FoldMember& m : record.plan.members) {
    stripes_.insert(m.stripe);
    Drop(m.stripe);
  }
  stripes_.insert(record.plan.fold.id);
  tasks_[task].record = std::move(record);
}

const FoldRecord* FoldQueue::Find(uint64_t task) const {
  auto it = tasks_.find(task);
  return it == tasks_.end() ? nullptr : &it->second.record;
}

FoldQueue::Part FoldQueue::FindPart(uint64_t part) const {
  auto it = parts_.find(part);
  if (it == parts_.end()) return {};
  const FoldRecord& f = tasks_.at(it->second).record;
  const auto i = std::find(f.tasks.begin(), f.tasks.end(), part) - f.tasks.begin();
  return {&f, static_cast<uint16_t>(f.plan.fold.shape.data_columns() + static_cast<uint32_t>(i))};
}

std::vector<uint64_t> FoldQueue::Tasks() const {
  std::vector<uint64_t> out;
  for (const auto& [task, _] : tasks_) out.push_back(task);
  return out;
}

uint64_t FoldQueue::PromisedBytes(TargetId target) const {
  uint64_t bytes = 0;
  for (const auto& [_, t] : tasks_) {
    if (t.record.swapped) continue;
    for (const Column& c : t.record.leftovers()) bytes += c.target == target ? c.length : 0;
  }
  return bytes;
}

std::vector<FoldQueue::Part> FoldQueue::HandOut(const std::set<TargetId>& targets, uint32_t slots) {
  std::vector<Part> out;
  for (auto& [_, t] : tasks_) {
    if (t.record.swapped) continue;
    for (uint64_t part : t.record.tasks) {
      const Part p = FindPart(part);
      if (t.digests.contains(part) || !targets.contains(t.record.plan.fold.columns[p.column].target)) continue;
      if (!t.handed_out.contains(part)) {
        if (slots == 0) continue;
        --slots;
        t.handed_out.insert(part);
      }
      out.push_back(p);
    }
  }
  return out;
}

void FoldQueue::ForgetHandedOut(const std::set<TargetId>& targets) {
  for (auto& [_, t] : tasks_) {
    std::erase_if(t.handed_out, [&](uint64_t part) {
      return targets.contains(t.record.plan.fold.columns[FindPart(part).column].target);
    });
  }
}

void FoldQueue::Made(uint64_t part, uint64_t digest) {
  auto it = parts_.find(part);
  if (it != parts_.end()) tasks_.at(it->second).digests.emplace(part, digest);
}

std::optional<FoldPlan> FoldQueue::WhenMade(uint64_t task) const {
  const Task& t = tasks_.at(task);
  if (t.record.swapped || t.digests.size() != t.record.tasks.size()) return std::nullopt;
  FoldPlan plan = t.record.plan;
  for (const auto& [part, digest] : t.digests) plan.fold.columns[FindPart(part).column].digest = digest;
  return plan;
}

void FoldQueue::Swapped(FoldRecord record) {
  Task& t = tasks_.at(record.task());
  for (const FoldMember& m : record.plan.members) stripes_.erase(m.stripe);  // the swap has removed them
  t.record = std::move(record);
}

bool FoldQueue::BeginTelling(uint64_t task) {
  Task& t = tasks_.at(task);
  return t.record.swapped && !std::exchange(t.telling, true);
}

void FoldQueue::End(uint64_t task) {
  auto it = tasks_.find(task);
  if (it == tasks_.end()) return;
  const FoldRecord& f = it->second.record;
  for (const FoldMember& m : f.plan.members) stripes_.erase(m.stripe);
  stripes_.erase(f.plan.fold.id);
  for (uint64_t part : f.tasks) parts_.erase(part);
  tasks_.erase(it);
}

}  // namespace stria
