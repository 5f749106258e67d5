#include "meta/backup/archiver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "meta/backup/restore.h"
#include "meta/backup/revive.h"
#include "meta/service/meta_testing.h"

namespace stria {
namespace {

using Dump = std::map<std::pair<size_t, std::string>, std::string>;

Dump DumpOf(KvStore& kv) {
  Dump out;
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto entries = kv.Scan(static_cast<KvFamily>(f), "", "", 1'000'000);
    for (const KvEntry& e : *entries) out[{f, e.first}] = e.second;
  }
  return out;
}

// A data server as far as backups go.
class FakeKeeper final : public BackupService {
 public:
  Task<Result<PutBackupReply>> PutBackup(PutBackupRequest r) override {
    co_await Sleep(kMillisecond);
    if (!answer.ok()) co_return answer;
    EXPECT_EQ(r.header.incarnation, incarnation);
    EXPECT_TRUE(TokenVerifier({TestKey()}).Check(r.token, ShardId(), TargetId(), kTokenAdmin,
                                                 Executor::Current().WallNs() / kSecond).ok());
    const std::string bytes(r.payload.Flatten().view());
    // Objects of a checkpoint that was given up have other names: here, and on every other keeper.
    if (ever != nullptr && ParseArchiveName(r.name)->kind != ArchiveKind::kSegment) {
      EXPECT_EQ(ever->try_emplace(r.name, bytes).first->second, bytes) << r.name << " was another object before";
    }
    objects[r.name] = bytes;
    ++puts;
    co_return PutBackupReply();
  }
  Task<Result<ListBackupsReply>> ListBackups(ListBackupsRequest r) override {
    co_await Sleep(kMillisecond);
    if (!answer.ok()) co_return answer;
    ListBackupsReply reply;
    for (auto it = objects.upper_bound(r.after); it != objects.end(); ++it) {
      reply.more = reply.names.size() == 3;
      if (reply.more) break;
      reply.names.push_back(it->first);
    }
    co_return reply;
  }
  Task<Result<GetBackupReply>> GetBackup(GetBackupRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<DeleteBackupsReply>> DeleteBackups(DeleteBackupsRequest r) override {
    co_await Sleep(kMillisecond);
    if (!answer.ok()) co_return answer;
    for (const std::string& name : r.names) objects.erase(name);
    co_return DeleteBackupsReply();
  }

  std::map<std::string, std::string> objects;
  Error answer;
  uint64_t incarnation = 1;
  uint64_t puts = 0;
  std::map<std::string, std::string>* ever = nullptr;  // all objects that were ever put
};

class FakeKeepers final : public BackupConnector, public ArchiveSource {
 public:
  std::shared_ptr<BackupService> ConnectBackup(const std::string& address) override {
    FakeKeeper& keeper = keepers[address];
    keeper.ever = &ever_;
    return {std::shared_ptr<void>(), &keeper};
  }
  FakeKeeper& Of(uint64_t node) { return keepers["n" + std::to_string(node) + ":7001"]; }
  std::vector<ArchiveName> Names() {
    std::vector<ArchiveName> out;
    for (auto& [_, k] : keepers) {
      for (const auto& [name, bytes] : k.objects) out.push_back(*ParseArchiveName(name));
    }
    return out;
  }
  Task<Result<std::string>> Get(ArchiveName name, size_t copy) override {
    for (auto& [_, k] : keepers) {
      const auto it = k.objects.find(name.ToString());
      if (it != k.objects.end() && copy-- == 0) co_return it->second;
    }
    co_return Error(FsError::kNoEnt, "no such object");
  }
  std::map<std::string, FakeKeeper> keepers;

 private:
  std::map<std::string, std::string> ever_;
};

class ArchiverTest : public testing::Test {
 protected:
  explicit ArchiverTest(uint64_t count = 3, MetaServerOptions o = {}) : h(11, o) {
    h.server.reset();
    h.backups = &keepers;
    h.StartServer();
    for (uint64_t n = 1; n <= count; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 1));
      nodes.back()->disks()[0].free_bytes = (100 + n) * kGiB;  // the last one has most
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
  }
  ~ArchiverTest() override { nodes.clear(), a.Stop(); }

  BackupState State() {
    UpkeepRequest r;
    r.header.cluster = h.cluster;
    return a.Run(h.server->Upkeep(r))->backup;
  }
  FsError BackupNow(int64_t timeout_ns = 20 * kSecond) {
    UpkeepRequest r;
    r.header.cluster = h.cluster;
    r.header.timeout_ns = timeout_ns;
    r.verb = UpkeepVerb::kBackupNow;
    return a.Run(h.server->Upkeep(r)).code();
  }
  InodeId MakeFile(const std::string& name) {
    auto made = a.Make(kRootInode, name);
    EXPECT_TRUE(made.ok()) << made.error();
    EXPECT_TRUE(a.WriteStripe(made->node.attr.ino, 0, kMiB).ok());
    return made->node.attr.ino;
  }
  // Restores from the keepers' objects, and compares the result with the store of now.
  void ExpectRestoresToNow() {
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(BackupNow(), FsError::kOk);
      if (h.server->archiver()->archived() == h.server->store()->last_seq()) break;
    }
    const Dump now = DumpOf(h.server->store()->kv());
    const CommitSeq seq = h.server->archiver()->archived();
    ASSERT_EQ(seq, h.server->store()->last_seq());
    MemKv kv(std::make_shared<MemKvMedia>(kFamilies));
    const Result<RestoreResult> r = RunSim(h.ex, RestoreArchive(keepers.Names(), &keepers, &kv, {&seal, false}));
    ASSERT_TRUE(r.ok()) << r.error();
    EXPECT_EQ(r->seq, seq);
    EXPECT_EQ(r->cluster, h.cluster);
    EXPECT_EQ(r->term, h.server->term());
    EXPECT_TRUE(r->passed_over.empty());
    EXPECT_TRUE(DumpOf(kv) == now);
  }
  size_t Complete(uint64_t node) {
    size_t n = 0;
    for (const auto& [name, _] : keepers.Of(node).objects) n += ParseArchiveName(name)->kind == ArchiveKind::kComplete;
    return n;
  }

  const ArchiveSeal seal{{TestKey()}};
  FakeKeepers keepers;
  MetaHarness h;
  TestClient a{&h, 1};
  std::vector<std::unique_ptr<TestNode>> nodes;
};

TEST_F(ArchiverTest, KeepsUpByItself) {
  EXPECT_TRUE(State().complete);
  EXPECT_EQ(State().nodes, (std::vector<NodeId>{nodes[2]->id, nodes[1]->id}));
  EXPECT_TRUE(keepers.Of(1).objects.empty());
  for (int i = 0; i < 20; ++i) {
    MakeFile("f" + std::to_string(i));
    h.ex.RunFor(kSecond);
    EXPECT_LE(State().behind_ns, 12 * kSecond);
  }
  const CommitSeq seq = h.server->store()->last_seq();
  h.ex.RunFor(12 * kSecond);
  EXPECT_GE(h.server->archiver()->archived(), seq);
  EXPECT_EQ(keepers.Of(2).objects, keepers.Of(3).objects);
  EXPECT_EQ(Complete(2), 1u);
  ExpectRestoresToNow();
}

TEST_F(ArchiverTest, ANewLifeBeginsWithACheckpointAndTwoAreKept) {
  for (int life = 0; life < 5; ++life) {
    MakeFile("f" + std::to_string(life));
    ExpectRestoresToNow();
    EXPECT_EQ(Complete(3), static_cast<size_t>(std::min(life + 1, 2)));
    for (auto& n : nodes) n->Stop();
    a.Stop();
    h.Crash(life % 2 == 0);
    EXPECT_FALSE(State().complete);
    EXPECT_EQ(h.server->archiver()->DeletableUpTo(), CommitSeq());
    for (auto& n : nodes) n->Start();
    a.Reclaim();
    h.ex.RunFor(5 * kSecond);
  }
  ExpectRestoresToNow();
}

TEST_F(ArchiverTest, APlaceThatTakesNothingIsReplaced) {
  MakeFile("f");
  ASSERT_EQ(BackupNow(), FsError::kOk);
  keepers.Of(3).answer = Error(FsError::kNoSpace, "the disk is full");
  MakeFile("g");
  EXPECT_EQ(BackupNow(5 * kSecond), FsError::kDeadline);
  EXPECT_NE(State().problem.find("the disk is full"), std::string::npos) << State().problem;
  h.ex.RunFor(90 * kSecond);
  EXPECT_EQ(State().nodes, (std::vector<NodeId>{nodes[1]->id, nodes[0]->id}));
  EXPECT_TRUE(State().complete);
  EXPECT_EQ(State().problem, "");
  ExpectRestoresToNow();
  // One goes down, and there is no other: the one that is left has it all.
  nodes[0]->Stop();
  h.ex.RunFor(100 * kSecond);
  EXPECT_EQ(State().nodes, std::vector<NodeId>{nodes[1]->id});
  MakeFile("h");
  ExpectRestoresToNow();
  // It returns: it gets a checkpoint of its own.
  nodes[0]->Start();
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(State().nodes, (std::vector<NodeId>{nodes[1]->id, nodes[0]->id}));
  keepers.Of(2).objects.clear();
  keepers.Of(3).objects.clear();
  ExpectRestoresToNow();
}

// Also if there is nothing to send by which it would be missed.
TEST_F(ArchiverTest, ANodeThatWasRemovedKeepsNothing) {
  ASSERT_EQ(BackupNow(), FsError::kOk);
  ASSERT_EQ(State().nodes.size(), 2u);
  ASSERT_EQ(State().nodes[0], nodes[2]->id);
  nodes[2]->Stop();
  h.ex.RunFor(15 * kSecond);
  AdminRequest remove;
  remove.header.cluster = h.cluster;
  remove.verb = AdminVerb::kRemove;
  remove.node = nodes[2]->id;
  const auto removed = a.Run(h.server->Admin(remove));
  ASSERT_TRUE(removed.ok()) << removed.error();
  h.ex.RunFor(15 * kSecond);
  EXPECT_EQ(State().nodes, (std::vector<NodeId>{nodes[1]->id, nodes[0]->id}));
  EXPECT_TRUE(State().complete);
}

TEST_F(ArchiverTest, GarbageStaysUntilItsDeletionIsArchived) {
  const InodeId ino = MakeFile("f");
  a.Release(ino);
  ASSERT_EQ(BackupNow(), FsError::kOk);
  h.ex.RunFor(5 * kSecond);
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error(FsError::kUnavailable);
  ASSERT_TRUE(a.Unlink("f").ok());
  h.ex.RunFor(600 * kSecond);
  EXPECT_GT(h.server->store()->Count(Counter::kGarbageShards), 0u);
  for (const auto& n : nodes) EXPECT_TRUE(n->deleted.empty());
  EXPECT_GT(State().behind_ns, 500 * kSecond);
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error();
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(h.server->store()->Count(Counter::kGarbageShards), 0u);
  EXPECT_LT(State().behind_ns, 12 * kSecond);
  // The archiver does not wait for ever for data servers that take no backups.
  const InodeId other = MakeFile("g");
  a.Release(other);
  ASSERT_EQ(BackupNow(), FsError::kOk);
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error(FsError::kUnavailable);
  ASSERT_TRUE(a.Unlink("g").ok());
  h.ex.RunFor(3000 * kSecond);
  EXPECT_GT(h.server->store()->Count(Counter::kGarbageShards), 0u);
  h.ex.RunFor(700 * kSecond);
  EXPECT_EQ(h.server->store()->Count(Counter::kGarbageShards), 0u);
}

class SmallTapeTest : public ArchiverTest {
 protected:
  static MetaServerOptions Small() {
    MetaServerOptions o;
    o.archiver.tape_bytes = 20 * kKiB;
    o.archiver.min_segment_bytes = 8 * kKiB;
    return o;
  }
  SmallTapeTest() : ArchiverTest(3, Small()) {}
};

TEST_F(SmallTapeTest, TooMuchForMemoryIsMadeGoodByACheckpoint) {
  ASSERT_EQ(BackupNow(), FsError::kOk);
  const CommitSeq archived = h.server->archiver()->archived();
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error(FsError::kUnavailable);
  for (int i = 0; i < 60; ++i) MakeFile("f" + std::to_string(i));
  EXPECT_FALSE(State().complete);
  EXPECT_EQ(h.server->archiver()->DeletableUpTo(), archived);
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error();
  h.ex.RunFor(30 * kSecond);
  EXPECT_TRUE(State().complete);
  ExpectRestoresToNow();
  // More than a checkpoint is worth in segments: another one, and the oldest go.
  for (int i = 0; i < 400; ++i) {
    MakeFile("g" + std::to_string(i));
    if (i % 10 == 0) ASSERT_EQ(BackupNow(), FsError::kOk);
  }
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Complete(3), 2u);
  ExpectRestoresToNow();
}

class SlowWalkTest : public ArchiverTest {
 protected:
  static MetaServerOptions Slow() {
    MetaServerOptions o;
    o.archiver.checkpoint_bytes_per_s = 500;
    return o;
  }
  SlowWalkTest() : ArchiverTest(0, Slow()) {}
};

// A walk is given up for another that begins at the same sequence: no object of the first is taken for one of the second.
TEST_F(SlowWalkTest, APlaceThatComesDuringAWalkBeginsAnother) {
  for (uint64_t n = 1; n <= 2; ++n) {
    nodes.push_back(std::make_unique<TestNode>(&h, n, 1));
    nodes.back()->Start();
    const bool walks = h.ex.RunUntil([&] { return keepers.Of(1).puts >= n; }, h.ex.NowNs() + 100 * kSecond);
    ASSERT_TRUE(walks);
    EXPECT_FALSE(State().complete);
  }
  h.ex.RunFor(300 * kSecond);
  EXPECT_TRUE(State().complete);
  EXPECT_EQ(State().nodes.size(), 2u);
  ExpectRestoresToNow();
}

// Changes by the lost server after the last archived moment are gone; archived ones are not, nor any shard of them.
TEST_F(ArchiverTest, ALostStoreComesBack) {
  const InodeId kept = MakeFile("kept");
  const InodeId gone = MakeFile("deleted later");
  ASSERT_EQ(BackupNow(), FsError::kOk);
  for (uint64_t n = 1; n <= 3; ++n) keepers.Of(n).answer = Error(FsError::kUnavailable);
  const InodeId young = MakeFile("young");
  a.Release(gone);
  ASSERT_TRUE(a.Unlink("deleted later").ok());
  h.ex.RunFor(30 * kSecond);
  ShardId young_shard;
  TargetId young_target;
  {
    GetExtentsRequest r;
    r.header = a.Header();
    r.ino = young;
    r.length = kMiB;
    const auto extents = a.Run(h.server->GetExtents(r));
    ASSERT_TRUE(extents.ok()) << extents.error();
    young_shard = extents->stripes.at(0).info.columns.at(0).shard;
    young_target = extents->stripes.at(0).info.columns.at(0).target;
  }

  a.Stop();
  h.server.reset();
  auto media = std::make_shared<MemKvMedia>(kFamilies);
  {
    MemKv kv(media);
    const auto restored = RunSim(h.ex, RestoreArchive(keepers.Names(), &keepers, &kv, {&seal, false}));
    ASSERT_TRUE(restored.ok()) << restored.error();
  }
  ReviveParams p;
  p.incarnation = 2;
  p.store = Uuid{9, 2};
  p.wall_ns = h.ex.WallNs();
  const auto revived = RunSim(h.ex, ReviveStore(std::make_unique<MemKv>(media), p));
  ASSERT_TRUE(revived.ok()) << revived.error();
  EXPECT_TRUE(revived->fsck.problems.empty());
  h.media = media;
  for (uint64_t n = 1; n <= 3; ++n) {
    keepers.Of(n).answer = Error();
    keepers.Of(n).incarnation = 2;
  }
  h.StartServer();
  TestClient b(&h, 2);
  b.Open();
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(b.Lookup("kept")->attr.ino, kept);
  EXPECT_EQ(b.Lookup("deleted later")->attr.ino, gone);
  EXPECT_EQ(b.Lookup("young").code(), FsError::kNoEnt);
  for (const auto& n : nodes) EXPECT_TRUE(n->deleted.empty());

  // The young shard is unknown, and stays.
  CheckShardsRequest check;
  check.header.cluster = h.cluster;
  check.target = young_target;
  check.shards = {young_shard};
  EXPECT_TRUE(b.Run(h.server->CheckShards(check))->unknown.empty());
  EXPECT_EQ(State().held_shards, 1u);
  EXPECT_TRUE(b.Run(h.server->CheckShards(check))->unknown.empty());
  EXPECT_EQ(State().held_shards, 1u);
  EXPECT_GT(State().hold_until_s, h.ex.WallNs() / kSecond + 29 * 24 * 3600);
  // The lost server's archive is kept as well.
  for (int i = 0; i < 3; ++i) {
    b.Stop();
    for (auto& n : nodes) n->Stop();
    h.Crash(false);
    for (auto& n : nodes) n->Start();
    b.Open();
    h.ex.RunFor(30 * kSecond);
  }
  const auto former = [&] {
    const auto names = keepers.Names();
    return std::ranges::count_if(names, [](const ArchiveName& n) { return n.incarnation == 1; });
  };
  EXPECT_GT(former(), 0);
  UpkeepRequest forget;
  forget.header.cluster = h.cluster;
  forget.verb = UpkeepVerb::kForgetUnknown;
  forget.dry_run = true;
  ASSERT_TRUE(b.Run(h.server->Upkeep(forget)).ok());
  EXPECT_TRUE(b.Run(h.server->CheckShards(check))->unknown.empty());
  forget.dry_run = false;
  ASSERT_TRUE(b.Run(h.server->Upkeep(forget)).ok());
  EXPECT_EQ(b.Run(h.server->CheckShards(check))->unknown, std::vector<ShardId>{young_shard});
  b.Stop();
  for (auto& n : nodes) n->Stop();
  h.Crash(false);
  for (auto& n : nodes) n->Start();
  b.Open();
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(former(), 0);
  EXPECT_EQ(b.Run(h.server->CheckShards(check))->unknown, std::vector<ShardId>{young_shard});
  b.Stop();
}

}  // namespace
}  // namespace stria
