// Messages of cluster.proto, and ClusterMap as a reply.
#include "api/meta_api.h"
#include "proto/cluster.pb.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_MESSAGE(DiskHello) {
  F(uuid); F(label); F(channel); F(target); F(capacity_bytes); F(free_bytes); F(used_bytes);
  F(read_errors); F(write_errors); F(checksum_errors); F(failed); F(absent);
  F(problem); F(read_us); F(filesystem); F(proof); F(smart);
}
WIRE_MESSAGE(RegisterNodeRequest) {
  F(header); F(uuid); F(name); F(address); F(incarnation); F(proof); F(disks);
}
WIRE_MESSAGE(NodeTokenKey) { F(id); F(secret); }
WIRE_MESSAGE(FencedHolder) { F(holder); F(writes_until_s); F(others_until_s); }
WIRE_MESSAGE(RegisterNodeReply) {
  F(node); F(epoch); F(targets); F(map); F(beat_ns); F(token_time_ns); F(token_keys); F(fenced); F(disk_proofs);
}

WIRE_MESSAGE(DeleteWork) { F(shard); F(target); F(token); }
WIRE_MESSAGE(RebuildWork) {
  F(task); F(stripe); F(lost); F(column); F(copy); F(new_shard); F(new_target); F(write_token);
}
WIRE_MESSAGE(WidenWork) { F(task); F(from); F(to); }
WIRE_MESSAGE(CheckWork) { F(shard); F(target); F(digest); }
WIRE_MESSAGE(CheckResult) { F(shard); F(target); F(result); }
WIRE_MESSAGE(HeartbeatRequest) { F(header); F(node); F(epoch); F(disks); F(rebuild_slots); F(unreachable); F(wall_ns); F(version); }
WIRE_MESSAGE(HeartbeatReply) {
  F(map_version); F(term); F(register_again); F(deletes); F(rebuilds); F(widens); F(token_time_ns);
  F(token_keys); F(checks); F(fenced);
}
WIRE_MESSAGE(RebuildResult) { F(task); F(result); F(length); F(digest); F(bytes_read); F(bad_columns); F(table); }
WIRE_MESSAGE(WidenResult) { F(task); F(result); F(digests); F(bytes_read); F(bad_columns); F(pieces); }
WIRE_MESSAGE(ReportWorkRequest) { F(header); F(node); F(epoch); F(deleted); F(rebuilt); F(widened); F(checked); }
WIRE_MESSAGE(CheckShardsRequest) { F(header); F(target); F(shards); }
WIRE_MESSAGE(CheckShardsReply) { F(unknown); F(incarnation); F(term); }

WIRE_MESSAGE(RepairProgress) {
  F(target); F(reason); F(stripes_total); F(stripes_done); F(bytes_total); F(bytes_done);
  F(bytes_per_s); F(eta_s); F(paused); F(stuck);
}
WIRE_MESSAGE(LostFile) { F(ino); F(path); F(offset); F(length); }
WIRE_MESSAGE(SessionInfo) { F(id); F(client); F(node_name); F(lease_left_ns); F(owner); F(io); }
WIRE_MESSAGE(NodeExposure) { F(node); F(stripes); F(bytes); F(unprotected); }
WIRE_MESSAGE(NodeLoss) { F(counted); F(age_ns); F(nodes); }
WIRE_MESSAGE(Advice) { F(severity); F(what); F(action); }
WIRE_MESSAGE(StatusReply) {
  F(map); F(files); F(directories); F(stripes); F(live_bytes); F(inline_bytes); F(degraded_stripes);
  F(narrow_stripes); F(crowded_stripes); F(lost_stripes); F(garbage_shards); F(lost_files); F(repairs);
  F(sessions); F(repair_limit_bytes_per_s); F(node_loss); F(layouts);
  F(thin_stripes); F(thin_files); F(advice); F(removed); F(wall_ns); F(version);
}
WIRE_MESSAGE(AdminRequest) {
  F(header); F(verb); F(node); F(target); F(new_node); F(new_target); F(number); F(dry_run); F(force);
}
WIRE_MESSAGE(AdminReply) { F(message); F(stripes); F(bytes); }
WIRE_MESSAGE(FsckReply) { F(problems); F(inodes); F(stripes); F(extents); }

}  // namespace wire

WIRE_CODEC(ClusterMap);
WIRE_CODEC(RegisterNodeRequest);
WIRE_CODEC(RegisterNodeReply);
WIRE_CODEC(HeartbeatRequest);
WIRE_CODEC(HeartbeatReply);
WIRE_CODEC(ReportWorkRequest);
WIRE_CODEC(CheckShardsRequest);
WIRE_CODEC(CheckShardsReply);
WIRE_CODEC(StatusReply);
WIRE_CODEC(AdminRequest);
WIRE_CODEC(AdminReply);
WIRE_CODEC(FsckReply);

}  // namespace stria
