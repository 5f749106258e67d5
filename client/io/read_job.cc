#include "client/io/read_job.h"

#include <algorithm>

#include "common/sabotage.h"
#include "stripe/checksum.h"

namespace stria::read_job {

FsError Blame(FsError code) {
  switch (code) {
    case FsError::kNoSuchShard:
    case FsError::kChecksum:
    case FsError::kDiskFailed:
      return code;
    case FsError::kIo:
    case FsError::kCorrupt:
      return FsError::kDiskFailed;
    default:
      return FsError::kUnavailable;
  }
}

bool TokenTrouble(FsError code) { return code == FsError::kTokenExpired || code == FsError::kBadToken; }

Doubt DoubtOf(Readiness r) {
  switch (r) {
    case Readiness::kGood:
      return Doubt::kNone;
    case Readiness::kAvoided:
      return Doubt::kAvoided;
    case Readiness::kDown:
      return Doubt::kDown;
    case Readiness::kGone:
      return Doubt::kBad;
  }
  return Doubt::kBad;
}

bool Verified(ShardId shard, uint64_t shard_offset, const BufferChain& bytes, const ReadItem& as) {
  if (Sabotaged(Sabotage::kSkipChecksum)) return true;
  const std::vector<uint32_t>& crcs = as.crcs;
  if (crcs.size() != ChecksumBlocks(as.left_out.head_bytes + bytes.size() + as.left_out.tail_bytes)) return false;
  if (bytes.parts().size() == 1 || as.left_out.any()) {
    const Buffer all = bytes.Flatten();
    return !FirstBadBlock(shard, shard_offset / kChecksumBlockBytes, all.span(), as.left_out, crcs);
  }
  for (uint64_t at = 0, i = 0; at < bytes.size(); at += kChecksumBlockBytes, ++i) {
    const Buffer block =
        bytes.Slice(at, std::min<uint64_t>(kChecksumBlockBytes, bytes.size() - at)).Flatten();
    if (BlockCrc(shard, shard_offset / kChecksumBlockBytes + i, block.span()) != crcs[i]) return false;
  }
  return true;
}

}  // namespace stria::read_job
