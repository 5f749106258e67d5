#include "client/vfs/vfs_report.h"

#include <sstream>

#include "client/vfs/inodes.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/write_back.h"

namespace stria {

uint64_t VfsReport::dirty_bytes() const { return write_back_.dirty_bytes(); }

std::string VfsReport::Describe(InodeId ino) const {
  const VfsInode* const found = inodes_.Look(ino);
  if (!found) return "not in use here";
  const VfsInode& n = *found;
  std::ostringstream out;
  switch (n.lease.mode()) {
    case LeaseMode::kNone: out << "no lease"; break;
    case LeaseMode::kRead: out << "read lease"; break;
    case LeaseMode::kExclusive: out << "exclusive lease"; break;
    case LeaseMode::kShared: out << "shared lease"; break;
  }
  if (n.lease.for_write()) out << " for writing";
  if (n.lease.opening()) out << ", " << n.lease.opens_under_way() << " opens are under way";
  if (n.take_up.any()) out << ", with bytes of before the session lapsed";
  if (n.turns.open_mu.locked()) out << ", a call that changes it is under way (" << n.turns.open_mu.held_for() << ")";
  if (n.turns.lease_mu.locked()) out << ", it is being flushed for others (" << n.turns.lease_mu.held_for() << ")";
  if (n.turns.recalling()) out << ", its lease is being given up";
  if (n.in_kernel.forgetting()) out << ", the kernel is asked " << n.in_kernel.forgetting_calls() << " times to forget its pages";
  if (nodes_.IsResizing(ino)) out << ", its size is being changed";
  if (n.made.file()) out << (n.made.telling() ? ", the server is being told that it was made" : ", made and not told to the server yet");
  out << ", " << n.writes.dirty().bytes() << " bytes unwritten";
  if (!n.writes.clean()) {
    out << " (" << n.writes.dirty().batches() << " batches, " << n.writes.dirty().taken() << " on their way, " << n.writes.failures() << " failed";
    if (n.writes.pauses() > 0) out << ", held back by " << n.writes.pauses();
    if (n.writes.failing()) out << ", last error: " << n.writes.failure().ToString();
    out << ")";
  }
  out << "; " << write_back_.dirty_bytes() << " bytes of all files";
  return out.str();
}

std::vector<InodeWaits> VfsReport::Waits() const {
  std::vector<InodeWaits> out;
  for (const auto& [ino, n] : inodes_.all()) {
    const InodeTurns& turns = n->turns;
    InodeWaits w{ino, turns.open_mu.held_for(), turns.lease_mu.held_for(), turns.demand_at(), n->in_kernel.forgetting(), turns.being_cut()};
    w.room = n->writes.waits_for_room();
    w.dirty = !n->writes.clean();
    w.paused = n->writes.pauses() > 0;
    if (n->made.file()) w.ahead_in = n->made.file()->parent;
    const bool any = turns.changing() || w.demand != DemandAt::kNowhere || w.forgetting || w.cut || w.room || w.dirty || w.ahead_in;
    if (any) out.push_back(w);
  }
  return out;
}

}  // namespace stria
