// The audit: its lines, its bounds, its file.
#include "meta/audit/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/exec/sim_run.h"
#include "common/temp_dir.h"
#include "trust/audit/audit_lines.h"
#include "trust/audit/audit_sink.h"

namespace stria {
namespace {

using Json = nlohmann::json;

constexpr int64_t kWall = 1'700'000'000 * kSecond;

AuditEntry Entry(const std::string& verb, AuditEntry::Kind kind = AuditEntry::Kind::kVerb) {
  AuditEntry e;
  e.kind = kind;
  e.peer = "admin pc1";
  e.address = "10.0.0.7:40112";
  e.verb = verb;
  e.arguments = "n3";
  e.outcome = "done";
  return e;
}

TEST(AuditLines, AreJson) {
  const std::string line = FormatAudit(Entry("node drain"), kWall);
  EXPECT_EQ(line,
            "{\"time_s\":1700000000,\"time\":\"2023-11-14T22:13:20Z\",\"kind\":\"verb\",\"peer\":\"admin pc1\",\"address\":\"10.0.0.7:40112\","
            "\"verb\":\"node drain\",\"arguments\":\"n3\",\"outcome\":\"done\"}\n");
  AuditEntry earlier = Entry("x");
  earlier.time_ns = 5 * kSecond;
  EXPECT_EQ(Json::parse(FormatAudit(earlier, kWall))["time_s"], 5);
  for (int kind = 1; kind <= 5; ++kind) EXPECT_NE(AuditKindName(static_cast<AuditEntry::Kind>(kind)), "") << kind;
}

// What peers call themselves and ask for is any bytes.
TEST(AuditLines, StayOneLineOfJsonWhateverIsInThem) {
  AuditEntry e = Entry("x");
  e.peer = "client \x1b[2J\"},\n{\"time_s\":1";
  e.arguments = std::string("\0\xff\xc3(\xed\xb0\x80", 7);
  e.outcome = std::string(100'000, '\x01');
  const std::string line = FormatAudit(e, kWall);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (const char c : line.substr(0, line.size() - 1)) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  const Json parsed = Json::parse(line);
  EXPECT_EQ(parsed["peer"], "client \\033[2J\"},\\n{\"time_s\":1");
  EXPECT_LT(line.size(), 40 * kMaxAuditFieldBytes);
  EXPECT_EQ(TimeOfAudit(std::string_view(line).substr(0, line.size() - 1)), 1'700'000'000);
}

TEST(AuditLines, TheTailIsWhatWasAskedFor) {
  std::string text;
  for (int i = 1; i <= 9; ++i) {
    AuditEntry e = Entry("verb" + std::to_string(i));
    e.time_ns = i * 10 * kSecond;
    text += FormatAudit(e, kWall);
  }
  const auto verbs = [](const AuditTail& tail) {
    std::string out;
    for (const std::string& line : tail.lines) out += Json::parse(line)["verb"].get<std::string>().substr(4);
    return out + (tail.more ? "+" : "");
  };
  EXPECT_EQ(verbs(TailOfAudit(text, false, 0, 100, 1 << 20)), "123456789");
  EXPECT_EQ(verbs(TailOfAudit(text, false, 70, 100, 1 << 20)), "789");
  EXPECT_EQ(verbs(TailOfAudit(text, false, 0, 2, 1 << 20)), "89+");
  EXPECT_EQ(verbs(TailOfAudit(text, false, 80, 2, 1 << 20)), "89");
  EXPECT_EQ(verbs(TailOfAudit(text, false, 0, 100, 400)), "89+");
  EXPECT_EQ(verbs(TailOfAudit(text, true, 0, 100, 1 << 20)), "23456789") << "it begins somewhere in a line";
  EXPECT_EQ(verbs(TailOfAudit(text + "{\"time_s\":99,", false, 85, 100, 1 << 20)), "9") << "a line that was not written as a whole";
  EXPECT_EQ(verbs(TailOfAudit("nonsense\n\n" + text, false, 0, 100, 1 << 20)), "123456789");
  EXPECT_EQ(verbs(TailOfAudit("", false, 0, 100, 1 << 20)), "");
}

TEST(DenialBudget, AnAddressIsToldOfTenTimesAMinute) {
  DenialBudget budget;
  int written = 0;
  // Ports and interfaces of one network do not count.
  for (int i = 0; i < 100; ++i) written += budget.Admit("10.0.0.7:" + std::to_string(1000 + i), i);
  EXPECT_EQ(written, 10);
  EXPECT_TRUE(budget.Admit("10.0.0.8:1", 100));
  for (int i = 0; i < 100; ++i) written += budget.Admit("[fd00::" + std::to_string(i) + "]:5", 100);
  EXPECT_EQ(written, 20);
  EXPECT_TRUE(budget.TakeEnded(59 * kSecond).empty());
  EXPECT_TRUE(budget.keeps_back());
  const auto ended = budget.TakeEnded(61 * kSecond);
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].count, 90u);
  EXPECT_EQ(ended[1].count, 90u);
  EXPECT_FALSE(budget.keeps_back());
  EXPECT_TRUE(budget.Admit("10.0.0.7:1", 61 * kSecond));
}

TEST(DenialBudget, ManyAddressesAreFew) {
  DenialLimits limits;
  limits.max_places = 8;
  DenialBudget budget(limits);
  size_t written = 0;
  for (int i = 0; i < 5000; ++i) written += budget.Admit("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + ":1", i);
  EXPECT_EQ(written, 8u + limits.per_place);
  EXPECT_LE(budget.places(), limits.max_places + 1);
  limits.max_places = 4096;
  DenialBudget in_all(limits);
  written = 0;
  for (int i = 0; i < 4000; ++i) written += in_all.Admit("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + ":1", i);
  EXPECT_EQ(written, limits.in_all);
}

class AuditLogTest : public testing::Test {
 protected:
  std::string Path() const { return dir.path() + "/audit.log"; }
  void Begin(const AuditLogOptions& options = {}, const std::string& path = "") {
    log = std::make_unique<AuditLog>(&pool, path.empty() ? Path() : path, options);
    log->Start();
  }
  void Note(const AuditEntry& e) {
    RunSim(ex, [](AuditLog* to, AuditEntry entry) -> Task<void> {
      to->Note(std::move(entry));
      co_return;
    }(log.get(), e));
  }
  std::vector<Json> Lines(const std::string& path) const {
    std::vector<Json> out;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
    return out;
  }

  TempDir dir;
  SimExecutor ex{1};
  InlinePool pool;
  std::unique_ptr<AuditLog> log;
};

TEST_F(AuditLogTest, LinesComeIntoAFileOfItsOwn) {
  Begin();
  Note(Entry("one"));
  Note(Entry("two"));
  ASSERT_TRUE(RunSim(ex, log->Flush()).ok());
  const auto lines = Lines(Path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["verb"], "one");
  EXPECT_EQ(lines[1]["verb"], "two");
  struct stat st;
  ASSERT_EQ(stat(Path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  Note(Entry("three"));
  ex.RunFor(kSecond);  // by itself
  EXPECT_EQ(Lines(Path()).size(), 3u);
  Note(Entry("four"));
  const AuditTail tail = RunSim(ex, log->Read(0, 2)).value();
  ASSERT_EQ(tail.lines.size(), 2u);
  EXPECT_EQ(Json::parse(tail.lines[1])["verb"], "four");
  EXPECT_TRUE(tail.more);
}

TEST_F(AuditLogTest, TheFileDoesNotGrowForEver) {
  AuditLogOptions options;
  options.max_file_bytes = 2000;
  options.files = 3;
  Begin(options);
  for (int i = 0; i < 100; ++i) {
    Note(Entry(std::to_string(i)));
    ASSERT_TRUE(RunSim(ex, log->Flush()).ok());
  }
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    ++files;
    EXPECT_LE(entry.file_size(), options.max_file_bytes) << entry.path();
  }
  EXPECT_EQ(files, 3u);
  // Read over more than one file, in order.
  const AuditTail tail = RunSim(ex, log->Read(0, 15)).value();
  ASSERT_EQ(tail.lines.size(), 15u);
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(Json::parse(tail.lines[i])["verb"], std::to_string(85 + i));
}

TEST_F(AuditLogTest, DenialsAreCounted) {
  Begin();
  for (int i = 0; i < 50; ++i) Note(Entry("GetStripe", AuditEntry::Kind::kDenial));
  Note(Entry("node drain"));
  ex.RunFor(kSecond);
  EXPECT_EQ(Lines(Path()).size(), 11u);
  ex.RunFor(61 * kSecond);
  const auto lines = Lines(Path());
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[11]["address"], "10.0.0.7");
  EXPECT_NE(lines[11]["outcome"].get<std::string>().find("40 more"), std::string::npos);
  ex.RunFor(600 * kSecond);
  EXPECT_EQ(Lines(Path()).size(), 12u);
}

// A client that mounts again and again does not push out what others did.
TEST_F(AuditLogTest, MountsAreCountedByThemselves) {
  Begin();
  for (int i = 0; i < 100; ++i) Note(Entry("mount", AuditEntry::Kind::kSession));
  for (int i = 0; i < 5; ++i) Note(Entry("GetStripe", AuditEntry::Kind::kDenial));
  ex.RunFor(kSecond);
  EXPECT_EQ(Lines(Path()).size(), 65u) << "denials have their own budget";
  ex.RunFor(61 * kSecond);
  const auto lines = Lines(Path());
  ASSERT_EQ(lines.size(), 66u);
  EXPECT_EQ(lines[65]["kind"], "session");
  EXPECT_NE(lines[65]["outcome"].get<std::string>().find("40 more"), std::string::npos);
}

TEST_F(AuditLogTest, WhatCannotBeWrittenIsKeptUpToALimit) {
  AuditLogOptions options;
  options.max_waiting = 5;
  Begin(options, dir.path() + "/later/audit.log");
  for (int i = 0; i < 9; ++i) Note(Entry(std::to_string(i)));
  EXPECT_EQ(RunSim(ex, log->Flush()).code(), FsError::kNoEnt);
  EXPECT_EQ(RunSim(ex, log->Flush()).code(), FsError::kNoEnt);
  std::filesystem::create_directory(dir.path() + "/later");
  ex.RunFor(2 * options.again_ns);
  const auto lines = Lines(dir.path() + "/later/audit.log");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[4]["verb"], "4");
  EXPECT_NE(lines[5]["outcome"].get<std::string>().find("4 lines are missing here"), std::string::npos);
}

TEST_F(AuditLogTest, ALinkIsNotFollowed) {
  std::filesystem::create_symlink(dir.path() + "/elsewhere", Path());
  Begin();
  Note(Entry("one"));
  EXPECT_FALSE(RunSim(ex, log->Flush()).ok());
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/elsewhere"));
}

TEST_F(AuditLogTest, ADenialSaysWhoAndWhat) {
  Begin();
  RunSim(ex, [](AuditLog* to) -> Task<void> {
    Peer peer;
    peer.name = "wn7";
    peer.address = "10.3.0.7:5";
    NoteDenial(to, &peer, "/stria.v1.Meta/Admin", Error(FsError::kAccess, "it is for admin"));
    NoteDenial(to, nullptr, "/stria.v1.Meta/Admin", Error(FsError::kAccess, "nobody proved anything"));
    co_return;
  }(log.get()));
  ASSERT_TRUE(RunSim(ex, log->Flush()).ok());
  const auto lines = Lines(Path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["kind"], "denial");
  EXPECT_EQ(lines[0]["peer"], "client wn7");
  EXPECT_EQ(lines[0]["address"], "10.3.0.7:5");
  EXPECT_EQ(lines[0]["outcome"], "refused: it is for admin");
  EXPECT_EQ(lines[1]["peer"], "");
}

}  // namespace
}  // namespace stria
