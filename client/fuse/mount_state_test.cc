#include "client/fuse/mount_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os_random.h"

namespace stria {
namespace {

MountState Sample() {
  MountState s;
  s.pid = getpid();
  s.client = NewUuid();
  s.timeout_s = 60;
  return s;
}

TEST(MountState, IsReadAsWritten) {
  MountState s = Sample();
  for (bool lost : {false, true}) {
    s.lost_bytes = lost;
    auto back = DecodeMountState(EncodeMountState(s));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->pid, s.pid);
    EXPECT_EQ(back->client, s.client);
    EXPECT_EQ(back->timeout_s, 60);
    EXPECT_EQ(back->lost_bytes, lost);
  }
}

TEST(MountState, DamagedOnesAreRefused) {
  const std::string good = EncodeMountState(Sample());
  for (size_t n = 0; n + 1 < good.size(); ++n) EXPECT_FALSE(DecodeMountState(good.substr(0, n))) << n;
  EXPECT_FALSE(DecodeMountState("0" + good.substr(good.find(' '))));
  EXPECT_FALSE(DecodeMountState("x" + good));
}

// A device number that no mount has.
MountEntry NoMount() {
  MountEntry e;
  e.dev_major = 4095;
  e.dev_minor = static_cast<uint32_t>(getpid());
  return e;
}

TEST(MountState, WhoWaitsLearnsHowItEnded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may write to /run";
  const MountEntry e = NoMount();
  EXPECT_FALSE(MountWatch::Find(e));
  int go[2], made[2];
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(made), 0);
  const pid_t child = fork();
  if (child == 0) {
    MountState s = Sample();
    s.timeout_s = 0;
    char c = 'x';
    {
      auto file = MountStateFile::Make(e, s);
      if (!file.ok() || write(made[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(1);
      file->SetLostBytes();
    }
    _exit(0);
  }
  char c = 'x';
  ASSERT_EQ(read(made[0], &c, 1), 1);
  auto watch = MountWatch::Find(e);
  ASSERT_TRUE(watch);
  EXPECT_EQ(watch->state().pid, child);
  EXPECT_TRUE(watch->ProgramRuns());
  EXPECT_FALSE(watch->ProgramStopped());
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(watch->ProgramStopped());
  EXPECT_EQ(watch->WaitForEnd().code(), FsError::kTimedOut);
  kill(child, SIGCONT);
  ASSERT_EQ(write(go[1], &c, 1), 1);
  auto end = watch->WaitForEnd();
  ASSERT_TRUE(end.ok()) << end.error();
  EXPECT_TRUE(end->lost_bytes);
  EXPECT_FALSE(watch->ProgramRuns());
  EXPECT_FALSE(MountWatch::Find(e)) << "its file is left behind";
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stria
