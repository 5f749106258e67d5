// The cluster's own certificate authority, the bundle of those that are believed (two while one is changed for another),
// and the certificates that are not believed any more.
//
// Changing the authority: add the new one to the bundle everywhere; sign with it; when all certificates are renewed,
// remove the old one. Nothing is refused in between.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trust/certificate.h"

namespace stria {

// Immutable; any thread.
class Authority {
 public:
  static Authority Make(const Uuid& cluster, int64_t now_s);
  // As ToPem() gives it.
  static Result<Authority> FromPem(std::string_view pem);
  std::string ToPem() const;  // key and certificate; secret

  // A certificate for the key of `request`, which begins kBackdatedS ago and ends in life_s (> 0), or with the authority itself.
  // Its serial number is random (127 bits): none is given twice, and nothing has to be remembered. kInval if the authority is
  // over or the identity is of another cluster.
  Result<Certificate> Sign(const CertRequest& request, const Identity& identity, int64_t now_s, int64_t life_s = kCertificateDays * kDayS) const;

  const Certificate& certificate() const { return certificate_; }
  const Uuid& cluster() const { return cluster_; }

 private:
  Authority(PrivateKey key, Certificate certificate, const Uuid& cluster)
      : key_(std::move(key)), certificate_(std::move(certificate)), cluster_(cluster) {}
  PrivateKey key_;
  Certificate certificate_;
  Uuid cluster_;
};

// Whether that authority has signed it, whatever else it says.
bool SignedBy(const Certificate& certificate, const Certificate& authority);

// The authorities of one cluster that are believed.
class Bundle {
 public:
  // Refuses what is no authority of a cluster, two clusters in one bundle, and one twice.
  static Result<Bundle> Of(std::vector<Certificate> authorities);
  static Result<Bundle> FromPem(std::string_view pem);
  std::string ToPem() const;

  Result<Bundle> With(const Certificate& authority) const;
  Result<Bundle> Without(const Sha256Hash& authority) const;  // not without the last one
  bool Has(const Sha256Hash& authority) const;
  const std::vector<Certificate>& all() const { return all_; }
  const Uuid& cluster() const { return cluster_; }

 private:
  std::vector<Certificate> all_;
  Uuid cluster_;
};

// Serial numbers of certificates that are not believed although they are not over. In text one a line; '#' begins a comment.
class Revoked {
 public:
  static constexpr size_t kMax = 65536;
  static Result<Revoked> Parse(std::string_view text);
  std::string Format() const;
  bool Has(std::string_view serial) const { return serials_.contains(serial); }
  void Add(std::string_view serial) { serials_.emplace(serial); }
  size_t size() const { return serials_.size(); }
  const std::set<std::string, std::less<>>& all() const { return serials_; }

 private:
  std::set<std::string, std::less<>> serials_;
};

}  // namespace stria
