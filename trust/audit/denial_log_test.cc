#include "trust/audit/denial_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

TEST(DenialLog, WritesFewAndCountsTheRest) {
  SimExecutor ex(1);
  std::vector<std::string> lines;
  DenialLog log([&](std::string_view line) { lines.emplace_back(line); });
  Peer pc8;
  pc8.name = "pc8";
  pc8.address = "10.0.0.8:40112";
  const auto note = [&](const Peer& who) {
    ex.Post([&log, who] { NoteDenial(&log, &who, "a shard", Error(FsError::kBadToken, "the shard token is another's; " + who.ToString() + " has shown it")); });
    ex.RunFor(kMillisecond);
  };
  note(pc8);
  ASSERT_EQ(lines.size(), 1u);
  for (const char* part : {"\"kind\":\"denial\"", "\"peer\":\"client pc8\"", "\"address\":\"10.0.0.8:40112\"",
                           "the shard token is another's; client pc8 at 10.0.0.8:40112 has shown it"}) {
    EXPECT_NE(lines[0].find(part), std::string::npos) << part << " in " << lines[0];
  }
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  const DenialLimits limits;
  for (size_t i = 1; i < 1000; ++i) note(pc8);
  EXPECT_EQ(lines.size(), limits.per_place);
  Peer pc9 = pc8;
  pc9.address = "10.0.0.9:1";
  note(pc9);
  EXPECT_EQ(lines.size(), limits.per_place + 1) << "others are written";
  ex.RunFor(2 * limits.window_ns);
  ASSERT_EQ(lines.size(), limits.per_place + 2);
  EXPECT_NE(lines.back().find(std::to_string(1000 - limits.per_place) + " more within a minute"), std::string::npos) << lines.back();
}

}  // namespace
}  // namespace stria
