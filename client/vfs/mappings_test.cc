#include "client/vfs/mappings.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kIno{9};

// A server that knows a file without bytes, `size` long, and tells of so much of it at once.
class MappingsTest : public ::testing::Test {
 public:
  MappingsTest()
      : ex(1), tally(std::make_shared<ReadTally>()), mappings(kMiB, 10 * kSecond, Needs()),
        file(std::make_shared<InodeMapping>(kIno, proof, tally, mappings.budget())) {}

  MappingsNeeds Needs() {
    MappingsNeeds needs;
    needs.ask = [this](GetExtentsRequest r) { return Answer(std::move(r)); };
    needs.may_keep = [this](const InodeMappingPtr&) { return may_keep; };
    return needs;
  }

  Task<Result<GetExtentsReply>> Answer(GetExtentsRequest r) {
    asked.push_back(r);
    co_await Sleep(kMillisecond);
    if (disturb > 0) --disturb, file->Forget();
    GetExtentsReply reply;
    reply.attr.ino = r.ino;
    reply.attr.size = size;
    reply.attr.data_version = version;
    version += each_answer_another_version;
    reply.tokens_live_ns = 3600 * kSecond;
    reply.covered_to = std::min(r.offset + r.length, r.offset + at_once);
    co_return reply;
  }

  Result<void> Ensure(uint64_t offset, uint64_t length) {
    return RunSim(ex, mappings.Ensure(file, offset, length, false));
  }

  SimExecutor ex;
  std::string proof = "proof";
  bool may_keep = true;
  uint64_t size = kMiB, at_once = kMaxFileBytes, version = 1, each_answer_another_version = 0;
  int disturb = 0;  // answers that something overtakes
  std::vector<GetExtentsRequest> asked;
  std::shared_ptr<ReadTally> tally;
  Mappings mappings;
  InodeMappingPtr file;
};

TEST_F(MappingsTest, WhatMayBeKeptIsAskedOnceAndAhead) {
  ASSERT_TRUE(Ensure(0, 100).ok());
  ASSERT_TRUE(Ensure(kMiB, 100).ok());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_GT(asked[0].length, kMiB);
  EXPECT_EQ(asked[0].header.opened, "proof");
  EXPECT_TRUE(asked[0].when_told);
}

TEST_F(MappingsTest, WhatMayNotBeKeptIsAskedEachTime) {
  may_keep = false;
  ASSERT_TRUE(Ensure(0, 100).ok());
  ASSERT_TRUE(Ensure(0, 100).ok());
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].length, 100u);
}

TEST_F(MappingsTest, AnAnswerThatWasOvertakenIsNotKept) {
  disturb = 2;
  ASSERT_TRUE(Ensure(0, 100).ok());
  EXPECT_EQ(asked.size(), 3u);
}

TEST_F(MappingsTest, WhatChangesAllTheTimeIsGivenUp) {
  disturb = 1'000'000;
  EXPECT_EQ(Ensure(0, 100).code(), FsError::kIo);
  EXPECT_GE(ex.NowNs(), 10 * kSecond);
}

TEST_F(MappingsTest, LongRangesTakeSeveralAnswers) {
  may_keep = false;
  at_once = 1000;
  ASSERT_TRUE(Ensure(0, 3000).ok());
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_GE(file->known().CoveredTo(0), 3000u);
}

TEST_F(MappingsTest, AtOnceIsOfOneVersion) {
  at_once = 1000;
  each_answer_another_version = 1;
  uint64_t end = 3000;
  ExtentCache mapping;
  Attr seen;
  auto whole = RunSim(ex, mappings.AtOnce(file, 0, {}, &end, &mapping, &seen));
  ASSERT_TRUE(whole.ok());
  EXPECT_FALSE(*whole);
  whole = RunSim(ex, mappings.AtOnce(file, 0, {.any = true}, &end, &mapping, &seen));
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(*whole);
  EXPECT_EQ(file->known().CoveredTo(0), 0u) << "nothing is kept";
}

TEST_F(MappingsTest, AtOnceEndsWhereTheFileEnds) {
  size = 1500;
  uint64_t end = 3000;
  ExtentCache mapping;
  Attr seen;
  ASSERT_TRUE(RunSim(ex, mappings.AtOnce(file, 0, {}, &end, &mapping, &seen)).ok());
  EXPECT_EQ(end, 1500u);
  EXPECT_EQ(seen.size, 1500u);
  // Bytes of ours that the server does not know are behind it.
  end = 3000;
  ExtentCache behind;
  ASSERT_TRUE(RunSim(ex, mappings.AtOnce(file, 2000, {.own_size = 2500}, &end, &behind, &seen)).ok());
  EXPECT_EQ(end, 2500u);
  EXPECT_EQ(behind.CoveredTo(2000), 2500u);
}

// What has to be decoded may lie somewhere else by now.
TEST_F(MappingsTest, AReadThatWasDecodedDoubtsItNowAndThen) {
  ASSERT_TRUE(Ensure(0, 100).ok());
  const uint64_t epoch = file->epoch();
  file->Doubt(kSecond);
  EXPECT_EQ(file->epoch(), epoch);
  tally->reconstructed_bytes += 5;
  file->Doubt(kSecond);
  EXPECT_NE(file->epoch(), epoch);
  EXPECT_EQ(file->known().CoveredTo(0), 0u);
  const uint64_t then = file->epoch();
  tally->reconstructed_bytes += 5;
  file->Doubt(2 * kSecond);
  EXPECT_EQ(file->epoch(), then);
  file->Doubt(60 * kSecond);
  EXPECT_NE(file->epoch(), then);
}

}  // namespace
}  // namespace stria
