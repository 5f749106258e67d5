#include "locality/job_io.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stria {
namespace {

TEST(JobIo, AsTextAndBack) {
  const std::vector<JobShare> jobs = {{"slurm:123", {{1, 2, 3}, 4, 5, 6, 7}, 8}, {"other", {{0, 0, 0}, 0, 0, 1, 0}, 0}};
  const std::string text = JobsText(jobs);
  EXPECT_EQ(text.substr(0, text.find('\n')), "slurm:123 local=1,network=2,reconstructed=3,read=4,written=5,operations=6,waited_ns=7,idle_ns=8");
  const auto back = ParseJobs(text);
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(*back, jobs);
  EXPECT_TRUE(ParseJobs("")->empty());
}

TEST(JobIo, WhatIsNewerIsSkippedAndWhatIsWrongRefused) {
  const auto newer = ParseJobs("a local=1,network=2,reconstructed=3,read=4,written=5,operations=6,waited_ns=7,idle_ns=8,later=x\n");
  ASSERT_TRUE(newer.ok()) << newer.error();
  EXPECT_EQ((*newer)[0].io.operations, 6u);
  for (const char* text : {"a", " local=1", "a \n", "a local", "a local=1,network=2\n",
                           "a local=-1,network=2,reconstructed=3,read=4,written=5,operations=6,waited_ns=7,idle_ns=8\n",
                           "a local=1,network=2,reconstructed=3,read=4,written=5,operations=6x,waited_ns=7,idle_ns=8\n",
                           "a local=1,network=2,reconstructed=3,read=4,written=5,operations=,waited_ns=7,idle_ns=8\n"}) {
    EXPECT_EQ(ParseJobs(text).code(), FsError::kCorrupt) << text;
  }
}

TEST(JobIo, SumsAndDifferences) {
  JobIo sum{{1, 2, 3}, 4, 5, 6, 7};
  const JobIo more{{10, 20, 30}, 40, 50, 60, 70};
  sum += more;
  EXPECT_EQ(sum, (JobIo{{11, 22, 33}, 44, 55, 66, 77}));
  EXPECT_EQ(sum.Since(more), (JobIo{{1, 2, 3}, 4, 5, 6, 7}));
}

TEST(Tallies, BothCountOrNobody) {
  const auto file = std::make_shared<ReadTally>(), reader = std::make_shared<ReadTally>();
  Tallies(file, reader).Add({1, 2, 3});
  Tallies(file).Add({1, 0, 0});
  Tallies().Add({9, 9, 9});
  EXPECT_EQ(*file, (ReadTally{2, 2, 3}));
  EXPECT_EQ(*reader, (ReadTally{1, 2, 3}));
}

}  // namespace
}  // namespace stria
