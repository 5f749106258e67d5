// For tests of this folder: a service of admins that knows which shards there should be, and nothing else.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "api/admin_api.h"

namespace stria {

// Knows which shards live stripes have on every disk, and their digests.
class FakeAdmin final : public AdminService, public AdminConnector {
 public:
  std::shared_ptr<AdminService> ConnectAdmin(const std::string&) override {
    return {std::shared_ptr<void>(), static_cast<AdminService*>(this)};
  }
  Task<Result<UpkeepReply>> Upkeep(UpkeepRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<FsckRepairReply>> FsckRepair(FsckRepairRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<CanRemoveReply>> CanRemove(CanRemoveRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<NamesReply>> Names(NamesRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<FilesReply>> Files(FilesRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<ReadEventsReply>> ReadEvents(ReadEventsRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<ScrubOrder>> ReportScrub(ReportScrubRequest) override { co_return ScrubOrder(); }
  Task<Result<CompareShardsReply>> CompareShards(CompareShardsRequest r) override {
    if (away) co_return Error(FsError::kUnavailable);
    CompareShardsReply reply;
    for (const auto& [shard, digest] : live[r.target]) {
      if (shard <= r.after || shard > r.last) continue;
      const auto it = std::ranges::find_if(r.held, [&](const HeldShard& h) { return h.shard == shard; });
      if (it == r.held.end()) reply.missing.push_back(shard);
      else if (it->digest != digest) reply.wrong.push_back(shard);
    }
    co_return reply;
  }
  Task<Result<ListParityReply>> ListParity(ListParityRequest r) override {
    ListParityReply none;
    none.last = r.last;
    co_return none;
  }
  std::map<TargetId, std::map<ShardId, uint64_t>> live;
  bool away = false;
};

}  // namespace stria
