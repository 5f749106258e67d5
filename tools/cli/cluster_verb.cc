// stria cluster init: this machine becomes the first of a cluster.
#include <memory>

#include "common/address.h"
#include "stripe/layout_spec.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"
#include "tools/cli/setup/init_cluster.h"
#include "tools/cli/setup/machine.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr int kServerAnswerS = 2;  // of a server on this machine

struct InitArgs {
  std::string address, layout;
};

int RunInit(const Context& ctx, const InitArgs& args) {
  InitParams params;
  params.address = args.address;
  params.layout = args.layout;
  params.timeout_ns = ctx.timeout_s * kSecond;
  if (!args.address.empty()) {
    const Result<std::string> whole = WithPort(args.address, kDefaultMetaPort);
    if (!whole.ok()) return ctx.Fail(whole.error().WithContext("--address"));
    if (!IsHostPort(*whole)) return ctx.Fail(Error(FsError::kInval, "--address: name the host as other machines know it, HOST[:PORT]"));
  }
  if (!args.layout.empty()) {
    if (const Result<Layout> layout = ParseLayout(args.layout); !layout.ok()) return ctx.Fail(layout.error().WithContext("--layout"));
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
  *ctx.out << (ctx.json ? Dump(InitJson(*done)) : RenderInit(*done));
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
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->add_option("--timeout", ctx.timeout_s, "Seconds to wait until it serves (default 30)")->check(CLI::Range(1, 3600));
  verb->footer("Example:\n  stria cluster init --layout raid6:4+2");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunInit(ctx, *args); }; });
}

}  // namespace stria::cli
