// Operations on the extents of files that have many.
#include <algorithm>
#include <utility>

#include "common/random.h"
#include "meta/ops/scale_bench.h"
#include "stripe/layout.h"

namespace stria::scale {
namespace {

constexpr uint64_t kExtentBytes = 64 * kKiB;
constexpr uint64_t kExtentsPerStripe = 64;
constexpr uint32_t kTargets = 20;
constexpr double kTrimLimitS = 60;  // longer runs are cut short, and the mean is of the part that was done

class Extents {
 public:
  explicit Extents(const Params& p)
      : p_(p),
        // At most a tenth more extents, at least one: the measured file keeps about its size.
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
  // `n` extents from `from` on in a stripe of their own; none continues its neighbour.
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
  // The call and its trims, in steps as the service takes them. False: not all of it could be done in time.
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

  // As data servers ask for garbage, page by page.
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

}  // namespace

void BenchExtents(const Params& p) { Extents(p).Run(); }

}  // namespace stria::scale
