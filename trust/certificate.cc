#include "trust/certificate.h"

#include <openssl/ec.h>
#include <openssl/sha.h>

#include "trust/ssl_ptr.h"

namespace stria {
namespace {

constexpr std::string_view kAuthorityPrefix = "stria://";

template <class T, class F>
std::string DerOf(const T* object, F encode) {
  unsigned char* out = nullptr;
  const int n = encode(object, &out);
  CHECK(n > 0, "OpenSSL cannot encode what it has decoded");
  std::string der(reinterpret_cast<char*>(out), static_cast<size_t>(n));
  OPENSSL_free(out);
  return der;
}

Sha256Hash HashOf(std::string_view bytes) {
  Sha256Hash h;
  SHA256(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), h.data());
  return h;
}

Sha256Hash KeyHash(const EVP_PKEY* key) { return HashOf(DerOf(key, i2d_PUBKEY)); }

// The kinds of keys that are taken: others cost more to check than what a stranger may make us spend.
bool IsWelcomeKey(const EVP_PKEY* key) {
  if (key == nullptr) return false;
  if (EVP_PKEY_is_a(key, "ED25519")) return true;
  char group[32] = "";
  return EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         std::string_view(group) == SN_X9_62_prime256v1;
}

int64_t SecondsOf(const ASN1_TIME* t) {
  // By the calendar, as timegm; ASN1_TIME_diff has no bound that its callers would have to know.
  tm when = {};
  if (t == nullptr || ASN1_TIME_to_tm(t, &when) != 1) return 0;
  return timegm(&when);
}

// The texts of its URI names; false if it has names of other kinds.
bool UriNames(const X509* certificate, std::vector<std::string>* uris) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  if (names == nullptr) return true;
  bool only = true;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) {
      only = false;
      continue;
    }
    const ASN1_IA5STRING* text = name->d.uniformResourceIdentifier;
    uris->emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                       static_cast<size_t>(ASN1_STRING_length(text)));
  }
  GENERAL_NAMES_free(names);
  return only;
}

}  // namespace

// ---- Keys -----------------------------------------------------------------------------------------

PrivateKey PrivateKey::Make() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  CHECK(key != nullptr, "OpenSSL cannot make a key: " + TakeSslReason());
  return PrivateKey(std::shared_ptr<EVP_PKEY>(key, EVP_PKEY_free));
}

Result<PrivateKey> PrivateKey::FromPem(std::string_view pem) {
  if (pem.size() > kMaxPemBytes) return Error(FsError::kBadRequest, "a private key is too long");
  const BioPtr bio = ReadingBio(pem);
  // No passphrase: else OpenSSL asks for one on the terminal.
  EVP_PKEY* key = PEM_read_bio_PrivateKey(bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr);
  if (key == nullptr) {
    ERR_clear_error();
    return Error(FsError::kBadRequest, "there is no private key in PEM form without a passphrase");
  }
  std::shared_ptr<EVP_PKEY> owned(key, EVP_PKEY_free);
  if (!IsWelcomeKey(key)) return Error(FsError::kBadRequest, "the private key is neither of P-256 nor of Ed25519");
  return PrivateKey(std::move(owned));
}

std::string PrivateKey::ToPem() const {
  const BioPtr bio = WritingBio();
  CHECK(PEM_write_bio_PrivateKey(bio.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return TakeBytes(bio.get());
}

Sha256Hash PrivateKey::public_hash() const { return KeyHash(key_.get()); }

// ---- Requests -------------------------------------------------------------------------------------

CertRequest CertRequest::Make(const PrivateKey& key) {
  std::shared_ptr<X509_REQ> request(X509_REQ_new(), X509_REQ_free);
  const EVP_MD* digest = EVP_PKEY_is_a(key.get(), "ED25519") ? nullptr : EVP_sha256();
  CHECK(request != nullptr && X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) == 1 &&
        X509_REQ_set_pubkey(request.get(), key.get()) == 1 && X509_REQ_sign(request.get(), key.get(), digest) > 0);
  return CertRequest(std::move(request));
}

Result<CertRequest> CertRequest::FromDer(std::string_view der) {
  if (der.size() > kMaxRequestBytes) return Error(FsError::kBadRequest, "a request for a certificate is too long");
  const auto* p = reinterpret_cast<const unsigned char*>(der.data());
  const unsigned char* const end = p + der.size();
  std::shared_ptr<X509_REQ> request(d2i_X509_REQ(nullptr, &p, static_cast<long>(der.size())), X509_REQ_free);
  if (request == nullptr || p != end) {
    ERR_clear_error();
    return Error(FsError::kBadRequest, "a request for a certificate is malformed");
  }
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (!IsWelcomeKey(key)) {
    ERR_clear_error();
    return Error(FsError::kBadRequest, "the key of a request for a certificate is neither of P-256 nor of Ed25519");
  }
  const int good = X509_REQ_verify(request.get(), key);
  ERR_clear_error();
  if (good != 1) return Error(FsError::kBadRequest, "a request for a certificate is not signed with its own key");
  return CertRequest(std::move(request));
}

std::string CertRequest::ToDer() const { return DerOf(request_.get(), i2d_X509_REQ); }
Sha256Hash CertRequest::key_hash() const { return KeyHash(X509_REQ_get0_pubkey(request_.get())); }

// ---- Certificates ---------------------------------------------------------------------------------

Result<std::vector<Certificate>> Certificate::AllFromPem(std::string_view pem) {
  if (pem.size() > kMaxPemBytes) return Error(FsError::kBadRequest, "the certificates are too long");
  const BioPtr bio = ReadingBio(pem);
  std::vector<Certificate> all;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr)) {
    all.push_back(Certificate(std::shared_ptr<X509>(one, X509_free)));
    if (all.size() > kMaxAuthorities + 1) return Error(FsError::kBadRequest, "there are too many certificates");
    if (!IsWelcomeKey(X509_get0_pubkey(one))) {
      ERR_clear_error();
      return Error(FsError::kBadRequest, "the key of a certificate is neither of P-256 nor of Ed25519");
    }
  }
  // The end of the text is one error, and there is another where PEM is torn.
  const unsigned long last = ERR_peek_last_error();
  const bool ended = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!ended || all.empty()) return Error(FsError::kBadRequest, "there is no certificate in PEM form, or a torn one");
  return all;
}

Result<Certificate> Certificate::FromPem(std::string_view pem) {
  ASSIGN_OR_RETURN(std::vector<Certificate> all, AllFromPem(pem));
  if (all.size() != 1) return Error(FsError::kBadRequest, "there is more than one certificate");
  return all[0];
}

Certificate Certificate::Of(x509_st* certificate) {
  CHECK(X509_up_ref(certificate) == 1);
  return Certificate(std::shared_ptr<X509>(certificate, X509_free));
}

std::string Certificate::ToPem() const {
  const BioPtr bio = WritingBio();
  CHECK(PEM_write_bio_X509(bio.get(), certificate_.get()) == 1);
  return TakeBytes(bio.get());
}

Result<Identity> Certificate::identity() const {
  std::vector<std::string> uris;
  if (!UriNames(certificate_.get(), &uris) || uris.size() != 1) {
    return Error(FsError::kBadRequest, "a certificate does not name exactly one identity");
  }
  return ParseIdentity(uris[0]);
}

std::optional<Uuid> Certificate::authority_of() const {
  std::vector<std::string> uris;
  Uuid cluster;
  if (!UriNames(certificate_.get(), &uris) || uris.size() != 1 || !uris[0].starts_with(kAuthorityPrefix) ||
      !Uuid::Parse(uris[0].substr(kAuthorityPrefix.size()), &cluster) || X509_check_ca(certificate_.get()) != 1) {
    return std::nullopt;
  }
  return cluster;
}

std::string Certificate::serial() const {
  std::string hex;
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate_.get()), nullptr);
  CHECK(number != nullptr, "out of memory");
  char* text = BN_bn2hex(number);
  for (const char* c = text; *c != '\0'; ++c) {
    if (!(hex.empty() && *c == '0')) hex += static_cast<char>(tolower(*c));
  }
  OPENSSL_free(text);
  BN_free(number);
  return hex;
}

int64_t Certificate::not_before_s() const { return SecondsOf(X509_get0_notBefore(certificate_.get())); }
int64_t Certificate::not_after_s() const { return SecondsOf(X509_get0_notAfter(certificate_.get())); }
Sha256Hash Certificate::hash() const { return HashOf(DerOf(certificate_.get(), i2d_X509)); }
Sha256Hash Certificate::key_hash() const { return KeyHash(X509_get0_pubkey(certificate_.get())); }

bool Certificate::MatchesKey(const PrivateKey& key) const {
  const bool same = X509_check_private_key(certificate_.get(), key.get()) == 1;
  ERR_clear_error();
  return same;
}

int64_t RenewAt(const Certificate& c) {
  const int64_t made_s = c.not_before_s() + kBackdatedS;
  return made_s + (c.not_after_s() - made_s) / 3 * 2;
}

}  // namespace stria
