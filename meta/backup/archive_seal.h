// By what nobody but this cluster's metadata server reads a backup object, and by what a restore tells that it has made it: data
// servers keep the objects, and who has a data server's disks reads them, and could make up others. The keys are derived from the
// cluster's master key, which data servers of a secured cluster do not have.
//
// The seal is a MAC of an object's head and body. The body is encrypted with a key that is derived from the seal. So a key encrypts
// one message only, whatever random numbers are worth, and also if a store was copied and goes on in two places: what differs has
// another seal.
//
// A seal says nothing of what is left out: a data server may keep back the newest objects. The other copy has them.
#pragma once

#include <cstdint>
#include <string>
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

  uint32_t key_id() const { return keys_.front().mac.key_id(); }
  PurposeTag Of(std::string_view bytes) const { return keys_.front().mac.Of(bytes); }
  // kAccess with a sentence: it was sealed by a key of that number that is not here, or by none.
  Result<void> Check(uint32_t key_id, std::string_view bytes, std::string_view tag) const;

  // `seal`: of all that is encrypted, with `beside`.
  std::string Encrypt(const PurposeTag& seal, std::string_view beside, std::string_view body) const;
  // kAccess with a sentence: as Check. The seal is not compared with what comes out.
  Result<std::string> Decrypt(uint32_t key_id, std::string_view seal, std::string_view beside, std::string_view encrypted) const;

 private:
  struct Keys {
    explicit Keys(const ClusterKey& master);
    PurposeMac mac;
    PurposeMac cipher;  // of a seal: the key of its object
  };
  Result<const Keys*> Find(uint32_t key_id) const;
  std::vector<Keys> keys_;
};

}  // namespace stria
