#include "meta/session/event_queue.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(EventQueue, EventsStayUntilAcknowledged) {
  EventQueue q(1);
  SessionEvent e;
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(q.Push(e, 0), i);
  EXPECT_FALSE(q.Ack(1).ok()) << "not delivered yet";
  EXPECT_EQ(q.Take(2).size(), 2u);
  EXPECT_EQ(q.delivered(), 2u);
  EXPECT_EQ(q.Take(2)[0].seq, 1u) << "a lost reply is given again";
  ASSERT_TRUE(q.Ack(1).ok());
  EXPECT_TRUE(q.Acked(1));
  EXPECT_FALSE(q.Acked(2));
  EXPECT_EQ(q.first(), 2u);
  EXPECT_FALSE(q.Ack(3).ok());
  EXPECT_EQ(q.Push(e, 0), 4u);
  EXPECT_EQ(q.Take().size(), 3u);
  ASSERT_TRUE(q.Ack(4).ok());
  EXPECT_TRUE(q.empty());
  EXPECT_TRUE(q.Acked(4));
  EXPECT_FALSE(q.Acked(5));
  EXPECT_EQ(q.first(), 5u);
}

TEST(EventQueue, WhatIsDroppedMayBeAcknowledged) {
  EventQueue q(7);
  SessionEvent e;
  EXPECT_EQ(q.Push(e, 0), 7u);
  q.Drop();
  EXPECT_TRUE(q.empty());
  EXPECT_TRUE(q.Acked(7));
  EXPECT_FALSE(q.Ack(7).ok()) << "never delivered";
  q.SkipToEnd();
  EXPECT_TRUE(q.Ack(7).ok());
  EXPECT_FALSE(q.Ack(8).ok());
  EXPECT_EQ(q.Push(e, 0), 8u);
}

// Not from when it was the oldest: who acknowledges one by one is as silent as who acknowledges nothing.
TEST(EventQueue, SilenceCountsFromWhenTheOldestCouldBeTaken) {
  EventQueue q(1);
  SessionEvent e;
  EXPECT_EQ(q.SilentNs(1000), 0);
  for (int i = 0; i < 100; ++i) q.Push(e, kSecond);
  EXPECT_EQ(q.SilentNs(3 * kSecond), 2 * kSecond);
  EXPECT_EQ(q.Take().size(), 100u);
  ASSERT_TRUE(q.Ack(50).ok());
  EXPECT_EQ(q.SilentNs(3 * kSecond), 2 * kSecond - 50 * kEventTakesNs) << "50 were before it";
  ASSERT_TRUE(q.Ack(100).ok());
  EXPECT_EQ(q.SilentNs(3 * kSecond), 0);
  q.Push(e, 3 * kSecond);
  EXPECT_EQ(q.SilentNs(3 * kSecond), 0) << "what was before and is gone does not count";
}

}  // namespace
}  // namespace stria
