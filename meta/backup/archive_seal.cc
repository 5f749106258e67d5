#include "meta/backup/archive_seal.h"

#include <string>

namespace stria {
namespace {

constexpr std::string_view kPurpose = "stria-metadata-backup-1";

}  // namespace

ArchiveSeal::ArchiveSeal(const std::vector<ClusterKey>& master) {
  for (const ClusterKey& key : master) macs_.emplace_back(key, kPurpose);
  CHECK(!macs_.empty(), "backup objects are sealed with a key");
}

Result<void> ArchiveSeal::Check(uint32_t key_id, std::string_view bytes, std::string_view tag) const {
  for (const PurposeMac& mac : macs_) {
    if (mac.key_id() != key_id) continue;
    if (mac.Is(bytes, tag)) return Ok();
    return Error(FsError::kAccess, "it was not sealed by this cluster's metadata server: somebody else has made it");
  }
  return Error(FsError::kAccess, "it is sealed by the key " + std::to_string(key_id) + ", which is not among those given");
}

}  // namespace stria
