// What the session calls (session_side.h), and which room does it: events that say what others have changed here, demands in
// recalls.h, the session's life in come_back.h, files made ahead in made_ahead.h.
//
// Owns no state.
//
// Invariant: an event counts from the moment at which it came (EventCame): an answer that comes between that and OnEvent may be
// from before it, and is not remembered.
//
// Called by: the session. Calls: the rooms below.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "client/vfs/attr_view.h"
#include "client/vfs/come_back.h"
#include "client/vfs/file_locks.h"
#include "client/vfs/inodes.h"
#include "client/vfs/kernel.h"
#include "client/vfs/kernel_view.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/recalls.h"
#include "client/vfs/session_side.h"

namespace stria {

// All of them outlive SessionEvents.
struct SessionEventsRooms {
  Inodes& inodes;
  NodeCache& nodes;
  Leases& leases;
  AttrView& attrs;
  MadeAhead& made_ahead;
  FileLocks& file_locks;
  KernelView& kernel_view;
  KernelCache& kernel;
  Recalls& recalls;
  ComeBack& come_back;
};

class SessionEvents final : public SessionSide {
 public:
  explicit SessionEvents(SessionEventsRooms rooms);
  SessionEvents(const SessionEvents&) = delete;
  SessionEvents& operator=(const SessionEvents&) = delete;

  void EventCame(const SessionEvent& e) override;
  Task<void> OnEvent(SessionEvent e) override;
  std::optional<Task<Result<void>>> TellBefore(const SessionCallNames& named) override { return made_ahead_.TellBefore(named); }
  Task<void> OnRestart() override { return come_back_.OnRestart(); }
  Task<void> OnReclaimed(bool lost) override { return come_back_.OnReclaimed(lost); }
  Task<void> OnCameBack(std::vector<NotTaken> not_taken) override { return come_back_.OnCameBack(std::move(not_taken)); }
  void OnRepeated(InodeId ino, uint64_t former, uint64_t now) override { come_back_.OnRepeated(ino, former, now); }
  std::vector<HeldInode> Held() override { return come_back_.Held(); }
  std::vector<FileLock> HeldLocks() override { return come_back_.HeldLocks(); }
  std::vector<InodeId> Leased() const override { return come_back_.Leased(); }
  bool MayName(InodeId ino) const override {
    return inodes_.Look(ino) != nullptr || nodes_.attrs().Knows(ino) || kernel_.MayKnow(ino);
  }

 private:
  Inodes& inodes_;
  NodeCache& nodes_;
  Leases& leases_;
  AttrView& attrs_;
  MadeAhead& made_ahead_;
  FileLocks& file_locks_;
  KernelView& kernel_view_;
  KernelCache& kernel_;
  Recalls& recalls_;
  ComeBack& come_back_;
};

}  // namespace stria
