#include "server/scrubber.h"

#include <algorithm>
#include <utility>

#include "common/exec/passed.h"
#include "common/log.h"

namespace stria {
namespace {

constexpr size_t kScrubPage = 256;
constexpr int64_t kRetryNs = 60 * kSecond;  // after a pass that the disk has broken off

}  // namespace

void Scrubber::Obey(const ScrubOrder& order, bool start) {
  const int64_t ordered_s = start ? order.start_s : ordered_s_;
  if (order.paused == paused_ && order.bytes_per_s == bytes_per_s_ && ordered_s == ordered_s_) return;
  paused_ = order.paused;
  bytes_per_s_ = order.bytes_per_s;
  ordered_s_ = ordered_s;
  changed_.Set();
}

// Until the time has come or a pass was ordered, and nothing is paused.
Task<void> Scrubber::AwaitTurn(int64_t until_ns) {
  while (true) {
    const int64_t now = Executor::Current().NowNs();
    const bool due = now >= until_ns || ordered_s_ > progress_.order_s;
    if (due && !paused_) co_return;
    changed_.Reset();
    if (due) co_await changed_.Wait();
    else co_await WithTimeout(until_ns - now, Passed(&changed_));
  }
}

Task<void> Scrubber::Pace(uint64_t bytes) {
  co_await Sleep(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(rate())));
  while (paused_) {
    changed_.Reset();
    co_await changed_.Wait();
  }
}

Task<void> Scrubber::Run() {
  int64_t next_ns = Executor::Current().NowNs() + options_.first_after_ns;
  while (true) {
    co_await AwaitTurn(next_ns);
    const Result<void> done = co_await Pass();
    const std::string& name = store_->options().name;
    next_ns = Executor::Current().NowNs() + (done.ok() ? options_.pause_ns : kRetryNs);
    if (!done.ok()) LogWarning("scrub of {} stopped: {}", name, done.error());
    else LogInfo("scrub of {}: {} shards, {} bytes, {} damaged", name, progress_.shards, progress_.bytes_done, progress_.damaged);
  }
}

Task<Result<void>> Scrubber::Compare(ShardId after, ShardId last, const std::vector<StoredShard>& page) {
  std::vector<HeldShard> held;
  for (const StoredShard& s : page) {
    if (s.sealed && !s.damaged) held.push_back({s.shard, s.digest});
  }
  CO_ASSIGN_OR_RETURN(const CompareShardsReply reply, co_await hooks_.compare(after, last, std::move(held)));
  for (const ShardId shard : reply.wrong) {
    const Result<ShardRecordPtr> record = co_await store_->index().Get(shard, false);
    if (!record.ok() || !*record) continue;  // deleted meanwhile, or damaged and found below
    ++progress_.damaged;
    store_->MarkBad(shard);
  }
  for (const ShardId shard : reply.missing) {
    const Result<ShardRecordPtr> record = co_await store_->index().Get(shard, false);
    if (!record.ok() || *record) continue;  // damaged and found below, or newer than the list
    ++progress_.damaged;
    if (hooks_.lost) CO_RETURN_IF_ERROR(co_await hooks_.lost(shard));
  }
  co_return Ok();
}

// One that is out of reach in part is compared by the next pass.
Task<Result<void>> Scrubber::CompareParity(ShardId after, ShardId last) {
  while (after < last) {
    CO_ASSIGN_OR_RETURN(ListParityReply page, co_await hooks_.list_parity(after, last));
    for (StripeGrant& stripe : page.stripes) {
      const StripeId id = stripe.info.id;
      const Result<ParityCheckResult> r = co_await hooks_.check_parity(std::move(stripe));
      if (!r.ok()) continue;
      ++progress_.stripes;
      if (r->wrong.empty() && !r->fits) {
        LogWarning("scrub of {}: the parity of stripe {} does not fit its data, and all is as it was written",
                   store_->options().name, id.v);
        if (progress_.unfit.size() < kMaxUnfitStripes) progress_.unfit.push_back(id);
      }
      co_await Pace(r->bytes_read);
    }
    if (page.last <= after) co_return Error(FsError::kBadRequest, "a list of stripes does not go on");
    after = page.last;
  }
  co_return Ok();
}

Task<Result<void>> Scrubber::Verify(const StoredShard& shard) {
  GateUse use;
  if (hooks_.gate != nullptr) use = co_await hooks_.gate->Background(shard.length);
  co_return co_await store_->Verify(shard.shard);
}

Task<Result<void>> Scrubber::CompareAll() {
  if (!hooks_.compare) co_return Ok();
  ShardId after;
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(const ShardStore::Page page, co_await store_->Inventory(after, kScrubPage));
    more = page.more;
    const ShardId last = more ? page.shards.back().shard : ShardId(UINT64_MAX);
    CO_RETURN_IF_ERROR(co_await Compare(after, last, page.shards));
    after = last;
  }
  co_return Ok();
}

Task<Result<void>> Scrubber::Pass() {
  progress_ = ScrubProgress{.running = true,
                            .bytes_total = store_->Usage().used_bytes,
                            .started_s = Executor::Current().WallNs() / kSecond,
                            .finished_s = progress_.finished_s,
                            .order_s = ordered_s_};
  ShardId after;
  Result<void> result = Ok();
  for (bool more = true; more && result.ok();) {
    Result<ShardStore::Page> page = co_await store_->Inventory(after, kScrubPage);
    if (!page.ok()) {
      result = page.error();
      break;
    }
    more = page->more;
    const ShardId last = more ? page->shards.back().shard : ShardId(UINT64_MAX);
    if (hooks_.compare) {
      const Result<void> compared = co_await Compare(after, last, page->shards);
      if (!compared.ok()) LogDebug("scrub of {}: not compared: {}", store_->options().name, compared.error());
    }
    for (const StoredShard& s : page->shards) {
      if (!s.sealed) continue;
      if (s.damaged) {  // as stored; a copy in memory may hide it until the next start
        ++progress_.damaged;
        store_->NoteDamagedRecord(s.shard);
        continue;
      }
      const Result<void> good = co_await Verify(s);
      if (good.code() == FsError::kNoSuchShard) continue;  // deleted meanwhile
      ++progress_.shards;
      progress_.bytes_done += s.length;
      if (!good.ok()) ++progress_.damaged;
      if (good.code() == FsError::kDiskFailed && store_->failed()) result = good;
      co_await Pace(s.length);
    }
    if (hooks_.list_parity && hooks_.check_parity && result.ok()) {
      const Result<void> compared = co_await CompareParity(after, last);
      if (!compared.ok()) LogDebug("scrub of {}: parity not compared: {}", store_->options().name, compared.error());
    }
    after = last;
  }
  progress_.running = false;
  progress_.bytes_total = progress_.bytes_done;
  if (result.ok()) progress_.finished_s = Executor::Current().WallNs() / kSecond;
  co_return result;
}

}  // namespace stria
