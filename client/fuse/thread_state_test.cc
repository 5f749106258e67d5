#include "client/fuse/thread_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace stria {
namespace {

std::string Status(const std::string& own, const std::string& shared, const std::string& blocked, const std::string& ignored,
                   const std::string& caught, int tracer = 0) {
  return "Name:\tSigPnd:\nState:\tS (sleeping)\nTgid:\t7\nTracerPid:\t" + std::to_string(tracer) + "\nSigQ:\t1/95\nSigPnd:\t" +
         own + "\nShdPnd:\t" + shared + "\nSigBlk:\t" + blocked + "\nSigIgn:\t" + ignored + "\nSigCgt:\t" + caught +
         "\nCapInh:\t0000000000000000\n";
}

std::string Stat(uint64_t flags, int end) {
  return "7 (a) b (c) S 1 7 7 0 -1 " + std::to_string(flags) + " 1 2 3 4 0 0 18446744073709551615 " + std::to_string(end) + "\n";
}

const char* const kNone = "0000000000000000";
const char* const kInt = "0000000000000002";
const char* const kQuit = "0000000000000004";
const char* const kKill = "0000000000000100";
const char* const kAlarm = "0000000000002000";
const char* const kRealTime = "8000000000000000";

bool Dying(const std::string& status, const std::string& stat = Stat(0x400000, 0)) {
  const auto state = ParseThreadState(status, stat);
  EXPECT_TRUE(state.has_value());
  return state && IsDying(*state);
}

TEST(ThreadState, ASignalWithAHandlerKillsNobody) {
  EXPECT_FALSE(Dying(Status(kNone, kNone, kNone, kNone, kNone)));
  EXPECT_FALSE(Dying(Status(kAlarm, kNone, kNone, kNone, kAlarm)));
  EXPECT_FALSE(Dying(Status(kNone, kAlarm, kNone, kNone, kAlarm)));
  EXPECT_FALSE(Dying(Status(kNone, kAlarm, kAlarm, kNone, kNone)));  // blocked
  EXPECT_FALSE(Dying(Status(kNone, kAlarm, kNone, kAlarm, kNone)));  // ignored
}

TEST(ThreadState, WhatDoesNothingByItselfKillsNobody) {
  EXPECT_FALSE(Dying(Status("0000000000010000", kNone, kNone, kNone, kNone)));  // SIGCHLD
  EXPECT_FALSE(Dying(Status(kNone, "0000000000020000", kNone, kNone, kNone)));  // SIGCONT
  EXPECT_FALSE(Dying(Status(kNone, "0000000000400000", kNone, kNone, kNone)));  // SIGURG
  EXPECT_FALSE(Dying(Status(kNone, "0000000008000000", kNone, kNone, kNone)));  // SIGWINCH
  EXPECT_FALSE(Dying(Status(kNone, "00000000003c0000", kNone, kNone, kNone)));  // SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
}

TEST(ThreadState, WhatNobodyHandlesKills) {
  EXPECT_TRUE(Dying(Status(kKill, kNone, kNone, kNone, kNone)));
  EXPECT_TRUE(Dying(Status(kNone, kKill, kNone, kNone, kNone)));
  EXPECT_TRUE(Dying(Status(kNone, kInt, kNone, kNone, kAlarm)));
  EXPECT_TRUE(Dying(Status(kQuit, kNone, kNone, kNone, kNone)));
  EXPECT_TRUE(Dying(Status(kNone, kRealTime, kNone, kNone, kNone)));
  EXPECT_TRUE(Dying(Status(kAlarm, kInt, kNone, kNone, kAlarm)));  // one of two
}

TEST(ThreadState, ADebuggerIsAskedOfAllButSigkill) {
  EXPECT_FALSE(Dying(Status(kNone, kInt, kNone, kNone, kNone, 12)));
  EXPECT_TRUE(Dying(Status(kKill, kNone, kNone, kNone, kNone, 12)));
}

TEST(ThreadState, WhoWasKilledDiesWhoEndsDoesNot) {
  const std::string nothing = Status(kNone, kNone, kNone, kNone, kNone);
  EXPECT_TRUE(Dying(nothing, Stat(0x400404, SIGKILL)));
  EXPECT_TRUE(Dying(nothing, Stat(0x400404, SIGQUIT | 0x80)));  // dumped core
  EXPECT_FALSE(Dying(nothing, Stat(0x400004, 3 << 8)));         // exit(3)
  EXPECT_FALSE(Dying(nothing, Stat(0x400000, SIGSTOP)));        // has only been stopped
  EXPECT_FALSE(Dying(Status(kNone, kInt, kNone, kNone, kNone), Stat(0x400004, 0)));  // came too late
}

TEST(ThreadState, WhatIsNotUnderstoodIsNotKnown) {
  const std::string status = Status(kKill, kNone, kNone, kNone, kNone), stat = Stat(0, 0);
  EXPECT_TRUE(ParseThreadState(status, stat));
  EXPECT_FALSE(ParseThreadState("", stat));
  EXPECT_FALSE(ParseThreadState(status, ""));
  EXPECT_FALSE(ParseThreadState(status, "7 (a) S 1"));
  EXPECT_FALSE(ParseThreadState(status.substr(0, status.find("SigCgt")), stat));
  EXPECT_FALSE(ParseThreadState(Status("x", kNone, kNone, kNone, kNone), stat));
}

TEST(ThreadState, WhetherItRuns) {
  const auto waits = ParseThreadRun("7 (a) R (c) S 1 7", "4100 20 3\n"), runs = ParseThreadRun("7 (a) R 1 7", "5 0 1\n");
  ASSERT_TRUE(waits && runs);
  EXPECT_FALSE(waits->runnable);
  EXPECT_EQ(waits->processor_ns, 4100);
  EXPECT_TRUE(runs->runnable);
  EXPECT_FALSE(ParseThreadRun("7 (a) ", "5 0 1\n"));
  EXPECT_FALSE(ParseThreadRun("7 (a) R 1 7", ""));

  const Threads threads;
  const auto self = threads.Run(static_cast<uint32_t>(gettid()));
  ASSERT_TRUE(self) << "it is running now";
  EXPECT_TRUE(self->runnable);
  EXPECT_FALSE(threads.Run(0));
}

TEST(ThreadState, LivingThreads) {
  const Threads threads;
  EXPECT_FALSE(threads.IsDying(static_cast<uint32_t>(getpid())));
  EXPECT_FALSE(threads.IsDying(0));
  EXPECT_FALSE(Threads("/nowhere").IsDying(static_cast<uint32_t>(getpid())));

  const pid_t child = fork();
  if (child == 0) {
    signal(SIGTERM, SIG_DFL);
    while (true) pause();
  }
  ASSERT_GT(child, 0);
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_FALSE(threads.IsDying(static_cast<uint32_t>(child)));  // stopped
  kill(child, SIGTERM);  // to be taken when it goes on
  EXPECT_TRUE(threads.IsDying(static_cast<uint32_t>(child)));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(threads.IsDying(static_cast<uint32_t>(child)));  // gone
}

}  // namespace
}  // namespace stria
