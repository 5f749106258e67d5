// The cluster as the metadata server sees it: nodes and their disks, who is up, where new shards may go.
// A pure state machine: time comes in, changed records go out (TakeChanges), the owner persists them and
// tells the sessions when version() grew.
//
// Life of a node (silent = time since its last heartbeat):
//
//             silent > suspect           silent > down             down for out_ns
//      up ------------------> suspect ------------------> down ---------------------> out
//       ^                      |   ^                        |      or an admin's word   |
//       '---- heartbeat -------'   '------ heartbeat -------'                           |
//             (after a down: only when it has been heard for settle_ns)                 |
//                              ^----------------- registers again ----------------------'
//
// A node that flaps keeps its place in line for `out`: the clock of its first `down` stops only when it has settled. No node
// goes `out` by itself while half of the nodes or more are down: then the network or this server is more likely cut off.
//
// Up, suspect and down are not persisted: after a restart every node that is not out is suspect until it
// is heard. Identity, address, epoch, out, and the states of targets are.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"
#include "meta/cluster/reach_reports.h"
#include "meta/cluster/removed_nodes.h"
#include "meta/cluster/shared_space.h"
#include "meta/core/token_targets.h"
#include "stripe/placement.h"
#include "stripe/repair_plan.h"

namespace stria {

struct ClusterOptions {
  int64_t beat_ns = 1 * kSecond;
  int64_t suspect_ns = 3 * kSecond;
  int64_t down_ns = 10 * kSecond;
  int64_t out_ns = 600 * kSecond;
  int64_t settle_ns = 5 * kSecond;
  // Errors of one disk since its server started, or since an admin put it to use again; with more it is drained.
  uint64_t max_io_errors = 16;  // read + write
  uint64_t max_checksum_errors = 256;
  // Space per disk that its server keeps for repair, beyond the free bytes that it reports.
  uint64_t repair_reserve_percent = 4;
  bool drain_failing_disks = false;  // those that predict their own failure (DiskSmart)
};
// Why disks are drained without an admin.
inline constexpr char kTooManyErrors[] = "too many errors";
inline constexpr char kPredictsFailure[] = "it predicts its own failure";
inline constexpr size_t kMaxNodes = 1024;
inline constexpr size_t kMaxTargets = 16384;
inline constexpr size_t kMaxDisksPerNode = 256;
inline constexpr size_t kMaxNodeNameBytes = 64;
inline constexpr size_t kMaxSmartNameBytes = 128;  // device, model, serial
inline constexpr size_t kMaxProblemBytes = 1024;  // of a disk, as its node words it

struct NodeRecord {
  NodeInfo info;
  Epoch epoch;
  bool operator==(const NodeRecord&) const = default;
};
std::string EncodeNodeRecord(const NodeRecord& r);
Result<NodeRecord> DecodeNodeRecord(std::string_view bytes);
std::string EncodeTargetRecord(const TargetInfo& t);
Result<TargetInfo> DecodeTargetRecord(std::string_view bytes);

// A disk that a node has in its settings, and that is in use under no number.
struct Stranger {
  std::string label;
  std::string problem;  // in the node's words; "" if it has none with it
  TargetId copy_of;     // another node has this disk; 0: the disk is not there, or no node has it
  TargetId removed;     // it was removed under this number; 0: it was not
  bool unproved = false;  // it says that it is copy_of, which is in a node that is not heard, and has not shown what is on that
};

class ClusterState final : public TokenTargets {
 public:
  ClusterState(ClusterOptions options, Uuid cluster, uint64_t incarnation)
      : options_(options), cluster_(cluster), incarnation_(incarnation) {}

  // ---- Restart ----
  void LoadNode(NodeRecord record, int64_t now_ns);
  // kCorrupt: its node is not there. REQUIRES: nodes are loaded first.
  Result<void> LoadTarget(TargetInfo target);
  void LoadRemoved(NodeInfo node) { removed_.Load(std::move(node)); }
  // `version`: the last one that was saved. `said`: this life of the server, as in ClusterMap.
  void LoadVersion(uint64_t version, const SaidTerm& said) {
    version_ = version + 1;
    said_ = said;
  }

  // ---- From the nodes ----
  // Takes (or recognises, by uuid) a node and its disks. A machine that was set up anew, without its old disks, has another
  // uuid: it takes the place of the node of its name if that is down or out; the old disks stay as absent. kExist: the old node
  // lives, or another node that is not out has this address. kBadRequest: also for an address that others cannot reach.
  // `new_node`, `new_target` give ids never used before. A disk belongs to the node that registered it last: a disk carried to
  // another node keeps its id and its shards. A node that reports a disk as failed or absent does not take it from a node that
  // has it; it gets the id 0. So does a node with a disk that another node has, as long as that node is heard: one of the two is
  // a copy. A disk that was given up because it was away is in use again when it is back. kPerm: the node was removed, and no
  // admin has let it in again.
  struct Registered {
    NodeId node;
    Epoch epoch;
    std::vector<TargetId> targets;
  };
  // `may_bring`: whether a disk that is another node's may be this one's from now on; else it gets the id 0, too.
  using MayBring = std::function<bool(const DiskHello& disk, const TargetInfo& as)>;
  Result<Registered> Register(const RegisterNodeRequest& r, int64_t now_ns, int64_t wall_ns,
                              const std::function<NodeId()>& new_node, const std::function<TargetId()>& new_target,
                              const MayBring& may_bring = [](const DiskHello&, const TargetInfo&) { return true; });
  // kFenced: a newer registration of this node exists. kNoEnt: register again.
  Error Beat(NodeId node, Epoch epoch, const std::vector<DiskHello>& disks, int64_t now_ns, int64_t wall_ns);
  Error CheckEpoch(NodeId node, Epoch epoch) const;
  // This server did not run for `ns`: nodes were not silent for that time.
  void Excuse(int64_t ns);
  // Changes by time alone. Call about every beat.
  void Tick(int64_t now_ns, int64_t wall_ns);

  // ---- From admins (the owner has checked that it is safe) ----
  void SetNodeOut(NodeId node, int64_t wall_ns);
  // kOut: one that has failed and is there stays failed until it is not there: it may be the last to have something.
  void SetTargetState(TargetId target, TargetState state);
  // The node leaves the map, and may not register by itself any more; its targets must be kRemoved.
  void RemoveNode(NodeId node);
  // One that was removed may register again.
  void AdmitNode(NodeId node) { removed_.Admit(node); }
  void AdmitTarget(TargetId target);

  // ---- From who keeps the certificates ----
  // What the map says of them. A change of it is one of the map.
  void SetTrust(std::string bundle, std::vector<std::string> revoked);

  // ---- Views ----
  // True after a restart while some node that is not out has not been heard yet.
  bool AwaitsFirstBeats() const;
  uint64_t version() const { return version_; }
  ClusterMap Map() const;
  ClusterView View() const;  // for placement and repair
  // The state of a column on this target, as repair must assume it.
  ColumnState StateOf(TargetId target) const;
  // True if the target's shards are being moved elsewhere: draining, failed, out, or its node is out.
  bool IsBeingEmptied(TargetId target) const;
  // True for a disk that has failed but may still give bytes: its node is up and has it. Shards on it count as lost, and are
  // read from there only if nothing else is left.
  bool IsLastResort(TargetId target) const;
  // True if its node is up and it takes work.
  bool IsReachable(TargetId target) const;
  // "n3 is out", "n3:d2 failed", "drain", kTooManyErrors, kPredictsFailure
  std::string EmptyingReason(TargetId target) const;
  const NodeInfo* FindNode(NodeId id) const;
  const NodeInfo* FindNodeByName(const std::string& name) const;
  const TargetInfo* FindTarget(TargetId id) const;
  Uuid NodeOf(TargetId target) const override;
  // Not removed; of all nodes, or of this one.
  std::vector<TargetId> Targets(std::optional<NodeId> node = std::nullopt) const;
  std::string TargetName(TargetId id) const;
  const RemovedNodes& removed() const { return removed_; }
  const std::vector<Stranger>& StrangersOf(NodeId node) const { return nodes_.at(node).strangers; }
  const SharedSpace& shared_space() const { return shared_; }
  const ReachReports& reach() const { return reach_; }
  ReachReports& reach() { return reach_; }
  const ClusterOptions& options() const { return options_; }
  // Its suspect_ns, down_ns, out_ns, settle_ns and drain_failing_disks count from the next look on.
  void SetTimes(const ClusterOptions& now);

  // Records to persist since the last call.
  struct Changes {
    std::vector<NodeRecord> nodes;
    std::vector<TargetInfo> targets;
    std::vector<NodeId> nodes_removed;
    std::vector<TargetId> targets_removed;
    RemovedNodes::Changes refused;
    bool version = false;
    bool empty() const {
      return nodes.empty() && targets.empty() && nodes_removed.empty() && targets_removed.empty() && refused.empty() &&
             !version;
    }
  };
  Changes TakeChanges();
  // Targets that came to another node or channel since the last call: the shards on them may not be placed as their layouts
  // want any more.
  std::set<TargetId> TakeMoved() { return std::exchange(moved_, {}); }

 private:
  struct Node {
    NodeRecord record;
    int64_t last_beat_ns = 0;
    std::optional<int64_t> down_since_ns;    // first down that it has not settled from
    std::optional<int64_t> heard_since_ns;   // while settling
    bool unheard = false;                    // since the restart
    std::vector<Stranger> strangers;         // as it last said
    std::set<Uuid> unproved;                 // disks of other nodes that it named when it registered, and may not bring
  };
  struct Target {
    TargetInfo info;
    std::optional<int64_t> absent_since_ns;  // its node is there and does not have it
    uint64_t forgiven_io = 0, forgiven_checksums = 0;  // errors from before an admin put it to use again
    bool too_many_errors = false;
    bool forgiven_smart = false;  // an admin has put it to use again although it predicts its failure
    bool out_when_gone = false;  // an admin has given it up; until it is taken out it may give bytes
    // The state of the whole filesystem that the disk is on, as its node said last; none before.
    std::optional<uint64_t> filesystem_bytes, filesystem_free_bytes;
  };
  Error CheckAddress(const RegisterNodeRequest& r, const Node* self) const;
  void SetState(Node& n, NodeState state, int64_t wall_ns);
  void ChangeTarget(Target& t, TargetState state);
  void SetGivenUp(Target& t, bool given_up);
  bool IsFailing(const Target& t) const;
  void TakeDisk(Node& n, Target& t, const DiskHello& d, int64_t now_ns);
  void SetFilesystem(TargetId disk, uint64_t filesystem);
  void CountSpace(Target& t);
  void TakeOver(Node& n, Uuid uuid);
  Target* FindDisk(Uuid disk);
  Target* FindLabel(NodeId node, const std::string& label);
  bool IsElsewhere(const Target& t, NodeId node) const;  // another node that is heard has it
  bool TakeStranger(Node& n, const DiskHello& d);
  std::string FreeLabel(NodeId node, TargetId self, const std::string& wanted) const;

  ClusterOptions options_;
  const Uuid cluster_;
  const uint64_t incarnation_;
  SaidTerm said_;
  uint64_t version_ = 1;
  uint64_t saved_version_ = 0;
  std::map<NodeId, Node> nodes_;
  std::map<TargetId, Target> targets_;
  std::set<NodeId> dirty_nodes_;
  std::set<TargetId> dirty_targets_;
  std::set<TargetId> moved_;
  RemovedNodes removed_;
  SharedSpace shared_;
  ReachReports reach_;
  std::vector<NodeId> removed_nodes_;
  std::vector<TargetId> removed_targets_;
  std::string bundle_;                // as in ClusterMap
  std::vector<std::string> revoked_;
};

struct RawBytes {
  uint64_t total = 0;
  uint64_t free = 0;
};
RawBytes RawOf(const ClusterState& cluster);  // of targets in use

}  // namespace stria
