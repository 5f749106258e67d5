#include "meta/meta_gatherer.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace stria {
namespace {

constexpr uint32_t kNobody = 65534;  // no admin: files need not be named

OpHeader Header(const Uuid& cluster) {
  OpHeader header;
  header.cluster = cluster;
  header.uid = header.gid = kNobody;
  return header;
}

}  // namespace

Task<void> MetaGatherer::Keep() {
  while (true) {
    InodeRequest ask;
    ask.header = Header(server_->store()->super()->cluster);
    Result<StatusReply> status = co_await server_->Status(std::move(ask));
    UpkeepRequest ask_upkeep;
    ask_upkeep.header = Header(server_->store()->super()->cluster);
    Result<UpkeepReply> upkeep = co_await server_->Upkeep(std::move(ask_upkeep));
    for (const Error& e : {status.error(), upkeep.error()}) {
      if (!e.ok()) LogWarning("metrics lack the state of stripes: {}", e);
    }
    // What is old would look as if it were so now.
    status_ = status.ok() ? std::optional(std::move(*status)) : std::nullopt;
    upkeep_ = upkeep.ok() ? std::optional(std::move(*upkeep)) : std::nullopt;
    co_await Sleep(kLookNs);
  }
}

MetaFigures MetaGatherer::Now() const {
  MetaFigures f;
  const MetaStore& store = *server_->store();
  f.files = store.Count(Counter::kFiles);
  f.directories = store.Count(Counter::kDirectories);
  f.stripes = store.Count(Counter::kStripes);
  f.allocated_stripes = store.Count(Counter::kAllocated);
  f.live_bytes = store.Count(Counter::kLiveBytes);
  f.inline_bytes = store.Count(Counter::kInlineBytes);
  f.narrow_stripes = store.Count(Counter::kNarrow);
  f.crowded_stripes = store.Count(Counter::kCrowded);
  f.garbage_shards = store.Count(Counter::kGarbageShards);
  f.transactions = store.last_seq().v;
  f.starts = server_->term();
  f.sessions = server_->sessions().All().size();
  f.open_inodes = server_->leases().inodes();
  const Coherence& coherence = server_->coherence();
  f.recalls = coherence.grants().demanded().recalls;
  f.flushes = coherence.grants().demanded().flushes;
  f.lapsed = coherence.losses().lapsed;
  f.fenced = coherence.losses().fenced;
  const int64_t now_ns = Executor::Current().NowNs();
  for (const auto& [_, wait] : server_->waits().all()) {
    ++f.waiting_calls;
    f.longest_wait_ns = std::max(f.longest_wait_ns, now_ns - wait->since_ns);
  }
  const MetaServer::RepairSummary repair = server_->repair_summary();
  f.repair_waiting = repair.waiting;
  f.repair_parked = repair.parked;
  f.rebuilds = repair.in_flight;
  f.widens = repair.widens;
  f.folds = repair.folds;
  f.map = server_->cluster().Map();
  f.status = status_;
  f.upkeep = upkeep_;
  return f;
}

}  // namespace stria
