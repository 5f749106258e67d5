#include "server/backup_keeper.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/io/sim_disk.h"
#include "common/random.h"

namespace stria {
namespace {

constexpr Uuid kCluster{1, 2};
constexpr uint64_t kIncarnation = 3;

ClusterKey Key(uint8_t fill = 42) {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(fill);
  return key;
}

class BackupKeeperTest : public testing::Test {
 protected:
  BackupKeeperTest() {
    for (uint64_t i = 0; i < 2; ++i) media_.push_back(std::make_shared<SimDiskMedia>(i + 1));
    server.SetCluster(kCluster, kIncarnation);
    Open();
  }
  void Open() {
    keeper.reset();
    disks.clear();
    sim_.clear();
    for (auto& m : media_) {
      sim_.push_back(std::make_unique<SimDisk>(m));
      disks.push_back({sim_.back().get(), true, 10 * kGiB});
    }
    keeper = std::make_unique<BackupKeeper>(&verifier, &server, "n1", [this] { return disks; });
  }
  void PowerCut() {
    keeper.reset();
    sim_.clear();
    for (auto& m : media_) m->Crash(rng);
    Open();
  }
  DataHeader Header(uint64_t incarnation = kIncarnation) {
    DataHeader h;
    h.cluster = kCluster;
    h.incarnation = incarnation;
    return h;
  }
  std::string Token(ShardId shard = ShardId(), uint8_t rights = kTokenAdmin, uint8_t key = 42) {
    return EncodeToken(TokenSigner(Key(key)).Sign(shard, TargetId(), rights, ex.WallNs() / kSecond + 60));
  }
  FsError Put(const std::string& name, const std::string& bytes, uint64_t incarnation = kIncarnation) {
    PutBackupRequest r{Header(incarnation), Token(), name, {}};
    if (!bytes.empty()) r.payload.Append(Buffer::FromString(bytes));
    return RunSim(ex, keeper->PutBackup(std::move(r))).code();
  }
  Result<std::string> Get(const std::string& name) {
    GetBackupRequest r{DataHeader(), Token(), name};
    auto reply = RunSim(ex, keeper->GetBackup(std::move(r)));
    if (!reply.ok()) return reply.error();
    return std::string(reply->payload.Flatten().view());
  }
  std::vector<std::string> List(uint32_t page = kMaxBackupPage) {
    std::vector<std::string> out;
    for (bool more = true; more;) {
      ListBackupsRequest r{DataHeader(), Token(), out.empty() ? "" : out.back(), page};
      auto reply = RunSim(ex, keeper->ListBackups(std::move(r)));
      EXPECT_TRUE(reply.ok()) << reply.error();
      EXPECT_EQ(reply->cluster, kCluster);
      EXPECT_EQ(reply->incarnation, kIncarnation);
      EXPECT_EQ(reply->node, "n1");
      out.insert(out.end(), reply->names.begin(), reply->names.end());
      more = reply->more;
    }
    return out;
  }
  FsError Delete(std::vector<std::string> names, uint64_t incarnation = kIncarnation) {
    return RunSim(ex, keeper->DeleteBackups({Header(incarnation), Token(), std::move(names)})).code();
  }

  SimExecutor ex{1};
  Random rng{5};
  TokenGate verifier{std::vector<ClusterKey>{Key()}};
  DataServer server{&verifier};
  std::vector<BackupDisk> disks;
  std::unique_ptr<BackupKeeper> keeper;

 private:
  std::vector<std::shared_ptr<SimDiskMedia>> media_;
  std::vector<std::unique_ptr<SimDisk>> sim_;
};

// Against a map, with power cuts: put objects are there, whole; deleted ones may be there again.
TEST_F(BackupKeeperTest, KeepsWhatItWasGiven) {
  std::map<std::string, std::string> want;
  int names = 0;
  const auto name_of = [](uint64_t n) { return "o-" + std::to_string(1000 + n); };
  for (int i = 0; i < 300; ++i) {
    const std::string name = name_of(rng.Below(static_cast<uint64_t>(names) + 1));
    switch (rng.Below(5)) {
      case 0:
      case 1: {
        const std::string bytes(1 + rng.Below(5000), static_cast<char>('a' + rng.Below(26)));
        const std::string fresh = name_of(static_cast<uint64_t>(++names));
        for (BackupDisk& d : disks) d.free_bytes = (1 + rng.Below(3)) * kGiB;
        ASSERT_EQ(Put(fresh, bytes), FsError::kOk);
        want[fresh] = bytes;
        break;
      }
      case 2:
        ASSERT_EQ(Delete({name, "never-there"}), FsError::kOk);
        want.erase(name);
        EXPECT_EQ(Get(name).code(), FsError::kNoEnt);
        break;
      case 3:
        if (want.count(name)) {
          EXPECT_EQ(Get(name).value(), want[name]);
        }
        break;
      default: {
        std::vector<std::string> all;
        for (const auto& [n, _] : want) all.push_back(n);
        EXPECT_EQ(List(1 + static_cast<uint32_t>(rng.Below(8))), all);
      }
    }
  }
  PowerCut();
  for (const auto& [name, bytes] : want) EXPECT_EQ(Get(name).value(), bytes) << name;
}

// One that serves an old copy of the metadata would delete what the later life needs.
TEST_F(BackupKeeperTest, TakesNothingFromAFormerLife) {
  const auto put = [this](uint64_t term) {
    PutBackupRequest r{Header(), Token(), "a", BufferChain(Buffer::FromString("x"))};
    r.header.seen_term = term;
    r.header.seen_proof = 10 * term;
    return RunSim(ex, keeper->PutBackup(std::move(r))).code();
  };
  const auto drop = [this](uint64_t term) {
    DeleteBackupsRequest r{Header(), Token(), {"a"}};
    r.header.seen_term = term;
    return RunSim(ex, keeper->DeleteBackups(std::move(r))).code();
  };
  EXPECT_EQ(put(5), FsError::kOk);
  EXPECT_EQ(put(6), FsError::kOk);
  EXPECT_EQ(put(5), FsError::kNotLeader);
  EXPECT_EQ(drop(5), FsError::kNotLeader);
  EXPECT_EQ(Get("a").value(), "x");
  EXPECT_EQ(server.terms().known(), (SaidTerm{6, 60}));
  // Others have heard of a later one.
  EXPECT_TRUE(server.terms().Claim(nullptr, {8, 80}));
  EXPECT_EQ(put(7), FsError::kRetryLater) << "it is asked first whether that is so";
  EXPECT_EQ(put(8), FsError::kOk);
  EXPECT_EQ(put(0), FsError::kOk) << "an older release does not say";
  EXPECT_EQ(drop(8), FsError::kOk);
}

TEST_F(BackupKeeperTest, RefusesWhoHasNotTheKey) {
  for (const std::string& token : {Token(ShardId(1)), Token(ShardId(), kTokenWrite), Token(ShardId(), kTokenAdmin, 43), std::string()}) {
    PutBackupRequest put{Header(), token, "a", BufferChain(Buffer::FromString("x"))};
    EXPECT_EQ(RunSim(ex, keeper->PutBackup(std::move(put))).code(), FsError::kBadToken);
    EXPECT_EQ(RunSim(ex, keeper->ListBackups({DataHeader(), token, "", 10})).code(), FsError::kBadToken);
    EXPECT_EQ(RunSim(ex, keeper->GetBackup({DataHeader(), token, "a"})).code(), FsError::kBadToken);
    EXPECT_EQ(RunSim(ex, keeper->DeleteBackups({Header(), token, {"a"}})).code(), FsError::kBadToken);
  }
  EXPECT_TRUE(List().empty());
}

TEST_F(BackupKeeperTest, AnOldCopyOfTheMetadataChangesNothing) {
  ASSERT_EQ(Put("a", "new"), FsError::kOk);
  EXPECT_EQ(Put("a", "old", kIncarnation - 1), FsError::kWrongCluster);
  EXPECT_EQ(Delete({"a"}, kIncarnation - 1), FsError::kWrongCluster);
  EXPECT_EQ(Put("a", "newer", kIncarnation + 1), FsError::kRetryLater);
  EXPECT_EQ(Get("a").value(), "new");
  PutBackupRequest other{Header(), Token(), "a", BufferChain(Buffer::FromString("x"))};
  other.header.cluster = Uuid{7, 7};
  EXPECT_EQ(RunSim(ex, keeper->PutBackup(other)).code(), FsError::kWrongCluster);
  other.header.cluster = Uuid();
  EXPECT_EQ(RunSim(ex, keeper->PutBackup(other)).code(), FsError::kWrongCluster);
}

TEST_F(BackupKeeperTest, NamesAndSizesAreBounded) {
  for (const char* name : {"", "../a", "a/b", "a.b", "A", "backup/x"}) EXPECT_EQ(Put(name, "x"), FsError::kBadRequest) << name;
  EXPECT_EQ(Put(std::string(kMaxBackupNameBytes + 1, 'a'), "x"), FsError::kBadRequest);
  EXPECT_EQ(Put(std::string(kMaxBackupNameBytes, 'a'), "x"), FsError::kOk);
  EXPECT_EQ(Put("a", ""), FsError::kBadRequest);
  EXPECT_EQ(Put("a", std::string(kMaxBackupBytes, 'x')), FsError::kOk);
  EXPECT_EQ(Put("a", std::string(kMaxBackupBytes + 1, 'x')), FsError::kBadRequest);
  EXPECT_EQ(Get("../superblock").code(), FsError::kBadRequest);
  EXPECT_EQ(Delete({"../superblock"}), FsError::kBadRequest);
}

TEST_F(BackupKeeperTest, UsesTheDisksThatCanBeUsed) {
  disks[0].free_bytes = 5 * kGiB;
  disks[1].free_bytes = 6 * kGiB;
  ASSERT_EQ(Put("a", "1"), FsError::kOk);
  disks[1].writable = false;  // it has failed, and can be read
  EXPECT_EQ(Get("a").value(), "1");
  ASSERT_EQ(Put("b", "2"), FsError::kOk);
  EXPECT_EQ(List(), (std::vector<std::string>{"a", "b"}));
  disks[0].free_bytes = 0;  // for shards, that is
  EXPECT_EQ(Put("c", "3"), FsError::kOk);
  disks.erase(disks.begin());
  EXPECT_EQ(List(), std::vector<std::string>{"a"});
  EXPECT_EQ(Put("d", "4"), FsError::kNoSpace);
}

TEST_F(BackupKeeperTest, LeavesSomethingOfAFullDisk) {
  SimDiskOptions options;
  options.capacity_bytes = 10 * kMiB;
  auto media = std::make_shared<SimDiskMedia>(7, options);
  SimDisk small(media);
  disks = {{&small, true, 0}};
  for (int i = 0; i < 8; ++i) ASSERT_EQ(Put("o-" + std::to_string(i), std::string(kMiB, 'x')), FsError::kOk) << i;
  EXPECT_EQ(Put("one-more", std::string(kMiB, 'x')), FsError::kNoSpace);
  ASSERT_EQ(Delete({"o-0", "o-1"}), FsError::kOk);
  EXPECT_EQ(Put("one-more", std::string(kMiB, 'x')), FsError::kOk);
}

}  // namespace
}  // namespace stria
