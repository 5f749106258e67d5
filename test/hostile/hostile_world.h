// The world of test/strangers behind real dispatchers on a simulated network, where every caller has proved who it is; beside the
// metadata server a data server that has root's bytes. And what is promised of it (the project's design of trust): what a client
// with a key of its own can neither see nor change nor make grow; nor one that has one directory for reading; nor a data server, of
// what is not on its own disks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/bound_token.h"
#include "common/token.h"
#include "meta/exports/confined_front.h"
#include "proto/admin_stubs.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "proto/transport.h"
#include "proto/trust_stubs.h"
#include "server/data_server.h"
#include "server/shard_testing.h"
#include "server/token_gate.h"
#include "test/strangers/strangers_testing.h"

namespace stria {

// Two digits for each byte.
std::string HexBytes(std::string_view bytes);

// Who attacks.
enum class Hostile : uint8_t {
  kClient,    // that mounts the whole tree, as everybody may
  kConfined,  // that mounts kOwnPath by an export, for reading only, as nobody
  kNode,      // kHostileNode, which has disks of its own
};
inline constexpr char kHostileHost[] = "wn13";
inline constexpr char kHostileNode[] = "n3";
inline constexpr char kMetaAddress[] = "meta:7424";

class HostileWorld {
 public:
  explicit HostileWorld(uint64_t seed, Hostile as = Hostile::kClient, MetaServerOptions options = {});
  ~HostileWorld();
  Hostile as() const { return as_; }

  StrangersWorld& strangers() { return strangers_; }
  SimExecutor& ex() { return strangers_.h().ex; }
  MetaServer& meta() { return *strangers_.h().server; }
  const std::shared_ptr<Transport>& to_meta() const { return to_meta_; }
  // To one of the data servers; n: any number.
  const std::shared_ptr<Transport>& to_data(size_t n) const { return data_[n % data_.size()]->to; }
  uint64_t incarnation() const { return incarnation_; }
  int64_t NowS() { return ex().WallNs() / kSecond; }
  size_t Handlers() const;  // calls that run, on all servers

  // Good tokens for root's shards, as root has them: for anybody who has them, and for root's key only.
  std::vector<std::string> TokensOfRoot();
  // The attacker has these, so an answer that has one tells it nothing.
  void NoteStolen(const std::vector<std::string>& tokens) { stolen_.insert(tokens.begin(), tokens.end()); }

  // ---- What is promised ----
  // What of root's an answer tells; "" if nothing.
  std::string Leak(const std::string& answer);
  // The same of an inode that the server has sealed for the attacker.
  std::string LeakOfSeal(InodeId shown) const;
  // Everything that is root's or the cluster's, as it is. Other sessions may come to hold what is named here only if `hostile` is not among them.
  std::map<std::string, std::string> Audit(const std::vector<SessionId>& hostile);
  // Of root's bytes on the disk: "" if they are there as they were.
  std::string CheckBytes();
  // What has grown beyond its bound; "" if nothing has.
  std::string CheckBounds();
  // What the metadata store holds, in bytes of memory: all of it is files of somebody.
  uint64_t StoredBytes();

 private:
  struct Shard {
    ShardId shard;
    TargetId target;
    std::string bytes;
  };
  // A node's server, with the node's keys and targets.
  struct Node {
    explicit Node(const DispatchOptions& options) : server(&gate), dispatcher(&server, options) { router.Add(kDataServiceName, &dispatcher); }
    std::string address;
    TokenGate gate{{}};
    DataServer server;
    DataDispatcher dispatcher;
    Router router;
    std::shared_ptr<Transport> to;
  };
  void StartNode(uint64_t n);
  void StoreBytesOfRoot();
  bool Opens(std::string_view token, ShardId shard);
  bool IsOfHostileNode(TargetId target);
  void AddRows(Family family, const std::string& prefix, std::map<std::string, std::string>* out);
  void AddCluster(std::map<std::string, std::string>* out);
  void AddColumns(std::map<std::string, std::string>* out);

  const Hostile as_;
  StrangersWorld strangers_;
  const TokenVerifier verifier_;
  uint64_t incarnation_ = 0;
  std::vector<std::unique_ptr<const BoundTokenVerifier>> nodes_;  // of the keys of each node
  std::vector<Shard> shards_;                                     // root's
  std::set<std::string, std::less<>> stolen_;
  SimStore store_;  // of all nodes
  std::vector<std::unique_ptr<Node>> data_;
  ConfinedFront front_;
  MetaDispatcher meta_dispatcher_;
  AdminDispatcher admin_dispatcher_;
  TrustDispatcher trust_dispatcher_;
  Router meta_router_;
  std::unique_ptr<SimNetwork> network_;
  std::shared_ptr<Transport> to_meta_;
};

// What is not as it was, a line each; "" if all is.
std::string Difference(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after);

// Memory of this process that is in use, in bytes.
uint64_t ResidentBytes();

}  // namespace stria
