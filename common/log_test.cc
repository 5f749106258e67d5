#include "common/log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "common/temp_dir.h"
#include "common/units.h"

namespace stria {
namespace {

void Collect(void* context, LogLevel level, std::string_view line) {
  static_cast<std::vector<std::string>*>(context)->push_back(std::to_string(static_cast<int>(level)) + " " +
                                                             std::string(line));
}

TEST(Log, GoesToTheSink) {
  LogInfo("nobody hears {}", "this");
  std::vector<std::string> lines;
  SetLogSink(&Collect, &lines, LogLevel::kInfo);
  LogDebug("too low");
  LogInfo("shard {} of {}", ShardId(7), Uuid{1, 2});
  LogError("{}: {}", FsError::kIo, Error(FsError::kNoSpace, "disk full"));
  SetLogSink(nullptr, nullptr);
  LogError("off again");
  EXPECT_EQ(lines, (std::vector<std::string>{"1 shard 7 of 00000000-0000-0001-0000-000000000002",
                                             "3 Io: NoSpace: disk full"}));
}

TEST(Log, GoesToAFile) {
  TempDir dir;
  const std::string file = dir.path() + "/x.log";
  ASSERT_TRUE(InitLog("prog", file, LogLevel::kInfo).ok());
  LogInfo("hello {{}} {}", 5);
  LogDebug("too low");
  FlushLog();
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_NE(text.str().find("hello {} 5"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("prog["), std::string::npos) << text.str();
  EXPECT_EQ(text.str().find("too low"), std::string::npos);
  EXPECT_EQ(InitLog("prog", "/proc/nothing/x.log", LogLevel::kInfo).code(), FsError::kIo);
  SetLogLevel(LogLevel::kOff);
}

TEST(Log, OneEventIsOneLine) {
  std::vector<std::string> lines;
  SetLogSink(&Collect, &lines, LogLevel::kInfo);
  LogWarning("file '{}' is lost", "a\n2026-01-01 I all is well\033[2J\xff");
  SetLogSink(nullptr, nullptr);
  EXPECT_EQ(lines, (std::vector<std::string>{R"(2 file 'a\n2026-01-01 I all is well\033[2J\377' is lost)"}));
}

TEST(Log, Levels) {
  EXPECT_EQ(ParseLogLevel("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("loud").code(), FsError::kInval);
}

TEST(Log, EverySoOften) {
  LogEvery limit(kSecond);
  EXPECT_EQ(limit.Pass(0), "");
  EXPECT_EQ(limit.Pass(1), std::nullopt);
  EXPECT_EQ(limit.Pass(kSecond - 1), std::nullopt);
  EXPECT_EQ(limit.Pass(kSecond), " (2 more like this)");
  EXPECT_EQ(limit.Pass(5 * kSecond), "");
}

}  // namespace
}  // namespace stria
