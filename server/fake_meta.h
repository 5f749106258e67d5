// For tests of this folder: a metadata service that knows nodes and their work, and nothing else.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"

namespace stria {

// A metadata server that knows nodes and nothing else.
class FakeMetaService final : public MetaService {
 public:
  explicit FakeMetaService(ClusterMap cluster_map) : map(std::move(cluster_map)) {}

  Task<Result<RegisterNodeReply>> RegisterNode(RegisterNodeRequest r) override {
    if (away) co_return Error(FsError::kUnavailable);
    if (Ends(r.header)) co_return Error(FsError::kNotLeader);
    for (const DiskHello& d : r.disks) {
      if (!refused_label.empty() && d.label == refused_label) co_return Error(FsError::kBadRequest, "the cluster has as many disks as it can have");
    }
    ++registrations;
    hello = r;
    RegisterNodeReply reply;
    reply.node = NodeId(1);
    reply.epoch = Epoch(++epoch);
    // Of one that is not there and has no uuid nothing is known.
    for (uint32_t i = 0; i < r.disks.size(); ++i) reply.targets.push_back(TargetId(r.disks[i].absent && !r.disks[i].uuid ? 0 : i + 1));
    for (const DiskHello& d : r.disks) reply.disk_proofs.push_back(d.absent ? "" : "of disk " + std::to_string(d.uuid.lo));
    reply.map = map;
    reply.beat_ns = beat_ns;
    co_return reply;
  }
  Task<Result<HeartbeatReply>> Heartbeat(HeartbeatRequest r) override {
    if (Ends(r.header)) co_return Error(FsError::kNotLeader);
    if (r.epoch.v != epoch) co_return Error(FsError::kFenced);
    beat = r;
    ++beats;
    HeartbeatReply reply;
    reply.map_version = map.version;
    reply.term = map.term;
    for (const auto& [_, w] : deletes) reply.deletes.push_back(w);
    for (const auto& [_, w] : checks) reply.checks.push_back(w);
    for (const auto& [_, w] : rebuilds) {
      if (reply.rebuilds.size() < r.rebuild_slots) reply.rebuilds.push_back(w);
    }
    co_return reply;
  }
  Task<Result<Empty>> ReportWork(ReportWorkRequest r) override {
    if (lose_reports > 0) {
      --lose_reports;
      co_return Error(FsError::kUnavailable);
    }
    for (const ShardId s : r.deleted) deletes.erase(s);
    for (const CheckResult& c : r.checked) {
      checks.erase(c.shard);
      checked[c.shard].push_back(c.result.code);
    }
    for (const RebuildResult& b : r.rebuilt) {
      rebuilds.erase(b.task);
      rebuilt.push_back(b);
    }
    co_return Empty{};
  }
  Task<Result<CheckShardsReply>> CheckShards(CheckShardsRequest r) override {
    CheckShardsReply reply;
    reply.incarnation = map.incarnation;
    for (const ShardId s : r.shards) {
      if (!known.contains(s)) reply.unknown.push_back(s);
    }
    co_return reply;
  }
  Task<Result<Empty>> ReportShard(ReportShardRequest r) override {
    bad.insert(r.shard);
    co_return Empty{};
  }
  Task<Result<ClusterMap>> GetMap(InodeRequest) override { co_return map; }

#define STRIA_NOT_HERE(Reply, Name, Request) \
  Task<Result<Reply>> Name(Request) override { co_return Error(FsError::kNoSys); }
  STRIA_NOT_HERE(OpenSessionReply, OpenSession, OpenSessionRequest)
  STRIA_NOT_HERE(RenewReply, Renew, RenewRequest)
  STRIA_NOT_HERE(PollReply, Poll, PollRequest)
  STRIA_NOT_HERE(Empty, CloseSession, InodeRequest)
  STRIA_NOT_HERE(NodeReply, Lookup, NameRequest)
  STRIA_NOT_HERE(NodeReply, GetAttr, InodeRequest)
  STRIA_NOT_HERE(NodeReply, SetAttr, SetAttrRequest)
  STRIA_NOT_HERE(OpenReply, MakeNode, MakeNodeRequest)
  STRIA_NOT_HERE(OpenReply, Open, OpenRequest)
  STRIA_NOT_HERE(Empty, Release, InodeRequest)
  STRIA_NOT_HERE(Empty, LeaseDone, LeaseDoneRequest)
  STRIA_NOT_HERE(NodeReply, Unlink, NameRequest)
  STRIA_NOT_HERE(NodeReply, Rmdir, NameRequest)
  STRIA_NOT_HERE(NodeReply, Rename, RenameRequest)
  STRIA_NOT_HERE(NodeReply, Link, LinkRequest)
  STRIA_NOT_HERE(ReadLinkReply, ReadLink, InodeRequest)
  STRIA_NOT_HERE(ReadDirReply, ReadDir, ReadDirRequest)
  STRIA_NOT_HERE(XattrReply, GetXattr, XattrRequest)
  STRIA_NOT_HERE(XattrReply, ListXattr, XattrRequest)
  STRIA_NOT_HERE(XattrReply, SetXattr, XattrRequest)
  STRIA_NOT_HERE(XattrReply, RemoveXattr, XattrRequest)
  STRIA_NOT_HERE(StatFsReply, StatFs, InodeRequest)
  STRIA_NOT_HERE(LayoutReply, GetLayout, LayoutRequest)
  STRIA_NOT_HERE(LayoutReply, SetLayout, LayoutRequest)
  STRIA_NOT_HERE(Empty, Sync, InodeRequest)
  STRIA_NOT_HERE(PathsReply, Paths, InodeRequest)
  STRIA_NOT_HERE(GetExtentsReply, GetExtents, GetExtentsRequest)
  STRIA_NOT_HERE(AllocateReply, Allocate, AllocateRequest)
  STRIA_NOT_HERE(CommitReply, Commit, CommitRequest)
  STRIA_NOT_HERE(CloneReply, Clone, CloneRequest)
  STRIA_NOT_HERE(StatusReply, Status, InodeRequest)
  STRIA_NOT_HERE(AdminReply, Admin, AdminRequest)
  STRIA_NOT_HERE(FsckReply, Fsck, InodeRequest)
  STRIA_NOT_HERE(LockReply, Lock, LockRequest)
#undef STRIA_NOT_HERE

  ClusterMap map;
  bool away = false;  // no server answers
  SaidTerm believes;  // a later life: it ends when it hears of it
  uint64_t epoch = 0;
  int64_t beat_ns = kSecond;
  std::string refused_label;  // no node is registered with such a disk
  int registrations = 0;
  int beats = 0;
  int lose_reports = 0;
  RegisterNodeRequest hello;
  HeartbeatRequest beat;
  std::map<ShardId, DeleteWork> deletes;
  std::map<uint64_t, RebuildWork> rebuilds;
  std::vector<RebuildResult> rebuilt;
  std::map<ShardId, CheckWork> checks;
  std::map<ShardId, std::vector<FsError>> checked;  // as reported
  std::set<ShardId> known;
  std::set<ShardId> bad;

 private:
  bool Ends(const OpHeader& h) const { return believes.term != 0 && believes == SaidTerm{h.seen_term, h.seen_proof}; }
};

class FakeMetaConnector final : public MetaConnector {
 public:
  explicit FakeMetaConnector(FakeMetaService* meta) : meta_(meta) {}
  std::shared_ptr<MetaService> Connect(const std::string&) override {
    return {std::shared_ptr<void>(), meta_};
  }

 private:
  FakeMetaService* const meta_;
};

}  // namespace stria
