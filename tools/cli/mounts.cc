#include "tools/cli/mounts.h"

#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "api/types.h"

extern char** environ;

namespace stria::cli {
namespace {

// mountinfo writes space, tab, newline and backslash as \ooo.
std::string Unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool IsInside(const std::string& mount, const std::string& path) {
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

}  // namespace

std::vector<std::string> SplitAddresses(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (const auto part = text.substr(0, comma); !part.empty()) out.emplace_back(part);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return out;
}

std::vector<StriaMount> ParseMountInfo(std::string_view text) {
  std::vector<StriaMount> out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAG ..] - TYPE SOURCE SUPEROPTIONS
    std::istringstream words(line);
    std::string skip, mountpoint, word, type, source;
    words >> skip >> skip >> skip >> skip >> mountpoint;
    while (words >> word && word != "-") {
    }
    if (!(words >> type >> source) || type != "fuse.stria") continue;
    source = Unescape(source);
    if (source.starts_with("stria:")) source.erase(0, 6);
    source = source.substr(0, source.find(":/"));  // the directory that is mounted, if not the root
    for (char& c : source) c = c == '+' ? ',' : c;
    out.push_back({Unescape(mountpoint), SplitAddresses(source)});
  }
  return out;
}

std::vector<StriaMount> ReadMounts() {
  std::ifstream in("/proc/self/mountinfo");
  std::ostringstream text;
  text << in.rdbuf();
  return ParseMountInfo(text.str());
}

const StriaMount* MountOf(const std::vector<StriaMount>& mounts, const std::string& path) {
  const StriaMount* best = nullptr;
  for (const StriaMount& m : mounts) {
    if (IsInside(m.path, path) && (best == nullptr || m.path.size() >= best->path.size())) best = &m;
  }
  return best;
}

Result<std::string> AskMount(const std::string& path, const std::string& name) {
  std::string value(kMaxXattrValueBytes, '\0');
  const ssize_t n = getxattr(path.c_str(), name.c_str(), value.data(), value.size());
  if (n < 0 && (errno == ENODATA || errno == EOPNOTSUPP)) {
    return Error(FsError::kNoEnt, path + " is not in a mount of Stria");
  }
  if (n < 0) return ErrnoError(errno, "ask the mount about " + path);
  value.resize(static_cast<size_t>(n));
  return value;
}

Result<void> TellMount(const std::string& path, const std::string& name, const std::string& value) {
  if (setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) return {};
  if (errno == EOPNOTSUPP) return Error(FsError::kNoEnt, path + " is not in a mount of Stria");
  return ErrnoError(errno, "tell the mount about " + path);
}

Result<void> Unmount(const std::string& path, bool lazy) {
  if (umount2(path.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
  const int err = errno;
  if (err == EINVAL || err == ENOENT) return {};  // nothing mounted there
  if (err != EPERM) return ErrnoError(err, "unmount " + path);
  std::vector<const char*> argv = {"fusermount3", "-u", "-q"};
  if (lazy) argv.push_back("-z");
  argv.insert(argv.end(), {"--", path.c_str(), nullptr});
  pid_t pid = 0;
  if (const int e = posix_spawnp(&pid, argv[0], nullptr, nullptr, const_cast<char**>(argv.data()), environ);
      e != 0) {
    return ErrnoError(e, "run fusermount3 to unmount " + path);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(FsError::kBusy, "cannot unmount " + path + ": it is in use, or belongs to someone else");
}

}  // namespace stria::cli
