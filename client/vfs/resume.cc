// The session comes back after its lease had run out, or is lost.
//
// While it was away others could have whatever they wanted. So when it is back:
//  - no lease of before is one (Lapse): the next use of a file asks for a new one, and all that was cached is forgotten;
//  - what is open stays open, if the server has it still (Held, NotTaken), and so do locks that nobody else has had;
//  - bytes that are not committed yet may be committed over the version of the file that they were written over, and no
//    other (take_ups.h). Until they are, they are shown over what the server says, no lease is more than
//    kShared, and so what is written goes behind them.
//  - If the file has changed, its uncommitted bytes and the handles that it has at that moment are lost (Lose): these give
//    EIO, whoever opens it again sees what the others wrote, and the log says which file and why.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "common/log.h"

namespace stria {

std::vector<HeldInode> Vfs::Held() {
  std::vector<HeldInode> out;
  for (const auto& [ino, n] : inodes_) {
    const bool used = n->readers + n->writers > 0 || !n->writes.clean() || !n->locks.empty();
    // What nobody knows of yet is no server's to give back.
    const bool unknown = n->made.file() && !n->made.tried_to_tell();
    const InodeLease& lease = n->lease;
    n->lease.Claim(used && !unknown && lease.generation() == session_.generation());
    if ((lease.none() && !lease.claimed()) || lease.generation() != session_.generation()) continue;
    const bool writes = lease.none() && (n->writers > 0 || !n->writes.clean());
    out.push_back({ino, lease.mode(), lease.for_write() || writes, !lease.claimed(), lease.proof()});
  }
  return out;
}

// The server believes as much, or more if it was claimed.
void Vfs::Lapse(VfsInode& n) {
  n.lease.Drop();
  n.lease.Owe(n.lease.TakeClaim() ? session_.NumberCall() : 0);
  leases_.Told(n.lease);
  n.in_kernel.ForgetVersions();
  n.attr.version = 0;  // the server may have restarted, and count on from less
  n.in_kernel.KeptPagesAreOld();
  n.in_kernel.WrittenBesidePages();
  n.mapping.Forget();
  if (n.writes.clean()) {
    n.attr_known = false;
    n.take_up.Forget();
    return;
  }
  n.writes.Seal();
  n.take_up.Lapsed(n.attr.data_version, n.writes.dirty().seals());
}

Task<void> Vfs::OnCameBack(std::vector<NotTaken> not_taken) {
  const std::vector<InodeId> known = InodesKnown();
  ForgetEverything();
  leases_.EventSeen();
  std::vector<std::shared_ptr<VfsInode>> all;
  for (const auto& [ino, n] : inodes_) all.push_back(n);
  for (const auto& n : all) Lapse(*n);
  for (const NotTaken& t : not_taken) {
    auto it = inodes_.find(t.ino);
    if (it == inodes_.end() || it->second->made.file()) continue;  // it may never have been made
    if (!t.lock) it->second->lease.OweNothing();
    Lose(it->second, t.lock ? "another client was given a lock that this one had" : "it is not there any more");
  }
  for (const auto& n : all) {
    // Not waited for, as in OnReclaimed.
    if (n->in_kernel.has_pages()) scope_.Spawn(ForgetPages(n, 0, 0));
    take_ups_.Start(TakeUpOf(n));
    LetGo(n);
  }
  file_locks_.WakeAll();  // who stood in line does so no more
  co_await ForgetInKernel(known);
}

// A mutation that is done again may give the file another version than before. If others of ours came after it, theirs counts.
void Vfs::OnRepeated(InodeId ino, uint64_t former, uint64_t now) {
  auto it = inodes_.find(ino);
  if (it == inodes_.end()) return;
  VfsInode& n = *it->second;
  if (n.attr.data_version == former) n.attr.data_version = now;
  n.take_up.Renumbered(former, now);
}

// From here on it is as any other. What it was granted meanwhile it made less of: the next use asks again.
void Vfs::TookUp(VfsInode& n) {
  if (n.lease.none()) return;
  n.attr_known = false;
  n.lease.Drop();
  n.lease.Owe(session_.NumberCall());
}

void Vfs::Lose(const std::shared_ptr<VfsInode>& inode, const std::string& why) {
  VfsInode& n = *inode;
  const uint64_t owes = n.lease.none() ? n.lease.owes() : session_.NumberCall();
  const std::vector<InodeLocks::Owner> owners = n.locks.Owners();
  DropState(n, Error(FsError::kIo, "inode " + std::to_string(n.ino.v) + " was lost to this mount while it was cut off " +
                                       "from the metadata server (" + why + "): open the file again"));
  n.lease.Owe(owes);  // the server has it open as long as we do not say otherwise
  nodes_.Invalidate();
  nodes_.ForgetAttr(n.ino);
  scope_.Spawn(ForgetPages(inode, 0, 0));  // and its size
  // Nor has anybody here a lock of it any more: others may have been given what excludes just one of several.
  file_locks_.GiveUp(LocksOf(inode), owners);
  file_locks_.WakeAll();  // who stands in line with one of these handles does so no more
  scope_.Spawn(LogLoss(n.ino, why));
  LetGo(inode);
}

Task<void> Vfs::LogLoss(InodeId ino, std::string why) {
  InodeRequest r;
  r.ino = ino;
  const auto reply = co_await session_.Call(&MetaService::Paths, std::move(r), Caller());
  const std::string path = reply.ok() && !reply->paths.empty() ? reply->paths.front() : "which has no name now";
  LogWarning("open files of inode {} ({}) are lost, and what was written to them and not synced: while this mount was "
             "cut off from the metadata server, {}", ino, path, why);
}

// Everything the server granted is gone, and so is what was buffered under it: its handles give EIO.
void Vfs::DropState(VfsInode& n, std::optional<Error> loss) {
  ++n.era;
  n.loss = loss.value_or(Error(FsError::kIo, "this file was open when the mount lost its session: open it again"));
  made_ahead_.LoseAll(n.made, n.loss);
  n.take_up.Forget();
  n.lease.LoseAll(session_.generation());
  n.attr_known = false;
  n.in_kernel.ForgetVersions();
  n.attr.version = 0;
  n.in_kernel.KeptPagesAreOld();
  n.mapping.Forget();
  write_back_.LoseAll(n.writes, n.loss);
  n.locks.LoseAll(n.loss);
}

}  // namespace stria
