#include "meta/repair/scrub_orders.h"

#include <algorithm>

#include "common/codec.h"

namespace stria {

void ScrubOrders::Start(int64_t now_s, uint64_t bytes_per_s, const std::vector<TargetId>& targets) {
  start_s_ = std::max(now_s, start_s_ + 1);  // a new order although the clock was set back
  bytes_per_s_ = bytes_per_s;
  paused_ = false;
  owing_ = {targets.begin(), targets.end()};
}

bool ScrubOrders::Take(const ScrubProgress& progress) {
  heard_[progress.target] = progress;
  const bool done = progress.order_s == start_s_ && !progress.running && progress.finished_s != 0;
  return done && owing_.erase(progress.target) > 0;
}

void ScrubOrders::Forget(TargetId target) {
  owing_.erase(target);
  heard_.erase(target);
}

ScrubOrder ScrubOrders::For(const std::vector<ScrubProgress>& disks) const {
  ScrubOrder out;
  out.paused = paused_;
  out.bytes_per_s = bytes_per_s_;
  out.start_s = start_s_;
  for (const ScrubProgress& d : disks) {
    if (owing_.count(d.target)) out.targets.push_back(d.target);
  }
  return out;
}

std::vector<ScrubProgress> ScrubOrders::Progress() const {
  std::vector<ScrubProgress> out;
  for (const auto& [target, progress] : heard_) out.push_back(progress);
  return out;
}

std::string ScrubOrders::Encode() const {
  ByteWriter w;
  w.I64(start_s_);
  w.Bool(paused_);
  w.U64(bytes_per_s_);
  w.U32(static_cast<uint32_t>(owing_.size()));
  for (TargetId t : owing_) w.U32(t.v);
  return SealRecord(1, w.str());
}

Result<void> ScrubOrders::Decode(std::string_view bytes) {
  const Error corrupt(FsError::kCorrupt, "the record of scrub orders does not decode");
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return corrupt;
  ByteReader r(body);
  ScrubOrders out;
  out.start_s_ = r.I64();
  out.paused_ = r.Bool();
  out.bytes_per_s_ = r.U64();
  for (uint32_t n = r.U32(); n > 0 && r.ok(); --n) out.owing_.insert(TargetId(r.U32()));
  if (!r.ok()) return corrupt;
  *this = std::move(out);
  return Ok();
}

}  // namespace stria
