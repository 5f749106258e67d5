#include "meta/repair/widen_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/codec.h"
#include "meta/model/records.h"

namespace stria {

std::string EncodeWiden(const WidenRecord& w) {
  ByteWriter out;
  out.U64(w.task);
  out.U32(w.executor.v);
  out.Bool(w.swapped);
  EncodeStripeInfo(w.from, &out);
  EncodeStripeInfo(w.to, &out);
  return SealRecord(1, out.str());
}

Result<WidenRecord> DecodeWiden(std::string_view bytes) {
  const Error corrupt(FsError::kCorrupt, "the record of a stripe being widened does not decode");
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return corrupt;
  ByteReader r(body);
  WidenRecord w;
  w.task = r.U64();
  w.executor = TargetId(r.U32());
  w.swapped = r.Bool();
  w.from = DecodeStripeInfo(&r);
  w.to = DecodeStripeInfo(&r);
  if (!r.ok() || w.task == 0 || w.from.id != w.to.id) return corrupt;
  return w;
}

bool WidenQueue::Add(StripeId stripe, bool urgent) {
  if (HasStripe(stripe) || candidates_.count({false, stripe})) return true;
  if (!urgent && candidates_.count({true, stripe})) return true;
  candidates_.erase({true, stripe});
  if (candidates_.size() >= kMaxWidenCandidates) {
    if (!urgent || !candidates_.rbegin()->first) return false;
    candidates_.erase(std::prev(candidates_.end()));  // a later scan finds it again
  }
  candidates_.insert({!urgent, stripe});
  return true;
}

std::optional<StripeId> WidenQueue::Next(bool only_urgent) {
  if (candidates_.empty() || (only_urgent && candidates_.begin()->first)) return std::nullopt;
  const StripeId first = candidates_.begin()->second;
  candidates_.erase(candidates_.begin());
  return first;
}

void WidenQueue::Start(WidenRecord record) {
  stripes_.insert(record.stripe());
  const uint64_t task = record.task;
  tasks_[task].record = std::move(record);
}

const WidenRecord* WidenQueue::Find(uint64_t task) const {
  auto it = tasks_.find(task);
  return it == tasks_.end() ? nullptr : &it->second.record;
}

std::vector<uint64_t> WidenQueue::Tasks() const {
  std::vector<uint64_t> out;
  for (const auto& [task, _] : tasks_) out.push_back(task);
  return out;
}

size_t WidenQueue::being_made() const {
  return static_cast<size_t>(std::ranges::count_if(tasks_, [](const auto& t) { return !t.second.made; }));
}

std::vector<const WidenRecord*> WidenQueue::HandOut(const std::set<TargetId>& targets, uint32_t slots) {
  std::vector<const WidenRecord*> out;
  for (auto& [_, t] : tasks_) {
    if (t.record.swapped || t.made || !targets.count(t.record.executor)) continue;
    if (!t.handed_out) {
      if (slots == 0) continue;
      --slots;
      t.handed_out = true;
    }
    out.push_back(&t.record);
  }
  return out;
}

void WidenQueue::ForgetHandedOut(const std::set<TargetId>& targets) {
  for (auto& [_, t] : tasks_) {
    if (targets.count(t.record.executor)) t.handed_out = false;
  }
}

void WidenQueue::Made(uint64_t task, StripeInfo wide, int64_t now_ns) {
  Task& t = tasks_.at(task);
  for (const Column& c : wide.columns) {
    if (c.shard) t.unproved.insert(c.shard);
  }
  t.made = std::move(wide);
  t.made_ns = now_ns;
}

WidenQueue::Proof WidenQueue::ToBeProved(uint64_t task) const {
  const Task& t = tasks_.at(task);
  Proof out{{}, t.made_ns};
  if (t.unproved.empty()) return out;
  for (const Column& c : t.made->columns) {
    if (t.unproved.count(c.shard) > 0) out.targets.push_back(c.target);
  }
  return out;
}

std::vector<Column> WidenQueue::Unproved(const std::set<TargetId>& targets, size_t n) const {
  std::vector<Column> out;
  for (const auto& [_, t] : tasks_) {
    if (t.unproved.empty()) continue;
    for (const Column& c : t.made->columns) {
      if (out.size() >= n) return out;
      if (t.unproved.count(c.shard) > 0 && targets.count(c.target) > 0) out.push_back(c);
    }
  }
  return out;
}

std::optional<uint64_t> WidenQueue::TaskToProve(TargetId target, ShardId shard) const {
  for (const auto& [id, t] : tasks_) {
    if (t.unproved.count(shard) == 0) continue;
    for (const Column& c : t.made->columns) {
      if (c.shard == shard && c.target == target) return id;
    }
  }
  return std::nullopt;
}

std::optional<StripeInfo> WidenQueue::Proved(uint64_t task, ShardId shard) {
  Task& t = tasks_.at(task);
  if (t.unproved.erase(shard) == 0 || !t.unproved.empty()) return std::nullopt;
  return t.made;
}

void WidenQueue::Swapped(uint64_t task, StripeInfo from, StripeInfo to) {
  WidenRecord& r = tasks_.at(task).record;
  r.swapped = true;
  r.from = std::move(from);
  r.to = std::move(to);
}

bool WidenQueue::BeginTelling(uint64_t task) {
  Task& t = tasks_.at(task);
  return t.record.swapped && !std::exchange(t.telling, true);
}

void WidenQueue::End(uint64_t task) {
  auto it = tasks_.find(task);
  if (it == tasks_.end()) return;
  stripes_.erase(it->second.record.stripe());
  tasks_.erase(it);
}

}  // namespace stria
