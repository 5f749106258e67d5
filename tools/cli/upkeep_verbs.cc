// stria scrub start|pause|resume|status, stria rebalance start|stop|status, stria rebuild start,
// stria disk can-remove, stria meta backup|forget-unknown
#include <memory>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/upkeep.h"

namespace stria::cli {
namespace {

struct UpkeepArgs {
  UpkeepVerb verb = UpkeepVerb::kStatus;
  std::string rate;
  bool dry_run = false;
  bool yes = false;
  bool all = false;  // files, however many
  std::vector<std::string> names;
};

enum class Show : uint8_t { kMessage, kScrub, kRebalance };

int RunUpkeep(const Context& ctx, const UpkeepArgs& args, Show show) {
  UpkeepRequest request;
  request.verb = args.verb;
  request.dry_run = args.dry_run;
  if (!args.rate.empty()) {
    const auto bytes = ParseBytes(args.rate);
    if (!bytes.ok()) return ctx.Fail(bytes.error());
    if (*bytes == 0) return ctx.Fail(Error(FsError::kInval, "a pace of 0 would stop it: use 'stria scrub pause'"));
    request.number = *bytes;
  }
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto status = GetStatus(**client);
  if (!status.ok()) return ctx.Fail(status.error());
  if (args.verb != UpkeepVerb::kStatus && !args.dry_run && !args.yes && ctx.confirm) {
    UpkeepRequest dry = request;
    dry.dry_run = true;
    const auto would = CallUpkeep(**client, dry);
    if (!would.ok()) return ctx.Fail(would.error());
    if (!ctx.confirm(would->message)) return kExitNo;
  }
  auto reply = CallUpkeep(**client, request);
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (args.all && !reply->unfit.empty()) {
    auto files = AskFiles(ctx, **client, FilesKind::kUnfit);
    if (!files.ok()) return ctx.Fail(files.error());
    reply->unfit = std::move(*files);
  }
  if (ctx.json) {
    Json j = UpkeepJson(*reply, status->map);
    j["dry_run"] = args.dry_run;
    *ctx.out << Dump(j);
    return kExitOk;
  }
  if (!reply->message.empty()) *ctx.out << (args.dry_run ? "would: " : "") << Printable(reply->message) << "\n";
  if (show == Show::kScrub) *ctx.out << RenderScrubs(*reply, status->map, WallclockNs() / kSecond);
  if (show == Show::kRebalance) {
    const std::string line = RenderRebalanceLine(*reply);
    *ctx.out << (line.empty() ? "no rebalancing goes on\n" : line);
  }
  return kExitOk;
}

int RunCanRemove(const Context& ctx, const UpkeepArgs& args) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto status = GetStatus(**client);
  if (!status.ok()) return ctx.Fail(status.error());
  CanRemoveRequest request;
  for (const std::string& name : args.names) {
    if (name.find(':') != std::string::npos) {
      const auto target = FindTarget(status->map, name);
      if (!target.ok()) return ctx.Fail(target.error());
      request.targets.push_back(*target);
      continue;
    }
    const auto node = FindNode(status->map, name);
    if (!node.ok()) return ctx.Fail(node.error());
    for (const TargetInfo& t : status->map.targets) {
      if (t.node == *node && t.state != TargetState::kRemoved) request.targets.push_back(t.id);
    }
  }
  auto reply = (*client)->CallAdmin<CanRemoveReply>("can-remove", [request](AdminService& admin, OpHeader header) {
    CanRemoveRequest r = request;
    r.header = std::move(header);
    return admin.CanRemove(std::move(r));
  });
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (args.all && reply->more) {
    reply->files.clear();
    reply->more = false;
    for (const FilesKind kind : {FilesKind::kWouldBeLost, FilesKind::kWouldDegrade}) {
      const auto files = AskFiles(ctx, **client, kind, request.targets);
      if (!files.ok()) return ctx.Fail(files.error());
      reply->files.insert(reply->files.end(), files->begin(), files->end());
    }
  }
  *ctx.out << (ctx.json ? Dump(CanRemoveJson(*reply)) : RenderCanRemove(*reply));
  return CanRemoveCode(*reply);
}

void AddVerb(CLI::App* family, Context& ctx, UpkeepVerb verb, Show show, const std::string& name,
             const std::string& help, const std::string& example) {
  auto args = std::make_shared<UpkeepArgs>();
  args->verb = verb;
  CLI::App* sub = family->add_subcommand(name, help);
  if (verb == UpkeepVerb::kScrubStart) sub->add_option("--rate", args->rate, "Bytes per second and disk (K, M, G)");
  if (verb != UpkeepVerb::kStatus) {
    sub->add_flag("--dry-run,-n", args->dry_run, "Only say what would be done");
    sub->add_flag("--yes,-y", args->yes, "Do not ask, on a terminal");
  }
  if (show == Show::kScrub) sub->add_flag("--all", args->all, "Name all files that it tells of, not only the first ones");
  AddCommon(sub, ctx, example);
  sub->callback([&ctx, args, show] { ctx.run = [&ctx, args, show] { return RunUpkeep(ctx, *args, show); }; });
}

}  // namespace

Result<UpkeepReply> CallUpkeep(ClusterClient& client, const UpkeepRequest& request) {
  return client.CallAdmin<UpkeepReply>("upkeep", [request](AdminService& admin, OpHeader header) {
    UpkeepRequest r = request;
    r.header = std::move(header);
    return admin.Upkeep(std::move(r));
  });
}

void AddUpkeepVerbs(CLI::App& app, Context& ctx) {
  CLI::App* scrub = app.add_subcommand("scrub", "Reads and checks everything on all disks, and heals it");
  scrub->require_subcommand(1);
  AddVerb(scrub, ctx, UpkeepVerb::kScrubStart, Show::kMessage, "start", "Begin a pass of every disk now",
          "stria scrub start --rate 50M");
  AddVerb(scrub, ctx, UpkeepVerb::kScrubPause, Show::kMessage, "pause", "Stop reading for now", "stria scrub pause");
  AddVerb(scrub, ctx, UpkeepVerb::kScrubResume, Show::kMessage, "resume", "Go on after a pause", "stria scrub resume");
  AddVerb(scrub, ctx, UpkeepVerb::kStatus, Show::kScrub, "status", "How far it is, by disk", "stria scrub status --json");

  CLI::App* rebalance = app.add_subcommand("rebalance", "Move shards until all disks are filled alike");
  rebalance->require_subcommand(1);
  AddVerb(rebalance, ctx, UpkeepVerb::kRebalanceStart, Show::kMessage, "start", "Begin; it ends by itself",
          "stria rebalance start --dry-run");
  AddVerb(rebalance, ctx, UpkeepVerb::kRebalanceStop, Show::kMessage, "stop", "End it; moved data stays there",
          "stria rebalance stop");
  AddVerb(rebalance, ctx, UpkeepVerb::kStatus, Show::kRebalance, "status", "How far it is", "stria rebalance status");

  AddVerb(app.get_subcommand("rebuild"), ctx, UpkeepVerb::kRepairStart, Show::kMessage, "start",
          "Rebuild now what nodes that are down held, without their grace period", "stria rebuild start --dry-run");

  CLI::App* meta = app.add_subcommand("meta", "The metadata servers, and the metadata's backup on the data servers");
  meta->require_subcommand(1);
  AddVerb(meta, ctx, UpkeepVerb::kBackupNow, Show::kMessage, "backup", "Bring it up to date now; it does so by itself every 10 s",
          "stria meta backup");
  AddVerb(meta, ctx, UpkeepVerb::kForgetUnknown, Show::kMessage, "forget-unknown",
          "After a restore: do not keep shards any more that the metadata does not know", "stria meta forget-unknown --dry-run");
  AddRestore(meta, ctx);
  AddMemberVerbs(meta, ctx);

  auto args = std::make_shared<UpkeepArgs>();
  CLI::App* can = app.get_subcommand("disk")->add_subcommand(
      "can-remove", "What pulling out disks or nodes would cost: exit 0 nothing, 1 redundancy, 2 data");
  can->add_option("ID", args->names, "Disks (n3:d2) and nodes (n3), taken together")->required();
  can->add_flag("--all", args->all, "Name all files that it tells of, not only the first ones");
  AddCommon(can, ctx, "stria disk can-remove n3:d1 n3:d2 && echo pull them");
  can->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunCanRemove(ctx, *args); }; });
}

}  // namespace stria::cli
