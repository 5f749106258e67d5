#include "tools/cli/context.h"

#include <absl/strings/str_join.h>
#include <unistd.h>

#include "common/address.h"
#include "common/printable.h"
#include "common/program.h"
#include "common/sentence.h"
#include "tools/cli/dev/dev_trust.h"
#include "tools/cli/setup/data_node.h"

namespace stria::cli {
namespace {

constexpr char kFooter[] =
    "The cluster is the one of --meta, of $STRIA_META, or of the mount that the command is run in; else of a metadata server here;\n"
    "else the only one that /etc/stria/data.toml and /etc/fstab name.\n"
    "Its credentials are those of --trust, of $STRIA_TRUST, or in /etc/stria/trust.\n"
    "\n"
    "Exit codes: 0 ok; 1 degraded, or the cluster refused; 2 data at risk, or problems found;\n"
    "64 wrong usage; 66 no such file, node or disk; 69 cluster not found or no answer;\n"
    "70 a program of Stria failed; 77 not allowed.\n"
    "\n"
    "Example, a whole cluster on this machine to try things out:\n"
    "  stria dev up --dir /tmp/try --nodes 5 --disks 2 --mount /tmp/try/mnt\n"
    "  eval \"$(stria dev env --dir /tmp/try)\"\n"
    "  stria status";

// A sentence about the first word that should be a verb and is none; "" if there is no such word.
std::string UnknownVerb(CLI::App& app, int argc, const char* const* argv) {
  CLI::App* at = &app;
  std::string said;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<CLI::App*> verbs = at->get_subcommands([](CLI::App*) { return true; });
    if (verbs.empty() || word.starts_with("-")) return "";
    CLI::App* next = nullptr;
    std::string names;
    for (CLI::App* verb : verbs) {
      if (verb->get_name() == word) next = verb;
      names += (names.empty() ? "" : ", ") + verb->get_name();
    }
    if (next == nullptr) return "there is no '" + Printable(said + word) + "'; there are: " + names;
    said += word + " ";
    at = next;
  }
  const std::vector<CLI::App*> verbs = at->get_subcommands([](CLI::App*) { return true; });
  if (verbs.empty()) return "";
  const std::string names = absl::StrJoin(verbs, ", ", [](std::string* out, const CLI::App* verb) { *out += verb->get_name(); });
  if (said.empty()) return "which command? There are: " + names;
  said.pop_back();
  return "'" + said + "' needs one more word: " + names;
}

}  // namespace

int ExitCodeFor(const Error& e) {
  switch (e.code) {
    case FsError::kOk: return kExitOk;
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kNotReady:
    case FsError::kRetryLater:
    case FsError::kNotLeader: return kExitUnreachable;
    case FsError::kNoEnt:
    case FsError::kNotDir: return kExitNoInput;
    case FsError::kPerm:
    case FsError::kAccess: return kExitNoPermission;
    case FsError::kInval: return kExitUsage;
    case FsError::kVersion:
    case FsError::kCorrupt:
    case FsError::kBadRequest: return kExitSoftware;
    default: return kExitNo;
  }
}

int Context::Fail(int exit_code, const Error& e) const {
  const std::string sentence = SentenceOf(e);
  *err << "stria: " << Printable(sentence) << "\n";
  if (json) *out << Dump(ErrorJson(e));
  return exit_code;
}
int Context::Fail(const Error& e) const { return Fail(ExitCodeFor(e), e); }

Result<std::unique_ptr<ClusterClient>> Context::Connect(const std::string& near) const {
  std::vector<std::string> addresses = SplitAddresses(meta);
  if (addresses.empty()) addresses = SplitAddresses(env_meta);
  for (const std::string& place : {near, cwd}) {
    if (!addresses.empty() || place.empty()) continue;
    if (const StriaMount* m = MountOf(mounts, place)) addresses = m->addresses;
  }
  std::string credentials = CredentialsNear(near, addresses);
  if (addresses.empty() && !admin_socket.empty() && access(admin_socket.c_str(), W_OK) == 0) addresses = {"unix:" + admin_socket};
  if (addresses.empty() && own_ways) {
    ASSIGN_OR_RETURN(doctor::Way way, doctor::TheOnlyOne(own_ways()));
    addresses = std::move(way.metas);
    if (credentials.empty()) credentials = std::move(way.trust);
  }
  if (addresses.empty()) {
    return Error(FsError::kUnavailable,
                 "which cluster? Give --meta HOST[:PORT], set STRIA_META, or run this inside a mount of Stria");
  }
  ClientOptions options;
  ASSIGN_OR_RETURN(options.addresses, WithPorts(addresses, kDefaultMetaPort));
  options.timeout_ns = timeout_s * kSecond;
  options.progress = err;
  options.tty = err_is_tty;
  ASSIGN_OR_RETURN(Reach reach, connector(credentials));
  options.note = std::move(reach.note);
  return std::make_unique<ClusterClient>(std::move(options), std::move(reach.connector));
}

std::string Context::CredentialsNear(const std::string& near, const std::vector<std::string>& addresses) const {
  std::string credentials = trust.empty() ? env_trust : trust;
  for (const std::string& place : {near, cwd}) {
    if (credentials.empty() && !place.empty()) credentials = DevTrustNear(place, addresses);
  }
  return credentials;
}

bool Context::HasOnlyTheMount(const std::string& near) const {
  const StriaMount* const mount = MountOf(mounts, near);
  if (mount == nullptr || !meta.empty() || !trust.empty() || !env_trust.empty()) return false;
  const Result<Reach> reach = connector(CredentialsNear(near, mount->addresses));
  // Those of a cluster of `stria dev` may be another user's.
  return reach.ok() ? !reach->note.empty() : reach.code() == FsError::kAccess || reach.code() == FsError::kPerm;
}

std::vector<doctor::Way> WaysOfThisMachine() {
  std::vector<std::string> metas;
  if (const Result<std::string> text = ThisMachine()->ReadFile(kDataSettingsFile); text.ok()) {
    if (const Result<DataSettings> data = ReadDataSettings(*text, kDataSettingsFile); data.ok()) metas = data->meta;
  }
  return doctor::WaysToCluster(metas, kDataSettingsFile, "", {}, doctor::ReadFstab());
}

void AddCommon(CLI::App* verb, Context& ctx, const std::string& example) {
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->add_option("--meta", ctx.meta,
                   "Metadata server, HOST[:PORT][,HOST[:PORT]] or unix:PATH (default: $STRIA_META, or this mount's)");
  verb->add_option("--trust", ctx.trust,
                   "Directory of this command's credentials, or off (default: $STRIA_TRUST, or /etc/stria/trust if it can be read)");
  verb->add_option("--timeout", ctx.timeout_s, "Seconds to wait for an answer (default 30)")
      ->check(CLI::Range(1, 3600));
  verb->footer("Example:\n  " + example);
}

Result<StatusReply> GetStatus(ClusterClient& client) {
  auto reply = client.Call<StatusReply>("status", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.Status(std::move(r));
  });
  if (reply.ok()) reply->map = InOrder(std::move(reply->map));
  return reply;
}

Result<std::vector<AffectedFile>> AskFiles(const Context& ctx, ClusterClient& client, FilesKind kind, const std::vector<TargetId>& targets) {
  std::vector<AffectedFile> all;
  std::string after;
  do {
    auto page = client.CallAdmin<FilesReply>("files", [&](AdminService& admin, OpHeader header) {
      FilesRequest r;
      r.header = std::move(header);
      r.kind = kind;
      r.targets = targets;
      r.after = after;
      return admin.Files(std::move(r));
    });
    if (!page.ok()) return page.error();
    for (AffectedFile& f : page->files) all.push_back(std::move(f));
    after = std::move(page->next);
    if (after.empty() && page->cut) *ctx.err << "stria: there are more of these files; they are listed when some of these are mended\n";
  } while (!after.empty());
  return all;
}

Result<NodeId> FindNode(const ClusterMap& map, const std::string& name) {
  std::string names;
  for (const NodeInfo& n : map.nodes) {
    if (n.name == name) return n.id;
    names += (names.empty() ? "" : ", ") + n.name;
  }
  return Error(FsError::kNoEnt,
               "no node is called '" + name + "'; there are: " + (names.empty() ? "none" : names));
}

Result<TargetId> FindTarget(const ClusterMap& map, const std::string& name) {
  std::string names;
  for (const TargetInfo& t : map.targets) {
    if (t.state == TargetState::kRemoved) continue;
    if (map.TargetName(t.id) == name) return t.id;
    names += (names.empty() ? "" : ", ") + map.TargetName(t.id);
  }
  return Error(FsError::kNoEnt,
               "no disk is called '" + name + "'; there are: " + (names.empty() ? "none" : names));
}

int RunCommandLine(int argc, const char* const* argv, Context& ctx) {
  CLI::App app("Stria: a striped, parity-protected filesystem over many PCs", "stria");
  app.require_subcommand(1);
  app.footer(kFooter);
  AddStatusVerb(app, ctx);
  AddNodeVerbs(app, ctx);
  AddRebuildVerbs(app, ctx);
  AddUpkeepVerbs(app, ctx);
  AddFileVerbs(app, ctx);
  AddLocalityVerbs(app, ctx);
  AddTopVerb(app, ctx);
  AddSplitVerb(app, ctx);
  AddGatherVerb(app, ctx);
  AddKeyVerbs(app, ctx);
  AddTrustVerbs(app, ctx);
  AddEventVerbs(app, ctx);
  AddJoinVerb(app, ctx);
  AddClusterVerbs(app, ctx);
  AddDoctorVerb(app, ctx);
  AddDevVerbs(app, ctx);
  AddSelfDescription(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const std::string unknown = e.get_exit_code() == 0 ? "" : UnknownVerb(app, argc, argv);
    if (!unknown.empty()) return ctx.Fail(kExitUsage, Error(FsError::kInval, unknown + " (stria --help tells of them)"));
    return SayParsed(app, e, *ctx.out, *ctx.err) == 0 ? kExitOk : kExitUsage;
  }
  CHECK(ctx.run, "a verb without an action");
  return ctx.run();
}

}  // namespace stria::cli
