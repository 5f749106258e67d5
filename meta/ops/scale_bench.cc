#include "meta/ops/scale_bench.h"

#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

namespace stria::scale {
namespace {

constexpr uint64_t kBatch = 50;  // operations per sample

int64_t ClockNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

// A quarter of the samples is below this; the others are more or less disturbed by other work on the machine.
double Quartile(std::vector<double> v) {
  if (v.empty()) return 0;
  const size_t at = v.size() / 4;
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(at), v.end());
  return v[at];
}

}  // namespace

int64_t WallNs() { return ClockNs(CLOCK_MONOTONIC); }
int64_t CpuNs() { return ClockNs(CLOCK_THREAD_CPUTIME_ID); }

void PrintRow(const std::string& row, const std::string& unit, double value) {
  std::printf("{\"row\": \"%s\", \"unit\": \"%s\", \"value\": %.3f}\n", row.c_str(), unit.c_str(), value);
  std::fflush(stdout);
}
void PrintTime(const std::string& row, double wall_us, double cpu_us) {
  std::printf("{\"row\": \"%s\", \"unit\": \"us\", \"value\": %.3f, \"cpu\": %.3f}\n", row.c_str(), wall_us, cpu_us);
  std::fflush(stdout);
}
void PrintProgress(double done) {
  std::printf("{\"progress\": %.4f}\n", done);
  std::fflush(stdout);
}

void Measure(const std::vector<Work>& all) {
  std::vector<std::vector<double>> wall(all.size()), cpu(all.size());
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (size_t w = 0; w < all.size(); ++w) {
      const uint64_t end = all[w].count * (round + 1) / kRounds;
      for (uint64_t i = all[w].count * round / kRounds; i < end;) {
        const uint64_t n = std::min(kBatch, end - i);
        const int64_t wall_ns = WallNs(), cpu_ns = CpuNs();
        for (const uint64_t batch_end = i + n; i < batch_end; ++i) all[w].call(i);
        cpu[w].push_back(static_cast<double>(CpuNs() - cpu_ns) / 1e3 / static_cast<double>(n));
        wall[w].push_back(static_cast<double>(WallNs() - wall_ns) / 1e3 / static_cast<double>(n));
      }
    }
  }
  for (size_t w = 0; w < all.size(); ++w) PrintTime(all[w].row, Quartile(std::move(wall[w])), Quartile(std::move(cpu[w])));
}

Store::Store(std::string dir, uint64_t memory_bytes) : dir_(std::move(dir)), memory_(RocksMemory::Make(memory_bytes)) {
  CHECK(!std::filesystem::exists(dir_), "the directory is there already");
  std::filesystem::create_directories(dir_);
  Open();
  Format();
  ctx_.session = SessionId(7);
  ctx_.now_ns = 5000;
  ctx_.touched = &touched_;
}

Store::~Store() {
  store_.reset();
  std::filesystem::remove_all(dir_);
}

void Store::Open() {
  store_.reset();
  RocksKvOptions options;
  options.memory = memory_;
  options.prefix_bytes = FamilyPrefixBytes();
  std::unique_ptr<RocksKv> kv = RocksKv::Open(dir_ + "/kv", FamilyNames(), options, pool_).value();
  kv_ = kv.get();
  store_ = RunSim(ex_, MetaStore::Open(std::move(kv))).value();
}

void Store::Sync() {
  CHECK(RunSim(ex_, store_->Sync()).ok());
  since_sync_ = 0;
}

void Store::Settle() {
  Sync();
  CHECK(kv_->Flush().ok());
}

void Store::PrintSizes(const std::string& what, uint64_t count) {
  CHECK(kv_->Flush().ok());
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  PrintRow("resident memory", "MiB", static_cast<double>(resident * static_cast<uint64_t>(getpagesize())) / kMiB);
  PrintRow("tables on disk", "MiB", static_cast<double>(kv_->disk_bytes()) / kMiB);
  PrintRow("bytes on disk per " + what, "B", static_cast<double>(kv_->disk_bytes()) / static_cast<double>(count));
}

void Store::Format() {
  Do([&](Txn& t) { return FormatStore(t, {Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000}); });
  Sync();
}

uint64_t Shuffled(uint64_t i, uint64_t n) {
  uint64_t step = 2'654'435'761 % n | 1;
  while (std::gcd(step, n) != 1) step += 2;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step + n / 3) % n);
}

std::string Name(const char* kind, uint64_t i) { return kind + std::to_string(i); }

}  // namespace stria::scale
