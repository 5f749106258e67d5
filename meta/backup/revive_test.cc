#include "meta/backup/revive.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "meta/service/meta_testing.h"

namespace stria {
namespace {

// Another medium with the same content: the result of a restore without damage.
std::shared_ptr<MemKvMedia> CopyOf(KvStore& from) {
  auto media = std::make_shared<MemKvMedia>(kFamilies);
  MemKv to(media);
  for (size_t f = 0; f < kFamilies; ++f) {
    KvBatch batch;
    const auto entries = from.Scan(static_cast<KvFamily>(f), "", "", 1'000'000);
    for (const KvEntry& e : *entries) batch.Put(static_cast<KvFamily>(f), e.first, e.second);
    EXPECT_TRUE(to.Write(batch).ok());
  }
  return media;
}

class ReviveTest : public testing::Test {
 protected:
  ReviveTest() {
    for (uint64_t n = 1; n <= 4; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 1));
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
    auto made = a.Make(kRootInode, "f");
    EXPECT_TRUE(made.ok()) << made.error();
    file = made->node.attr.ino;
    EXPECT_TRUE(a.WriteStripe(file, 0, kMiB).ok());
    auto filling = a.Allocate(file, 2);
    EXPECT_TRUE(filling.ok());
    if (filling.ok()) allocated = filling->stripes[0].info;
  }
  ~ReviveTest() override { nodes.clear(), a.Stop(); }

  // The store of now, restored under `incarnation`, is served in place of the other.
  ReviveResult Replace(uint64_t incarnation) {
    auto media = CopyOf(h.server->store()->kv());
    for (auto& n : nodes) n->Stop();
    a.Stop();
    h.server.reset();
    ReviveParams p;
    p.incarnation = incarnation;
    p.store = Uuid{9, incarnation};
    p.wall_ns = h.ex.WallNs();
    Result<ReviveResult> r = RunSim(h.ex, ReviveStore(std::make_unique<MemKv>(media), p));
    EXPECT_TRUE(r.ok()) << r.error();
    h.media = media;
    h.StartServer();
    return r.ok() ? *std::move(r) : ReviveResult();
  }

  MetaHarness h{11};
  TestClient a{&h, 1};
  std::vector<std::unique_ptr<TestNode>> nodes;
  InodeId file;
  StripeInfo allocated;
};

TEST_F(ReviveTest, ServesWhatWasThereAndNothingOfItComesAgain) {
  auto before = a.Make(kRootInode, "before");
  ASSERT_TRUE(before.ok());
  const uint64_t term = h.server->term();
  const Epoch epoch = nodes[0]->epoch;
  const TargetId target = nodes[0]->targets[0];
  const CommitSeq seq = h.server->store()->last_seq();
  const SessionId session = a.session;

  const ReviveResult r = Replace(2);
  EXPECT_EQ(r.sessions, 1u);
  EXPECT_EQ(r.stripes, 2u);
  EXPECT_TRUE(r.fsck.problems.empty()) << r.fsck.problems.front();
  EXPECT_GT(r.fsck.inodes, 2u);
  EXPECT_EQ(h.server->store()->super()->incarnation, 2u);
  EXPECT_EQ(h.server->store()->super()->store, (Uuid{9, 2}));
  EXPECT_GT(h.server->term(), term + kTermJump);
  EXPECT_GT(h.server->store()->last_seq().v, seq.v + kIdJump);
  EXPECT_EQ(h.server->store()->Count(Counter::kAllocated), 0u);

  // The former session is over.
  RenewRequest renew;
  renew.header = a.Header();
  EXPECT_EQ(a.Run(h.server->Renew(renew)).code(), FsError::kFenced);
  for (auto& n : nodes) n->Start();
  TestClient b(&h, 2);
  b.Open();
  EXPECT_GT(b.session.v, session.v + kIdJump);
  h.ex.RunFor(5 * kSecond);
  EXPECT_GT(nodes[0]->epoch.v, epoch.v + kTermJump);
  EXPECT_EQ(nodes[0]->targets[0], target);

  EXPECT_EQ(b.Lookup("f")->attr.ino, file);
  auto after = b.Make(kRootInode, "after");
  ASSERT_TRUE(after.ok()) << after.error();
  EXPECT_GT(after->node.attr.ino.v, before->node.attr.ino.v + kIdJump);
  EXPECT_GT(after->node.attr.version, before->node.attr.version + kIdJump);
  auto filling = b.Allocate(after->node.attr.ino);
  ASSERT_TRUE(filling.ok()) << filling.error();
  EXPECT_GT(filling->stripes[0].info.id.v, allocated.id.v + kIdJump);
  EXPECT_GT(filling->stripes[0].info.columns[0].shard.v, allocated.columns[0].shard.v + kIdJump);
  EXPECT_TRUE(b.WriteStripe(after->node.attr.ino, 0, kMiB).ok());
  // A stripe that was being filled is not garbage.
  h.ex.RunFor(30 * kSecond);
  for (const auto& n : nodes) EXPECT_TRUE(n->deleted.empty());
  EXPECT_TRUE(h.Fsck().empty());
  b.Stop();
}

// At the archived moment: `swapped`: laid out anew, but not all sessions were told; else not yet.
TEST_F(ReviveTest, AStripeThatWasBeingWidenedIsWhatItWas) {
  for (const bool swapped : {false, true}) {
    for (size_t i = 0; i < 2; ++i) nodes[i]->Stop();
    h.ex.RunFor(5 * kSecond);
    TestClient b(&h, swapped ? 3 : 2);
    b.polls = false;
    b.Open();
    auto made = b.Make(kRootInode, swapped ? "narrow2" : "narrow1");
    ASSERT_TRUE(made.ok()) << made.error();
    const InodeId ino = made->node.attr.ino;
    ASSERT_TRUE(b.WriteStripe(ino, 0, kMiB).ok());
    ASSERT_EQ(h.server->store()->Count(Counter::kNarrow), 1u);
    for (auto& n : nodes) n->does_work = swapped, n->Start();
    for (int s = 0; s < 60 && h.server->repair_summary().widens == 0; ++s) h.ex.RunFor(kSecond / 4);
    h.ex.RunFor(5 * kSecond);
    ASSERT_EQ(h.server->repair_summary().widens, 1u);
    ASSERT_EQ(h.server->store()->Count(Counter::kNarrow), swapped ? 0u : 1u);
    b.Stop();
    const ReviveResult r = Replace(swapped ? 3 : 2);
    EXPECT_EQ(r.rebuilds, 1u);
    EXPECT_TRUE(r.fsck.problems.empty()) << r.fsck.problems.front();
    EXPECT_EQ(h.server->repair_summary().widens, 0u);
    for (auto& n : nodes) n->does_work = true, n->Start();
    for (int s = 0; s < 240 && h.server->store()->Count(Counter::kNarrow) > 0; ++s) h.ex.RunFor(kSecond / 4);
    EXPECT_EQ(h.server->store()->Count(Counter::kNarrow), 0u);
    h.ex.RunFor(10 * kSecond);
    EXPECT_EQ(h.server->repair_summary().widens, 0u);
    EXPECT_TRUE(h.Fsck().empty());
  }
}

TEST_F(ReviveTest, AnArchiveThatIsRestoredTwiceGivesOtherIdsEachTime) {
  auto copy = CopyOf(h.server->store()->kv());
  Replace(2);
  TestClient b(&h, 2);
  b.Open();
  const InodeId first = b.Make(kRootInode, "x")->node.attr.ino;
  b.Stop();
  h.server.reset();
  h.media = copy;
  h.StartServer();
  Replace(3);
  TestClient c(&h, 3);
  c.Open();
  EXPECT_GT(c.Make(kRootInode, "x")->node.attr.ino.v, first.v + kIdJump / 2);
  c.Stop();
}

TEST_F(ReviveTest, AnIncarnationThatDoesNotGrowIsRefused) {
  ReviveParams p;
  p.incarnation = 1;
  EXPECT_EQ(RunSim(h.ex, ReviveStore(std::make_unique<MemKv>(CopyOf(h.server->store()->kv())), p)).code(), FsError::kInval);
  p.incarnation = 1 << 20;
  EXPECT_EQ(RunSim(h.ex, ReviveStore(std::make_unique<MemKv>(CopyOf(h.server->store()->kv())), p)).code(), FsError::kInval);
  auto empty = std::make_shared<MemKvMedia>(kFamilies);
  p.incarnation = 2;
  EXPECT_EQ(RunSim(h.ex, ReviveStore(std::make_unique<MemKv>(empty), p)).code(), FsError::kCorrupt);
}

}  // namespace
}  // namespace stria
