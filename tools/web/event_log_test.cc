#include "tools/web/event_log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace stria::web {
namespace {

constexpr int64_t kWallNs = 1'700'000'000 * kSecond;

ClusterEvent Event(uint64_t seq, const std::string& text) {
  ClusterEvent e;
  e.seq = seq;
  e.time_ns = e.last_ns = kWallNs + static_cast<int64_t>(seq) * kSecond;
  e.severity = EventSeverity::kWarning;
  e.text = text;
  return e;
}

ReadEventsReply Reply(std::vector<ClusterEvent> events, uint64_t next, bool more = false) {
  ReadEventsReply r;
  r.events = std::move(events);
  r.next = next;
  r.more = more;
  return r;
}

TEST(WebEventLog, AsksOnlyForWhatIsNew) {
  EventLog log;
  EXPECT_EQ(log.Next(kWallNs).after, 0u);
  EXPECT_EQ(log.Next(kWallNs).since_ns, kWallNs - EventLog::kSinceNs);
  EXPECT_EQ(log.Next(kWallNs).limit, EventLog::kLimit);
  EXPECT_TRUE(log.Take(Reply({Event(3, "a"), Event(4, "b")}, 4, /*more=*/true)));
  EXPECT_EQ(log.Next(kWallNs).after, 4u);
  // What this program may not see, or is too old, was looked at all the same.
  EXPECT_FALSE(log.Take(Reply({}, 9)));
  EXPECT_EQ(log.Next(kWallNs).after, 9u);
  EXPECT_FALSE(log.Take(Reply({}, 9)));
  EXPECT_EQ(log.Shown().size(), 2u);
}

TEST(WebEventLog, AnAnswerThatLeadsNowhereIsNotAskedForEver) {
  EventLog log;
  EXPECT_FALSE(log.Take(Reply({}, 0, /*more=*/true)));
}

TEST(WebEventLog, NewestFirstAndBounded) {
  EventLog log;
  for (uint64_t seq = 1; seq <= EventLog::kKept + 5; ++seq) log.Take(Reply({Event(seq, "event " + std::to_string(seq))}, seq));
  const cli::Json shown = log.Shown();
  ASSERT_EQ(shown.size(), EventLog::kKept);
  EXPECT_EQ(shown[0]["seq"], EventLog::kKept + 5);
  EXPECT_EQ(shown[0]["what"], "event " + std::to_string(EventLog::kKept + 5));
  EXPECT_EQ(shown[0]["severity"], "warning");
  EXPECT_EQ(shown[0]["time_s"], 1'700'000'000 + static_cast<int64_t>(EventLog::kKept) + 5);
  EXPECT_EQ(shown[EventLog::kKept - 1]["seq"], 6u);
}

TEST(WebEventLog, WhatIsKeptIsAskedForAnewNowAndThen) {
  EventLog log;
  log.Take(Reply({Event(7, "n1 is down"), Event(8, "n2 is down")}, 8));
  int asked = 0;
  while (log.Next(kWallNs).after == 8) ASSERT_LE(++asked, EventLog::kAnewAfter);
  EXPECT_EQ(asked, EventLog::kAnewAfter);
  ClusterEvent again = Event(7, "n1 is down");
  again.count = 3;
  again.last_ns = kWallNs;
  log.Take(Reply({again, Event(8, "n2 is down")}, 8));
  const cli::Json shown = log.Shown();
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[1]["what"], "n1 is down (3 times, the last at 2023-11-14T22:13:20Z)");
  EXPECT_EQ(log.Next(kWallNs).after, 8u);
}

TEST(WebEventLog, AnotherClusterCountsFromOne) {
  EventLog log;
  log.Of("first");
  log.Take(Reply({Event(50, "a")}, 50));
  log.Of("first");
  EXPECT_EQ(log.Next(kWallNs).after, 50u);
  log.Of("second");
  EXPECT_EQ(log.Next(kWallNs).after, 0u);
  EXPECT_TRUE(log.Shown().empty());
}

}  // namespace
}  // namespace stria::web
