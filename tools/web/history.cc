#include "tools/web/history.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stria::web {
namespace {

constexpr std::array<const char*, kFlows> kFlowNames = {"read", "written", "rebuilt", "scrubbed", "moved", "folded", "folds"};
constexpr std::array<const char*, kLevels> kLevelNames = {"answer_ms", "disk_ms", "worst_disk_ms"};

size_t IndexOf(Flow f) { return static_cast<size_t>(f); }
size_t IndexOf(Level l) { return static_cast<size_t>(l); }

// nullptr if there is none, on the way too.
const Json* Find(const Json& j, std::initializer_list<const char*> path) {
  const Json* at = &j;
  for (const char* key : path) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

std::optional<uint64_t> Number(const Json& j, std::initializer_list<const char*> path) {
  const Json* n = Find(j, path);
  if (n == nullptr || !n->is_number()) return std::nullopt;
  const double value = n->get<double>();
  if (!(value >= 0) || value > 1e18) return std::nullopt;
  return n->is_number_unsigned() ? n->get<uint64_t>() : static_cast<uint64_t>(value);
}

std::string Text(const Json& j, const char* key) {
  const Json* t = Find(j, {key});
  if (t == nullptr) return "";
  return t->is_string() ? t->get<std::string>() : t->is_number() ? t->dump() : "";
}

void Count(Sample* s, Flow f, const std::string& who, std::optional<uint64_t> value) {
  auto& counters = s->counters[IndexOf(f)];
  if (value && counters.size() < kMaxCounters) counters[who] += *value;
}

template <class Use>
void ForEach(const Json* list, Use use) {
  if (list == nullptr || !list->is_array()) return;
  for (const Json& item : *list) use(item);
}

void TakeDisks(const Json& status, Sample* s) {
  std::vector<double> times;
  ForEach(Find(status, {"disks"}), [&](const Json& disk) {
    const std::optional<uint64_t> us = Number(disk, {"read_us"});
    if (us && *us > 0) times.push_back(static_cast<double>(*us) / 1000);
  });
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  s->levels[IndexOf(Level::kDisk)] = times[(times.size() - 1) / 2];
  s->levels[IndexOf(Level::kWorstDisk)] = times.back();
}

}  // namespace

const char* FlowName(Flow f) { return kFlowNames[IndexOf(f)]; }
const char* LevelName(Level l) { return kLevelNames[IndexOf(l)]; }

Sample SampleOf(const Json& status, int64_t at_ms, double answer_ms) {
  Sample s;
  s.at_ms = at_ms;
  if (answer_ms >= 0) s.levels[IndexOf(Level::kAnswer)] = answer_ms;
  ForEach(Find(status, {"clients"}), [&](const Json& client) {
    const std::string id = Text(client, "id");
    Count(&s, Flow::kRead, id, Number(client, {"local_bytes"}));
    Count(&s, Flow::kRead, id, Number(client, {"network_bytes"}));
    Count(&s, Flow::kWritten, id, Number(client, {"written_bytes"}));
  });
  ForEach(Find(status, {"rebuilds"}), [&](const Json& r) { Count(&s, Flow::kRebuilt, Text(r, "target"), Number(r, {"bytes_done"})); });
  ForEach(Find(status, {"upkeep", "scrub", "disks"}),
          [&](const Json& d) { Count(&s, Flow::kScrubbed, Text(d, "disk"), Number(d, {"bytes_done"})); });
  Count(&s, Flow::kMoved, "", Number(status, {"upkeep", "rebalance", "bytes_done"}));
  Count(&s, Flow::kFolded, "", Number(status, {"upkeep", "folding", "folded_bytes"}));
  Count(&s, Flow::kFolds, "", Number(status, {"upkeep", "folding", "folded"}));
  TakeDisks(status, &s);
  return s;
}

History::Slot* History::At(int64_t at_ms) {
  const int64_t number = at_ms / kSlotMs;
  if (slots_.empty() || slots_.back().number < number) {
    slots_.emplace_back();
    slots_.back().number = number;
    if (slots_.size() > kSlots) slots_.pop_front();
  }
  return &slots_.back();
}

void History::Add(const Sample& s) {
  if (last_ && s.at_ms <= last_->at_ms) {
    if (last_->at_ms - s.at_ms <= kMaxStepMs) return;
    slots_.clear();  // the clock was set back
    last_.reset();
  }
  Slot* slot = At(s.at_ms);
  for (size_t i = 0; i < kLevels; ++i) {
    if (s.levels[i]) slot->levels[i] = std::max(slot->levels[i].value_or(0), *s.levels[i]);
  }
  const int64_t step_ms = last_ ? s.at_ms - last_->at_ms : 0;
  if (step_ms > 0 && step_ms <= kMaxStepMs) {
    for (size_t i = 0; i < kFlows; ++i) {
      if (s.counters[i].empty() && last_->counters[i].empty()) continue;
      slot->over_ms[i] += step_ms;
      for (const auto& [who, value] : s.counters[i]) {
        const auto before = last_->counters[i].find(who);
        // One that is new, or is told of for the first time, may have counted for long; one that is less has begun anew.
        if (before != last_->counters[i].end() && before->second > 0 && value > before->second) slot->amount[i] += static_cast<double>(value - before->second);
      }
    }
  }
  last_ = s;
}

Json History::Points(int64_t now_ms) const {
  Json points = Json::array();
  const int64_t oldest = now_ms / kSlotMs - static_cast<int64_t>(kSlots) + 1;
  for (const Slot& slot : slots_) {
    if (slot.number < oldest) continue;
    Json point = {{"t", slot.number * kSlotMs}};
    for (size_t i = 0; i < kFlows; ++i) {
      point[kFlowNames[i]] = slot.over_ms[i] > 0 ? Json(slot.amount[i] * 1000 / static_cast<double>(slot.over_ms[i])) : Json();
    }
    for (size_t i = 0; i < kLevels; ++i) point[kLevelNames[i]] = slot.levels[i] ? Json(*slot.levels[i]) : Json();
    points.push_back(std::move(point));
  }
  return {{"slot_ms", kSlotMs}, {"points", std::move(points)}};
}

}  // namespace stria::web
