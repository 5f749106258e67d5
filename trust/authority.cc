#include "trust/authority.h"

#include <openssl/rand.h>

#include <algorithm>

#include "common/printable.h"
#include "trust/ssl_ptr.h"

namespace stria {
namespace {

constexpr size_t kSerialBytes = 16;
constexpr size_t kMaxSerialHex = 40;  // RFC 5280: 20 bytes
constexpr size_t kMaxCommonName = 64;

void SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1, "there is no randomness");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, and of one length
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  CHECK(number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr);
  BN_free(number);
}

void SetTimes(X509* certificate, int64_t from_s, int64_t to_s) {
  CHECK(ASN1_TIME_set(X509_getm_notBefore(certificate), from_s) != nullptr &&
        ASN1_TIME_set(X509_getm_notAfter(certificate), to_s) != nullptr);
}

void SetName(X509_NAME* name, const std::string& common_name) {
  const auto add = [name](const char* field, const std::string& text) {
    CHECK(X509_NAME_add_entry_by_txt(name, field, MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()), -1, 0) == 1);
  };
  add("O", "Stria");
  add("CN", common_name.substr(0, kMaxCommonName));
}

// `text` is made of what was checked: OpenSSL's little language has commas and sections.
void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& text) {
  X509V3_CTX ctx;
  X509V3_set_ctx(&ctx, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &ctx, nid, text.c_str());
  CHECK(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, TakeSslReason());
  X509_EXTENSION_free(extension);
}

void SignWith(X509* certificate, const PrivateKey& key) {
  const EVP_MD* digest = EVP_PKEY_is_a(key.get(), "ED25519") ? nullptr : EVP_sha256();
  CHECK(X509_sign(certificate, key.get(), digest) > 0, TakeSslReason());
}

X509Ptr NewCertificate() {
  X509Ptr c(X509_new());
  CHECK(c != nullptr && X509_set_version(c.get(), X509_VERSION_3) == 1);
  SetSerial(c.get());
  return c;
}

// Servers of a cluster are also clients of each other.
const char* UsesOf(Role role) {
  return role == Role::kMeta || role == Role::kData ? "clientAuth,serverAuth" : "clientAuth";
}

}  // namespace

Authority Authority::Make(const Uuid& cluster, int64_t now_s) {
  CHECK(cluster);
  PrivateKey key = PrivateKey::Make();
  const X509Ptr c = NewCertificate();
  SetTimes(c.get(), now_s - kBackdatedS, now_s + kAuthorityDays * kDayS);
  SetName(X509_get_subject_name(c.get()), "CA of cluster " + cluster.ToString());
  CHECK(X509_set_issuer_name(c.get(), X509_get_subject_name(c.get())) == 1 && X509_set_pubkey(c.get(), key.get()) == 1);
  AddExtension(c.get(), c.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  AddExtension(c.get(), c.get(), NID_key_usage, "critical,keyCertSign");
  AddExtension(c.get(), c.get(), NID_subject_key_identifier, "hash");
  AddExtension(c.get(), c.get(), NID_subject_alt_name, "URI:stria://" + cluster.ToString());
  SignWith(c.get(), key);
  return Authority(std::move(key), Certificate::Of(c.get()), cluster);
}

Result<Authority> Authority::FromPem(std::string_view pem) {
  ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::FromPem(pem));
  ASSIGN_OR_RETURN(Certificate certificate, Certificate::FromPem(pem));
  const std::optional<Uuid> cluster = certificate.authority_of();
  if (!cluster) return Error(FsError::kBadRequest, "the certificate is not that of a cluster's authority");
  if (!certificate.MatchesKey(key)) return Error(FsError::kBadRequest, "the authority's key and certificate do not belong together");
  return Authority(std::move(key), std::move(certificate), *cluster);
}

std::string Authority::ToPem() const { return key_.ToPem() + certificate_.ToPem(); }

Result<Certificate> Authority::Sign(const CertRequest& request, const Identity& id, int64_t now_s, int64_t life_s) const {
  if (id.cluster != cluster_) {
    return Error(FsError::kInval, "the authority of cluster " + cluster_.ToString() + " does not sign for cluster " + id.cluster.ToString());
  }
  if (!IsPeerName(id.name)) return Error(FsError::kInval, "'" + Printable(id.name) + "' is no name for a certificate");
  const int64_t until_s = std::min(now_s + life_s, certificate_.not_after_s());
  if (until_s <= now_s) {
    return Error(FsError::kInval, "the authority's certificate is over: make a new authority, or correct this machine's clock");
  }
  const X509Ptr c = NewCertificate();
  SetTimes(c.get(), std::max(now_s - kBackdatedS, certificate_.not_before_s()), until_s);
  SetName(X509_get_subject_name(c.get()), id.name);
  CHECK(X509_set_issuer_name(c.get(), X509_get_subject_name(certificate_.get())) == 1 &&
        X509_set_pubkey(c.get(), X509_REQ_get0_pubkey(request.get())) == 1);
  AddExtension(c.get(), certificate_.get(), NID_basic_constraints, "critical,CA:FALSE");
  AddExtension(c.get(), certificate_.get(), NID_key_usage, "critical,digitalSignature");
  AddExtension(c.get(), certificate_.get(), NID_ext_key_usage, std::string("critical,") + UsesOf(id.role));
  AddExtension(c.get(), certificate_.get(), NID_authority_key_identifier, "keyid");
  AddExtension(c.get(), certificate_.get(), NID_subject_alt_name, "URI:" + FormatIdentity(id));
  SignWith(c.get(), key_);
  return Certificate::Of(c.get());
}

bool SignedBy(const Certificate& certificate, const Certificate& authority) {
  const bool good = X509_check_issued(authority.get(), certificate.get()) == X509_V_OK &&
                    X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) == 1;
  ERR_clear_error();
  return good;
}

// ---- Bundle ---------------------------------------------------------------------------------------

Result<Bundle> Bundle::Of(std::vector<Certificate> authorities) {
  if (authorities.empty()) return Error(FsError::kBadRequest, "the bundle has no authority");
  if (authorities.size() > kMaxAuthorities) return Error(FsError::kBadRequest, "the bundle has too many authorities");
  Bundle b;
  for (Certificate& a : authorities) {
    const std::optional<Uuid> cluster = a.authority_of();
    if (!cluster) return Error(FsError::kBadRequest, "a certificate in the bundle is not that of a cluster's authority");
    if (!b.all_.empty() && *cluster != b.cluster_) {
      return Error(FsError::kBadRequest, "the bundle has authorities of two clusters, " + b.cluster_.ToString() + " and " + cluster->ToString());
    }
    if (b.Has(a.hash())) return Error(FsError::kBadRequest, "the bundle has an authority twice");
    b.cluster_ = *cluster;
    b.all_.push_back(std::move(a));
  }
  return b;
}

Result<Bundle> Bundle::FromPem(std::string_view pem) {
  ASSIGN_OR_RETURN(std::vector<Certificate> all, Certificate::AllFromPem(pem));
  return Of(std::move(all));
}

std::string Bundle::ToPem() const {
  std::string out;
  for (const Certificate& a : all_) out += a.ToPem();
  return out;
}

Result<Bundle> Bundle::With(const Certificate& authority) const {
  std::vector<Certificate> all = all_;
  all.push_back(authority);
  return Of(std::move(all));
}

Result<Bundle> Bundle::Without(const Sha256Hash& authority) const {
  std::vector<Certificate> all;
  for (const Certificate& a : all_) {
    if (a.hash() != authority) all.push_back(a);
  }
  return Of(std::move(all));
}

bool Bundle::Has(const Sha256Hash& authority) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Certificate& a) { return a.hash() == authority; });
}

// ---- Revoked --------------------------------------------------------------------------------------

Result<Revoked> Revoked::Parse(std::string_view text) {
  Revoked out;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = line.substr(0, line.find('#'));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const bool good = line.size() <= kMaxSerialHex && line[0] != '0' && line.find_first_not_of("0123456789abcdef") == line.npos;
    if (!good || out.size() == kMax) {
      return Error(FsError::kBadRequest, "line " + std::to_string(number) + " of the revoked certificates is " +
                                             (good ? "one too many" : "no serial number in lower-case hex digits"));
    }
    out.Add(line);
  }
  return out;
}

std::string Revoked::Format() const {
  std::string out;
  for (const std::string& s : serials_) out += s + "\n";
  return out;
}

}  // namespace stria
