#include <algorithm>

#include "test/sim/replica/replica_model.h"

namespace stria {

void ModelStore::Apply(const Record& r, size_t number) {
  if (!r.rewind) {
    log_.push_back({r.term, r.puts, number});
    shape_.Append(r.term);
    for (const auto& [key, value] : r.puts) values_[key] = value;
    if (marker_ && last() >= marker_->whole_from) marker_.reset();
    return;
  }
  ++rewinds;
  log_.resize(r.seq);
  shape_.CutTo(r.seq);
  for (const uint32_t key : r.keys) {
    const auto value = r.values.find(key);
    if (value == r.values.end()) values_.erase(key);
    else values_[key] = value->second;
  }
  marker_.reset();
  if (r.whole_from > r.seq) marker_ = std::make_unique<Marker>(Marker{r.keys, r.whole_from, r.term});
}

void ModelStore::Append(uint64_t term, Puts puts) {
  Record r;
  r.term = term;
  r.puts = std::move(puts);
  records_.push_back(std::move(r));
  Apply(records_.back(), records_.size());
}

void ModelStore::Rewind(uint64_t seq, const std::set<uint32_t>& keys, const Values& values, uint64_t whole_from, uint64_t term) {
  Record r;
  r.rewind = true;
  r.seq = seq;
  r.keys = keys;
  r.values = values;
  r.whole_from = whole_from;
  r.term = term;
  records_.push_back(std::move(r));
  Apply(records_.back(), records_.size());
}

void ModelStore::PowerCut(Random* rng) {
  const size_t keep = rng->Between(synced_, records_.size());
  std::vector<Record> kept(records_.begin(), records_.begin() + static_cast<ptrdiff_t>(keep));
  records_ = std::move(kept);
  synced_ = keep;
  log_.clear();
  shape_ = {};
  values_.clear();
  marker_.reset();
  for (size_t i = 0; i < records_.size(); ++i) Apply(records_[i], i + 1);
}

uint64_t ModelStore::DurableUpTo() const {
  const auto first = std::find_if(log_.begin(), log_.end(), [&](const Entry& e) { return e.record > synced_; });
  return static_cast<uint64_t>(first - log_.begin());
}

ModelStore::Values ModelStore::Replayed() const {
  Values out;
  for (const Entry& e : log_) {
    for (const auto& [key, value] : e.puts) out[key] = value;
  }
  return out;
}

}  // namespace stria
