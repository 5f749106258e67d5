// What the loss of one node would cost. With domain=disk or channel, without parity, or while stripes are crowded, a
// node may hold more columns of a stripe than the stripe can do without. Nothing in the store says so of a stripe: its
// disks may be carried to other nodes. So all stripes are walked: at once when status asks, if they are few; else
// beforehand, again and again while anything changes, so slowly that it costs about a hundredth of a core.
#include <algorithm>

#include "common/log.h"
#include "meta/ops/ops.h"
#include "meta/survey/survey.h"
#include "stripe/layout.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr size_t kExposurePage = 256;
constexpr int64_t kRestAfterPage = 99;  // times what the page took,
constexpr int64_t kMinRestNs = 10 * kMillisecond;
constexpr int64_t kMaxRestNs = 1 * kSecond;  // though it may have been the machine that was busy
constexpr int64_t kBetweenCountsNs = 10 * kSecond;

}  // namespace

bool Survey::IsExposureOld() const {
  return !exposure_ || exposure_->of != std::pair{env_.cluster->version(), env_.store->last_seq()};
}

void Survey::CountStripe(const StripeRecord& record, Exposure* out) const {
  if (record.state != StripeState::kLive) return;
  if (out->layouts.size() < Exposure::kMaxLayouts) out->layouts.emplace(RoomName(record.layout), record.layout);
  if (record.is_thin()) ++out->thin;
  if (record.is_thin() && out->some_thin.size() < Exposure::kMaxThin) out->some_thin.insert(record.info.id);
  const StripeInfo& info = record.info;
  std::vector<std::pair<NodeId, uint32_t>> held;  // node and group, of each shard
  for (size_t i = 0; i < info.columns.size(); ++i) {
    const Column& c = info.columns[i];
    const TargetInfo* t = c.shard ? env_.cluster->FindTarget(c.target) : nullptr;
    if (t != nullptr) held.emplace_back(t->node, GroupOf(info.shape, ColumnIndex(static_cast<uint16_t>(i))));
  }
  std::sort(held.begin(), held.end());
  NodeId counted;  // a stripe counts once for a node, however many of its groups would be lost
  for (size_t i = 0; i + info.shape.m < held.size(); ++i) {
    if (held[i] != held[i + info.shape.m] || held[i].first == counted) continue;
    counted = held[i].first;
    NodeExposure& e = out->nodes[counted];
    e.node = counted;
    ++e.stripes;
    e.bytes += info.shape.payload_bytes;
    if (info.shape.m == 0) ++e.unprotected;
  }
}

Task<Result<void>> Survey::CountExposure(bool at_leisure) {
  Exposure fresh;
  fresh.of = {env_.cluster->version(), env_.store->last_seq()};
  fresh.began_ns = Now();
  StripeId after;
  while (true) {
    const int64_t start_ns = Now();
    {
      Txn txn(*env_.store);
      CO_ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kStripes, StripeKey(StripeId(after.v + 1)),
                                                    StripeKey(StripeId(UINT64_MAX)), kExposurePage));
      for (const KvEntry& row : rows) {
        CO_ASSIGN_OR_RETURN(const StripeRecord record, StripeRecord::Decode(row.first, row.second));
        after = record.info.id;
        CountStripe(record, &fresh);
      }
      if (rows.size() < kExposurePage) break;
    }
    if (at_leisure) co_await Sleep(std::clamp(kRestAfterPage * (Now() - start_ns), kMinRestNs, kMaxRestNs));
    else co_await Yield();
  }
  exposure_ = std::move(fresh);
  co_return Ok();
}

void Survey::CountAhead() {
  if (counting_ || Now() < count_again_ns_) return;
  if (env_.store->Count(Counter::kStripes) <= count_at_once_ || !IsExposureOld()) return;
  counting_ = true;
  scope_.Spawn(CountSlowly());
}

Task<void> Survey::CountSlowly() {
  const Result<void> counted = co_await CountExposure(true);
  if (!counted.ok() && !counting_failed_) {
    LogWarning("what a node's loss would cost cannot be counted: {}", counted.error());
  }
  counting_failed_ = !counted.ok();
  count_again_ns_ = Now() + kBetweenCountsNs;
  counting_ = false;
}

Task<NodeLoss> Survey::NodeLossNow() {
  if (IsExposureOld() && env_.store->Count(Counter::kStripes) <= count_at_once_) {
    if (const Result<void> counted = co_await CountExposure(false); !counted.ok()) exposure_.reset();
  }
  NodeLoss out;
  if (!exposure_) co_return out;
  out.counted = true;
  if (IsExposureOld()) out.age_ns = Now() - exposure_->began_ns;
  for (const auto& [id, e] : exposure_->nodes) {
    const NodeInfo* n = env_.cluster->FindNode(id);
    if (n != nullptr && n->state != NodeState::kOut) out.nodes.push_back(e);  // else it has been lost already
  }
  co_return out;
}

}  // namespace stria
