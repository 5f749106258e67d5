// stria meta restore --from ADDRESS,.. --data DIR: on the machine that is to serve the
// metadata from now on. Needs no metadata server; stria-meta does it.
#include <memory>

#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"

namespace stria::cli {
namespace {

struct RestoreArgs {
  std::vector<std::string> from;
  std::string data = "/var/lib/stria/meta";
  std::string cluster_key;
  bool dry_run = false;
  bool unproven = false;
};

int RunRestore(const Context& ctx, const RestoreArgs& args) {
  const Result<std::string> program = FindBinary("stria-meta");
  if (!program.ok()) return ctx.Fail(program.error());
  std::string from;
  for (const std::string& a : args.from) from += (from.empty() ? "" : ",") + a;
  std::vector<std::string> argv = {*program,      "--restore-from", from,          "--data", args.data,
                                   "--log-level", "warning"};
  if (!args.cluster_key.empty()) argv.insert(argv.end(), {"--cluster-key", args.cluster_key});
  if (!ctx.trust.empty()) argv.insert(argv.end(), {"--trust", ctx.trust});
  if (args.dry_run) argv.push_back("--dry-run");
  if (args.unproven) argv.push_back("--unproven");
  const Result<int> code = RunProgram(argv, ctx.json);
  if (!code.ok()) return ctx.Fail(code.error());
  if (ctx.json) *ctx.out << Dump({{"data", args.data}, {"from", args.from}, {"dry_run", args.dry_run}, {"done", *code == 0}});
  return *code == 0 ? kExitOk : kExitNo;
}

}  // namespace

void AddRestore(CLI::App* meta, Context& ctx) {
  auto args = std::make_shared<RestoreArgs>();
  CLI::App* verb = meta->add_subcommand("restore", "Make the metadata again from its backup, in an empty directory of this machine");
  verb->add_option("--from", args->from, "Data servers, HOST[:PORT][,HOST[:PORT]]: all that can be reached")->required()->delimiter(',');
  verb->add_option("--data", args->data, "Directory of the metadata store (default /var/lib/stria/meta)");
  verb->add_option("--cluster-key", args->cluster_key,
                   "File with the cluster key (default: the one beside the authority, or /etc/stria/cluster.key)");
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say what there is");
  verb->add_flag("--unproven", args->unproven,
                 "Also take what nothing shows to be of the cluster's metadata server: anybody with a data server's disks may have made it up");
  AddCommon(verb, ctx, "stria meta restore --from n1,n2,n3");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunRestore(ctx, *args); }; });
}

}  // namespace stria::cli
