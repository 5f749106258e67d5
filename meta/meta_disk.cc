#include "meta/meta_disk.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/rocks_kv.h"
#include "meta/model/families.h"
#include "meta/replica/replica_log.h"
#include "meta/service/meta_server.h"

namespace stria {
namespace {

constexpr int64_t kRoomPeriodNs = 2 * kSecond;

}  // namespace

Result<void> MetaDisk::OpenRoom() {
  RETURN_IF_ERROR(room_.Open());
  is_full_ = room_.Level() >= RoomLevel::kFull;
  return Ok();
}

Result<std::unique_ptr<KvStore>> MetaDisk::OpenStore(bool create, bool replicated) {
  ASSIGN_OR_RETURN(files_, DivideFiles(RaiseFileLimit(), 1, "stria-meta"));
  RocksKvOptions options;
  options.memory = RocksMemory::Make(config_.memory_bytes);
  options.prefix_bytes = FamilyPrefixBytes();
  options.create_if_missing = create;
  options.max_open_files = static_cast<int>(files_.per_store);
  if (room_.total_bytes() > 0) options.max_wal_bytes = std::min(options.max_wal_bytes, ReserveBytes(room_.total_bytes()));
  options.flush_at_open = !is_full_;
  std::vector<std::string> families = FamilyNames();
  // One that is alone again has them still, without anything in them.
  std::vector<std::string>& log = replicated ? families : options.spare_families;
  for (std::string& name : ReplicaFamilyNames()) log.push_back(std::move(name));
  ASSIGN_OR_RETURN(std::unique_ptr<RocksKv> kv, RocksKv::Open(MetaStorePath(config_.data), families, options, sync_pool_));
  room_.KeepForStart();
  return std::unique_ptr<KvStore>(std::move(kv));
}

Task<Result<void>> MetaDisk::Format(Superblock super) {
  CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, OpenStore(true));
  FormatParams params;
  params.cluster = super.cluster;
  params.store = super.own;
  params.layout = config_.layout;
  params.now_ns = Executor::Current().WallNs();
  CO_RETURN_IF_ERROR(co_await FormatMetaStore(std::move(kv), params));
  co_return WriteDataDir(config_.data, super);
}

Task<void> MetaDisk::FollowRoom() {
  while (true) {
    co_await Sleep(kRoomPeriodNs);
    room_.Follow();
  }
}

}  // namespace stria
