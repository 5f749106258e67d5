// stria node|disk ls|add|replace|drain|undrain|out|remove
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "common/printable.h"
#include "tools/cli/context.h"

namespace stria::cli {
namespace {

struct AdminArgs {
  std::string name;
  std::string new_name;
  bool dry_run = false;
  bool force = false;
  bool yes = false;
  int wait_s = 0;
};
constexpr int64_t kAddPollNs = 500 * kMillisecond;
constexpr int64_t kAdmittedWaitNs = 10 * kSecond;  // an admitted node or disk asks every second, if it runs

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

// `hint`: the next step, after a success.
int Finish(const Context& ctx, const Result<AdminReply>& reply, bool dry_run, const std::string& hint) {
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    *ctx.out << Dump(AdminJson(*reply, dry_run));
    return kExitOk;
  }
  *ctx.out << (dry_run ? "would: " : "") << Printable(reply->message) << "\n";
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
  if (!args.dry_run && !args.yes && ctx.confirm) {
    AdminRequest dry = r;
    dry.dry_run = true;
    const auto would = Send(**client, dry);
    if (!would.ok()) return ctx.Fail(would.error());
    if (!ctx.confirm(would->message)) return kExitNo;
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
  verb->add_flag("--yes,-y", args->yes, "Do not ask, on a terminal");
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

// "n6: 2 disks, 1.2 TiB" if it is in use; "" otherwise.
std::string InUse(const ClusterMap& map, bool is_node, const std::string& name) {
  uint64_t disks = 0, bytes = 0;
  for (const TargetInfo& t : map.targets) {
    const NodeInfo* n = map.FindNode(t.node);
    const bool meant = is_node ? n->name == name : map.TargetName(t.id) == name;
    if (!meant || t.state != TargetState::kUp || n->state != NodeState::kUp) continue;
    ++disks;
    bytes += t.capacity_bytes;
  }
  return disks == 0 ? "" : name + " is in use: " + Count(disks, "disk", "disks") + ", " + HumanBytes(bytes);
}

std::string HowToAdd(bool is_node, const std::string& name, const std::string& meta) {
  const size_t colon = name.find(':');
  if (is_node) {
    return "Here, for a token:\n  stria token make --role data --name " + name +
           "\nOn the new machine, with the packages stria-data and stria-client, and the token pasted:\n  stria join - --disk /srv/d1\n"
           "In a cluster without certificates, there, with this cluster's key file:\n  stria-data --insecure --node-name " + name + " --meta " + meta +
           " --cluster-key /etc/stria/cluster.key --disk /srv/d1,label=d1";
  }
  const std::string label = colon == std::string::npos ? name : name.substr(colon + 1);
  return "On " + name.substr(0, colon) + ", where the disk is mounted and empty:\n  stria join --disk /srv/" + label + ",label=" + label +
         "\nOr, where the node has no certificate, add to the settings of stria-data, and then  systemctl reload stria-data:\n  [[disk]]\n  path = \"/srv/" +
         label + "\"\n  label = \"" + label + "\"\n  channel = \"sata0\"   # if it shares a controller with other disks";
}

// A removed node or disk is refused until an admin admits it. True if it was.
Result<bool> LetIn(ClusterClient& client, const StatusReply& status, bool is_node, const AdminArgs& args, std::string* said) {
  AdminRequest r;
  r.verb = AdminVerb::kAdmit;
  r.dry_run = args.dry_run;
  for (const NodeInfo& n : status.removed) {
    if (is_node && n.name == args.name) r.node = n.id;  // the last of that name
  }
  for (const TargetInfo& t : status.map.targets) {
    if (!is_node && t.state == TargetState::kRemoved && status.map.TargetName(t.id) == args.name) r.target = t.id;
  }
  if (!r.node && !r.target) return false;
  ASSIGN_OR_RETURN(const AdminReply reply, Send(client, r));
  *said = (args.dry_run ? "would: " : "") + reply.message;
  return true;
}

// Nodes and disks come by themselves, when stria-data runs with them; this says how, and waits for it.
int RunAdd(const Context& ctx, bool is_node, const AdminArgs& args) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  int64_t end_ns = BoottimeNs() + args.wait_s * kSecond;
  for (bool said = false;; said = true) {
    const auto status = GetStatus(**client);
    if (!status.ok()) return ctx.Fail(status.error());
    const std::string in_use = InUse(status->map, is_node, args.name);
    std::string admitted;
    if (!said && in_use.empty()) {
      const Result<bool> was_removed = LetIn(**client, *status, is_node, args, &admitted);
      if (!was_removed.ok()) return ctx.Fail(was_removed.error());
      if (*was_removed && !args.dry_run) end_ns = std::max(end_ns, BoottimeNs() + kAdmittedWaitNs);
      if (*was_removed && !ctx.json) *ctx.out << Printable(admitted) << std::endl;
    }
    if (ctx.json && (!in_use.empty() || BoottimeNs() >= end_ns)) {
      *ctx.out << Dump({{"name", args.name}, {"in_use", !in_use.empty()}});
      return in_use.empty() ? kExitNo : kExitOk;
    }
    if (!in_use.empty()) {
      *ctx.out << Printable(in_use) << "\nWhat is there already may be spread over it too:  stria rebalance start\n";
      return kExitOk;
    }
    if (!said && !ctx.json && admitted.empty()) *ctx.out << PrintableLines(HowToAdd(is_node, args.name, (*client)->AddressList())) << std::endl;
    if (args.dry_run || BoottimeNs() >= end_ns) return kExitNo;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kAddPollNs));
  }
}

void AddAdd(CLI::App* family, Context& ctx, bool is_node) {
  auto args = std::make_shared<AdminArgs>();
  CLI::App* verb = family->add_subcommand("add", "How to add one, or let a removed one in again; exit 0 once it is in use");
  verb->add_option(is_node ? "NODE" : "DISK", args->name, is_node ? "Its name, as n6" : "Its name, as n3:d4")->required();
  verb->add_option("--wait", args->wait_s, "Seconds to wait for it (default 0)")->check(CLI::Range(0, 86400));
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say how");
  AddCommon(verb, ctx, is_node ? "stria node add n6 --wait 60" : "stria disk add n3:d4 --wait 60");
  verb->callback([&ctx, args, is_node] { ctx.run = [&ctx, args, is_node] { return RunAdd(ctx, is_node, *args); }; });
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
  AddAdd(node, ctx, true);
  AddAdmin(node, ctx, true, AdminVerb::kReplaceNode, "replace",
           "Give the place of one node to another; rebuild starts now");
  AddAdmin(node, ctx, true, AdminVerb::kDrain, "drain", "Move everything off a node");
  AddAdmin(node, ctx, true, AdminVerb::kUndrain, "undrain", "Stop draining; use the node again");
  AddAdmin(node, ctx, true, AdminVerb::kOut, "out",
           "Give a dead node up now, without the grace period; rebuild starts");
  AddAdmin(node, ctx, true, AdminVerb::kRemove, "remove", "Forget an emptied node");

  CLI::App* disk = app.add_subcommand("disk", "Disks: list, replace, drain, remove, reindex");
  disk->require_subcommand(1);
  AddList(disk, ctx, false);
  AddAdd(disk, ctx, false);
  AddAdmin(disk, ctx, false, AdminVerb::kReplaceTarget, "replace",
           "Give the place of one disk to another; rebuild starts now");
  AddAdmin(disk, ctx, false, AdminVerb::kDrain, "drain", "Move everything off a disk");
  AddAdmin(disk, ctx, false, AdminVerb::kUndrain, "undrain", "Stop draining; use the disk again");
  AddAdmin(disk, ctx, false, AdminVerb::kOut, "out", "Give a dead disk up now; rebuild starts");
  AddAdmin(disk, ctx, false, AdminVerb::kRemove, "remove", "Forget an emptied disk");
  AddReindex(disk, ctx);
}

}  // namespace stria::cli
