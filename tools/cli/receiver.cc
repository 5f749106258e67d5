#include "tools/cli/receiver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/io/unique_fd.h"

extern char** environ;

namespace stria::cli {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr size_t kMaxStateBytes = 4096;

Error Failed(const std::string& what, int number) { return Error(FsError::kIo, what + ": " + std::strerror(number)); }

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<void> RunReceiver(const std::vector<std::string>& argv, const std::vector<std::pair<std::string, std::string>>& more,
                         const std::string& input, int64_t timeout_ns) {
  if (input.size() > kMaxReceiverInput) return Error(FsError::kTooBig, "too much for a receiver");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Failed("a pipe", errno);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  if (::write(write_end.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) return Failed("a pipe", errno);
  write_end = UniqueFd();
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) {
    if (std::strncmp(*e, "STRIA_EVENT_", 12) != 0) environment.emplace_back(*e);
  }
  for (const auto& [name, value] : more) environment.push_back(name + "=" + value);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, read_end.get(), STDIN_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, usual;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigemptyset(&usual);
  for (const int s : {SIGTERM, SIGINT, SIGPIPE}) sigaddset(&usual, s);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv.at(0).c_str(), &files, &attributes, Pointers(argv).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return Failed(argv[0] + " cannot be run", error);
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(timeout_ns);
  int status = 0;
  bool late = false;
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, late ? 0 : WNOHANG);
    if (ended == pid) break;
    if (ended < 0 && errno != EINTR) return Failed(argv[0], errno);
    if (ended == 0 && std::chrono::steady_clock::now() >= until) {
      late = true;
      ::kill(-pid, SIGKILL);
    } else if (ended == 0) {
      std::this_thread::sleep_for(kPoll);
    }
  }
  if (late) return Error(FsError::kTimedOut, argv[0] + " did not end within " + std::to_string(timeout_ns / 1'000'000'000) + " s, and was killed");
  if (WIFSIGNALED(status)) return Error(FsError::kIo, argv[0] + " was ended by signal " + std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return Error(FsError::kIo, argv[0] + " has failed with exit status " + std::to_string(WEXITSTATUS(status)));
  return Ok();
}

std::string FirstProgram(const std::vector<std::string>& paths) {
  for (const std::string& p : paths) {
    if (::access(p.c_str(), X_OK) == 0) return p;
  }
  return "";
}

Result<std::string> ReadStateFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0 && errno == ENOENT) return std::string();
  std::string content(kMaxStateBytes, '\0');
  const ssize_t n = fd.get() < 0 ? -1 : ::read(fd.get(), content.data(), content.size());
  if (n < 0) return Failed(path, errno);
  content.resize(static_cast<size_t>(n));
  return content;
}

Result<void> WriteStateFile(const std::string& path, const std::string& content) {
  const std::string next = path + ".new";
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const auto open_next = [&next] { return ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); };
  UniqueFd fd(open_next());
  if (fd.get() < 0 && errno == ENOENT && ::mkdir(directory.c_str(), 0700) == 0) fd = UniqueFd(open_next());
  if (fd.get() < 0) return Failed(next, errno);
  if (::write(fd.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size()) || ::fsync(fd.get()) != 0) {
    return Failed(next, errno);
  }
  if (::rename(next.c_str(), path.c_str()) != 0) return Failed(path, errno);
  UniqueFd dir(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() < 0 || ::fsync(dir.get()) != 0) return Failed(directory, errno);
  return Ok();
}

}  // namespace stria::cli
