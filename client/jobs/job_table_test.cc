#include "client/jobs/job_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace stria {
namespace {

constexpr uint32_t kThread = 7;

class JobTableTest : public ::testing::Test {
 protected:
  JobTableTest() : table_([this](uint32_t t) { asked_.push_back(t); }, [this](const JobRecord& r) { folded_[r.name] = r.io; }) {}

  // One request that reads so much.
  void Request(uint32_t thread, uint64_t bytes, bool opens = false) {
    const auto use = table_.Begin(thread, opens, now_ns_);
    use->io.read_bytes += bytes;
    ++use->io.operations;
  }
  void Found(uint32_t thread, const std::string& job, uint64_t start = 1) { table_.Found(thread, {false, start, job}, now_ns_); }
  uint64_t BytesOf(const std::string& job) {
    for (const auto& l : table_.List(now_ns_)) {
      if (l.share.job == job) return l.share.io.read_bytes;
    }
    return 0;
  }
  bool IsListed(const std::string& job) {
    const auto list = table_.List(now_ns_);
    return std::ranges::any_of(list, [&](const auto& l) { return l.share.job == job; });
  }

  std::vector<uint32_t> asked_;
  std::map<std::string, JobIo> folded_;
  JobTable table_;
  int64_t now_ns_ = 100 * kSecond;
};

TEST_F(JobTableTest, TheFirstRequestsAreCountedOnceTheJobIsKnown) {
  Request(kThread, 10);
  Request(kThread, 5);
  EXPECT_EQ(asked_, std::vector<uint32_t>{kThread}) << "once, however many requests come meanwhile";
  EXPECT_EQ(BytesOf("other"), 0u) << "nobody has got them yet";
  Found(kThread, "slurm:1");
  EXPECT_EQ(BytesOf("slurm:1"), 15u);
  Request(kThread, 1);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(BytesOf("slurm:1"), 16u);
  EXPECT_EQ(BytesOf("other"), 0u);
}

TEST_F(JobTableTest, ThreadsOfOneJobAndOfOthers) {
  for (uint32_t t = 1; t <= 3; ++t) Request(t, t);
  Found(1, "slurm:1");
  Found(2, "slurm:1", 2);
  Found(3, "condor:9.0", 3);
  EXPECT_EQ(BytesOf("slurm:1"), 3u);
  EXPECT_EQ(BytesOf("condor:9.0"), 3u);
  now_ns_ += 5 * kSecond;
  Request(3, 1);
  const auto list = table_.List(now_ns_);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].share.job, "condor:9.0") << "the last active first";
  EXPECT_EQ(list[0].share.idle_ns, 0);
  EXPECT_EQ(list[1].share.idle_ns, 5 * kSecond);
  EXPECT_EQ(list[2].share.job, "other");
  EXPECT_EQ(list[0].share.io.operations, 2u);
}

TEST_F(JobTableTest, RequestsOfNobody) {
  Request(0, 4);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(BytesOf("other"), 4u);
}

// A shell's child looks at the working directory before it becomes the program.
TEST_F(JobTableTest, WhoTouchesTheMountBeforeItBecomesAJob) {
  Request(kThread, 1);
  Found(kThread, "other");
  Request(kThread, 2);
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(BytesOf("other"), 0u) << "it may still become one";
  Request(kThread, 4, /*opens=*/true);
  EXPECT_EQ(asked_.size(), 2u) << "it opens a file: what is it now?";
  Found(kThread, "slurm:1");
  EXPECT_EQ(BytesOf("slurm:1"), 7u);
  EXPECT_EQ(BytesOf("other"), 0u);
}

TEST_F(JobTableTest, WhoIsOfNoJobIsAskedAboutMoreAndMoreSeldom) {
  size_t questions = 0;
  const int64_t end_ns = now_ns_ + 10 * kSecond;
  for (; now_ns_ < end_ns; now_ns_ += kMillisecond) {
    Request(kThread, 1);
    if (asked_.size() == questions) continue;
    questions = asked_.size();
    Found(kThread, "other");
  }
  EXPECT_GE(questions, 5u);
  EXPECT_LE(questions, 20u);
  EXPECT_EQ(BytesOf("other"), 10'000u);
  // Opening files does not make it more, later on.
  Request(kThread, 0, true);
  EXPECT_LE(asked_.size(), questions + 1);
}

TEST_F(JobTableTest, ANumberThatIsAnothersByNow) {
  Request(kThread, 1);
  Found(kThread, "slurm:1", 10);
  now_ns_ += JobTable::kValidNs;
  Request(kThread, 2);
  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_EQ(BytesOf("slurm:1"), 1u) << "since then it is in doubt";
  Found(kThread, "slurm:2", 20);
  EXPECT_EQ(BytesOf("slurm:1"), 1u);
  EXPECT_EQ(BytesOf("slurm:2"), 2u);
}

TEST_F(JobTableTest, WhoIsGoneBeforeTheAnswerWasWhatItHadBeen) {
  Request(kThread, 1);
  Found(kThread, "slurm:1");
  now_ns_ += JobTable::kValidNs;
  Request(kThread, 2);
  table_.Found(kThread, {true, 0, "other"}, now_ns_);
  EXPECT_EQ(BytesOf("slurm:1"), 3u);
  Request(8, 4);
  table_.Found(8, {true, 0, "other"}, now_ns_);
  now_ns_ += JobTable::kYoungNs;
  EXPECT_EQ(BytesOf("other"), 4u) << "nobody knows what this one was";
}

TEST_F(JobTableTest, RequestsThatEndLateAreCounted) {
  Request(kThread, 1);
  Found(kThread, "slurm:1");
  auto late = table_.Begin(kThread, false, now_ns_);
  now_ns_ += JobTable::kValidNs;
  Request(kThread, 2);
  Found(kThread, "slurm:2", 2);
  late->io.read_bytes += 100;
  late.reset();
  EXPECT_EQ(BytesOf("slurm:1"), 101u);
  EXPECT_EQ(BytesOf("slurm:2"), 2u);
}

TEST_F(JobTableTest, TheJobThatWasIdleForLongestGivesItsPlace) {
  const uint32_t jobs = JobTable::kMaxJobs;
  for (uint32_t t = 1; t <= jobs; ++t) {
    now_ns_ += kMillisecond;
    Request(t, t);
    Found(t, "slurm:" + std::to_string(t), t);
  }
  now_ns_ += kMillisecond;
  Request(1, 1000);  // the oldest is active again
  EXPECT_TRUE(folded_.empty());
  Request(jobs + 1, 5);
  Found(jobs + 1, "slurm:new", 5000);
  EXPECT_FALSE(IsListed("slurm:2"));
  EXPECT_TRUE(IsListed("slurm:1"));
  EXPECT_EQ(BytesOf("other"), 2u);
  EXPECT_EQ(folded_.at("slurm:2").read_bytes, 2u);
  EXPECT_EQ(table_.folded().read_bytes, 2u);
  EXPECT_EQ(table_.List(now_ns_).size(), JobTable::kMaxJobs + 1);
  // It comes back, from zero.
  now_ns_ += kMillisecond;
  asked_.clear();
  Request(2, 50);
  EXPECT_EQ(asked_, std::vector<uint32_t>{2});
  Found(2, "slurm:2", 2);
  EXPECT_EQ(BytesOf("slurm:2"), 50u);
}

TEST_F(JobTableTest, WhatAFoldedJobStillHasUnderWay) {
  const uint32_t jobs = JobTable::kMaxJobs;
  Request(1, 1);
  Found(1, "slurm:first");
  const auto late = table_.Begin(1, false, now_ns_);
  for (uint32_t t = 2; t <= jobs + 1; ++t) {
    now_ns_ += kMillisecond;
    Request(t, 0);
    Found(t, "slurm:" + std::to_string(t), t);
  }
  EXPECT_EQ(folded_.at("slurm:first").read_bytes, 1u);
  late->io.read_bytes += 100;
  late->Give();
  EXPECT_EQ(BytesOf("other"), 101u);
  EXPECT_EQ(table_.folded().read_bytes, 1u);
}

TEST_F(JobTableTest, ThreadsAndQuestionsAreBounded) {
  const uint32_t many = 3 * JobTable::kMaxThreads;
  for (uint32_t t = 1; t <= many; ++t) Request(t, 1);
  EXPECT_LE(table_.threads(), JobTable::kMaxThreads);
  EXPECT_EQ(asked_.size(), JobTable::kMaxAsking);
  for (const uint32_t t : std::vector<uint32_t>(asked_)) Found(t, "slurm:1", t);
  now_ns_ += JobTable::kValidNs;
  EXPECT_EQ(BytesOf("slurm:1"), JobTable::kMaxAsking);
  EXPECT_EQ(BytesOf("slurm:1") + BytesOf("other"), many) << "no byte is lost";
  // An answer that nobody waits for.
  table_.Found(many + 1, {false, 1, "slurm:2"}, now_ns_);
  EXPECT_FALSE(IsListed("slurm:2"));
}

}  // namespace
}  // namespace stria
