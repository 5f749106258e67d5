// Input: one byte that says what the rest is: names of files, the head of an entry, the fields of one, an index record, or orders by
// which a segment file is made that is scanned then. Disks give back what they like, and hold bytes of clients between the heads.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/io/sim_disk.h"
#include "server/segment.h"
#include "server/shard_index.h"
#include "stripe/checksum.h"
#include "stripe/types.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

constexpr Uuid kDisk{7, 9};
constexpr uint64_t kSegment = 3;
constexpr uint64_t kMaxFile = 256 * kKiB;

// Numbers off the front of the input; zeros behind its end.
class Orders {
 public:
  explicit Orders(const std::string& s) : in_(s) {}
  bool more() const { return at_ < in_.size(); }
  uint64_t Take(size_t bytes) {
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && more(); ++i) v |= uint64_t{static_cast<uint8_t>(in_[at_++])} << (8 * i);
    return v;
  }
  std::string Bytes(size_t n) {
    const std::string out = in_.substr(std::min(at_, in_.size()), n);
    at_ += out.size();
    return out;
  }

 private:
  const std::string& in_;
  size_t at_ = 0;
};

bool Same(const SegmentEntry& a, const SegmentEntry& b) {
  return a.offset == b.offset && a.shard == b.shard && a.kind == b.kind && a.length == b.length && a.digest == b.digest && a.crcs == b.crcs;
}

void AsNames(const std::string& s) {
  uint64_t segment = 0;
  const bool is_segment = ParseSegmentName(s, &segment);
  if (is_segment) Must(SegmentName(segment) == s && segment != 0);
  ShardId shard;
  const bool is_shard = ParseRawShardName(s, &shard);
  if (is_shard) Must(RawShardName(shard) == s && shard);
  Must(!is_segment || !is_shard);
  fuzz_taken += is_segment || is_shard;
}

void CheckTaken(const SegmentEntry& e, uint64_t offset, const std::string& bytes) {
  Must(e.offset == offset && e.shard && e.length > 0 && e.crcs.size() == ChecksumBlocks(e.length));
  Must(e.length <= (e.kind == ShardKind::kPacked ? kMaxPackedShardBytes : kMaxStripeBytes));
  Must(e.digest == TableDigest(e.crcs, e.length));
  const std::string again = EncodeSegmentHead(kDisk, kSegment, e);
  const auto back = DecodeSegmentHead(kDisk, kSegment, offset, again);
  Must(back.ok() && Same(*back, e));
  // An entry that lies elsewhere, or on another disk, is none.
  Must(!DecodeSegmentHead(kDisk, kSegment, offset + kSegmentEntryAlign, bytes).ok());
  Must(!DecodeSegmentHead(kDisk, kSegment + 1, offset, bytes).ok());
  Must(!DecodeSegmentHead({kDisk.hi, kDisk.lo + 1}, kSegment, offset, bytes).ok());
}

void AsHead(const std::string& s) {
  Orders in(s);
  const uint64_t offset = in.Take(2) * kSegmentEntryAlign;
  const std::string bytes = in.Bytes(s.size());
  const auto e = DecodeSegmentHead(kDisk, kSegment, offset, bytes);
  if (!e.ok()) return Must(e.code() == FsError::kCorrupt || e.code() == FsError::kNoData);
  ++fuzz_taken;
  CheckTaken(*e, offset, bytes);
}

// As the writer of segments makes one: with a right digest.
SegmentEntry EntryOf(Orders& in, uint64_t offset) {
  SegmentEntry e;
  e.offset = offset;
  e.shard = ShardId(in.Take(4));
  e.kind = in.Take(1) % 2 == 0 ? ShardKind::kPacked : ShardKind::kRaw;
  e.length = in.Take(3);
  e.crcs.resize(std::min<uint64_t>(ChecksumBlocks(e.length), 1024));
  for (uint32_t& crc : e.crcs) crc = static_cast<uint32_t>(in.Take(2));
  e.digest = TableDigest(e.crcs, e.length);
  return e;
}
bool IsSound(const SegmentEntry& e) {
  return e.shard && e.length > 0 && e.length <= (e.kind == ShardKind::kPacked ? kMaxPackedShardBytes : kMaxStripeBytes) &&
         e.crcs.size() == ChecksumBlocks(e.length);
}

void AsFields(const std::string& s) {
  Orders in(s);
  const uint64_t offset = in.Take(2) * kSegmentEntryAlign;
  const SegmentEntry e = EntryOf(in, offset);
  if (e.crcs.size() != ChecksumBlocks(e.length)) return;
  const std::string bytes = EncodeSegmentHead(kDisk, kSegment, e);
  Must(bytes.size() == SegmentHeadBytes(e.length));
  const auto back = DecodeSegmentHead(kDisk, kSegment, offset, bytes);
  Must(back.ok() == IsSound(e));
  if (!back.ok()) return;
  ++fuzz_taken;
  Must(Same(*back, e));
  CheckTaken(*back, offset, bytes);
  // Cut anywhere within head and table it is not a whole one.
  const std::string cut = bytes.substr(0, in.Take(2) % (kSegmentHeadBytes + 4 * e.crcs.size()));
  Must(DecodeSegmentHead(kDisk, kSegment, offset, cut).code() == FsError::kNoData);
}

void AsRecord(const std::string& s) {
  const ShardId shard(1);
  const auto r = DecodeShardRecord(shard, s);
  if (!r.ok()) return;
  ++fuzz_taken;
  const auto again = DecodeShardRecord(shard, EncodeShardRecord(shard, *r));
  Must(again.ok() && *again == *r && r->length > 0 && r->digest == TableDigest(r->crcs, r->length));
  Must(!DecodeShardRecord(ShardId(2), s).ok());  // the same value under another key
}

void AsFile(const std::string& s) {
  static SimExecutor ex(1);
  static const auto media = std::make_shared<SimDiskMedia>(1);
  static SimDisk disk(media);
  Orders in(s);
  std::string file = EncodeSegmentHeader(kDisk, kSegment);
  std::map<uint64_t, SegmentEntry> put;
  std::string head;  // of the last one
  bool plain = true;  // only entries, as a writer lays them
  while (in.more() && file.size() < kMaxFile) {
    file.resize(AlignUp(file.size(), kSegmentEntryAlign));
    switch (in.Take(1) % 5) {
      case 0:
      case 1: {
        const SegmentEntry e = EntryOf(in, file.size());
        if (!IsSound(e) || SegmentEntryBytes(e.kind, e.length) > kMaxFile) break;
        put[file.size()] = e;
        head = EncodeSegmentHead(kDisk, kSegment, e);
        const uint64_t end = file.size() + SegmentEntryBytes(e.kind, e.length);
        file += head;
        // A client's bytes, which may look like an entry.
        if (e.kind == ShardKind::kPacked) file += in.Bytes(std::min<uint64_t>(in.Take(1), e.length));
        file.resize(end);
        break;
      }
      case 2:
        file.resize(AlignUp(file.size(), kSegmentBatchAlign));
        break;
      case 3:  // a copy of a head that is true elsewhere
        file += head;
        plain = plain && head.empty();
        break;
      default:
        file += in.Bytes(in.Take(1));
        plain = false;
    }
  }
  media->SetContent(SegmentName(kSegment), file);
  const auto found = RunSim(ex, ScanSegment(&disk, kDisk, kSegment, file.size()));
  Must(found.ok());
  uint64_t end = kSegmentHeaderBytes;
  for (const SegmentEntry& e : *found) {
    Must(e.offset >= end);  // in order, none in another
    end = e.offset + SegmentEntryBytes(e.kind, e.length);
    Must(end <= file.size());
    const auto it = put.find(e.offset);
    Must(it != put.end() && Same(it->second, e));
  }
  if (plain) Must(found->size() == put.size());
  if (found->empty()) return;
  ++fuzz_taken;
  // From one of them on there are those that follow it, without the file's header.
  const size_t from = found->size() / 2;
  media->SetContent(SegmentName(kSegment), std::string(kSegmentHeaderBytes, '\0') + file.substr(kSegmentHeaderBytes));
  const auto later = RunSim(ex, ScanSegment(&disk, kDisk, kSegment, file.size(), (*found)[from].offset));
  Must(later.ok() && later->size() == found->size() - from);
  for (size_t i = 0; i < later->size(); ++i) Must(Same((*later)[i], (*found)[from + i]));
  Must(!RunSim(ex, ScanSegment(&disk, kDisk, kSegment, file.size())).ok());
}

constexpr void (*kKinds[])(const std::string&) = {&AsNames, &AsHead, &AsFields, &AsRecord, &AsFile};

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  stria::kKinds[data[0] % std::size(stria::kKinds)](input);
  return 0;
}
