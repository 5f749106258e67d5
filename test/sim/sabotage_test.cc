// Do the checkers bite? Each bug of common/sabotage.h is switched on, and seeds run until a check fails.
// Without the bug the same seeds pass.
#include <gtest/gtest.h>

#include <iostream>

#include "common/sabotage_testing.h"
#include "test/sim/world.h"

namespace stria {
namespace {

struct Bug {
  const char* name;
  Sabotage sabotage;
  const char* plan;
  uint64_t seeds;      // that are enough to see it
  uint64_t first = 1;  // of them
  const char* seen_as = "";           // a part of what the check says that is to see it
  bool SimWorkPlan::*only = nullptr;  // nothing else runs
};

const Bug kBugs[] = {
    {"CommitBeforeSeal", Sabotage::kCommitBeforeSeal, "Calm", 1},
    {"SealBeforeSync", Sabotage::kSealBeforeSync, "Blackouts", 4},
    {"ForgetTail", Sabotage::kForgetTail, "Blackouts", 20},
    {"SkipChecksum", Sabotage::kSkipChecksum, "BitRot", 3},
    {"CollectAtOnce", Sabotage::kCollectAtOnce, "Overtaken", 8, 2},
    {"RebuildWrongColumn", Sabotage::kRebuildWrongColumn, "Losses", 6},
    {"ReuseShardIds", Sabotage::kReuseShardIds, "Strikes", 4},
    {"RetryTwice", Sabotage::kRetryTwice, "Network", 4},
    {"LoseInvalidation", Sabotage::kLoseInvalidation, "Calm", 2},
    {"AckBeforeSync", Sabotage::kAckBeforeSync, "Strikes", 10},
    {"ForgetLocks", Sabotage::kForgetLocks, "Crashes", 6, 1, "both hold", &SimWorkPlan::locks},
    {"LoseLockFree", Sabotage::kLoseLockFree, "Calm", 2, 1, "hang", &SimWorkPlan::locks},
    {"CloneInTwo", Sabotage::kCloneInTwo, "Calm", 3, 1, "clone of", &SimWorkPlan::clones},
    {"AnswerBeforeTold", Sabotage::kAnswerBeforeTold, "Overtaken", 60, 2, "no order explains",
     &SimWorkPlan::shared_names},
    {"VisitUnasked", Sabotage::kVisitUnasked, "Calm", 20, 1, "no order explains", &SimWorkPlan::shared_names},
    {"DropNames", Sabotage::kDropNames, "Impatient", 20, 1, "detached", &SimWorkPlan::shared_names},
    {"FreeOpenFiles", Sabotage::kFreeOpenFiles, "Crashes", 6, 1, "open, unlinked", &SimWorkPlan::orphans},
    {"LeaveLonely", Sabotage::kLeaveLonely, "Folding", 6, 1, "alone is in use"},
    {"OpenHoldsLeaseMu", Sabotage::kOpenHoldsLeaseMu, "Overtaken", 20, 1, "in a circle"},
    {"BelieveRevoked", Sabotage::kBelieveRevoked, "Trust", 12, 1, "was revoked", &SimWorkPlan::trust},
    {"BelieveExpired", Sabotage::kBelieveExpired, "Trust", 12, 1, "is over", &SimWorkPlan::trust},
    {"BelieveFormer", Sabotage::kBelieveFormer, "Trust", 20, 1, "its authority is not believed", &SimWorkPlan::trust},
    {"RenewExpired", Sabotage::kRenewExpired, "Trust", 16, 1, "was given another", &SimWorkPlan::trust},
    {"TakeFencedTokens", Sabotage::kTakeFencedTokens, "Trust", 16, 1, "session that was ended", &SimWorkPlan::trust},
    {"KeepOldKeys", Sabotage::kKeepOldKeys, "Trust", 16, 1, "key of days ago", &SimWorkPlan::trust},
    {"AppendAtKnownSize", Sabotage::kAppendAtKnownSize, "Calm", 2, 1, "record", &SimWorkPlan::appends},
};

class SabotageTest : public testing::TestWithParam<Bug> {};

TEST_P(SabotageTest, IsCaught) {
  const Bug& bug = GetParam();
  SimRunOptions options = FindSimPlan(bug.plan).options;
  if (bug.only != nullptr) {
    options.work = {false, false, false, false, false, false, false, false};
    options.work.*bug.only = true;
  }
  for (uint64_t seed = bug.first; seed < bug.first + bug.seeds; ++seed) {
    std::string failure;
    {
      const ScopedSabotage on(bug.sabotage);
      SimWorld world(seed, options);
      failure = world.RunAll();
    }
    if (failure.empty()) continue;
    std::cout << bug.plan << " seed " << seed << ": " << failure << std::endl;
    EXPECT_NE(failure.find(bug.seen_as), std::string::npos) << "another check saw it: " << failure;
    SimWorld sound(seed, options);
    EXPECT_EQ(sound.RunAll(), "") << bug.plan << " seed " << seed << " fails without the bug";
    return;
  }
  ADD_FAILURE() << bug.seeds << " seeds of " << bug.plan << " did not see it";
}

INSTANTIATE_TEST_SUITE_P(Bug, SabotageTest, testing::ValuesIn(kBugs), [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace stria
