#include "client/fuse/moved_dirs.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "api/meta_api.h"
#include "client/fuse/mount_table.h"
#include "client/session/meta_session.h"
#include "common/io/unique_fd.h"

namespace stria {
namespace {

// From the root of the filesystem, "/a/b"; "" if it has no name.
Task<Result<std::string>> PathOf(MetaSession& session, InodeId ino) {
  InodeRequest r;
  r.ino = ino;
  auto reply = co_await session.Call(&MetaService::Paths, std::move(r), Caller());
  if (reply.code() == FsError::kNoEnt || reply.code() == FsError::kStale || reply.code() == FsError::kPerm) co_return std::string();
  if (!reply.ok()) co_return reply.error();
  co_return reply->paths.empty() ? std::string() : std::move(reply->paths.front());
}

// The mount's root. A copy of the mount that nobody else sees, so that whoever unmounts it meanwhile does not find it busy, and
// what is mounted below is not in the way. Only root can make one.
UniqueFd OpenRoot(const std::string& mountpoint) {
  const int copy = open_tree(AT_FDCWD, mountpoint.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT);
  if (copy >= 0) return UniqueFd(copy);
  return UniqueFd(open(mountpoint.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// One step, which the kernel asks us for. Opens nothing.
int Step(int dir, const std::string& name) {
  open_how how = {};
  how.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how));
}

}  // namespace

MovedDirs::MovedDirs(Where where, Walk walk, InUse in_use)
    : where_(std::move(where)), walk_(std::move(walk)), in_use_(std::move(in_use)), walks_(1, "moved-dirs") {}

MovedDirs::~MovedDirs() = default;

void MovedDirs::Changed(InodeId ino, Name former) {
  if (const auto queued = queued_.find(ino); queued != queued_.end()) {
    if (queued->second != former) queued->second = {};
    return;
  }
  if (queue_.size() >= kMaxQueued) return;
  queued_.emplace(ino, std::move(former));
  queue_.push_back({ino});
  if (!std::exchange(working_, true)) scope_.Spawn(Work());
}

Task<void> MovedDirs::Work() {
  while (!queue_.empty()) {
    Try t = queue_.front();
    queue_.pop_front();
    const Name former = queued_.extract(t.ino).mapped();
    if (t.tries > 0) co_await Sleep(std::min(kFirstPauseNs << (t.tries - 1), kLongestPauseNs));
    if (co_await Follow(t.ino, former) || ++t.tries == kTries) continue;
    if (queued_.emplace(t.ino, former).second) queue_.push_back(t);
  }
  working_ = false;
}

void MovedDirs::AllMayHaveMoved() {
  look_again_ = true;
  if (!std::exchange(looks_, true)) scope_.Spawn(LookAtAll());
}

Task<void> MovedDirs::LookAtAll() {
  while (std::exchange(look_again_, false)) {
    for (const InodeId ino : co_await RunOn(walks_, in_use_)) Changed(ino, {});
  }
  looks_ = false;
}

bool MovedDirs::MayLookAgain() {
  const int64_t now_ns = Executor::Current().NowNs();
  if (now_ns < again_from_ns_) return false;
  again_from_ns_ = now_ns + kAgainNs;
  return true;
}

Task<bool> MovedDirs::Follow(InodeId ino, const Name& former) {
  const Result<std::string> path = co_await where_(ino);
  if (!path.ok()) co_return false;
  if (path->empty() || *path == kRoot) co_return true;
  if (former.dir) {
    const Result<std::string> dir = co_await where_(former.dir);
    if (dir.ok() && !dir->empty() && (*dir == kRoot ? "" : *dir + "/") + former.name == *path && !MayLookAgain()) co_return true;
  }
  walking_ = ino;
  const bool done = co_await RunOn(walks_, [walk = walk_, thread = walker_, path = *path, ino] {
    *thread = gettid();
    return walk(path, ino);
  });
  walking_ = InodeId();
  co_return done;
}

std::vector<InodeId> DirsInUse(const std::string& mountpoint) {
  const std::optional<MountEntry> mount = FindMount(mountpoint);
  if (!mount || mount->type != kMountType) return {};
  std::set<InodeId> found;
  const auto look = [&](const std::filesystem::path& link) {
    struct statx at = {};  // asks nobody: what the kernel knows
    if (statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_INO, &at) != 0) return;
    if (!S_ISDIR(at.stx_mode) || at.stx_dev_major != mount->dev_major || at.stx_dev_minor != mount->dev_minor) return;
    found.insert(InodeId(at.stx_ino));
  };
  std::error_code gone;  // processes end, or are nobody's business
  for (std::filesystem::directory_iterator process("/proc", gone), end; !gone && process != end; process.increment(gone)) {
    if (!std::isdigit(static_cast<unsigned char>(process->path().filename().native().front()))) continue;
    look(process->path() / "cwd");
    look(process->path() / "root");
    std::error_code ended;
    for (std::filesystem::directory_iterator fd(process->path() / "fd", ended), last; !ended && fd != last; fd.increment(ended)) {
      look(fd->path());
    }
  }
  return {found.begin(), found.end()};
}

Task<Result<std::string>> PathBelowRoot(MetaSession& session, RootMap roots, InodeId ino) {
  if (ino == roots.root) co_return std::string(MovedDirs::kRoot);
  std::string root = "/";
  if (roots.root != kRootInode) {
    CO_ASSIGN_OR_RETURN(root, co_await PathOf(session, roots.root));
    if (root.empty()) co_return root;
    root += "/";
  }
  CO_ASSIGN_OR_RETURN(const std::string path, co_await PathOf(session, ino));
  if (!path.starts_with(root)) co_return std::string();
  co_return path.substr(root.size());
}

bool WalkTo(const std::string& mountpoint, const std::string& path, InodeId ino) {
  const std::optional<MountEntry> mount = FindMount(mountpoint);
  if (!mount || mount->type != kMountType) return true;
  UniqueFd at = OpenRoot(mountpoint);
  if (!at.ok()) return true;
  for (size_t from = 0; from < path.size();) {
    const size_t to = std::min(path.find('/', from), path.size());
    UniqueFd next(Step(at.get(), path.substr(from, to - from)));
    if (!next.ok()) return errno == EXDEV || errno == EACCES || errno == EPERM || errno == ENOSYS;
    at = std::move(next);
    from = to + 1;
  }
  struct statx there = {};
  return statx(at.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &there) == 0 && there.stx_ino == ino.v;
}

}  // namespace stria
