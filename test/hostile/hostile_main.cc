// Many requests of a hostile client, for long runs: tools/fuzz-protocol.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>

#include "test/hostile/campaign.h"

namespace stria {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kProgressS = 10;

std::string Time(double s) {
  char text[32];
  const int n = static_cast<int>(s);
  std::snprintf(text, sizeof text, "%d:%02d:%02d", n / 3600, n / 60 % 60, n % 60);
  return text;
}

int Main(int argc, char** argv) {
  CampaignPlan plan;
  plan.requests = 1'000'000;
  CLI::App app("Sends requests of a hostile client to a simulated cluster.", "fuzz-protocol");
  app.add_option("--requests", plan.requests, "How many (default 1000000)")->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000'000'000}));
  app.add_option("--seed", plan.seed, "Of all that is random (default 1)");
  app.add_option("--wave", plan.wave, "Requests under way together (default 16); 1 tells which one does what is found")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1000}));
  app.add_option("--as", plan.as, "Who sends them: client (default), confined (may read one directory), node (a data server)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Hostile>{{"client", Hostile::kClient}, {"confined", Hostile::kConfined}, {"node", Hostile::kNode}}));
  CLI11_PARSE(app, argc, argv);
#if !__has_feature(address_sanitizer)
  // What grows without bound ends this process, not others of the machine.
  const rlimit most{uint64_t{8} << 30, uint64_t{8} << 30};
  (void)setrlimit(RLIMIT_AS, &most);
#endif
  const bool terminal = isatty(STDERR_FILENO);
  const Clock::time_point start = Clock::now();
  double shown_s = 0;
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::fprintf(stderr, "seed %llu, %llu requests\n", static_cast<unsigned long long>(plan.seed), static_cast<unsigned long long>(plan.requests));
  const CampaignResult r = RunCampaign(plan, [&](uint64_t done) {
    const double s = elapsed();
    if (s - shown_s < (terminal ? 0.2 : kProgressS)) return;
    shown_s = s;
    const double rate = static_cast<double>(done) / s;
    std::fprintf(stderr, "%s%llu of %llu requests, %.0f/s, %s left%s", terminal ? "\r" : "", static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(plan.requests), rate, Time(static_cast<double>(plan.requests - done) / std::max(rate, 1e-9)).c_str(),
                 terminal ? "   " : "\n");
  });
  if (terminal) std::fprintf(stderr, "\n");
  std::printf("%-32s %10s %10s\n", "method", "sent", "taken");
  for (const auto& [method, n] : r.methods) {
    std::printf("%-32s %10llu %10llu\n", method.c_str(), static_cast<unsigned long long>(n.sent), static_cast<unsigned long long>(n.taken));
  }
  std::printf("%llu requests of seed %llu in %s, %llu sessions, %llu MiB of memory at the end\n", static_cast<unsigned long long>(r.requests),
              static_cast<unsigned long long>(plan.seed), Time(elapsed()).c_str(), static_cast<unsigned long long>(r.sessions),
              static_cast<unsigned long long>(r.resident_bytes >> 20));
  if (r.failure.empty()) return 0;
  std::printf("FAILED: %s\n", r.failure.c_str());
  if (!r.last.empty()) std::printf("The requests of the last wave, the last one last:\n");
  for (const std::string& shot : r.last) std::printf("  %s\n", shot.c_str());
  std::printf("Again: tools/fuzz-protocol --seed %llu --requests %llu --wave %llu  (--wave 1 is another run, in which one request has the blame)\n",
              static_cast<unsigned long long>(plan.seed), static_cast<unsigned long long>(r.requests), static_cast<unsigned long long>(plan.wave));
  return 1;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
