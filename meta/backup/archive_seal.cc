#include "meta/backup/archive_seal.h"

#include <openssl/crypto.h>

#include <optional>
#include <utility>

#include "common/check.h"
#include "common/once_cipher.h"

namespace stria {
namespace {

constexpr std::string_view kPurpose = "stria-metadata-backup-1";
constexpr std::string_view kCipherPurpose = "stria-metadata-backup-cipher-1";

Error NotMade() {
  return Error(FsError::kAccess, "it was not sealed by this cluster's metadata server: somebody else has made it");
}

}  // namespace

ArchiveSeal::Keys::Keys(const ClusterKey& master) : mac(master, kPurpose), cipher(master, kCipherPurpose) {}

ArchiveSeal::ArchiveSeal(const std::vector<ClusterKey>& master) {
  for (const ClusterKey& key : master) keys_.emplace_back(key);
  CHECK(!keys_.empty(), "backup objects are sealed with a key");
}

Result<const ArchiveSeal::Keys*> ArchiveSeal::Find(uint32_t key_id) const {
  for (const Keys& k : keys_) {
    if (k.mac.key_id() == key_id) return &k;
  }
  return Error(FsError::kAccess, "it is sealed by the key " + std::to_string(key_id) + ", which is not among those given");
}

Result<void> ArchiveSeal::Check(uint32_t key_id, std::string_view bytes, std::string_view tag) const {
  ASSIGN_OR_RETURN(const Keys* keys, Find(key_id));
  if (keys->mac.Is(bytes, tag)) return Ok();
  return NotMade();
}

std::string ArchiveSeal::Encrypt(const PurposeTag& seal, std::string_view beside, std::string_view body) const {
  PurposeTag key = keys_.front().cipher.Of({reinterpret_cast<const char*>(seal.data()), seal.size()});
  std::string out = EncryptOnce(key, beside, body);
  OPENSSL_cleanse(key.data(), key.size());
  return out;
}

Result<std::string> ArchiveSeal::Decrypt(uint32_t key_id, std::string_view seal, std::string_view beside,
                                         std::string_view encrypted) const {
  ASSIGN_OR_RETURN(const Keys* keys, Find(key_id));
  PurposeTag key = keys->cipher.Of(seal);
  std::optional<std::string> out = DecryptOnce(key, beside, encrypted);
  OPENSSL_cleanse(key.data(), key.size());
  if (!out) return NotMade();
  return *std::move(out);
}

}  // namespace stria
