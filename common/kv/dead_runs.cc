#include "common/kv/dead_runs.h"

#include <algorithm>
#include <utility>

namespace stria {
namespace {
std::string After(std::string_view key) { return std::string(key) + '\0'; }
}  // namespace

DeadRuns::Runs::const_iterator DeadRuns::Holding(KvFamily f, std::string_view key) const {
  const Runs& runs = runs_[f];
  auto it = runs.upper_bound(key);
  if (it == runs.begin() || std::prev(it)->second <= key) return runs.end();
  return std::prev(it);
}

std::string_view DeadRuns::Up(KvFamily f, std::string_view key) const {
  const auto it = Holding(f, key);
  return it == runs_[f].end() ? key : std::string_view(it->second);
}

std::string_view DeadRuns::Down(KvFamily f, std::string_view key) const {
  const auto it = Holding(f, key);
  return it == runs_[f].end() ? key : std::string_view(it->first);
}

void DeadRuns::Found(uint64_t as_of, KvFamily f, std::string_view from, std::string_view to) {
  if (as_of == 0 || as_of != AsOf() || from >= to) return;
  Add(f, std::string(from), std::string(to));
}

// Joins the runs that it touches.
void DeadRuns::Add(KvFamily f, std::string from, std::string to) {
  if (size_ >= kMaxRuns) {
    for (Runs& r : runs_) r.clear();
    size_ = 0;
  }
  Runs& runs = runs_[f];
  auto it = runs.upper_bound(from);
  if (it != runs.begin() && std::prev(it)->second >= from) --it;
  while (it != runs.end() && it->first <= to) {
    from = std::min(from, it->first);
    to = std::max(to, it->second);
    it = runs.erase(it);
    --size_;
  }
  runs.emplace(std::move(from), std::move(to));
  ++size_;
}

void DeadRuns::Cut(KvFamily f, const std::string& key) {
  const auto it = Holding(f, key);
  Runs& runs = runs_[f];
  if (it == runs.end()) return;
  const std::string from = it->first, to = it->second;
  runs.erase(it);
  --size_;
  if (from < key) runs.emplace(from, key), ++size_;
  if (std::string above = After(key); above < to) runs.emplace(std::move(above), to), ++size_;
}

void DeadRuns::WriteBegins(const KvBatch& batch) {
  ++writes_;
  writing_ = true;
  if (size_ == 0) return;
  for (const KvOp& op : batch.ops) {
    if (op.value) Cut(op.family, op.key);
  }
}

// A deleted key beside a run, or between two, joins it. Other deletions begin none: most slow no reader down.
void DeadRuns::WriteEnded(const KvBatch& batch, bool ok) {
  writing_ = false;
  if (!ok || size_ == 0) return;
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    const KvOp& op = batch.ops[i];
    if (op.value) continue;
    const Runs& runs = runs_[op.family];
    std::string above = After(op.key);
    auto it = runs.upper_bound(op.key);
    const bool follows = it != runs.begin() && std::prev(it)->second >= op.key;
    if (!follows && (it == runs.end() || it->first != above)) continue;
    Add(op.family, op.key, std::move(above));
  }
  for (const KvOp& op : batch.ops) {
    if (op.value) Cut(op.family, op.key);  // deleted and put again, in one batch
  }
}

}  // namespace stria
