// A whole data server, put together from its disks: shard stores, data service, agent. What the daemon
// and the simulator run. For the executor's thread.
//
// Start-up: 1. every disk's index is opened and its stores serve under the identity of the last
// registration, so that readers do without a metadata server that is down; 2. the agent registers, and
// what the metadata server says replaces it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/token.h"
#include "server/agent.h"
#include "server/data_server.h"
#include "server/disk_setup.h"

namespace stria {

struct DataNodeDisk {
  Disk* disk = nullptr;
  KvStore* kv = nullptr;       // its index
  Pool* index_pool = nullptr;  // for the index's blocking calls
  Superblock superblock;       // of OpenSuperblock
  std::string where;           // "disk /srv/d1", for messages
  std::string channel;
};

struct DataNodeEnv {
  MetaConnector* meta = nullptr;
  DataConnector* data = nullptr;
  Pool* cpu_pool = nullptr;
  AdminConnector* admin = nullptr;  // may be missing: nobody orders scrubs then
};

struct DataNodeOptions {
  std::string name;
  std::string address;  // that others reach this node at
  std::vector<std::string> meta_addresses;
  std::vector<ClusterKey> keys;
  Uuid new_node;  // its identity if none of its disks has one yet
  DataServerOptions server;
  AgentOptions agent;  // periods and bounds; the rest is filled in here
  bool store_background = true;
};

class DataNode {
 public:
  // Everything in `disks` and `env` outlives the node. Errors: of the disks, or kInval and kWrongCluster
  // if they do not belong together.
  static Task<Result<std::unique_ptr<DataNode>>> Open(std::vector<DataNodeDisk> disks, DataNodeEnv env,
                                                      DataNodeOptions options);
  // Registers and goes to work.
  void Start() { agent_->Start(); }

  DataServer& server() { return server_; }
  Agent& agent() { return *agent_; }
  const std::vector<std::unique_ptr<ShardStore>>& stores() const { return stores_; }

 private:
  DataNode(std::vector<DataNodeDisk> disks, DataNodeOptions options);
  Task<Result<void>> OpenStores(Pool* cpu_pool);
  Task<Result<void>> Adopt(RegisterNodeReply reply);
  Result<Uuid> AgreeOnCluster() const;

  std::vector<DataNodeDisk> disks_;
  DataNodeOptions options_;
  const TokenVerifier verifier_;
  CodecSet codecs_;
  std::vector<std::unique_ptr<ShardStore>> stores_;
  std::vector<DiskIdentity> identities_;
  Uuid node_;
  DataServer server_;  // after the stores: its tasks use them
  std::unique_ptr<MetaLink> link_;
  std::unique_ptr<AdminLink> admin_link_;  // may be null
  std::unique_ptr<Agent> agent_;
};

}  // namespace stria
