#include "client/vfs/gather.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "client/io/stripe_writer.h"

namespace stria {
namespace {

// In memory at once, with parity on top. A lease is not given up for as long as it takes to store them.
constexpr uint64_t kMaxGatherBytes = 256 * kMiB;
constexpr int kMaxGatherTries = 4;

// How many of the columns are in a stripe of their own afterwards.
Task<Result<size_t>> GatherOneStripe(StripeIo io, uint64_t offset, std::vector<uint64_t> columns,
                                     const HoldForGather& hold) {
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<FileForGather> file, co_await hold());
  const std::unique_ptr<GrantSource> source = file->Source();
  std::vector<TargetId> avoid;
  Error last;
  for (int attempt = 0; attempt < kMaxGatherTries; ++attempt) {
    CO_ASSIGN_OR_RETURN(StripeGrant grant, co_await source->Take(0, avoid));
    const StripeId id = grant.info.id;
    const auto here = std::min<size_t>(columns.size(), grant.info.shape.data_columns());
    StripeWriterOptions options;
    options.columns.assign(columns.begin(), columns.begin() + static_cast<ptrdiff_t>(here));
    uint64_t total = 0;
    for (const uint64_t bytes : options.columns) total += bytes;
    Result<BufferChain> bytes = FsError::kIo;
    if (total > kMaxGatherBytes) {
      bytes = Error(FsError::kInval, "that is more than 256 MiB of one stripe");
    } else if (offset > file->size() || total > file->size() - offset) {
      bytes = Error(FsError::kInval, "the range reaches beyond the end of the file");
    } else {
      bytes = co_await file->Read(offset, total);
    }
    if (!bytes.ok()) {
      source->GiveBack(id);
      co_return bytes.error();
    }
    StripeWritten w = co_await WriteWholeStripe(io, std::move(grant), file->layout(), std::move(*bytes), options);
    if (w.error.ok()) {
      if (!file->held()) {
        source->GiveBack(id);
        co_return Error(FsError::kFenced, "the mount lost its session meanwhile");
      }
      const auto swapped = co_await file->Swap(offset, total, std::move(w.info));
      if (swapped.ok()) co_return options.columns.size();
      w.error = swapped.error();
      if (w.error.code != FsError::kConflict) attempt = kMaxGatherTries;
    }
    source->GiveBack(id);
    if (w.error.code == FsError::kNoSpace) source->HurryGiveBack();
    avoid = std::move(w.failed);
    last = std::move(w.error);
  }
  co_return last;
}

}  // namespace

Result<GatherRequest> ParseGather(std::string_view text) {
  const Error bad(FsError::kInval, "gather needs OFFSET:LENGTH,LENGTH,..");
  const auto number = [&text](uint64_t* to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *to);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  GatherRequest r;
  if (!number(&r.offset) || !text.starts_with(':')) return bad;
  uint64_t total = 0;
  do {
    text.remove_prefix(1);
    uint64_t length = 0;
    if (!number(&length) || length == 0 || length > kMaxFileBytes - total) return bad;
    total += length;
    r.columns.push_back(length);
  } while (text.starts_with(','));
  if (!text.empty() || r.offset > kMaxFileBytes - total) return bad;
  return r;
}

Task<Result<void>> GatherColumns(StripeIo io, GatherRequest request, const HoldForGather& hold) {
  std::vector<uint64_t>& columns = request.columns;
  while (!columns.empty()) {
    // A stripe may have fewer columns than the layout: the rest goes into the next one.
    CO_ASSIGN_OR_RETURN(const size_t done, co_await GatherOneStripe(io, request.offset, columns, hold));
    for (size_t i = 0; i < done; ++i) request.offset += columns[i];
    columns.erase(columns.begin(), columns.begin() + static_cast<ptrdiff_t>(done));
  }
  co_return Ok();
}

}  // namespace stria
