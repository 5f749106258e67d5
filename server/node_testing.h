// For tests of this folder: data server nodes in one simulated process, and a connector to them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/data_api.h"
#include "common/token.h"
#include "server/data_server.h"
#include "server/shard_testing.h"

namespace stria {

inline constexpr Uuid kTestCluster{1, 2};
inline constexpr uint64_t kTestIncarnation = 3;

inline ClusterKey TestKey() {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(42);
  return key;
}

// Node n has target n and address "node<n>".
class SimNodes {
 public:
  SimNodes(SimExecutor& ex, uint64_t seed, size_t count)
      : ex_(ex), signer(TestKey()), verifier(std::vector<ClusterKey>{TestKey()}) {
    map.cluster = kTestCluster;
    map.incarnation = kTestIncarnation;
    map.version = 1;
    for (size_t i = 1; i <= count; ++i) {
      auto& node = nodes[i];
      node.sim = std::make_unique<SimStore>(seed * 100 + i);
      node.sim->Start(ex);
      node.server = std::make_unique<DataServer>(&verifier);
      node.server->SetCluster(kTestCluster, kTestIncarnation);
      node.server->SetTarget(TargetId(static_cast<uint32_t>(i)), node.sim->store.get());
      NodeInfo info;
      info.id = NodeId(static_cast<uint32_t>(i));
      info.name = "n" + std::to_string(i);
      info.address = "node" + std::to_string(i);
      map.nodes.push_back(info);
      TargetInfo target;
      target.id = TargetId(static_cast<uint32_t>(i));
      target.node = info.id;
      map.targets.push_back(target);
    }
  }
  struct Node {
    std::unique_ptr<SimStore> sim;
    std::unique_ptr<DataServer> server;
  };
  ShardStore* store(size_t n) { return nodes.at(n).sim->store.get(); }
  std::string Token(ShardId shard, size_t target, uint8_t rights) {
    return EncodeToken(
        signer.Sign(shard, TargetId(static_cast<uint32_t>(target)), rights, ex_.WallNs() / kSecond + 3600));
  }
  DataHeader Header() const {
    DataHeader h;
    h.cluster = kTestCluster;
    h.incarnation = kTestIncarnation;
    return h;
  }

 private:
  SimExecutor& ex_;

 public:
  TokenSigner signer;
  TokenGate verifier;
  ClusterMap map;
  std::map<size_t, Node> nodes;
};

class SimConnector final : public DataConnector {
 public:
  explicit SimConnector(SimNodes* nodes) : nodes_(nodes) {}
  std::shared_ptr<DataService> Connect(const std::string& address) override {
    if (down.contains(address)) return std::make_shared<Unreachable>();
    if (silent.contains(address)) return std::make_shared<Silent>();
    const size_t n = std::stoul(address.substr(4));
    return {std::shared_ptr<void>(), nodes_->nodes.at(n).server.get()};
  }
  std::set<std::string> down, silent;

 private:
  class Silent final : public DataService {
   public:
    Task<Result<WriteReply>> Write(WriteRequest r) override { return Nothing<WriteReply>(r.header); }
    Task<Result<SealReply>> Seal(SealRequest r) override { return Nothing<SealReply>(r.header); }
    Task<Result<ReadReply>> Read(ReadRequest r) override { return Nothing<ReadReply>(r.header); }
    Task<Result<DeleteReply>> Delete(DeleteRequest r) override { return Nothing<DeleteReply>(r.header); }
    Task<Result<InventoryReply>> Inventory(InventoryRequest r) override { return Nothing<InventoryReply>(r.header); }

   private:
    template <class Rep>
    static Task<Result<Rep>> Nothing(DataHeader header) {
      co_await Sleep(header.timeout_ns);
      co_return Error(FsError::kDeadline);
    }
  };
  class Unreachable final : public DataService {
   public:
    Task<Result<WriteReply>> Write(WriteRequest) override { co_return Error(FsError::kUnavailable); }
    Task<Result<SealReply>> Seal(SealRequest) override { co_return Error(FsError::kUnavailable); }
    Task<Result<ReadReply>> Read(ReadRequest) override { co_return Error(FsError::kUnavailable); }
    Task<Result<DeleteReply>> Delete(DeleteRequest) override { co_return Error(FsError::kUnavailable); }
    Task<Result<InventoryReply>> Inventory(InventoryRequest) override {
      co_return Error(FsError::kUnavailable);
    }
  };
  SimNodes* const nodes_;
};

}  // namespace stria
