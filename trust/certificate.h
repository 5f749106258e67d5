// Keys, certificates and requests for them, as values. P-256 throughout: a signature takes 20 us of one core, and every
// OpenSSL and every kernel has it; Ed25519 keys of others are taken.
//
// What is parsed here comes from peers and from disks: sizes are bounded, and what is not exactly of our form is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trust/identity.h"

struct evp_pkey_st;
struct x509_st;
struct X509_req_st;

namespace stria {

inline constexpr int64_t kDayS = 24 * 3600;
inline constexpr int64_t kCertificateDays = 90;  // at most; the admin may have them shorter
inline constexpr int64_t kMinCertificateLifeS = 60;
inline constexpr int64_t kAuthorityDays = 3650;
// Certificates begin so long before they are made: a PC whose clock is slow by days works as before.
inline constexpr int64_t kBackdatedS = 30 * kDayS;
inline constexpr size_t kMaxPemBytes = 64 * 1024;
inline constexpr size_t kMaxRequestBytes = 2048;  // DER of a CertRequest
inline constexpr size_t kMaxAuthorities = 4;      // in a bundle

// Immutable, shared; any thread. So are all here.
class PrivateKey {
 public:
  static PrivateKey Make();
  // The first private key in `pem`.
  static Result<PrivateKey> FromPem(std::string_view pem);
  std::string ToPem() const;  // secret
  Sha256Hash public_hash() const;
  evp_pkey_st* get() const { return key_.get(); }

 private:
  explicit PrivateKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  std::shared_ptr<evp_pkey_st> key_;
};

// A request for a certificate: a public key, signed with its private one. Who asks says what it wants to be elsewhere.
class CertRequest {
 public:
  static CertRequest Make(const PrivateKey& key);
  // Checks the signature. kBadRequest with a sentence.
  static Result<CertRequest> FromDer(std::string_view der);
  std::string ToDer() const;
  Sha256Hash key_hash() const;
  X509_req_st* get() const { return request_.get(); }

 private:
  explicit CertRequest(std::shared_ptr<X509_req_st> request) : request_(std::move(request)) {}
  std::shared_ptr<X509_req_st> request_;
};

class Certificate {
 public:
  // The only certificate in `pem`.
  static Result<Certificate> FromPem(std::string_view pem);
  // All of them, in order; at most kMaxAuthorities + 1, at least one.
  static Result<std::vector<Certificate>> AllFromPem(std::string_view pem);
  // Takes a share in it.
  static Certificate Of(x509_st* certificate);
  std::string ToPem() const;

  // Of a peer; the reason if it has none or more than one.
  Result<Identity> identity() const;
  // Of an authority: its cluster.
  std::optional<Uuid> authority_of() const;
  std::string serial() const;  // hex, no leading zeros
  int64_t not_before_s() const;
  int64_t not_after_s() const;
  Sha256Hash hash() const;      // of its DER: what is pinned
  Sha256Hash key_hash() const;  // of its public key
  bool MatchesKey(const PrivateKey& key) const;
  x509_st* get() const { return certificate_.get(); }
  bool operator==(const Certificate& other) const { return hash() == other.hash(); }

 private:
  explicit Certificate(std::shared_ptr<x509_st> certificate) : certificate_(std::move(certificate)) {}
  std::shared_ptr<x509_st> certificate_;
};

// When its owner should ask for the next one: at two thirds of what it is good for, counted from when it was made.
int64_t RenewAt(const Certificate& certificate);

}  // namespace stria
