// Which node works on which part of a dataset: near its bytes, and no node much more than the others. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "locality/where.h"

namespace stria {

// A node may have this much more than the mean, in percent, before pieces move away from their bytes.
inline constexpr uint64_t kMaxOverMeanPercent = 10;

// A part of a file that one node works on as a whole.
struct SplitPiece {
  size_t file = 0;                    // which one of the dataset
  uint64_t begin = 0, end = 0;        // bytes of the file, or entries of its tree
  uint64_t bytes = 0;                 // to be read for it
  std::vector<uint64_t> local_bytes;  // of those, by host: bytes that lie on it and can be read
  uint64_t decoded_bytes = 0;         // of those: on no readable disk; any reader computes them from other disks
};

// Bytes of [offset, offset + length) by host: data, and copies that can be read in its place, on readable disks. `rows` are
// those of WhereRows; hosts that are not named in `hosts` do not count.
std::vector<uint64_t> LocalBytes(const std::vector<WhereRow>& rows, uint64_t offset, uint64_t length,
                                 const std::vector<std::string>& hosts);

// Bytes of [offset, offset + length) that no readable disk has, nor a copy of them: they are decoded from other disks.
uint64_t DecodedBytes(const std::vector<WhereRow>& rows, uint64_t offset, uint64_t length);

// Cuts a file where its bytes change hosts, into pieces of at least `min_bytes` (the last one may be shorter) and
// at most about `max_bytes`. REQUIRES: 0 < min_bytes <= max_bytes.
std::vector<SplitPiece> CutByHost(size_t file, const std::vector<WhereRow>& rows, const std::vector<std::string>& hosts,
                                  uint64_t min_bytes, uint64_t max_bytes);

// For each piece its host. As many bytes as possible are local (by local search, not proven the most), but no
// host gets more than 10 % over the mean; where single pieces are too large for that, a host that is over it has
// at most the mean and one of its pieces. REQUIRES: hosts > 0; local_bytes has an entry for each.
std::vector<size_t> AssignPieces(const std::vector<SplitPiece>& pieces, size_t hosts);

// The pieces of one host, in the order of files; neighbours joined.
struct HostWork {
  std::string host;
  uint64_t bytes = 0;
  uint64_t local_bytes = 0;
  std::vector<SplitPiece> pieces;  // local_bytes empty
  uint64_t decoded_bytes = 0;      // none of them local
  // The rest: read from other nodes.
  uint64_t remote_bytes() const { return bytes - local_bytes - decoded_bytes; }
};
// All hosts, also those without work.
std::vector<HostWork> SplitByHost(const std::vector<SplitPiece>& pieces, const std::vector<std::string>& hosts);

}  // namespace stria
