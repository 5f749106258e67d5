#include "server/data_server.h"

#include <algorithm>
#include <set>

#include "common/exec/unless_pulsed.h"
#include "server/detach.h"

namespace stria {
namespace {

constexpr uint64_t kRequestBytes = 4 * kKiB;  // that a request without payload counts for
constexpr uint32_t kMaxInventory = 512;  // of records, which have the checksums of all blocks: 64 KiB at most
constexpr uint64_t kSealBytes = 64 * kKiB;  // that the syncs of one count for
constexpr int64_t kMinTimeoutNs = 1 * kMillisecond;
constexpr int64_t kMaxTimeoutNs = 30 * kSecond;

// That the caller waits for.
int64_t TimeoutOf(const DataHeader& header) { return std::clamp(header.timeout_ns, kMinTimeoutNs, kMaxTimeoutNs); }

Error Busy() { return Error(FsError::kRetryLater, "this data server has too much to do"); }

ItemResult ToItem(const Error& e) { return ItemResult{e.code, e.message}; }

// 0: it has proved nothing.
uint64_t HolderOf(const DataHeader& header) { return header.peer ? header.peer->Holder() : 0; }

// Sum of the items' lengths; nullopt if one message may not carry that much.
template <class Item>
std::optional<uint64_t> PayloadBytes(const std::vector<Item>& items) {
  uint64_t total = 0;
  for (const Item& item : items) {
    if (item.length > kMaxPayloadBytes) return std::nullopt;
    total += item.length;
    if (total > kMaxPayloadBytes) return std::nullopt;
  }
  return total;
}

// Of the first and the last block some must remain.
bool OmitsSoundly(const ShardRead& r) {
  if (r.omit_head == 0 && r.omit_tail == 0) return true;
  return r.omit_head < kChecksumBlockBytes && r.omit_tail < kChecksumBlockBytes && r.omit_head + r.omit_tail < r.length;
}

// Numbers of the items of each shard, in order.
template <class Item>
std::vector<std::vector<size_t>> ByShard(const std::vector<Item>& items) {
  std::map<std::pair<TargetId, ShardId>, std::vector<size_t>> groups;
  for (size_t i = 0; i < items.size(); ++i) groups[{items[i].target, items[i].shard}].push_back(i);
  std::vector<std::vector<size_t>> out;
  for (auto& [_, group] : groups) out.push_back(std::move(group));
  return out;
}

// Runs `each` for the numbers of one group, one after another.
template <class Each>
Task<void> InOrder(std::vector<size_t> group, const Each* each) {
  for (const size_t i : group) co_await (*each)(i);
}

// Calls to a silent disk end here; their tasks go on by themselves, or never end.
template <class T>
Task<Result<T>> UnlessSilent(ShardStore* store, Task<Result<T>> task) {
  if (store->silence().silent()) co_return store->silence().error();
  const DiskSilence::Wait waits(&store->silence());
  std::optional<Result<T>> got = co_await UnlessPulsed<Result<T>>(&task, &store->silence().found());
  if (!got) co_return store->silence().error();
  co_return std::move(*got);
}

}  // namespace

DataServer::DataServer(const TokenGate* gate, DataServerOptions options)
    : tokens_(gate),
      options_(options),
      write_bytes_(static_cast<int64_t>(options.max_write_bytes)),
      read_bytes_(static_cast<int64_t>(options.max_read_bytes)),
      requests_(options.max_requests),
      background_(options.max_background),
      gate_(options.background) {}

Result<void> DataServer::CheckHeader(const DataHeader& header) {
  RETURN_IF_ERROR(CheckProtocol(header));
  if (!cluster_ || incarnation_ == 0) {
    return Error(FsError::kNotReady, "this data server is not registered yet");
  }
  if (header.cluster != cluster_) {
    return Error(FsError::kWrongCluster, "this data server belongs to cluster " + cluster_.ToString());
  }
  if (header.incarnation > incarnation_) {
    return Error(FsError::kRetryLater, "this data server has not heard of the new incarnation yet");
  }
  if (header.incarnation < incarnation_) {
    return Error(FsError::kWrongCluster, "the cluster was restored from a backup: mount it again");
  }
  // What is done for this caller may be in a later life of the metadata only: a former one is not to judge it.
  if (!terms_.Claim(header.peer.get(), {header.seen_term, header.seen_proof})) return Busy();
  return Ok();
}

Result<DataServer::Admission> DataServer::Admit(const DataHeader& header, size_t items, uint64_t bytes,
                                                PeerRoom* room) {
  ++stats_.requests;
  ++stats_.refused_requests;  // until it is not
  RETURN_IF_ERROR(CheckHeader(header));
  if (items > kMaxDataItems) return Error(FsError::kBadRequest, "too many items in one request");
  Admission out;
  out.request = requests_.TryTake(HolderOf(header), 1);
  if (!out.request) return Busy();
  if (room != nullptr) {
    out.bytes = room->TryTake(HolderOf(header), static_cast<int64_t>(std::max(bytes, kRequestBytes)));
    if (!out.bytes) return Busy();
  }
  --stats_.refused_requests;
  return out;
}

Task<Result<DataServer::Admission>> DataServer::AdmitUse(const DataHeader& header, size_t items, uint64_t bytes,
                                                         PeerRoom* room) {
  if (!header.background) {
    CO_ASSIGN_OR_RETURN(Admission admission, Admit(header, items, bytes, room));
    admission.use = gate_.Foreground(bytes);
    co_return admission;
  }
  CO_RETURN_IF_ERROR(CheckHeader(header));
  PeerRoom::Hold background = background_.TryTake(HolderOf(header), 1);
  if (!background) co_return Busy();
  std::optional<GateUse> use = co_await WithTimeout(TimeoutOf(header), gate_.Background(bytes));
  if (!use) co_return Error(FsError::kDeadline, "this data server is busy with others");
  CO_ASSIGN_OR_RETURN(Admission admission, Admit(header, items, bytes, room));
  admission.background = std::move(background);
  admission.use = *std::move(use);
  co_return admission;
}

template <class Request>
bool DataServer::KeepsBackground(const Request& request, TokenRight right) const {
  const std::shared_ptr<const Peer>& peer = request.header.peer;
  if (!request.header.background || (peer && peer->role != Role::kData)) return false;
  return std::any_of(request.items.begin(), request.items.end(), [&](const auto& item) {
    // How much it may write is looked at when it is written.
    const TokenUse use{.shard = item.shard, .target = item.target, .right = right, .bytes = 0};
    return tokens_->Check(item.token, use, peer.get(), TokenTimeS()).ok();
  });
}

Result<ShardStore*> DataServer::CheckItem(const DataHeader& header, ShardId shard, TargetId target,
                                          const std::string& token, TokenRight right, uint64_t end) {
  const TokenUse use{.shard = shard, .target = target, .right = right, .bytes = end};
  Result<void> good = tokens_->Check(token, use, header.peer.get(), TokenTimeS());
  if (!good.ok()) {
    ++stats_.refused_tokens;
    // One that is over is nobody's fault.
    if (options_.denied && header.peer && good.code() == FsError::kBadToken) options_.denied(*header.peer, good.error());
    return good.error();
  }
  ShardStore* store = FindStore(target);
  if (store == nullptr) {
    return Error(FsError::kNoSuchShard, "target " + std::to_string(target.v) + " is not on this node");
  }
  return store;
}

// ---- Write ----------------------------------------------------------------------------------------

Task<Result<WriteReply>> DataServer::Write(WriteRequest request) {
  const std::optional<uint64_t> bytes = PayloadBytes(request.items);
  if (!bytes || *bytes != request.payload.size()) {
    co_return Error(FsError::kBadRequest, "the payload of a write is too large or does not fit its items");
  }
  request.header.background = KeepsBackground(request, kTokenWrite);
  CO_ASSIGN_OR_RETURN(Admission admission,
                      co_await AdmitUse(request.header, request.items.size(), *bytes, &write_bytes_));
  co_return co_await RunIn(scope_, DoWrite(std::move(request), std::move(admission)));
}

Task<SealResult> DataServer::WriteItem(const DataHeader& header, const ShardWrite& item, BufferChain bytes, bool keep) {
  SealResult out;
  const uint64_t end = item.offset + std::min(item.length, UINT64_MAX - item.offset);
  Result<ShardStore*> store = CheckItem(header, item.shard, item.target, item.token, kTokenWrite, end);
  if (!store.ok()) {
    out.result = ToItem(store.error());
    co_return out;
  }
  Result<void> written = co_await UnlessSilent(
      *store, RunIn(scope_, (*store)->Write(item.shard, item.offset, std::move(bytes), item.crcs, false, keep)));
  out.result = ToItem(written.error());
  if (!written.ok()) co_return out;
  stats_.written_bytes += item.length;
  if (!item.seal) co_return out;
  Result<Sealed> sealed =
      co_await UnlessSilent(*store, RunIn(scope_, (*store)->Seal(item.shard, item.offset + item.length)));
  out.result = ToItem(sealed.error());
  if (sealed.ok()) {
    out.length = sealed->length;
    out.digest = sealed->digest;
  }
  co_return out;
}

Task<Result<WriteReply>> DataServer::DoWrite(WriteRequest request, Admission admission) {
  WriteReply reply;
  reply.items.resize(request.items.size());
  std::vector<uint64_t> starts;
  uint64_t at = 0;
  for (const ShardWrite& item : request.items) {
    starts.push_back(at);
    at += item.length;
  }
  const auto each = [&](size_t i) -> Task<void> {
    const ShardWrite& item = request.items[i];
    const bool keep = item.seal && item.length >= request.payload.size() / 2;
    reply.items[i] = co_await WriteItem(request.header, item, request.payload.Slice(starts[i], item.length), keep);
  };
  std::vector<Task<void>> tasks;
  for (std::vector<size_t>& group : ByShard(request.items)) tasks.push_back(InOrder(std::move(group), &each));
  const int64_t asked_ns = Executor::Current().NowNs();
  co_await WhenAll(std::move(tasks));
  reply.disk.ns = Executor::Current().NowNs() - asked_ns;
  co_return reply;
}

// ---- Seal -----------------------------------------------------------------------------------------

Task<Result<SealReply>> DataServer::Seal(SealRequest request) {
  request.header.background = KeepsBackground(request, kTokenWrite);
  CO_ASSIGN_OR_RETURN(Admission admission,
                      co_await AdmitUse(request.header, request.items.size(), kSealBytes, nullptr));
  co_return co_await RunIn(scope_, DoSeal(std::move(request), std::move(admission)));
}

Task<SealResult> DataServer::SealItem(const DataHeader& header, const ShardSeal& item) {
  SealResult out;
  Result<ShardStore*> store = CheckItem(header, item.shard, item.target, item.token, kTokenWrite, item.length);
  if (!store.ok()) {
    out.result = ToItem(store.error());
    co_return out;
  }
  Result<Sealed> sealed = co_await UnlessSilent(*store, RunIn(scope_, (*store)->Seal(item.shard, item.length)));
  out.result = ToItem(sealed.error());
  if (sealed.ok()) {
    out.length = sealed->length;
    out.digest = sealed->digest;
  }
  co_return out;
}

Task<Result<SealReply>> DataServer::DoSeal(SealRequest request, Admission admission) {
  std::vector<Task<SealResult>> tasks;
  for (const ShardSeal& item : request.items) tasks.push_back(SealItem(request.header, item));
  SealReply reply;
  const int64_t asked_ns = Executor::Current().NowNs();
  reply.items = co_await WhenAll(std::move(tasks));
  reply.disk.ns = Executor::Current().NowNs() - asked_ns;
  co_return reply;
}

// ---- Read -----------------------------------------------------------------------------------------

Task<Result<ShardBytes>> DataServer::ReadItem(const DataHeader& header, const ShardRead& item) {
  CO_ASSIGN_OR_RETURN(ShardStore * store, CheckItem(header, item.shard, item.target, item.token, kTokenRead));
  co_return co_await UnlessSilent(
      store, store->Read(item.shard, item.offset, item.length, header.background, {item.omit_head, item.omit_tail}));
}

Task<bool> DataServer::ReadItems(const ReadRequest* request, std::vector<Result<ShardBytes>>* results) {
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < request->items.size(); ++i) {
    tasks.push_back([](DataServer* s, const DataHeader* header, const ShardRead* item, Result<ShardBytes>* out) -> Task<void> {
      *out = co_await s->ReadItem(*header, *item);
    }(this, &request->header, &request->items[i], &(*results)[i]));
  }
  co_await WhenAll(std::move(tasks));
  co_return true;
}

Task<Result<ReadReply>> DataServer::Read(ReadRequest request) {
  const std::optional<uint64_t> bytes = PayloadBytes(request.items);
  if (!bytes) co_return Error(FsError::kBadRequest, "a read asks for too much");
  for (const ShardRead& r : request.items) {
    if (!OmitsSoundly(r)) co_return Error(FsError::kBadRequest, "a read leaves out more than the ends of its blocks");
  }
  request.header.background = KeepsBackground(request, kTokenRead);
  CO_ASSIGN_OR_RETURN(Admission admission,
                      co_await AdmitUse(request.header, request.items.size(), *bytes, &read_bytes_));
  // A disk that hangs must not keep the others' answers.
  std::vector<Result<ShardBytes>> results(request.items.size(),
                                          Error(FsError::kDeadline, "the disk is too slow"));
  const int64_t asked_ns = Executor::Current().NowNs();
  co_await WithTimeout(TimeoutOf(request.header), ReadItems(&request, &results));
  ReadReply reply;
  reply.disk.ns = Executor::Current().NowNs() - asked_ns;
  reply.items.resize(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    stria::ReadItem& out = reply.items[i];
    out.result = ToItem(results[i].error());
    if (!results[i].ok()) continue;
    const BufferChain& got = results[i]->bytes;
    out.crcs = std::move(results[i]->crcs);
    out.left_out = results[i]->left_out;
    out.length = got.size();
    reply.payload.Append(got);
    stats_.read_bytes += out.length;
  }
  co_return reply;
}

// ---- Delete, Inventory ----------------------------------------------------------------------------

Task<Result<DeleteReply>> DataServer::Delete(DeleteRequest request) {
  CO_ASSIGN_OR_RETURN(Admission admission, Admit(request.header, request.items.size(), 0, nullptr));
  co_return co_await RunIn(scope_, DoDelete(std::move(request), std::move(admission)));
}

Task<void> DataServer::DeleteOn(ShardStore* store, std::vector<std::pair<size_t, ShardId>> shards,
                                DeleteReply* reply) {
  std::set<ShardId> ids;
  for (const auto& [_, shard] : shards) ids.insert(shard);
  Result<void> done = co_await store->Delete(std::vector<ShardId>(ids.begin(), ids.end()));
  for (const auto& [i, _] : shards) reply->items[i] = ToItem(done.error());
}

Task<Result<DeleteReply>> DataServer::DoDelete(DeleteRequest request, Admission admission) {
  DeleteReply reply;
  reply.items.resize(request.items.size());
  std::map<TargetId, std::vector<std::pair<size_t, ShardId>>> by_target;
  for (size_t i = 0; i < request.items.size(); ++i) {
    const ShardDelete& item = request.items[i];
    Result<ShardStore*> store = CheckItem(request.header, item.shard, item.target, item.token, kTokenDelete);
    if (store.ok()) {
      by_target[item.target].emplace_back(i, item.shard);
    } else {
      reply.items[i] = ToItem(store.error());
    }
  }
  std::vector<Task<void>> tasks;
  for (auto& [target, shards] : by_target) {
    tasks.push_back(DeleteOn(FindStore(target), std::move(shards), &reply));
  }
  co_await WhenAll(std::move(tasks));
  co_return reply;
}

Task<Result<InventoryReply>> DataServer::Inventory(InventoryRequest request) {
  CO_ASSIGN_OR_RETURN(Admission admission, Admit(request.header, 1, 0, nullptr));
  ShardStore* store = FindStore(request.target);
  if (store == nullptr) {
    co_return Error(FsError::kNoEnt, "target " + std::to_string(request.target.v) + " is not on this node");
  }
  const uint32_t limit = std::clamp<uint32_t>(request.limit, 1, kMaxInventory);
  CO_ASSIGN_OR_RETURN(const ShardStore::Page page, co_await store->Inventory(request.after, limit));
  InventoryReply reply;
  reply.more = page.more;
  for (const StoredShard& s : page.shards) reply.shards.push_back({s.shard, s.length, s.digest, s.sealed});
  co_return reply;
}

}  // namespace stria
