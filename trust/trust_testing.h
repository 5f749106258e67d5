// For tests: a cluster's authority, and what it gives to a peer.
#pragma once

#include <memory>
#include <string>

#include "trust/credentials.h"

namespace stria {

inline constexpr int64_t kTestNowS = 1'800'000'000;
inline constexpr Uuid kTestCluster{0x1111222233334444, 0x5555666677778888};
inline constexpr Uuid kOtherCluster{0x9999222233334444, 0x5555666677778888};

struct TestCluster {
  explicit TestCluster(const Uuid& uuid = kTestCluster, int64_t now_s = kTestNowS)
      : authority(Authority::Make(uuid, now_s)), bundle(Bundle::Of({authority.certificate()}).value()) {}

  Certificate Sign(const PrivateKey& key, Role role, const std::string& name, int64_t now_s = kTestNowS) const {
    return authority.Sign(CertRequest::Make(key), {authority.cluster(), role, name}, now_s).value();
  }
  std::shared_ptr<const Credentials> Give(Role role, const std::string& name, int64_t now_s = kTestNowS,
                                          const Revoked& revoked = {}) const {
    PrivateKey key = PrivateKey::Make();
    Certificate certificate = Sign(key, role, name, now_s);
    return std::make_shared<const Credentials>(Credentials::Of(std::move(key), std::move(certificate), bundle, revoked).value());
  }

  Authority authority;
  Bundle bundle;
};

}  // namespace stria
