#include "client/jobs/job_labels.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace stria {
namespace {

JobIo Read(uint64_t bytes) {
  JobIo io;
  io.read_bytes = bytes;
  return io;
}
JobTable::Listed Job(uint64_t number, uint64_t bytes, int64_t idle_ns = 0) { return {number, {"slurm:" + std::to_string(number), Read(bytes), idle_ns}}; }
JobTable::Listed Other(uint64_t bytes) { return {0, {"other", Read(bytes), 0}}; }

std::map<std::string, uint64_t> Told(JobLabels* labels, const std::vector<JobTable::Listed>& listed, uint64_t folded = 0) {
  std::map<std::string, uint64_t> out;
  for (const auto& [label, io] : labels->Tell(listed, Read(folded))) {
    EXPECT_FALSE(out.contains(label)) << label;
    out[label] = io.read_bytes;
  }
  return out;
}

std::vector<JobTable::Listed> Many(uint64_t jobs, uint64_t bytes, int64_t idle_ns = 0) {
  std::vector<JobTable::Listed> out;
  for (uint64_t n = 1; n <= jobs; ++n) out.push_back(Job(n, bytes + n, idle_ns));
  return out;
}

TEST(JobLabels, FewJobsHaveEachItsLabel) {
  JobLabels labels;
  const auto told = Told(&labels, {Job(1, 10), Job(2, 20), Other(5)});
  EXPECT_EQ(told, (std::map<std::string, uint64_t>{{"slurm:1", 10}, {"slurm:2", 20}, {"other", 5}}));
}

TEST(JobLabels, OfManyThoseWithMostBytesAndTheRestTogether) {
  JobLabels labels;
  auto listed = Many(JobLabels::kMaxLabels + 2, 100);
  listed.push_back(Other(7));
  auto told = Told(&labels, listed);
  EXPECT_EQ(told.size(), JobLabels::kMaxLabels + 1);
  EXPECT_FALSE(told.contains("slurm:1"));
  EXPECT_FALSE(told.contains("slurm:2"));
  EXPECT_EQ(told["other"], 101u + 102u + 7u);
  // They keep it, whatever the others do then.
  listed[0] = Job(1, 1'000'000);
  told = Told(&labels, listed);
  EXPECT_FALSE(told.contains("slurm:1"));
  EXPECT_EQ(told["other"], 1'000'000u + 102u + 7u);
}

TEST(JobLabels, WhoWasIdleForLongGivesItsLabel) {
  JobLabels labels;
  auto listed = Many(JobLabels::kMaxLabels, 100, JobLabels::kIdleNs);
  listed.push_back(Other(0));
  (void)Told(&labels, listed);
  EXPECT_TRUE(Told(&labels, listed).contains("slurm:1")) << "nobody wants it";
  listed[4] = Job(5, 105, 2 * JobLabels::kIdleNs);
  listed.push_back(Job(99, 50));
  auto told = Told(&labels, listed);
  EXPECT_FALSE(told.contains("slurm:5"));
  EXPECT_EQ(told["slurm:99"], 50u);
  EXPECT_EQ(told["other"], 0u) << "what it had told before is told";
}

TEST(JobLabels, ALabelCountsFromWhenItIsGiven) {
  JobLabels labels;
  auto listed = Many(JobLabels::kMaxLabels, 100, JobLabels::kIdleNs);
  for (auto& l : listed) l.share.idle_ns = 0;
  listed.push_back(Job(99, 1));
  listed.push_back(Other(0));
  EXPECT_EQ(Told(&labels, listed)["other"], 1u);
  labels.Folded({"slurm:1", 1, Read(101), 0, nullptr});
  listed.erase(listed.begin());
  listed[JobLabels::kMaxLabels - 1] = Job(99, 31);
  listed.back() = Other(101);
  auto told = Told(&labels, listed, 101);
  EXPECT_EQ(told["slurm:99"], 30u);
  EXPECT_EQ(told["other"], 1u);
}

TEST(JobLabels, FoldedJobsAreCountedOnce) {
  JobLabels labels;
  EXPECT_EQ(Told(&labels, {Job(1, 10), Other(0)})["slurm:1"], 10u);
  // It had read more since.
  labels.Folded({"slurm:1", 1, Read(14), 0, nullptr});
  EXPECT_EQ(Told(&labels, {Other(14)}, 14)["other"], 4u);
  // One of which nobody has ever been told.
  labels.Folded({"slurm:2", 2, Read(3), 0, nullptr});
  EXPECT_EQ(Told(&labels, {Other(17)}, 17)["other"], 7u);
}

}  // namespace
}  // namespace stria
