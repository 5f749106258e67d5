// stria events [--follow], stria watch
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "common/printable.h"
#include "common/quantity.h"
#include "common/sentence.h"
#include "tools/cli/context.h"
#include "tools/cli/events.h"
#include "tools/cli/receiver.h"

namespace stria::cli {
namespace {

constexpr int64_t kWaitNs = 10 * kSecond;  // of one call that waits for the next event
constexpr auto kAskAgain = std::chrono::seconds(2);
constexpr auto kSlice = std::chrono::milliseconds(100);

struct EventsArgs {
  std::string since = "1d";
  std::string severity = "note";
  bool follow = false;
};

struct WatchArgs {
  std::string mail;
  std::string exec;
  std::string state = "/var/lib/stria-watch/state";
  std::string severity = "note";
  std::string sendmail;
  int patience_s = 60;
};

Result<ReadEventsReply> AskEvents(ClusterClient& client, ReadEventsRequest request) {
  return client.CallAdmin<ReadEventsReply>("events", [request](AdminService& admin, OpHeader header) {
    ReadEventsRequest r = request;
    r.header = std::move(header);
    return admin.ReadEvents(std::move(r));
  });
}

void Print(const Context& ctx, const std::vector<ClusterEvent>& events) {
  if (!ctx.json) {
    *ctx.out << RenderEvents(events) << std::flush;
    return;
  }
  for (const ClusterEvent& e : events) *ctx.out << DumpLine(EventJson(e)) << std::flush;
}

int RunEvents(const Context& ctx, const EventsArgs& args) {
  const Result<int64_t> age = ParseDuration(args.since);
  if (!age.ok()) return ctx.Fail(age.error().WithContext("--since"));
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  ReadEventsRequest r;
  r.since_ns = WallclockNs() - *age;
  r.least = *SeverityOf(args.severity);
  std::vector<ClusterEvent> all;
  for (bool more = true; more;) {
    auto page = AskEvents(**client, r);
    if (!page.ok()) return ctx.Fail(page.error());
    std::ranges::move(page->events, std::back_inserter(all));
    r.after = page->next;
    more = page->more;
  }
  if (!args.follow) {
    if (ctx.json) {
      Json list = Json::array();
      for (const ClusterEvent& e : all) list.push_back(EventJson(e));
      *ctx.out << Dump({{"events", list}});
    } else {
      *ctx.out << (all.empty() ? "nothing happened\n" : RenderEvents(all));
    }
    return kExitOk;
  }
  Print(ctx, all);
  r.wait_ns = kWaitNs;
  (*client)->set_progress(nullptr);
  for (bool away = false; ctx.out->good();) {
    const int64_t asked_ns = BoottimeNs();
    const auto page = AskEvents(**client, r);
    if (!page.ok()) {
      if (!IsRetryable(page.code()) && page.code() != FsError::kNotReady && page.code() != FsError::kRetryLater) return ctx.Fail(page.error());
      if (!std::exchange(away, true)) *ctx.err << "stria: " << Printable(SentenceOf(page.error())) << "; it is asked again and again\n" << std::flush;
      std::this_thread::sleep_for(kAskAgain);
      continue;
    }
    away = false;
    r.after = page->next;
    Print(ctx, page->events);
    // A server that lets nobody else wait just now answers at once.
    if (page->events.empty() && BoottimeNs() - asked_ns < kWaitNs / 2) std::this_thread::sleep_for(kAskAgain);
  }
  return kExitOk;
}

// ---- stria watch

volatile sig_atomic_t stop_asked = 0;  // a receiver runs: what it does is remembered first
volatile sig_atomic_t delivering = 0;

void OnStop(int) {
  if (!delivering) _exit(kExitOk);
  stop_asked = 1;
}

class Watching {
 public:
  Watching(const Context& ctx, const WatchArgs& args) : ctx_(ctx), args_(args) {}

  int Run() {
    if (args_.mail.empty() && args_.exec.empty()) return ctx_.Fail(kExitUsage, Error(FsError::kInval, "nobody is to be told: give --mail or --exec"));
    if (!args_.mail.empty()) {
      if (const auto ok = CheckMailAddress(args_.mail); !ok.ok()) return ctx_.Fail(kExitUsage, ok.error());
      sendmail_ = args_.sendmail.empty() ? FirstProgram({"/usr/sbin/sendmail", "/usr/lib/sendmail"}) : args_.sendmail;
      mail_ = FirstProgram({"/usr/bin/mail", "/usr/bin/mailx"});
      if (sendmail_.empty() && mail_.empty()) {
        return ctx_.Fail(kExitSoftware, Error(FsError::kNoEnt, "no mail can be sent: install what has /usr/sbin/sendmail (postfix, msmtp-mta) or mail(1)"));
      }
    }
    if (!args_.exec.empty() && args_.exec[0] != '/') {
      return ctx_.Fail(kExitUsage, Error(FsError::kInval, "--exec wants a whole path, not '" + Printable(args_.exec) + "'"));
    }
    const Result<std::string> stored = ReadStateFile(args_.state);
    if (!stored.ok()) return ctx_.Fail(stored.error());
    if (!stored->empty()) {
      const Result<WatchState> state = DecodeWatchState(*stored);
      if (!state.ok()) return ctx_.Fail(state.error().WithContext(args_.state));
      state_ = *state;
      has_state_ = true;
    }
    auto client = ctx_.Connect();
    if (!client.ok()) return ctx_.Fail(client.error());
    (*client)->set_progress(nullptr);
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    host_ = host;
    struct sigaction stop {};
    stop.sa_handler = OnStop;
    ::sigaction(SIGTERM, &stop, nullptr);
    ::sigaction(SIGINT, &stop, nullptr);
    return Follow(**client);
  }

 private:
  int Follow(ClusterClient& client) {
    AwayWatch away(state_.away_told, BoottimeNs());
    while (!stop_asked) {
      ReadEventsRequest r;
      r.after = state_.next;
      r.least = *SeverityOf(args_.severity);
      if (has_state_) {
        r.wait_ns = kWaitNs;
      } else {
        r.since_ns = INT64_MAX;  // what happens from now on
      }
      const int64_t asked_ns = BoottimeNs();
      const auto page = AskEvents(client, r);
      if (!page.ok() && page.code() == FsError::kNotSupported) return ctx_.Fail(page.error());
      const std::optional<ClusterEvent> own =
          page.ok() ? away.OnAnswer(BoottimeNs(), WallclockNs()) : away.OnFailure(SentenceOf(page.error()), BoottimeNs(), WallclockNs());
      if (own && !Deliver(*own, [&] { state_.away_told = away.told(); })) break;
      if (!page.ok()) {
        // Once: it may be for want of credentials, which no time mends.
        if (!std::exchange(complained_, true)) *ctx_.err << "stria: " << SentenceOf(page.error()) << std::endl;
        Pause(kAskAgain);
        continue;
      }
      complained_ = false;
      for (const ClusterEvent& e : page->events) {
        if (!Deliver(e, [&] { state_.next = e.seq; })) return failed_;
      }
      if (page->next > state_.next || !has_state_) {
        state_.next = std::max(page->next, state_.next);
        has_state_ = true;
        if (!Save()) break;
      }
      if (r.wait_ns > 0 && page->events.empty() && BoottimeNs() - asked_ns < kWaitNs / 2) Pause(kAskAgain);
    }
    return failed_;
  }

  // To each receiver once, again and again if need be; `then` says so in the state. False: it is to end.
  bool Deliver(const ClusterEvent& e, const std::function<void()>& then) {
    delivering = 1;
    for (const bool by_mail : {true, false}) {
      if ((by_mail ? args_.mail : args_.exec).empty()) continue;
      for (int failures = 0;;) {
        const Result<void> done = by_mail ? Mail(e) : Exec(e);
        if (done.ok()) break;
        const auto again_ns = RetryAfterNs(++failures);
        *ctx_.err << "stria: event " << e.seq << " (" << Printable(e.kind) << " of " << Printable(e.subject) << ") was not delivered: " << Printable(SentenceOf(done.error()))
                  << (again_ns ? "; it is tried again" : "; it is left out") << "\n"
                  << std::flush;
        if (!again_ns) break;
        Pause(std::chrono::nanoseconds(*again_ns));
        if (stop_asked) return false;
      }
    }
    then();
    const bool saved = !has_state_ || Save();  // without a state it begins with what happens from now on, also the next time
    delivering = 0;
    return saved && !stop_asked;
  }

  Result<void> Mail(const ClusterEvent& e) {
    const std::string text = EventMail(e, args_.mail, host_);
    if (!sendmail_.empty()) return RunReceiver({sendmail_, "-t", "-i"}, {}, text, Patience());
    return RunReceiver({mail_, "-s", EventSubject(e), args_.mail}, {}, text.substr(text.find("\n\n") + 2), Patience());
  }
  Result<void> Exec(const ClusterEvent& e) { return RunReceiver({args_.exec}, EventEnvironment(e), DumpLine(EventJson(e)), Patience()); }
  int64_t Patience() const { return args_.patience_s * kSecond; }

  bool Save() {
    const auto saved = WriteStateFile(args_.state, EncodeWatchState(state_));
    if (saved.ok()) return true;
    failed_ = ctx_.Fail(saved.error().WithContext("what was delivered cannot be remembered"));
    return false;
  }
  static void Pause(std::chrono::nanoseconds time) {
    for (const auto until = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < until && !stop_asked;) {
      std::this_thread::sleep_for(kSlice);
    }
  }

  const Context& ctx_;
  const WatchArgs& args_;
  std::string sendmail_, mail_, host_;
  WatchState state_;
  bool has_state_ = false;
  bool complained_ = false;  // of calls that fail, since the last that did not
  int failed_ = kExitOk;
};

const std::vector<std::string> kSeverities = {"note", "warning", "critical"};

}  // namespace

void AddEventVerbs(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<EventsArgs>();
  CLI::App* events = app.add_subcommand("events", "What happened to the cluster, each change once");
  events->add_option("--since", args->since, "How far back, as 2d or 3h (default 1d)");
  events->add_flag("--follow,-f", args->follow, "Go on with what happens from now on; with --json a line each");
  events->add_option("--severity", args->severity, "Only these and worse: note, warning, critical (default note)")->check(CLI::IsMember(kSeverities));
  AddCommon(events, ctx, "stria events --since 2d --severity warning");
  events->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunEvents(ctx, *args); }; });

  auto watched = std::make_shared<WatchArgs>();
  CLI::App* watch = app.add_subcommand("watch", "Tell of each event once, by mail or by a program; goes on until it is ended");
  watch->add_option("--mail", watched->mail, "Address to send mail to");
  watch->add_option("--exec", watched->exec, "Program to run: STRIA_EVENT_KIND and so on are in its environment, JSON is its input");
  watch->add_option("--state", watched->state, "File that remembers what was told (default /var/lib/stria-watch/state)");
  watch->add_option("--severity", watched->severity, "Only these and worse: note, warning, critical (default note)")->check(CLI::IsMember(kSeverities));
  watch->add_option("--sendmail", watched->sendmail, "Program that sends mail, as sendmail(8) does with -t -i");
  watch->add_option("--patience", watched->patience_s, "Seconds that mail or program may take (default 60)")->check(CLI::Range(1, 3600));
  AddCommon(watch, ctx, "stria watch --mail root --exec /usr/local/sbin/page-me");
  watch->callback([&ctx, watched] { ctx.run = [&ctx, watched] { return Watching(ctx, *watched).Run(); }; });
}

}  // namespace stria::cli
