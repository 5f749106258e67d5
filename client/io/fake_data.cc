#include "client/io/fake_data.h"

#include <algorithm>
#include <utility>

#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {

namespace {
constexpr Uuid kFakeCluster{0x5717a, 1};
constexpr int64_t kForEverNs = 365 * 24 * 3600 * kSecond;
}

class FakeDataCluster::Serving {
 public:
  explicit Serving(size_t* count) : count_(count) { ++*count_; }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { --*count_; }

 private:
  size_t* count_;
};

class FakeDataCluster::Service final : public DataService {
 public:
  Service(FakeDataCluster* c, NodeId node) : c_(c), node_(node) {}

  Task<Result<WriteReply>> Write(WriteRequest r) override {
    const Serving serving(&c_->in_service_);
    ++c_->counters_[node_].writes;
    const FsError arrived = co_await c_->Arrive(node_, r.header);
    if (arrived != FsError::kOk) co_return Error(arrived, "fake");
    if (r.payload.size() > kMaxPayloadBytes || r.items.size() > kMaxDataItems)
      c_->Violation("write too large");
    WriteReply reply;
    for (int times = c_->rng_.Percent(c_->nodes_[node_].duplicate_percent) ? 2 : 1; times > 0; --times) {
      reply.items.clear();
      uint64_t at = 0;
      for (const ShardWrite& w : r.items) {
        if (w.length > r.payload.size() - at) {
          c_->Violation("items and payload of a write differ");
          co_return Error(FsError::kBadRequest, "fake");
        }
        reply.items.push_back(c_->WriteItem(node_, w, r.payload.Slice(at, w.length)));
        at += w.length;
      }
    }
    co_return co_await Answer(std::move(reply));
  }

  Task<Result<SealReply>> Seal(SealRequest r) override {
    const Serving serving(&c_->in_service_);
    ++c_->counters_[node_].seals;
    const FsError arrived = co_await c_->Arrive(node_, r.header);
    if (arrived != FsError::kOk) co_return Error(arrived, "fake");
    SealReply reply;
    for (const ShardSeal& s : r.items) {
      const FsError token = c_->CheckToken(node_, 'w', s.shard, s.target, s.token);
      reply.items.push_back(token == FsError::kOk ? c_->SealItem(node_, s.shard, s.target, s.length)
                                                  : SealResult{{token, "fake"}, 0, 0});
    }
    co_return co_await Answer(std::move(reply));
  }

  Task<Result<ReadReply>> Read(ReadRequest r) override {
    const Serving serving(&c_->in_service_);
    ++c_->counters_[node_].reads;
    const FsError arrived = co_await c_->Arrive(node_, r.header);
    if (arrived != FsError::kOk) co_return Error(arrived, "fake");
    ReadReply reply;
    uint64_t bytes = 0;
    for (const ShardRead& item : r.items) {
      bytes += item.length;
      reply.items.push_back(c_->ReadOne(node_, item, &reply.payload));
    }
    if (bytes > kMaxPayloadBytes || r.items.size() > kMaxDataItems) c_->Violation("read too large");
    co_return co_await Answer(std::move(reply));
  }

  Task<Result<DeleteReply>> Delete(DeleteRequest r) override {
    const Serving serving(&c_->in_service_);
    ++c_->counters_[node_].deletes;
    const FsError arrived = co_await c_->Arrive(node_, r.header);
    if (arrived != FsError::kOk) co_return Error(arrived, "fake");
    DeleteReply reply;
    for (const ShardDelete& d : r.items) {
      const FsError token = c_->CheckToken(node_, 'd', d.shard, d.target, d.token);
      if (token == FsError::kOk) c_->shards_.erase(d.shard);
      reply.items.push_back({token, ""});
    }
    co_return co_await Answer(std::move(reply));
  }

  Task<Result<InventoryReply>> Inventory(InventoryRequest) override {
    co_return Error(FsError::kNoSys, "fake");
  }

 private:
  template <class Rep>
  Task<Result<Rep>> Answer(Rep reply) {
    co_await c_->Delay(node_, !reply.items.empty());
    if (c_->nodes_[node_].hung) co_await Sleep(kForEverNs);
    if (c_->nodes_[node_].down || c_->rng_.Percent(c_->nodes_[node_].lost_reply_percent)) {
      co_return Error(FsError::kUnavailable, "the fake lost its answer");
    }
    co_return std::move(reply);
  }

  FakeDataCluster* c_;
  NodeId node_;
};

FakeDataCluster::FakeDataCluster(uint64_t seed, uint32_t nodes, uint32_t disks_per_node)
    : rng_(seed), disks_per_node_(disks_per_node) {
  map_.version = 1;
  map_.cluster = kFakeCluster;
  map_.incarnation = 1;
  for (uint32_t n = 1; n <= nodes; ++n) {
    NodeInfo node;
    node.id = NodeId(n);
    node.name = "n" + std::to_string(n);
    node.address = "fake:" + std::to_string(n);
    map_.nodes.push_back(node);
    for (uint32_t d = 0; d < disks_per_node; ++d) {
      TargetInfo target;
      target.id = TargetId((n - 1) * disks_per_node + d + 1);
      target.node = node.id;
      target.label = "d" + std::to_string(d + 1);
      map_.targets.push_back(target);
    }
  }
}
FakeDataCluster::~FakeDataCluster() = default;

std::shared_ptr<DataService> FakeDataCluster::Connect(const std::string& address) {
  for (const NodeInfo& n : map_.nodes) {
    if (n.address == address) return std::make_shared<Service>(this, n.id);
  }
  return nullptr;
}

std::shared_ptr<const ClusterMap> FakeDataCluster::Map() const { return std::make_shared<ClusterMap>(map_); }

void FakeDataCluster::SetState(NodeId id, NodeState state) {
  for (NodeInfo& n : map_.nodes) {
    if (n.id == id) n.state = state;
  }
  ++map_.version;
}

std::string FakeDataCluster::Token(char right, ShardId shard, TargetId target) {
  return right + (":" + std::to_string(shard.v)) + ":" + std::to_string(target.v);
}

Result<StripeGrant> FakeDataCluster::Allocate(const StripeShape& shape, const std::vector<TargetId>& avoid) {
  // Round over the nodes, one disk of each, then the next disk of each.
  std::vector<TargetId> order;
  const uint32_t nodes = static_cast<uint32_t>(map_.nodes.size());
  const uint64_t start = next_start_++;
  for (uint32_t d = 0; d < disks_per_node_; ++d) {
    for (uint32_t n = 0; n < nodes; ++n) {
      const TargetId t(static_cast<uint32_t>((n + start) % nodes) * disks_per_node_ + d + 1);
      if (std::find(avoid.begin(), avoid.end(), t) == avoid.end()) order.push_back(t);
    }
  }
  if (order.size() < shape.columns())
    return Error(FsError::kTooFewDomains, "too few disks are left in the fake");
  StripeGrant g;
  g.info.id = StripeId(next_stripe_++);
  g.info.shape = shape;
  g.info.shape.payload_bytes = 0;
  g.info.shape.column_bytes.clear();
  for (uint32_t c = 0; c < shape.columns(); ++c) {
    Column column;
    column.shard = ShardId(next_shard_++);
    column.target = order[c];
    g.info.columns.push_back(column);
    g.tokens.push_back(Token('w', column.shard, column.target));
  }
  return g;
}

SharedGrant FakeDataCluster::ReadGrant(const StripeInfo& info) const {
  StripeGrant g{info, {}};
  for (const Column& c : info.columns) g.tokens.push_back(c.shard ? Token('r', c.shard, c.target) : "");
  return std::make_shared<const StripeGrant>(std::move(g));
}

bool FakeDataCluster::IsSealed(ShardId shard) const {
  auto it = shards_.find(shard);
  return it != shards_.end() && it->second.sealed;
}

FakeDataCluster::Counters FakeDataCluster::Total() const {
  Counters sum;
  for (const auto& [node, c] : counters_) {
    sum.reads += c.reads;
    sum.writes += c.writes;
    sum.seals += c.seals;
    sum.deletes += c.deletes;
  }
  return sum;
}

Task<void> FakeDataCluster::Delay(NodeId node, bool of_disk) {
  const NodeFaults& f = nodes_[node];
  co_await Sleep(f.delay_ns + (of_disk ? f.disk_delay_ns : 0) + static_cast<int64_t>(rng_.Below(200)) * kMicrosecond);
}

Task<FsError> FakeDataCluster::Arrive(NodeId node, const DataHeader& header) {
  NodeFaults& f = nodes_[node];
  if (header.cluster != map_.cluster || header.incarnation != map_.incarnation)
    co_return FsError::kWrongCluster;
  if (header.timeout_ns <= 0) Violation("a request without a time limit");
  if (f.down_after != UINT64_MAX && f.down_after-- == 0) f.down = true;
  if (f.down) co_return FsError::kUnavailable;
  co_await Sleep(static_cast<int64_t>(rng_.Below(200)) * kMicrosecond);
  if (f.hung) co_await Sleep(kForEverNs);
  if (f.hung_after != UINT64_MAX && f.hung_after-- == 0) f.hung = true;
  if (f.down || rng_.Percent(f.lost_request_percent)) co_return FsError::kUnavailable;
  if (rng_.Percent(f.busy_percent)) co_return FsError::kRetryLater;
  co_return FsError::kOk;
}

FsError FakeDataCluster::CheckToken(NodeId node, char right, ShardId shard, TargetId target,
                                    const std::string& token) {
  if (NodeOf(target) != node) Violation("a request went to the wrong node");
  if (token != Token(right, shard, target)) {
    Violation("a request came with the wrong token");
    return FsError::kBadToken;
  }
  return tokens_expired_ ? FsError::kTokenExpired : FsError::kOk;
}

SealResult FakeDataCluster::WriteItem(NodeId node, const ShardWrite& w, const BufferChain& bytes) {
  const FsError token = CheckToken(node, 'w', w.shard, w.target, w.token);
  if (token != FsError::kOk) return {{token, "fake"}, 0, 0};
  if (targets_[w.target].write != FsError::kOk) return {{targets_[w.target].write, "fake disk"}, 0, 0};
  if (w.offset % kChecksumBlockBytes != 0 || w.length == 0 || w.crcs.size() != ChecksumBlocks(w.length)) {
    Violation("a write is not in whole blocks");
    return {{FsError::kBadRequest, "fake"}, 0, 0};
  }
  Shard& s = shards_[w.shard];
  if (s.sealed) return {{FsError::kShardSealed, "fake"}, 0, 0};
  s.target = w.target;
  if (s.bytes.size() < w.offset + w.length) s.bytes.resize(w.offset + w.length);
  bytes.CopyTo(0, w.length, s.bytes.data() + w.offset);
  for (uint64_t i = 0; i < w.crcs.size(); ++i) {
    const uint64_t block = w.offset / kChecksumBlockBytes + i;
    const uint64_t begin = block * kChecksumBlockBytes;
    const uint64_t n = std::min(kChecksumBlockBytes, w.offset + w.length - begin);
    if (BlockCrc(w.shard, block, {s.bytes.data() + begin, n}) != w.crcs[i]) {
      Violation("a write came with a wrong checksum");
      return {{FsError::kChecksum, "fake"}, 0, 0};
    }
    s.crcs[block] = w.crcs[i];
    s.block_bytes[block] = n;
  }
  return w.seal ? SealItem(node, w.shard, w.target, w.offset + w.length) : SealResult();
}

SealResult FakeDataCluster::SealItem(NodeId, ShardId shard, TargetId target, uint64_t length) {
  auto it = shards_.find(shard);
  if (it == shards_.end()) return {{FsError::kNoSuchShard, "fake"}, 0, 0};
  if (targets_[target].write != FsError::kOk) return {{targets_[target].write, "fake disk"}, 0, 0};
  Shard& s = it->second;
  std::vector<uint32_t> table;
  uint64_t have = 0;
  for (uint64_t b = 0; b < ChecksumBlocks(length); ++b) {
    if (!s.crcs.count(b)) break;
    table.push_back(s.crcs[b]);
    have += s.block_bytes[b];
  }
  if (have != length || s.bytes.size() != length) {
    Violation("a seal does not match the written bytes");
    return {{FsError::kBadRequest, "fake"}, 0, 0};
  }
  s.sealed = true;
  s.digest = TableDigest(table, length);
  return {{}, length, targets_[target].lies_at_seal ? s.digest + 1 : s.digest};
}

ReadItem FakeDataCluster::ReadOne(NodeId node, const ShardRead& r, BufferChain* payload) {
  ReadItem item;
  item.result.code = CheckToken(node, 'r', r.shard, r.target, r.token);
  if (item.result.code != FsError::kOk) return item;
  item.result.code = targets_[r.target].read;
  if (item.result.code != FsError::kOk) return item;
  auto it = shards_.find(r.shard);
  if (it == shards_.end() || !it->second.sealed) {
    item.result.code = FsError::kNoSuchShard;
    return item;
  }
  const Shard& s = it->second;
  const uint64_t end = r.offset + r.length;
  if (r.offset % kChecksumBlockBytes != 0 || r.length == 0 || end > s.bytes.size() ||
      (end % kChecksumBlockBytes != 0 && end != s.bytes.size())) {
    Violation("a read is not in whole blocks");
    item.result.code = FsError::kBadRequest;
    return item;
  }
  for (uint64_t b = r.offset / kChecksumBlockBytes; b < DivCeil(end, kChecksumBlockBytes); ++b) {
    item.crcs.push_back(s.crcs.at(b));
  }
  // In two parts, as a network may deliver it.
  const uint64_t cut = rng_.Below(r.length + 1);
  const Buffer all = Buffer::Copy({s.bytes.data() + r.offset, r.length});
  BufferChain bytes;
  bytes.Append(all.Slice(0, cut));
  bytes.Append(all.Slice(cut, r.length - cut));
  if (r.omit_head != 0 || r.omit_tail != 0) item.left_out = CutEnds(&bytes, r.omit_head, r.omit_tail);
  item.length = bytes.size();
  payload->Append(bytes);
  return item;
}

}  // namespace stria
