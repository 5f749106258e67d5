// stria node|disk ls|replace|drain|undrain|out|remove
#include <memory>

#include "tools/cli/context.h"

namespace stria::cli {
namespace {

struct AdminArgs {
  std::string name;
  std::string new_name;
  bool dry_run = false;
  bool force = false;
};

Result<ClusterMap> GetMap(ClusterClient& client) {
  return client.Call<ClusterMap>("cluster map", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.GetMap(std::move(r));
  });
}

Result<AdminReply> Send(ClusterClient& client, const AdminRequest& request) {
  return client.Call<AdminReply>("admin", [request](MetaService& meta, OpHeader header) {
    AdminRequest r = request;
    r.header = std::move(header);
    return meta.Admin(std::move(r));
  });
}

// `hint`: what to do next, after a success.
int Finish(const Context& ctx, const Result<AdminReply>& reply, bool dry_run, const std::string& hint) {
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    *ctx.out << Dump(AdminJson(*reply, dry_run));
    return kExitOk;
  }
  *ctx.out << (dry_run ? "would: " : "") << reply->message << "\n";
  if (!dry_run && reply->stripes > 0 && !hint.empty()) *ctx.out << hint << "\n";
  return kExitOk;
}

int RunAdmin(const Context& ctx, AdminVerb verb, bool is_node, const AdminArgs& args) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto map = GetMap(**client);
  if (!map.ok()) return ctx.Fail(map.error());
  AdminRequest r;
  r.verb = verb;
  r.dry_run = args.dry_run;
  r.force = args.force;
  if (is_node) {
    const auto node = FindNode(*map, args.name);
    if (!node.ok()) return ctx.Fail(node.error());
    r.node = *node;
  } else {
    const auto target = FindTarget(*map, args.name);
    if (!target.ok()) return ctx.Fail(target.error());
    r.target = *target;
  }
  if (!args.new_name.empty() && is_node) {
    const auto node = FindNode(*map, args.new_name);
    if (!node.ok()) return ctx.Fail(node.error());
    r.new_node = *node;
  } else if (!args.new_name.empty()) {
    const auto target = FindTarget(*map, args.new_name);
    if (!target.ok()) return ctx.Fail(target.error());
    r.new_target = *target;
  }
  const bool moves = verb != AdminVerb::kUndrain && verb != AdminVerb::kRemove;
  return Finish(ctx, Send(**client, r), args.dry_run, moves ? "Watch it:  stria rebuild watch" : "");
}

int RunList(const Context& ctx, bool nodes) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto status = GetStatus(**client);
  if (!status.ok()) return ctx.Fail(status.error());
  if (ctx.json) {
    *ctx.out << Dump(nodes ? NodesJson(status->map) : DisksJson(status->map));
  } else {
    *ctx.out << (nodes ? RenderNodes(*status, WallclockNs()) : RenderDisks(*status));
  }
  return kExitOk;
}

void AddAdmin(CLI::App* family, Context& ctx, bool is_node, AdminVerb admin, const std::string& name,
              const std::string& help) {
  auto args = std::make_shared<AdminArgs>();
  CLI::App* verb = family->add_subcommand(name, help);
  const bool replace = admin == AdminVerb::kReplaceNode || admin == AdminVerb::kReplaceTarget;
  verb->add_option(replace   ? "OLD"
                   : is_node ? "NODE"
                             : "DISK",
                   args->name, is_node ? "A node, as n3" : "A disk, as n3:d2")
      ->required();
  if (replace)
    verb->add_option("NEW", args->new_name, "What takes its place; it must be up already")->required();
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say what would be done");
  verb->add_flag("--force", args->force,
                 "Overrule a warning; never takes the last recoverable copy of anything");
  const std::string what = is_node ? "n3" : "n3:d2";
  const std::string to = replace ? (is_node ? " n6" : " n3:d3") : "";
  AddCommon(verb, ctx,
            std::string("stria ") + (is_node ? "node " : "disk ") + name + " " + what + to + " --dry-run");
  verb->callback([&ctx, args, is_node, admin] {
    ctx.run = [&ctx, args, is_node, admin] { return RunAdmin(ctx, admin, is_node, *args); };
  });
}

void AddList(CLI::App* family, Context& ctx, bool nodes) {
  CLI::App* verb =
      family->add_subcommand("ls", nodes ? "List nodes" : "List disks with their error counters");
  AddCommon(
      verb, ctx,
      nodes ? "stria node ls --json | jq -r '.[] | select(.state != \"up\") | .name'" : "stria disk ls");
  verb->callback([&ctx, nodes] { ctx.run = [&ctx, nodes] { return RunList(ctx, nodes); }; });
}

}  // namespace

void AddNodeVerbs(CLI::App& app, Context& ctx) {
  CLI::App* node = app.add_subcommand("node", "Nodes: list, replace, drain, remove");
  node->require_subcommand(1);
  AddList(node, ctx, true);
  AddAdmin(node, ctx, true, AdminVerb::kReplaceNode, "replace",
           "Give the place of one node to another; rebuild starts now");
  AddAdmin(node, ctx, true, AdminVerb::kDrain, "drain", "Move everything off a node");
  AddAdmin(node, ctx, true, AdminVerb::kUndrain, "undrain", "Stop draining; use the node again");
  AddAdmin(node, ctx, true, AdminVerb::kOut, "out",
           "Give a dead node up now, without the grace period; rebuild starts");
  AddAdmin(node, ctx, true, AdminVerb::kRemove, "remove", "Forget an emptied node");

  CLI::App* disk = app.add_subcommand("disk", "Disks: list, replace, drain, remove");
  disk->require_subcommand(1);
  AddList(disk, ctx, false);
  AddAdmin(disk, ctx, false, AdminVerb::kReplaceTarget, "replace",
           "Give the place of one disk to another; rebuild starts now");
  AddAdmin(disk, ctx, false, AdminVerb::kDrain, "drain", "Move everything off a disk");
  AddAdmin(disk, ctx, false, AdminVerb::kUndrain, "undrain", "Stop draining; use the disk again");
  AddAdmin(disk, ctx, false, AdminVerb::kOut, "out", "Give a dead disk up now; rebuild starts");
  AddAdmin(disk, ctx, false, AdminVerb::kRemove, "remove", "Forget an emptied disk");
}

}  // namespace stria::cli
