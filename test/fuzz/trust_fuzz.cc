#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/bound_token.h"
#include "common/random.h"
#include "test/fuzz/mutate.h"
#include "trust/enrolment.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

constexpr uint64_t kSeed = 20'261'127;
constexpr int kInputs = 20'000;

// In the target's order.
std::vector<std::string> Samples() {
  const TestCluster cluster;
  const PrivateKey key = PrivateKey::Make();
  const Certificate c = cluster.Sign(key, Role::kData, "n6");
  JoinToken token;
  token.host = "pc1.example", token.port = 7424, token.secret = NewJoinSecret();
  JoinGrant grant;
  grant.verifier = VerifierOf(token.secret);
  grant.networks = {ParseNetwork("10.3.0.0/16").value()};
  grant.used = {c.hash()};
  BoundToken bound;
  bound.rights = kTokenRead, bound.holder = 1;
  return {
      FormatIdentity(c.identity().value()),
      c.ToPem() + cluster.bundle.ToPem(),
      key.ToPem(),
      CertRequest::Make(key).ToDer(),
      "# gone\n" + c.serial() + "\nabc\n",
      FormatJoinToken(token),
      EncodeJoinGrant(grant),
      EncodeJoinRequest(MakeJoinRequest(token.secret, "n6", CertRequest::Make(key), "binding")),
      EncodeJoinAnswer({c.ToPem(), cluster.bundle.ToPem()}),
      "path=/a\\040b clients=wn*.example,10.3.0.0/16,fd00::/8 access=ro squash=root uids=1000-59999,65534 gids=100",
      "10.3.0.0/16",
      EncodeBoundToken(BoundTokenSigner(DeriveNodeKey(ClusterKey(), {1, 2}, 3)).Sign(bound)),
  };
}

TEST(TrustFuzz, BoundedRun) {
  SCOPED_TRACE(kSeed);
  Random rng(kSeed);
  const std::vector<std::string> samples = Samples();
  std::vector<std::string> named;
  for (size_t i = 0; i < samples.size(); ++i) named.push_back(static_cast<char>(i) + samples[i]);
  if (WroteSamples(named)) return;
  std::string input;
  for (int i = 0; i < kInputs; ++i) {
    if (i % 8 == 0) {
      input = named[rng.Below(named.size())];
    }
    if (input.size() < 2) input.resize(2);
    const size_t at = rng.Between(1, input.size() - 1);
    if (rng.OneIn(3)) {
      input.erase(at, rng.Between(1, 4));
    } else if (rng.OneIn(2)) {
      input[at] = static_cast<char>(rng.Next());
    } else {
      input.insert(at, input.substr(rng.Below(input.size()), rng.Between(1, 40)));
    }
    FuzzOne(input);
  }
}

}  // namespace
}  // namespace stria
