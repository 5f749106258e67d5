// stria split PATHS.. --by host: which node works on which part of a dataset.
//
// 1. The files under PATHS, in order of their names; the mapping of each from the metadata.
// 2. Pieces: whole files, ranges of bytes, or clusters of a ROOT tree (which a Python helper reads).
// 3. locality/split gives them to nodes; split_text prints that.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "tools/cli/asked_file.h"
#include "tools/cli/clusters.h"
#include "tools/cli/render.h"
#include "tools/cli/split_text.h"

namespace stria::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 100'000;
// Pieces that let the mean be met to within a few percent, and no smaller than is worth a read.
constexpr uint64_t kPiecesPerHost = 24;
constexpr uint64_t kMinPieceBytes = 1 * kMiB;
constexpr uint64_t kMaxPieceBytes = 256 * kMiB;

struct SplitArgs {
  std::vector<std::string> paths;
  std::string by = "host";
  std::string format = "json";
  std::string align = "none";
  std::string tree;
  std::string list_dir = "stria-work";
  std::vector<std::string> nodes;
};

// Regular files; directories stand for all files below.
Result<std::vector<std::string>> FilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::error_code error;
  for (const std::string& path : paths) {
    const std::string real = fs::canonical(path, error).string();
    if (error) return Error(FsError::kNoEnt, path + ": " + error.message());
    if (!fs::is_directory(real)) {
      files.push_back(real);
      continue;
    }
    std::vector<std::string> below;
    for (auto it = fs::recursive_directory_iterator(real, error); !error && it != fs::recursive_directory_iterator();
         it.increment(error)) {
      if (it->is_regular_file(error)) below.push_back(it->path().string());
      if (below.size() > kMaxFiles) {
        return Error(FsError::kTooBig, path + " has more than " + std::to_string(kMaxFiles) + " files: split parts of it");
      }
    }
    if (error) return Error(FsError::kIo, path + ": " + error.message());
    std::ranges::sort(below);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

struct Located {
  uint64_t size = 0;
  std::vector<WhereRow> rows;
};

std::vector<SplitPiece> ClusterPieces(size_t file, const std::vector<EventCluster>& clusters, const Located& located,
                                      const std::vector<std::string>& hosts) {
  std::vector<SplitPiece> pieces;
  for (const EventCluster& c : clusters) {
    SplitPiece p{file, c.begin, c.end, 0, std::vector<uint64_t>(hosts.size(), 0)};
    for (const auto& [offset, length] : c.ranges) {
      const std::vector<uint64_t> local = LocalBytes(located.rows, offset, length, hosts);
      for (size_t h = 0; h < hosts.size(); ++h) p.local_bytes[h] += local[h];
      p.decoded_bytes += DecodedBytes(located.rows, offset, length);
      p.bytes += length;
    }
    pieces.push_back(std::move(p));
  }
  return pieces;
}

Result<std::vector<SplitPiece>> PiecesOf(const SplitArgs& args, const std::vector<std::string>& paths,
                                         const std::vector<Located>& files, const std::vector<std::string>& hosts) {
  uint64_t total = 0;
  for (const Located& f : files) total += f.size;
  const uint64_t most = std::clamp(total / (hosts.size() * kPiecesPerHost), kMinPieceBytes, kMaxPieceBytes);
  std::vector<std::vector<EventCluster>> clusters;
  if (args.align == "root") {
    ASSIGN_OR_RETURN(clusters, AskClusters(paths, args.tree));
  }
  std::vector<SplitPiece> pieces;
  for (size_t i = 0; i < files.size(); ++i) {
    std::vector<SplitPiece> more;
    if (args.align == "root") {
      more = ClusterPieces(i, clusters[i], files[i], hosts);
    } else if (args.align == "file") {
      const Located& f = files[i];
      more.push_back({i, 0, f.size, f.size, LocalBytes(f.rows, 0, f.size, hosts), DecodedBytes(f.rows, 0, f.size)});
    } else {
      more = CutByHost(i, files[i].rows, hosts, kMinPieceBytes, most);
    }
    for (SplitPiece& p : more) pieces.push_back(std::move(p));
  }
  return pieces;
}

// The nodes that are up; the others go to `away`, with their states.
Result<std::vector<std::string>> HostsOf(const ClusterMap& map, const std::vector<std::string>& wanted,
                                         std::vector<AwayNode>* away) {
  std::vector<std::string> hosts;
  for (const std::string& name : wanted) RETURN_IF_ERROR(FindNode(map, name));
  for (const NodeInfo& n : map.nodes) {
    if (!wanted.empty() && !std::ranges::count(wanted, n.name)) continue;
    if (n.state == NodeState::kUp) hosts.push_back(n.name);
    else away->push_back({n.name, NodeStateName(n.state)});
  }
  if (hosts.empty()) return Error(FsError::kUnavailable, "none of the nodes is up");
  return hosts;
}

Result<SplitPlan> Plan(const Context& ctx, const SplitArgs& args) {
  SplitPlan plan;
  ASSIGN_OR_RETURN(plan.paths, FilesOf(args.paths));
  plan.entries = args.align == "root";
  if (plan.paths.empty()) return Error(FsError::kNoEnt, "there are no files in " + args.paths.front());
  std::vector<std::string> hosts;
  std::vector<Located> files;
  std::optional<ClusterMap> map;
  for (const std::string& path : plan.paths) {
    ASSIGN_OR_RETURN(const auto file, Resolve(ctx, path));
    if (map) {
      file->Know(*map);
    } else {
      ASSIGN_OR_RETURN(map, file->Map());
      ASSIGN_OR_RETURN(hosts, HostsOf(*map, args.nodes, &plan.away));
    }
    Located f;
    f.size = file->attr().size;
    ASSIGN_OR_RETURN(f.rows, file->Where(0, f.size));
    files.push_back(std::move(f));
  }
  ASSIGN_OR_RETURN(const auto pieces, PiecesOf(args, plan.paths, files, hosts));
  plan.work = SplitByHost(pieces, hosts);
  return plan;
}

Result<void> WriteLists(const SplitPlan& plan, const std::string& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return Error(FsError::kIo, "cannot make the directory " + dir + ": " + error.message());
  // A list of a split before: others have that work now.
  const auto remove = [&](const std::string& node) { fs::remove(dir + "/" + node + ".json", error); };
  for (const AwayNode& n : plan.away) remove(n.name);
  for (const HostWork& w : plan.work) {
    if (w.pieces.empty()) {
      remove(w.host);
      continue;
    }
    std::ofstream out(dir + "/" + w.host + ".json");
    out << Dump(HostWorkJson(plan, w));
    if (!out.flush()) return Error(FsError::kIo, "cannot write " + dir + "/" + w.host + ".json");
  }
  return {};
}

int RunSplit(const Context& ctx, const SplitArgs& args) {
  const auto format = ParseSplitFormat(ctx.json ? "json" : args.format);
  if (!format.ok()) return ctx.Fail(format.error());
  const auto plan = Plan(ctx, args);
  if (!plan.ok()) return ctx.Fail(plan.error());
  const std::string dir = fs::absolute(args.list_dir).lexically_normal().string();
  if (*format == SplitFormat::kCondor && dir.find_first_of("\n\r") != dir.npos) {
    return ctx.Fail(Error(FsError::kInval, "HTCondor knows no names with line breaks, as " + dir + " is: give another place with --lists"));
  }
  if (*format != SplitFormat::kJson && *format != SplitFormat::kDask) {
    if (const auto written = WriteLists(*plan, dir); !written.ok()) return ctx.Fail(written.error());
  }
  if (!plan->away.empty() || plan->decoded_bytes() > 0) *ctx.err << "stria: " << Promise(*plan) << "\n";
  *ctx.out << RenderSplit(*plan, *format, dir);
  return kExitOk;
}

}  // namespace

void AddSplitVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<SplitArgs>();
  CLI::App* split = app.add_subcommand("split", "Work lists: each node gets the data it holds, none much more than others");
  split->add_option("PATHS", args->paths, "Files and directories of a mount")->required();
  split->add_option("--by", args->by, "host")->check(CLI::IsMember({"host"}));
  split->add_option("--format", args->format, "json, slurm, condor, dask or parallel (default json)")
      ->check(CLI::IsMember({"json", "slurm", "condor", "dask", "parallel"}));
  split->add_option("--align", args->align, "Cut at: none (anywhere), file (nowhere), root (clusters of a tree)")
      ->check(CLI::IsMember({"none", "file", "root"}));
  split->add_option("--tree", args->tree, "With --align root: the TTree or RNTuple (default: the one with most entries)");
  split->add_option("--lists", args->list_dir, "Where slurm, condor and parallel keep NODE.json (default stria-work)");
  split->add_option("--nodes", args->nodes, "Only these (default: all that are up)")->delimiter(',');
  AddCommon(split, ctx, "stria split /data/run7 --by host --align root --format slurm >submit.sh");
  split->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunSplit(ctx, *args); }; });
}

}  // namespace stria::cli
