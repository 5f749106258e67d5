// stria status [--watch]
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include "tools/cli/context.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/member_render.h"
#include "tools/cli/upkeep.h"

namespace stria::cli {
namespace {

constexpr int64_t kMembersNs = 3 * kSecond;  // for who serves when nobody does

struct StatusArgs {
  bool watch = false;
  bool all = false;  // files, however many
  int interval_s = 2;
  int count = 0;  // 0: until interrupted
};

// Instead of the first ones.
Result<void> ListAll(const Context& ctx, ClusterClient& client, FilesKind kind, std::vector<LostFile>* files) {
  if (files->empty()) return {};
  ASSIGN_OR_RETURN(auto all, AskFiles(ctx, client, kind));
  files->clear();
  for (AffectedFile& f : all) files->push_back({f.ino, std::move(f.path), f.offset, f.length});
  return {};
}

// When nobody serves, those of the metadata servers that run know why.
void SayWhoServes(const Context& ctx, ClusterClient* client) {
  if (ctx.json) return;
  client->set_timeout_ns(kMembersNs);
  const std::optional<MemberStatusReply> members = AskMembersIfAny(*client);
  client->set_timeout_ns(ctx.timeout_s * kSecond);
  if (members) *ctx.out << RenderMembers(*members) << std::flush;
}

int RunStatus(const Context& ctx, const StatusArgs& args) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  for (int round = 1;; ++round) {
    auto status = GetStatus(**client);
    if (args.all && status.ok()) {
      for (const auto& [kind, files] : {std::make_pair(FilesKind::kLost, &status->lost_files),
                                        std::make_pair(FilesKind::kThin, &status->thin_files)}) {
        if (const auto listed = ListAll(ctx, **client, kind, files); !listed.ok()) return ctx.Fail(listed.error());
      }
    }
    const auto upkeep = status.ok() ? CallUpkeep(**client, UpkeepRequest()) : Result<UpkeepReply>(status.error());
    const int64_t now_ns = WallclockNs();
    int code = kExitUnreachable;
    if (!upkeep.ok()) {
      code = ctx.Fail(upkeep.error());
      SayWhoServes(ctx, client->get());
      if (!args.watch) return code;
    } else {
      const std::optional<MemberStatusReply> members = AskMembersIfAny(**client);
      std::vector<Finding> more = DiagnoseBackup(*upkeep, status->map, now_ns / kSecond);
      if (members) std::ranges::move(DiagnoseMembers(*members), std::back_inserter(more));
      code = static_cast<int>(std::max(HealthOf(Diagnose(*status, now_ns)), HealthOf(more)));
      if (args.watch && ctx.out_is_tty && !ctx.json) *ctx.out << "\033[H\033[2J";
      if (ctx.json) {
        Json j = StatusJson(*status, now_ns, more);
        j["upkeep"] = UpkeepJson(*upkeep, status->map);
        j["metadata_servers"] = members ? MembersJson(*members) : Json(nullptr);
        *ctx.out << Dump(j) << std::flush;
      } else {
        *ctx.out << RenderStatus(*status, now_ns,
                                 RenderScrubLine(*upkeep, now_ns / kSecond) + RenderRebalanceLine(*upkeep) + RenderFoldLine(*upkeep) +
                                     RenderBackupLine(*upkeep, status->map, now_ns / kSecond) +
                                     (members ? RenderMembersLine(*members) : ""),
                                 more)
                 << std::flush;
      }
    }
    if (!args.watch || (args.count > 0 && round >= args.count)) return code;
    std::this_thread::sleep_for(std::chrono::seconds(args.interval_s));
    if (!ctx.out_is_tty && !ctx.json) *ctx.out << "\n";
  }
}

}  // namespace

void AddStatusVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<StatusArgs>();
  CLI::App* verb = app.add_subcommand("status", "Is everything all right, what does it mean, what to do");
  verb->add_flag("--watch,-w", args->watch, "Show it again and again");
  verb->add_option("--interval", args->interval_s, "Seconds between, with --watch (default 2)")
      ->check(CLI::Range(1, 3600));
  verb->add_option("--count", args->count, "How often, with --watch (default: until interrupted)")
      ->check(CLI::Range(1, 1000000));
  verb->add_flag("--all", args->all, "Name all files that it tells of, not only the first ones");
  AddCommon(verb, ctx, "stria status || echo 'degraded (1), at risk (2) or not reached (69)'");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunStatus(ctx, *args); }; });
}

}  // namespace stria::cli
