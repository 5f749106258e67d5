// Runs many seeds of the simulator's plans, each in a process of its own, so that one that crashes or
// hangs is a failure like any other. Goes on after failures and lists them in the end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "meta/replica/node_world.h"
#include "meta/replica/replica_world.h"
#include "test/sim/failover.h"
#include "test/sim/replica/replica_model.h"
#include "test/sim/world.h"

namespace stria {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kProgressS = 10;

double Since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Outcome {
  bool passed = false;
  std::string what;
};

// Of any simulator.
struct SoakPlan {
  std::string name;
  std::function<std::string(uint64_t seed)> run;  // "": all held; else what did not, and what happened
};

template <class World, class Options>
std::string RunWorld(uint64_t seed, const Options& options) {
  World world(seed, options);
  const std::string failure = world.RunAll();
  return failure.empty() ? "" : failure + " [" + world.Summary() + "]";
}

std::vector<SoakPlan> SoakPlans() {
  std::vector<SoakPlan> out;
  for (const SimPlan& p : SimPlans()) out.push_back({p.name, [&p](uint64_t seed) { return RunWorld<SimWorld>(seed, p.options); }});
  for (const FailoverPlan& p : FailoverPlans()) out.push_back({p.name, [&p](uint64_t seed) { return RunWorld<FailoverWorld>(seed, p); }});
  // Members among each other: by the rules alone, stores and shipping, and both.
  const auto members = [](uint64_t seed) { return size_t{seed % 3 == 0 ? 2u : 3u}; };
  out.push_back({"ReplicaRules", [](uint64_t seed) { return ReplicaModel(seed).Run(); }});
  out.push_back({"ReplicaStores", [members](uint64_t seed) { return ReplicaWorld(seed, members(seed)).Run(); }});
  out.push_back({"ReplicaNodes", [members](uint64_t seed) { return NodeWorld(seed, members(seed)).Run(); }});
  return out;
}

// In a child: what the plan says, or how the child ended.
Outcome RunSeed(const SoakPlan& plan, uint64_t seed, unsigned limit_s) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {false, "pipe failed"};
  const pid_t child = fork();
  if (child < 0) return {false, "fork failed"};
  if (child == 0) {
    close(pipe_ends[0]);
    alarm(limit_s);
    const std::string text = plan.run(seed);
    const ssize_t n = write(pipe_ends[1], text.data(), std::min<size_t>(text.size(), 60'000));
    _exit(text.empty() ? 0 : n >= 0 ? 1 : 2);
  }
  close(pipe_ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(pipe_ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return {WEXITSTATUS(status) == 0, text};
  if (WTERMSIG(status) == SIGALRM) return {false, "took more than " + std::to_string(limit_s) + " s"};
  return {false, "the process died of signal " + std::to_string(WTERMSIG(status))};
}

std::string Time(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%d:%02d:%02d", static_cast<int>(s) / 3600, static_cast<int>(s) / 60 % 60,
                static_cast<int>(s) % 60);
  return text;
}

int Main(int argc, char** argv) {
  uint64_t seeds = 2000, first = 1;
  unsigned limit_s = 300;
  std::vector<std::string> names;
  CLI::App app("Runs seeds of the simulator, in turn over its plans.", "sim-soak");
  app.footer(
      "STRIA_SIM_TRACE=1 in the environment writes what happens to stderr, a line each with its virtual time: what\n"
      "each client does and is answered, faults and their ends, verbs of the administrator. For one seed:\n"
      "  STRIA_SIM_TRACE=1 tools/sim-soak 1 --plan Raid6 --first 77 2> log");
  app.add_option("seeds", seeds, "How many, over all plans (default 2000)");
  app.add_option("--first", first, "Seed to begin with (default 1)");
  app.add_option("--plan", names, "Only these plans")->delimiter(',');
  app.add_option("--limit", limit_s, "Seconds that one seed may take (default 300)");
  CLI11_PARSE(app, argc, argv);
  const std::vector<SoakPlan> all = SoakPlans();
  std::vector<SoakPlan> plans;
  for (const SoakPlan& p : all) {
    if (names.empty() || std::find(names.begin(), names.end(), p.name) != names.end()) plans.push_back(p);
  }
  for (const std::string& name : names) {
    if (std::ranges::any_of(plans, [&](const SoakPlan& p) { return p.name == name; })) continue;
    std::fprintf(stderr, "sim-soak: there is no plan \"%s\"; there are:", name.c_str());
    for (const SoakPlan& p : all) std::fprintf(stderr, " %s", p.name.c_str());
    std::fprintf(stderr, "\n");
    return 64;
  }
  const bool terminal = isatty(STDERR_FILENO);
  const Clock::time_point start = Clock::now();
  double shown_s = 0;
  std::vector<std::string> failures;
  std::map<std::string, double> seconds;
  for (uint64_t i = 0; i < seeds; ++i) {
    const SoakPlan& plan = plans[i % plans.size()];
    const uint64_t seed = first + i / plans.size();
    const Clock::time_point began = Clock::now();
    const Outcome o = RunSeed(plan, seed, limit_s);
    seconds[plan.name] += Since(began);
    if (!o.passed) {
      failures.push_back(plan.name + " seed " + std::to_string(seed));
      std::printf("%sFAILED %s: %s\n", terminal ? "\r" : "", failures.back().c_str(), o.what.c_str());
      std::fflush(stdout);
    }
    const double elapsed_s = Since(start);
    if (elapsed_s - shown_s < (terminal ? 0.2 : kProgressS) && i + 1 < seeds) continue;
    shown_s = elapsed_s;
    const double rate = static_cast<double>(i + 1) / elapsed_s;
    std::fprintf(stderr, "%s%llu of %llu seeds, %zu failed, %.2f seeds/s, %s left%s", terminal ? "\r" : "",
                 static_cast<unsigned long long>(i + 1), static_cast<unsigned long long>(seeds), failures.size(),
                 rate, Time(static_cast<double>(seeds - i - 1) / rate).c_str(), terminal ? "  " : "\n");
  }
  if (terminal) std::fprintf(stderr, "\n");
  for (const auto& [name, s] : seconds) std::printf("%-18s %8.1f s\n", name.c_str(), s);
  std::printf("%llu passed, %zu failed, seeds %llu to %llu, %s\n",
              static_cast<unsigned long long>(seeds - failures.size()), failures.size(),
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + (seeds + plans.size() - 1) / plans.size() - 1),
              Time(Since(start)).c_str());
  for (const std::string& f : failures) {
    const size_t at = f.find(' ');
    std::printf("  %s: tools/sim-soak 1 --plan %s --first %s  (STRIA_SIM_TRACE=1 shows every step)\n", f.c_str(),
                f.substr(0, at).c_str(), f.substr(f.rfind(' ') + 1).c_str());
  }
  return failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
