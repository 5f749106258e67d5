#include "meta/node_probe.h"

#include <gtest/gtest.h>

#include <set>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

class FakeServer final : public DataService {
 public:
  explicit FakeServer(FsError error) : error_(error) {}
  Task<Result<WriteReply>> Write(WriteRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<SealReply>> Seal(SealRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<ReadReply>> Read(ReadRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<DeleteReply>> Delete(DeleteRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<InventoryReply>> Inventory(InventoryRequest) override {
    if (error_ != FsError::kOk) co_return Error(error_);
    co_return InventoryReply();
  }

 private:
  const FsError error_;
};

class FakeConnector final : public DataConnector {
 public:
  std::shared_ptr<DataService> Connect(const std::string& address) override {
    asked.insert(address);
    const auto it = errors.find(address);
    return std::make_shared<FakeServer>(it == errors.end() ? FsError::kOk : it->second);
  }
  std::map<std::string, FsError> errors;
  std::set<std::string> asked;
};

TEST(NodeProbe, TellsOfNodesThatCannotBeReachedWhereTheySay) {
  SimExecutor ex(1);
  ClusterState cluster(ClusterOptions{}, Uuid{9, 9}, 1);
  FakeConnector connector;
  uint32_t next = 1;
  std::map<NodeId, ClusterState::Registered> registered;
  const auto join = [&](uint64_t n, const std::string& address) {
    RegisterNodeRequest r;
    r.uuid = Uuid{1, n};
    r.name = "n" + std::to_string(n);
    r.address = address;
    DiskHello d;
    d.uuid = Uuid{2, n};
    r.disks = {d};
    const auto done = cluster.Register(r, ex.NowNs(), ex.WallNs(), [&] { return NodeId(next++); }, [&] { return TargetId(next++); });
    ASSERT_TRUE(done.ok()) << done.error();
    registered[done->node] = *done;
  };
  connector.errors = {{"nowhere:1", FsError::kUnavailable}, {"another:1", FsError::kNoEnt}, {"elsewhere:1", FsError::kNoEnt}};
  join(1, "here:1");
  join(2, "nowhere:1");
  NodeProbe probe(&connector, &cluster, [&](std::vector<NodeId> cannot) {
    cluster.reach().Report({SessionId(), "the metadata server", "the metadata server"}, std::move(cannot), ex.WallNs());
  });
  TaskScope scope;
  scope.Spawn(probe.Run());
  const auto cannot = [&](const std::string& name) {
    return !cluster.reach().WhoCannotReach(cluster.FindNodeByName(name)->id, ex.WallNs()).empty();
  };
  ex.RunFor(kSecond);
  EXPECT_TRUE(cannot("n2"));
  EXPECT_FALSE(cannot("n1"));
  join(3, "another:1");
  ex.RunFor(3 * kSecond);
  EXPECT_TRUE(cannot("n3")) << "somebody else answers there";
  connector.errors.erase("nowhere:1");
  ex.RunFor(20 * kSecond);
  EXPECT_FALSE(cannot("n2"));
  join(2, "elsewhere:1");
  ex.RunFor(3 * kSecond);
  EXPECT_TRUE(cannot("n2")) << "a new address is tried at once";
}

}  // namespace
}  // namespace stria
