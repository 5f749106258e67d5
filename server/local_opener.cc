#include "server/local_opener.h"

#include <memory>
#include <string>
#include <utility>

#include "server/segment.h"

namespace stria {

Task<Result<LocalShard>> LocalOpener::OpenLocal(ShardId shard, TargetId target, std::string token) {
  CO_RETURN_IF_ERROR(tokens_->CheckHere(token, {.shard = shard, .target = target, .right = kTokenRead}, server_->TokenTimeS()));
  server_->gate().SeeForeground();
  ShardStore* store = server_->FindStore(target);
  const auto found = disks_.find(store);
  Disk* const disk = found == disks_.end() ? nullptr : found->second;
  if (store == nullptr || disk == nullptr) {
    co_return Error(FsError::kNoSuchShard, "target " + std::to_string(target.v) + " is not on this node");
  }
  if (store->hung()) co_return Error(FsError::kDiskFailed, "the disk does not answer");
  // The network read that follows counts and reports a bad record or file.
  CO_ASSIGN_OR_RETURN(const ShardRecordPtr record, co_await store->index().Get(shard));
  if (!record) co_return Error(FsError::kNoSuchShard);
  if (record->kind != ShardKind::kRaw || record->crcs.size() > kMaxLocalCrcs) {
    co_return Error(FsError::kNotSupported, "shard " + std::to_string(shard.v) + " is no file of its own");
  }
  CO_ASSIGN_OR_RETURN(const int fd, disk->OpenForRead(RawShardName(shard)));
  co_return LocalShard{std::make_shared<const UniqueFd>(fd), record->length, record->crcs};
}

}  // namespace stria
