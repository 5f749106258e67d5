#include "meta/meta_metrics.h"

#include <map>
#include <string>

#include "common/units.h"

namespace stria {
namespace {

double D(uint64_t n) { return static_cast<double>(n); }
double Seconds(int64_t ns) { return static_cast<double>(ns) / static_cast<double>(kSecond); }

void AddDisk(const MetaFigures& f, MetricFamilies* out) {
  if (f.disk_bytes == 0) return;
  out->Gauge("stria_meta_store_filesystem_bytes", "Size of the filesystem that the metadata store is on.", D(f.disk_bytes));
  out->Gauge("stria_meta_store_filesystem_free_bytes", "Free bytes of the filesystem that the metadata store is on.", D(f.disk_free_bytes));
}

void AddRunning(const MetaFigures& f, MetricFamilies* out) {
  out->Gauge("stria_rpc_running_calls", "Calls that have come and are not answered.", D(f.running_calls));
}

void AddStore(const MetaFigures& f, MetricFamilies* out) {
  out->Gauge("stria_meta_files", "Inodes that are not directories.", D(f.files));
  out->Gauge("stria_meta_directories", "Directories.", D(f.directories));
  out->Gauge("stria_meta_stripes", "Stripes that files use.", D(f.stripes));
  out->Gauge("stria_meta_allocated_stripes", "Stripes that are being filled.", D(f.allocated_stripes));
  out->Gauge("stria_meta_live_bytes", "Bytes of files in stripes.", D(f.live_bytes));
  out->Gauge("stria_meta_inline_bytes", "Bytes of small files, which are in the metadata.", D(f.inline_bytes));
  out->Gauge("stria_meta_narrow_stripes", "Stripes narrower than their layout asks for.", D(f.narrow_stripes));
  out->Gauge("stria_meta_crowded_stripes", "Stripes with two columns in one failure domain.", D(f.crowded_stripes));
  out->Gauge("stria_meta_garbage_shards", "Shards that are to be deleted.", D(f.garbage_shards));
  out->Counter("stria_meta_transactions_total", "Transactions of the store since the cluster was made.", D(f.transactions));
  out->Counter("stria_meta_starts_total", "Starts of the metadata server since the cluster was made.", D(f.starts));
  AddDisk(f, out);
}

void AddClients(const MetaFigures& f, MetricFamilies* out) {
  out->Gauge("stria_meta_sessions", "Sessions of clients.", D(f.sessions));
  out->Gauge("stria_meta_open_inodes", "Inodes that some client has open.", D(f.open_inodes));
  const char* demands = "Leases that clients were asked to give up (recall), or to write back under (flush).";
  out->Counter("stria_meta_lease_demands_total", demands, D(f.recalls), {{"kind", "recall"}});
  out->Counter("stria_meta_lease_demands_total", demands, D(f.flushes), {{"kind", "flush"}});
  out->Counter("stria_meta_sessions_lapsed_total", "Sessions whose lease ran out: others may have what they held.", D(f.lapsed));
  out->Counter("stria_meta_sessions_fenced_total", "Sessions that were ended against the will of their clients.", D(f.fenced));
  out->Gauge("stria_meta_waiting_calls", "Calls that wait for other clients.", D(f.waiting_calls));
  out->Gauge("stria_meta_longest_wait_seconds", "For how long the oldest of these has waited.", Seconds(f.longest_wait_ns));
  AddRunning(f, out);
}

MetricFamilies::Labels DiskLabels(const ClusterMap& map, const TargetInfo& t) {
  const NodeInfo* node = map.FindNode(t.node);
  return {{"node", node ? node->name : "?"}, {"disk", t.label}};
}

void AddCluster(const ClusterMap& map, MetricFamilies* out) {
  std::map<NodeState, uint64_t> nodes = {{NodeState::kUp, 0}, {NodeState::kSuspect, 0}, {NodeState::kDown, 0}, {NodeState::kOut, 0}};
  std::map<TargetState, uint64_t> disks = {{TargetState::kUp, 0}, {TargetState::kDraining, 0}, {TargetState::kFailed, 0}, {TargetState::kOut, 0}};
  for (const NodeInfo& n : map.nodes) {
    ++nodes[n.state];
    if (n.state == NodeState::kOut) continue;
    out->Gauge("stria_cluster_node_up", "1 if the node is heard, 0 if it is down; nodes that were given up are missing.",
               n.state == NodeState::kDown ? 0 : 1, {{"node", n.name}});
  }
  for (const auto& [state, name] : std::map<NodeState, const char*>{
           {NodeState::kUp, "up"}, {NodeState::kSuspect, "suspect"}, {NodeState::kDown, "down"}, {NodeState::kOut, "out"}}) {
    out->Gauge("stria_cluster_nodes", "Nodes of the cluster, by their state.", D(nodes[state]), {{"state", name}});
  }
  for (const TargetInfo& t : map.targets) {
    if (t.state == TargetState::kRemoved) continue;
    ++disks[t.state];
    if (t.state == TargetState::kOut) continue;
    const MetricFamilies::Labels labels = DiskLabels(map, t);
    out->Gauge("stria_cluster_disk_failed", "1 if the disk has failed or its node cannot use it; disks that were given up are missing.",
               t.state == TargetState::kFailed || !t.problem.empty(), labels);
    out->Gauge("stria_cluster_disk_capacity_bytes", "Size of the disk.", D(t.capacity_bytes), labels);
    out->Gauge("stria_cluster_disk_free_bytes", "Free bytes of the disk, without what is kept for repair.", D(t.free_bytes), labels);
    out->Gauge("stria_cluster_disk_read_median_seconds", "Half of the disk's last reads took longer; 0 if there were too few.",
               static_cast<double>(t.read_us) / 1e6, labels);
  }
  for (const auto& [state, name] : std::map<TargetState, const char*>{{TargetState::kUp, "up"},
                                                                     {TargetState::kDraining, "draining"},
                                                                     {TargetState::kFailed, "failed"},
                                                                     {TargetState::kOut, "out"}}) {
    out->Gauge("stria_cluster_disks", "Disks of the cluster, by their state.", D(disks[state]), {{"state", name}});
  }
}

void AddStatus(const StatusReply& s, MetricFamilies* out) {
  out->Gauge("stria_cluster_degraded_stripes", "Stripes that miss at least one column.", D(s.degraded_stripes));
  out->Gauge("stria_cluster_lost_stripes", "Stripes that cannot be read.", D(s.lost_stripes));
  out->Gauge("stria_cluster_thin_stripes", "Stripes with fewer copies than their layout asks for, as it allows.", D(s.thin_stripes));
  uint64_t exposed = 0, unprotected = 0;
  for (const NodeExposure& n : s.node_loss.nodes) {
    exposed += n.stripes;
    unprotected += n.unprotected;
  }
  out->Gauge("stria_cluster_exposed_stripes", "Stripes that the loss of one node would make unreadable although their layout has redundancy.",
             D(exposed - unprotected));
  for (const RepairProgress& r : s.repairs) {
    const TargetInfo* t = s.map.FindTarget(r.target);
    if (t == nullptr) continue;
    const MetricFamilies::Labels labels = DiskLabels(s.map, *t);
    out->Gauge("stria_rebuild_planned_bytes", "Bytes of the disk's shards that are to be made again elsewhere, or moved there.", D(r.bytes_total), labels);
    out->Gauge("stria_rebuild_done_bytes", "Those that have been.", D(r.bytes_done), labels);
    out->Gauge("stria_rebuild_stuck_stripes", "Stripes among them with no place to go, or with too few survivors.", D(r.stuck), labels);
  }
}

void AddUpkeep(const ClusterMap& map, const UpkeepReply& u, MetricFamilies* out) {
  for (const ScrubProgress& p : u.scrubs) {
    const TargetInfo* t = map.FindTarget(p.target);
    if (t == nullptr || t->state == TargetState::kRemoved) continue;
    const MetricFamilies::Labels labels = DiskLabels(map, *t);
    out->Gauge("stria_scrub_running", "1 while the disk is being scrubbed.", p.running, labels);
    out->Gauge("stria_scrub_planned_bytes", "Bytes of the pass that runs, or of the last one.", D(p.bytes_total), labels);
    out->Gauge("stria_scrub_done_bytes", "Those that were read and compared.", D(p.bytes_done), labels);
    out->Gauge("stria_scrub_damaged_shards", "Damaged shards that the pass has found; they are repaired.", D(p.damaged), labels);
    if (p.finished_s > 0) {
      out->Gauge("stria_scrub_last_pass_timestamp_seconds", "When the last whole pass ended, in seconds since 1970.",
                 static_cast<double>(p.finished_s), labels);
    }
  }
  out->Gauge("stria_rebalance_done_bytes", "Bytes that rebalancing has moved; 0 if it does not run.", u.rebalancing ? D(u.rebalance_bytes_done) : 0);
  out->Gauge("stria_rebalance_left_bytes", "Bytes that rebalancing has still to move, an estimate.", u.rebalancing ? D(u.rebalance_bytes_left) : 0);
  out->Gauge("stria_fold_waiting_stripes", "Mirrored stripes that could be folded.", D(u.folding.waiting));
  out->Counter("stria_fold_bytes_total", "Bytes of mirrored stripes that were folded.", D(u.folding.folded_bytes));
  if (!u.backup.on) return;
  out->Gauge("stria_meta_backup_complete", "1 if the backup has all of the metadata, but for what is behind.", u.backup.complete);
  out->Gauge("stria_meta_backup_behind_seconds", "Age of the oldest change that is not in the backup of the metadata; 0 if all are.",
             Seconds(u.backup.behind_ns));
  out->Gauge("stria_meta_backup_nodes", "Data servers that keep the backup of the metadata.", D(u.backup.nodes.size()));
  if (u.backup.checkpoint_s > 0) {
    out->Gauge("stria_meta_backup_checkpoint_timestamp_seconds", "When the last checkpoint of the metadata was made, in seconds since 1970.",
               static_cast<double>(u.backup.checkpoint_s));
  }
}

}  // namespace

void AddStandbyMetrics(const MetaFigures& f, MetricFamilies* out) {
  AddDisk(f, out);
  AddRunning(f, out);
  if (f.certificate_end_s) out->CertificateEnd(*f.certificate_end_s);
}

void AddMetaMetrics(const MetaFigures& f, MetricFamilies* out) {
  AddStore(f, out);
  AddClients(f, out);
  AddCluster(f.map, out);
  out->Gauge("stria_repair_waiting_stripes", "Stripes that are known to need repair.", D(f.repair_waiting));
  out->Gauge("stria_repair_parked_stripes", "Stripes that need repair and cannot be repaired now.", D(f.repair_parked));
  const char* running = "Tasks of upkeep that nodes have in hand, by kind.";
  out->Gauge("stria_repair_running_tasks", running, D(f.rebuilds), {{"kind", "rebuild"}});
  out->Gauge("stria_repair_running_tasks", running, D(f.widens), {{"kind", "widen"}});
  out->Gauge("stria_repair_running_tasks", running, D(f.folds), {{"kind", "fold"}});
  if (f.status) AddStatus(*f.status, out);
  if (f.upkeep) AddUpkeep(f.map, *f.upkeep, out);
  if (f.certificate_end_s) out->CertificateEnd(*f.certificate_end_s);
}

}  // namespace stria
