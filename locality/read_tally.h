// Where bytes that were read came from. Counted by client/io's reader; printed as user.stria.io.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"

namespace stria {

struct ReadTally {
  uint64_t local_bytes = 0;          // from disks of the reader's own node
  uint64_t network_bytes = 0;        // from disks of other nodes
  uint64_t reconstructed_bytes = 0;  // decoded from those: their own disk could not give them
  uint64_t fetched_bytes() const { return local_bytes + network_bytes; }
  ReadTally& operator+=(const ReadTally& more) {
    local_bytes += more.local_bytes;
    network_bytes += more.network_bytes;
    reconstructed_bytes += more.reconstructed_bytes;
    return *this;
  }
  bool operator==(const ReadTally&) const = default;
};

// Who counts the bytes of one read: the file, and whom it is read for. Either may be null.
struct Tallies {
  Tallies() = default;
  Tallies(std::shared_ptr<ReadTally> of_file, std::shared_ptr<ReadTally> of_reader = nullptr)
      : file(std::move(of_file)), reader(std::move(of_reader)) {}
  void Add(const ReadTally& more) const {
    if (file) *file += more;
    if (reader) *reader += more;
  }

  std::shared_ptr<ReadTally> file, reader;
};

// "local=N,network=N,reconstructed=N", bytes.
std::string ReadTallyText(const ReadTally& tally);
// The inverse; unknown keys are skipped. kCorrupt if one of the three is missing or no number.
Result<ReadTally> ParseReadTally(std::string_view text);

}  // namespace stria
