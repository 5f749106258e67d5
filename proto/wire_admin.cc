// Messages of admin.proto.
#include "api/admin_api.h"
#include "proto/admin.pb.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_ENUM(UpkeepVerb, kStatus, kForgetUnknown);
WIRE_ENUM(FilesKind, kLost, kWouldDegrade);
WIRE_ENUM(EventSeverity, kNote, kCritical);

WIRE_MESSAGE(ScrubProgress) {
  F(target); F(running); F(bytes_done); F(bytes_total); F(shards); F(damaged); F(started_s); F(finished_s);
  F(order_s); F(stripes); F(unfit);
}
WIRE_MESSAGE(ScrubOrder) { F(paused); F(bytes_per_s); F(start_s); F(targets); }
WIRE_MESSAGE(ReportScrubRequest) { F(header); F(node); F(epoch); F(disks); }
WIRE_MESSAGE(HeldShard) { F(shard); F(digest); }
WIRE_MESSAGE(CompareShardsRequest) { F(header); F(target); F(after); F(last); F(held); }
WIRE_MESSAGE(CompareShardsReply) { F(missing); F(wrong); F(term); }
WIRE_MESSAGE(ListParityRequest) { F(header); F(target); F(after); F(last); }
WIRE_MESSAGE(ListParityReply) { F(stripes); F(last); }
WIRE_MESSAGE(UpkeepRequest) { F(header); F(verb); F(number); F(dry_run); }
WIRE_MESSAGE(FsckRepairRequest) { F(header); F(dry_run); }
WIRE_MESSAGE(FsckRepairReply) { F(done); F(problems); }
WIRE_MESSAGE(CanRemoveRequest) { F(header); F(targets); }
WIRE_MESSAGE(AffectedFile) { F(ino); F(path); F(offset); F(length); F(lost); }
WIRE_MESSAGE(BackupState) {
  F(on); F(complete); F(behind_ns); F(nodes); F(checkpoint_s); F(checkpoint_bytes); F(problem); F(hold_until_s);
  F(held_shards); F(damage);
}
WIRE_MESSAGE(FoldState) { F(on); F(under_way); F(waiting); F(folded); F(folded_bytes); }
WIRE_MESSAGE(UpkeepReply) {
  F(message); F(scrub_paused); F(scrub_bytes_per_s); F(scrubs); F(rebalancing); F(rebalance_bytes_done);
  F(rebalance_bytes_left); F(unfit); F(backup); F(folding);
}
WIRE_MESSAGE(CanRemoveReply) { F(lost_stripes); F(degraded_stripes); F(files); F(more); }
WIRE_MESSAGE(NamesRequest) { F(header); F(ino); F(after); }
WIRE_MESSAGE(NamesReply) { F(paths); F(hidden); F(next); }
WIRE_MESSAGE(FilesRequest) { F(header); F(kind); F(targets); F(after); }
WIRE_MESSAGE(FilesReply) { F(files); F(next); F(cut); }
WIRE_MESSAGE(ClusterEvent) { F(seq); F(time_ns); F(kind); F(severity); F(subject); F(text); F(action); F(count); F(last_ns); }
WIRE_MESSAGE(ReadEventsRequest) { F(header); F(after); F(since_ns); F(least); F(limit); F(wait_ns); }
WIRE_MESSAGE(ReadEventsReply) { F(events); F(next); F(first); F(more); }

}  // namespace wire

WIRE_CODEC(ReportScrubRequest);
WIRE_CODEC(ScrubOrder);
WIRE_CODEC(CompareShardsRequest);
WIRE_CODEC(CompareShardsReply);
WIRE_CODEC(ListParityRequest);
WIRE_CODEC(ListParityReply);
WIRE_CODEC(FsckRepairRequest);
WIRE_CODEC(FsckRepairReply);
WIRE_CODEC(UpkeepRequest);
WIRE_CODEC(UpkeepReply);
WIRE_CODEC(CanRemoveRequest);
WIRE_CODEC(CanRemoveReply);
WIRE_CODEC(NamesRequest);
WIRE_CODEC(NamesReply);
WIRE_CODEC(FilesRequest);
WIRE_CODEC(FilesReply);
WIRE_CODEC(ReadEventsRequest);
WIRE_CODEC(ReadEventsReply);

}  // namespace stria
