// Operations on names, in one directory with half of the inodes and in many.
#include <algorithm>
#include <utility>

#include "common/random.h"
#include "meta/ops/scale_bench.h"

namespace stria::scale {
namespace {

constexpr uint64_t kFilesPerDir = 1000;
constexpr uint64_t kPageEntries = 256;

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
    // Names that are neither renamed nor removed meanwhile.
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
        {"getattr of the same 1,000", reads,  // the cost when the processor's caches have the data
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

  // Deletions must not slow down what comes next.
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

}  // namespace

void BenchNames(const Params& p) { Names(p).Run(); }

}  // namespace stria::scale
