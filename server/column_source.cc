#include "server/column_source.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/sabotage.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr int64_t kSourceTimeoutNs = 30 * kSecond;

}  // namespace

ColumnSource MakeColumnSource(const StripeGrant& stripe, ColumnIndex column, const ClusterMap& map) {
  ColumnSource s;
  s.column = column;
  s.index = IndexInGroup(stripe.info.shape, column);
  s.info = stripe.info.columns[column.v];
  s.token = stripe.tokens[column.v];
  s.table.resize(ChecksumBlocks(s.info.length));
  const TargetInfo* target = map.FindTarget(s.info.target);
  const NodeInfo* node = target != nullptr ? map.FindNode(target->node) : nullptr;
  if (node != nullptr) s.address = node->address;
  return s;
}

Task<Result<Buffer>> ReadColumn(ColumnSource* source, uint64_t offset, uint64_t length, ColumnReadEnv env) {
  ReadRequest request;
  request.header.cluster = env.map->cluster;
  request.header.incarnation = env.map->incarnation;
  request.header.seen_term = env.map->term;
  request.header.seen_proof = env.map->term_proof;
  request.header.timeout_ns = kSourceTimeoutNs;
  request.header.trace_id = env.trace_id;
  request.header.background = true;
  ShardRead item;
  item.shard = source->info.shard;
  item.target = source->info.target;
  item.token = source->token;
  item.offset = offset;
  item.length = length;
  request.items.push_back(std::move(item));
  const std::shared_ptr<DataService> peer = env.connector->Connect(source->address);
  CO_ASSIGN_OR_RETURN(ReadReply reply, co_await peer->Read(std::move(request)));
  if (reply.items.size() != 1) {
    co_return Error(FsError::kBadRequest, source->address + " gave a malformed reply");
  }
  ReadItem& got = reply.items[0];
  if (got.result.code != FsError::kOk) co_return got.result.error();
  const Error wrong(FsError::kChecksum, source->address + " gave other bytes than were written");
  if (got.length != length || reply.payload.size() != length) co_return wrong;
  const uint64_t first = offset / kChecksumBlockBytes;
  Buffer bytes = reply.payload.Flatten();
  auto crcs = std::make_shared<std::vector<uint32_t>>(std::move(got.crcs));
  const bool good = co_await RunOn(*env.cpu_pool, [shard = source->info.shard, first, bytes, crcs] {
    return crcs->size() == ChecksumBlocks(bytes.size()) &&
           (Sabotaged(Sabotage::kSkipChecksum) || !FirstBadBlock(shard, first, bytes.span(), *crcs));
  });
  if (!good) co_return wrong;
  for (size_t i = 0; i < crcs->size(); ++i) source->table[first + i] = (*crcs)[i];
  co_return bytes;
}

std::vector<uint32_t> BlockCrcs(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes) {
  std::vector<uint32_t> out;
  for (uint64_t at = 0; at < bytes.size(); at += kChecksumBlockBytes) {
    const uint64_t n = std::min<uint64_t>(kChecksumBlockBytes, bytes.size() - at);
    out.push_back(BlockCrc(shard, first_block + out.size(), bytes.subspan(at, n)));
  }
  return out;
}

bool IsColumnLoss(FsError code) {
  return code == FsError::kChecksum || code == FsError::kNoSuchShard || code == FsError::kDiskFailed ||
         code == FsError::kCorrupt;
}

bool IsAsWritten(const ColumnSource& source) {
  if (source.info.length == 0) return true;  // it has no shard
  std::vector<uint32_t> table;
  for (const std::optional<uint32_t>& crc : source.table) {
    if (!crc) return false;
    table.push_back(*crc);
  }
  return TableDigest(table, source.info.length) == source.info.digest;
}

}  // namespace stria
