// The common part of scale_bench's benches: the store they fill, and how operations on it are measured. One thread.
#ifndef STRIA_META_OPS_SCALE_BENCH_H_
#define STRIA_META_OPS_SCALE_BENCH_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exec/pool.h"
#include "common/exec/sim_run.h"
#include "common/kv/rocks_kv.h"
#include "meta/ops/ops.h"

namespace stria::scale {

inline constexpr uint64_t kRounds = 20;             // in which kinds of operations take turns: a slow moment hits all of them
inline constexpr uint64_t kReadsPerWrite = 4;       // cheap operations are measured more often
inline constexpr uint64_t kSyncEvery = 100'000;     // operations: ids come from ranges that a sync makes usable

struct Params {
  uint64_t size = 0;  // inodes, or extents of each file
  std::string dir;    // must not exist
  uint64_t operations = 0;
  uint64_t memory_bytes = 0;
};

void BenchNames(const Params& p);
void BenchExtents(const Params& p);

// ---- Output, as in scale_bench_main.cc ----

void PrintRow(const std::string& row, const std::string& unit, double value);
void PrintTime(const std::string& row, double wall_us, double cpu_us);
void PrintProgress(double done);

// ---- Measuring ----

int64_t WallNs();
int64_t CpuNs();  // of this thread

struct Work {
  std::string row;
  uint64_t count = 0;
  std::function<void(uint64_t)> call;  // with 0 .. count-1
};

// Lower quartiles over batches, per call.
void Measure(const std::vector<Work>& all);

// A long run of pieces of several operations; the mean, because pieces differ.
class Total {
 public:
  template <class F>
  auto Time(F fn) {
    const int64_t wall_ns = WallNs(), cpu_ns = CpuNs();
    auto result = fn();
    const int64_t used_ns = CpuNs() - cpu_ns;
    wall_ns_ += WallNs() - wall_ns;
    cpu_ns_ += used_ns;
    longest_cpu_ns_ = std::max(longest_cpu_ns_, used_ns);
    return result;
  }
  void Print(const std::string& row, uint64_t pieces) const {
    const double n = 1e3 * static_cast<double>(std::max<uint64_t>(pieces, 1));
    PrintTime(row, static_cast<double>(wall_ns_) / n, static_cast<double>(cpu_ns_) / n);
  }
  void PrintLongest(const std::string& row) const {
    PrintRow(row, "ms", static_cast<double>(longest_cpu_ns_) / 1e6);
  }
  double seconds() const { return static_cast<double>(wall_ns_) / 1e9; }

 private:
  int64_t wall_ns_ = 0;
  int64_t cpu_ns_ = 0;
  int64_t longest_cpu_ns_ = 0;
};

// ---- Measurements ----

// In a directory that must not exist, and is removed with it.
class Store {
 public:
  Store(std::string dir, uint64_t memory_bytes);
  ~Store();

  void Open();
  void Sync();
  // An operation in a transaction of its own, as the service makes them.
  template <class F>
  auto Try(F fn) {
    if (++since_sync_ == kSyncEvery) Sync();
    touched_ = Touched();
    Txn txn(*store_);
    auto result = fn(txn);
    if (result.ok()) {
      if (const auto seq = txn.Commit(); !seq.ok()) return decltype(result)(seq.error());
    }
    return result;
  }
  template <class F>
  auto Do(F fn) {
    auto result = Try(fn);
    if (!result.ok()) {
      std::fprintf(stderr, "scale_bench: an operation failed: %s\n", result.error().ToString().c_str());
      std::exit(1);
    }
    if constexpr (!std::is_same_v<decltype(result), Result<void>>) return std::move(*result);
  }
  // From here on reads are of tables, as of a store that has been in use for long.
  void Settle();
  void PrintSizes(const std::string& what, uint64_t count);

  const OpCtx& ctx() const { return ctx_; }
  Touched* touched() { return &touched_; }

 private:
  void Format();

  const std::string dir_;
  const std::shared_ptr<RocksMemory> memory_;
  SimExecutor ex_{1};
  InlinePool pool_;
  RocksKv* kv_ = nullptr;
  std::unique_ptr<MetaStore> store_;
  uint64_t since_sync_ = 0;
  OpCtx ctx_;
  Touched touched_;
};

// i -> another number below n, each once, in neither the order of creation nor that of the keys.
uint64_t Shuffled(uint64_t i, uint64_t n);

std::string Name(const char* kind, uint64_t i);

}  // namespace stria::scale

#endif  // STRIA_META_OPS_SCALE_BENCH_H_
