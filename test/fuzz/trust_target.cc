// Input: one byte that names the parser; the rest is what it gets. Everything here is read from peers or from settings.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/bound_token.h"
#include "test/fuzz/fuzz_target.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"
#include "trust/exports.h"

namespace stria {
namespace {

// What was taken has one spelling: it must come back as it was.
void Same(bool same) {
  if (!same) std::abort();
}

void AsIdentity(std::string_view s) {
  const auto id = ParseIdentity(s);
  if (id.ok()) Same(FormatIdentity(*id) == s);
}
void AsCertificates(std::string_view s) {
  const auto all = Certificate::AllFromPem(s);
  if (!all.ok()) return;
  for (const Certificate& c : *all) {
    (void)c.identity();
    (void)c.authority_of();
    (void)c.serial();
    (void)RenewAt(c);
  }
  (void)Bundle::Of(*all);
}
void AsKey(std::string_view s) { (void)PrivateKey::FromPem(s); }
void AsCertRequest(std::string_view s) { (void)CertRequest::FromDer(s); }
void AsRevoked(std::string_view s) {
  const auto r = Revoked::Parse(s);
  if (r.ok()) Same(Revoked::Parse(r->Format())->size() == r->size());
}
void AsJoinToken(std::string_view s) {
  const auto t = ParseJoinToken(s);
  if (t.ok()) Same(ParseJoinToken(FormatJoinToken(*t)).value() == *t);
}
void AsJoinGrant(std::string_view s) {
  const auto g = DecodeJoinGrant(s);
  if (g.ok()) Same(DecodeJoinGrant(EncodeJoinGrant(*g)).value() == *g);
}
void AsJoinRequest(std::string_view s) {
  const auto r = DecodeJoinRequest(s);
  if (!r.ok()) return;
  Same(DecodeJoinRequest(EncodeJoinRequest(*r)).value() == *r);
  static const Authority authority = Authority::Make({1, 2}, 1'800'000'000);
  JoinGrant grant;
  grant.verifier = r->verifier;
  // A proof can be of nobody's secret but by the hand of who knows it.
  if (AdmitJoin(*r, &grant, "a binding that no input has", "10.0.0.1:1", authority, 0).ok()) std::abort();
}
void AsJoinAnswer(std::string_view s) {
  const auto a = DecodeJoinAnswer(s);
  if (!a.ok()) return;
  static const PrivateKey key = PrivateKey::Make();
  (void)AcceptJoin(*a, key, Sha256Hash{});
  const auto member = DecodeMemberSecrets(a->member);
  if (member.ok()) Same(DecodeMemberSecrets(EncodeMemberSecrets(*member)).value() == *member);
}
void AsExport(std::string_view s) {
  const auto e = ParseExport(s);
  if (!e.ok()) return;
  Same(ParseExport(FormatExport(*e)).value() == *e);
  Peer peer;
  peer.name = "wn7.example";
  peer.address = "10.3.0.7:5";
  (void)FindExport({*e}, e->path, peer);
  // Nobody becomes root, or what is not believed.
  const CallerIds c = SquashCaller(*e, {0, 0, {0}}, false);
  if (e->squash != Export::Squash::kNone) Same(c == CallerIds());
}
void AsNetwork(std::string_view s) {
  const auto n = ParseNetwork(s);
  if (n) Same(ParseNetwork(n->ToString()) == n);
  (void)IpOfAddress(s);
}
void AsBoundToken(std::string_view s) {
  const auto t = DecodeBoundToken(s);
  if (t.ok()) Same(EncodeBoundToken(*t) == s);
  static const BoundTokenVerifier verifier(NodeKeysAround(ClusterKey(), {1, 2}, 0), 1);
  if (verifier.Check(s, {ShardId(1), TargetId(1), kTokenRead, 1, 0}, 0).ok()) std::abort();
}

using ParseFn = void (*)(std::string_view);
constexpr ParseFn kParsers[] = {&AsIdentity,    &AsCertificates, &AsKey,        &AsCertRequest, &AsRevoked, &AsJoinToken,
                                &AsJoinGrant,   &AsJoinRequest,  &AsJoinAnswer, &AsExport,      &AsNetwork, &AsBoundToken};

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // A copy, so that a read beyond it is a read beyond an allocation.
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  stria::kParsers[data[0] % std::size(stria::kParsers)](input);
  return 0;
}
