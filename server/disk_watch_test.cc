// Disks that go away under a running data server, and disks in their place. Directories stand for them: a renamed one looks
// like an unmounted one.
#include "server/disk_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/temp_dir.h"
#include "server/fake_admin.h"
#include "server/fake_meta.h"
#include "server/node_testing.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

// As the time is the machine's, everything looks ten times as often as usual.
constexpr DiskWatchTimes kTimes = {100 * kMillisecond, 200 * kMillisecond, kSecond};
constexpr int64_t kBeatNs = 100 * kMillisecond;

class NoPeers final : public DataConnector {
 public:
  std::shared_ptr<DataService> Connect(const std::string&) override { return nullptr; }
};

// A data server on directories d1, d2 of `root`, while `body` runs.
class Process {
 public:
  // `admin`: says which shards there should be; null: nobody does.
  Process(std::string root, std::vector<std::string> labels, std::function<Task<void>(Process*)> body, FakeAdmin* admin = nullptr)
      : root_(std::move(root)),
        labels_(std::move(labels)),
        meta(EmptyMap()),
        connector_(&meta),
        admin_(admin),
        sync_pool_(1, "sync"),
        verifier_({TestKey()}) {
    ex_.MakeCurrent();
    env_ = {&sync_pool_, RocksMemory::Make(16 * kMiB)};
    meta.beat_ns = kBeatNs;
    scope_.Spawn([](Process* p, std::function<Task<void>(Process*)> run) -> Task<void> {
      co_await p->Start();
      co_await run(p);
      p->ex_.Stop();
    }(this, std::move(body)));
    ex_.Run();
    scope_.CancelAll();
    if (watch_) watch_->Stop();
    local_.reset();
    node.reset();
    watch_.reset();
    disks_.clear();
    Executor::ClearCurrent();
  }
  std::string path(size_t i) const { return root_ + "/" + labels_[i]; }
  // Gives up after a time that no machine takes.
  static Task<bool> Until(std::function<bool()> what) {
    for (int i = 0; i < 1200; ++i) {
      if (what()) co_return true;
      co_await Sleep(50 * kMillisecond);
    }
    co_return false;
  }
  Task<bool> InUse(size_t i) {
    co_return co_await Until([this, i] {
      return node->problem(i).ok() && node->agent().registered() && meta.beat.disks.size() > i && !meta.beat.disks[i].absent;
    });
  }
  Task<bool> Told(size_t i, std::string text) {
    co_return co_await Until([this, i, text] {
      return meta.beat.disks.size() > i && meta.beat.disks[i].absent && meta.beat.disks[i].problem.find(text) != std::string::npos;
    });
  }
  // The metadata server's word about disk `i`. The node knows it when this is done.
  Task<void> SetState(size_t i, Uuid disk, TargetState state) {
    TargetInfo t;
    t.id = TargetId(static_cast<uint32_t>(i + 1));
    t.node = NodeId(1);
    t.disk_uuid = disk;
    t.label = labels_[i];
    t.state = state;
    std::erase_if(meta.map.targets, [&](const TargetInfo& o) { return o.id == t.id; });
    meta.map.targets.push_back(t);
    ++meta.map.version;
    EXPECT_TRUE(co_await Until([this] { return node->agent().map() && node->agent().map()->version == meta.map.version; }));
  }

  // As SIGHUP does with other settings.
  DiskChanges Reload(const std::vector<std::string>& labels) {
    std::vector<DiskSpec> wanted;
    for (const std::string& label : labels) wanted.push_back({root_ + "/" + label, label, ""});
    return watch_->TakeSettings(wanted);
  }
  // Disk `i` answers nothing that its index is asked, until `over`.
  void Hang(size_t i, const std::shared_future<void>& over) {
    for (int n = 0; n < kIndexThreads; ++n) disks_.at(i).index_pool->Submit([over] { over.wait(); });
  }
  // Something else fills disk `i`, as far as its index sees.
  void Fill(size_t i) { *full_.at(i) = true; }
  // How many disks the metadata server is told of.
  Task<bool> Tells(size_t disks) {
    co_return co_await Until([this, disks] { return meta.beat.disks.size() == disks; });
  }

  std::unique_ptr<DataNode> node;

 private:
  static ClusterMap EmptyMap() {
    ClusterMap map;
    map.version = 1;
    map.cluster = kTestCluster;
    map.incarnation = kTestIncarnation;
    NodeInfo n;
    n.id = NodeId(1);
    n.name = "n1";
    map.nodes.push_back(n);
    return map;
  }
  Task<void> Start() {
    std::vector<DataNodeDisk> list;
    for (size_t i = 0; i < labels_.size(); ++i) {
      Result<OpenDisk> d = co_await OpenDataDisk({path(i), labels_[i], ""}, env_, true);
      disks_.push_back(std::move(d).value());
      full_.push_back(std::make_shared<std::atomic<bool>>(false));
      if (std::unique_ptr<RemovableKv>& index = disks_.back().index) {
        index = std::make_unique<RemovableKv>(std::make_unique<FullKv>(index->Remove(Error()), full_.back()));
      }
      list.push_back(disks_.back().ForNode());
    }
    DataNodeOptions options;
    options.name = "n1";
    options.address = "node1";
    options.meta_addresses = {"meta"};
    options.keys = {TestKey()};
    options.new_node = Uuid{5, 1};
    options.agent.sweep = options.agent.scrub = false;
    Result<std::unique_ptr<DataNode>> opened =
        co_await DataNode::Open(std::move(list), {&connector_, &peers_, &sync_pool_, admin_}, std::move(options));
    node = std::move(opened).value();
    local_ = std::make_unique<LocalOpener>(&verifier_, &node->server(), std::map<const ShardStore*, Disk*>());
    watch_ = std::make_unique<DiskWatch>(node.get(), local_.get(), &disks_, env_, kTimes);
    node->Start();
    watch_->Start();
  }

  const std::string root_;
  const std::vector<std::string> labels_;

 public:
  FakeMetaService meta;

 private:
  FakeMetaConnector connector_;
  FakeAdmin* const admin_;
  NoPeers peers_;
  LoopExecutor ex_;
  ThreadPool sync_pool_;
  TokenGate verifier_;
  DiskEnv env_;
  std::deque<OpenDisk> disks_;
  std::vector<std::shared_ptr<std::atomic<bool>>> full_;  // by disk: of the index that it has at the start
  std::unique_ptr<LocalOpener> local_;
  std::unique_ptr<DiskWatch> watch_;
  TaskScope scope_;
};

class DiskWatchTest : public testing::Test {
 protected:
  DiskWatchTest() {
    for (const char* d : {"d1", "d2"}) fs::create_directory(Path(d));
  }
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }
  TempDir dir_;
};

TEST_F(DiskWatchTest, ADiskThatIsUnmountedUnderItIsAbsentAndComesBack) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    const Uuid disk = n->meta.hello.disks.at(0).uuid;
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[0].get(), ShardId(7), 300'000)).ok());
    ShardStore* const store = n->node->stores()[0].get();
    co_await n->SetState(0, disk, TargetState::kUp);
    fs::rename(Path("d1"), Path("away"));
    fs::create_directory(Path("d1"));
    EXPECT_TRUE(co_await n->Told(0, "is empty, but the cluster knows n1:d1 in its place"));
    EXPECT_FALSE(n->meta.beat.disks.at(1).absent);
    EXPECT_EQ(n->node->server().FindStore(TargetId(1)), nullptr);
    const Result<Sealed> late = co_await StoreWhole(store, ShardId(8), 300'000);
    EXPECT_EQ(late.code(), FsError::kDiskFailed) << "a call that had begun";
    co_await Sleep(3 * kTimes.look_at_place_ns);
    EXPECT_TRUE(fs::is_empty(Path("d1"))) << "it is no disk";
    fs::remove(Path("d1"));
    fs::rename(Path("away"), Path("d1"));
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_EQ(n->meta.hello.disks.at(0).uuid, disk);
    const Result<ShardBytes> got = co_await n->node->stores()[0]->Read(ShardId(7), 0, 300'000);
    EXPECT_TRUE(got.ok()) << got.error();
  });
}

// It is no failed disk. (The test's disk has room as soon as the watch looks.)
TEST_F(DiskWatchTest, ADiskThatSomethingElseFilledIsOpenedAnewWhenThereIsRoom) {
  Process p(dir_.path(), {"d1", "d2"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    const Uuid disk = n->meta.hello.disks.at(0).uuid;
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[0].get(), ShardId(7), 300'000)).ok());
    n->Fill(0);
    EXPECT_EQ((co_await StoreWhole(n->node->stores()[0].get(), ShardId(8), 300'000)).code(), FsError::kDiskFailed);
    EXPECT_TRUE(co_await n->Until([n] {
      const ShardStore* const now = n->node->stores()[0].get();
      return now != nullptr && !now->failed();
    }));
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_FALSE(n->meta.beat.disks.at(0).failed);
    EXPECT_EQ(n->meta.hello.disks.at(0).uuid, disk);
    const Result<ShardBytes> got = co_await n->node->stores()[0]->Read(ShardId(7), 0, 300'000);
    EXPECT_TRUE(got.ok()) << got.error();
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[0].get(), ShardId(8), 300'000)).ok());
  });
}

TEST_F(DiskWatchTest, ANewDiskInThePlaceOfAnotherIsUsedWhenThatIsOut) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(1));
    const Uuid disk = n->meta.hello.disks.at(1).uuid;
    co_await n->SetState(1, disk, TargetState::kFailed);
    fs::rename(Path("d2"), Path("away"));
    fs::create_directory(Path("d2"));
    EXPECT_TRUE(co_await n->Told(1, "`stria disk out n1:d2`"));
    co_await n->SetState(1, disk, TargetState::kOut);
    EXPECT_TRUE(co_await n->InUse(1));
    EXPECT_NE(n->meta.hello.disks.at(1).uuid, disk);
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[1].get(), ShardId(9), 1000)).ok());
  });
}

// It can be unmounted; and it is used again when an admin says so.
TEST_F(DiskWatchTest, ADiskThatIsRemovedIsLetGo) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    const Uuid disk = n->meta.hello.disks.at(0).uuid;
    co_await n->SetState(0, disk, TargetState::kRemoved);
    EXPECT_TRUE(co_await n->Told(0, "stria disk add n1:d1"));
    EXPECT_TRUE(co_await n->Until([this] { return PosixDisk::Open(Path("d1")).ok(); })) << "nobody has it open";
    co_await n->SetState(0, disk, TargetState::kUp);
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_EQ(n->meta.hello.disks.at(0).uuid, disk);
  });
}

// As a disk that is there when the server starts: it is used without a restart, and the others serve all the time.
TEST_F(DiskWatchTest, ADiskThatIsNewInTheSettingsIsUsed) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[0].get(), ShardId(7), 1000)).ok());
    ShardStore* const store = n->node->stores()[0].get();
    EXPECT_EQ(n->Reload({"d1", "d2", "d3"}).added.size(), 1u);
    EXPECT_TRUE(n->Reload({"d3", "d2", "d1"}).added.empty()) << "it is known already";
    EXPECT_TRUE(co_await n->Told(2, "d3")) << "its directory is not there yet";
    EXPECT_FALSE(n->node->problem(2).ok());
    fs::create_directory(Path("d3"));
    EXPECT_TRUE(co_await n->InUse(2));
    EXPECT_EQ(n->meta.hello.disks.at(2).label, "d3");
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[2].get(), ShardId(9), 1000)).ok());
    EXPECT_NE(n->node->server().FindStore(TargetId(3)), nullptr);
    EXPECT_EQ(n->node->stores()[0].get(), store) << "the others were left alone";
    EXPECT_TRUE((co_await store->Read(ShardId(7), 0, 1000)).ok());
  });
}

TEST_F(DiskWatchTest, ADiskThatIsTakenOutOfTheSettingsIsLetGo) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_TRUE(co_await n->InUse(1));
    const Uuid first = n->meta.hello.disks.at(0).uuid, second = n->meta.hello.disks.at(1).uuid;
    EXPECT_EQ(n->Reload({"d2"}).dropped, std::vector<size_t>{0});
    EXPECT_TRUE(co_await n->Tells(1));
    EXPECT_EQ(n->meta.beat.disks.at(0).uuid, second);
    EXPECT_TRUE(co_await n->Until([this] { return PosixDisk::Open(Path("d1")).ok(); })) << "nobody has it open";
    EXPECT_EQ(n->node->stores()[0], nullptr);
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[1].get(), ShardId(9), 1000)).ok());
    // Registered again, what is given to the one disk that is told of is not taken for that of another.
    n->meta.map.incarnation += 1;
    n->meta.map.version += 1;
    EXPECT_TRUE(co_await n->Until([n] { return n->meta.hello.disks.size() == 1; }));
    EXPECT_TRUE(co_await n->Until([n] { return n->node->server().FindStore(TargetId(1)) == n->node->stores()[1].get(); }));
    EXPECT_EQ(n->Reload({"d2", "d1"}).added.size(), 1u);
    EXPECT_TRUE(co_await n->Tells(2));
    EXPECT_TRUE(co_await n->InUse(1));
    EXPECT_TRUE(co_await n->Until([n, first] { return n->meta.beat.disks.at(1).uuid == first; })) << "the same disk again";
    EXPECT_TRUE(n->node->problem(2).ok()) << n->node->problem(2);
  });
}

// It is let go even if it never came.
TEST_F(DiskWatchTest, APlaceWithoutADiskIsTakenOutOfTheSettings) {
  Process p(dir_.path(), {"d1"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    n->Reload({"d1", "nowhere"});
    EXPECT_TRUE(co_await n->Tells(2));
    n->Reload({"d1"});
    EXPECT_TRUE(co_await n->Tells(1));
    EXPECT_TRUE(n->node->problem(0).ok());
  });
}

// It cannot say that it is gone, and nothing that is asked of it comes back.
TEST_F(DiskWatchTest, ADiskThatHangsIsTakenOut) {
  fs::create_directory(Path("d3"));
  Process p(dir_.path(), {"d1", "d2", "d3"}, [](Process* n) -> Task<void> {
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(co_await n->InUse(i));
    const Uuid first = n->meta.hello.disks.at(0).uuid, second = n->meta.hello.disks.at(1).uuid;
    std::promise<void> over;
    const std::shared_future<void> until = over.get_future().share();
    n->Hang(0, until);
    n->Hang(1, until);
    co_await Sleep(3 * kTimes.look_for_disk_ns);
    EXPECT_TRUE(n->node->problem(0).ok()) << "it is not gone";
    co_await n->SetState(1, second, TargetState::kRemoved);
    EXPECT_TRUE(co_await n->Told(1, "stria disk add n1:d2")) << "out of the cluster";
    n->Reload({"d2", "d3"});
    EXPECT_TRUE(co_await n->Tells(2)) << "out of the settings";
    for (const DiskHello& d : n->meta.beat.disks) EXPECT_NE(d.uuid, first);
    EXPECT_EQ(n->node->stores()[0], nullptr);
    EXPECT_EQ(n->node->stores()[1], nullptr);
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[2].get(), ShardId(9), 1000)).ok());
    over.set_value();
  });
}

// The metadata server has to be told which disk it is before it can say what should be on it.
TEST_F(DiskWatchTest, ADiskThatIsNewInTheSettingsGetsItsIndexBack) {
  constexpr uint64_t kBytes = 300'000;
  Process first(dir_.path(), {"d1", "d2"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(1));
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[1].get(), ShardId(7), kBytes)).ok());
  });
  fs::remove_all(Path("d2") + "/index");
  fs::remove_all(Path("d2") + "/segments");
  FakeAdmin admin;
  admin.live[TargetId(2)] = {{ShardId(7), DigestOf(ShardId(7), BytesOf(ShardId(7), kBytes))}};
  Process p(dir_.path(), {"d1"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    n->Reload({"d1", "d2"});
    EXPECT_TRUE(co_await n->InUse(1));
    if (ShardStore* const store = n->node->stores()[1].get()) {
      const Result<ShardBytes> got = co_await store->Read(ShardId(7), 0, kBytes);
      EXPECT_TRUE(got.ok()) << got.error();
    } else {
      ADD_FAILURE() << n->node->problem(1);
    }
  }, &admin);
}

// Nobody says which of its shards are known, so it waits for that.
TEST_F(DiskWatchTest, ADiskWhoseIndexIsBeingMadeIsTakenOutOfTheSettings) {
  Process first(dir_.path(), {"d1"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    EXPECT_TRUE((co_await StoreWhole(n->node->stores()[0].get(), ShardId(7), 300'000)).ok());
  });
  fs::remove_all(Path("d1") + "/index");
  fs::remove_all(Path("d1") + "/segments");
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(1));
    EXPECT_TRUE(co_await n->Until([this] { return fs::exists(Path("d1") + "/index.new"); }));
    co_await Sleep(kSecond);
    EXPECT_FALSE(n->node->problem(0).ok()) << "its index is not made yet";
    n->Reload({"d2"});
    EXPECT_TRUE(co_await n->Tells(1));
    EXPECT_TRUE(co_await n->Until([this] { return PosixDisk::Open(Path("d1")).ok(); })) << "nobody has it open";
    EXPECT_TRUE(n->node->problem(1).ok());
  });
}

// It may lie there for weeks, so nothing of it stays open.
TEST_F(DiskWatchTest, ACopyThatIsNewInTheSettingsLeavesNothingBehind) {
  Process p(dir_.path(), {"d1", "d2"}, [this](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(0));
    fs::copy(Path("d1"), Path("copy"), fs::copy_options::recursive);
    const auto threads = [] { return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()); };
    const auto before = threads();
    (void)n->Reload({"d1", "d2", "copy"});
    EXPECT_TRUE(co_await n->Told(2, "one is a copy of the other"));
    EXPECT_TRUE(co_await Process::Until([&] { return threads() <= before; })) << threads() << " threads, " << before << " before";
    EXPECT_TRUE(n->node->problem(0).ok());
  });
}

TEST_F(DiskWatchTest, ACopyOfADiskIsKeptOut) {
  Process first(dir_.path(), {"d1"}, [](Process* n) -> Task<void> { EXPECT_TRUE(co_await n->InUse(0)); });
  fs::copy(Path("d1"), Path("copy"), fs::copy_options::recursive);
  Process p(dir_.path(), {"copy", "d1", "d2"}, [](Process* n) -> Task<void> {
    EXPECT_TRUE(co_await n->InUse(1));
    EXPECT_TRUE(co_await n->InUse(2));
    EXPECT_EQ(n->node->problem(0).code, FsError::kExist);
    EXPECT_TRUE(co_await n->Told(0, "one is a copy of the other"));
    EXPECT_EQ(n->meta.hello.disks.at(0).uuid, Uuid());
  });
}

}  // namespace
}  // namespace stria
