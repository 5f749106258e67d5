#include "meta/enrolment/given_certificates.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/codec.h"

namespace stria {
namespace {

TEST(GivenCertificates, RecordsThereAndBack) {
  GivenCertificate c;
  c.serial = "4abc";
  c.role = Role::kMonitor;
  c.name = "mon1";
  c.key = {1};
  c.issuer = {2};
  c.token = "01234567";
  c.address = "10.3.0.7:40112";
  c.given_s = 5;
  c.not_after_s = 6;
  c.trusted_root = true;
  const std::string record = EncodeGiven(c);
  EXPECT_EQ(DecodeGiven("4abc", record).value(), c);
  for (size_t n = 0; n < record.size(); ++n) EXPECT_FALSE(DecodeGiven("4abc", record.substr(0, n)).ok()) << n;
  EXPECT_FALSE(DecodeGiven("4ABC", record).ok());
  const RevokedCertificate r{7, {3}, 5};
  EXPECT_EQ(DecodeRevoked(EncodeRevoked(r)).value(), r);
  // One of before it was noted when.
  ByteWriter old;
  old.I64(7);
  old.U8(3);
  old.Raw(std::string(31, '\0'));
  EXPECT_EQ(DecodeRevoked(SealRecord(1, old.str())).value(), (RevokedCertificate{7, {3}, 0}));
  EXPECT_FALSE(DecodeRevoked("").ok());
}

TEST(GivenCertificates, AreFoundByAllThatTheyAre) {
  GivenCertificates all;
  const auto add = [&](const char* serial, const char* name, uint8_t key, int64_t end) {
    GivenCertificate c;
    c.serial = serial;
    c.name = name;
    c.key = {key};
    c.not_after_s = end;
    all.Add(c);
  };
  add("1", "a", 1, 30);
  add("2", "a", 2, 10);
  add("3", "b", 1, 20);
  EXPECT_EQ(all.OfKey({1}).size(), 2u);
  EXPECT_EQ(all.OfKey({9}).size(), 0u);
  EXPECT_EQ(all.OfIdentity(Role::kClient, "a").size(), 2u);
  EXPECT_EQ(all.OfIdentity(Role::kData, "a").size(), 0u);
  EXPECT_EQ(all.Over(25, 9), (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(all.Over(25, 1), std::vector<std::string>{"2"});
  add("3", "a", 3, 40);  // in place of what it was
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(all.OfKey({1}).size(), 1u);
  EXPECT_EQ(all.Over(25, 9), std::vector<std::string>{"2"});
  all.Remove("1");
  all.Remove("1");
  EXPECT_EQ(all.Find("1"), nullptr);
  EXPECT_EQ(all.OfIdentity(Role::kClient, "a").size(), 2u);
}

}  // namespace
}  // namespace stria
