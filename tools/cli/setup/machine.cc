#include "tools/cli/setup/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "common/io/unique_fd.h"
#include "common/printable.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxOutputBytes = 64 << 10;
constexpr char kLostAndFound[] = "lost+found";
constexpr char kPath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool IsEmptyDir(const std::string& path) {
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return false;
  bool empty = true;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    empty = empty && (name == "." || name == ".." || name == kLostAndFound);
  }
  closedir(dir);
  return empty;
}

class RealMachine final : public Machine {
 public:
  bool IsRoot() override { return geteuid() == 0; }
  std::string HostName() override {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return host;
  }
  bool HasServerUser() override { return getpwnam(kServerUser) != nullptr; }

  Result<std::string> ReadFile(const std::string& path) override {
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0) return ErrnoError(errno, "open " + path);
    std::string out;
    char piece[4096];
    while (out.size() <= kMaxFileBytes) {
      const ssize_t n = read(fd.get(), piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "read " + path);
      if (n == 0) return out;
      out.append(piece, static_cast<size_t>(n));
    }
    return Error(FsError::kFBig, path + " is larger than 1 MiB");
  }

  Result<void> WriteFile(const std::string& named, const std::string& content) override {
    const Result<std::string> whole = WholePath(named);  // what a symbolic link stands for is replaced, not the link
    const std::string path = whole.ok() ? *whole : named;
    struct stat was = {};
    const bool is_there = stat(path.c_str(), &was) == 0;
    std::error_code ec;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
    std::string name = path + ".XXXXXX";
    const UniqueFd fd(mkostemp(name.data(), O_CLOEXEC));
    if (fd.get() < 0) return ErrnoError(errno, "make a file beside " + path);
    const Result<void> done = Fill(fd.get(), content, is_there ? &was : nullptr, path);
    // Else a power failure soon afterwards brings the former settings back.
    if (done.ok() && rename(name.c_str(), path.c_str()) == 0) return Sync(std::filesystem::path(path).parent_path());
    const int err = errno;
    (void)unlink(name.c_str());
    return done.ok() ? ErrnoError(err, "replace " + path) : done.error();
  }

  Result<PathFacts> Look(const std::string& path) override {
    struct stat st, root;
    if (stat(path.c_str(), &st) != 0) return ErrnoError(errno, "look at " + path);
    if (stat("/", &root) != 0) return ErrnoError(errno, "look at /");
    PathFacts facts;
    facts.is_dir = S_ISDIR(st.st_mode);
    facts.on_root = st.st_dev == root.st_dev;
    facts.empty = facts.is_dir && IsEmptyDir(path);
    facts.device = st.st_dev;
    const passwd* server = getpwnam(kServerUser);
    facts.of_server = server != nullptr && st.st_uid == server->pw_uid;
    return facts;
  }

  Result<std::string> WholePath(const std::string& path) override {
    char whole[PATH_MAX];
    if (realpath(path.c_str(), whole) == nullptr) return ErrnoError(errno, "look at " + path);
    return std::string(whole);
  }

  Result<void> MakeServerDir(const std::string& path) override {
    struct stat st;
    if (stat(path.c_str(), &st) == 0) return Ok();
    std::error_code ec;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
    if (ec) return ErrnoError(ec.value(), "make the directory of " + path);
    if (mkdir(path.c_str(), 0700) != 0) return ErrnoError(errno, "make the directory " + path);
    return GiveToServer(path);
  }

  Result<void> GiveToServer(const std::string& path) override {
    const passwd* server = getpwnam(kServerUser);
    if (server == nullptr) return Error(FsError::kNoEnt, "there is no user " + std::string(kServerUser));
    if (lchown(path.c_str(), server->pw_uid, server->pw_gid) != 0) return ErrnoError(errno, "give " + path + " to the user " + kServerUser);
    return Sync(path);
  }

  bool HasSystemd() override { return access("/run/systemd/system", F_OK) == 0; }

  Result<Ran> Run(const std::vector<std::string>& argv) override {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoError(errno, "make a pipe");
    const UniqueFd from(pipe_fds[0]);
    UniqueFd to(pipe_fds[1]);
    std::vector<char*> args;
    for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0) return ErrnoError(errno, "start " + argv[0]);
    if (pid == 0) {
      const int null = open("/dev/null", O_RDONLY);
      signal(SIGPIPE, SIG_DFL);
      // Of root's programs some are where a shell of `su` does not look.
      (void)setenv("PATH", kPath, 1);
      if (null >= 0 && dup2(null, 0) >= 0 && dup2(to.get(), 1) >= 0 && dup2(to.get(), 2) >= 0) execvp(args[0], args.data());
      _exit(127);
    }
    to = UniqueFd();
    Ran ran;
    char piece[4096];
    while (true) {
      const ssize_t n = read(from.get(), piece, sizeof piece);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      if (ran.output.size() < kMaxOutputBytes) ran.output.append(piece, static_cast<size_t>(n));
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) return ErrnoError(errno, "wait for " + argv[0]);
    }
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    if (ran.status == 127 && ran.output.empty()) return Error(FsError::kNoEnt, "the program " + argv[0] + " is not there, or cannot be run");
    return ran;
  }

  void Sleep(int64_t ns) override { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

 private:
  static Result<void> Sync(const std::string& path) {
    const UniqueFd fd(open(path.empty() ? "." : path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd.get() < 0 || fsync(fd.get()) != 0) return ErrnoError(errno, "sync " + path);
    return Ok();
  }

  static Result<void> Fill(int fd, const std::string& content, const struct stat* was, const std::string& path) {
    for (size_t at = 0; at < content.size();) {
      const ssize_t n = write(fd, content.data() + at, content.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError(errno, "write " + path);
      at += static_cast<size_t>(n);
    }
    if (was != nullptr && fchown(fd, was->st_uid, was->st_gid) != 0) return ErrnoError(errno, "keep the owner of " + path);
    if (fchmod(fd, was != nullptr ? was->st_mode & 07777 : 0644) != 0) return ErrnoError(errno, "keep the mode of " + path);
    if (fsync(fd) != 0) return ErrnoError(errno, "write " + path);
    return Ok();
  }
};

}  // namespace

std::unique_ptr<Machine> ThisMachine() { return std::make_unique<RealMachine>(); }

Result<void> CheckCanSetUp(Machine* machine, const std::string& package) {
  if (!machine->IsRoot()) return Error(FsError::kPerm, "only root can set up this machine: give the same command with sudo");
  if (!machine->HasServerUser()) {
    return Error(FsError::kNoEnt, "there is no user " + std::string(kServerUser) + " on this machine: install the package " + package + " first");
  }
  return Ok();
}

Result<void> StartService(Machine* machine, const std::string& service, IfRunning running) {
  std::vector<std::string> begin = {"systemctl", "start", "--no-block", service};
  if (running == IfRunning::kReload) begin = {"systemctl", "reload-or-restart", service};
  if (running == IfRunning::kRestart) begin = {"systemctl", "restart", service};
  for (const std::vector<std::string>& argv : {std::vector<std::string>{"systemctl", "enable", "--quiet", service}, begin}) {
    ASSIGN_OR_RETURN(const Ran ran, machine->Run(argv));
    if (ran.status == 0) continue;
    const std::string said = ran.output.substr(0, ran.output.find('\n'));
    return Error(FsError::kIo, "systemctl " + argv[1] + " " + service + " failed" + (said.empty() ? "" : ": " + Printable(said)) +
                                   "; systemctl status " + service + " tells more");
  }
  return Ok();
}

AsOwnerOf::AsOwnerOf(const std::string& path) {
  struct stat st;
  if (geteuid() != 0 || stat(path.c_str(), &st) != 0 || st.st_uid == 0) return;
  if (setegid(st.st_gid) != 0) return;
  changed_ = seteuid(st.st_uid) == 0;
  if (!changed_) (void)!setegid(getgid());
}

AsOwnerOf::~AsOwnerOf() {
  if (!changed_) return;
  // It was root's and can be again; going on as another would be wrong.
  if (seteuid(0) != 0 || setegid(getgid()) != 0) std::abort();
}

}  // namespace stria::cli
