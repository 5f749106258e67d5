#include "server/scrubber.h"

#include "common/log.h"

namespace stria {
namespace {

constexpr size_t kScrubPage = 64;

}  // namespace

Task<Result<ScrubResult>> ScrubOnce(ShardStore* store, uint64_t bytes_per_s) {
  ScrubResult out;
  ShardId after;
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(const ShardStore::Page page, co_await store->Inventory(after, kScrubPage));
    more = page.more;
    for (const StoredShard& s : page.shards) {
      after = s.shard;
      if (!s.sealed) continue;
      if (s.damaged) {  // as stored; a copy in memory may hide it until the next start
        ++out.damaged;
        store->NoteDamagedRecord(s.shard);
        continue;
      }
      Result<void> good = co_await store->Verify(s.shard);
      if (good.code() == FsError::kNoSuchShard) continue;  // deleted meanwhile
      ++out.shards;
      out.bytes += s.length;
      if (!good.ok()) ++out.damaged;
      co_await Sleep(
          static_cast<int64_t>(static_cast<double>(s.length) * 1e9 / static_cast<double>(bytes_per_s)));
    }
  }
  co_return out;
}

Task<void> ScrubForever(ShardStore* store, ScrubOptions options) {
  co_await Sleep(options.first_after_ns);
  while (true) {
    const Result<ScrubResult> r = co_await ScrubOnce(store, options.bytes_per_s);
    const std::string& name = store->options().name;
    if (!r.ok()) {
      LogWarning("scrub of {} stopped: {}", name, r.error());
    } else {
      LogInfo("scrub of {}: {} shards, {} bytes, {} damaged", name, r->shards, r->bytes, r->damaged);
    }
    co_await Sleep(options.pause_ns);
  }
}

}  // namespace stria
