// Thousands of random operations against the oracle (model_fs.h), on memory and on RocksDB; then the
// whole trees are compared and the store is checked.
#include "common/random.h"

#include <gtest/gtest.h>

#include "meta/ops/model_fs.h"
#include "meta/ops/test_store.h"

namespace stria {
namespace {

constexpr SessionId kWriter{1};  // has everything open
constexpr SessionId kOther{2};   // has nothing open
constexpr uint64_t kMaxOffset = 3000;

class ModelOpenTable final : public OpenTable {
 public:
  explicit ModelOpenTable(ModelFs& model) : model_(model) {}
  bool IsInUse(SessionId, InodeId ino) const override { return model_.open().contains(ino); }
  bool HasOpen(SessionId session, InodeId ino, bool for_write) const override { return session == kWriter; }

 private:
  ModelFs& model_;
};

class Workload {
 public:
  Workload(StoreKind kind, uint64_t seed) : store_(kind, seed), rng_(seed), model_(1000), open_(model_) {}

  void Steps(int n) {
    for (int i = 0; i < n && !::testing::Test::HasFailure(); ++i) {
      now_ += 1 + static_cast<int64_t>(rng_.Below(1000));
      Step(i);
    }
  }
  void CompareAll();
  TestStore& store() { return store_; }

 private:
  void Step(int i);
  void Make();
  void Remove();
  void Rename();
  void SetAttr();
  void Xattr();
  void Write();
  void Punch();
  void Clone();
  void Open();

  OpCtx Caller(ModelCaller* c, SessionId session) {
    static constexpr uint32_t kUids[] = {0, 0, 10, 11, 12};
    OpCtx ctx;
    ctx.uid = kUids[rng_.Below(5)];
    ctx.gid = static_cast<uint32_t>(100 + rng_.Below(2));
    if (rng_.OneIn(2)) ctx.groups.push_back(static_cast<uint32_t>(100 + rng_.Below(4)));
    ctx.now_ns = now_;
    ctx.session = session;
    ctx.open = &open_;
    touched_ = Touched();
    ctx.touched = &touched_;
    *c = ModelCaller{ctx.uid, ctx.gid, {ctx.groups.begin(), ctx.groups.end()}, now_};
    return ctx;
  }
  InodeId AnyNode() {
    auto it = model_.nodes().lower_bound(InodeId(rng_.Below(model_.nodes().rbegin()->first.v + 2)));
    return it == model_.nodes().end() ? kRootInode : it->first;
  }
  InodeId AnyDir() {
    for (int i = 0; i < 8; ++i) {
      const InodeId ino = AnyNode();
      if (model_.Find(ino)->IsDir()) return ino;
    }
    return kRootInode;
  }
  std::string AnyName(InodeId dir, bool existing) {
    if (rng_.OneIn(100)) return std::string(256, 'x');
    if (rng_.OneIn(60)) return rng_.OneIn(2) ? "." : "..";
    const auto& entries = model_.Find(dir)->entries;
    if (existing && !entries.empty() && !rng_.OneIn(8)) {
      return std::next(entries.begin(), static_cast<ptrdiff_t>(rng_.Below(entries.size())))->first;
    }
    return "n" + std::to_string(rng_.Below(12));
  }
  uint32_t AnyMode() {
    uint32_t mode = rng_.OneIn(3) ? 0777 : static_cast<uint32_t>(rng_.Below(01000));
    if (rng_.OneIn(4)) mode |= static_cast<uint32_t>(rng_.Below(8)) << 9;
    return mode;
  }
  // Commits if the operation succeeded; compares the outcomes.
  template <class T>
  bool Outcome(Txn& txn, const Result<T>& result, FsError expected, const char* what) {
    EXPECT_EQ(result.code(), expected) << what << ": " << result.error();
    if (result.ok()) {
      auto seq = txn.Commit();
      EXPECT_TRUE(seq.ok()) << seq.error();
    }
    return result.ok() && expected == FsError::kOk;
  }
  void CompareAttr(const Attr& a, const ModelNode& n) {
    EXPECT_EQ(a.type, n.type);
    EXPECT_EQ(a.mode, n.mode);
    EXPECT_EQ(a.nlink, n.nlink);
    EXPECT_EQ(a.uid, n.uid);
    EXPECT_EQ(a.gid, n.gid);
    EXPECT_EQ(a.rdev, n.rdev);
    EXPECT_EQ(a.atime_ns, n.atime);
    EXPECT_EQ(a.mtime_ns, n.mtime);
    EXPECT_EQ(a.ctime_ns, n.ctime);
    if (n.IsDir()) EXPECT_EQ(a.size, n.entries.size());
    if (n.type == FileType::kFile) EXPECT_EQ(a.size, n.bytes.size());
    if (n.type == FileType::kSymlink) EXPECT_EQ(a.size, n.target.size());
  }
  void CompareNode(InodeId ino, const ModelNode& n);

  TestStore store_;
  Random rng_;
  ModelFs model_;
  ModelOpenTable open_;
  Touched touched_;
  int64_t now_ = 1000;
  SetAttrRequest setattr_;
};

void Workload::Step(int i) {
  SCOPED_TRACE("step " + std::to_string(i));
  switch (rng_.Below(22)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: return Make();
    case 5:
    case 6:
    case 7: return Remove();
    case 8:
    case 9:
    case 10: return Rename();
    case 11:
    case 12:
    case 13: return SetAttr();
    case 14:
    case 15: return Xattr();
    case 16: return Punch();
    case 17: return Open();
    case 18:
    case 19: return Clone();
    default: return Write();
  }
}

void Workload::Make() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kOther);
  Txn txn(store_.store());
  if (rng_.OneIn(6)) {
    LinkRequest r;
    r.ino = AnyNode();
    r.new_parent = AnyDir();
    r.new_name = AnyName(r.new_parent, rng_.OneIn(4));
    auto result = OpLink(txn, ctx, r);
    if (Outcome(txn, result, model_.Link(c, r.ino, r.new_parent, r.new_name), "link")) {
      CompareAttr(result->attr, *model_.Find(r.ino));
    }
    return;
  }
  static constexpr FileType kTypes[] = {FileType::kFile,      FileType::kFile,      FileType::kFile,
                                        FileType::kDirectory, FileType::kDirectory, FileType::kDirectory,
                                        FileType::kSymlink,   FileType::kFifo,      FileType::kCharDevice};
  MakeNodeRequest r;
  r.parent = rng_.OneIn(20) ? AnyNode() : AnyDir();
  r.name = AnyName(r.parent, rng_.OneIn(4));
  r.type = kTypes[rng_.Below(9)];
  r.mode = AnyMode();
  r.rdev = rng_.Below(100);
  if (r.type == FileType::kSymlink) r.target = "to/" + std::to_string(rng_.Below(100));
  r.open = rng_.OneIn(2);
  r.exclusive = rng_.OneIn(3);
  r.truncate = rng_.OneIn(2);
  auto result = OpMakeNode(txn, ctx, r);
  std::optional<InodeId> existing;
  const FsError expected = model_.Make(c, r, result.ok() ? result->node.attr.ino : InodeId(), &existing);
  if (!Outcome(txn, result, expected, "make")) return;
  EXPECT_EQ(result->created, !existing);
  if (existing) EXPECT_EQ(result->node.attr.ino, *existing);
  CompareAttr(result->node.attr, *model_.Find(result->node.attr.ino));
}

void Workload::Remove() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kOther);
  Txn txn(store_.store());
  NameRequest r;
  r.parent = AnyDir();
  r.name = AnyName(r.parent, true);
  if (rng_.OneIn(4)) {
    InodeId found;
    auto result = OpLookup(txn, ctx, r);
    const FsError expected = model_.Lookup(c, r.parent, r.name, &found);
    if (Outcome(txn, result, expected, "lookup")) {
      EXPECT_EQ(result->attr.ino, found);
      CompareAttr(result->attr, *model_.Find(found));
    }
    return;
  }
  const bool dir = rng_.OneIn(2);
  auto result = dir ? OpRmdir(txn, ctx, r) : OpUnlink(txn, ctx, r);
  Outcome(txn, result, dir ? model_.Rmdir(c, r.parent, r.name) : model_.Unlink(c, r.parent, r.name),
          "remove");
}

void Workload::Rename() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kOther);
  Txn txn(store_.store());
  RenameRequest r;
  r.parent = AnyDir();
  r.new_parent = rng_.OneIn(3) ? r.parent : AnyDir();
  r.name = AnyName(r.parent, true);
  r.new_name = AnyName(r.new_parent, rng_.OneIn(2));
  r.exchange = rng_.OneIn(4);
  r.no_replace = rng_.OneIn(6);
  const InodeId* moved = nullptr;
  if (auto it = model_.Find(r.parent)->entries.find(r.name); it != model_.Find(r.parent)->entries.end()) {
    moved = &it->second;
  }
  const InodeId ino = moved ? *moved : InodeId();
  auto result = OpRename(txn, ctx, r);
  if (Outcome(txn, result, model_.Rename(c, r), "rename")) CompareAttr(result->attr, *model_.Find(ino));
}

void Workload::SetAttr() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kOther);
  Txn txn(store_.store());
  SetAttrRequest r;
  r.ino = AnyNode();
  if (rng_.OneIn(3)) r.mode = AnyMode();
  if (rng_.OneIn(6)) r.uid = static_cast<uint32_t>(10 + rng_.Below(3));
  if (rng_.OneIn(5)) r.gid = static_cast<uint32_t>(100 + rng_.Below(4));
  if (rng_.OneIn(3)) r.size = rng_.Below(kMaxOffset);
  if (rng_.OneIn(5))
    r.atime_ns = static_cast<int64_t>(rng_.Below(1000));
  else
    r.atime_now = rng_.OneIn(5);
  if (rng_.OneIn(5))
    r.mtime_ns = static_cast<int64_t>(rng_.Below(1000));
  else
    r.mtime_now = rng_.OneIn(5);
  r.kill_suid = rng_.OneIn(10);
  if (rng_.OneIn(4)) {
    r.read_ns = rng_.OneIn(2) ? ctx.now_ns : ctx.now_ns + static_cast<int64_t>(rng_.Below(2 * 86'400)) * kSecond;
    const auto now = OpGetAttr(txn, ctx, InodeRequest{.header = {}, .ino = r.ino});
    if (now.ok()) r.read_version = now->attr.version;
  }
  auto result = OpSetAttr(txn, ctx, r);
  if (Outcome(txn, result, model_.SetAttr(c, r), "setattr")) CompareAttr(result->attr, *model_.Find(r.ino));
}

void Workload::Xattr() {
  static const char* const kNames[] = {"user.a", "user.b", "trusted.a", "security.x", "system.y", ""};
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kOther);
  Txn txn(store_.store());
  XattrRequest r;
  r.ino = AnyNode();
  r.name = kNames[rng_.Below(6)];
  r.value = std::string(rng_.Below(50), 'v');
  r.create = rng_.OneIn(4);
  r.replace = rng_.OneIn(4);
  switch (rng_.Below(4)) {
    case 0: {
      std::string value;
      auto result = OpGetXattr(txn, ctx, r);
      if (Outcome(txn, result, model_.GetXattr(c, r, &value), "getxattr")) EXPECT_EQ(result->value, value);
      return;
    }
    case 1: {
      auto result = OpRemoveXattr(txn, ctx, r);
      Outcome(txn, result, model_.RemoveXattr(c, r), "removexattr");
      return;
    }
    default: {
      auto result = OpSetXattr(txn, ctx, r);
      Outcome(txn, result, model_.SetXattr(c, r), "setxattr");
    }
  }
}

// Allocates a stripe or writes inline, in one or two extents; sometimes as an append.
void Workload::Write() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kWriter);
  CommitRequest r;
  r.ino = AnyNode();
  const ModelNode& n = *model_.Find(r.ino);
  if (n.type != FileType::kFile) return;
  const uint64_t length = 1 + rng_.Below(600);
  const uint64_t offset = rng_.Below(kMaxOffset);
  r.append = n.bytes.size() < kMaxOffset && rng_.OneIn(5);
  if (!r.append && rng_.OneIn(3)) {
    r.clip = true;
    if (rng_.OneIn(2)) r.grow_to = rng_.Below(kMaxOffset);
  }
  std::vector<ModelCell> cells(length);
  if (rng_.OneIn(3)) {
    Extent e{.file_offset = offset, .length = length};
    for (ModelCell& cell : cells) {
      cell.value = static_cast<int>(rng_.Below(256));
      e.inline_bytes.push_back(static_cast<char>(cell.value));
    }
    r.extents.push_back(e);
  } else {
    NewStripe s;
    s.shape = {
        .k = static_cast<uint8_t>(1 + rng_.Below(3)), .m = 1, .codec = Codec::kXor, .unit_bytes = 4096};
    if (s.shape.k == 1) s.shape.codec = Codec::kCopy;
    for (uint32_t i = 0; i < s.shape.columns(); ++i) s.targets.push_back(TargetId(1 + i));
    Txn txn(store_.store());
    auto stripes = OpAllocate(txn, ctx, r.ino, Layout(), {s});
    ASSERT_TRUE(stripes.ok() && txn.Commit().ok());
    StripeInfo info = (*stripes)[0];
    if (rng_.OneIn(10)) return;  // never committed
    info.shape.payload_bytes = length;
    for (uint32_t i = 0; i < info.columns.size(); ++i) {
      Column& col = info.columns[i];
      if (i == 0 || i >= s.shape.k) {
        col.length = length;
      } else {
        col = Column();
      }
    }
    r.stripes.push_back(info);
    const uint64_t cut = rng_.Below(length);
    if (cut > 0) r.extents.push_back({.file_offset = offset, .length = cut, .stripe = info.id});
    r.extents.push_back({offset + cut, length - cut, info.id, cut, {}});
    for (uint64_t i = 0; i < length; ++i) cells[i] = {info.id, i, -1};
  }
  Txn txn(store_.store());
  auto result = OpCommit(txn, ctx, r);
  const uint64_t at = r.append ? n.bytes.size() : offset;
  if (r.append && result.ok()) EXPECT_EQ(result->append_offset, at);
  if (r.clip) {
    const uint64_t end = std::max<uint64_t>(n.bytes.size(), r.grow_to.value_or(0));
    cells.resize(std::min(length, end - std::min(end, offset)));
  }
  FsError expected = FsError::kOk;
  if (!cells.empty()) expected = model_.Write(c, r.ino, at, cells);
  if (r.grow_to && *r.grow_to > n.bytes.size()) {
    expected = model_.Write(c, r.ino, n.bytes.size(), std::vector<ModelCell>(*r.grow_to - n.bytes.size()));
  }
  if (Outcome(txn, result, expected, "commit")) CompareAttr(result->attr, n);
}

void Workload::Punch() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kWriter);
  CommitRequest r;
  r.ino = AnyNode();
  r.punch.emplace_back(rng_.Below(kMaxOffset), 1 + rng_.Below(500));
  Txn txn(store_.store());
  auto result = OpCommit(txn, ctx, r);
  Outcome(txn, result, model_.Punch(c, r.ino, r.punch[0].first, r.punch[0].second), "punch");
}

void Workload::Clone() {
  ModelCaller c;
  const OpCtx ctx = Caller(&c, kWriter);
  CloneRequest r;
  r.from = AnyNode();
  r.to = rng_.OneIn(4) ? r.from : AnyNode();
  r.from_offset = rng_.Below(kMaxOffset);
  r.to_offset = rng_.Below(kMaxOffset);
  r.length = rng_.OneIn(5) ? kMaxFileBytes : 1 + rng_.Below(1000);
  if (model_.Find(r.from)->bytes.size() > 4 * kMaxOffset) return;
  Txn txn(store_.store());
  auto result = OpClone(txn, ctx, r);
  uint64_t cloned = 0;
  const FsError expected = model_.Clone(c, r, &cloned);
  if (!Outcome(txn, result, expected, "clone")) return;
  EXPECT_EQ(result->cloned, cloned);
  CompareAttr(result->attr, *model_.Find(r.to));
}

void Workload::Open() {
  if (model_.open().size() > 5 || rng_.OneIn(2)) {
    if (model_.open().empty()) return;
    const InodeId ino = *model_.open().begin();
    model_.Close(ino);
    Txn txn(store_.store());
    ASSERT_TRUE(OpReapOrphan(txn, ino, now_, &touched_).ok());
    ASSERT_TRUE(txn.Commit().ok());
  } else {
    model_.open().insert(AnyNode());
  }
}

void Workload::CompareNode(InodeId ino, const ModelNode& n) {
  SCOPED_TRACE("inode " + std::to_string(ino.v));
  OpCtx ctx;
  InodeRequest r;
  r.ino = ino;
  Txn txn(store_.store());
  auto attr = OpGetAttr(txn, ctx, r);
  ASSERT_TRUE(attr.ok()) << attr.error();
  CompareAttr(attr->attr, n);
  if (n.IsDir()) {
    ReadDirRequest d;
    d.ino = ino;
    d.limit = 3;
    std::map<std::string, InodeId> entries;
    for (bool end = false; !end;) {
      auto page = OpReadDir(txn, ctx, d);
      ASSERT_TRUE(page.ok()) << page.error();
      for (const DirEntry& e : page->entries) {
        EXPECT_GT(e.cookie, d.cookie);
        d.cookie = e.cookie;
        entries[e.name] = e.ino;
      }
      end = page->end;
    }
    EXPECT_EQ(entries, n.entries);
  }
  XattrRequest x;
  x.ino = ino;
  auto names = OpListXattr(txn, ctx, x);
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(names->names.size(), n.xattrs.size());
  if (n.type != FileType::kFile) return;
  GetExtentsRequest g;
  g.ino = ino;
  g.length = kMaxFileBytes;
  auto extents = OpGetExtents(txn, ctx, g);
  ASSERT_TRUE(extents.ok()) << extents.error();
  std::vector<ModelCell> cells(n.bytes.size());
  for (const Extent& e : extents->extents) {
    ASSERT_LE(e.end(), cells.size());
    for (uint64_t i = 0; i < e.length; ++i) {
      ModelCell& cell = cells[e.file_offset + i];
      if (e.is_inline())
        cell = {StripeId(), 0, static_cast<uint8_t>(e.inline_bytes[i])};
      else
        cell = {e.stripe, e.stripe_offset + i, -1};
    }
  }
  EXPECT_EQ(cells, n.bytes);
}

void Workload::CompareAll() {
  for (const auto& [ino, n] : model_.nodes()) CompareNode(ino, n);
  EXPECT_EQ(store_.store().Count(Counter::kFiles) + store_.store().Count(Counter::kDirectories),
            model_.nodes().size());
  for (const std::string& problem : store_.Fsck()) ADD_FAILURE() << problem;
}

TEST(RandomOps, MatchTheOracleInMemory) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Workload run(StoreKind::kMemory, seed);
    for (int round = 0; round < 4 && !HasFailure(); ++round) {
      run.Steps(1500);
      run.CompareAll();
      run.store().Crash(false);
      run.CompareAll();
    }
  }
}

TEST(RandomOps, MatchTheOracleOnRocksDb) {
  Workload run(StoreKind::kRocks, 99);
  for (int round = 0; round < 2 && !HasFailure(); ++round) {
    run.Steps(1500);
    run.CompareAll();
    run.store().Crash(false);
    run.CompareAll();
  }
}

}  // namespace
}  // namespace stria
