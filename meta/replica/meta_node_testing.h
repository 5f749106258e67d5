// For tests: three whole members by hand (node_world.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/units.h"
#include "meta/replica/node_world.h"

namespace stria {

// Three members; nothing fails unasked.
class MetaNodeTest : public testing::Test {
 protected:
  using Member = NodeWorld::Member;

  void SetUp() override {
    w_.StartAll();
    ASSERT_TRUE(w_.RunUntil([&] { return w_.AllIn() && Acked(20); }, 30 * kSecond)) << w_.in_force().in_sync.size();
    ASSERT_EQ(w_.Primary(), &a_);
    term_ = Term(a_);
  }
  void TearDown() override { EXPECT_EQ(w_.problem(), ""); }

  static uint64_t Term(Member& m) { return m.node->life()->life().term; }
  bool Acked(uint64_t more) const { return w_.counts().acked >= from_ + more; }
  // Durable writes are acknowledged again.
  bool GoesOn(int64_t ns = 10 * kSecond) {
    from_ = w_.counts().acked;
    return w_.RunUntil([&] { return Acked(20); }, ns);
  }
  bool AnotherServes(Member& than) {
    return w_.RunUntil([&] { return w_.Primary() != nullptr && w_.Primary() != &than && Term(*w_.Primary()) > term_; }, 10 * kSecond);
  }
  ChangeMembersRequest Change(MemberChange change, const std::string& name) {
    ChangeMembersRequest r;
    r.change = change;
    r.name = name;
    return r;
  }
  bool Alarmed(const std::string& how) const {
    return std::any_of(w_.alarms().begin(), w_.alarms().end(), [&](const std::string& a) { return a.starts_with(how); });
  }
  Result<MemberStatusReply> Status(Member& m) { return w_.Ask(m, m.desk->MemberStatus({})); }

  NodeWorld w_{11, 3};
  Member& a_ = w_.member(0);
  Member& b_ = w_.member(1);
  Member& c_ = w_.member(2);
  uint64_t from_ = 0;
  uint64_t term_ = 0;
};

}  // namespace stria
