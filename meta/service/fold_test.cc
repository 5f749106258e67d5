// Mirrored columns of several files get one parity together.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"
#include "stripe/layout.h"

namespace stria {
namespace {

class FoldServiceTest : public testing::Test {
 protected:
  static constexpr uint64_t kNodes = 6;
  FoldServiceTest() {
    AddNodes(kNodes);
    SetLayout([](Layout*) {});
  }
  void AddNodes(uint64_t count) {
    const uint64_t first = nodes.size() + 1;
    for (uint64_t n = first; n < first + count; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 2));
      nodes.back()->Start();
    }
    h.ex.RunFor(5 * kSecond);
    for (uint64_t n = first; n < first + count; ++n) {
      clients.push_back(std::make_unique<TestClient>(&h, n, "n" + std::to_string(n)));
      clients.back()->Open();
    }
  }
  void SetLayout(const std::function<void(Layout*)>& change) {
    LayoutRequest set;
    set.header.cluster = h.cluster;
    set.ino = kRootInode;
    set.layout = Layout();
    set.layout->arrangement = Arrangement::kGathered;
    set.layout->place = Place::kLocal;
    set.layout->stripe_bytes = 64 * kMiB;
    change(&*set.layout);
    set.layout->codec = DefaultCodec(set.layout->k, set.layout->m);
    const auto done = RunSim(h.ex, h.server->SetLayout(set));
    EXPECT_TRUE(done.ok()) << done.error();
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
  // One on each of the first `n` nodes.
  std::vector<InodeId> WriteOnEach(uint64_t n) {
    std::vector<InodeId> out;
    for (uint64_t i = 1; i <= n; ++i) out.push_back(Write("f" + std::to_string(i), i, kMiB));
    return out;
  }
  void Remove(uint64_t n, InodeId ino) {
    EXPECT_TRUE(clients[n - 1]->Unlink("f" + std::to_string(n)).ok());
    clients[n - 1]->Release(ino);
  }
  Result<Empty> Admin(AdminVerb verb, NodeId node = NodeId()) {
    AdminRequest r;
    r.header.cluster = h.cluster;
    r.verb = verb;
    r.node = node;
    const auto done = a().Run(h.server->Admin(r));
    if (!done.ok()) return done.error();
    return Empty();
  }
  std::map<NodeId, int> ColumnsPerNode(const StripeInfo& info) {
    std::map<NodeId, int> out;
    for (const Column& c : info.columns) {
      for (auto& n : nodes) {
        if (std::ranges::count(n->targets, c.target) > 0) ++out[n->id];
      }
    }
    return out;
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

  MetaHarness h{11};
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
  EXPECT_EQ(fold.columns[4].digest, TestDigest(fold.columns[4].shard, fold.columns[4].length));
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  // Nothing more is done.
  h.ex.RunFor(200 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]), fold);
  EXPECT_EQ(Status().stripes, 1u);
}

TEST_F(FoldServiceTest, NotIfItIsSwitchedOff) {
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

TEST_F(FoldServiceTest, NothingIsThereToFoldWithoutParity) {
  SetLayout([](Layout* l) { l->m = 0; });
  const std::vector<InodeId> files = WriteOnEach(5);
  h.ex.RunFor(500 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1);
  EXPECT_EQ(Status().stripes, 5u);
}

// The disks of one node fail together, even if the layout counts disks only.
TEST_F(FoldServiceTest, NoNodeHasMoreOfAFoldThanMayBeLost) {
  SetLayout([](Layout* l) { l->domain = Domain::kDisk; });
  const InodeId first = Write("a", 1, kMiB);
  for (int i = 0; i < 3; ++i) Write("b" + std::to_string(i), 1, kMiB);
  for (int i = 0; i < 4; ++i) Write("c" + std::to_string(i), 2, kMiB);
  h.ex.RunFor(1000 * kSecond);
  for (const auto& [node, columns] : ColumnsPerNode(StripeOfFile(first))) EXPECT_EQ(columns, 1) << node.v;
  EXPECT_EQ(StripeOfFile(first).shape.k, 2) << "two nodes, with two disks each";
  Write("d", 3, kMiB);
  const InodeId last = Write("e", 4, kMiB);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(last).shape.k == 4 && IsQuiet(); }));
  for (const auto& [node, columns] : ColumnsPerNode(StripeOfFile(last))) EXPECT_EQ(columns, 1) << node.v;
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

TEST_F(FoldServiceTest, NotWhilePaused) {
  SetWorks(false);
  const std::vector<InodeId> files = WriteOnEach(4);
  ASSERT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 1; }));
  ASSERT_TRUE(Admin(AdminVerb::kRepairPause).ok());
  Restart(false);
  SetWorks(true);
  h.ex.RunFor(200 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1) << "what is not handed out yet waits";
  ASSERT_TRUE(Admin(AdminVerb::kRepairResume).ok());
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
}

TEST_F(FoldServiceTest, NotIntoTheReserve) {
  const std::vector<InodeId> files = WriteOnEach(4);
  const auto set_free = [&](uint64_t bytes) {
    for (auto& n : nodes) {
      for (DiskHello& d : n->disks()) d.free_bytes = bytes;
    }
  };
  set_free(0);  // what there is is kept for repair
  h.ex.RunFor(300 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1);
  set_free(900 * kGiB);
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
}

// Whatever the trouble of the whole was: the member that does not read is repaired, and folded then.
TEST_F(FoldServiceTest, ABadMemberIsRepaired) {
  const std::vector<InodeId> files = WriteOnEach(4);
  const Column was = ColumnOfFile(files[1]);
  for (auto& n : nodes) {
    n->on_rebuild = [&](const RebuildWork& w, RebuildResult* r) {
      const auto& columns = w.stripe.info.columns;
      const auto bad = std::ranges::find(columns, was.shard, &Column::shard);
      if (w.stripe.info.shape.k != 4 || bad == columns.end()) return;
      r->result.code = FsError::kIo;
      r->bad_columns = {static_cast<uint16_t>(bad - columns.begin())};
    };
    n->on_check = [&](const CheckWork& w) { return w.shard == was.shard ? FsError::kChecksum : FsError::kOk; };
  }
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[1]).shape.k == 4 && IsQuiet(); }));
  EXPECT_NE(ColumnOfFile(files[1]).shard, was.shard);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// Of a fold that lost too much the files on the other nodes are not lost, and become safe again.
TEST_F(FoldServiceTest, WhatSurvivesTheLossOfTooMuchIsFoldedAgain) {
  AddNodes(4);
  const std::vector<InodeId> files = WriteOnEach(4);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  const Column kept = ColumnOfFile(files[2]);
  for (size_t i : {0, 1}) nodes[i]->Stop();
  h.ex.RunFor(60 * kSecond);
  for (size_t i : {0, 1}) ASSERT_TRUE(Admin(AdminVerb::kOut, nodes[i]->id).ok());
  h.ex.RunFor(60 * kSecond);
  const StatusReply status = clients[4]->Run(h.server->Status(clients[4]->Ino(InodeId()))).value();
  EXPECT_EQ(status.lost_stripes, 1u);
  std::set<std::string> lost;
  for (const LostFile& f : status.lost_files) lost.insert(f.path);
  EXPECT_EQ(lost, (std::set<std::string>{"/f1", "/f2"}));
  for (uint64_t n : {1, 2}) Remove(n, files[n - 1]);
  Write("g5", 5, kMiB);
  const InodeId g6 = Write("g6", 6, kMiB);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(g6).shape.k == 4; }));
  EXPECT_EQ(StripeOfFile(files[2]).id, StripeOfFile(g6).id);
  EXPECT_EQ(ColumnOfFile(files[2]), kept);
  EXPECT_TRUE(Becomes([&] { return Status().lost_stripes + Status().degraded_stripes == 0; }));
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// Few files, of different lengths: after a while they are folded as they are.
TEST_F(FoldServiceTest, WhatFindsNoCompanyTakesWhatThereIs) {
  std::vector<InodeId> files;
  std::vector<Column> columns;
  for (uint64_t n = 1; n <= 4; ++n) {
    files.push_back(Write("f" + std::to_string(n), n, 400000 + n * 150000));
    columns.push_back(ColumnOfFile(files.back()));
  }
  h.ex.RunFor(200 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1) << "others may come";
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }, 500));
  ExpectFolded(files, columns);
  h.ex.RunFor(500 * kSecond);
  EXPECT_EQ(Status().stripes, 1u);
}

// Files on two nodes only: two columns with a parity, and four when there are others.
TEST_F(FoldServiceTest, FewerColumnsUntilThereAreMore) {
  std::vector<InodeId> files = WriteOnEach(2);
  std::vector<Column> columns = {ColumnOfFile(files[0]), ColumnOfFile(files[1])};
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 2 && IsQuiet(); }, 500));
  const StripeInfo two = StripeOfFile(files[0]);
  EXPECT_EQ(StripeOfFile(files[1]), two);
  EXPECT_EQ(ColumnsPerNode(two).size(), 3u);
  h.ex.RunFor(1000 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]), two) << "nothing to be gained";
  for (uint64_t n = 3; n <= 4; ++n) {
    files.push_back(Write("f" + std::to_string(n), n, kMiB));
    columns.push_back(ColumnOfFile(files.back()));
  }
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  ExpectFolded(files, columns);
  EXPECT_EQ(Status().stripes, 1u);
  EXPECT_EQ(Deleted(), 2u + 3u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// Three of four files go, and nobody comes: the last is mirrored again, and takes twice its size instead of five times.
// The old parity is there until the new copy is, and until every session was told.
TEST_F(FoldServiceTest, TheLastOfAFoldIsMirroredAgain) {
  const std::vector<InodeId> files = WriteOnEach(4);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  const StripeInfo fold = StripeOfFile(files[0]);
  const Column kept = ColumnOfFile(files[2]);
  const uint64_t copies = Deleted();
  for (const uint64_t n : {1, 2, 4}) Remove(n, files[n - 1]);
  h.ex.RunFor(200 * kSecond);
  EXPECT_EQ(StripeOfFile(files[2]), fold) << "others may come";
  EXPECT_EQ(Deleted(), copies);
  SetWorks(false);
  ASSERT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 1; }, 500));
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(StripeOfFile(files[2]), fold) << "the copy is not there yet";
  EXPECT_EQ(Status().garbage_shards, 0u);
  EXPECT_EQ(Deleted(), copies);
  SetWorks(true);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[2]).shape.k == 1; }));
  const StripeInfo mirror = StripeOfFile(files[2]);
  EXPECT_EQ(mirror.shape.codec, Codec::kCopy);
  ASSERT_EQ(mirror.columns.size(), 2u);
  EXPECT_EQ(mirror.columns[0], kept);
  EXPECT_EQ(mirror.columns[1].length, kept.length);
  EXPECT_EQ(ColumnsPerNode(mirror).size(), 2u);
  EXPECT_FALSE(mirror.narrow);
  EXPECT_TRUE(Becomes([&] { return IsQuiet(); }));
  EXPECT_EQ(Deleted(), copies + 4) << "three dead columns and the old parity";
  EXPECT_EQ(h.server->upkeep()->folder().unfolded(), 1u);
  EXPECT_EQ(h.server->upkeep()->folder().folded(), 1u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  // It stays so, and goes with others as any mirrored file.
  h.ex.RunFor(1000 * kSecond);
  EXPECT_EQ(StripeOfFile(files[2]), mirror);
  Write("g1", 1, kMiB);
  Write("g2", 2, kMiB);
  Write("g4", 4, kMiB);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[2]).shape.k == 4 && IsQuiet(); }));
  EXPECT_EQ(ColumnOfFile(files[2]), kept);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// With two copies, and restarts at any moment.
TEST_F(FoldServiceTest, TheLastOfAFoldIsMirroredTwiceAgain) {
  SetLayout([](Layout* l) { l->m = 2; });
  const std::vector<InodeId> files = WriteOnEach(4);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  const Column kept = ColumnOfFile(files[1]);
  for (const uint64_t n : {1, 3, 4}) Remove(n, files[n - 1]);
  Random rng(7);
  for (int i = 0; i < 5000 && !(StripeOfFile(files[1]).shape.k == 1 && IsQuiet()); ++i) {
    h.ex.RunFor(static_cast<int64_t>(rng.Below(600)) * kMillisecond);
    if (h.server->repair_summary().folds == 0) continue;
    SetWorks(rng.OneIn(3));
    if (rng.OneIn(3)) Restart(rng.OneIn(2));
  }
  SetWorks(true);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[1]).shape.k == 1 && IsQuiet(); }));
  const StripeInfo mirror = StripeOfFile(files[1]);
  EXPECT_EQ(mirror.columns.size(), 3u);
  EXPECT_EQ(mirror.columns[0], kept);
  EXPECT_EQ(ColumnsPerNode(mirror).size(), 3u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// While its new copy is made the file goes too: nothing is left of it.
TEST_F(FoldServiceTest, TheLastOfAFoldGoesWhileItIsMirrored) {
  const std::vector<InodeId> files = WriteOnEach(4);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  for (const uint64_t n : {1, 2, 4}) Remove(n, files[n - 1]);
  SetWorks(false);
  ASSERT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 1; }, 700));
  Remove(3, files[2]);
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 0; }, 10));
  SetWorks(true);
  EXPECT_TRUE(Becomes([&] { return IsQuiet(); }));
  EXPECT_EQ(Status().stripes, 0u);
  EXPECT_EQ(h.server->upkeep()->folder().unfolded(), 0u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

// One of two parity columns is made, and the server starts again.
TEST_F(FoldServiceTest, TwoParityColumns) {
  SetLayout([](Layout* l) { l->m = 2; });
  std::vector<InodeId> files = WriteOnEach(4);
  std::vector<Column> columns;
  for (const InodeId f : files) columns.push_back(ColumnOfFile(f));
  SetWorks(false);
  ASSERT_TRUE(Becomes([&] { return h.server->repair_summary().folds == 1; }));
  nodes[4]->does_work = true;
  ASSERT_TRUE(Becomes([&] { return nodes[4]->rebuilt.size() == 1; }));
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(StripeOfFile(files[0]).shape.k, 1) << "one of two is made";
  Restart(true);
  SetWorks(true);
  ASSERT_TRUE(Becomes([&] { return StripeOfFile(files[0]).shape.k == 4 && IsQuiet(); }));
  ExpectFolded(files, columns);
  EXPECT_EQ(ColumnsPerNode(StripeOfFile(files[0])).size(), 6u);
  EXPECT_EQ(Deleted(), 8u);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
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
  ASSERT_TRUE(Admin(AdminVerb::kOut, nodes[1]->id).ok());
  EXPECT_TRUE(Becomes([&] { return StripeOfFile(files[0]).columns[1] != fold.columns[1] && Status().degraded_stripes == 0; }));
  const StripeInfo now = StripeOfFile(files[0]);
  EXPECT_EQ(now.id, fold.id);
  EXPECT_EQ(now.columns[0], fold.columns[0]);
  EXPECT_FALSE(now.crowded);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
}

}  // namespace
}  // namespace stria
