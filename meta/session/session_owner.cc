#include "meta/session/session_owner.h"

namespace stria {

SessionOwner OwnerOf(const OpHeader& h) { return h.peer ? SessionOwner{h.peer->name, h.peer->key_hash} : SessionOwner(); }

Error MayUse(SessionId session, const SessionOwner& owner, const OpHeader& h) {
  if (OwnerOf(h) == owner) return Error();
  const std::string which = "session " + std::to_string(session.v);
  if (!h.peer) return Error::Denial(which + " was opened by a client that proved who it is; this caller has proved nothing");
  const std::string who = h.peer->ToString();
  if (owner.name.empty()) return Error::Denial(which + " was opened without proof, and " + who + " cannot take it: mount again");
  if (owner.name == h.peer->name) {
    return Error::Denial(which + " was opened with another key of " + owner.name + " than that of " + who + ": mount again");
  }
  return Error::Denial(which + " is not one of " + who);
}

void SessionsOfOwners::Add(const SessionOwner& owner) {
  if (!owner.name.empty()) ++count_[owner];
}

void SessionsOfOwners::Remove(const SessionOwner& owner) {
  const auto it = count_.find(owner);
  if (it != count_.end() && --it->second == 0) count_.erase(it);
}

bool SessionsOfOwners::Full(const SessionOwner& owner) const {
  const auto it = count_.find(owner);
  return it != count_.end() && it->second >= kMaxSessionsOfOwner;
}

}  // namespace stria
