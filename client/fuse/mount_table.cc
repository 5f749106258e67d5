#include "client/fuse/mount_table.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "client/fuse/mount_state.h"
#include "common/units.h"

namespace stria {
namespace {

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '3') {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::vector<std::string_view> Split(std::string_view line, char by) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const size_t end = line.find(by);
    if (end != 0) out.push_back(line.substr(0, end));
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return out;
}

std::string ReadMountinfo() {
  std::ifstream in("/proc/self/mountinfo");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The last of these at the mountpoint.
template <class IsIt>
std::optional<MountEntry> LastMount(std::string_view mountinfo, std::string_view mountpoint, const IsIt& is_it) {
  // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue; later lines lie on top of earlier ones.
  std::optional<MountEntry> found;
  for (std::string_view line : Split(mountinfo, '\n')) {
    const std::vector<std::string_view> words = Split(line, ' ');
    if (words.size() < 6 || Unescape(words[4]) != mountpoint) continue;
    size_t dash = 5;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 2 >= words.size()) continue;
    MountEntry e;
    if (std::sscanf(std::string(words[2]).c_str(), "%u:%u", &e.dev_major, &e.dev_minor) != 2) continue;
    e.type = Unescape(words[dash + 1]);
    e.source = Unescape(words[dash + 2]);
    for (const size_t options : {size_t{5}, dash + 3}) {
      for (std::string_view option : Split(options < words.size() ? words[options] : "", ',')) e.options.emplace_back(option);
    }
    if (is_it(e)) found = e;
  }
  return found;
}

bool WriteFile(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

// Dead mounts on top of each other that are cleared away.
constexpr int kMaxDeadMounts = 16;

// A mount with a stopped program does not answer; a mount without servers does, from its caches.
constexpr auto kAnswerTime = std::chrono::seconds(10);

struct Answer {
  int err = 0;
  bool is_directory = false;
};

// Asks the file system itself: for a while the kernel would answer for a dead one. On a thread of its own, which
// stays behind as long as there is no answer.
std::future<Answer> Ask(const std::string& path) {
  std::packaged_task<Answer()> question([path] {
    struct statx st = {};
    Answer a;
    if (statx(AT_FDCWD, path.c_str(), AT_STATX_FORCE_SYNC, STATX_TYPE, &st) != 0) a.err = errno;
    a.is_directory = a.err == 0 && S_ISDIR(st.stx_mode);
    return a;
  });
  std::future<Answer> answer = question.get_future();
  std::thread(std::move(question)).detach();
  return answer;
}

// For users who may not call umount(2).
bool RunFusermount(const std::string& mountpoint, bool lazily) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    execlp("fusermount3", "fusermount3", lazily ? "-uqz" : "-uq", "--", mountpoint.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

bool MountEntry::Has(std::string_view option) const { return std::find(options.begin(), options.end(), option) != options.end(); }

MountFlags MountFlags::Of(const MountEntry& mount) { return {mount.Has("sync"), mount.Has("noatime"), mount.Has("ro")}; }

std::string MountFlags::ToString() const {
  return std::string(sync ? "sync" : "") + (sync && noatime ? "," : "") + (noatime ? "noatime" : "");
}

std::optional<MountEntry> FindMount(std::string_view mountinfo, std::string_view mountpoint) {
  return LastMount(mountinfo, mountpoint, [](const MountEntry&) { return true; });
}

std::optional<MountEntry> FindMount(const std::string& mountpoint) {
  return FindMount(std::string_view(ReadMountinfo()), mountpoint);
}

std::optional<MountEntry> FindSameMount(std::string_view mountinfo, const MountEntry& mount, std::string_view mountpoint) {
  return LastMount(mountinfo, mountpoint,
                   [&mount](const MountEntry& e) { return e.dev_major == mount.dev_major && e.dev_minor == mount.dev_minor; });
}

std::optional<MountEntry> FindSameMount(const MountEntry& mount, const std::string& mountpoint) {
  return FindSameMount(std::string_view(ReadMountinfo()), mount, mountpoint);
}

bool IsMountedAnywhere(const MountEntry& mount) {
  std::ifstream in("/proc/self/mountinfo");
  const std::string device = std::to_string(mount.dev_major) + ":" + std::to_string(mount.dev_minor);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string_view> words = Split(line, ' ');
    if (words.size() > 2 && words[2] == device) return true;
  }
  return false;
}

Result<std::string> MountpointPath(const std::string& path) {
  std::error_code ec;
  // The last component may be a dead mount, which cannot be resolved itself.
  std::filesystem::path given = std::filesystem::absolute(path, ec).lexically_normal();
  if (ec) return Error(FsError::kInval, "no such path: " + path);
  if (!given.has_filename()) given = given.parent_path();
  const std::filesystem::path parent = std::filesystem::canonical(given.parent_path(), ec);
  if (ec) return Error(FsError::kNoEnt, "no directory " + path + ": " + ec.message());
  return (parent / given.filename()).string();
}

Result<std::string> PrepareMountpoint(const std::string& path, std::optional<Uuid>* former) {
  ASSIGN_OR_RETURN(const std::string full, MountpointPath(path));
  Answer answer;
  for (int i = 0; i < kMaxDeadMounts; ++i) {
    std::future<Answer> asked = Ask(full);
    const bool silent = asked.wait_for(kAnswerTime) != std::future_status::ready;
    if (!silent) answer = asked.get();
    if (!silent && answer.err != ENOTCONN) break;
    const std::optional<MountEntry> there = FindMount(full);
    const std::optional<MountWatch> program = there ? MountWatch::Find(*there) : std::nullopt;
    // One that only waits for its servers has bytes to write yet.
    if (silent && (!program || (program->ProgramRuns() && !program->ProgramStopped()))) {
      return Error(FsError::kBusy, "cannot mount on " + path + ": the filesystem mounted there does not answer");
    }
    if (former && program && !program->ProgramRuns()) *former = program->state().client;
    RETURN_IF_ERROR(Unmount(full, true));  // answers the question too
    if (silent) (void)asked.wait_for(kAnswerTime);
  }
  if (answer.err != 0) return ErrnoError(answer.err, "mount on " + path);
  if (!answer.is_directory) return Error(FsError::kNotDir, "cannot mount on " + path + ": it is not a directory");
  char resolved[PATH_MAX];
  if (!realpath(full.c_str(), resolved)) return ErrnoError(errno, "mount on " + path);
  return std::string(resolved);
}

Result<void> Unmount(const std::string& mountpoint, bool lazily) {
  if (geteuid() == 0) {
    // MNT_FORCE aborts the connection, so that no program waits for answers that will not come.
    const int flags = UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH | MNT_FORCE : 0);
    if (umount2(mountpoint.c_str(), flags) == 0) return Ok();
    return ErrnoError(errno, "unmount " + mountpoint);
  }
  if (RunFusermount(mountpoint, lazily)) return Ok();
  return Error(FsError::kBusy, "cannot unmount " + mountpoint + " with fusermount3");
}

bool SetReadAhead(const MountEntry& mount, uint64_t bytes) {
  return WriteFile("/sys/class/bdi/" + std::to_string(mount.dev_major) + ":" + std::to_string(mount.dev_minor) +
                       "/read_ahead_kb",
                   std::to_string(bytes / kKiB));
}

}  // namespace stria
