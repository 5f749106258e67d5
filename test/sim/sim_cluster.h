// A whole Stria in one process, on one thread, in virtual time: the real metadata server, data servers
// and clients, over a simulated network (messages pass through the wire codecs), simulated disks and
// key-value stores that survive the crash of their process as real ones would.
//
// Each host proves who it is, as with a certificate, and servers answer nobody else (sim_hosts.h).
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "common/check.h"
#include "common/exec/sim_executor.h"
#include "common/kv/mem_kv.h"
#include "meta/backup/restore.h"
#include "meta/exports/confined_front.h"
#include "meta/service/meta_server.h"
#include "peers/meta_locator.h"
#include "peers/meta_peers.h"
#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/replica_stubs.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "server/agent.h"
#include "server/backup_keeper.h"
#include "server/data_server.h"
#include "test/sim/sim_disks.h"
#include "test/sim/sim_hosts.h"
#include "test/sim/sim_kernel.h"

namespace stria {

class SimMetas;

// What confined clients mount.
inline constexpr char kConfinedPath[] = "/atlas";

struct SimClusterOptions {
  size_t nodes = 6;
  size_t disks = 2;
  size_t clients = 2;
  std::string layout = "raid5:4+1,unit=64K,stripe=512K";
  size_t shuffle = 4;  // ready coroutines that the seed chooses among
  MetaServerOptions meta;
  int64_t client_timeout_ns = 120 * kSecond;
  bool signals = false;   // some reads are interrupted, and asked again
  int64_t kernel_ns = 0;  // that clients' kernels need to forget pages, at most
  uint64_t mapping_bytes = VfsOptions().mapping_bytes;
  uint64_t dirty_limit_bytes = 8 * kMiB;
  int64_t scrub_pause_ns = 0;  // 0: no scrub
  bool scrub_orders = false;   // scrubs are reported, may be ordered, and compare with the metadata; of one metadata server
  bool backups = false;  // of the metadata, on the nodes
  std::set<size_t> confined;  // clients that mount kConfinedPath, and are shown nothing else
  bool trusted_roots = true;  // false: root of clients is squashed, as the exports of a new cluster have it
  bool certificates = false;  // real ones, which expire and are revoked (sim_trust.h); secured
  bool two_metas = false;  // clients and nodes know the address of another metadata server, too: ServeCopy
  size_t metas = 1;  // more: that many metadata servers keep one namespace (several()); without backups and certificates
  bool secured = true;   // false: nobody proves anything, and all are believed, as without certificates
};

class SimCluster {
 public:
  SimCluster(uint64_t seed, SimClusterOptions options);
  ~SimCluster();

  SimExecutor& executor() { return ex_; }
  SimNetwork& network() { return *net_; }
  Random& rng() { return rng_; }
  const SimClusterOptions& options() const { return options_; }

  // Starts everything; returns when the first client has a session and all nodes are registered.
  Result<void> Boot();

  // ---- Processes. Crash: power_cut loses what was not synced, else it is a kill -9.
  void CrashMeta(bool power_cut);
  void StartMeta();
  // What the metadata server kept is lost; it is made again from what the nodes have of its backup. kNoEnt: they have
  // none. REQUIRES: it is down, and all nodes can be reached.
  Result<RestoreResult> RestoreMeta();
  bool meta_up() const { return meta_server() != nullptr; }
  // Several metadata servers (sim_metas.h): the calls above are of all of them, those below of the one that serves. Null: there is one.
  SimMetas* several() { return several_.get(); }
  // Another metadata server starts on a copy of the store, on host kOtherMetaHost, and is the one that all of this is about from
  // now on. The former goes on, on its own copy. REQUIRES: two_metas; once.
  void ServeCopy();
  MetaServer* former_meta() { return former_.server.get(); }
  MetaService& former_service() { return *former_service_; }  // for an administrator
  void CrashNode(size_t n, bool power_cut);
  void StartNode(size_t n);
  bool node_up(size_t n) const { return nodes_[n]->server != nullptr; }
  void CrashClient(size_t c);
  void StartClient(size_t c);
  bool client_up(size_t c) const { return clients_[c]->client != nullptr; }
  // A fresh node with empty disks; its index.
  size_t AddNode();

  // What the nodes have on their disks, and who the hosts are.
  SimDisks& disks() { return disks_; }
  SimHosts& hosts() { return *hosts_; }

  size_t nodes() const { return nodes_.size(); }
  Vfs& vfs(size_t c) { return clients_[c]->client->vfs(); }
  Client& client(size_t c) { return *clients_[c]->client; }
  SimKernel& kernel(size_t c) { return clients_[c]->kernel; }
  // As a process reads through the kernel: in pages, if they may be cached.
  Task<Result<BufferChain>> Read(size_t c, VfsHandlePtr h, uint64_t offset, uint64_t length);
  // The metadata server knows of each lease that a client believes it has, or would free what is open there. Empty: so it
  // is; else the first that it does not know. True at any moment, whatever is lost or late.
  std::string UnknownLease() const;
  // Where workloads of a client run; destroyed with it.
  TaskScope& scope(size_t c) { return *clients_[c]->scope; }
  // What a metadata server started now would find.
  KvStore& MetaContents();
  void FailNextMetaSync();

  struct NodeFigures {
    uint64_t starts = 0;         // of its process
    uint64_t written_bytes = 0;  // to it by clients and nodes since it started
  };
  NodeFigures Figures(size_t n) const { return {nodes_[n]->starts, node_up(n) ? nodes_[n]->server->stats().written_bytes : 0}; }

  // Runs `task` to its end; false if it takes longer than this in virtual time.
  bool Run(Task<void> task, int64_t limit_ns);
  // The same for one with a result. REQUIRES: it ends in time.
  template <class T>
  T Do(Task<T> task, int64_t limit_ns) {
    std::optional<T> out;
    CHECK(Run([](Task<T> t, std::optional<T>* to) -> Task<void> { *to = co_await std::move(t); }(std::move(task), &out), limit_ns),
          "the task takes too long");
    return std::move(*out);
  }
  // An administrator's call on the metadata server.
  MetaService& admin() { return *admin_; }
  OpHeader AdminHeader() const;

  MetaServer* meta_server() const;
  uint64_t denials() const { return meta_.front->denials(); }  // of confined clients, since it was started

  // What the metadata server would give to that holder: a token to read a shard on the node's first disk, by the key of that day.
  std::string TokenFor(size_t n, ShardId shard, uint64_t holder, int64_t expiry_s, uint32_t generation) const;
  bool registered(size_t n) const { return nodes_[n]->agent && nodes_[n]->agent->registered(); }

 private:
  struct Meta {
    std::shared_ptr<MemKvMedia> media;
    std::unique_ptr<MetaServer> server;
    std::unique_ptr<ConfinedSessions> bounds;
    std::unique_ptr<ConfinedFront> front;
    std::unique_ptr<MetaDispatcher> dispatcher;
    std::unique_ptr<AdminDispatcher> admin_dispatcher;
    std::unique_ptr<TrustDispatcher> trust_dispatcher;  // with certificates
    std::unique_ptr<Router> router;
    std::unique_ptr<TransportFactory> factory;  // with backups
    std::unique_ptr<TransportBackupConnector> backups;
    std::unique_ptr<TaskScope> scope;
  };
  struct Node {
    Uuid uuid;
    Uuid cluster;  // as the superblocks of its disks have it
    uint64_t incarnation = 0;
    uint64_t starts = 0;
    std::unique_ptr<TransportFactory> factory;
    std::unique_ptr<TransportMetaConnector> meta_connector;
    std::unique_ptr<TransportDataConnector> data_connector;
    std::unique_ptr<CodecSet> codecs;
    std::unique_ptr<TokenGate> verifier;
    std::unique_ptr<TransportMemberConnector> members;  // of several metadata servers
    std::shared_ptr<MetaPeers> metas;
    std::unique_ptr<MetaLocator> locator;
    std::unique_ptr<MetaLink> link;
    std::unique_ptr<TransportAdminConnector> admin_connector;  // with scrub_orders
    std::unique_ptr<AdminLink> admin_link;
    std::unique_ptr<DataServer> server;
    std::unique_ptr<DataDispatcher> dispatcher;
    std::unique_ptr<BackupKeeper> keeper;  // with backups
    std::unique_ptr<BackupDispatcher> backup_dispatcher;
    std::unique_ptr<Router> router;
    std::unique_ptr<Agent> agent;
    std::unique_ptr<TaskScope> scope;
  };
  struct ClientState {
    Uuid uuid;
    uint64_t starts = 0;
    SimKernel kernel;  // outlives the client
    std::unique_ptr<TransportFactory> factory;
    std::unique_ptr<TransportMetaConnector> meta_connector;
    std::unique_ptr<TransportDataConnector> data_connector;
    std::unique_ptr<TransportMemberConnector> members;  // of several metadata servers
    std::unique_ptr<Client> client;
    std::unique_ptr<TaskScope> scope;
  };
  std::shared_ptr<const ClusterMap> MapOf(const std::string& host);
  DispatchOptions Doors() const;
  Task<Result<BufferChain>> ReadOnce(size_t c, VfsHandlePtr h, uint64_t offset, uint64_t length);
  Task<void> OpenNode(size_t n);
  void MakeSeveral();
  Task<void> OpenMeta();
  void EndMeta(Meta* meta, const std::string& address, bool power_cut);
  std::vector<std::string> MetaAddresses() const;
  Task<void> RestoreInto(std::shared_ptr<MemKvMedia> media, Result<RestoreResult>* out);
  void ServeBackups(size_t n);
  std::unique_ptr<Agent> MakeAgent(size_t n);
  std::unique_ptr<Node> MakeNode(size_t n);

  const SimClusterOptions options_;
  Random rng_;
  SimExecutor ex_;
  std::unique_ptr<SimNetwork> net_;
  std::unique_ptr<SimHosts> hosts_;
  InlinePool pool_;
  ClusterKey key_;
  Uuid cluster_;
  Meta meta_, former_;
  std::unique_ptr<SimMetas> several_;
  std::string meta_address_;
  std::unique_ptr<MemKv> meta_contents_;
  SimDisks disks_{&rng_};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<ClientState>> clients_;
  std::unique_ptr<TransportFactory> admin_factory_;
  std::shared_ptr<MetaService> admin_, former_service_;
};

}  // namespace stria
