// stria rebuild ls|watch|pause|resume|limit
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/rebuild_watch.h"

namespace stria::cli {
namespace {

constexpr int64_t kShowRebuildNs = 500 * kMillisecond;
constexpr int64_t kLineNs = 10 * kSecond;       // between lines where they cannot be overwritten
constexpr int64_t kUnreachedNs = 60 * kSecond;  // watching goes on over a restart of stria-meta

int RunList(const Context& ctx) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto status = GetStatus(**client);
  if (!status.ok()) return ctx.Fail(status.error());
  if (ctx.json) {
    *ctx.out << Dump(RepairsJson(*status));
  } else {
    *ctx.out << RenderRepairs(*status);
  }
  const bool whole = status->degraded_stripes == 0 &&
                     std::all_of(status->repairs.begin(), status->repairs.end(), IsFinished);
  return whole ? kExitOk : kExitNo;
}

// Prints views: on a terminal over the last one, else a line each ten seconds, as JSON one object a line.
class WatchPrinter {
 public:
  explicit WatchPrinter(const Context& ctx) : ctx_(ctx) {}

  void Print(const RebuildWatch::View& view, const StatusReply& s, int64_t now_ns) {
    const bool last = view.end != RebuildWatch::End::kNotYet;
    if (ctx_.out_is_tty && !ctx_.json) {
      for (; lines_ > 0; --lines_) *ctx_.out << "\033[A\033[K";
    } else if (!last && now_ns < next_ns_) {
      return;
    }
    next_ns_ = now_ns + kLineNs;
    if (ctx_.json) {
      Json j = {{"rebuilds", RepairsJson(s)}, {"degraded_stripes", s.degraded_stripes}, {"ended", last}};
      *ctx_.out << DumpLine(j) << std::flush;
      return;
    }
    for (const std::string& line : view.lines) *ctx_.out << line << "\n";
    lines_ = view.lines.size();
    if (view.lines.empty() && !last) {
      *ctx_.out << "no rebuild is listed yet; " << Count(s.degraded_stripes, "stripe misses", "stripes miss")
                << " a column\n";
      lines_ = 1;
    }
    if (last) *ctx_.out << view.sentence << "\n";
    *ctx_.out << std::flush;
  }

 private:
  const Context& ctx_;
  size_t lines_ = 0;
  int64_t next_ns_ = 0;
};

int RunWatch(const Context& ctx, int limit_s) {
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  RebuildWatch watch;
  WatchPrinter printer(ctx);
  const int64_t start_ns = BoottimeNs();
  int64_t heard_ns = start_ns;
  while (true) {
    const auto status = GetStatus(**client);
    const int64_t now_ns = BoottimeNs();
    if (!status.ok() && (heard_ns == start_ns || now_ns - heard_ns > kUnreachedNs))
      return ctx.Fail(status.error());
    if (status.ok()) {
      heard_ns = now_ns;
      const auto view = watch.Update(*status, now_ns);
      printer.Print(view, *status, now_ns);
      if (view.end == RebuildWatch::End::kDone) return kExitOk;
      if (view.end != RebuildWatch::End::kNotYet) return kExitNo;
    }
    if (limit_s > 0 && now_ns - start_ns > limit_s * kSecond) {
      return ctx.Fail(kExitNo, Error(FsError::kTimedOut, "the rebuild goes on; " + std::to_string(limit_s) +
                                                             " s of watching are over"));
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kShowRebuildNs));
  }
}

int RunControl(const Context& ctx, AdminVerb verb, const std::string& rate, bool dry_run) {
  AdminRequest request;
  request.verb = verb;
  request.dry_run = dry_run;
  if (!rate.empty() && rate != "none") {
    const auto bytes = ParseBytes(rate);
    if (!bytes.ok()) return ctx.Fail(bytes.error());
    if (*bytes == 0)
      return ctx.Fail(
          Error(FsError::kInval, "a limit of 0 would stop it: use 'stria rebuild pause', or 'none'"));
    request.number = *bytes;
  }
  auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto reply = (*client)->Call<AdminReply>("rebuild", [request](MetaService& meta, OpHeader header) {
    AdminRequest r = request;
    r.header = std::move(header);
    return meta.Admin(std::move(r));
  });
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    *ctx.out << Dump(AdminJson(*reply, dry_run));
  } else {
    *ctx.out << (dry_run ? "would: " : "") << Printable(reply->message) << "\n";
  }
  return kExitOk;
}

}  // namespace

void AddRebuildVerbs(CLI::App& app, Context& ctx) {
  CLI::App* family = app.add_subcommand("rebuild", "Data that is being made again after a loss, and how fast");
  family->require_subcommand(1);

  CLI::App* ls = family->add_subcommand("ls", "List rebuilds (exit 1 if there is anything to rebuild)");
  AddCommon(ls, ctx, "stria rebuild ls");
  ls->callback([&ctx] { ctx.run = [&ctx] { return RunList(ctx); }; });

  auto limit_s = std::make_shared<int>(0);
  CLI::App* watch = family->add_subcommand(
      "watch", "Progress until all is whole again (exit 0), or nothing goes on (exit 1)");
  watch->add_option("--limit", *limit_s, "Stop watching after so many seconds")
      ->check(CLI::Range(1, 30 * 86400));
  AddCommon(watch, ctx, "stria rebuild watch && echo whole again");
  watch->callback([&ctx, limit_s] { ctx.run = [&ctx, limit_s] { return RunWatch(ctx, *limit_s); }; });

  auto rate = std::make_shared<std::string>();
  auto dry_run = std::make_shared<bool>(false);
  const auto add = [&](AdminVerb verb, const std::string& name, const std::string& help, const std::string& example) {
    CLI::App* sub = family->add_subcommand(name, help);
    if (verb == AdminVerb::kRepairLimit) {
      sub->add_option("RATE", *rate, "Bytes per second (K, M, G), or 'none'")->required();
    }
    sub->add_flag("--dry-run,-n", *dry_run, "Only say what would be done");
    AddCommon(sub, ctx, example);
    sub->callback([&ctx, verb, rate, dry_run] {
      ctx.run = [&ctx, verb, rate, dry_run] { return RunControl(ctx, verb, *rate, *dry_run); };
    });
  };
  add(AdminVerb::kRepairPause, "pause", "Stop rebuilding for now", "stria rebuild pause");
  add(AdminVerb::kRepairResume, "resume", "Go on after a pause", "stria rebuild resume");
  add(AdminVerb::kRepairLimit, "limit", "Bound the rate of all rebuilds together", "stria rebuild limit 100M");
}

}  // namespace stria::cli
