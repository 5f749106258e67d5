// Room: gather. user.stria.gather = "OFFSET:LENGTH,LENGTH,..": bytes of a file that are there move into gathered stripes of
// the file's layout, whose data columns have these lengths. For `stria gather`, a stripe at a time.
//
// 1. The file is opened for writing; its lease must be exclusive: else another mount has it open, and kBusy says so.
// 2. For each stripe the file is held (FileForGather), so that nothing is written or cut off and no lease is given up: what is
//    dirty is committed; the bytes are read; they are stored; one commit swaps the extents.
// So a reader sees the old stripes or the new one, with the same bytes; mtime stays.
//
// Owns nothing: it is one operation.
//
// Invariant: it swaps extents only of a file that it has held since before it read the bytes, so that no byte changes for readers.
//
// Called by: Ranges. Calls: FileForGather, and what stores stripes. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "client/io/stripe_io.h"
#include "client/io/write_all.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "stripe/types.h"

namespace stria {

struct GatherRequest {
  uint64_t offset = 0;
  std::vector<uint64_t> columns;
};
Result<GatherRequest> ParseGather(std::string_view text);

// While it lives the file is as it is, and this mount's alone; all of it is committed, but for pages of mappings, which
// wait for no lease and stay dirty: committed in between they would be swapped out.
class FileForGather {
 public:
  virtual ~FileForGather() = default;
  virtual const Layout& layout() const = 0;
  virtual uint64_t size() const = 0;
  virtual std::unique_ptr<GrantSource> Source() = 0;
  // All of the range. kInval if it has a hole.
  virtual Task<Result<BufferChain>> Read(uint64_t offset, uint64_t length) = 0;
  // What was true at first still is: the session may have been lost.
  virtual bool held() const = 0;
  // The bytes of the range are in this stripe from here on.
  virtual Task<Result<void>> Swap(uint64_t offset, uint64_t length, StripeInfo stripe) = 0;
};
using HoldForGather = std::function<Task<Result<std::unique_ptr<FileForGather>>>()>;

// `hold` outlives the call.
Task<Result<void>> GatherColumns(StripeIo io, GatherRequest request, const HoldForGather& hold);

}  // namespace stria
