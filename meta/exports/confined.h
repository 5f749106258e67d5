// Sessions that are confined to an export: what binds them.
#pragma once

#include <optional>

#include "api/types.h"
#include "common/ids.h"
#include "trust/inode_handle.h"

namespace stria {

// Answered by Coherence.
class ConfinedSessions {
 public:
  virtual ~ConfinedSessions() = default;
  struct Bound {
    SipKey key;    // of the export: inodes are sealed with it
    InodeId root;  // what the session takes for the root
  };
  // nullopt: it is not confined, or there is no such session.
  virtual std::optional<Bound> BoundOf(SessionId s) const = 0;
  // Whether the session that the call names is its caller's, or is none.
  virtual bool IsOwn(const OpHeader& h) const = 0;
};

}  // namespace stria
