// The parts of one read that stripe_reader.cc works with: a range of a stripe with its plan and fetched pieces, requests, and
// checks of replies. Values and pure functions. Internal to client/io.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "api/data_api.h"
#include "client/io/peers.h"
#include "client/io/stripe_reader.h"
#include "stripe/read_plan.h"

namespace stria::read_job {

// Columns are left out of a plan from this on; a stripe that cannot be read so is tried with more.
enum class Doubt : uint8_t { kNone = 0, kSlow = 1, kAvoided = 2, kDown = 3, kBad = 4 };

// Bytes of one column that were fetched and verified.
struct Piece {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  BufferChain bytes;
};

// One stripe range being read.
struct Job {
  const StripeRange* range = nullptr;
  std::array<Doubt, kMaxColumns> doubt{};
  std::array<FsError, kMaxColumns> failure{};  // of bad columns
  std::optional<ReadPlan> plan;
  std::vector<FetchRange> asked;  // sent and not failed
  std::vector<Piece> pieces;
  // The first plan, if it asks only for the bytes wanted, and its answers so far. A later plan may need more, so it asks for
  // whole blocks; the first plan counts if it is complete before.
  std::optional<ReadPlan> trimmed;
  std::vector<Piece> trimmed_pieces;
  bool trimming = false;  // no other plan was made yet
  bool finished = false;
  Result<void> result;

  bool worth_waiting = false;  // it failed for servers that may be back soon

  const StripeInfo& info() const { return range->stripe->info; }
  const Column& column(ColumnIndex c) const { return info().columns[c.v]; }
};

// A part of a request: which job, which bytes.
struct Item {
  size_t job = 0;
  FetchRange range;
  bool trimmed = false;
  uint64_t omit_head = 0, omit_tail = 0;  // of the range's bytes

  uint64_t wanted_bytes() const { return range.length - omit_head - omit_tail; }
};

struct Batch {
  NodeId node;
  std::vector<Item> items;
  uint64_t bytes = 0;
};

// The failure to report for a column, from its request's error.
FsError Blame(FsError code);
// A fresh token helps.
bool TokenTrouble(FsError code);
Doubt DoubtOf(Readiness r);
// Checks every block of `bytes` against its checksum; with the left-out bytes, `bytes` begin at a block of the shard.
bool Verified(ShardId shard, uint64_t shard_offset, const BufferChain& bytes, const ReadItem& as);

}  // namespace stria::read_job
