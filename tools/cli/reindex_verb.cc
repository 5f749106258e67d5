// stria disk reindex PATH...: for the machine that the disk is in. Needs no cluster.
#include <filesystem>
#include <memory>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"

namespace stria::cli {
namespace {

struct ReindexArgs {
  std::vector<std::string> paths;
  bool dry_run = false;
};

int RunReindex(const Context& ctx, const ReindexArgs& args) {
  const Result<std::string> program = FindBinary("stria-data");
  if (!program.ok()) return ctx.Fail(program.error());
  std::string names;
  std::vector<std::string> argv = {*program, "--reindex", "--log-level", "warning"};
  for (size_t i = 0; i < args.paths.size(); ++i) {
    const std::string& path = args.paths[i];
    if (!std::filesystem::exists(path + "/superblock")) {
      return ctx.Fail(kExitNoInput, Error(FsError::kNoEnt, path + " is not a disk of Stria on this machine; give its directory, as "
                                                                   "in the settings of stria-data"));
    }
    names += (names.empty() ? "" : ", ") + path;
    argv.insert(argv.end(), {"--disk", path + ",label=r" + std::to_string(i + 1)});
  }
  if (!args.dry_run) {
    const Result<int> code = RunProgram(argv);
    if (!code.ok()) return ctx.Fail(code.error());
    if (*code != 0) {
      return ctx.Fail(kExitNo, Error(FsError::kBusy, "the index of " + names + " was not set aside; if stria-data runs "
                                                     "here, stop it first, and start it again afterwards"));
    }
  }
  if (ctx.json) {
    *ctx.out << Dump({{"disks", args.paths}, {"done", !args.dry_run}});
    return kExitOk;
  }
  *ctx.out << (args.dry_run ? "would: " : "") << "the index of " << Printable(names)
           << " is set aside; stria-data makes another from the files when it starts, while its other disks serve\n";
  return kExitOk;
}

}  // namespace

void AddReindex(CLI::App* disk, Context& ctx) {
  auto args = std::make_shared<ReindexArgs>();
  CLI::App* verb = disk->add_subcommand("reindex", "On its machine, with stria-data stopped: have the index of a disk made again");
  verb->add_option("PATH", args->paths, "Its directory, as in the settings of stria-data")->required();
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say what would be done");
  AddCommon(verb, ctx, "stria disk reindex /srv/d2");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunReindex(ctx, *args); }; });
}

}  // namespace stria::cli
