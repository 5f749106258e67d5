#include "client/vfs/come_back.h"

#include <utility>

#include "common/log.h"
#include "common/sabotage.h"

namespace stria {
namespace {
Error SessionLost() { return Error(FsError::kIo, "this file was open when the mount lost its session: open it again"); }
}  // namespace

ComeBack::ComeBack(ComeBackRooms rooms, ComeBackNeeds needs, TaskScope& scope)
    : inodes_(rooms.inodes), nodes_(rooms.nodes), last_known_(rooms.last_known), leases_(rooms.leases),
      made_ahead_(rooms.made_ahead), write_back_(rooms.write_back), file_locks_(rooms.file_locks), take_ups_(rooms.take_ups),
      kernel_view_(rooms.kernel_view), needs_(std::move(needs)), scope_(scope) {}

std::vector<HeldInode> ComeBack::Held() {
  std::vector<HeldInode> out;
  for (const auto& [ino, n] : inodes_.all()) {
    const bool used = n->readers + n->writers > 0 || !n->writes.clean() || !n->locks.empty();
    // What nobody knows of yet is no server's to give back.
    const bool unknown = n->made.file() && !n->made.tried_to_tell();
    const InodeLease& lease = n->lease;
    // Handles that were lost with a former session may be all that is left of it: of that this session was given nothing.
    const bool given = !lease.none() || !lease.proof().empty();
    n->lease.Claim(used && given && !unknown && lease.generation() == needs_.generation());
    if ((lease.none() && !lease.claimed()) || lease.generation() != needs_.generation()) continue;
    const bool writes = lease.none() && (n->writers > 0 || !n->writes.clean());
    out.push_back({ino, lease.mode(), lease.for_write() || writes, !lease.claimed(), lease.proof()});
  }
  return out;
}

std::vector<FileLock> ComeBack::HeldLocks() const {
  std::vector<FileLock> out;
  if (Sabotaged(Sabotage::kForgetLocks)) return out;
  for (const auto& [ino, n] : inodes_.all()) {
    for (const FileLock& held : n->locks.Held()) out.push_back(held);
  }
  return out;
}

std::vector<InodeId> ComeBack::Leased() const {
  std::vector<InodeId> out;
  for (const auto& [ino, n] : inodes_.all()) {
    if (!n->lease.none() && n->lease.generation() == needs_.generation() && !n->made.file()) out.push_back(ino);
  }
  return out;
}

// What is cached here is not shown while the session is not open; but the kernel does not ask.
Task<void> ComeBack::OnRestart() { return kernel_view_.ForgetNamesAndAttrs(nodes_.attrs().All()); }

Task<void> ComeBack::OnReclaimed(bool lost) {
  std::vector<InodeId> known = nodes_.attrs().All();
  ForgetEverything();
  leases_.EventSeen();
  std::vector<VfsInodePtr> shown;
  for (auto& [ino, n] : inodes_.all()) {
    if (lost) {
      if (n->in_kernel.has_pages()) shown.push_back(n);
      DropState(*n);
      continue;
    }
    if (n->lease.TakeClaim() && n->lease.none()) n->lease.Owe(needs_.number_call());
    // What others had changed and we had seen may be lost, if they died with the server.
    leases_.Told(n->lease);
    n->attr.version = 0;  // the server may count on from less
    n->in_kernel.ForgetVersions();
    n->in_kernel.WrittenBesidePages();
    if (n->knows_better()) continue;
    n->attr_known = false;
    n->in_kernel.KeptPagesAreOld();
    n->mapping.Forget();
    if (n->in_kernel.has_pages()) shown.push_back(n);
  }
  if (lost) needs_.all_lost();
  // Not waited for: the kernel waits for reads, which wait for the session. What is not open the kernel drops at its next
  // open.
  for (auto& n : shown) scope_.Spawn(kernel_view_.ForgetPages(InKernel(n), 0, 0));
  file_locks_.WakeAll();  // who stood in line does so no more
  co_await kernel_view_.ForgetNamesAndAttrs(std::move(known));
}

void ComeBack::ForgetEverything() {
  nodes_.Clear();
  last_known_.Forget();
}

// The server believes as much, or more if it was claimed.
void ComeBack::Lapse(VfsInode& n) {
  n.lease.Drop();
  n.lease.Owe(n.lease.TakeClaim() ? needs_.number_call() : 0);
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

Task<void> ComeBack::OnCameBack(std::vector<NotTaken> not_taken) {
  std::vector<InodeId> known = nodes_.attrs().All();
  ForgetEverything();
  leases_.EventSeen();
  std::vector<VfsInodePtr> all;
  for (const auto& [ino, n] : inodes_.all()) all.push_back(n);
  for (const auto& n : all) Lapse(*n);
  for (const NotTaken& t : not_taken) {
    const VfsInodePtr n = inodes_.Find(t.ino);
    if (!n || n->made.file()) continue;  // it may never have been made
    if (!t.lock) n->lease.OweNothing();
    Lose(n, t.lock ? "another client was given a lock that this one had" : "it is not there any more");
  }
  for (const auto& n : all) {
    // Not waited for, as in OnReclaimed.
    if (n->in_kernel.has_pages()) scope_.Spawn(kernel_view_.ForgetPages(InKernel(n), 0, 0));
    take_ups_.Start(TakeUpOf(n));
    inodes_.LetGo(n);
  }
  file_locks_.WakeAll();  // who stood in line does so no more
  co_await kernel_view_.ForgetNamesAndAttrs(std::move(known));
}

// A mutation that is done again may give the file another version than before. If others of ours came after it, theirs counts.
void ComeBack::OnRepeated(InodeId ino, uint64_t former, uint64_t now) {
  VfsInode* const found = inodes_.Look(ino);
  if (!found) return;
  VfsInode& n = *found;
  if (n.attr.data_version == former) n.attr.data_version = now;
  n.take_up.Renumbered(former, now);
}

// From here on it is as any other. What it was granted meanwhile it made less of: the next use asks again.
void ComeBack::TookUp(VfsInode& n) {
  if (n.lease.none()) return;
  n.attr_known = false;
  n.lease.Drop();
  n.lease.Owe(needs_.number_call());
}

void ComeBack::Lose(const VfsInodePtr& inode, const std::string& why) {
  VfsInode& n = *inode;
  const uint64_t owes = n.lease.none() ? n.lease.owes() : needs_.number_call();
  const std::vector<InodeLocks::Owner> owners = n.locks.Owners();
  DropState(n, Error(FsError::kIo, "inode " + std::to_string(n.ino.v) + " was lost to this mount while it was cut off " +
                                       "from the metadata server (" + why + "): open the file again"));
  n.lease.Owe(owes);  // the server has it open as long as we do not say otherwise
  nodes_.Invalidate();
  nodes_.ForgetAttr(n.ino);
  scope_.Spawn(kernel_view_.ForgetPages(InKernel(inode), 0, 0));  // and its size
  // Nor has anybody here a lock of it any more: others may have been given what excludes just one of several.
  file_locks_.GiveUp(LocksOf(inode), owners);
  file_locks_.WakeAll();  // who stands in line with one of these handles does so no more
  scope_.Spawn(LogLoss(n.ino, why));
  inodes_.LetGo(inode);
}

Task<void> ComeBack::LogLoss(InodeId ino, std::string why) {
  InodeRequest r;
  r.ino = ino;
  const auto reply = co_await needs_.paths(std::move(r));
  const std::string path = reply.ok() && !reply->paths.empty() ? reply->paths.front() : "which has no name now";
  LogWarning("open files of inode {} ({}) are lost, and what was written to them and not synced: while this mount was "
             "cut off from the metadata server, {}", ino, path, why);
}

void ComeBack::DropState(VfsInode& n, std::optional<Error> loss) {
  n.loss.Lost(loss.value_or(SessionLost()));
  if (n.made.file()) needs_.unknown_lost(n.made.file()->parent);
  if (!n.writes.clean() && n.readers + n.writers == 0) needs_.unknown_lost(n.ino);
  made_ahead_.LoseAll(n.made, n.loss.why());
  n.take_up.Forget();
  n.lease.LoseAll(needs_.generation());
  n.attr_known = false;
  n.in_kernel.ForgetVersions();
  n.attr.version = 0;
  n.in_kernel.KeptPagesAreOld();
  n.mapping.Forget();
  write_back_.LoseAll(n.writes, n.loss.why());
  n.locks.LoseAll(n.loss.why());
}

Result<void> ComeBack::CheckHandle(const VfsHandle& h) const {
  if (h.generation != needs_.generation()) return SessionLost();
  if (h.era != h.inode->loss.era()) return h.inode->loss.why();
  if (!h.inode->made.lost().ok()) return h.inode->made.lost();
  return Ok();
}

}  // namespace stria
