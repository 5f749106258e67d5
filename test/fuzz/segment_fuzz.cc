#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/segment.h"
#include "server/shard_index.h"
#include "stripe/checksum.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

std::string Number(uint64_t v, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(v >> (8 * i)));
  return out;
}

// The order for one entry, as the target reads it: kind 0 is packed.
std::string Order(uint64_t shard, int kind, uint64_t length) {
  std::string out = Number(shard, 4) + Number(static_cast<uint64_t>(kind), 1) + Number(length, 3);
  for (uint64_t i = 0; i < ChecksumBlocks(length); ++i) out += Number(17 * i + shard, 2);
  return out;
}

// In the order of the target's kinds.
std::vector<std::string> Samples() {
  SegmentEntry e;
  e.offset = 4096;
  e.shard = ShardId(5), e.length = 70'000, e.crcs.assign(ChecksumBlocks(e.length), 9);
  e.digest = TableDigest(e.crcs, e.length);
  ShardRecord record;
  record.kind = ShardKind::kPacked, record.place = {3, 4096}, record.length = e.length, record.crcs = e.crcs, record.digest = e.digest;
  const std::string file = Number(0, 1) + Order(1, 0, 100) + Number(0, 1) +                              // no bytes of its own
                           Number(1, 1) + Order(2, 1, 1'000'000) + Number(2, 1) +                        // a table, then the next batch
                           Number(0, 1) + Order(3, 0, 70'000) + Number(4, 1) + "text" + Number(2, 1);
  return {
      std::string(1, 0) + SegmentName(77),
      std::string(1, 0) + RawShardName(ShardId(0x1234)),
      std::string(1, 1) + Number(64, 2) + EncodeSegmentHead(Uuid{7, 9}, 3, e),
      std::string(1, 2) + Number(64, 2) + Order(5, 0, 70'000) + Number(50, 2),
      std::string(1, 3) + EncodeShardRecord(ShardId(1), record),
      std::string(1, 4) + file,
      std::string(1, 4) + file + Number(3, 1) + Number(4, 1) + Number(200, 1) + std::string(200, 'x') + file,
  };
}

TEST(SegmentFuzz, BoundedRun) { FuzzBounded(20'261'127, 10'000, 1, Samples()); }

}  // namespace
}  // namespace stria
