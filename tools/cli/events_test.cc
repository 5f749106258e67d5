#include "tools/cli/events.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <sstream>

#include "common/temp_dir.h"
#include "common/units.h"
#include "tools/cli/receiver.h"

namespace stria::cli {
namespace {

ClusterEvent Down() {
  return {17, int64_t{1'700'000'000} * kSecond, "node-down", EventSeverity::kWarning, "n3", "Node n3 is down.", "Start stria-data on n3 again.", 1,
          int64_t{1'700'000'000} * kSecond};
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

TEST(Events, AreALineEachWithWhatIsToBeDone) {
  ClusterEvent e = Down();
  EXPECT_EQ(RenderEvents({e}),
            "2023-11-14T22:13:20Z  warning   Node n3 is down.\n"
            "                                Start stria-data on n3 again.\n");
  e.count = 4;
  e.action.clear();
  e.text = "bad\x1b[2J";
  EXPECT_EQ(RenderEvents({e}), "2023-11-14T22:13:20Z  warning   bad\\033[2J (4 times, the last at 2023-11-14T22:13:20Z)\n");
  EXPECT_EQ(SeverityOf("critical"), EventSeverity::kCritical);
  EXPECT_EQ(SeverityOf("Critical"), std::nullopt);
  EXPECT_EQ(EventJson(e)["severity"], "warning");
}

TEST(Events, GoIntoTheEnvironmentAndIntoMail) {
  const ClusterEvent e = Down();
  std::map<std::string, std::string> environment;
  for (const auto& [name, value] : EventEnvironment(e)) environment[name] = value;
  EXPECT_EQ(environment["STRIA_EVENT_KIND"], "node-down");
  EXPECT_EQ(environment["STRIA_EVENT_SEVERITY"], "warning");
  EXPECT_EQ(environment["STRIA_EVENT_SUBJECT"], "n3");
  EXPECT_EQ(environment["STRIA_EVENT_TEXT"], "Node n3 is down.");
  EXPECT_EQ(environment["STRIA_EVENT_ACTION"], "Start stria-data on n3 again.");
  EXPECT_EQ(environment["STRIA_EVENT_TIME"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(environment["STRIA_EVENT_SEQ"], "17");
  const std::string mail = EventMail(e, "root", "pc1");
  EXPECT_TRUE(mail.starts_with("To: root\nSubject: [stria] warning: Node n3 is down.\nAuto-Submitted: auto-generated\n")) << mail;
  EXPECT_NE(mail.find("\n\nNode n3 is down.\n\nTo do: Start stria-data on n3 again.\n"), std::string::npos) << mail;
  ClusterEvent hostile = e;
  hostile.text = "x\nBcc: everybody\n\n" + std::string(500, 'y');
  const std::string subject = EventSubject(hostile);
  EXPECT_EQ(subject.find('\n'), std::string::npos);
  EXPECT_LE(subject.size(), 162u);
  for (const char* bad : {"", "-oQ/tmp", "a b", "a,b", "a\nb", "<a>"}) EXPECT_FALSE(CheckMailAddress(bad).ok()) << bad;
  EXPECT_TRUE(CheckMailAddress("admin@example.org").ok());
}

TEST(Watch, ItsStateIsReadBackAndNothingElse) {
  const WatchState s{42, true};
  EXPECT_EQ(DecodeWatchState(EncodeWatchState(s)).value(), s);
  for (const char* bad : {"", "{", "{}", R"({"next":-1,"away_told":false})", R"({"next":"1","away_told":false})", R"({"next":1})"}) {
    EXPECT_EQ(DecodeWatchState(bad).code(), FsError::kCorrupt) << bad;
  }
}

TEST(Watch, TellsOnceThatTheMetadataServerIsAway) {
  AwayWatch away(false, 0);
  EXPECT_FALSE(away.OnAnswer(kSecond, 0));
  EXPECT_FALSE(away.OnFailure("connection refused", 30 * kSecond, 0));
  const auto told = away.OnFailure("connection refused", 31 * kSecond, 5);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->kind, "metadata-away");
  EXPECT_EQ(told->text, "The metadata server has not answered for 30 s: connection refused.");
  EXPECT_FALSE(away.OnFailure("connection refused", 900 * kSecond, 0));
  AwayWatch again(away.told(), 0);  // it was started anew
  EXPECT_FALSE(again.OnFailure("connection refused", 900 * kSecond, 0));
  ASSERT_TRUE(again.OnAnswer(901 * kSecond, 0).has_value());
  EXPECT_FALSE(again.OnAnswer(902 * kSecond, 0));
}

TEST(Watch, TriesAgainLaterAndLaterAndGivesUp) {
  EXPECT_EQ(RetryAfterNs(1), 5 * kSecond);
  EXPECT_EQ(RetryAfterNs(2), 10 * kSecond);
  EXPECT_EQ(RetryAfterNs(9), 300 * kSecond);
  EXPECT_EQ(RetryAfterNs(10), std::nullopt);
}

class ReceiverTest : public testing::Test {
 protected:
  std::string Script(const std::string& body) {
    const std::string path = dir_.path() + "/receiver";
    std::ofstream(path) << "#!/bin/sh\n" + body + "\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  TempDir dir_;
};

TEST_F(ReceiverTest, GetsInputAndEnvironment) {
  const std::string out = dir_.path() + "/out";
  const std::string path = Script("cat > " + out + "; echo \"$STRIA_EVENT_SUBJECT $1\" >> " + out);
  ASSERT_TRUE(RunReceiver({path, "word"}, EventEnvironment(Down()), "input\n", 60 * kSecond).ok());
  EXPECT_EQ(ReadAll(out), "input\nn3 word\n");
}

TEST_F(ReceiverTest, FailuresAreTold) {
  EXPECT_NE(RunReceiver({Script("exit 7")}, {}, "", 60 * kSecond).error().message.find("exit status 7"), std::string::npos);
  EXPECT_NE(RunReceiver({Script("kill -9 $$")}, {}, "", 60 * kSecond).error().message.find("signal 9"), std::string::npos);
  EXPECT_FALSE(RunReceiver({dir_.path() + "/nowhere"}, {}, "", 60 * kSecond).ok());
  EXPECT_EQ(RunReceiver({Script("true")}, {}, std::string(kMaxReceiverInput + 1, 'x'), kSecond).code(), FsError::kTooBig);
}

TEST_F(ReceiverTest, WhatTakesTooLongIsEndedWithAllItHasBegun) {
  const Result<void> late = RunReceiver({Script("sleep 1000 & sleep 1000")}, {}, "", 200 * kMillisecond);
  EXPECT_EQ(late.code(), FsError::kTimedOut) << late.error();
}

TEST_F(ReceiverTest, TheStateIsReplacedInOneStep) {
  const std::string path = dir_.path() + "/state";
  EXPECT_EQ(ReadStateFile(path).value(), "");
  ASSERT_TRUE(WriteStateFile(path, "one").ok());
  ASSERT_TRUE(WriteStateFile(path, "two").ok());
  EXPECT_EQ(ReadStateFile(path).value(), "two");
  EXPECT_TRUE(WriteStateFile(dir_.path() + "/watch/state", "x").ok());
  struct stat st;
  ASSERT_EQ(::stat((dir_.path() + "/watch").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
  EXPECT_FALSE(WriteStateFile(dir_.path() + "/no/where/state", "x").ok());
  EXPECT_EQ(FirstProgram({dir_.path() + "/nowhere", "/bin/sh"}), "/bin/sh");
  EXPECT_EQ(FirstProgram({path}), "");
}

}  // namespace
}  // namespace stria::cli
