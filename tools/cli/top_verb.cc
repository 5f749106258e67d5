// stria top [--by client|job] [--once]
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "common/printable.h"
#include "common/sentence.h"
#include "locality/job_io.h"
#include "tools/cli/context.h"
#include "tools/cli/top.h"

namespace stria::cli {
namespace {

constexpr int64_t kClientsWindowNs = 10 * kSecond;  // they tell what they did with each renewal of their lease, every 5 s
constexpr size_t kLinesAround = 5;                  // of a screen: sums, an empty line, heads, what is left out, the cursor

struct TopArgs {
  std::string by = "client";
  bool once = false;
  int interval_s = 5;
};

Result<TopSample> SampleOfMounts(const Context& ctx) {
  TopSample sample;
  sample.at_ns = BoottimeNs();
  if (ctx.mounts.empty()) return Error(FsError::kNoEnt, "nothing of Stria is mounted here; jobs are counted by the mounts that they use");
  Error last;
  bool any = false;
  for (const StriaMount& m : ctx.mounts) {
    const Result<std::string> text = ctx.ask_mount(m.path, kJobsXattr);
    const auto jobs = text.ok() ? ParseJobs(*text) : Result<std::vector<JobShare>>(text.error());
    if (jobs.ok()) AddJobs(m.path, *jobs, &sample);
    else last = jobs.error();
    any = any || jobs.ok();
  }
  if (!any) return last;
  return sample;
}

size_t RowsOfScreen() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= kLinesAround + 1) return 0;
  return size.ws_row - kLinesAround;
}

int RunTop(const Context& ctx, const TopArgs& args) {
  const bool jobs = args.by == "job";
  const char* const name = jobs ? "JOB" : "CLIENT";
  const char* const place = jobs ? "MOUNT" : "NODE";
  std::unique_ptr<ClusterClient> client;
  if (!jobs) {
    auto connected = ctx.Connect();
    if (!connected.ok()) return ctx.Fail(connected.error());
    client = std::move(*connected);
  }
  const auto look = [&]() -> Result<TopSample> {
    if (jobs) return SampleOfMounts(ctx);
    const auto status = GetStatus(*client);
    if (!status.ok()) return status.error();
    return SampleOfClients(*status, BoottimeNs());
  };
  const int64_t interval_ns = args.interval_s * kSecond;
  TopWindow window(jobs ? interval_ns : std::max(interval_ns, kClientsWindowNs));
  for (int round = 0;; ++round) {
    auto sample = look();
    if (!sample.ok()) {
      if (round == 0 || args.once) return ctx.Fail(sample.error());
      *ctx.err << "stria: " << Printable(SentenceOf(sample.error())) << "; it is asked again\n" << std::flush;
    } else {
      window.Add(std::move(*sample));
      if (round > 0) {
        const TopRates rates = window.Rates();
        if (ctx.json) {
          *ctx.out << (args.once ? Dump(TopJson(rates, name, place)) : DumpLine(TopJson(rates, name, place))) << std::flush;
        } else {
          const bool screen = ctx.out_is_tty && !args.once;
          if (screen) *ctx.out << "\033[H\033[2J";
          *ctx.out << RenderTop(rates, name, place, screen ? RowsOfScreen() : 0) << (screen || args.once ? "" : "\n") << std::flush;
        }
        if (args.once) return kExitOk;
      } else if (ctx.out_is_tty && !ctx.json) {
        *ctx.err << "looking for " << args.interval_s << " s\n" << std::flush;
      }
    }
    if (!ctx.out->good()) return kExitOk;
    std::this_thread::sleep_for(std::chrono::seconds(args.interval_s));
  }
}

}  // namespace

void AddTopVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<TopArgs>();
  CLI::App* verb = app.add_subcommand("top", "Who reads and writes how much just now, again and again");
  verb->add_option("--by", args->by, "client: of the whole cluster; job: of Slurm or HTCondor, in the mounts of this machine (default client)")
      ->check(CLI::IsMember({"client", "job"}));
  verb->add_flag("--once", args->once, "Only once, over one interval");
  verb->add_option("--interval", args->interval_s, "Seconds between (default 5); clients tell what they did every few seconds, and are looked at over 10")
      ->check(CLI::Range(1, 3600));
  AddCommon(verb, ctx, "stria top --by job");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunTop(ctx, *args); }; });
}

}  // namespace stria::cli
