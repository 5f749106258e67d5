#include "meta/enrolment/given_certificates.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/codec.h"

namespace stria {
namespace {

constexpr uint8_t kGivenVersion = 1;
constexpr uint8_t kRevokedVersion = 1;
constexpr size_t kMaxSerialHex = 40;

std::string_view BytesOf(const Sha256Hash& h) { return {reinterpret_cast<const char*>(h.data()), h.size()}; }
void ReadHash(ByteReader& r, Sha256Hash* to) {
  const std::string_view bytes = r.Raw(to->size());
  if (r.ok()) std::memcpy(to->data(), bytes.data(), to->size());
}

}  // namespace

bool IsSerial(std::string_view text) {
  return !text.empty() && text.size() <= kMaxSerialHex && text[0] != '0' && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string EncodeGiven(const GivenCertificate& c) {
  ByteWriter w;
  w.U8(static_cast<uint8_t>(c.role));
  w.Str(c.name);
  w.Raw(BytesOf(c.key));
  w.Raw(BytesOf(c.issuer));
  w.Str(c.token);
  w.Str(c.address);
  w.I64(c.given_s);
  w.I64(c.not_after_s);
  w.Bool(c.trusted_root);
  return SealRecord(kGivenVersion, w.str());
}

Result<GivenCertificate> DecodeGiven(std::string_view serial, std::string_view record) {
  const Error corrupt(FsError::kCorrupt, "the record of the certificate " + std::string(serial) + " does not decode");
  uint8_t version = 0;
  std::string_view body;
  if (!IsSerial(serial) || !OpenRecord(record, kGivenVersion, &version, &body)) return corrupt;
  ByteReader r(body);
  GivenCertificate c;
  c.serial = serial;
  const uint8_t role = r.U8();
  c.name = r.Str();
  ReadHash(r, &c.key);
  ReadHash(r, &c.issuer);
  c.token = r.Str();
  c.address = r.Str();
  c.given_s = r.I64();
  c.not_after_s = r.I64();
  c.trusted_root = r.Bool();
  const bool known = std::any_of(std::begin(kAllRoles), std::end(kAllRoles), [&](Role each) { return static_cast<uint8_t>(each) == role; });
  if (!r.ok() || !known || !IsPeerName(c.name)) return corrupt;
  c.role = static_cast<Role>(role);
  return c;
}

std::string EncodeRevoked(const RevokedCertificate& c) {
  ByteWriter w;
  w.I64(c.not_after_s);
  w.Raw(BytesOf(c.key));
  w.I64(c.revoked_s);
  return SealRecord(kRevokedVersion, w.str());
}

Result<RevokedCertificate> DecodeRevoked(std::string_view record) {
  uint8_t version = 0;
  std::string_view body;
  const bool opened = OpenRecord(record, kRevokedVersion, &version, &body);
  ByteReader r(body);
  RevokedCertificate c;
  c.not_after_s = r.I64();
  ReadHash(r, &c.key);
  if (r.left() > 0) c.revoked_s = r.I64();  // older ones end here
  if (!opened || !r.ok()) return Error(FsError::kCorrupt, "the record of a revoked certificate does not decode");
  return c;
}

void GivenCertificates::Add(GivenCertificate c) {
  Remove(c.serial);
  by_key_.emplace(c.key, c.serial);
  by_name_.emplace(Name(c.role, c.name), c.serial);
  by_end_.emplace(c.not_after_s, c.serial);
  std::string serial = c.serial;
  by_serial_.emplace(std::move(serial), std::move(c));
}

void GivenCertificates::Remove(const std::string& serial) {
  const auto it = by_serial_.find(serial);
  if (it == by_serial_.end()) return;
  const GivenCertificate& c = it->second;
  by_key_.erase({c.key, c.serial});
  by_name_.erase({Name(c.role, c.name), c.serial});
  by_end_.erase({c.not_after_s, c.serial});
  by_serial_.erase(it);
}

const GivenCertificate* GivenCertificates::Find(std::string_view serial) const {
  const auto it = by_serial_.find(serial);
  return it == by_serial_.end() ? nullptr : &it->second;
}

template <class Key>
std::vector<const GivenCertificate*> GivenCertificates::Of(const Index<Key>& index, const Key& key) const {
  std::vector<const GivenCertificate*> out;
  for (auto it = index.lower_bound({key, ""}); it != index.end() && it->first == key; ++it) out.push_back(Find(it->second));
  return out;
}

std::vector<const GivenCertificate*> GivenCertificates::OfKey(const Sha256Hash& key) const { return Of(by_key_, key); }
std::vector<const GivenCertificate*> GivenCertificates::OfIdentity(Role role, const std::string& name) const {
  return Of(by_name_, Name(role, name));
}

std::vector<std::string> GivenCertificates::Over(int64_t now_s, size_t limit) const {
  std::vector<std::string> out;
  for (auto it = by_end_.begin(); it != by_end_.end() && it->first < now_s && out.size() < limit; ++it) out.push_back(it->second);
  return out;
}

}  // namespace stria
