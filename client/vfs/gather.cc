// user.stria.gather = "OFFSET:LENGTH,LENGTH,..": bytes of a file that are there move into gathered stripes of the
// file's layout, whose data columns have these lengths. For `stria gather`, a stripe at a time.
//
// 1. The file is opened for writing; its lease must be exclusive: else another mount has it open, and kBusy says so.
// 2. For each stripe, with the inode's open_mu and lease_mu held, so that nothing is written or cut off and no lease is given up:
//    what is dirty is committed; the bytes are read; they are stored; one commit swaps the extents. Pages of mappings,
//    which wait for no lease, stay dirty until then (WriteBackPause): committed in between they would be swapped out.
// So a reader sees the old stripes or the new one, with the same bytes; mtime stays.
#include <algorithm>
#include <charconv>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/pieces.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {

// In memory at once, with parity on top. A lease is not given up for as long as it takes to store them.
constexpr uint64_t kMaxGatherBytes = 256 * kMiB;
constexpr int kMaxGatherTries = 4;

struct GatherRequest {
  uint64_t offset = 0;
  std::vector<uint64_t> columns;
};

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

}  // namespace

Task<Result<void>> Vfs::Gather(Caller who, InodeId ino, std::string text) {
  CO_ASSIGN_OR_RETURN(const GatherRequest request, ParseGather(text));
  VfsHandle flags;
  flags.write = true;
  CO_ASSIGN_OR_RETURN(const Opened opened, co_await Open(who, ino, /*truncate=*/false, std::move(flags)));
  auto done = co_await GatherColumns(opened.handle->inode, request.offset, request.columns);
  CO_RETURN_IF_ERROR(co_await Release(std::move(who), opened.handle));
  co_return done;
}

Task<Result<void>> Vfs::GatherColumns(std::shared_ptr<VfsInode> inode, uint64_t offset,
                                      std::vector<uint64_t> columns) {
  while (!columns.empty()) {
    // A stripe may have fewer columns than the layout: the rest goes into the next one.
    CO_ASSIGN_OR_RETURN(const size_t done, co_await GatherOneStripe(inode, offset, columns));
    for (size_t i = 0; i < done; ++i) offset += columns[i];
    columns.erase(columns.begin(), columns.begin() + static_cast<ptrdiff_t>(done));
  }
  co_return Ok();
}

Task<Result<size_t>> Vfs::GatherOneStripe(std::shared_ptr<VfsInode> inode, uint64_t offset,
                                          std::vector<uint64_t> columns) {
  VfsInode& n = *inode;
  auto unchanged = co_await n.open_mu.Lock();
  n.open_mu.HeldFor("gather");
  auto held = co_await n.lease_mu.Lock();
  n.lease_mu.HeldFor("gather");
  if (!HoldsFor(n, true) || n.lease != LeaseMode::kExclusive) {
    co_return Error(FsError::kBusy, "another mount has the file open");
  }
  if (n.layout.arrangement != Arrangement::kGathered) {
    co_return Error(FsError::kInval, "the layout of the file is not gathered");
  }
  CO_RETURN_IF_ERROR(co_await FlushInode(inode, false));
  WriteBackPause pause(WritesOf(inode));
  co_await pause.Begin();
  auto source = pool_.SourceFor(n.ino, n.layout);
  std::vector<TargetId> avoid;
  Error last;
  for (int attempt = 0; attempt < kMaxGatherTries; ++attempt) {
    CO_ASSIGN_OR_RETURN(StripeGrant grant, co_await source->Take(0, avoid));
    const StripeId id = grant.info.id;
    StripeWriterOptions options;
    options.columns.assign(columns.begin(),
                           columns.begin() + static_cast<ptrdiff_t>(std::min<size_t>(
                                                 columns.size(), grant.info.shape.data_columns())));
    uint64_t total = 0;
    for (const uint64_t bytes : options.columns) total += bytes;
    Result<void> readable;
    if (total > kMaxGatherBytes) readable = Error(FsError::kInval, "that is more than 256 MiB of one stripe");
    if (readable.ok() && (offset > n.attr.size || total > n.attr.size - offset)) {
      readable = Error(FsError::kInval, "the range reaches beyond the end of the file");
    }
    if (readable.ok()) readable = co_await mappings_.Ensure(MappingOf(inode), offset, total, false);
    if (readable.ok()) {
      const auto mapped = n.mapping.known().Lookup(offset, total).value_or(std::vector<Segment>());
      for (const Segment& s : mapped) {
        if (s.kind == Segment::Kind::kHole) readable = Error(FsError::kInval, "the range has a hole");
      }
    }
    BufferChain bytes;
    if (readable.ok()) {
      auto read = co_await ReadRange(inode, nullptr, offset, total);
      readable = read.ok() ? Result<void>() : Result<void>(read.error());
      if (read.ok()) bytes = std::move(*read);
      if (readable.ok() && bytes.size() != total) readable = Error(FsError::kAgain, "the file became shorter meanwhile");
    }
    if (!readable.ok()) {
      source->GiveBack(id);
      co_return readable.error();
    }
    StripeWritten w = co_await WriteWholeStripe(io_, std::move(grant), n.layout, std::move(bytes), options);
    if (w.error.ok()) {
      if (n.lease != LeaseMode::kExclusive || !HoldsFor(n, true)) {
        source->GiveBack(id);
        co_return Error(FsError::kFenced, "the mount lost its session meanwhile");
      }
      if (n.writes.clean()) n.writes.SetMtime(n.attr.mtime_ns);  // the content is what it was
      Extent extent{.file_offset = offset, .length = total, .stripe = id, .stripe_offset = 0};
      auto reply = co_await CommitPieces(inode, {std::move(w.info)}, {std::move(extent)}, false, false);
      if (n.writes.clean()) n.writes.SetMtime(std::nullopt);
      if (reply.ok()) {
        n.in_kernel.KeptPagesAreOld();
        if (n.writes.clean()) n.attr = reply->attr;
        co_return options.columns.size();
      }
      w.error = reply.error();
      if (w.error.code != FsError::kConflict) attempt = kMaxGatherTries;
    }
    source->GiveBack(id);
    if (w.error.code == FsError::kNoSpace) source->HurryGiveBack();
    avoid = std::move(w.failed);
    last = std::move(w.error);
  }
  co_return last;
}

}  // namespace stria
