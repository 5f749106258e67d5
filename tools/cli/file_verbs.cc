// stria where FILE, stria layout get|set PATH, stria paths INO, stria fsck
#include <memory>
#include <string>
#include <vector>

#include "common/printable.h"
#include "locality/place.h"
#include "stripe/layout_spec.h"
#include "tools/cli/asked_file.h"
#include "tools/cli/context.h"
#include "tools/cli/upkeep.h"

namespace stria::cli {
namespace {

// The map is asked for only if the layout names a node.
Result<std::string> Spelled(AskedFile& file, const Layout& layout) {
  const std::string text = LayoutToString(layout);
  if (layout.place != Place::kNode) return text;
  ASSIGN_OR_RETURN(const ClusterMap map, file.Map());
  return NodeNameForNumber(text, map);
}

// ---- where ----------------------------------------------------------------------------------------

struct WhereArgs {
  std::string file;
  std::string range;
  bool by_host = false;
};

int RunWhere(const Context& ctx, const WhereArgs& args) {
  const auto resolved = Resolve(ctx, args.file);
  if (!resolved.ok()) return ctx.Fail(resolved.error());
  AskedFile& file = **resolved;
  if (file.attr().type != FileType::kFile) {
    return ctx.Fail(Error(FsError::kNoEnt, args.file + " is not a regular file"));
  }
  const auto range = ParseRange(args.range.empty() ? "0+" : args.range, file.attr().size);
  if (!range.ok()) return ctx.Fail(range.error());
  const auto rows = file.Where(range->first, range->second);
  if (!rows.ok()) return ctx.Fail(rows.error());
  if (ctx.json) {
    const auto layout = file.GetLayout();
    const auto spelled = layout.ok() ? Spelled(file, layout->layout) : layout.error();
    Json j = {{"file", args.file},
              {"inode", file.attr().ino.v},
              {"size", file.attr().size},
              {"layout", spelled.ok() ? Json(*spelled) : Json()}};
    args.by_host ? j["hosts"] = HostsJson(ByHost(*rows)) : j["ranges"] = WhereJson(*rows);
    *ctx.out << Dump(j);
  } else {
    *ctx.out << (args.by_host ? RenderByHost(ByHost(*rows)) : RenderWhere(*rows));
  }
  return kExitOk;
}

// ---- layout ---------------------------------------------------------------------------------------

int PrintLayout(const Context& ctx, const std::string& path, AskedFile& file, const LayoutReply& reply) {
  const Result<std::string> spelled = Spelled(file, reply.layout);
  if (!spelled.ok()) return ctx.Fail(spelled.error());
  const std::string& text = *spelled;
  if (ctx.json) {
    *ctx.out << Dump({{"path", path}, {"layout", text}, {"inherited", reply.inherited}});
  } else {
    *ctx.out << Printable(text) << (reply.inherited ? " (inherited)" : "") << "\n";
  }
  return kExitOk;
}

int RunGetLayout(const Context& ctx, const std::string& path) {
  const auto file = Resolve(ctx, path);
  if (!file.ok()) return ctx.Fail(file.error());
  const auto reply = (*file)->GetLayout();
  if (!reply.ok()) return ctx.Fail(reply.error());
  return PrintLayout(ctx, path, **file, *reply);
}

// Without a spec, the layout that is there with another place.
Result<LayoutReply> SetLayout(AskedFile& file, std::string spec, const std::string& place) {
  if (spec.empty()) {
    ASSIGN_OR_RETURN(LayoutReply now, file.GetLayout());
    now.layout.place = Place::kSpread;
    now.layout.place_node = NodeId();
    spec = LayoutToString(now.layout);
  }
  if (!place.empty()) spec += ",place=" + place;
  if (spec.find("place=node:") != spec.npos) {
    ASSIGN_OR_RETURN(const ClusterMap map, file.Map());
    ASSIGN_OR_RETURN(spec, NodeNumberForName(spec, map));
  }
  ASSIGN_OR_RETURN(const Layout layout, ParseLayout(spec));
  return file.SetLayout(layout);
}

int RunSetLayout(const Context& ctx, const std::string& path, const std::string& spec, const std::string& place) {
  if (spec.empty() && place.empty()) {
    return ctx.Fail(Error(FsError::kInval, "give a layout, --place, or both"));
  }
  if (spec.find("place=node:") == spec.npos && !spec.empty()) {
    if (const auto parsed = ParseLayout(spec); !parsed.ok()) return ctx.Fail(parsed.error());
  }
  const auto file = Resolve(ctx, path);
  if (!file.ok()) return ctx.Fail(file.error());
  const auto reply = SetLayout(**file, spec, place);
  if (!reply.ok()) return ctx.Fail(reply.error());
  return PrintLayout(ctx, path, **file, *reply);
}

// ---- paths, fsck ----------------------------------------------------------------------------------

struct PathsArgs {
  uint64_t ino = 0;
  bool null = false;
};

// What has come of an inode's names.
class PathsPrinter {
 public:
  PathsPrinter(const Context& ctx, const PathsArgs& args) : ctx_(ctx), args_(args) {}
  void Add(const std::vector<std::string>& paths, uint64_t hidden) {
    for (const std::string& p : paths) {
      if (ctx_.json) paths_.push_back(p);
      else args_.null ? *ctx_.out << p << '\0' : *ctx_.out << PrintableName(p) << "\n";
    }
    found_ += paths.size();
    hidden_ += hidden;
  }
  // The exit code.
  int End() {
    if (ctx_.json) *ctx_.out << Dump({{"inode", args_.ino}, {"paths", paths_}, {"hidden", hidden_}});
    if (hidden_ > 0) {
      *ctx_.err << "stria: " << Count(hidden_, "name is in a directory", "names are in directories") << " that you may not list\n";
    }
    return found_ == 0 ? kExitNo : kExitOk;
  }

 private:
  const Context& ctx_;
  const PathsArgs& args_;
  Json paths_ = Json::array();
  uint64_t found_ = 0, hidden_ = 0;
};

int RunPathsByMount(const Context& ctx, const PathsArgs& args) {
  const Result<AskedPaths> told = AskMountForPaths(ctx, args.ino);
  if (!told.ok()) return ctx.Fail(told.error());
  PathsPrinter printer(ctx, args);
  printer.Add(told->paths, told->hidden);
  if (told->more) *ctx.err << "stria: there are more names than the mount tells; with credentials (--trust) all are listed\n";
  return printer.End();
}

// Page by page: a file may have 65,000 names.
int RunPaths(const Context& ctx, const PathsArgs& args) {
  if (ctx.HasOnlyTheMount(ctx.cwd)) return RunPathsByMount(ctx, args);
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  PathsPrinter printer(ctx, args);
  std::string after;
  do {
    auto page = (*client)->CallAdmin<NamesReply>("paths", [&](AdminService& admin, OpHeader header) {
      NamesRequest r;
      r.header = std::move(header);
      r.ino = InodeId(args.ino);
      r.after = after;
      return admin.Names(std::move(r));
    });
    if (!page.ok()) return ctx.Fail(page.error());
    printer.Add(page->paths, page->hidden);
    after = std::move(page->next);
  } while (!after.empty());
  return printer.End();
}

struct FsckArgs {
  bool repair = false;
  bool dry_run = false;
  bool yes = false;
};

int RunFsckRepair(const Context& ctx, const FsckArgs& args) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto call = [&](bool dry_run) {
    return (*client)->CallAdmin<FsckRepairReply>("fsck", [dry_run](AdminService& admin, OpHeader header) {
      FsckRepairRequest r;
      r.header = std::move(header);
      r.dry_run = dry_run;
      return admin.FsckRepair(std::move(r));
    });
  };
  if (!args.dry_run && !args.yes && ctx.confirm) {
    const auto would = call(true);
    if (!would.ok()) return ctx.Fail(would.error());
    std::string what;
    for (const std::string& repair : would->done) what += (what.empty() ? "" : "\n       ") + Printable(repair);
    if (!what.empty() && !ctx.confirm(what)) return kExitNo;
  }
  const auto reply = call(args.dry_run);
  if (!reply.ok()) return ctx.Fail(reply.error());
  *ctx.out << (ctx.json ? Dump(FsckRepairJson(*reply, args.dry_run)) : RenderFsckRepair(*reply, args.dry_run));
  return reply->problems.empty() ? kExitOk : kExitAtRisk;
}

int RunFsck(const Context& ctx, const FsckArgs& args) {
  if (args.repair || args.dry_run) return RunFsckRepair(ctx, args);
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto reply = (*client)->Call<FsckReply>("fsck", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.Fsck(std::move(r));
  });
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    *ctx.out << Dump(FsckJson(*reply));
  } else {
    for (const std::string& p : reply->problems) *ctx.out << Printable(p) << "\n";
    if (reply->problems.size() == kMaxProblems) *ctx.out << kMoreProblems;
    *ctx.out << "checked " << Count(reply->inodes, "inode", "inodes") << ", "
             << Count(reply->extents, "extent", "extents") << ", "
             << Count(reply->stripes, "stripe", "stripes") << ": "
             << (reply->problems.empty() ? "clean" : Count(reply->problems.size(), "problem", "problems"))
             << "\n";
  }
  return reply->problems.empty() ? kExitOk : kExitAtRisk;
}

}  // namespace

void AddFileVerbs(CLI::App& app, Context& ctx) {
  auto where_args = std::make_shared<WhereArgs>();
  CLI::App* where = app.add_subcommand("where", "Which node and disk holds which bytes of a file");
  where->add_option("FILE", where_args->file, "A file of a mount, or with --meta its path from the root")
      ->required();
  where->add_option("--range", where_args->range, "Only OFFSET+LENGTH (bytes, or K, M, G)");
  where->add_flag("--by-host", where_args->by_host, "One line per node");
  AddCommon(where, ctx, "stria where /data/run7.root --range 0+4M");
  where->callback(
      [&ctx, where_args] { ctx.run = [&ctx, where_args] { return RunWhere(ctx, *where_args); }; });

  CLI::App* layout = app.add_subcommand("layout", "How files are striped and protected");
  layout->require_subcommand(1);
  auto path = std::make_shared<std::string>();
  auto spec = std::make_shared<std::string>();
  CLI::App* get = layout->add_subcommand("get", "Show the layout of a file or directory");
  get->add_option("PATH", *path, "In a mount, or with --meta from the root")->required();
  AddCommon(get, ctx, "stria layout get /data");
  get->callback([&ctx, path] { ctx.run = [&ctx, path] { return RunGetLayout(ctx, *path); }; });
  CLI::App* set = layout->add_subcommand("set", "Set it, for writes from now on");
  set->add_option("PATH", *path, "In a mount, or with --meta from the root")->required();
  set->add_option("SPEC", *spec,
                  "linear, raid0:k, raid1:n, raid4:k+1, raid5:k+1, raid6:k+2, rs:k+m, raid10:n, "
                  "raid50:GxK+1; then ,unit=256K ,stripe=32M ,domain=node|channel|disk ,arrange=gathered ,min=1 ,.. "
                  "(without it: the one that is there)");
  auto place = std::make_shared<std::string>();
  set->add_option("--place", *place, "Where data columns go: spread, local (the writer's node), node:NAME");
  AddCommon(set, ctx, "stria layout set /data/raw raid6:4+2,arrange=gathered,unit=64M --place local");
  set->callback(
      [&ctx, path, spec, place] {
        ctx.run = [&ctx, path, spec, place] { return RunSetLayout(ctx, *path, *spec, *place); };
      });

  auto paths_args = std::make_shared<PathsArgs>();
  CLI::App* paths = app.add_subcommand("paths", "All names of an inode (exit 1 if it has none)");
  paths->add_option("INODE", paths_args->ino, "Its number, as in ls -i")->required();
  AddCommon(paths, ctx, "stria paths $(stat -c %i /data/run7.root)");
  paths->add_flag("--null,-0", paths_args->null, "For xargs -0: names as they are, each ended by a zero byte");
  paths->callback([&ctx, paths_args] { ctx.run = [&ctx, paths_args] { return RunPaths(ctx, *paths_args); }; });

  CLI::App* fsck =
      app.add_subcommand("fsck", "Check all metadata for consistency (exit 2 if there are problems)");
  auto fsck_args = std::make_shared<FsckArgs>();
  fsck->add_flag("--repair", fsck_args->repair, "Make the safe repairs: counts, names of missing inodes, unused shards");
  fsck->add_flag("--dry-run,-n", fsck_args->dry_run, "Only say what would be repaired");
  fsck->add_flag("--yes,-y", fsck_args->yes, "Do not ask, on a terminal");
  AddCommon(fsck, ctx, "stria fsck --repair --dry-run --timeout 600");
  fsck->callback([&ctx, fsck_args] { ctx.run = [&ctx, fsck_args] { return RunFsck(ctx, *fsck_args); }; });
}

}  // namespace stria::cli
