#include "client/vfs/mappings.h"

#include <algorithm>
#include <optional>

#include "stripe/extent_map.h"

namespace stria {
namespace {
// Asked ahead of the reader, so that a scan does not ask for each piece.
constexpr uint64_t kMapAheadBytes = 256 * kMiB;
constexpr int kMaxAttempts = 8;
constexpr int64_t kDoubtEachNs = 10 * kSecond;
}  // namespace

void InodeMapping::Doubt(int64_t now_ns) {
  if (tally_->reconstructed_bytes == decoded_then_ || now_ns < doubt_next_ns_) return;
  decoded_then_ = tally_->reconstructed_bytes;
  doubt_next_ns_ = now_ns + kDoubtEachNs;
  Forget();
}

Task<Result<void>> Mappings::Ensure(InodeMappingPtr of, uint64_t offset, uint64_t length, bool for_pages) {
  InodeMapping& m = *of;
  // Each of our commits may come between, and who writes small pieces and syncs them makes one after the other.
  const int64_t until_ns = Executor::Current().NowNs() + timeout_ns_;
  for (int attempt = 0; attempt < kMaxAttempts || Executor::Current().NowNs() < until_ns; ++attempt) {
    const bool may_keep = needs_.may_keep(of);
    if (may_keep && m.known().Covers(offset, length, Executor::Current().NowNs())) co_return Ok();
    const uint64_t epoch = m.epoch();
    m.MakeRoom();
    uint64_t at = offset;
    const uint64_t ahead = may_keep ? std::max(length, std::min(kMapAheadBytes, kMaxFileBytes - offset)) : length;
    const uint64_t need = RangeEnd(offset, length);
    const uint64_t end = RangeEnd(offset, ahead);
    while (at < need) {
      GetExtentsRequest r;
      r.ino = m.ino();
      r.header.opened = m.proof();
      r.offset = at;
      r.length = end - at;
      r.when_told = !for_pages;
      const int64_t asked_ns = Executor::Current().NowNs();
      CO_ASSIGN_OR_RETURN(GetExtentsReply reply, co_await needs_.ask(std::move(r)));
      if (m.epoch() != epoch) break;
      if (reply.covered_to <= at) co_return Error(FsError::kIo, "the metadata server gave no mapping for a range");
      m.Add(at, reply, asked_ns);
      at = reply.covered_to;
    }
    // Shared inodes are asked each time; the answer is used for this one read. Others may have needed the room meanwhile.
    if (m.epoch() == epoch && m.known().CoveredTo(offset) >= need) co_return Ok();
  }
  co_return Error(FsError::kIo, "the mapping of this file changes faster than it can be read");
}

Task<Result<bool>> Mappings::AtOnce(InodeMappingPtr of, uint64_t offset, AtOnceHow how, uint64_t* end,
                                    ExtentCache* mapping, Attr* seen) {
  std::optional<uint64_t> version;
  for (uint64_t at = offset; at < *end;) {
    GetExtentsRequest r;
    r.ino = of->ino();
    r.header.opened = of->proof();
    r.offset = at;
    r.length = *end - at;
    r.when_told = !how.for_pages;
    const int64_t asked_ns = Executor::Current().NowNs();
    CO_ASSIGN_OR_RETURN(const GetExtentsReply reply, co_await needs_.ask(std::move(r)));
    if (!how.any && version && *version != reply.attr.data_version) co_return false;
    version = reply.attr.data_version;
    *seen = reply.attr;
    *end = std::min(*end, std::max(reply.attr.size, how.own_size));
    if (at >= *end) break;
    if (at >= reply.attr.size) {  // below what is not committed yet there is nothing
      mapping->Know(at, *end, {});
      break;
    }
    if (reply.covered_to <= at) co_return Error(FsError::kIo, "the metadata server gave no mapping for a range");
    mapping->Add(at, reply, asked_ns);
    at = reply.covered_to;
  }
  co_return true;
}

}  // namespace stria
