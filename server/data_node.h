// A whole data server, put together from its disks: shard stores, data service, agent. The daemon and the simulator run this.
// For the executor's thread.
//
// Start-up: 1. every disk's index is opened and its stores serve under the identity of the last registration, so that readers
// need no metadata server; 2. the agent registers, and the metadata server's word replaces that identity. A disk that cannot be
// used is reported with the reason, and the others serve; a disk whose index was made again comes back with Attach. 3. An empty
// directory is a disk that is not mounted, or a new one: it becomes a disk only now, if the cluster knows no other in its
// place.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "api/replica_api.h"
#include "common/token.h"
#include "peers/meta_locator.h"
#include "peers/meta_peers.h"
#include "server/agent.h"
#include "server/backup_keeper.h"
#include "server/data_server.h"
#include "server/disk_setup.h"
#include "server/noted_connector.h"
#include "server/reindex.h"

namespace stria {

inline constexpr size_t kBackgroundPiecesPerDisk = 2;  // at once

struct DataNodeDisk {
  Disk* disk = nullptr;        // null if it could not be opened
  KvStore* kv = nullptr;       // its index; null if it has none that can be used
  Pool* index_pool = nullptr;  // for the index's blocking calls
  Superblock superblock;       // of OpenSuperblock
  std::string where;           // "disk /srv/d1", for messages
  std::string channel;
  std::string label;  // that the configuration gives it
  Error problem;      // why there is no disk or no index
  bool give_up = false;  // nothing is expected of it any more; else it may be back soon
  bool is_new = false;   // there is nothing yet: made when PlaceIsFree says so, then given to Attach
};

struct DataNodeEnv {
  MetaConnector* meta = nullptr;
  DataConnector* data = nullptr;
  Pool* cpu_pool = nullptr;
  AdminConnector* admin = nullptr;  // null: scrubs cannot be ordered
  MemberConnector* members = nullptr;  // null: nobody is asked which metadata server is primary; addresses are tried in turn
};

struct DataNodeOptions {
  std::string name;
  std::string address;  // that others reach this node at
  std::vector<std::string> meta_addresses;
  std::vector<ClusterKey> keys;       // none where connections prove who others are, and this node
  Uuid new_node;  // its identity if none of its disks has one yet
  DataServerOptions server;
  AgentOptions agent;  // periods and bounds; the rest is filled in here
  bool store_background = true;
};

class DataNode {
 public:
  // Everything in `disks` and `env` outlives the node. kInval and kWrongCluster if the disks do not belong
  // together.
  static Task<Result<std::unique_ptr<DataNode>>> Open(std::vector<DataNodeDisk> disks, DataNodeEnv env,
                                                      DataNodeOptions options);
  // Registers and goes to work.
  void Start();

  // Disk `i` is there, and is to serve when its index has been made again: the metadata server hears which one it is. Until then nobody can
  // be asked about its shards. kWrongCluster, kExist (a copy of another): it is none of this node.
  Task<Result<void>> Expect(size_t i, DataNodeDisk disk);
  // Those of disk `i` that the metadata knows, with these digests. Waits until it can be asked. REQUIRES: it was in Open, or in Expect.
  Task<std::vector<UnprovedShard>> Prove(size_t i, std::vector<UnprovedShard> shards);
  // May new disk `i` be made? False until the metadata server has been heard, and while the cluster knows a disk
  // in its place that no admin has given up: that one is reported as absent, with the reason.
  bool PlaceIsFree(size_t i);
  // Disk `i` was unusable and is usable now: its index was made again, or it is new. From here on it serves; missing shards are
  // reported.
  Task<Result<void>> Attach(size_t i, DataNodeDisk disk);
  // Disk `i` is taken away: nothing is done there any more, and it is reported as absent. Its `disk` and `kv` must be good,
  // if only for errors, for as long as the node.
  void Detach(size_t i, const Error& why);
  // One more disk, which is not there yet (label, channel, `where` and `problem` say which): absent until Attach. Gives its number.
  size_t AddDisk(DataNodeDisk disk);
  // Disk `i`, which does not serve, is not this node's any more: the metadata server hears why, and then no more of it. Its number stays
  // taken.
  void DropDisk(size_t i, const Error& why);
  // Why disk `i` cannot be used, for the log and for status.
  void SetProblem(size_t i, const Error& problem);
  // It was given for place `i`, and parts of it may be in use.
  bool has_disk(size_t i) const { return disks_.at(i).disk != nullptr; }
  // ok(): it serves. By the number in the `disks` of Open, or of AddDisk.
  const Error& problem(size_t i) const { return disks_.at(i).problem; }

  DataServer& server() { return server_; }
  Agent& agent() { return *agent_; }
  BackupKeeper& backups() { return backups_; }
  MetaPeers* metas() { return metas_.get(); }
  const TokenGate& tokens() const { return gate_; }
  // One per disk; null for one that cannot be used.
  const std::deque<std::unique_ptr<ShardStore>>& stores() const { return stores_; }

 private:
  DataNode(std::vector<DataNodeDisk> disks, DataNodeOptions options);
  void KeepCopiesOut();
  Task<void> OpenStores();
  Task<Result<void>> OpenStore(size_t i);
  Result<void> Put(size_t i, DataNodeDisk disk);
  Task<Result<bool>> IsKnown(size_t i, const UnprovedShard& u);
  bool HoldsPlace(const TargetInfo& t, size_t i) const;
  Task<Result<void>> Adopt(RegisterNodeReply reply);
  Task<Result<void>> KeepTerms(HeardTerms::Kept kept);
  Result<Uuid> AgreeOnCluster() const;
  std::vector<BackupDisk> BackupDisks() const;

  // Deques: work that waits keeps references while disks are added.
  std::deque<DataNodeDisk> disks_;
  Pool* cpu_pool_ = nullptr;
  DataNodeOptions options_;
  TokenGate gate_;
  CodecSet codecs_;
  std::deque<std::unique_ptr<ShardStore>> stores_;
  std::vector<std::unique_ptr<ShardStore>> gone_;  // of disks that were taken away: calls to them may still run
  std::deque<DiskIdentity> identities_;
  Uuid node_;
  DataServer server_;  // after the stores: its tasks use them
  BackupKeeper backups_;
  std::shared_ptr<MetaPeers> metas_;
  std::unique_ptr<MetaLocator> locator_;  // may be null
  std::unique_ptr<MetaLink> link_;
  std::unique_ptr<NotedConnector> peers_;
  std::unique_ptr<AdminLink> admin_link_;  // may be null
  std::unique_ptr<Agent> agent_;
};

}  // namespace stria
