#include "api/meta_api.h"
#include "proto/meta.pb.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_MESSAGE(Empty) {}

WIRE_MESSAGE(HeldInode) { F(ino); F(lease); F(for_write); F(idle); F(proof); }
WIRE_MESSAGE(NotTaken) { F(ino); F(lock); }
WIRE_MESSAGE(OpenSessionRequest) {
  F(header); F(client); F(client_uuid); F(node_name); F(held); F(locks); F(comes_back); F(path);
}
WIRE_MESSAGE(CallerRange) { F(first); F(last); }
WIRE_MESSAGE(BelievedCallers) { F(root); F(uids); F(gids); }
WIRE_MESSAGE(OpenSessionReply) {
  F(session); F(epoch); F(reclaimed); F(term); F(lease_ns); F(first_event); F(map); F(lapsed); F(not_taken);
  F(survived); F(root); F(read_only); F(confined); F(seals); F(believed);
}
WIRE_MESSAGE(RenewRequest) { F(header); F(seen_seq); F(unreachable); F(io); }
WIRE_MESSAGE(RenewReply) { F(term); F(lease_ns); F(current_seq); F(durable_seq); F(map_version); }
WIRE_MESSAGE(PollRequest) { F(header); F(acked_event); }
WIRE_MESSAGE(PollReply) { F(term); F(events); }
WIRE_MESSAGE(InodeRequest) { F(header); F(ino); }
WIRE_MESSAGE(LeaseDoneRequest) { F(header); F(ino); F(lease); F(event_seq); }

WIRE_MESSAGE(LockRequest) { F(header); F(op); F(keep); F(ticket); F(lock); }
WIRE_MESSAGE(LockReply) { F(granted); F(conflict); }

WIRE_MESSAGE(NameRequest) { F(header); F(parent); F(name); F(release); }
WIRE_MESSAGE(NodeReply) { F(attr); F(parent); F(parent2); F(seq); F(held_elsewhere); F(released); F(seals); }
WIRE_MESSAGE(SetAttrRequest) {
  F(header); F(ino); F(mode); F(uid); F(gid); F(size); F(atime_ns); F(mtime_ns); F(atime_now);
  F(mtime_now); F(kill_suid); F(read_ns); F(read_version);
}
WIRE_MESSAGE(MakeNodeRequest) {
  F(header); F(parent); F(name); F(type); F(mode); F(rdev); F(target); F(open); F(exclusive); F(truncate);
  F(umask); F(former); F(ahead); F(numbers); F(for_read);
}
WIRE_MESSAGE(GetExtentsReply) { F(attr); F(extents); F(stripes); F(covered_to); F(tokens_live_ns); F(seals); }
WIRE_MESSAGE(OpenRequest) {
  F(header); F(ino); F(for_write); F(truncate); F(check_access); F(for_read); F(map_bytes);
}
WIRE_MESSAGE(OpenReply) {
  F(node); F(created); F(lease); F(layout); F(whole); F(mapping); F(alone); F(first_number); F(numbers);
  F(sets); F(proof); F(alone_proof); F(numbers_proof); F(seals);
}
WIRE_MESSAGE(RenameRequest) {
  F(header); F(parent); F(name); F(new_parent); F(new_name); F(no_replace); F(exchange); F(release);
}
WIRE_MESSAGE(LinkRequest) { F(header); F(ino); F(new_parent); F(new_name); }
WIRE_MESSAGE(ReadLinkReply) { F(target); }
WIRE_MESSAGE(ReadDirRequest) { F(header); F(ino); F(cookie); F(limit); F(with_attrs); }
WIRE_MESSAGE(DirEntry) { F(name); F(ino); F(type); F(cookie); F(attr); }
WIRE_MESSAGE(ReadDirReply) { F(entries); F(end); F(parent); F(seals); }
WIRE_MESSAGE(XattrRequest) { F(header); F(ino); F(name); F(value); F(create); F(replace); }
WIRE_MESSAGE(XattrReply) { F(value); F(names); F(seq); }
WIRE_MESSAGE(StatFsReply) { F(total_bytes); F(free_bytes); F(files); }
WIRE_MESSAGE(LayoutRequest) { F(header); F(ino); F(layout); }
WIRE_MESSAGE(LayoutReply) { F(layout); F(inherited); }

WIRE_MESSAGE(GetExtentsRequest) { F(header); F(ino); F(offset); F(length); F(when_told); }
WIRE_MESSAGE(AllocateRequest) { F(header); F(ino); F(count); F(payload_bytes); F(avoid); }
WIRE_MESSAGE(AllocateReply) { F(stripes); F(seq); }
WIRE_MESSAGE_AS(MadeFile::Set, v1::MadeFile_Set) { F(mode); F(uid); F(gid); F(atime_ns); F(mtime_ns); }
WIRE_MESSAGE(MadeFile) { F(parent); F(name); F(mode); F(umask); F(made_ns); F(set); }
WIRE_MESSAGE(CommitRequest) {
  F(header); F(ino); F(stripes); F(extents); F(punch); F(grow_to); F(mtime_ns); F(append); F(durable);
  F(give_back); F(clip); F(make); F(known_version); F(only_known);
}
WIRE_MESSAGE(CommitReply) { F(attr); F(append_offset); F(seq); F(parent); F(seals); }
WIRE_MESSAGE(CloneRequest) { F(header); F(from); F(from_offset); F(to); F(to_offset); F(length); }
WIRE_MESSAGE(CloneReply) { F(attr); F(cloned); F(seq); F(seals); }
WIRE_MESSAGE(ReportShardRequest) { F(header); F(stripe); F(column); F(shard); F(reason); F(token); }
WIRE_MESSAGE(PathsReply) { F(paths); F(hidden); F(more); }

}  // namespace wire

WIRE_CODEC(Empty);
WIRE_CODEC(OpenSessionRequest);
WIRE_CODEC(OpenSessionReply);
WIRE_CODEC(RenewRequest);
WIRE_CODEC(RenewReply);
WIRE_CODEC(PollRequest);
WIRE_CODEC(PollReply);
WIRE_CODEC(InodeRequest);
WIRE_CODEC(LeaseDoneRequest);
WIRE_CODEC(LockRequest);
WIRE_CODEC(LockReply);
WIRE_CODEC(NameRequest);
WIRE_CODEC(NodeReply);
WIRE_CODEC(SetAttrRequest);
WIRE_CODEC(MakeNodeRequest);
WIRE_CODEC(OpenRequest);
WIRE_CODEC(OpenReply);
WIRE_CODEC(RenameRequest);
WIRE_CODEC(LinkRequest);
WIRE_CODEC(ReadLinkReply);
WIRE_CODEC(ReadDirRequest);
WIRE_CODEC(ReadDirReply);
WIRE_CODEC(XattrRequest);
WIRE_CODEC(XattrReply);
WIRE_CODEC(StatFsReply);
WIRE_CODEC(LayoutRequest);
WIRE_CODEC(LayoutReply);
WIRE_CODEC(GetExtentsRequest);
WIRE_CODEC(GetExtentsReply);
WIRE_CODEC(AllocateRequest);
WIRE_CODEC(AllocateReply);
WIRE_CODEC(CommitRequest);
WIRE_CODEC(CommitReply);
WIRE_CODEC(CloneRequest);
WIRE_CODEC(CloneReply);
WIRE_CODEC(ReportShardRequest);
WIRE_CODEC(PathsReply);

}  // namespace stria
