// Files and directories of a cluster, as verbs name them, and how they are asked about: the metadata server with the credentials of
// the command, or the mount that holds them, as whoever runs the command.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "locality/where.h"
#include "tools/cli/context.h"

namespace stria::cli {

// The answers are the same both ways.
class AskedFile {
 public:
  explicit AskedFile(Attr attr) : attr_(std::move(attr)) {}
  AskedFile(const AskedFile&) = delete;
  AskedFile& operator=(const AskedFile&) = delete;
  virtual ~AskedFile() = default;

  const Attr& attr() const { return attr_; }  // number, type and size, at least
  // The nodes, InOrder(); by way of a mount nothing else of the cluster. Asked for once.
  Result<ClusterMap> Map();
  void Know(ClusterMap map) { map_ = std::move(map); }
  // WhereRows of a range of a file, which is not beyond its end.
  virtual Result<std::vector<WhereRow>> Where(uint64_t offset, uint64_t length) = 0;
  virtual Result<LayoutReply> GetLayout() = 0;
  virtual Result<LayoutReply> SetLayout(const Layout& layout) = 0;

 private:
  virtual Result<ClusterMap> AskMap() = 0;

  const Attr attr_;
  std::optional<ClusterMap> map_;
};

// Names of an inode, as the mount in which the command runs tells them to whoever runs it. REQUIRES: it runs in one.
struct AskedPaths {
  std::vector<std::string> paths;
  uint64_t hidden = 0;  // names that he may not see
  bool more = false;    // there are more than these
};
Result<AskedPaths> AskMountForPaths(const Context& ctx, uint64_t ino);

// What a PATH of the command line means. A file of a mount is asked by its inode number, or through that mount if its user has nothing
// else (Context::HasOnlyTheMount). Other paths are taken from the root of the cluster's filesystem, if one was named.
Result<std::unique_ptr<AskedFile>> Resolve(const Context& ctx, const std::string& path);

}  // namespace stria::cli
