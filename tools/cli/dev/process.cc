#include "tools/cli/dev/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/exec/loop_executor.h"

namespace stria::cli {
namespace {

struct ProcStat {
  char state = 0;
  int threads = 0;  // that have not ended
  uint64_t start_time = 0;
};

// False if there is no such process.
bool ReadStat(pid_t pid, ProcStat* out) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  const size_t end = line.rfind(')');  // the program's name may hold anything
  if (end == std::string::npos) return false;
  std::istringstream words(line.substr(end + 1));
  words >> out->state;
  std::string skip;
  for (int field = 4; field < 20; ++field) words >> skip;
  return static_cast<bool>(words >> out->threads >> skip >> out->start_time);
}

// Between fork and exec: only calls that are safe after a fork of a process with threads.
[[noreturn]] void Exec(const std::vector<char*>& argv, int log_fd, int error_fd) {
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) signal(s, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0 && dup2(null, 0) >= 0 && dup2(log_fd, 1) >= 0 && dup2(log_fd, 2) >= 0 && chdir("/") == 0) {
    if (error_fd != 3) {
      dup2(error_fd, 3);
      error_fd = 3;
    }
    fcntl(3, F_SETFD, FD_CLOEXEC);
    close_range(4, ~0u, 0);
    execv(argv[0], argv.data());
  }
  const int err = errno;
  if (write(error_fd, &err, sizeof err) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Result<StartedProcess> StartDetached(const std::vector<std::string>& argv, const std::string& log) {
  const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return ErrnoError(errno, "open the log " + log);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    const int err = errno;
    close(log_fd);
    return ErrnoError(err, "make a pipe");
  }
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) Exec(args, log_fd, pipe_fds[1]);
  const int fork_err = errno;
  close(log_fd);
  close(pipe_fds[1]);
  int child_err = pid < 0 ? fork_err : 0;
  if (pid > 0 && read(pipe_fds[0], &child_err, sizeof child_err) != sizeof child_err) child_err = 0;
  close(pipe_fds[0]);
  if (child_err != 0) {
    if (pid > 0) waitpid(pid, nullptr, 0);
    return ErrnoError(child_err, "run " + argv[0]);
  }
  ProcStat stat;
  ReadStat(pid, &stat);
  return StartedProcess{pid, stat.start_time};
}

bool IsRunning(pid_t pid, uint64_t start_time) {
  if (pid <= 1) return false;
  waitpid(pid, nullptr, WNOHANG);
  ProcStat stat;
  if (!ReadStat(pid, &stat) || stat.start_time != start_time) return false;
  // The first thread may be dead while other threads finish reads or writes, and hold files and locks.
  return (stat.state != 'Z' && stat.state != 'X') || stat.threads > 1;
}

void SendSignal(pid_t pid, uint64_t start_time, int signal) {
  if (IsRunning(pid, start_time)) kill(pid, signal);
}

bool WaitGone(pid_t pid, uint64_t start_time, int64_t timeout_ns) {
  const int64_t end_ns = BoottimeNs() + timeout_ns;
  while (IsRunning(pid, start_time)) {
    if (BoottimeNs() > end_ns) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool StopProcess(pid_t pid, uint64_t start_time, int64_t patience_ns) {
  SendSignal(pid, start_time, SIGTERM);
  SendSignal(pid, start_time, SIGCONT);
  if (WaitGone(pid, start_time, patience_ns)) return true;
  SendSignal(pid, start_time, SIGKILL);
  return WaitGone(pid, start_time, 5 * kSecond);
}

Result<std::string> FindBinary(const std::string& name) {
  std::vector<std::string> places;
  if (const char* dir = std::getenv("STRIA_BIN_DIR"); dir != nullptr && *dir != 0) {
    places = {std::string(dir) + "/" + name};
  } else {
    char exe[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
    if (n > 0 && n < static_cast<ssize_t>(sizeof exe)) {
      std::string here(exe, static_cast<size_t>(n));
      here.erase(here.rfind('/'));
      for (const char* folder : {"/", "/../meta/", "/../server/", "/../client/fuse/", "/../lib/stria/"}) {
        places.push_back(here + folder + name);
      }
    }
    places.push_back("/usr/lib/stria/" + name);
  }
  for (const std::string& p : places) {
    if (access(p.c_str(), X_OK) == 0) return p;
  }
  return Error(FsError::kNoEnt, "there is no " + name + " in " +
                                    places.front().substr(0, places.front().rfind('/')) +
                                    " or where it is built: run ./tools/build, or set STRIA_BIN_DIR");
}

Result<int> RunProgram(const std::vector<std::string>& argv, bool quiet) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError(errno, "start " + argv[0]);
  if (pid == 0) {
    if (quiet) dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(args[0], args.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoError(errno, "wait for " + argv[0]);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

std::string ReadTail(const std::string& path, size_t bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const auto size = static_cast<size_t>(in.tellg());
  in.seekg(static_cast<std::streamoff>(size - std::min(size, bytes)));
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace stria::cli
