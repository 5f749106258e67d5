#include "tools/cli/dev/dev_metas.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "trust/files.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

Result<void> MakePrivate(const std::string& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  if (chmod(dir.c_str(), 0700) != 0) return ErrnoError(errno, "protect the directory " + dir);
  return {};
}

}  // namespace

std::vector<std::string> DevMetaNames(int metas) {
  if (metas == 1) return {"meta"};
  std::vector<std::string> names;
  for (int i = 1; i <= metas; ++i) names.push_back("meta" + std::to_string(i));
  return names;
}

std::string DevMetaSettings(const DevCluster& c, const DevProcess& p) {
  std::string etcd;
  for (const DevProcess& other : c.processes) {
    if (other.kind == DevProcess::Kind::kEtcd) etcd += (etcd.empty() ? "\"" : ", \"") + other.address + "\"";
  }
  return "# Made by 'stria dev' with each start of " + p.name + ".\n[ha]\nmember = \"" + p.name + "\"\naddress = \"" + p.address + "\"\netcd = [" + etcd + "]\n";
}

std::vector<std::string> MetaCommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary) {
  const std::vector<const DevProcess*> metas = c.Metas();
  std::vector<std::string> args = {binary, "--data", c.dir + "/" + p.name, "--listen", p.address, "--cluster-key", c.dir + "/cluster.key"};
  if (p.name == metas.front()->name) args.insert(args.end(), {"--format", "--layout", c.layout});
  if (metas.size() > 1) {
    args.insert(args.end(), {"--config", c.dir + "/" + p.name + ".toml"});
    if (p.name == metas.front()->name) args.push_back("--ha-init");
    else args.push_back("--join");
    if (p.name != metas.front()->name && !c.secured) args.insert(args.end(), {"--cluster", c.cluster});
  }
  if (!c.secured) args.push_back("--insecure");  // else it makes its own below --data
  else args.insert(args.end(), {"--trusted-root", "*"});  // all of it is one user's
  return args;
}

bool IsDevMetaMade(const DevCluster& c, const DevProcess& p) { return access((c.dir + "/" + p.name + "/superblock").c_str(), F_OK) == 0; }

Result<void> PrepareDevMeta(const DevCluster& c, const DevProcess& p) {
  const std::string data = c.dir + "/" + p.name, trust = data + "/trust";
  RETURN_IF_ERROR(MakePrivate(data));
  if (!c.secured) return {};
  RETURN_IF_ERROR(MakePrivate(trust));
  // It makes its own certificate with it.
  ASSIGN_OR_RETURN(const std::string authority, ReadSecretFile(c.MetaTrust() + kAuthorityFile));
  return ReplaceFile(trust + kAuthorityFile, authority, 0600);
}

}  // namespace stria::cli
