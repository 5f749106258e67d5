// Who is an admin where callers prove who they are: the role says it, and no uid does.
#pragma once

#include <string>

#include "api/meta_api.h"
#include "meta/coherence/coherence.h"

namespace stria {

inline bool IsAdminPeer(const OpHeader& h) { return h.peer && h.peer->role == Role::kAdmin && !h.session; }

// Files are named to admins only. Without a certificate admins are whom Sessions knows by their uid.
inline bool IsAdminCall(const Sessions& sessions, const OpHeader& h) { return h.peer ? IsAdminPeer(h) : sessions.IsAdmin(h); }

// Sessions::CheckCaller; kAccess, or without a certificate kPerm, if it is none.
inline Result<void> CheckAdminCall(Sessions* sessions, const OpHeader& h, const char* does = "asks for this") {
  if (!h.peer) return sessions->CheckAdmin(h, does);
  RETURN_IF_ERROR(sessions->CheckCaller(h));
  if (IsAdminPeer(h)) return Ok();
  return Error::Denial(h.peer->ToString() + " is refused: only an admin " + does);
}

}  // namespace stria
