// stria key new FILE: a cluster's key.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "common/os_random.h"
#include "common/printable.h"
#include "common/token.h"
#include "tools/cli/context.h"
#include "tools/cli/key.h"

namespace stria::cli {
namespace {

constexpr mode_t kKeyMode = 0600, kKeyModeWithGroup = 0640;
constexpr char kServerGroup[] = "stria";  // as whose servers packages run

// Where root makes a key on a machine that has the servers' group, they may read it; false if they should and cannot.
bool LetServersRead(int fd) {
  if (geteuid() != 0) return true;
  const group* servers = getgrnam(kServerGroup);
  return servers == nullptr || (fchown(fd, static_cast<uid_t>(-1), servers->gr_gid) == 0 && fchmod(fd, kKeyModeWithGroup) == 0);
}

}  // namespace

Result<void> WriteNewKey(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kKeyMode);
  if (fd < 0 && errno == EEXIST) {
    return Error(FsError::kExist, path + " is there already: a cluster has one key, the same file on all its servers. To change it, see "
                                         "docs/operations.md");
  }
  if (fd < 0) return ErrnoError(errno, "make " + path);
  ClusterKey key;
  key.id = 1;
  OsRandomBytes(key.secret);
  const std::string text = FormatClusterKey(key) + "\n";
  const bool written = LetServersRead(fd) && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (written) return {};
  unlink(path.c_str());
  return ErrnoError(error, "write " + path);
}

namespace {

int RunNew(const Context& ctx, const std::string& path) {
  if (const auto done = WriteNewKey(path); !done.ok()) return ctx.Fail(done.error());
  if (ctx.json) {
    *ctx.out << Dump({{"file", path}});
  } else {
    *ctx.out << PrintableName(path) << " has a new key; copy it to every server of the cluster, and let only root (or the user that runs them) read it\n";
  }
  return kExitOk;
}

}  // namespace

void AddKeyVerbs(CLI::App& app, Context& ctx) {
  CLI::App* key = app.add_subcommand("key", "The key that a cluster's servers share");
  key->require_subcommand(1);
  auto path = std::make_shared<std::string>("/etc/stria/cluster.key");
  CLI::App* verb = key->add_subcommand("new", "Make one, in a file that is not there yet");
  verb->add_option("FILE", *path, "Where (default /etc/stria/cluster.key)");
  AddCommon(verb, ctx, "stria key new /etc/stria/cluster.key");
  verb->callback([&ctx, path] { ctx.run = [&ctx, path] { return RunNew(ctx, *path); }; });
}

}  // namespace stria::cli
