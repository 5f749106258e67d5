#include "peers/meta_locator.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

// Three members as each sees who is primary.
class FakeMembers final : public MemberConnector {
 public:
  struct Member {
    bool alone = false;  // does not know the service
    bool hung = false;
    bool away = false;
    LocateReply knows;
    int asked = 0;    // without a wait
    int waiting = 0;  // questions, now
    Event grew;       // pulsed with `knows`
  };
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override {
    return std::make_shared<Service>(&members[address]);
  }
  void Know(const std::string& who, uint64_t term, const std::string& primary) {
    Member& m = members[who];
    m.knows.term = term;
    m.knows.address = primary;
    m.grew.Pulse();
  }
  std::map<std::string, Member> members;

 private:
  class Service final : public MemberService {
   public:
    explicit Service(Member* m) : m_(m) {}
    Task<Result<LocateReply>> Locate(LocateRequest r) override {
      if (m_->alone) ++m_->asked;
      if (m_->alone) co_return Error(FsError::kVersion, "there is no service here");
      if (m_->away) co_return Error(FsError::kUnavailable);
      if (m_->hung) co_await Sleep(24 * 3600 * kSecond);
      if (r.wait_ns == 0) ++m_->asked;
      else {
        const Waits here(&m_->waiting);
        if (m_->knows.term <= r.known_term) co_await WithTimeout(r.wait_ns, Grown(m_, r.known_term));
      }
      co_return m_->knows;
    }
    Task<Result<AskReply>> Ask(AskRequest) override { co_return Error(FsError::kNoSys); }
    Task<Result<MemberStatusReply>> MemberStatus(MemberStatusRequest) override { co_return Error(FsError::kNoSys); }
    Task<Result<ChangeMembersReply>> ChangeMembers(ChangeMembersRequest) override { co_return Error(FsError::kNoSys); }

   private:
    struct Waits {
      explicit Waits(int* n) : count(n) { ++*count; }
      Waits(const Waits&) = delete;
      Waits& operator=(const Waits&) = delete;
      ~Waits() { --*count; }
      int* const count;
    };
    static Task<bool> Grown(Member* m, uint64_t above) {
      while (m->knows.term <= above) co_await m->grew.Wait();
      co_return true;
    }
    Member* const m_;
  };
};

class MetaLocatorTest : public testing::Test {
 protected:
  MetaLocatorTest() : ex_(7), peers_({"a", "b"}) {
    for (const char* who : {"a", "b", "c"}) {
      for (const char* m : {"a", "b", "c"}) members_.members[who].knows.members.push_back({m, m});
    }
  }
  void Start() {
    locator_ = std::make_unique<MetaLocator>(&members_, &peers_, [] { return Uuid{1, 2}; });
    locator_->OnMoved([this] { ++moved_; });
    locator_->Start();
    ex_.RunFor(2 * kSecond);
  }
  void AllKnow(uint64_t term, const std::string& primary) {
    for (const char* who : {"a", "b", "c"}) members_.Know(who, term, primary);
  }

  SimExecutor ex_;
  FakeMembers members_;
  MetaPeers peers_;
  std::unique_ptr<MetaLocator> locator_;
  int moved_ = 0;
};

TEST_F(MetaLocatorTest, FindsThePrimaryAndTheOthersAtTheStart) {
  AllKnow(3, "c");
  Start();
  EXPECT_EQ(peers_.current(), "c");
  EXPECT_EQ(peers_.addresses(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(moved_, 1);
}

TEST_F(MetaLocatorTest, HearsOfANewPrimaryAtOnceFromWhoeverKnows) {
  AllKnow(3, "a");
  Start();
  ASSERT_EQ(peers_.current(), "a");
  peers_.Answered("a", 3);
  EXPECT_EQ(members_.members["b"].waiting, 1);
  EXPECT_EQ(members_.members["c"].waiting, 1);
  EXPECT_EQ(members_.members["a"].waiting, 0) << "calls go there, and tell";
  ex_.RunFor(3600 * kSecond);
  EXPECT_EQ(members_.members["c"].waiting, 1);
  // The primary's PC is off. Only c knows who has taken over.
  members_.members["a"].hung = true;
  const int64_t began_ns = ex_.NowNs();
  members_.Know("c", 4, "b");
  ASSERT_TRUE(ex_.RunUntil([&] { return peers_.current() == "b"; }, began_ns + kSecond));
  EXPECT_EQ(moved_, 1);
  ex_.RunFor(kSecond);
  EXPECT_EQ(members_.members["b"].waiting, 0);
  EXPECT_EQ(members_.members["c"].waiting, 1);
}

TEST_F(MetaLocatorTest, AsksWhenCallsFindNobodyButNotTooOften) {
  Start();
  EXPECT_EQ(peers_.current(), "a");
  AllKnow(5, "b");  // the waiting question at b tells first
  ASSERT_TRUE(ex_.RunUntil([&] { return peers_.current() == "b"; }, ex_.NowNs() + kSecond));
  const uint64_t rounds = locator_->rounds();
  for (int i = 0; i < 1000; ++i) {
    locator_->Hurry();
    ex_.RunFor(kMillisecond);
  }
  EXPECT_GT(locator_->rounds(), rounds);
  EXPECT_LE(locator_->rounds(), rounds + 12);
}

// One of them hangs; the answers of the others count at once, also in the next round.
TEST_F(MetaLocatorTest, WaitsForNobody) {
  members_.members["a"].hung = true;
  members_.Know("b", 2, "b");
  locator_ = std::make_unique<MetaLocator>(&members_, &peers_, [] { return Uuid(); });
  locator_->Start();
  ASSERT_TRUE(ex_.RunUntil([&] { return peers_.current() == "b"; }, ex_.NowNs() + 100 * kMillisecond));
  const uint64_t rounds = locator_->rounds();
  locator_->Hurry();
  ex_.RunFor(300 * kMillisecond);
  EXPECT_GT(locator_->rounds(), rounds);
}

TEST_F(MetaLocatorTest, AServerThatIsAloneIsHardlyEverAsked) {
  members_.members["a"].alone = true;
  MetaPeers one({"a"});
  MetaLocator locator(&members_, &one, [] { return Uuid(); });
  locator.Start();
  for (int i = 0; i < 600; ++i) {
    locator.Hurry();
    ex_.RunFor(kSecond);
  }
  EXPECT_GE(members_.members["a"].asked, 1);
  EXPECT_LE(members_.members["a"].asked, 4);
  EXPECT_EQ(one.current(), "a");
}

// A server that runs becomes the first of several by a restart, and hands its place over soon after.
TEST_F(MetaLocatorTest, AServerThatWasAloneInItsFormerLifeIsAsked) {
  members_.members["a"].alone = true;
  MetaPeers one({"a"});
  MetaLocator locator(&members_, &one, [] { return Uuid(); });
  locator.Start();
  one.Answered("a", 1);
  ex_.RunFor(70 * kSecond);
  members_.members["a"].alone = false;
  one.Answered("a", 3);
  members_.Know("a", 4, "b");
  one.Failed("a");
  locator.Hurry();
  EXPECT_TRUE(ex_.RunUntil([&] { return one.current() == "b"; }, ex_.NowNs() + kSecond));
}

// A program that knows only the primary hears of a new member within seconds, so it finds the others when the primary is lost.
TEST_F(MetaLocatorTest, OneThatKnowsASingleServerLooksForOthersOften) {
  members_.Know("a", 3, "a");
  members_.members["a"].knows.members = {{"a", "a"}};
  MetaPeers one({"a"});
  MetaLocator locator(&members_, &one, [] { return Uuid(); });
  locator.Start();
  one.Answered("a", 3);
  ex_.RunFor(20 * kSecond);
  members_.members["a"].knows.members = {{"a", "a"}, {"b", "b"}};
  ex_.RunFor(7 * kSecond);
  EXPECT_EQ(one.addresses(), (std::vector<std::string>{"a", "b"}));
}

// The list of members shrinks to one server. That is lost when a former member serves again.
TEST_F(MetaLocatorTest, AFormerMemberMayKnowWhoServes) {
  members_.Know("a", 3, "a");
  members_.members["a"].knows.members = {{"a", "a"}, {"b", "b"}};
  MetaPeers one({"a"});
  MetaLocator locator(&members_, &one, [] { return Uuid(); });
  locator.Start();
  one.Answered("a", 3);
  ex_.RunFor(10 * kSecond);
  members_.members["a"].knows.members = {{"a", "a"}};
  ex_.RunFor(70 * kSecond);
  ASSERT_EQ(one.addresses(), std::vector<std::string>{"a"});
  members_.members["a"].away = true;
  members_.Know("b", 9, "b");
  one.Failed("a");
  locator.Hurry();
  EXPECT_TRUE(ex_.RunUntil([&] { return one.current() == "b"; }, ex_.NowNs() + kSecond));
}

TEST_F(MetaLocatorTest, ThoseThatAreAwayAreAskedAgain) {
  AllKnow(3, "a");
  members_.members["b"].away = members_.members["c"].away = true;
  Start();
  peers_.Answered("a", 3);
  ex_.RunFor(100 * kSecond);
  members_.Know("b", 4, "b");
  members_.members["b"].away = false;
  EXPECT_TRUE(ex_.RunUntil([&] { return peers_.current() == "b"; }, ex_.NowNs() + 5 * kSecond));
}

}  // namespace
}  // namespace stria
