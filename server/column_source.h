// Reads a column of a stripe from the server that has it, and checks it: for rebuilds and comparisons of columns. For the
// executor's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "api/meta_api.h"
#include "common/exec/pool.h"

namespace stria {

struct ColumnSource {
  ColumnIndex column;
  uint32_t index = 0;  // in its group
  Column info;
  std::string token;
  std::string address;  // "" if the map does not know its node
  bool alive = true;
  std::vector<std::optional<uint32_t>> table;  // of its blocks, as read so far
};

// REQUIRES: the grant has a token for each column.
ColumnSource MakeColumnSource(const StripeGrant& stripe, ColumnIndex column, const ClusterMap& map);

struct ColumnReadEnv {
  const ClusterMap* map = nullptr;  // all outlive the call
  DataConnector* connector = nullptr;
  Pool* cpu_pool = nullptr;
  uint64_t trace_id = 0;
};
// `offset`: of a block; `length`: whole blocks, or to the column's end. Their checksums go into the source's table. kChecksum:
// other bytes than were written, or a malformed reply; errors of the server and of the network.
Task<Result<Buffer>> ReadColumn(ColumnSource* source, uint64_t offset, uint64_t length, ColumnReadEnv env);

// The checksums of a shard's bytes from one of its blocks on; the last block may end early.
std::vector<uint32_t> BlockCrcs(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes);

// True if an error says that the column's bytes are gone, not only out of reach for now.
bool IsColumnLoss(FsError code);
// True if all of the table was read and agrees with the stripe record.
bool IsAsWritten(const ColumnSource& source);

}  // namespace stria
