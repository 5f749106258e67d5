#include "meta/plain_changes.h"

#include <gtest/gtest.h>

#include <string>

#include "common/random.h"
#include "meta/replica/replica_world.h"

namespace stria {
namespace {

Task<void> SettleAndTell(PlainChanges* changes, bool* done) {
  co_await changes->Settle();
  *done = true;
}

// Two members in the set; the second can be cut off.
class PlainChangesTest : public testing::Test {
 protected:
  PlainChangesTest() {
    w_.Start(a_);
    w_.Start(b_);
    w_.reg().term = 1;
    w_.reg().primary = "m0";
    w_.reg().in_sync = {"m0"};
    ++w_.reg().version;
    w_.Open(a_, 1);
    Write("first");
    CHECK(w_.RunUntil([&] { return b_.store->whole() && b_.store->last() == a_.store->last(); }, 10 * kSecond));
    w_.reg().in_sync = {"m0", "m1"};
    a_.primary->Require({"m0", "m1"}, {"m0", "m1"}, 1);
    w_.RunFor(kSecond);
  }
  void Write(const std::string& value) {
    KvBatch batch;
    batch.Put(1, "k", value);
    w_.Write(a_, batch);
  }
  void Cut(bool cut) {
    w_.Cut("m0", "m1", cut);
    w_.Cut("m1", "m0", cut);
  }
  // Whether answers may go out within that time.
  bool Settles(PlainChanges* changes, int64_t ns) {
    bool done = false;
    TaskScope scope;
    scope.Spawn(SettleAndTell(changes, &done));
    w_.RunFor(ns);
    return done;
  }

  ReplicaWorld w_{1, 2};
  ReplicaWorld::Member& a_ = w_.member(0);
  ReplicaWorld::Member& b_ = w_.member(1);
};

TEST_F(PlainChangesTest, LittleIsAnsweredAtOnceAndMuchWaits) {
  ShippedChanges changes(a_.primary.get(), false);
  const CommitSeq before = changes.Written();
  Cut(true);
  Write("x");
  EXPECT_GT(changes.Written(), before);
  EXPECT_TRUE(Settles(&changes, kMillisecond));
  w_.RunFor(kMaxUnreceivedNs);
  EXPECT_FALSE(Settles(&changes, kMillisecond)) << "it is too old to be on one disk alone";
  bool done = false;
  TaskScope scope;
  scope.Spawn(SettleAndTell(&changes, &done));
  Cut(false);
  EXPECT_TRUE(w_.RunUntil([&] { return done; }, 10 * kSecond));
  Cut(true);
  std::string much(kMaxUnreceivedBytes, '\0');
  Random rng(7);
  for (char& c : much) c = static_cast<char>(rng.Next());
  Write(much);
  EXPECT_FALSE(Settles(&changes, kMillisecond)) << "it is too much";
}

TEST_F(PlainChangesTest, ReceivedByAllIfTheSettingsSaySo) {
  ShippedChanges changes(a_.primary.get(), true);
  Write("x");
  EXPECT_TRUE(Settles(&changes, kSecond));
  Cut(true);
  Write("y");
  EXPECT_FALSE(Settles(&changes, kMillisecond));
  // Who is not needed any more is not waited for.
  bool done = false;
  TaskScope scope;
  scope.Spawn(SettleAndTell(&changes, &done));
  w_.RunFor(kMillisecond);
  EXPECT_FALSE(done);
  a_.primary->Require({"m0"}, {"m0"}, 1);
  EXPECT_TRUE(w_.RunUntil([&] { return done; }, kSecond));
}

TEST_F(PlainChangesTest, NobodyWaitsForADeposedPrimary) {
  ShippedChanges changes(a_.primary.get(), true);
  Cut(true);
  Write("y");
  EXPECT_FALSE(Settles(&changes, kMillisecond));
  a_.primary->Depose(9);
  EXPECT_TRUE(Settles(&changes, kMillisecond)) << "the gate says what is so";
}

}  // namespace
}  // namespace stria
