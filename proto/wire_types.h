// Field lists of the structs in api/types.h and stripe/types.h. Only the wire_*.cc files include this.
#pragma once

#include "api/types.h"
#include "proto/wire_fields.h"

namespace stria::wire {

using OffsetLength = std::pair<uint64_t, uint64_t>;

WIRE_MESSAGE(Uuid) { F(hi); F(lo); }
WIRE_MESSAGE_AS(OffsetLength, v1::Range) { F2(first, offset); F2(second, length); }

WIRE_MESSAGE(Layout) {
  F(groups); F(k); F(m); F(codec); F(rotate); F(arrangement); F(domain); F(place); F(place_node);
  F(unit_bytes); F(stripe_bytes); F(min_copies);
}
WIRE_MESSAGE(LayoutRoom) { F(layout); F(stripes); F(until); F(narrow); F(crowded); F(thin); F(none); }
WIRE_MESSAGE(StripeShape) {
  F(groups); F(k); F(m); F(codec); F(unit_bytes); F(payload_bytes); F(column_bytes);
}
WIRE_MESSAGE(Extent) { F(file_offset); F(length); F(stripe); F(stripe_offset); F(inline_bytes); }
WIRE_MESSAGE(Column) { F(shard); F(target); F(length); F(digest); }
WIRE_MESSAGE(StripeInfo) { F(id); F(shape); F(columns); F(narrow); F(crowded); }
WIRE_MESSAGE(StripeGrant) { F(info); F(tokens); F(max_column_bytes); }
WIRE_MESSAGE(ItemResult) { F(code); F(message); }
WIRE_MESSAGE(ClientIo) { F(local_bytes); F(network_bytes); F(reconstructed_bytes); F(written_bytes); F(operations); }

WIRE_MESSAGE(Attr) {
  F(ino); F(type); F(mode); F(nlink); F(uid); F(gid); F(rdev); F(size); F(allocated_bytes);
  F(atime_ns); F(mtime_ns); F(ctime_ns); F(version); F(data_version); F(acls);
}
WIRE_MESSAGE(InodeSeal) { F(ino); F(mac); }
WIRE_MESSAGE(OpHeader) {
  F(protocol); F(cluster); F(session); F(epoch); F(op_seq); F(acked_below); F(uid); F(gid); F(groups);
  F(timeout_ns); F(trace_id); F(term); F(replay_order); F(replay_next); F(settle); F(opened); F(seals);
  F(oldest_protocol); F(seen_term); F(seen_proof);
}
WIRE_MESSAGE(SessionEvent) { F(seq); F(kind); F(ino); F(name); F(lease); F(ticket); }
WIRE_MESSAGE(FileLock) { F(ino); F(kind); F(owner); F(type); F(first); F(last); F(pid); }

WIRE_MESSAGE(NodeInfo) { F(id); F(uuid); F(name); F(address); F(state); F(since_ns); }
WIRE_MESSAGE(DiskSmart) {
  F(device); F(model); F(serial); F(power_on_hours); F(temperature_c); F(reallocated); F(pending); F(health); F(problem);
}
WIRE_MESSAGE(TargetInfo) {
  F(id); F(node); F(disk_uuid); F(label); F(channel); F(state); F(capacity_bytes); F(free_bytes);
  F(used_bytes); F(read_errors); F(write_errors); F(checksum_errors); F(problem); F(given_up);
  F(read_us); F(smart);
}
WIRE_MESSAGE(ClusterMap) { F(version); F(cluster); F(incarnation); F(nodes); F(targets); F(bundle); F(revoked); F(term); F(term_proof); F(server_version); F(wall_ns); }

}  // namespace stria::wire
