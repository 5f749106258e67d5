// stria cluster init: this machine becomes the first of a cluster.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/address.h"
#include "stripe/layout_spec.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"
#include "tools/cli/member_ask.h"
#include "tools/cli/member_render.h"
#include "tools/cli/setup/init_cluster.h"
#include "tools/cli/setup/machine.h"
#include "tools/cli/setup/meta_member.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr int kServerAnswerS = 2;  // of a server on this machine
constexpr char kNextMetas[] =
    "and for each PC that is to take over when this one is lost:\n"
    "  stria token make --role meta --name pc2        # here, with that PC's name\n"
    "  stria join -                                   # there, as root, with the package stria-meta\n";

struct InitArgs {
  std::string address, layout;
  std::vector<std::string> etcd;
  std::string etcd_ca, etcd_cert, etcd_key;  // files
};

// This one is the first of several from now on.
Result<MemberDone> BeFirst(const Context& ctx, Machine* machine, const InitArgs& args, const InitParams& init, const InitDone& done) {
  MemberParams params;
  params.program = init.program;
  params.member.member = machine->HostName();
  params.member.etcd = args.etcd;
  params.member.ca = args.etcd_ca;
  params.member.cert = args.etcd_cert;
  params.member.key = args.etcd_key;
  params.flag = "--ha-init";
  params.timeout_ns = init.timeout_ns;
  ASSIGN_OR_RETURN(const std::string text, machine->ReadFile(init.settings_file));
  ASSIGN_OR_RETURN(const MetaSettings settings, ReadMetaSettings(text, init.settings_file));
  if (settings.has_ha) params.member.member = settings.ha_member;
  const auto serves = [&ctx, socket = PathsOf(settings).socket] {
    Context here = ctx;  // the kernel says that it is root who asks
    here.meta = "unix:" + socket;
    here.trust = kTrustOff;
    here.timeout_s = kServerAnswerS;
    const auto client = here.Connect();
    if (!client.ok()) return false;
    (*client)->set_progress(nullptr);
    const Result<MemberStatusReply> said = AskMembers(**client, true);
    const MemberState* const own = said.ok() ? FindMember(*said, said->self) : nullptr;
    return own != nullptr && (own->role == MemberRole::kPrimary || own->role == MemberRole::kStandby);
  };
  Result<MemberDone> first = SetUpMember(machine, params, serves);
  if (!first.ok()) return first.error().WithContext("cluster " + done.cluster.ToString() + (done.made ? " is made, but" : " is there, but"));
  return first;
}

Result<void> CheckEtcdFiles(const InitArgs& args) {
  const std::pair<const char*, const std::string*> files[] = {{"--etcd-ca", &args.etcd_ca}, {"--etcd-cert", &args.etcd_cert}, {"--etcd-key", &args.etcd_key}};
  for (const auto& [option, file] : files) {
    if (file->empty()) continue;
    if (args.etcd.empty()) return Error(FsError::kInval, std::string(option) + " is about etcd: name its members, too (--etcd)");
    if (!file->starts_with('/')) return Error(FsError::kInval, std::string(option) + ": the metadata server reads it, so name the whole path");
  }
  if (args.etcd_cert.empty() != args.etcd_key.empty()) return Error(FsError::kInval, "--etcd-cert and --etcd-key go together");
  if (!args.etcd_cert.empty() && args.etcd_ca.empty()) return Error(FsError::kInval, "--etcd-cert needs --etcd-ca: without it etcd is asked without TLS");
  return Ok();
}

int RunInit(const Context& ctx, const InitArgs& args) {
  InitParams params;
  params.address = args.address;
  params.layout = args.layout;
  params.timeout_ns = ctx.timeout_s * kSecond;
  params.start = args.etcd.empty();
  if (!args.address.empty()) {
    const Result<std::string> whole = WithPort(args.address, kDefaultMetaPort);
    if (!whole.ok()) return ctx.Fail(whole.error().WithContext("--address"));
    if (!IsHostPort(*whole)) return ctx.Fail(Error(FsError::kInval, "--address: name the host as other machines know it, HOST[:PORT]"));
  }
  if (!args.layout.empty()) {
    if (const Result<Layout> layout = ParseLayout(args.layout); !layout.ok()) return ctx.Fail(layout.error().WithContext("--layout"));
  }
  if (const Result<void> files = CheckEtcdFiles(args); !files.ok()) return ctx.Fail(files.error());
  if (!args.etcd.empty()) {
    if (const Result<void> enough = CheckEtcd(args.etcd); !enough.ok()) return ctx.Fail(enough.error().WithContext("--etcd"));
  }
  const std::unique_ptr<Machine> machine = ThisMachine();
  if (const Result<void> can = CheckCanSetUp(machine.get(), "stria-meta"); !can.ok()) return ctx.Fail(can.error());
  const Result<std::string> program = FindBinary("stria-meta");
  if (!program.ok()) return ctx.Fail(Error(FsError::kNoEnt, "there is no stria-meta on this machine: install the package stria-meta first"));
  params.program = *program;
  const auto ask = [&ctx](const std::string& socket) -> Result<Uuid> {
    Context here = ctx;  // the kernel says that it is root who asks
    here.meta = "unix:" + socket;
    here.trust = kTrustOff;
    here.timeout_s = kServerAnswerS;
    ASSIGN_OR_RETURN(const std::unique_ptr<ClusterClient> client, here.Connect());
    client->set_progress(nullptr);
    ASSIGN_OR_RETURN(const StatusReply status, GetStatus(*client));
    return status.map.cluster;
  };
  const Result<InitDone> done = InitCluster(machine.get(), params, ask);
  if (!done.ok()) return ctx.Fail(done.error());
  if (args.etcd.empty()) {
    *ctx.out << (ctx.json ? Dump(InitJson(*done)) : RenderInit(*done));
    return kExitOk;
  }
  const Result<MemberDone> first = BeFirst(ctx, machine.get(), args, params, *done);
  if (!first.ok()) return ctx.Fail(first.error());
  InitDone whole = *done;
  whole.serves = first->started;
  whole.changes.insert(whole.changes.end(), first->changes.begin(), first->changes.end());
  if (!first->start_command.empty()) whole.start_command = first->start_command;
  *ctx.out << (ctx.json ? Dump(InitJson(whole)) : RenderInit(whole) + kNextMetas);
  return kExitOk;
}

}  // namespace

void AddClusterVerbs(CLI::App& app, Context& ctx) {
  CLI::App* cluster = app.add_subcommand("cluster", "The cluster as a whole");
  cluster->require_subcommand(1);
  auto args = std::make_shared<InitArgs>();
  CLI::App* verb = cluster->add_subcommand("init", "Make this machine the first of a cluster, its metadata server; as root. Again it changes nothing");
  verb->add_option("--address", args->address, "HOST[:PORT] by which the other machines reach this one (default: its name)");
  verb->add_option("--layout", args->layout, "How files are protected unless a directory says otherwise (default raid5:4+1)");
  verb->add_option("--etcd", args->etcd, "HOST[:PORT] of each member of etcd, three at least: this is the first of several metadata servers, which take over from each other")
      ->delimiter(',');
  verb->add_option("--etcd-ca", args->etcd_ca, "PEM file of whose certificates are believed of etcd; without it etcd is asked without TLS");
  verb->add_option("--etcd-cert", args->etcd_cert, "PEM file of the certificate that is shown to etcd");
  verb->add_option("--etcd-key", args->etcd_key, "PEM file of its key; the user stria reads it");
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->add_option("--timeout", ctx.timeout_s, "Seconds to wait until it serves (default 30)")->check(CLI::Range(1, 3600));
  verb->footer("Example:\n  stria cluster init --layout raid6:4+2");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunInit(ctx, *args); }; });
}

}  // namespace stria::cli
