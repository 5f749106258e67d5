// How the cost of an operation grows with what the store holds: the real operations on the real store, in one process,
// without a sync per operation. tools/bench/run scaling runs it for several sizes and makes tables of it.
//
//   scale_bench names INODES DIR [OPERATIONS] [MEMORY_MIB]    half of the inodes in one directory, half in those of 1,000
//   scale_bench extents EXTENTS DIR [OPERATIONS] [MEMORY_MIB] per file; as many files as that the measuring changes little
//
// DIR must not exist; it is removed at the end. One JSON object per line: {"progress": 0..1}, {"row", "unit", "value"}
// and, for times, "cpu": microseconds of this thread's CPU beside those of the clock; RocksDB's threads are in neither. Most
// are the lower quartiles of small batches, so that what else the machine does falls out.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exec/pool.h"
#include "common/exec/sim_run.h"
#include "common/kv/rocks_kv.h"
#include "common/random.h"
#include "meta/ops/ops.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr uint64_t kBatch = 50;              // operations per sample
constexpr uint64_t kRounds = 20;             // in which kinds of operations take turns: a slow moment hits all of them
constexpr uint64_t kReadsPerWrite = 4;       // of what is cheap there is more
constexpr uint64_t kFilesPerDir = 1000;
constexpr uint64_t kPageEntries = 256;
constexpr uint64_t kSyncEvery = 100'000;     // operations: ids come from ranges that a sync makes usable
constexpr uint64_t kExtentBytes = 64 * kKiB;
constexpr uint64_t kExtentsPerStripe = 64;
constexpr uint32_t kTargets = 20;
constexpr double kTrimLimitS = 60;           // what takes longer is cut short, and the mean is that of what was done

int64_t ClockNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}
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

// What a quarter of them is below: the rest is disturbed by what else the machine does, more or less.
double Quartile(std::vector<double> v) {
  if (v.empty()) return 0;
  const size_t at = v.size() / 4;
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(at), v.end());
  return v[at];
}

struct Work {
  std::string row;
  uint64_t count = 0;
  std::function<void(uint64_t)> call;  // with 0 .. count-1
};

// Lower quartiles over batches, per call.
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

// A long run of pieces, each of which does several things; the mean, as the pieces differ.
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

class Store {
 public:
  Store(std::string dir, uint64_t memory_bytes) : dir_(std::move(dir)), memory_(RocksMemory::Make(memory_bytes)) {
    CHECK(!std::filesystem::exists(dir_), "the directory is there already");
    std::filesystem::create_directories(dir_);
    Open();
    Format();
    ctx_.session = SessionId(7);
    ctx_.now_ns = 5000;
    ctx_.touched = &touched_;
  }
  ~Store() {
    store_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Open() {
    store_.reset();
    RocksKvOptions options;
    options.memory = memory_;
    options.prefix_bytes = FamilyPrefixBytes();
    std::unique_ptr<RocksKv> kv = RocksKv::Open(dir_ + "/kv", FamilyNames(), options, pool_).value();
    kv_ = kv.get();
    store_ = RunSim(ex_, MetaStore::Open(std::move(kv))).value();
  }
  void Sync() {
    CHECK(RunSim(ex_, store_->Sync()).ok());
    since_sync_ = 0;
  }
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
  void Settle() {
    Sync();
    CHECK(kv_->Flush().ok());
  }
  void PrintSizes(const std::string& what, uint64_t count) {
    CHECK(kv_->Flush().ok());
    uint64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    PrintRow("resident memory", "MiB", static_cast<double>(resident * static_cast<uint64_t>(getpagesize())) / kMiB);
    PrintRow("tables on disk", "MiB", static_cast<double>(kv_->disk_bytes()) / kMiB);
    PrintRow("bytes on disk per " + what, "B", static_cast<double>(kv_->disk_bytes()) / static_cast<double>(count));
  }

  const OpCtx& ctx() const { return ctx_; }
  Touched* touched() { return &touched_; }

 private:
  void Format() {
    Do([&](Txn& t) { return FormatStore(t, {Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000}); });
    Sync();
  }

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

struct Params {
  uint64_t size = 0;
  std::string dir;
  uint64_t operations = 0;
  uint64_t memory_bytes = 0;
};

// i -> another number below n, each once: neither the order of creation nor that of the keys.
uint64_t Shuffled(uint64_t i, uint64_t n) {
  uint64_t step = 2'654'435'761 % n | 1;
  while (std::gcd(step, n) != 1) step += 2;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step + n / 3) % n);
}

std::string Name(const char* kind, uint64_t i) { return kind + std::to_string(i); }

// ---- Names ----

class Names {
 public:
  explicit Names(const Params& p)
      : p_(p),
        dirs_(std::max<uint64_t>(1, p.size / 2 / kFilesPerDir)),
        per_dir_(p.size / 2 / dirs_),
        in_big_(p.size - dirs_ * per_dir_),
        count_(std::max<uint64_t>(1, std::min(p.operations, in_big_ / 8))),
        store_(p.dir, p.memory_bytes) {}

  void Run() {
    Fill();
    Measures();
    store_.PrintSizes("inode", p_.size);
    PrintProgress(0.6);
    Total open;
    open.Time([&] { return store_.Open(), true; });
    PrintRow("open the store", "ms", open.seconds() * 1e3);
    Empty();
  }

 private:
  InodeId Make(InodeId parent, std::string name, FileType type) {
    MakeNodeRequest r;
    r.parent = parent;
    r.name = std::move(name);
    r.type = type;
    r.mode = 0755;
    return store_.Do([&](Txn& t) { return OpMakeNode(t, store_.ctx(), r); }).node.attr.ino;
  }
  NameRequest At(InodeId parent, std::string name) {
    NameRequest r;
    r.parent = parent;
    r.name = std::move(name);
    return r;
  }
  NodeReply Lookup(InodeId parent, std::string name) {
    return store_.Do([&](Txn& t) { return OpLookup(t, store_.ctx(), At(parent, std::move(name))); });
  }
  ReadDirReply ReadDir(InodeId dir, uint64_t cookie, uint32_t limit, bool attrs) {
    ReadDirRequest r;
    r.ino = dir;
    r.cookie = cookie;
    r.limit = limit;
    r.with_attrs = attrs;
    return store_.Do([&](Txn& t) { return OpReadDir(t, store_.ctx(), r); });
  }
  uint64_t ReadAll(InodeId dir, bool attrs, Total* total) {
    uint64_t entries = 0, cookie = 0;
    for (bool end = false; !end;) {
      const auto read = [&] { return ReadDir(dir, cookie, 1000, attrs); };
      const ReadDirReply page = total ? total->Time(read) : read();
      entries += page.entries.size();
      end = page.end;
      if (!page.entries.empty()) cookie = page.entries.back().cookie;
    }
    return entries;
  }
  void Unlink(uint64_t i) {
    store_.Do([&](Txn& t) { return OpUnlink(t, store_.ctx(), At(big_, Name("file", Shuffled(i, in_big_)))); });
  }

  // Numbers of inodes are given in the order of creation, so that none needs to be remembered here.
  void Fill() {
    Total total;
    big_ = Make(kRootInode, "big", FileType::kDirectory);
    for (uint64_t i = 0; i < in_big_; ++i) {
      const InodeId ino = total.Time([&] { return Make(big_, Name("file", i), FileType::kFile); });
      CHECK(ino.v == big_.v + 1 + i);
      Progress(i);
    }
    for (uint64_t d = 0; d < dirs_; ++d) {
      const InodeId dir = Make(kRootInode, Name("dir", d), FileType::kDirectory);
      CHECK(dir == Dir(d));
      for (uint64_t i = 0; i < per_dir_; ++i) {
        total.Time([&] { return Make(dir, Name("file", i), FileType::kFile); });
        Progress(in_big_ + d * per_dir_ + i);
      }
    }
    total.Print("create, mean of the filling", p_.size);
    store_.Settle();
  }
  void Progress(uint64_t made) {
    if (made % 10'000 == 0) PrintProgress(0.5 * static_cast<double>(made) / static_cast<double>(p_.size));
  }
  InodeId Dir(uint64_t d) const { return InodeId(big_.v + 1 + in_big_ + d * (per_dir_ + 1)); }

  void Measures() {
    // All that is in the cache that has room there, at any size.
    for (uint64_t d = 0; d < dirs_; ++d) ReadAll(Dir(d), true, nullptr);
    ReadAll(big_, true, nullptr);
    Total whole;
    const uint64_t entries = ReadAll(big_, false, &whole);
    CHECK(entries == in_big_);
    PrintProgress(0.55);

    Random rng(p_.size);
    // Of those that are neither renamed nor removed meanwhile.
    const auto any = [&] { return Shuffled(2 * count_ + rng.Below(in_big_ - 2 * count_), in_big_); };
    const uint64_t reads = kReadsPerWrite * p_.operations;
    Measure({
        {"lookup in a directory of half of all", reads, [&](uint64_t) { Lookup(big_, Name("file", any())); }},
        {"lookup in one of many directories", reads,
         [&](uint64_t) { Lookup(Dir(rng.Below(dirs_)), Name("file", rng.Below(per_dir_))); }},
        {"lookup of a name that is not there", reads,
         [&](uint64_t i) {
           CHECK(store_.Try([&](Txn& t) { return OpLookup(t, store_.ctx(), At(big_, Name("none", i))); }).code() ==
                 FsError::kNoEnt);
         }},
        {"getattr", reads,
         [&](uint64_t) {
           InodeRequest r;
           r.ino = InodeId(big_.v + 1 + any());
           store_.Do([&](Txn& t) { return OpGetAttr(t, store_.ctx(), r); });
         }},
        {"getattr of the same 1,000", reads,  // what is left when the processor's caches have what it needs
         [&](uint64_t) {
           InodeRequest r;
           r.ino = Dir(dirs_ / 2);
           r.ino.v += 1 + rng.Below(std::min<uint64_t>(per_dir_, 1000));
           store_.Do([&](Txn& t) { return OpGetAttr(t, store_.ctx(), r); });
         }},
        {"readdir, page of 256 with attributes", std::max<uint64_t>(kRounds, p_.operations / 50),
         [&](uint64_t) { ReadDir(big_, rng.Next() >> 2 & ~uint64_t{0xff}, kPageEntries, true); }},
        {"create", count_, [&](uint64_t i) { Make(big_, Name("new", i), FileType::kFile); }},
        {"rename", count_,
         [&](uint64_t i) {
           RenameRequest r;
           r.parent = r.new_parent = big_;
           r.name = Name("file", Shuffled(i, in_big_));
           r.new_name = Name("moved", i);
           store_.Do([&](Txn& t) { return OpRename(t, store_.ctx(), r); });
         }},
        {"unlink", count_, [&](uint64_t i) { Unlink(count_ + i); }},
    });
    whole.Print("readdir of all, per entry", entries);
  }

  // What was deleted must not be in the way of what comes after it.
  void Empty() {
    Total total;
    uint64_t removed = 0;
    const auto remove = [&](const std::string& name) {
      total.Time([&] { return store_.Do([&](Txn& t) { return OpUnlink(t, store_.ctx(), At(big_, name)); }); });
      if (++removed % 10'000 == 0)
        PrintProgress(0.6 + 0.4 * static_cast<double>(removed) / static_cast<double>(in_big_));
    };
    for (uint64_t i = 0; i < count_; ++i) remove(Name("new", i));
    for (uint64_t i = 0; i < count_; ++i) remove(Name("moved", i));
    for (uint64_t i = 2 * count_; i < in_big_; ++i) remove(Name("file", Shuffled(i, in_big_)));
    total.Print("unlink of all, mean", removed);
    Make(big_, "one", FileType::kFile);
    Measure({{"readdir of one name where all others were", 3,
              [&](uint64_t) { CHECK(ReadDir(big_, 0, kPageEntries, true).entries.size() == 1); }}});
    Measure({{"create where they were", count_, [&](uint64_t i) { Make(big_, Name("again", i), FileType::kFile); }}});
  }

  const Params p_;
  const uint64_t dirs_, per_dir_, in_big_;
  const uint64_t count_;  // of operations that use names up
  Store store_;
  InodeId big_;
};

// ---- Extents ----

class Extents {
 public:
  explicit Extents(const Params& p)
      : p_(p),
        // A tenth more extents at most, one at least: what is measured is a file of so many.
        files_(DivCeil(p.operations, std::max<uint64_t>(1, p.size / 10))),
        store_(p.dir, p.memory_bytes) {}

  void Run() {
    Fill();
    Measures();
    store_.PrintSizes("extent", files_ * p_.size);
    PrintProgress(0.5);
    if (!TruncateAll()) return;
    PrintProgress(0.7);
    if (!UnlinkAll()) return;
    PrintProgress(0.9);
    CollectGarbage();
  }

 private:
  StripeInfo Stripe(InodeId ino, uint64_t bytes) {
    NewStripe s;
    s.shape = {.k = 4, .m = 1, .codec = Codec::kXor};
    for (uint32_t i = 0; i < s.shape.columns(); ++i) s.targets.push_back(TargetId((stripes_ + i) % kTargets + 1));
    ++stripes_;
    StripeInfo info = store_.Do([&](Txn& t) { return OpAllocate(t, store_.ctx(), ino, Layout(), {s}); })[0];
    info.shape.payload_bytes = bytes;
    for (uint32_t i = 0; i < info.columns.size(); ++i) {
      Column& c = info.columns[i];
      c.length = ColumnBytes(info.shape, ColumnIndex(static_cast<uint16_t>(i)));
      if (c.length == 0) c = Column();
      c.digest = c.shard.v;
    }
    return info;
  }
  // `n` extents from `from` on in a stripe of their own, none of which continues its neighbour.
  void Write(uint64_t file, uint64_t from, uint64_t n) {
    CommitRequest r;
    r.ino = InodeId(first_.v + file);
    r.stripes = {Stripe(r.ino, n * kExtentBytes)};
    for (uint64_t i = 0; i < n; ++i) {
      Extent e;
      e.file_offset = (from + i) * kExtentBytes;
      e.length = kExtentBytes;
      e.stripe = r.stripes[0].id;
      e.stripe_offset = (n - 1 - i) * kExtentBytes;
      r.extents.push_back(std::move(e));
    }
    store_.Do([&](Txn& t) { return OpCommit(t, store_.ctx(), r); });
  }
  GetExtentsReply Get(uint64_t file, uint64_t extent, uint64_t n) {
    GetExtentsRequest r;
    r.ino = InodeId(first_.v + file);
    r.offset = extent * kExtentBytes;
    r.length = n * kExtentBytes;
    return store_.Do([&](Txn& t) { return OpGetExtents(t, store_.ctx(), r); });
  }
  bool Truncate(uint64_t file, uint64_t extents) {
    SetAttrRequest r;
    r.ino = InodeId(first_.v + file);
    r.size = extents * kExtentBytes;
    store_.Do([&](Txn& t) { return OpSetAttr(t, store_.ctx(), r); });
    return !store_.touched()->trim.empty();
  }

  void Fill() {
    for (uint64_t f = 0; f < files_; ++f) {
      MakeNodeRequest r;
      r.parent = kRootInode;
      r.name = Name("file", f);
      const InodeId ino = store_.Do([&](Txn& t) { return OpMakeNode(t, store_.ctx(), r); }).node.attr.ino;
      if (f == 0) first_ = ino;
      CHECK(ino.v == first_.v + f);
    }
    const uint64_t all = files_ * p_.size;
    uint64_t made = 0;
    for (uint64_t f = 0; f < files_; ++f) {
      for (uint64_t from = 0; from < p_.size; from += kExtentsPerStripe) {
        const uint64_t n = std::min(kExtentsPerStripe, p_.size - from);
        Write(f, from, n);
        if (made / 10'000 != (made + n) / 10'000) PrintProgress(0.4 * static_cast<double>(made) / static_cast<double>(all));
        made += n;
      }
    }
    store_.Settle();
  }

  void Measures() {
    Random rng(p_.size);
    const uint64_t n = p_.size;
    const uint64_t reads = kReadsPerWrite * p_.operations;
    for (uint64_t i = 0; i < reads; ++i) Get(rng.Below(files_), rng.Below(n), 1);  // warm
    std::vector<Work> all = {
        {"GetExtents of 64 KiB at random", reads,
         [&](uint64_t) { CHECK(Get(rng.Below(files_), rng.Below(n), 1).extents.size() == 1); }},
        {"append an extent: allocate, commit", p_.operations, [&](uint64_t i) { Write(i % files_, n + i / files_, 1); }},
        {"replace an extent: allocate, commit", p_.operations,
         [&](uint64_t) { Write(rng.Below(files_), rng.Below(n), 1); }},
    };
    if (n >= kExtentsPerStripe) {
      all.push_back({"GetExtents of 64 extents at random", p_.operations / 10, [&](uint64_t) {
                       const uint64_t from = rng.Below(n - kExtentsPerStripe + 1);
                       CHECK(Get(rng.Below(files_), from, kExtentsPerStripe).extents.size() == kExtentsPerStripe);
                     }});
    }
    if (n >= kMaxExtentsPerReply) {
      all.push_back({"GetExtents of a page of 4,096 at most", std::max(kRounds, p_.operations / 200), [&](uint64_t) {
                       Get(rng.Below(files_), rng.Below(n - kMaxExtentsPerReply + 1), n);
                     }});
    }
    Measure(all);
    Measure({{"cut off the last extent", p_.operations, [&](uint64_t i) {
                const uint64_t in_file = (p_.operations - i % files_ - 1) / files_ + 1;  // appended to it
                CHECK(!Truncate(i % files_, n + in_file - 1 - i / files_));
              }}});
  }

  uint64_t ExtentsOf(InodeId ino) {
    const auto rec = store_.Do([&](Txn& t) { return t.Read<InodeRecord>(InodeKey(ino)); });
    return rec ? rec->extent_count : 0;
  }
  // The call, and what it leaves, in steps as the service takes them. False: not all of it could be done in time.
  bool Remove(const std::string& what, const std::function<bool(uint64_t)>& begin) {
    Total call, all;
    uint64_t done = 0;
    bool in_time = true;
    for (uint64_t f = 0; f < files_ && in_time; ++f) {
      const InodeId ino(first_.v + f);
      const uint64_t before = ExtentsOf(ino);
      bool more = all.Time([&] { return call.Time([&] { return begin(f); }); });
      for (; more && in_time; in_time = all.seconds() < kTrimLimitS) {
        more = all.Time([&] { return store_.Do([&](Txn& t) { return TrimStep(t, ino, store_.touched()); }); });
      }
      done += before - ExtentsOf(ino);
    }
    call.Print(what + ": the call, one transaction", files_);
    all.Print(what + ": all of it, per extent", done);
    all.PrintLongest(what + ": longest step");
    if (!in_time) std::fprintf(stderr, "scale_bench: %s: not done within %.0f s\n", what.c_str(), kTrimLimitS);
    return in_time;
  }
  bool TruncateAll() {
    return p_.size < 2 || Remove("truncate to half", [&](uint64_t f) { return Truncate(f, p_.size / 2); });
  }
  bool UnlinkAll() {
    return Remove("unlink", [&](uint64_t f) {
      NameRequest r;
      r.parent = kRootInode;
      r.name = Name("file", f);
      store_.Do([&](Txn& t) { return OpUnlink(t, store_.ctx(), r); });
      return !store_.touched()->trim.empty();
    });
  }

  // As data servers ask for what to delete, page by page.
  void CollectGarbage() {
    constexpr GarbageUpTo kAll{CommitSeq(UINT64_MAX), CommitSeq(UINT64_MAX)};
    Total total;
    uint64_t shards = 0;
    for (uint32_t target = 1; target <= kTargets; ++target) {
      ShardId after;
      for (bool end = false; !end;) {
        end = total.Time([&] {
          return store_.Do([&](Txn& t) -> Result<bool> {
            ASSIGN_OR_RETURN(const GarbagePage page, ListGarbage(t, TargetId(target), after, kAll, 256));
            for (const GarbageShard& g : page.shards) {
              RETURN_IF_ERROR(OpGarbageDeleted(t, TargetId(target), g.shard));
              ++shards;
            }
            after = page.last;
            return page.end;
          });
        });
      }
    }
    total.Print("collect garbage, per shard", shards);
    PrintRow("shards that were garbage", "", static_cast<double>(shards));
    Measure({{"look for garbage where all was collected", 5 * kTargets, [&](uint64_t i) {
                const TargetId target(static_cast<uint32_t>(i) % kTargets + 1);
                store_.Do([&](Txn& t) { return ListGarbage(t, target, ShardId(), kAll, 256); });
              }}});
  }

  const Params p_;
  const uint64_t files_;
  Store store_;
  InodeId first_;
  uint64_t stripes_ = 0;
};

int Main(int argc, char** argv) {
  const std::string what = argc >= 4 ? argv[1] : "";
  if (what != "names" && what != "extents") {
    std::fprintf(stderr, "usage: scale_bench names|extents NUMBER DIR [OPERATIONS] [MEMORY_MIB]\n");
    return 64;
  }
  Params p;
  p.size = std::strtoull(argv[2], nullptr, 10);
  p.dir = argv[3];
  p.operations = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 5000;
  p.memory_bytes = (argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 512) * kMiB;  // 512 MiB: that of stria-meta
  const uint64_t least = what == "names" ? 1000 : 1;
  if (p.size < least || p.operations < 100) {
    std::fprintf(stderr, "scale_bench: at least %llu of them and 100 operations\n", static_cast<unsigned long long>(least));
    return 64;
  }
  if (what == "names") Names(p).Run();
  else Extents(p).Run();
  PrintProgress(1);
  return 0;
}

}  // namespace
}  // namespace stria

int main(int argc, char** argv) { return stria::Main(argc, argv); }
