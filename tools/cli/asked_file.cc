#include "tools/cli/asked_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "locality/place.h"
#include "locality/told.h"
#include "stripe/layout_spec.h"
#include "tools/cli/render.h"

namespace stria::cli {
namespace {

constexpr char kLayoutAttribute[] = "user.stria.layout";

// ---- By the metadata server -----------------------------------------------------------------------

Result<NodeReply> LookUp(ClusterClient& client, InodeId parent, const std::string& name) {
  return client.Call<NodeReply>("lookup", [parent, name](MetaService& meta, OpHeader header) {
    NameRequest r;
    r.header = std::move(header);
    r.parent = parent;
    r.name = name;
    return meta.Lookup(std::move(r));
  });
}

Result<Attr> GetAttr(ClusterClient& client, InodeId ino) {
  auto reply = client.Call<NodeReply>("attributes", [ino](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    r.ino = ino;
    return meta.GetAttr(std::move(r));
  });
  if (!reply.ok()) return reply.error();
  return reply->attr;
}

// A path from the root of the filesystem, component by component; symlinks are not followed.
Result<Attr> Walk(ClusterClient& client, const std::string& path) {
  ASSIGN_OR_RETURN(Attr attr, GetAttr(client, kRootInode));
  for (size_t at = 0; at < path.size();) {
    const size_t slash = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, slash - at);
    at = slash + 1;
    if (name.empty() || name == ".") continue;
    const auto next = LookUp(client, attr.ino, name);
    if (next.code() == FsError::kNoEnt) {
      return Error(
          FsError::kNoEnt,
          path + " is neither in a mount of Stria here nor a path from the root of " + client.AddressList());
    }
    if (!next.ok()) return next.error();
    attr = next->attr;
  }
  return attr;
}

class ByServer final : public AskedFile {
 public:
  ByServer(std::unique_ptr<ClusterClient> client, Attr attr) : AskedFile(std::move(attr)), client_(std::move(client)) {}

  Result<std::vector<WhereRow>> Where(uint64_t offset, uint64_t length) override {
    ASSIGN_OR_RETURN(const ClusterMap map, Map());
    std::vector<Extent> extents;
    std::vector<StripeGrant> stripes;
    const uint64_t end = offset + length;
    for (uint64_t at = offset; at < end;) {
      auto reply = client_->Call<GetExtentsReply>("extents", [ino = attr().ino, at, end](MetaService& meta, OpHeader header) {
        GetExtentsRequest r;
        r.header = std::move(header);
        r.ino = ino;
        r.offset = at;
        r.length = end - at;
        return meta.GetExtents(std::move(r));
      });
      if (!reply.ok()) return reply.error();
      if (reply->covered_to <= at)
        return Error(FsError::kBadRequest, "stria-meta sent nothing of the range that was asked for");
      for (Extent& e : reply->extents) {
        if (extents.empty() || e.file_offset >= extents.back().end()) extents.push_back(std::move(e));
      }
      for (StripeGrant& g : reply->stripes) stripes.push_back(std::move(g));
      at = reply->covered_to;
    }
    return WhereRows(extents, stripes, map, offset, length);
  }
  Result<LayoutReply> GetLayout() override { return Layouts(std::nullopt); }
  Result<LayoutReply> SetLayout(const Layout& layout) override { return Layouts(layout); }

 private:
  Result<ClusterMap> AskMap() override {
    ASSIGN_OR_RETURN(StatusReply status, GetStatus(*client_));
    return std::move(status.map);
  }
  Result<LayoutReply> Layouts(std::optional<Layout> layout) {
    return client_->Call<LayoutReply>("layout", [ino = attr().ino, layout](MetaService& meta, OpHeader header) {
      LayoutRequest r;
      r.header = std::move(header);
      r.ino = ino;
      r.layout = layout;
      return layout ? meta.SetLayout(std::move(r)) : meta.GetLayout(std::move(r));
    });
  }

  const std::unique_ptr<ClusterClient> client_;
};

// ---- By the mount ---------------------------------------------------------------------------------

class ByMount final : public AskedFile {
 public:
  // `path`: without symlinks.
  ByMount(const Context& ctx, std::string path, Attr attr) : AskedFile(std::move(attr)), ctx_(ctx), path_(std::move(path)) {}

  Result<std::vector<WhereRow>> Where(uint64_t offset, uint64_t length) override {
    std::vector<WhereRow> rows;
    const uint64_t end = offset + length;
    for (uint64_t at = offset; at < end;) {
      ASSIGN_OR_RETURN(const std::string text, Ask(RowsName({at, offset, length})));
      ASSIGN_OR_RETURN(RowsPage page, ParseRows(text));
      if (page.covered_to <= at) return Error(FsError::kBusy, path_ + " became shorter while it was looked at: ask again");
      for (WhereRow& row : page.rows) rows.push_back(std::move(row));
      at = page.covered_to;
    }
    return JoinRows(std::move(rows));
  }
  Result<LayoutReply> GetLayout() override {
    ASSIGN_OR_RETURN(const std::string text, Ask(std::string(kToldLayout)));
    ASSIGN_OR_RETURN(const ToldLayout told, ParseToldLayout(text));
    ASSIGN_OR_RETURN(const Layout layout, ParseLayout(told.spec));
    return LayoutReply{layout, told.inherited};
  }
  Result<LayoutReply> SetLayout(const Layout& layout) override {
    std::string text = LayoutToString(layout);
    if (layout.place == Place::kNode) {
      ASSIGN_OR_RETURN(const ClusterMap map, Map());
      text = NodeNameForNumber(text, map);  // that is what the attribute has
    }
    const Result<void> set = ctx_.tell_mount(path_, kLayoutAttribute, text);
    if (set.code() == FsError::kPerm) return Error(FsError::kPerm, "only its owner or root sets the layout of " + path_);
    if (set.code() == FsError::kAccess) return Error(FsError::kAccess, "you may not write " + path_ + ", so you may not set its layout");
    if (set.code() == FsError::kInval) {
      return Error(FsError::kInval, "the cluster does not take the layout " + text + " for " + path_ + ": it has too few nodes or disks for that");
    }
    RETURN_IF_ERROR(set);
    return GetLayout();
  }

  Result<std::string> Ask(const std::string& name) const {
    Result<std::string> value = ctx_.ask_mount(path_, name);
    if (value.code() == FsError::kAccess) return Error(FsError::kAccess, "you may not read " + path_);
    if (value.code() == FsError::kNoEnt) {
      return Error(FsError::kNotSupported, "the mount that holds " + path_ +
                                               " does not tell this command about it: it is of an older version; mount it again, or use credentials (--trust)");
    }
    return value;
  }

 private:
  Result<ClusterMap> AskMap() override {
    ClusterMap map;
    while (true) {
      ASSIGN_OR_RETURN(const std::string text, Ask(NodesName(map.nodes.size())));
      ASSIGN_OR_RETURN(NodesPage page, ParseNodes(text));
      if (page.nodes.empty()) return InOrder(std::move(map));
      for (NodeInfo& n : page.nodes) map.nodes.push_back(std::move(n));
      if (map.nodes.size() >= page.total) return InOrder(std::move(map));
    }
  }

  const Context& ctx_;
  const std::string path_;
};

FileType TypeOf(const struct stat& st) {
  switch (st.st_mode & S_IFMT) {
    case S_IFREG: return FileType::kFile;
    case S_IFDIR: return FileType::kDirectory;
    case S_IFLNK: return FileType::kSymlink;
    case S_IFIFO: return FileType::kFifo;
    case S_IFSOCK: return FileType::kSocket;
    case S_IFCHR: return FileType::kCharDevice;
    default: return FileType::kBlockDevice;
  }
}

Result<std::unique_ptr<AskedFile>> AskMountAbout(const Context& ctx, const std::string& path, const struct stat& st) {
  Attr attr;
  attr.ino = InodeId(st.st_ino);
  attr.type = TypeOf(st);
  attr.size = static_cast<uint64_t>(st.st_size);
  if (attr.type != FileType::kFile && attr.type != FileType::kDirectory) {
    return Error(FsError::kNoEnt, path + " is neither a regular file nor a directory");
  }
  if (attr.type == FileType::kFile) {
    // The kernel may know a size of some time ago.
    const ByMount file(ctx, path, attr);
    ASSIGN_OR_RETURN(const std::string text, file.Ask(RowsName({0, 0, 0})));
    ASSIGN_OR_RETURN(const RowsPage page, ParseRows(text));
    attr.size = page.size;
  }
  return std::unique_ptr<AskedFile>(std::make_unique<ByMount>(ctx, path, std::move(attr)));
}

}  // namespace

Result<ClusterMap> AskedFile::Map() {
  if (!map_) {
    ASSIGN_OR_RETURN(map_, AskMap());
  }
  return *map_;
}

// At the directory that the command runs in; if that cannot be read, at the mount's own.
Result<AskedPaths> AskMountForPaths(const Context& ctx, uint64_t ino) {
  const StriaMount* const mount = MountOf(ctx.mounts, ctx.cwd);
  CHECK(mount != nullptr);
  std::string at = ctx.cwd, list;
  while (true) {
    const std::string name = PathsName({ino, list.size()});
    const Result<std::string> text = ByMount(ctx, at, Attr()).Ask(name);
    if (text.code() == FsError::kAccess && at != mount->path) {
      at = mount->path;
      continue;
    }
    if (text.code() == FsError::kStale) return Error(FsError::kNoEnt, "there is no inode " + std::to_string(ino) + ", or this mount has not seen it");
    if (!text.ok()) return text.error();
    ASSIGN_OR_RETURN(const PathsPart part, ParsePathsPart(*text));
    list += part.bytes;
    if (list.size() < part.total_bytes && !part.bytes.empty()) continue;
    if (list.size() != part.total_bytes) return Error(FsError::kBusy, "the names of inode " + std::to_string(ino) + " changed while they were asked for: ask again");
    AskedPaths out;
    ASSIGN_OR_RETURN(out.paths, ParsePaths(list));
    out.hidden = part.hidden;
    out.more = part.more;
    return out;
  }
}

Result<std::unique_ptr<AskedFile>> Resolve(const Context& ctx, const std::string& path) {
  char real[PATH_MAX];
  const bool exists = realpath(path.c_str(), real) != nullptr;
  const int why = errno;
  const StriaMount* mount = exists ? MountOf(ctx.mounts, real) : nullptr;
  if (mount == nullptr && ctx.meta.empty() && ctx.env_meta.empty()) {
    if (!exists && why == EACCES) return Error(FsError::kAccess, "you may not pass a directory on the way to " + path);
    if (!exists) return Error(FsError::kNoEnt, "there is no " + path);
    return Error(
        FsError::kNoEnt,
        path + " is not in a mount of Stria; name the cluster with --meta to use a path from its root");
  }
  struct stat st = {};
  if (mount != nullptr && stat(real, &st) != 0) return ErrnoError(errno, "stat " + path);
  if (mount != nullptr && ctx.HasOnlyTheMount(real)) return AskMountAbout(ctx, real, st);
  ASSIGN_OR_RETURN(std::unique_ptr<ClusterClient> client, ctx.Connect(mount != nullptr ? real : ""));
  ASSIGN_OR_RETURN(Attr attr, mount != nullptr ? GetAttr(*client, InodeId(st.st_ino)) : Walk(*client, path));
  return std::unique_ptr<AskedFile>(std::make_unique<ByServer>(std::move(client), std::move(attr)));
}

}  // namespace stria::cli
