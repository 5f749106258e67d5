// What is told of several metadata servers, look by look.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meta/events/event_teller.h"
#include "meta/events/judge.h"
#include "meta/events/judge_members.h"

namespace stria {
namespace {

MemberState OneMember(const std::string& name, MemberRole role, bool in_sync) {
  MemberState m;
  m.name = name;
  m.address = name + ":7424";
  m.role = role;
  m.in_sync = in_sync;
  m.coordinator = role != MemberRole::kUnreachable;
  return m;
}

class JudgeMembersTest : public testing::Test {
 protected:
  using Kinds = std::vector<std::string>;

  JudgeMembersTest() {
    teller.Load({}, 1);
    Look(true);  // it was alone
    seen.members.emplace();
    status().primary = "pc1";
    status().term = 41;
    status().min_in_sync = 1;
    status().members = {OneMember("pc1", MemberRole::kPrimary, true)};
  }
  MemberStatusReply& status() { return seen.members->status; }
  MemberState& Of(size_t i) { return status().members.at(i); }
  void AddSecond() {
    After(2 * kSecond);
    status().members.push_back(OneMember("pc2", MemberRole::kJoining, false));
    After(2 * kSecond);
    Of(1) = OneMember("pc2", MemberRole::kStandby, true);
    After(2 * kSecond);
    all.clear();
  }
  Kinds Look(bool adopt = false) {
    const EventTeller::Step step = teller.Look(Judge(seen, teller.told()), adopt, now_ns, now_ns);
    Kinds out;
    for (const ClusterEvent& e : step.events) {
      out.push_back(e.kind + " " + e.subject);
      EXPECT_EQ(e.text.back(), '.') << e.text;
      all.push_back(e);
    }
    return out;
  }
  Kinds After(int64_t ns) {
    Kinds out;
    for (const int64_t until = now_ns + ns; now_ns < until;) {
      now_ns += 2 * kSecond;
      for (std::string& s : Look()) out.push_back(std::move(s));
    }
    return out;
  }
  // Another one serves: it knows what the store says, and nothing else.
  void Becomes(const std::string& primary, bool handed) {
    EventTeller next;
    next.Load(teller.told(), teller.next_seq());
    teller = next;
    status().primary = primary;
    ++status().term;
    seen.members->handed = handed;
  }

  ClusterSeen seen;
  EventTeller teller;
  std::vector<ClusterEvent> all;
  int64_t now_ns = 1000 * kSecond;
};

TEST_F(JudgeMembersTest, WhoJoinsIsToldAndThenThatItIsInSync) {
  EXPECT_EQ(After(4 * kSecond), Kinds{"meta-joined pc1"}) << "it is not alone any more; nobody has taken over";
  status().members.push_back(OneMember("pc2", MemberRole::kJoining, false));
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-joined pc2"}) << "it was never in sync, so nothing is lost";
  Of(1) = OneMember("pc2", MemberRole::kStandby, true);
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-copy-back pc2"});
  EXPECT_EQ(all.back().severity, EventSeverity::kNote);
  EXPECT_NE(all.back().text.find("2 have everything that is durable (pc1, pc2)"), std::string::npos) << all.back().text;
}

TEST_F(JudgeMembersTest, ACopyThatIsLostIsToldOnceAndSoIsItsReturn) {
  AddSecond();
  Of(1) = OneMember("pc2", MemberRole::kUnreachable, false);
  Of(1).problem = "it has not answered for 1600 ms";
  EXPECT_EQ(After(600 * kSecond), Kinds{"meta-copy-lost pc2"});
  EXPECT_EQ(all[0].severity, EventSeverity::kCritical) << "one copy is left";
  EXPECT_NE(all[0].text.find("only one copy of the metadata is left, that of pc1"), std::string::npos) << all[0].text;
  EXPECT_NE(all[0].text.find("it has not answered"), std::string::npos) << all[0].text;
  EXPECT_NE(all[0].action.find("stria meta remove pc2"), std::string::npos) << all[0].action;
  Of(1) = OneMember("pc2", MemberRole::kJoining, false);
  EXPECT_EQ(After(60 * kSecond), Kinds{}) << "it catches up";
  Of(1) = OneMember("pc2", MemberRole::kStandby, true);
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-copy-back pc2"});
}

TEST_F(JudgeMembersTest, OfThreeOneMayBeLostAndFsyncThatWaitsIsSaid) {
  AddSecond();
  status().members.push_back(OneMember("pc3", MemberRole::kStandby, true));
  status().min_in_sync = 2;
  After(4 * kSecond);
  all.clear();
  Of(2) = OneMember("pc3", MemberRole::kUnreachable, false);
  EXPECT_EQ(After(4 * kSecond), Kinds{"meta-copy-lost pc3"});
  EXPECT_EQ(all[0].severity, EventSeverity::kWarning);
  Of(1) = OneMember("pc2", MemberRole::kUnreachable, false);
  EXPECT_EQ(After(4 * kSecond), Kinds{"meta-copy-lost pc2"});
  EXPECT_EQ(all[1].severity, EventSeverity::kCritical);
  EXPECT_NE(all[1].text.find("fsync waits until there are 2"), std::string::npos) << all[1].text;
}

TEST_F(JudgeMembersTest, WhoTakesOverIsToldOnceByTheNextOne) {
  AddSecond();
  Becomes("pc2", false);
  Of(0) = OneMember("pc1", MemberRole::kUnreachable, false);
  Of(1).role = MemberRole::kPrimary;
  EXPECT_EQ(After(60 * kSecond), (Kinds{"meta-copy-lost pc1", "meta-failover pc2"}));
  EXPECT_EQ(all[1].severity, EventSeverity::kWarning);
  EXPECT_EQ(all[1].text, "Metadata server pc2 has taken over from pc1 and is the primary, in term 42.");
  EXPECT_NE(all[1].action.find("See to pc1"), std::string::npos);
  Of(0) = OneMember("pc1", MemberRole::kStandby, true);
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-copy-back pc1"});
  Becomes("pc1", true);
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-promoted pc1"});
  EXPECT_EQ(all.back().severity, EventSeverity::kNote);
  EXPECT_NE(all.back().text.find("pc2 has handed over"), std::string::npos) << all.back().text;
}

TEST_F(JudgeMembersTest, WhoTakesOverAndIsLostAtOnceIsTold) {
  AddSecond();
  Becomes("pc2", false);
  EXPECT_EQ(After(2 * kSecond), Kinds{"meta-failover pc2"}) << "one look";
  Becomes("pc1", false);
  EXPECT_EQ(After(2 * kSecond), Kinds{"meta-failover pc1"});
  EXPECT_EQ(all.back().text, "Metadata server pc1 has taken over from pc2 and is the primary, in term 43.");
}

TEST_F(JudgeMembersTest, ThePrimaryThatStartsAgainIsNoEvent) {
  AddSecond();
  Becomes("pc1", false);
  EXPECT_EQ(After(60 * kSecond), Kinds{});
}

TEST_F(JudgeMembersTest, ACoordinatorThatNobodyReachesIsToldOnce) {
  AddSecond();
  for (MemberState& m : status().members) {
    m.coordinator = false;
    m.coordinator_problem = "no answer from pc1:2379";
  }
  EXPECT_EQ(After(8 * kSecond), Kinds{}) << "it may be back at once";
  EXPECT_EQ(After(60 * kSecond), Kinds{"coordinator-away coordinator"});
  EXPECT_NE(all[0].text.find("no answer from pc1:2379"), std::string::npos) << all[0].text;
  EXPECT_NE(all[0].action.find("systemctl status etcd"), std::string::npos) << all[0].action;
  for (MemberState& m : status().members) m.coordinator = true;
  EXPECT_EQ(After(60 * kSecond), Kinds{"coordinator-back coordinator"});
  Of(1).coordinator = false;
  EXPECT_EQ(After(60 * kSecond), Kinds{"coordinator-away pc2"});
  EXPECT_NE(all.back().text.find("could not take over"), std::string::npos) << all.back().text;
  Of(1) = OneMember("pc2", MemberRole::kUnreachable, true);
  EXPECT_EQ(After(60 * kSecond), Kinds{}) << "who does not answer says nothing";
  Of(1) = OneMember("pc2", MemberRole::kStandby, true);
  EXPECT_EQ(After(60 * kSecond), Kinds{"coordinator-back pc2"});
}

TEST_F(JudgeMembersTest, WhoIsRemovedAndWhoIsAloneAgain) {
  AddSecond();
  Of(1) = OneMember("pc2", MemberRole::kUnreachable, false);
  After(4 * kSecond);
  status().members.pop_back();
  EXPECT_EQ(After(4 * kSecond), Kinds{"meta-removed pc2"});
  seen.members.reset();
  EXPECT_EQ(After(4 * kSecond), Kinds{});
  EXPECT_TRUE(teller.told().empty());
}

}  // namespace
}  // namespace stria
