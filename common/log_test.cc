#include "common/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "common/log_control.h"
#include "common/log_file.h"
#include "common/log_repeats.h"
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
  EXPECT_EQ(InitLog("prog", "/proc/nothing/x.log", LogLevel::kInfo).code(), FsError::kNoEnt);
  SetLogLevel(LogLevel::kOff);
}

// What systemd gives a program as its stderr is named in $JOURNAL_STREAM; here it is a file.
TEST(Log, TellsTheJournalHowBadItIs) {
  TempDir dir;
  const std::string path = dir.path() + "/journal";
  const int before = dup(STDERR_FILENO);
  ASSERT_NE(freopen(path.c_str(), "w", stderr), nullptr);
  struct stat st;
  ASSERT_EQ(fstat(STDERR_FILENO, &st), 0);
  auto logged = [&](const std::string& stream) {
    EXPECT_EQ(ftruncate(STDERR_FILENO, 0), 0);
    rewind(stderr);
    setenv("JOURNAL_STREAM", stream.c_str(), 1);
    EXPECT_TRUE(InitLog("prog", "", LogLevel::kDebug).ok());
    LogDebug("a");
    LogInfo("b");
    LogWarning("c");
    LogError("d");
    FlushLog();
    fflush(stderr);
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const std::string to_journal = logged(std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino));
  const std::string elsewhere = logged(std::to_string(st.st_dev) + ":1");  // stderr was redirected since
  unsetenv("JOURNAL_STREAM");
  SetLogLevel(LogLevel::kOff);
  dup2(before, STDERR_FILENO);
  close(before);
  EXPECT_EQ(to_journal, "<7>a\n<6>b\n<4>c\n<3>d\n");
  EXPECT_NE(elsewhere.find("prog["), std::string::npos) << elsewhere;
}

TEST(Log, OneEventIsOneLine) {
  std::vector<std::string> lines;
  SetLogSink(&Collect, &lines, LogLevel::kInfo);
  LogWarning("file '{}' is lost", "a\n2026-01-01 I all is well\033[2J\xff");
  SetLogSink(nullptr, nullptr);
  EXPECT_EQ(lines, (std::vector<std::string>{R"(2 file 'a\n2026-01-01 I all is well\033[2J\377' is lost)"}));
}

std::string Text(const std::string& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(Log, GoesOnInANewFileWhenTheOldOneWasMoved) {
  TempDir dir;
  const std::string file = dir.path() + "/x.log";
  ASSERT_TRUE(InitLog("moved", file, LogLevel::kInfo).ok());
  LogInfo("first");
  FlushLog();
  std::filesystem::rename(file, file + ".old");
  ReopenLog();
  EXPECT_TRUE(std::filesystem::exists(file)) << "at the signal, not at the next line";
  LogInfo("second");
  FlushLog();
  EXPECT_NE(Text(file + ".old").find("first"), std::string::npos);
  EXPECT_NE(Text(file).find("second"), std::string::npos);
  EXPECT_EQ(Text(file).find("first"), std::string::npos);
  SetLogLevel(LogLevel::kOff);
}

TEST(Log, LinesThatRepeatAreCounted) {
  TempDir dir;
  const std::string file = dir.path() + "/x.log";
  ASSERT_TRUE(InitLog("repeats", file, LogLevel::kInfo).ok());
  for (int i = 0; i < 1000; ++i) LogWarning("inode 7 cannot be written: no space");
  FlushLog();
  SetLogLevel(LogLevel::kOff);
  const std::string text = Text(file);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_NE(text.find("(999 more like this"), std::string::npos) << text;
}

TEST(LogFile, Rotates) {
  TempDir dir;
  const std::string file = dir.path() + "/x.log";
  LogFile log(file, 100, 3);
  ASSERT_TRUE(log.Open().ok());
  for (int i = 0; i < 50; ++i) log.Write(std::string(29, static_cast<char>('a' + i % 26)) + "\n");
  EXPECT_LE(std::filesystem::file_size(file), 100u);
  EXPECT_EQ(std::filesystem::file_size(file + ".1"), 90u);
  EXPECT_EQ(std::filesystem::file_size(file + ".2"), 90u);
  EXPECT_FALSE(std::filesystem::exists(file + ".3"));
  // Another process logs there, too: none goes on in a file that was moved.
  LogFile other(file, 100, 3);
  ASSERT_TRUE(other.Open().ok());
  for (int i = 0; i < 20; ++i) {
    (i % 2 == 0 ? log : other).Write(std::string(29, 'x') + "\n");
    EXPECT_LE(std::filesystem::file_size(file), 100u);
    EXPECT_LE(std::filesystem::file_size(file + ".1"), 100u);
  }
  std::filesystem::remove(file);
  log.Write("again\n");
  EXPECT_EQ(Text(file), "again\n");
  EXPECT_EQ(LogFile("/proc/nothing/x", 100, 3).Open().code(), FsError::kNoEnt);
}

TEST(LogRepeats, AMinuteAfterTheFirst) {
  LogRepeats r;
  EXPECT_TRUE(r.Pass(3, "disk n1:d1 is full", 0));
  EXPECT_FALSE(r.Pass(3, "disk n1:d1 is full", kSecond));
  EXPECT_TRUE(r.Pass(3, "disk n1:d2 is full", kSecond)) << "another one";
  EXPECT_TRUE(r.Due(59 * kSecond).empty());
  const auto due = r.Due(60 * kSecond);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].line, "disk n1:d1 is full (1 more like this in the last minute)");
  EXPECT_EQ(due[0].level, 3);
  EXPECT_FALSE(r.Pass(3, "disk n1:d1 is full", 61 * kSecond)) << "it was said a second ago";
  EXPECT_TRUE(r.Due(119 * kSecond).empty());
  EXPECT_EQ(r.Due(120 * kSecond).size(), 1u);
  EXPECT_TRUE(r.Due(200 * kSecond).empty()) << "nothing was counted";
  EXPECT_TRUE(r.Pass(3, "disk n1:d1 is full", 201 * kSecond)) << "it is new again";
}

TEST(LogRepeats, OnceAndThenOnceAMinuteForAsLongAsItLasts) {
  LogRepeats r;
  size_t written = 0;
  std::vector<std::string> due;
  for (int s = 0; s < 600; ++s) {
    written += r.Pass(3, "a", s * kSecond) + r.Pass(3, "disk 7 is full", s * kSecond) + r.Pass(3, "disk 8 is full", s * kSecond);
    for (const auto& c : r.Due(s * kSecond)) due.push_back(c.line);
  }
  EXPECT_EQ(written, 3u);
  EXPECT_EQ(due.size(), 3u * 9);
  EXPECT_EQ(std::ranges::count_if(due, [](const std::string& l) { return l.starts_with("disk 7 is full (6"); }), 9) << "each is said";
}

TEST(LogRepeats, EachAttemptOfAClientComesFromAnotherPort) {
  LogRepeats r;
  size_t written = 0;
  for (int port = 40000; port < 40100; ++port) {
    const std::string p = std::to_string(port);
    written += r.Pass(2, "the peer at 10.0.0.7:" + p + " refuses us: it says that our certificate has expired", 0);
    written += r.Pass(2, "data n3 at [fd00::7]:" + p + " may not call Status: no", 0);
    written += r.Pass(2, "it came from pc7:" + p, 0);
  }
  EXPECT_EQ(written, 3u);
  EXPECT_TRUE(r.Pass(2, "the peer at 10.0.0.8:40000 refuses us: it says that our certificate has expired", 0)) << "another machine";
  const auto due = r.Due(0, true);
  ASSERT_EQ(due.size(), 3u);
  for (const auto& c : due) {
    EXPECT_NE(c.line.find("40099"), std::string::npos) << c.line;
    EXPECT_NE(c.line.find("(99 more like this"), std::string::npos) << c.line;
  }
}

TEST(LogRepeats, PortsOfServersTellThemApart) {
  LogRepeats r;
  for (const char* line : {"no answer from pc1:7424", "no answer from pc1:7425", "x:99999", "x:99998", "t 10:40000:1", "t 10:40001:1", ":40000", ":40001"}) {
    EXPECT_TRUE(r.Pass(2, line, 0)) << line;
  }
}

TEST(LogRepeats, LinesThatDifferInNumbersOnly) {
  LogRepeats r;
  size_t written = 0;
  for (int i = 0; i < 1000; ++i) written += r.Pass(2, "inode " + std::to_string(i) + " has lost bytes", 0);
  EXPECT_EQ(written, LogRepeats::kMaxAlike);
  EXPECT_TRUE(r.Pass(2, "something else", 0));
  const auto due = r.Due(0, true);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].line, "inode 999 has lost bytes (970 more like this in the last minute)");
}

TEST(LogRepeats, IsBounded) {
  LogRepeats r;
  EXPECT_TRUE(r.Pass(2, "same", 0));
  EXPECT_FALSE(r.Pass(2, "same", 0));
  for (size_t i = 0; i < 2 * LogRepeats::kMaxKinds; ++i) EXPECT_TRUE(r.Pass(2, std::string(i + 1, 'x'), 0));
  const auto due = r.Due(0);
  ASSERT_EQ(due.size(), 1u) << "what was forgotten is said";
  EXPECT_EQ(due[0].line.find("same (1 more like this"), 0u);
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
