#include "client/jobs/job_finder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "client/jobs/job_name.h"

namespace stria {
namespace {

// A process with that environment and nothing else, until it is destroyed.
class Sleeper {
 public:
  explicit Sleeper(const char* variable) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      char* const arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>("echo; read nothing"), nullptr};
      char* const environment[] = {const_cast<char*>("PATH=/usr/bin:/bin"), const_cast<char*>(variable), nullptr};
      dup2(ready[1], 1);
      int never[2];
      if (pipe(never) != 0) _exit(1);
      dup2(never[0], 0);  // this process holds the other end, too: the read waits
      execve("/bin/sh", arguments, environment);
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1) << "it runs, with its own environment";
    close(ready[0]);
  }
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  pid_t pid_ = 0;
};

TEST(JobFinder, ByTheEnvironment) {
  const JobFinder finder;
  const Sleeper slurm("SLURM_JOB_ID=4711"), nobody("SLURM_JOB_ID=many");
  const JobFound found = finder.Find(slurm.pid());
  EXPECT_FALSE(found.gone);
  EXPECT_GT(found.start, 0u);
  // This test may be a job itself: what its cgroup says wins.
  std::ifstream cgroup("/proc/self/cgroup");
  const std::string around = JobOfCgroup(std::string(std::istreambuf_iterator<char>(cgroup), {}));
  EXPECT_EQ(found.job, around.empty() ? "slurm:4711" : around);
  EXPECT_NE(finder.Find(nobody.pid()).job, "slurm:many");
  EXPECT_EQ(finder.Find(slurm.pid()).start, found.start);
}

TEST(JobFinder, WhoIsGoneOrUnknown) {
  const JobFinder finder;
  uint32_t gone = 0;
  {
    const Sleeper sleeper("A=b");
    gone = sleeper.pid();
  }
  EXPECT_TRUE(finder.Find(gone).gone);
  EXPECT_EQ(finder.Find(gone).job, "other");
  EXPECT_EQ(finder.Find(0).job, "other");
  const JobFinder elsewhere("/nonexistent");
  EXPECT_EQ(elsewhere.Find(static_cast<uint32_t>(getpid())).job, "other");
}

TEST(ParseStartTicks, BehindAnyName) {
  const std::string rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 123456 20 21\n";
  EXPECT_EQ(ParseStartTicks("17 (cat)" + rest), 123456u);
  EXPECT_EQ(ParseStartTicks("17 (a) R 1 (b) S)" + rest), 123456u);
  EXPECT_FALSE(ParseStartTicks(""));
  EXPECT_FALSE(ParseStartTicks("17 (cat) S 1 2 3\n"));
  EXPECT_FALSE(ParseStartTicks("17 (cat) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20\n"));
}

class JobAd : public ::testing::Test {
 protected:
  JobAd() {
    std::string name = std::filesystem::temp_directory_path() / "stria-ad-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    dir_ = std::filesystem::canonical(name);
  }
  ~JobAd() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

TEST_F(JobAd, OfALocalDiskOnly) {
  const std::string path = dir_ / ".job.ad";
  std::ofstream(path) << "ClusterId = 12\nProcId = 0\n";
  struct stat is = {};
  ASSERT_EQ(stat(path.c_str(), &is), 0);
  const bool on_a_disk = is.st_dev >> 8 != 0;
  const std::string text = ReadJobAd(path, geteuid());
  // Kernels before 5.12 know no RESOLVE_CACHED.
  if (!on_a_disk || text.empty()) EXPECT_EQ(text, "");
  else EXPECT_EQ(text, "ClusterId = 12\nProcId = 0\n");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadJobAd(path, geteuid() + 1), "") << "that user could not read it";
}

TEST_F(JobAd, NoOtherFiles) {
  const std::string file = dir_ / "file", link = dir_ / "link", pipe = dir_ / "pipe";
  std::ofstream(file) << "ClusterId = 12\nProcId = 0\n";
  ASSERT_EQ(symlink(file.c_str(), link.c_str()), 0);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  for (const std::string& path : {link, pipe, std::string(dir_), std::string("/dev/zero"), std::string("/proc/self/environ"), file + "-not"}) {
    EXPECT_EQ(ReadJobAd(path, geteuid()), "") << path;
  }
}

}  // namespace
}  // namespace stria
