// Many processes on each of two mounts use a few files in every way there is to open one, through a real kernel. Without any
// fault no call takes long, whatever waits for what, none fails, and nobody reads a value that is older than one that any
// process has seen before. (In virtual time, with more clients and all orders: test/sim/crowd_test.)
// STRIA_FUSE_CROWD_SECONDS=60 goes on for longer.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "common/random.h"
#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

constexpr size_t kProcesses = 8;  // on each mount
constexpr size_t kFiles = 3;
constexpr int64_t kLongestNs = 5 * kSecond;
constexpr int kFailed = 1;

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

int64_t RunsNs() {
  const char* wanted = std::getenv("STRIA_FUSE_CROWD_SECONDS");
  return (wanted ? std::atoll(wanted) : 5) * kSecond;
}

// In memory of all processes.
struct Shared {
  struct File {
    pthread_mutex_t writing;         // values are written in their order
    uint64_t newest = 0;             // under `writing`
    std::atomic<uint64_t> seen = 0;  // the newest value that any process has read, or has written
  };
  File files[kFiles];
  std::atomic<uint64_t> calls = 0;
  std::atomic<bool> stop = false;  // something was wrong
  std::atomic<bool> told = false;
  char wrong[500] = {};
};

class SharedMemory {
 public:
  SharedMemory() {
    void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    shared_ = new (at) Shared;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    for (Shared::File& f : shared_->files) pthread_mutex_init(&f.writing, &attr);
    pthread_mutexattr_destroy(&attr);
  }
  ~SharedMemory() { munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }
  Shared& operator*() const { return *shared_; }

 private:
  Shared* shared_;
};

// One process of the crowd.
class Process {
 public:
  Process(Shared* shared, std::string path, std::string name, uint64_t seed)
      : shared_(*shared), path_(std::move(path)), name_(std::move(name)), rng_(seed) {}

  // `keeps`: its descriptors, for reading only, stay open.
  void Run(bool counts, bool keeps) {
    const int64_t end_ns = NowNs() + RunsNs();
    int kept[kFiles] = {};
    for (size_t f = 0; keeps && f < kFiles; ++f) kept[f] = Open(f, O_RDONLY);
    while (NowNs() < end_ns && !shared_.stop) {
      const size_t f = rng_.Below(kFiles);
      if (keeps) {
        Read(kept[f], f);
      } else {
        OpenAndUse(f, counts);
      }
      if (rng_.OneIn(4)) usleep(static_cast<useconds_t>(rng_.Below(2000)));
    }
    for (size_t f = 0; keeps && f < kFiles; ++f) Close(kept[f], f);
  }

 private:
  static constexpr int kWays[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY | O_DIRECT};

  [[noreturn]] void Fail(const std::string& what) {
    if (!shared_.told.exchange(true)) snprintf(shared_.wrong, sizeof shared_.wrong, "%s: %s", name_.c_str(), what.c_str());
    shared_.stop = true;
    _exit(kFailed);
  }
  template <class Call>
  ssize_t Timed(const char* what, size_t f, ssize_t least, Call call) {
    const int64_t from_ns = NowNs();
    const ssize_t done = call();
    const int error = errno;
    const int64_t took_ns = NowNs() - from_ns;
    ++shared_.calls;
    const std::string which = std::string(what) + " of file " + std::to_string(f);
    if (done < 0) Fail(which + ": " + strerror(error));
    if (done < least) Fail(which + ": " + std::to_string(done) + " bytes");
    if (took_ns > kLongestNs) Fail(which + " took " + std::to_string(took_ns / kMillisecond) + " ms");
    return done;
  }

  int Open(size_t f, int flags) {
    const std::string path = path_ + std::to_string(f);
    return static_cast<int>(Timed("open", f, 0, [&] { return open(path.c_str(), flags); }));
  }
  void Close(int fd, size_t f) {
    (void)Timed("close", f, 0, [&] { return close(fd); });
  }
  void Read(int fd, size_t f) {
    const uint64_t before = shared_.files[f].seen;
    uint64_t value = 0;
    (void)Timed("read", f, sizeof value, [&] { return pread(fd, &value, sizeof value, 0); });
    if (value < before) Fail("read of file " + std::to_string(f) + " has seen " + std::to_string(value) + " after " + std::to_string(before));
    Seen(f, value);
  }
  void Write(int fd, size_t f, uint64_t value) {
    (void)Timed("write", f, sizeof value, [&] { return pwrite(fd, &value, sizeof value, 0); });
    Seen(f, value);
  }
  void Seen(size_t f, uint64_t value) {
    uint64_t was = shared_.files[f].seen;
    while (was < value && !shared_.files[f].seen.compare_exchange_weak(was, value)) {
    }
  }
  void OpenAndUse(size_t f, bool counts) {
    const int flags = kWays[rng_.Below(std::size(kWays))];
    const int fd = Open(f, flags);
    if ((flags & O_ACCMODE) == O_RDONLY) {
      Read(fd, f);
    } else if (!counts) {
      Write(fd, f, 0);
    } else if (pthread_mutex_trylock(&shared_.files[f].writing) == 0) {
      Write(fd, f, ++shared_.files[f].newest);
      pthread_mutex_unlock(&shared_.files[f].writing);
    } else if (flags == O_RDWR) {
      Read(fd, f);
    }
    Close(fd, f);
  }

  Shared& shared_;
  const std::string path_, name_;
  Random rng_;
};

class Crowd : public TwoMounts {
 protected:
  // "" or what was wrong. Of a process without threads.
  std::string Run(bool counts) {
    SharedMemory shared;
    const pid_t parent = getpid();
    std::vector<pid_t> processes;
    for (size_t i = 0; i < 2 * kProcesses; ++i) {
      const pid_t child = fork();
      if (child < 0) return strerror(errno);
      if (child != 0) {
        processes.push_back(child);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(kFailed);
      const bool on_a = i % 2 == 0;
      const std::string name = std::string(on_a ? "mount a" : "mount b") + ", process " + std::to_string(i / 2);
      Process one(&*shared, on_a ? A("f") : B("f"), name, i + 1);
      one.Run(counts, /*keeps=*/counts && i < 2);
      _exit(0);
    }
    std::string wrong;
    for (const pid_t p : processes) {
      int status = 0;
      if (waitpid(p, &status, 0) != p || (status != 0 && !shared->told)) wrong = "a process has died";
    }
    if (shared->told) wrong = shared->wrong;
    printf("%llu calls\n", static_cast<unsigned long long>(shared->calls));
    if (wrong.empty() && shared->calls < 1000) wrong = "they did next to nothing";
    return wrong;
  }
  void MakeFiles() {
    for (size_t f = 0; f < kFiles; ++f) WriteAll(A("f" + std::to_string(f)), std::string(8, '\0'));
  }
};

TEST_F(Crowd, NobodyWaitsForLong) {
  MakeFiles();
  InOtherProcess({a_, b_}, [&] { EXPECT_EQ(Run(/*counts=*/false), ""); });
}

// Also by a descriptor that is open for reading only and since before, whose pages the kernel keeps.
TEST_F(Crowd, NobodySeesAnOlderValueAfterANewerOne) {
  MakeFiles();
  InOtherProcess({a_, b_}, [&] { EXPECT_EQ(Run(/*counts=*/true), ""); });
}

}  // namespace
}  // namespace stria
