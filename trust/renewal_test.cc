#include "trust/renewal.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "common/temp_dir.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

class RenewalTest : public testing::Test {
 protected:
  void Save(const Credentials& c) {
    ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), c.bundle).ok());
    ASSERT_TRUE(CredentialFiles::SaveNode(dir_.path(), c.key, c.certificate).ok());
  }
  std::shared_ptr<const Credentials> Read() { return CredentialFiles(dir_.path()).Load().value(); }

  const TestCluster cluster_;
  const TestCluster next_{kTestCluster, kTestNowS + kDayS};
  const std::shared_ptr<const Credentials> own_ = cluster_.Give(Role::kAdmin, "pc1");
  const Bundle both_ = cluster_.bundle.With(next_.authority.certificate()).value();
  const TempDir dir_;
};

TEST_F(RenewalTest, IsDueAtTwoThirdsOrWhenAnotherSigns) {
  const Certificate& own = own_->certificate;
  EXPECT_FALSE(RenewalIsDue(own, cluster_.bundle, RenewAt(own) - 1));
  EXPECT_TRUE(RenewalIsDue(own, cluster_.bundle, RenewAt(own)));
  EXPECT_TRUE(RenewalIsDue(own, both_, kTestNowS)) << "whatever the clock says of the other's beginning";
  EXPECT_FALSE(RenewalIsDue(next_.Give(Role::kAdmin, "pc1")->certificate, both_, kTestNowS + kDayS)) << "it is the one that signs";
  // One that goes on with the former one's for two days.
  EXPECT_FALSE(RenewalIsDue(own, both_, kTestNowS + 3 * kDayS - 1, 2 * kDayS));
  EXPECT_TRUE(RenewalIsDue(own, both_, kTestNowS + 3 * kDayS, 2 * kDayS));
  EXPECT_TRUE(RenewalIsDue(own, both_, RenewAt(own), 80 * kDayS)) << "not beyond its own time";
}

TEST_F(RenewalTest, WhatComesIsForItsKeyAndItsName) {
  const auto accept = [&](const std::string& pem) { return AcceptRenewal(*own_, both_, pem); };
  const Certificate good = next_.Sign(own_->key, Role::kAdmin, "pc1");
  EXPECT_EQ(accept(good.ToPem()).value(), good);
  for (const std::string& pem : {std::string("nonsense"), cluster_.Sign(own_->key, Role::kAdmin, "pc2").ToPem(),
                                 cluster_.Sign(own_->key, Role::kMeta, "pc1").ToPem(), cluster_.Sign(PrivateKey::Make(), Role::kAdmin, "pc1").ToPem(),
                                 TestCluster(kTestCluster).Sign(own_->key, Role::kAdmin, "pc1").ToPem()}) {
    EXPECT_FALSE(accept(pem).ok()) << pem;
  }
}

TEST_F(RenewalTest, TheFilesAreGoodAtAnyMoment) {
  Save(*own_);
  const Certificate renewed = next_.Sign(own_->key, Role::kAdmin, "pc1");
  // Another's certificate is not written, and the bundle before it is no harm: as after a power cut between the two.
  EXPECT_FALSE(StoreRenewal(dir_.path(), *own_, both_, next_.Sign(PrivateKey::Make(), Role::kAdmin, "pc1")).ok());
  EXPECT_EQ(Read()->certificate, own_->certificate);
  EXPECT_EQ(Read()->bundle.all().size(), 2u);
  // Also where the cluster believes in the new one alone by now: the former one goes afterwards.
  ASSERT_TRUE(StoreRenewal(dir_.path(), *own_, next_.bundle, renewed).ok());
  EXPECT_EQ(Read()->certificate, renewed);
  EXPECT_EQ(Read()->bundle.all().size(), 2u);
  ASSERT_TRUE(StoreBelieved(dir_.path(), *Read(), next_.bundle, {}).ok());
  EXPECT_EQ(Read()->bundle.ToPem(), next_.bundle.ToPem());
}

TEST_F(RenewalTest, ABundleThatIsTheEndOfItIsNotKept) {
  Save(*own_);
  Revoked revoked;
  revoked.Add("4abc");
  ASSERT_TRUE(StoreBelieved(dir_.path(), *Read(), next_.bundle, revoked).ok());
  EXPECT_EQ(Read()->bundle.ToPem(), cluster_.bundle.ToPem());
  EXPECT_TRUE(Read()->revoked.Has("4abc"));
  // What is so already is not written.
  std::filesystem::remove(dir_.path() + "/revoked");
  ASSERT_TRUE(StoreBelieved(dir_.path(), *own_, cluster_.bundle, {}).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/revoked"));
}

}  // namespace
}  // namespace stria
