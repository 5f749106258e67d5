// A session with several metadata servers: it finds the primary, and goes with it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "api/replica_api.h"
#include "client/session/fake_meta.h"
#include "client/session/meta_session.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

// All members know the same, at the same moment; those that are dead say nothing.
class FakeLocate final : public MemberConnector {
 public:
  explicit FakeLocate(const FakeMeta* meta) : meta_(meta) {}
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return std::make_shared<Service>(this, address); }
  void Know(uint64_t term, const std::string& primary) {
    knows_.term = term;
    knows_.primary = "of " + primary;
    knows_.address = primary;
    knows_.members = {{"of a", "a"}, {"of b", "b"}, {"of standby", "standby"}};
    grew_.Pulse();
  }

 private:
  class Service final : public MemberService {
   public:
    Service(FakeLocate* all, std::string address) : all_(all), address_(std::move(address)) {}
    Task<Result<LocateReply>> Locate(LocateRequest r) override {
      if (all_->meta_->dead.contains(address_)) co_await Sleep(365 * 24 * 3600 * kSecond);
      if (r.wait_ns > 0 && all_->knows_.term <= r.known_term) co_await WithTimeout(r.wait_ns, Grown(all_, r.known_term));
      co_return all_->knows_;
    }
    Task<Result<AskReply>> Ask(AskRequest) override { co_return Error(FsError::kNoSys); }
    Task<Result<MemberStatusReply>> MemberStatus(MemberStatusRequest) override { co_return Error(FsError::kNoSys); }
    Task<Result<ChangeMembersReply>> ChangeMembers(ChangeMembersRequest) override { co_return Error(FsError::kNoSys); }

   private:
    static Task<bool> Grown(FakeLocate* all, uint64_t above) {
      while (all->knows_.term <= above) co_await all->grew_.Wait();
      co_return true;
    }
    FakeLocate* const all_;
    const std::string address_;
  };
  const FakeMeta* const meta_;
  LocateReply knows_;
  Event grew_;
};

class SessionPeersTest : public testing::Test {
 protected:
  SessionPeersTest() : ex_(1, 4), meta_(3), locate_(&meta_) {}
  void Start(std::vector<std::string> addresses, bool asks) {
    MetaSessionOptions o;
    o.addresses = std::move(addresses);
    o.client_uuid = Uuid{1, 2};
    o.members = asks ? &locate_ : nullptr;
    session_ = std::make_unique<MetaSession>(meta_, std::move(o));
    session_->Start();
  }
  Task<Result<NodeReply>> Unlink(const std::string& name) {
    NameRequest r;
    r.name = name;
    return session_->Mutate(&MetaService::Unlink, std::move(r));
  }
  // The primary's PC is off in the middle of a call; b takes over, and the members know it a second later. How long that call takes.
  int64_t FailOver() {
    EXPECT_TRUE(RunSim(ex_, Unlink("before")).ok());
    const int64_t began_ns = ex_.NowNs();
    meta_.Sync();
    meta_.dead.insert("a");
    TaskScope scope;
    std::optional<Result<NodeReply>> answer;
    scope.Spawn(Unlink("during"), [&](Result<NodeReply> r) { answer = std::move(r); });
    ex_.RunFor(kSecond);
    EXPECT_FALSE(answer);
    meta_.Restart(false);
    meta_.leader = "b";
    locate_.Know(2, "b");
    EXPECT_TRUE(ex_.RunUntil([&] { return answer.has_value(); }, ex_.NowNs() + 120 * kSecond));
    EXPECT_TRUE(answer && answer->ok());
    return ex_.NowNs() - began_ns;
  }

  SimExecutor ex_;
  FakeMeta meta_;
  FakeLocate locate_;
  std::unique_ptr<MetaSession> session_;
};

TEST_F(SessionPeersTest, FindsThePrimaryThatNobodyTold) {
  locate_.Know(1, "a");
  Start({"standby"}, true);
  ASSERT_TRUE(RunSim(ex_, session_->WaitReady()).ok());
  EXPECT_TRUE(RunSim(ex_, Unlink("x")).ok());
  EXPECT_EQ(meta_.log(), std::vector<std::string>{"x"});
}

TEST_F(SessionPeersTest, ACallThatHangsGoesToTheNewPrimaryAtOnce) {
  locate_.Know(1, "a");
  Start({"a"}, true);
  ASSERT_TRUE(RunSim(ex_, session_->WaitReady()).ok());
  ex_.RunFor(2 * kSecond);
  EXPECT_LT(FailOver(), 2500 * kMillisecond) << "a second until it is known, and no try's timeout";
  EXPECT_EQ(session_->term(), 2u);
  EXPECT_EQ(session_->generation(), 1u) << "nothing is lost";
  EXPECT_EQ(meta_.log(), (std::vector<std::string>{"before", "during"}));
  ex_.RunFor(60 * kSecond);
  EXPECT_GT(session_->LeaseLeftNs(), 0);
}

// What the questions are good for.
TEST_F(SessionPeersTest, WithoutAskingItTakesATrysTimeout) {
  Start({"a", "b"}, false);
  ASSERT_TRUE(RunSim(ex_, session_->WaitReady()).ok());
  EXPECT_GT(FailOver(), 4 * kSecond);
  EXPECT_EQ(meta_.log(), (std::vector<std::string>{"before", "during"}));
}

// A member says so of one that does not serve: the session comes back to the one that does.
TEST_F(SessionPeersTest, AWrongHintLosesNothing) {
  locate_.Know(1, "a");
  Start({"a"}, true);
  ASSERT_TRUE(RunSim(ex_, session_->WaitReady()).ok());
  ex_.RunFor(2 * kSecond);
  locate_.Know(9, "standby");
  ex_.RunFor(10 * kSecond);
  EXPECT_TRUE(RunSim(ex_, Unlink("x")).ok());
  EXPECT_EQ(session_->term(), 1u);
  EXPECT_EQ(session_->generation(), 1u);
  ex_.RunFor(60 * kSecond);
  EXPECT_GT(session_->LeaseLeftNs(), 0);
}

}  // namespace
}  // namespace stria
