// By what a restore tells that this cluster's metadata server has made a backup object: data servers keep the objects, and who has a
// data server's disks could make up others. The key is derived from the cluster's master key, which data servers of a secured cluster
// do not have.
//
// A seal says nothing of what is left out: a data server may keep back the newest objects. The other copy has them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/purpose_mac.h"

namespace stria {

// Immutable; any thread.
class ArchiveSeal {
 public:
  // As the cluster's keys are given: the first seals, all are believed. REQUIRES: there is one.
  explicit ArchiveSeal(const std::vector<ClusterKey>& master);

  uint32_t key_id() const { return macs_.front().key_id(); }
  PurposeTag Of(std::string_view bytes) const { return macs_.front().Of(bytes); }
  // kAccess with a sentence: it was sealed by a key of that number that is not here, or by none.
  Result<void> Check(uint32_t key_id, std::string_view bytes, std::string_view tag) const;

 private:
  std::vector<PurposeMac> macs_;
};

}  // namespace stria
