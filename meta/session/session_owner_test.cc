#include "meta/session/session_owner.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

OpHeader From(const std::string& name, uint8_t key) {
  Peer p;
  p.name = name;
  p.key_hash[0] = key;
  p.address = "10.0.0.7:1234";
  OpHeader h;
  h.peer = std::make_shared<const Peer>(p);
  return h;
}

TEST(SessionOwner, OnlyTheOwnerUsesASession) {
  const SessionId s(9);
  const SessionOwner pc7 = OwnerOf(From("pc7", 1)), nobody;
  EXPECT_TRUE(MayUse(s, pc7, From("pc7", 1)).ok());
  EXPECT_TRUE(MayUse(s, nobody, OpHeader()).ok());
  for (const Error& e : {MayUse(s, pc7, From("pc8", 1)), MayUse(s, pc7, From("pc7", 2)), MayUse(s, pc7, OpHeader()),
                         MayUse(s, nobody, From("pc7", 1))}) {
    EXPECT_EQ(e.code, FsError::kAccess);
    EXPECT_TRUE(e.denies);
    EXPECT_NE(e.message.find("session 9"), std::string::npos) << e.message;
  }
  EXPECT_NE(MayUse(s, pc7, From("pc8", 1)).message.find("pc8 at 10.0.0.7"), std::string::npos);
}

TEST(SessionOwner, CountsAreByNameAndKey) {
  SessionsOfOwners all;
  const SessionOwner a = OwnerOf(From("pc7", 1)), b = OwnerOf(From("pc7", 2));
  for (size_t i = 0; i < kMaxSessionsOfOwner; ++i) {
    EXPECT_FALSE(all.Full(a)) << i;
    all.Add(a);
    all.Add(SessionOwner());
  }
  EXPECT_TRUE(all.Full(a));
  EXPECT_FALSE(all.Full(b));
  EXPECT_FALSE(all.Full(SessionOwner())) << "nobody is no owner";
  all.Remove(a);
  EXPECT_FALSE(all.Full(a));
  EXPECT_TRUE(all.Has(a));
  EXPECT_FALSE(all.Has(b));
  EXPECT_FALSE(all.Has(SessionOwner()));
  for (size_t i = 1; i < kMaxSessionsOfOwner; ++i) all.Remove(a);
  EXPECT_FALSE(all.Has(a));
}

}  // namespace
}  // namespace stria
