#include "meta/member_metrics.h"

#include <gtest/gtest.h>

#include <string>

namespace stria {
namespace {

MemberStatusReply Two() {
  MemberStatusReply r;
  r.self = "pc2";
  r.primary = "pc1";
  r.term = 41;
  r.min_in_sync = 1;
  r.members.resize(2);
  r.members[0].name = "pc1";
  r.members[0].role = MemberRole::kPrimary;
  r.members[0].in_sync = true;
  r.members[1].name = "pc2";
  r.members[1].role = MemberRole::kJoining;
  r.members[1].lag = 70;
  r.members[1].coordinator = true;
  return r;
}

std::string TextOf(const MemberStatusReply& seen) {
  MetricFamilies out;
  AddMemberMetrics(seen, &out);
  return "\n" + MetricsText(out.Take());
}

bool Has(const std::string& text, const std::string& line) { return text.find("\n" + line + "\n") != std::string::npos; }

TEST(MemberMetrics, TellOfBeats) {
  MetricFamilies out;
  AddBeatMetrics({.sent = 9, .promised = 8, .given = 7, .hangs = 1, .longest_step_ns = 2500 * kMillisecond}, &out);
  const std::string text = "\n" + MetricsText(out.Take());
  EXPECT_TRUE(Has(text, "stria_meta_beats_sent_total 9")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_beats_promised_total 8")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_promises_given_total 7")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_hangs_total 1")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_longest_step_seconds 2.5")) << text;
}

TEST(MemberMetrics, AreOfTheServerItself) {
  const std::string text = TextOf(Two());
  EXPECT_TRUE(Has(text, "stria_meta_role{role=\"joining\"} 1")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_role{role=\"primary\"} 0")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_in_sync 0")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_lag_batches 70")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_coordinator_up 1")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_term 41")) << text;
}

TEST(MemberMetrics, AndOfHowManyThereAre) {
  const std::string text = TextOf(Two());
  EXPECT_TRUE(Has(text, "stria_meta_members 2")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_in_sync_members 1")) << text;
  EXPECT_TRUE(Has(text, "stria_meta_min_in_sync 1")) << text;
}

TEST(MemberMetrics, WhoDoesNotKnowItselfTellsNothing) { EXPECT_EQ(TextOf(MemberStatusReply()), "\n"); }

}  // namespace
}  // namespace stria
