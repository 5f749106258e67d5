// stria meta status|promote|join|remove: the metadata servers themselves.
#include <absl/strings/str_join.h>

#include <memory>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/member_render.h"

namespace stria::cli {
namespace {

struct MemberArgs {
  std::string name, address, uuid, lose;
  bool dry_run = false;
  bool yes = false;
};

DataHeader HeaderOf(const OpHeader& h) {
  DataHeader d;
  d.timeout_ns = h.timeout_ns;
  return d;
}

Result<ChangeMembersReply> Change(ClusterClient& client, const ChangeMembersRequest& request) {
  auto reply = client.CallMembers<ChangeMembersReply>("change", [request](MemberService& members, OpHeader header) {
    ChangeMembersRequest r = request;
    r.header = HeaderOf(header);
    return members.ChangeMembers(std::move(r));
  });
  if (!reply.ok()) return ExplainedOfMembers(reply.error());
  return reply;
}

int RunStatus(const Context& ctx) {
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const Result<MemberStatusReply> reply = AskMembers(**client, false);
  if (!reply.ok()) return ctx.Fail(reply.error());
  *ctx.out << (ctx.json ? Dump(MembersJson(*reply)) : RenderMembers(*reply));
  return static_cast<int>(HealthOf(DiagnoseMembers(*reply)));
}

std::string Names(const MemberStatusReply& r) {
  if (r.members.empty()) return "none";
  return absl::StrJoin(r.members, ", ", [](std::string* out, const MemberState& m) { *out += Printable(m.name); });
}

Error NoSuchMember(const MemberStatusReply& r, const std::string& name) {
  return Error(FsError::kNoEnt, "no metadata server is called '" + Printable(name) + "'; there are: " + Names(r));
}

// Says what it is about to do, asks where a person is there, does it.
int Carry(const Context& ctx, ClusterClient& client, const MemberArgs& args, const ChangeMembersRequest& request, const std::string& what,
          const std::function<std::string(const ChangeMembersReply&)>& done) {
  const auto say = [&](const std::string& line, Json j) {
    if (ctx.json) *ctx.out << Dump(j);
    else *ctx.out << line << "\n";
    return kExitOk;
  };
  if (args.dry_run) return say("would: " + what, {{"name", request.name}, {"dry_run", true}, {"message", what}});
  if (!args.yes && ctx.confirm && !ctx.confirm(what)) return kExitNo;
  const Result<ChangeMembersReply> reply = Change(client, request);
  if (!reply.ok()) return ctx.Fail(reply.error());
  const std::string line = done(*reply);
  return say(line, {{"name", request.name}, {"dry_run", false}, {"message", line}, {"primary", reply->primary}, {"term", reply->term}, {"version", reply->version}});
}

// One that lacks what was acknowledged, when nobody who has it comes back.
int RunPromoteLosing(const Context& ctx, const MemberArgs& args) {
  if (args.lose != args.name) {
    return ctx.Fail(Error(FsError::kInval, "the two names differ, '" + Printable(args.name) + "' and '" + Printable(args.lose) +
                                               "': nothing was changed. Give the name of the one that is to be primary twice, as in  stria meta promote pc3 --lose pc3"));
  }
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const Result<MemberStatusReply> status = AskMembers(**client, false);
  if (!status.ok()) return ctx.Fail(status.error());
  const MemberState* const to = FindMember(*status, args.name);
  if (to == nullptr) return ctx.Fail(NoSuchMember(*status, args.name));
  if (to->in_sync) return ctx.Fail(Error(FsError::kBusy, Printable(to->name) + " is in sync: 'stria meta promote " + Printable(to->name) + "' without --lose loses nothing"));
  std::string lost;
  for (const MemberState& m : status->members) {
    if (!m.in_sync) continue;
    if (m.role != MemberRole::kUnreachable) {
      return ctx.Fail(Error(FsError::kBusy, Printable(m.name) + " is alive and has everything: promote that one, and nothing is lost"));
    }
    lost += (lost.empty() ? "" : ", ") + Printable(m.name);
  }
  ChangeMembersRequest request;
  request.change = MemberChange::kPromoteLosing;
  request.name = to->name;
  request.name_again = args.lose;
  const std::string what = Printable(to->name) + " becomes primary WITHOUT what only " + (lost.empty() ? "the others" : lost) +
                           " had: everything that was acknowledged since it left the in-sync set is lost, and all mounts' open files. Those that are lost must never "
                           "be started with their old directories while they cannot reach etcd. The backup on the data servers may be newer: stria meta restore --dry-run";
  return Carry(ctx, **client, args, request, what, [&](const ChangeMembersReply& r) {
    return Printable(r.primary) + " becomes primary, in a term after " + std::to_string(r.term) + ". Remove those that do not come back (stria meta remove), then: stria fsck";
  });
}

int RunPromote(const Context& ctx, const MemberArgs& args) {
  if (!args.lose.empty()) return RunPromoteLosing(ctx, args);
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const Result<MemberStatusReply> status = AskMembers(**client, false);
  if (!status.ok()) return ctx.Fail(status.error());
  // By name: asked for twice it is the same.
  const MemberState* const to = args.name.empty() ? Successor(*status) : FindMember(*status, args.name);
  if (to == nullptr && !args.name.empty()) return ctx.Fail(NoSuchMember(*status, args.name));
  if (to == nullptr) return ctx.Fail(Error(FsError::kBusy, "nobody could take over: no other metadata server is in sync (stria meta status)"));
  if (!args.name.empty() && to->name == status->primary && to->role == MemberRole::kPrimary) {
    *ctx.out << (ctx.json ? Dump({{"name", to->name}, {"dry_run", args.dry_run}, {"message", "it is primary"}, {"primary", to->name}, {"term", status->term}, {"version", status->version}})
                          : Printable(to->name) + " is primary\n");
    return kExitOk;
  }
  if (!to->in_sync) {
    return ctx.Fail(Error(FsError::kBusy, Printable(to->name) + " is not in sync: what was synced since would be lost. It can take over when 'stria meta status' says that it is"));
  }
  ChangeMembersRequest request;
  request.change = MemberChange::kPromote;
  request.name = to->name;
  const std::string from = status->primary.empty() ? "the primary" : Printable(status->primary);
  return Carry(ctx, **client, args, request, from + " hands over to " + Printable(to->name) + "; calls wait for a second or two",
               [&](const ChangeMembersReply& r) { return Printable(r.primary) + " is primary, in term " + std::to_string(r.term); });
}

// The server of that directory says which one it is.
Result<Uuid> AskForUuid(const Context& ctx, const MemberArgs& args) {
  Context there = ctx;
  there.meta = args.address;
  ASSIGN_OR_RETURN(const auto client, there.Connect());
  const Result<MemberStatusReply> own = AskMembers(*client, true);
  if (!own.ok()) return own.error().WithContext("the new metadata server at " + args.address);
  const MemberState* const self = FindMember(*own, own->self);
  if (self == nullptr || !self->uuid) return Error(FsError::kNotReady, "the metadata server at " + args.address + " does not say which directory it has; give it with --uuid");
  if (own->self != args.name) {
    return Error(FsError::kInval, "the metadata server at " + args.address + " is called '" + Printable(own->self) + "' in its settings, and not '" + Printable(args.name) + "'");
  }
  return self->uuid;
}

int RunJoin(const Context& ctx, const MemberArgs& args) {
  ChangeMembersRequest request;
  request.change = MemberChange::kAdd;
  request.name = args.name;
  request.address = args.address;
  if (!args.uuid.empty() && !Uuid::Parse(args.uuid, &request.uuid)) {
    return ctx.Fail(Error(FsError::kInval, "--uuid is '" + Printable(args.uuid) + "': give what the new server's log says, as 01234567-89ab-cdef-0123-456789abcdef"));
  }
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const Result<MemberStatusReply> status = AskMembers(**client, false);
  if (!status.ok()) return ctx.Fail(status.error());
  // Given on the new one itself: that one says who it is, and is in no list yet.
  const MemberState* const there = FindMember(*status, args.name);
  const bool itself = there != nullptr && status->self == args.name && there->address.empty();
  if (there != nullptr && !itself) {
    return ctx.Fail(Error(FsError::kExist, "a metadata server is called '" + Printable(args.name) + "' already: if its directory is a new one, remove the former first (stria meta remove)"));
  }
  if (args.uuid.empty() && itself) {
    request.uuid = there->uuid;
  } else if (args.uuid.empty()) {
    const Result<Uuid> uuid = AskForUuid(ctx, args);
    if (!uuid.ok()) return ctx.Fail(uuid.error());
    request.uuid = *uuid;
  }
  return Carry(ctx, **client, args, request, Printable(args.name) + " at " + Printable(args.address) + " becomes a metadata server: it copies the metadata, and follows",
               [&](const ChangeMembersReply&) { return Printable(args.name) + " is a metadata server now, and copies the metadata. Watch it:  stria meta status"; });
}

int RunRemove(const Context& ctx, const MemberArgs& args) {
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const Result<MemberStatusReply> status = AskMembers(**client, false);
  if (!status.ok()) return ctx.Fail(status.error());
  const MemberState* const m = FindMember(*status, args.name);
  if (m == nullptr) return ctx.Fail(NoSuchMember(*status, args.name));
  if (m->name == status->primary) return ctx.Fail(Error(FsError::kBusy, Printable(m->name) + " is primary: hand over first (stria meta promote)"));
  if (m->in_sync) return ctx.Fail(Error(FsError::kBusy, Printable(m->name) + " is in sync: stop its stria-meta first, then it leaves the set within seconds"));
  ChangeMembersRequest request;
  request.change = MemberChange::kRemove;
  request.name = m->name;
  return Carry(ctx, **client, args, request, Printable(m->name) + " is no metadata server any more; what its directory has is of no use to the cluster then",
               [&](const ChangeMembersReply&) { return Printable(args.name) + " is removed"; });
}

CLI::App* AddChange(CLI::App* meta, Context& ctx, const std::shared_ptr<MemberArgs>& args, const std::string& name, const std::string& help,
                    const std::string& example, int (*run)(const Context&, const MemberArgs&)) {
  CLI::App* verb = meta->add_subcommand(name, help);
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say what would be done");
  verb->add_flag("--yes,-y", args->yes, "Do not ask, on a terminal");
  AddCommon(verb, ctx, example);
  verb->callback([&ctx, args, run] { ctx.run = [&ctx, args, run] { return run(ctx, *args); }; });
  return verb;
}

}  // namespace

void AddMemberVerbs(CLI::App* meta, Context& ctx) {
  CLI::App* status = meta->add_subcommand("status", "The metadata servers: who is primary, who is in sync. Exit 0 well, 1 degraded, 2 nobody serves");
  AddCommon(status, ctx, "stria meta status --json | jq -r .primary");
  status->callback([&ctx] { ctx.run = [&ctx] { return RunStatus(ctx); }; });
  const auto args = std::make_shared<MemberArgs>();
  CLI::App* promote = AddChange(meta, ctx, args, "promote", "Hand the primary's place over, to one that is in sync", "stria meta promote pc2", RunPromote);
  promote->add_option("NAME", args->name, "To whom (default: whoever is the least behind)");
  promote->add_option("--lose", args->lose, "NAME once more: it is not in sync, nobody who is comes back, and what only these have is to be lost");
  CLI::App* join = AddChange(meta, ctx, args, "join", "Add a metadata server that has been started with an empty directory",
                             "stria meta join pc3 --address pc3", RunJoin);
  join->add_option("NAME", args->name, "As the key member of its [ha] says")->required();
  join->add_option("--address", args->address, "HOST[:PORT] at which the others reach it")->required();
  join->add_option("--uuid", args->uuid, "Of its directory (default: it is asked)");
  AddChange(meta, ctx, args, "remove", "Forget a metadata server that does not come back, or is wanted no more", "stria meta remove pc3", RunRemove)
      ->add_option("NAME", args->name, "Which")
      ->required();
}

}  // namespace stria::cli
