// Mirrored columns of several files get one parity together.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"
#include "stripe/layout.h"

namespace stria {
namespace {

MetaServerOptions Folding() {
  MetaServerOptions o;
  o.fold.enabled = true;
  return o;
}

class FoldServiceTest : public testing::Test {
 protected:
  static constexpr uint64_t kNodes = 6;
  FoldServiceTest() {
    for (uint64_t n = 1; n <= kNodes; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 2));
      nodes.back()->Start();
    }
    h.ex.RunFor(5 * kSecond);
    LayoutRequest set;
    set.header.cluster = h.cluster;
    set.ino = kRootInode;
    set.layout = Layout();
    set.layout->arrangement = Arrangement::kGathered;
    set.layout->place = Place::kLocal;
    set.layout->stripe_bytes = 64 * kMiB;
    const auto done = RunSim(h.ex, h.server->SetLayout(set));
    EXPECT_TRUE(done.ok()) << done.error();
    for (uint64_t n = 1; n <= kNodes; ++n) {
      clients.push_back(std::make_unique<TestClient>(&h, n, "n" + std::to_string(n)));
      clients.back()->Open();
    }
  }
  ~FoldServiceTest() override {
    nodes.clear();
    for (auto& c : clients) c->Stop();
  }
  TestClient& a() { return *clients[0]; }
  StatusReply Status() { return a().Run(h.server->Status(a().Ino(InodeId()))).value(); }
  // A file that lies on node `n` (from 1).
  InodeId Write(const std::string& name, uint64_t n, uint64_t bytes, uint64_t offset = 0, InodeId ino = InodeId()) {
    TestClient& c = *clients[n - 1];
    if (!ino) {
      auto made = c.Make(kRootInode, name);
      EXPECT_TRUE(made.ok()) << made.error();
      ino = made->node.attr.ino;
    }
    auto alloc = c.Allocate(ino);
    EXPECT_TRUE(alloc.ok()) << alloc.error();
    StripeInfo info = alloc->stripes[0].info;
    EXPECT_EQ(info.shape.k, 1);
    info.shape.column_bytes = {bytes};
    info.shape.payload_bytes = bytes;
    CommitRequest r;
    r.header = c.Mutation();
    r.ino = ino;
    r.stripes = {TestClient::Sealed(info, bytes)};
    r.extents = {{.file_offset = offset, .length = bytes, .stripe = info.id}};
    const auto done = c.Run(h.server->Commit(r));
    EXPECT_TRUE(done.ok()) << done.error();
    return ino;
  }
  GetExtentsReply Extents(InodeId ino) {
    GetExtentsRequest r;
    r.header = a().Header();
    r.ino = ino;
    r.length = kGiB;
    return a().Run(h.server->GetExtents(r)).value();
  }
  // Shard of the data column that holds the first byte.
  Column ColumnOfFile(InodeId ino) {
    const GetExtentsReply e = Extents(ino);
    CHECK(e.extents.size() == 1 && e.stripes.size() == 1);
    const StripeInfo& info = e.stripes[0].info;
    EXPECT_TRUE(ValidateStripe(info).ok()) << ValidateStripe(info);
    return info.columns[Locate(info.shape, e.extents[0].stripe_offset).column.v];
  }
  StripeInfo StripeOfFile(InodeId ino) { return Extents(ino).stripes[0].info; }
  uint64_t Deleted() {
    uint64_t n = 0;
    for (auto& node : nodes) n += node->deleted.size();
    return n;
  }
  // Runs until it holds; false if it does not within a while.
  bool Becomes(const std::function<bool()>& holds, int64_t limit_s = 300) {
    for (int64_t s = 0; s < limit_s && !holds(); ++s) h.ex.RunFor(kSecond);
    return holds();
  }
  bool IsQuiet() { return h.server->repair_summary().folds == 0 && Status().garbage_shards == 0; }
  void Restart(bool lose_unsynced) {
    for (auto& n : nodes) n->Stop();
    for (auto& c : clients) c->Stop();
    h.Crash(lose_unsynced);
    for (auto& n : nodes) n->Start();
    for (auto& c : clients) EXPECT_TRUE(c->Reclaim());
    h.ex.RunFor(5 * kSecond);
  }
  void SetWorks(bool works) {
    for (auto& n : nodes) n->does_work = works;
  }
  void ExpectFolded(const std::vector<InodeId>& files, const std::vector<Column>& columns) {
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(ColumnOfFile(files[i]), columns[i]) << "a data column has moved";
      EXPECT_EQ(StripeOfFile(files[i]).shape.k, 4);
    }
  }

  MetaHarness h{11, Folding()};
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<std::unique_ptr<TestNode>> nodes;
};

TEST_F(FoldServiceTest, FilesOfFourNodes) {
  std::vector<InodeId> files;
  std::vector<Column> columns;
  for (uint64_t n = 1; n <= 4; ++n) {
    files.push_back(Write("f" + std::to_string(n), n, 1000000 + n));
    columns.push_back(ColumnOfFile(files.back()));
  }
  h.ex.RunFor(50 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1) << "too young";
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4; }));
  ASSERT_TRUE(Becomes([&] { return IsQuiet(); }));
  ExpectFolded(files, columns);
  const StripeInfo fold = StripeOfFile(files[0]);
  for (InodeId f : files) EXPECT_EQ(StripeOfFile(f), fold);
  EXPECT_FALSE(fold.crowded);
  EXPECT_FALSE(fold.narrow);
  EXPECT_EQ(Deleted(), 4u) << "the copies";
  size_t made = 0;
  for (auto& n : nodes) {
    for (const auto& [task, work] : n->rebuilt) {
      ++made;
      EXPECT_EQ(work.new_shard, fold.columns[4].shard);
      EXPECT_EQ(work.column, 4);
      EXPECT_EQ(work.lost, std::vector<uint16_t>{4});
      EXPECT_FALSE(work.copy);
    }
  }
  EXPECT_EQ(made, 1u);
  EXPECT_EQ(fold.columns[4].digest, 1000 + fold.columns[4].shard.v);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  // Nothing more is done.
  h.ex.RunFor(200 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]), fold);
  EXPECT_EQ(Status().stripes, 1u);
}

TEST_F(FoldServiceTest, NotUnlessItIsAskedFor) {
  h.options.fold.enabled = false;
  Restart(false);
  InodeId f;
  for (uint64_t n = 1; n <= 4; ++n) f = Write("f" + std::to_string(n), n, kMiB);
  h.ex.RunFor(300 * kSecond);
  EXPECT_EQ(StripeOfFile(f).shape.k, 1);
}

TEST_F(FoldServiceTest, WhatIsLeftIsFoldedAgain) {
  std::vector<InodeId> files;
  std::vector<Column> columns;
  for (uint64_t n = 1; n <= 4; ++n) {
    files.push_back(Write("f" + std::to_string(n), n, kMiB));
    columns.push_back(ColumnOfFile(files.back()));
  }
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  const StripeInfo first = StripeOfFile(files[0]);
  EXPECT_TRUE(clients[1]->Unlink("f2").ok());
  clients[1]->Release(files[1]);
  h.ex.RunFor(120 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]), first) << "the dead column protects the others until there is another one";
  files[1] = Write("g", 2, kMiB);
  columns[1] = ColumnOfFile(files[1]);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[1]).shape.k == 4 && IsQuiet(); }));
  ExpectFolded(files, columns);
  EXPECT_NE(StripeOfFile(files[0]).id, first.id);
  EXPECT_EQ(Status().stripes, 1u);
  EXPECT_EQ(Deleted(), 4u + 3u) << "and the dead column, the old parity, the copy of the new one";
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

TEST_F(FoldServiceTest, WhatIsWrittenWaits) {
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  for (uint64_t i = 1; i <= 4; ++i) {
    h.ex.RunFor(40 * kSecond);
    Write("", 1, kMiB, i * kMiB, files[0]);
  }
  EXPECT_EQ(StripeOfFile(files[1]).shape.k, 1);
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[1]).shape.k == 4; })) << "open for writing, but nobody writes";
}

TEST_F(FoldServiceTest, AMemberThatIsGoneEndsThePlan) {
  SetWorks(false);
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  ASSERT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 1; }));
  EXPECT_TRUE(clients[2]->Unlink("f3").ok());
  clients[2]->Release(files[2]);
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 0; }, 10));
  SetWorks(true);
  EXPECT_TRUE(Becomes([&] { return IsQuiet(); }));
  EXPECT_EQ(Deleted(), 3u) << "both shards of the file, and the parity";
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

TEST_F(FoldServiceTest, ParityThatCannotBeMadeIsTriedAgain) {
  for (auto& n : nodes) n->rebuild_result = FsError::kUnavailable;
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  const auto tried = [&] {
    size_t n = 0;
    for (auto& node : nodes) n += node->rebuilt.size();
    return n;
  };
  EXPECT_TRUE(Becomes([&] { return tried() >= 2; }));
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1);
  for (auto& n : nodes) n->rebuild_result = FsError::kOk;
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

TEST_F(FoldServiceTest, NotWhileRepairsWait) {
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  for (size_t i = 0; i < 3; ++i) nodes[i]->Stop();
  h.ex.RunFor(300 * kSecond);
  EXPECT_EQ(h.server->repair_summary().folds, 0u);
  for (size_t i = 0; i < 3; ++i) nodes[i]->Start();
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[3]).shape.k == 4; }));
}

// At any moment of a fold the server dies, with or without what was not synced.
TEST_F(FoldServiceTest, RestartsAtAnyMoment) {
  Random rng(5);
  size_t crashes = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<InodeId> files;
    std::vector<Column> columns;
    for (uint64_t n = 1; n <= 4; ++n) {
      files.push_back(Write("f" + std::to_string(round) + std::to_string(n), n, kMiB));
      columns.push_back(ColumnOfFile(files.back()));
    }
    SetWorks(false);
    for (int i = 0; i < 2000 && !(StripeOfFile(files[0]).shape.k == 4 && IsQuiet()); ++i) {
      h.ex.RunFor(static_cast<int64_t>(rng.Below(600)) * kMillisecond);
      SetWorks(rng.OneIn(3));
      if (h.server->repair_summary().folds == 0 || !rng.OneIn(3)) continue;
      ++crashes;
      Restart(rng.OneIn(2));
    }
    SetWorks(true);
    ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
    ExpectFolded(files, columns);
    EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  }
  EXPECT_GT(crashes, 6u);
}

TEST_F(FoldServiceTest, TheCopiesStayUntilEverybodyWasTold) {
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  clients[2]->Release(files[2]);  // who has it open alone answers for what others were told
  clients.push_back(std::make_unique<TestClient>(&h, 99));
  TestClient& reader = *clients.back();
  reader.polls = false;
  reader.Open();
  GetExtentsRequest r;
  r.header = reader.Header();
  r.ino = files[2];
  r.length = kGiB;
  ASSERT_TRUE(reader.Run(h.server->GetExtents(r)).ok());
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4; }));
  h.ex.RunFor(10 * kSecond);
  EXPECT_EQ(h.server->repair_summary().folds, 1u);
  EXPECT_EQ(Status().garbage_shards + Deleted(), 0u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  Restart(true);
  h.ex.RunFor(10 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 4);
  reader.polls = true;
  reader.Loops();
  EXPECT_TRUE(Becomes([&] { return IsQuiet(); }));
  EXPECT_EQ(Deleted(), 4u);
}

TEST_F(FoldServiceTest, ItsStripeIsRepairedAsAnyOther) {
  std::vector<InodeId> files;
  for (uint64_t n = 1; n <= 4; ++n) files.push_back(Write("f" + std::to_string(n), n, kMiB));
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  const StripeInfo fold = StripeOfFile(files[0]);
  nodes[1]->Stop();
  h.ex.RunFor(60 * kSecond);
  AdminRequest r;
  r.header.cluster = h.cluster;
  r.verb = AdminVerb::kOut;
  r.node = nodes[1]->id;
  ASSERT_TRUE(a().Run(h.server->Admin(r)).ok());
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[0]).columns[1] != fold.columns[1] && Status().degraded_stripes == 0; }));
  const StripeInfo now = StripeOfFile(files[0]);
  EXPECT_EQ(now.id, fold.id);
  EXPECT_EQ(now.columns[0], fold.columns[0]);
  EXPECT_FALSE(now.crowded);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

}  // namespace
}  // namespace stria
