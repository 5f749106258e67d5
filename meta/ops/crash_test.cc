// A crash leaves exactly the state after some commit; and batches may be applied again.
#include <gtest/gtest.h>

#include "common/kv/forwarding_kv.h"
#include "common/random.h"
#include "meta/ops/test_store.h"

namespace stria {
namespace {

using Dump = std::map<std::pair<size_t, std::string>, std::string>;

Dump DumpOf(KvStore& kv) {
  Dump out;
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto rows = kv.Scan(static_cast<KvFamily>(f), {}, {}, 1000000).value();
    for (const KvEntry& row : rows) out[{f, row.first}] = row.second;
  }
  return out;
}

// Makes, writes, renames, truncates and removes at random; errors do not matter here.
void RandomStep(MetaStore& store, Random& rng, int64_t now) {
  Touched touched;
  OpCtx ctx;
  ctx.now_ns = now;
  ctx.session = SessionId(1);
  ctx.touched = &touched;
  Txn txn(store);
  const std::string name = "n" + std::to_string(rng.Below(10));
  bool ok = false;
  switch (rng.Below(5)) {
    case 0: {
      RenameRequest r{{}, kRootInode, name, kRootInode, "n" + std::to_string(rng.Below(10))};
      ok = OpRename(txn, ctx, r).ok();
      break;
    }
    case 1: {
      NameRequest r{{}, kRootInode, name};
      ok = OpUnlink(txn, ctx, r).ok();
      break;
    }
    default: {
      MakeNodeRequest m;
      m.parent = kRootInode;
      m.name = name;
      m.open = true;
      auto made = OpMakeNode(txn, ctx, m);
      if (!made.ok()) break;
      NewStripe s;
      s.shape = {.k = 1, .m = 1, .codec = Codec::kCopy, .unit_bytes = 4096};
      s.targets = {TargetId(1), TargetId(2)};
      auto stripes = OpAllocate(txn, ctx, made->node.attr.ino, Layout(), {s}).value();
      CommitRequest c;
      c.ino = made->node.attr.ino;
      c.stripes = stripes;
      c.stripes[0].shape.payload_bytes = 10;
      for (Column& column : c.stripes[0].columns) column.length = 10;
      c.extents = {{.file_offset = rng.Below(50), .length = 10, .stripe = stripes[0].id}};
      ok = OpCommit(txn, ctx, c).ok();
    }
  }
  if (ok) ASSERT_TRUE(txn.Commit().ok());
}

TEST(Crash, LeavesTheStateAfterSomeCommit) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TestStore store(StoreKind::kMemory, seed);
    Random rng(seed);
    std::map<CommitSeq, Dump> states;
    for (int round = 0; round < 3; ++round) {
      states.clear();
      states[store.store().last_seq()] = DumpOf(store.store().kv());
      CommitSeq durable = store.store().durable_seq();
      for (int i = 0; i < 30; ++i) {
        RandomStep(store.store(), rng, i);
        states[store.store().last_seq()] = DumpOf(store.store().kv());
        if (rng.OneIn(15)) {
          store.Sync();
          durable = store.store().durable_seq();
        }
      }
      store.Crash(true);
      // Opening has written one state record of its own.
      const CommitSeq seq(store.store().last_seq().v - 1);
      EXPECT_GE(seq, durable);
      ASSERT_TRUE(states.contains(seq));
      Dump expected = states[seq];
      Dump found = DumpOf(store.store().kv());
      const std::pair<size_t, std::string> state_key{0, StateKey()};
      expected.erase(state_key);
      found.erase(state_key);
      EXPECT_EQ(found, expected);
      for (const std::string& problem : store.Fsck()) ADD_FAILURE() << problem;
    }
  }
}

// A lost creation is replayed: the inode has its number again, because holders of a handle name it so.
TEST(Crash, AReplayedCreationHasItsNumberAgain) {
  int replayed = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TestStore store(StoreKind::kMemory, seed);
    const auto make = [&](const std::string& name, InodeId former) {
      Touched touched;
      OpCtx ctx;
      ctx.touched = &touched;
      MakeNodeRequest r;
      r.parent = kRootInode;
      r.name = name;
      r.former = former;
      Txn txn(store.store());
      const Result<OpenReply> made = OpMakeNode(txn, ctx, r);
      if (!made.ok()) return InodeId();
      EXPECT_TRUE(txn.Commit().ok());
      return made->node.attr.ino;
    };
    const InodeId kept = make("kept", InodeId());
    store.Sync();
    const InodeId lost = make("lost", InodeId());
    const InodeId never(lost.v + 1000);
    EXPECT_NE(make("of this life", never), never);
    store.Crash(true);
    const InodeId again = make("lost", lost);
    if (!again) continue;  // it survived
    ++replayed;
    EXPECT_EQ(again, lost);
    const InodeId others[] = {kept, lost, kRootInode, InodeId(), InodeId(UINT64_MAX)};
    for (const InodeId former : others) {
      const InodeId ino = make("not " + std::to_string(former.v), former);
      EXPECT_NE(ino, former) << "it is taken, or was never given out";
      EXPECT_GT(ino, lost);
    }
    for (const std::string& problem : store.Fsck()) ADD_FAILURE() << problem;
  }
  EXPECT_GT(replayed, 3);
}

// Records writes; a journal.
class JournalKv final : public ForwardingKv {
 public:
  JournalKv(std::shared_ptr<KvStore> below, std::vector<KvBatch>* journal) : ForwardingKv(std::move(below)), journal_(journal) {}
  Result<void> Write(const KvBatch& batch) override {
    journal_->push_back(batch);
    return below().Write(batch);
  }

 private:
  std::vector<KvBatch>* const journal_;
};

TEST(Crash, ReplayingTheJournalFromAnywhereGivesTheSame) {
  SimExecutor ex(1);
  std::vector<KvBatch> journal;
  auto kv =
      std::make_unique<JournalKv>(std::make_unique<MemKv>(std::make_shared<MemKvMedia>(kFamilies)), &journal);
  auto store = RunSim(ex, MetaStore::Open(std::move(kv))).value();
  {
    Txn txn(*store);
    ASSERT_TRUE(FormatStore(txn, {Uuid{1, 1}, Uuid{2, 2}, Layout(), 1}).ok());
    ASSERT_TRUE(txn.Commit().ok());
  }
  Random rng(3);
  for (int i = 0; i < 300; ++i) RandomStep(*store, rng, i);
  const Dump expected = DumpOf(store->kv());
  CommitSeq seq;
  MemKv copy(std::make_shared<MemKvMedia>(kFamilies));
  for (const KvBatch& batch : journal) {
    ASSERT_LE(batch.ops.size(), kMaxBatchRecords);
    ASSERT_TRUE(copy.Write(batch).ok());
    ASSERT_TRUE(copy.Write(batch).ok());
    const StateRecord state = StateRecord::Decode(StateKey(), *batch.ops.back().value).value();
    EXPECT_EQ(state.seq.v, seq.v + 1) << "the sequence is dense";
    seq = state.seq;
  }
  EXPECT_EQ(DumpOf(copy), expected);
  for (size_t from = journal.size() - 200; from < journal.size(); ++from)
    ASSERT_TRUE(copy.Write(journal[from]).ok());
  EXPECT_EQ(DumpOf(copy), expected);
}

// Each single record that is lost or changed is noticed by fsck.
TEST(Fsck, NoticesDamage) {
  TestStore store;
  Random rng(4);
  for (int i = 0; i < 20; ++i) RandomStep(store.store(), rng, i);
  {
    Touched touched;
    OpCtx ctx;
    ctx.touched = &touched;
    ctx.session = SessionId(1);
    Txn txn(store.store());
    MakeNodeRequest m;
    m.parent = kRootInode;
    m.name = "dir";
    m.type = FileType::kDirectory;
    XattrRequest x;
    x.ino = OpMakeNode(txn, ctx, m).value().node.attr.ino;
    x.name = "user.a";
    ASSERT_TRUE(OpSetXattr(txn, ctx, x).ok());
    m.name = "file";
    m.type = FileType::kFile;
    CommitRequest c;
    c.ino = OpMakeNode(txn, ctx, m).value().node.attr.ino;
    c.extents = {{.length = 3, .inline_bytes = "abc"}};
    ASSERT_TRUE(OpCommit(txn, ctx, c).ok());
    NewStripe s;
    s.shape = {.k = 1, .m = 0, .codec = Codec::kNone, .unit_bytes = 4096};
    s.targets = {TargetId(1)};
    ASSERT_TRUE(OpAllocate(txn, ctx, c.ino, Layout(), {s}).ok());
    ASSERT_TRUE(txn.Commit().ok());
  }
  ASSERT_EQ(store.Fsck(), std::vector<std::string>());
  const Dump all = DumpOf(store.store().kv());
  std::set<size_t> families;
  for (const auto& [key, value] : all) {
    const auto family = static_cast<KvFamily>(key.first);
    families.insert(key.first);
    KvBatch remove;
    remove.Delete(family, key.second);
    ASSERT_TRUE(store.store().kv().Write(remove).ok());
    EXPECT_FALSE(store.Fsck().empty()) << "lost: " << FamilyName(static_cast<Family>(family)) << " "
                                       << KeyToString(static_cast<Family>(family), key.second);
    KvBatch garble;
    garble.Put(family, key.second, "garbled");
    ASSERT_TRUE(store.store().kv().Write(garble).ok());
    EXPECT_FALSE(store.Fsck().empty());
    KvBatch repair;
    repair.Put(family, key.second, value);
    ASSERT_TRUE(store.store().kv().Write(repair).ok());
  }
  EXPECT_GE(families.size(), 11u);
  EXPECT_EQ(store.Fsck(), std::vector<std::string>());
}

}  // namespace
}  // namespace stria
