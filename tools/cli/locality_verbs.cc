// stria stats [PATH] [--by job], stria run --near FILE -- COMMAND
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "common/printable.h"
#include "common/sentence.h"
#include "locality/job_io.h"
#include "locality/read_tally.h"
#include "locality/split.h"
#include "tools/cli/asked_file.h"
#include "tools/cli/mounts.h"
#include "tools/cli/top.h"
#include "tools/cli/where.h"

namespace stria::cli {

namespace {

int RunStats(const Context& ctx, const std::string& path) {
  const auto text = AskMount(path, "user.stria.io");
  if (!text.ok()) return ctx.Fail(text.error());
  const auto tally = ParseReadTally(*text);
  if (!tally.ok()) return ctx.Fail(tally.error());
  if (ctx.json) {
    Json j = {{"path", path}};
    j.update(ReadsJson(*tally));
    *ctx.out << Dump(j);
  } else {
    *ctx.out << RenderReads(*tally);
  }
  return kExitOk;
}

int RunJobStats(const Context& ctx, const std::string& path) {
  const auto text = ctx.ask_mount(path, kJobsXattr);
  if (!text.ok()) return ctx.Fail(text.error());
  const auto jobs = ParseJobs(*text);
  if (!jobs.ok()) return ctx.Fail(jobs.error());
  if (ctx.json) *ctx.out << Dump({{"path", path}, {"jobs", JobsJson(*jobs)}});
  else *ctx.out << RenderJobs(*jobs);
  return kExitOk;
}

// ---- run ------------------------------------------------------------------------------------------

struct RunArgs {
  std::string file;
  std::vector<std::string> command;
  bool strict = false;
  bool dry_run = false;
};

// The usable node that holds most of the file, and how much; kUnavailable if none holds any.
struct Nearest {
  NodeInfo node;
  uint64_t bytes = 0, size = 0;
};
Result<Nearest> FindNearest(const Context& ctx, const std::string& file) {
  ASSIGN_OR_RETURN(const auto asked, Resolve(ctx, file));
  const uint64_t size = asked->attr().size;
  ASSIGN_OR_RETURN(const ClusterMap map, asked->Map());
  ASSIGN_OR_RETURN(const auto rows, asked->Where(0, size));
  std::vector<std::string> names;
  for (const NodeInfo& n : map.nodes) names.push_back(n.name);
  const std::vector<uint64_t> local = LocalBytes(rows, 0, size, names);
  Nearest nearest{{}, 0, size};
  for (size_t i = 0; i < names.size(); ++i) {
    const NodeInfo& n = map.nodes[i];
    if (n.state == NodeState::kUp && local[i] > nearest.bytes) nearest.node = n, nearest.bytes = local[i];
  }
  if (nearest.bytes == 0) return Error(FsError::kUnavailable, "no node that is up holds bytes of " + file);
  return nearest;
}

int Wait(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Runs to its end in the foreground; 127 if it cannot be executed.
int Execute(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return 127;
  if (child == 0) {
    execvp(argv[0], argv.data());
    _exit(127);
  }
  return Wait(child);
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

int RunNear(const Context& ctx, const RunArgs& args) {
  if (args.command.empty() && !args.dry_run) {
    return ctx.Fail(Error(FsError::kInval, "which command? stria run --near FILE -- COMMAND ARGUMENT.."));
  }
  const auto nearest = FindNearest(ctx, args.file);
  if (!nearest.ok() && (args.strict || nearest.code() != FsError::kUnavailable)) return ctx.Fail(nearest.error());
  if (!nearest.ok()) *ctx.err << "stria: " << Printable(SentenceOf(nearest.error())) << "; running here\n";
  const std::string node = nearest.ok() ? nearest->node.name : "";
  const auto here = AskMount(args.file, "user.stria.node");
  const bool is_here = !nearest.ok() || (here.ok() && *here == node);
  const char* ssh_env = std::getenv("STRIA_SSH");
  const std::string ssh = ssh_env != nullptr ? ssh_env : "ssh";
  const std::string host = nearest.ok() ? HostOf(nearest->node.address) : "";
  if (args.dry_run) {
    *ctx.out << (is_here ? "here" : Printable("on " + node + " (" + host + ")"));
    if (nearest.ok()) *ctx.out << ", which holds " << Percent(nearest->bytes, nearest->size) << " % of " << PrintableName(args.file);
    *ctx.out << "\n";
    return kExitOk;
  }
  std::vector<std::string> words = args.command;
  if (!is_here) {
    const std::vector<std::string> base = {ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host};
    std::vector<std::string> probe = base;
    probe.push_back("true");
    if (Execute(probe) == 0) {
      std::string line = "cd " + ShellQuoted(ctx.cwd) + " && exec env STRIA_NODE=" + ShellQuoted(node);
      for (const std::string& w : args.command) line += " " + ShellQuoted(w);
      words = base;
      words.push_back(line);
    } else if (args.strict) {
      return ctx.Fail(Error(FsError::kUnavailable, node + " (" + host + ") holds most of " + args.file +
                                                       " and cannot be reached with " + ssh));
    } else {
      *ctx.err << "stria: " << Printable(node + " (" + host + ") cannot be reached with " + ssh) << "; running here\n";
    }
  }
  if (is_here && !node.empty()) setenv("STRIA_NODE", node.c_str(), 1);
  return Execute(words);
}

}  // namespace

void AddLocalityVerbs(CLI::App& app, Context& ctx) {
  auto near = std::make_shared<RunArgs>();
  CLI::App* run = app.add_subcommand("run", "Run a command on the node that holds most of a file; its exit code");
  run->add_option("--near", near->file, "The file")->required();
  run->add_flag("--strict", near->strict, "Fail rather than run here when that node cannot be reached with ssh");
  run->add_flag("--dry-run", near->dry_run, "Only say where");
  run->add_option("COMMAND", near->command, "After --; it finds the node's name in $STRIA_NODE");
  AddCommon(run, ctx, "stria run --near /data/run7.root -- python3 analysis.py /data/run7.root");
  run->callback([&ctx, near] { ctx.run = [&ctx, near] { return RunNear(ctx, *near); }; });

  auto path = std::make_shared<std::string>("."), by = std::make_shared<std::string>();
  CLI::App* stats = app.add_subcommand("stats", "Where a mount read its bytes from, since it was mounted");
  stats->add_option("PATH", *path, "A file; or a directory for all of its mount (default: this one)");
  stats->add_option("--by", *by, "job: what each job of Slurm or HTCondor has read and written through the mount")->check(CLI::IsMember({"job"}));
  AddCommon(stats, ctx, "stria stats /data/run7.root");
  stats->callback([&ctx, path, by] { ctx.run = [&ctx, path, by] { return by->empty() ? RunStats(ctx, *path) : RunJobStats(ctx, *path); }; });
}

}  // namespace stria::cli
