// stria gather FILE..: moves a file's bytes into gathered stripes, whose columns end where events do.
//
// 1. The file's layout becomes gathered (its protection stays), at the place that is asked for.
// 2. locality/gather_plan cuts the file; holes stay holes.
// 3. The mount moves one stripe after another (user.stria.gather, client/vfs/gather.h): interrupted at any point,
//    the file is whole, in part as it was.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "common/printable.h"
#include "locality/gather_plan.h"
#include "stripe/layout_spec.h"
#include "tools/cli/clusters.h"
#include "tools/cli/context.h"
#include "tools/cli/mounts.h"

namespace stria::cli {
namespace {

// The most for one stripe; the mount takes no more.
constexpr uint64_t kMaxStripe = 256 * kMiB;

struct GatherArgs {
  std::vector<std::string> files;
  std::string place;
  std::string align = "none";
  std::string tree;
  std::string column = "32M";
  bool dry_run = false;
};

Result<void> SetAttribute(const std::string& path, const std::string& name, const std::string& value) {
  if (setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) == 0) return {};
  if (errno == EBUSY) {
    return Error(FsError::kBusy, path + " is open in another mount: gather it when no other program uses it");
  }
  return ErrnoError(errno, path + ": " + name + "=" + value);
}

// The option of a spec, such as "place", or "".
std::string OptionOf(const std::string& spec, const std::string& name) {
  const size_t at = spec.find("," + name + "=");
  if (at == spec.npos) return "";
  const size_t begin = at + name.size() + 2;
  return spec.substr(begin, spec.find(',', begin) - begin);
}

// The gathered layout with the protection of `spec`, and how many data columns a stripe of it will have.
struct Target {
  std::string spec;
  GatherPlanOptions plan;
};
Result<Target> TargetOf(const std::string& spec, const GatherArgs& args) {
  ASSIGN_OR_RETURN(uint64_t column, ParseBytes(args.column));
  const std::string protection = spec.substr(0, spec.find(','));
  ASSIGN_OR_RETURN(const Layout layout, ParseLayout(protection));
  column = AlignUp(std::max<uint64_t>(column, 4 * kKiB), 4 * kKiB);
  if (2 * column > kMaxStripe) return Error(FsError::kInval, "--column is at most 128M");
  Target target;
  const std::string place = !args.place.empty() ? args.place : OptionOf(spec, "place");
  const std::string domain = OptionOf(spec, "domain");
  target.spec = protection + ",arrange=gathered,unit=" + std::to_string(column) +
                ",stripe=" + std::to_string(column * layout.data_columns()) +
                (domain.empty() ? "" : ",domain=" + domain) + (place.empty() ? "" : ",place=" + place);
  // On one node each column is a stripe of its own (stripe/placement.h).
  target.plan.columns = place.empty() || place == "spread" ? layout.data_columns() : 1;
  target.plan.column_bytes = column;
  target.plan.max_stripe_bytes = kMaxStripe;
  return target;
}

// The parts of a file that are no holes.
Result<std::vector<std::pair<uint64_t, uint64_t>>> DataOf(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, path);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  off_t at = 0;
  while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
    const off_t end = lseek(fd, at, SEEK_HOLE);
    if (end <= at) break;
    ranges.emplace_back(static_cast<uint64_t>(at), static_cast<uint64_t>(end - at));
    at = end;
  }
  const int error = at < 0 ? errno : 0;
  close(fd);
  if (error != 0 && error != ENXIO) return ErrnoError(error, path);
  return ranges;
}

Result<std::vector<GatherStripe>> PlanFor(const std::string& path, const GatherArgs& args, const Target& target) {
  std::vector<uint64_t> cuts;
  if (args.align == "root") {
    ASSIGN_OR_RETURN(const auto clusters, AskClusters({path}, args.tree));
    std::vector<std::vector<std::pair<uint64_t, uint64_t>>> parts;
    for (const EventCluster& c : clusters[0]) parts.push_back(c.ranges);
    cuts = CutsBetween(std::move(parts));
  }
  ASSIGN_OR_RETURN(const auto ranges, DataOf(path));
  return PlanGather(ranges, cuts, target.plan);
}

std::string Spelled(const GatherStripe& stripe) {
  std::string text = std::to_string(stripe.offset);
  char separator = ':';
  for (const uint64_t length : stripe.columns) {
    text += separator + std::to_string(length);
    separator = ',';
  }
  return text;
}

Result<void> GatherFile(const Context& ctx, const GatherArgs& args, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string spec, AskMount(path, "user.stria.layout"));
  ASSIGN_OR_RETURN(const Target target, TargetOf(spec, args));
  ASSIGN_OR_RETURN(const std::vector<GatherStripe> stripes, PlanFor(path, args, target));
  if (!args.dry_run) RETURN_IF_ERROR(SetAttribute(path, "user.stria.layout", target.spec));
  uint64_t bytes = 0;
  for (const GatherStripe& s : stripes) {
    bytes += s.bytes();
    if (args.dry_run && !ctx.json) *ctx.out << PrintableName(path) << " " << Spelled(s) << "\n";
    if (!args.dry_run) RETURN_IF_ERROR(SetAttribute(path, "user.stria.gather", Spelled(s)));
  }
  std::string hosts;
  if (!args.dry_run) {
    ASSIGN_OR_RETURN(hosts, AskMount(path, "user.stria.hosts"));
  }
  if (ctx.json) {
    *ctx.out << Dump({{"path", path}, {"layout", target.spec}, {"bytes", bytes}, {"stripes", stripes.size()}, {"hosts", hosts}});
  } else if (!args.dry_run) {
    *ctx.out << PrintableName(path) << ": " << HumanBytes(bytes) << " in " << Count(stripes.size(), "stripe", "stripes") << ", "
             << hosts << "\n";
  }
  return {};
}

int RunGather(const Context& ctx, const GatherArgs& args) {
  for (const std::string& file : args.files) {
    std::error_code error;
    const std::string path = std::filesystem::canonical(file, error).string();
    if (error) return ctx.Fail(Error(FsError::kNoEnt, file + ": " + error.message()));
    if (const auto done = GatherFile(ctx, args, path); !done.ok()) return ctx.Fail(done.error());
  }
  return kExitOk;
}

}  // namespace

void AddGatherVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<GatherArgs>();
  CLI::App* gather = app.add_subcommand("gather", "Move files so that long ranges of them lie on one node");
  gather->add_option("FILES", args->files, "In a mount")->required();
  gather->add_option("--place", args->place, "spread, local (this mount's node), node:NAME (default: as it is)");
  gather->add_option("--column", args->column, "How much of a file follows itself on one node (default 32M)");
  gather->add_option("--align", args->align, "End columns at: none (anywhere), root (clusters of a tree)")
      ->check(CLI::IsMember({"none", "root"}));
  gather->add_option("--tree", args->tree, "With --align root: the TTree or RNTuple (default: the one with most entries)");
  gather->add_flag("--dry-run", args->dry_run, "Only print OFFSET:LENGTH,LENGTH,.. of each stripe");
  AddCommon(gather, ctx, "stria gather --align root --place node:n3 /data/run7.root");
  gather->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunGather(ctx, *args); }; });
}

}  // namespace stria::cli
