#include "meta/gated_dispatcher.h"

#include <gtest/gtest.h>

#include <optional>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

// Lets nobody in, or out, until it is told.
class TestGate final : public AnswerGate {
 public:
  Task<Result<void>> Enter() override {
    co_await may_enter.Wait();
    co_return verdict;
  }
  Task<Result<void>> Leave() override {
    co_await may_leave.Wait();
    co_return verdict;
  }
  Result<void> MayLeave() const override { return verdict; }
  Event may_enter, may_leave;
  Result<void> verdict;
};

class TestService final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string method, WireMessage request) override {
    ++began;
    co_await goes.Wait();
    ++ended;
    if (method == "/fails") co_return Error(FsError::kNoEnt, "no such file");
    co_return request;
  }
  int began = 0, ended = 0;
  Event goes;
};

// What was written is with the others when it is told so.
class TestChanges final : public PlainChanges {
 public:
  explicit TestChanges(int* asked) : asked_(asked) {}
  CommitSeq Written() const override { return written; }
  Task<void> Settle() override {
    ++*asked_;
    co_await settled.Wait();
  }
  CommitSeq written{7};
  Event settled;

 private:
  int* const asked_;
};

class GatedDispatcherTest : public testing::Test {
 protected:
  void Call(const std::string& method) {
    scope_.Spawn(gated_.Handle(nullptr, method, WireMessage()), [this](Result<WireMessage> r) { answer_.emplace(std::move(r)); });
    ex_.RunFor(kSecond);
  }
  void Set(Event* event) {
    event->Set();
    ex_.RunFor(kSecond);
  }

  SimExecutor ex_{1};
  TestService service_;
  std::shared_ptr<TestGate> gate_ = std::make_shared<TestGate>();
  Error away_{FsError::kNotLeader, "the primary is pc2 at pc2:7401"};
  GatedDispatcher gated_{[this] { return away_; }};
  std::optional<Result<WireMessage>> answer_;
  TaskScope scope_;
};

TEST_F(GatedDispatcherTest, WhileItDoesNotServeItSaysWhoDoes) {
  Call("/x");
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNotLeader);
  EXPECT_EQ(answer_->error().message, "the primary is pc2 at pc2:7401");
  EXPECT_EQ(service_.began, 0);
}

// Nobody else can serve then, so its caller need not look for another one. What a life has worked out is lost all the same.
TEST_F(GatedDispatcherTest, WhoIsAboutToServeSaysSo) {
  away_ = Error(FsError::kNotReady, "it is about to serve");
  Call("/x");
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNotReady);
  answer_.reset();
  gated_.Open(&service_, gate_);
  gate_->may_enter.Set();
  Call("/x");
  gated_.Close();
  ex_.RunFor(kSecond);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNotLeader);
}

TEST_F(GatedDispatcherTest, ACallWaitsAtBothGates) {
  gated_.Open(&service_, gate_);
  Call("/x");
  EXPECT_EQ(service_.began, 0);
  Set(&gate_->may_enter);
  EXPECT_EQ(service_.began, 1);
  Set(&service_.goes);
  EXPECT_EQ(service_.ended, 1);
  EXPECT_FALSE(answer_.has_value());
  Set(&gate_->may_leave);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_TRUE(answer_->ok());
}

// Also an error is an answer: that a file is not there may be old.
TEST_F(GatedDispatcherTest, ErrorsWaitAsWell) {
  gated_.Open(&service_, gate_);
  gate_->may_enter.Set();
  service_.goes.Set();
  Call("/fails");
  EXPECT_FALSE(answer_.has_value());
  Set(&gate_->may_leave);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNoEnt);
}

TEST_F(GatedDispatcherTest, OnlyACallThatHasWrittenWaitsForTheOthers) {
  int asked = 0;
  auto owned = std::make_unique<TestChanges>(&asked);
  TestChanges* const changes = owned.get();
  gated_.Open(&service_, gate_, std::move(owned));
  gate_->may_enter.Set();
  gate_->may_leave.Set();
  Call("/reads");
  Set(&service_.goes);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(asked, 0);
  answer_.reset();
  service_.goes.Reset();
  Call("/writes");
  ++changes->written.v;
  Set(&service_.goes);
  EXPECT_EQ(service_.ended, 2);
  EXPECT_FALSE(answer_.has_value());
  Set(&changes->settled);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_TRUE(answer_->ok());
  EXPECT_EQ(asked, 1);
}

TEST_F(GatedDispatcherTest, WhatALifeHasWorkedOutIsNotToldWhenItIsOver) {
  gated_.Open(&service_, gate_);
  gate_->may_enter.Set();
  service_.goes.Set();
  Call("/x");
  gate_->verdict = Error(FsError::kNotLeader, "over");
  Set(&gate_->may_leave);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNotLeader);
  EXPECT_EQ(answer_->error().message, "over");
}

TEST_F(GatedDispatcherTest, CallsUnderWayEndWithTheLife) {
  gated_.Open(&service_, gate_);
  gate_->may_enter.Set();
  Call("/x");
  EXPECT_EQ(service_.began, 1);
  gated_.Close();
  EXPECT_FALSE(gated_.open());
  ex_.RunFor(kSecond);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->code(), FsError::kNotLeader);
  Set(&service_.goes);
  EXPECT_EQ(service_.ended, 0) << "nothing uses what was served";
  // Another life.
  answer_.reset();
  gate_->may_leave.Set();
  gated_.Open(&service_, gate_);
  Call("/x");
  ASSERT_TRUE(answer_.has_value());
  EXPECT_TRUE(answer_->ok());
}

}  // namespace
}  // namespace stria
