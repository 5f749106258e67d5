// The face that the session with the metadata server calls (client/session, SessionHandlers): what the server pushes, and what
// becomes of the session. Vfs::session_side() is it; whoever builds a Vfs wires the session's handlers to it (client/client.cc).
// Programs do not call it. Executor's thread only. SessionHandlers says when each is called, and what it may wait for.
//
// Owns nothing. SessionEvents implements it, and states the invariants.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "common/exec/task.h"

namespace stria {

class SessionSide {
 public:
  virtual ~SessionSide() = default;

  // ---- Events (session_events.h).
  virtual void EventCame(const SessionEvent& e) = 0;  // before its OnEvent
  virtual Task<void> OnEvent(SessionEvent e) = 0;
  // SessionHandlers::before_call: files that the call is about, or in a directory that it is about, and the server does not
  // know yet (made_ahead.h).
  virtual std::optional<Task<Result<void>>> TellBefore(const SessionCallNames& named) = 0;

  // ---- The session's life (come_back.h).
  virtual Task<void> OnRestart() = 0;
  virtual Task<void> OnReclaimed(bool lost) = 0;
  virtual Task<void> OnCameBack(std::vector<NotTaken> not_taken) = 0;
  virtual void OnRepeated(InodeId ino, uint64_t former, uint64_t now) = 0;

  // ---- What is held here, for the session to claim.
  virtual std::vector<HeldInode> Held() = 0;
  virtual std::vector<FileLock> HeldLocks() = 0;
  // Inodes of which this client holds a lease, and has told the server that they are there.
  virtual std::vector<InodeId> Leased() const = 0;
  // Whether programs or the kernel may name the inode without looking it up again (SessionHandlers::in_use).
  virtual bool MayName(InodeId ino) const = 0;
};

}  // namespace stria
