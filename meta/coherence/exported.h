// Sessions and exports: what a session is given when it is opened, what it keeps when the exports change, and as whom its callers
// count.
//
// Owns nothing. Called by Coherence. Sees the exports and the core.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "common/error.h"
#include "meta/core/meta_core.h"
#include "meta/exports/export_room.h"
#include "meta/session/session_owner.h"
#include "trust/exports.h"

namespace stria {

class Exported {
 public:
  explicit Exported(MetaCore* core) : core_(core) {}
  // Without, no client that proves who it is may mount anything. Both outlive this.
  void Use(const ExportRoom* room, std::function<bool(const Peer&)> trusted_root) {
    room_ = room;
    trusted_root_ = std::move(trusted_root);
  }

  // What a new session of the caller gets: the export that names it, if it has proved who it is, and the inode of `path`, as root
  // finds it. kAccess, kInval: by the exports; kNoEnt, kNotDir: there is no such directory.
  Result<SessionGrant> Give(const OpHeader& h, const std::string& path) const;
  // What a session of this owner, seen at `address`, has now. An error if the exports do not give it as much any more.
  Result<SessionGrant> Keep(const SessionOwner& owner, const SessionGrant& had, const std::string& address) const;
  // As whom a caller counts that has proved who it is. `grant`: of its session; null: it calls without one.
  CallerIds Squashed(const OpHeader& h, const SessionGrant* grant) const;
  // Whom of the callers that have a session of this grant Squashed leaves as they are. REQUIRES: h.peer, grant.by
  BelievedCallers Believes(const OpHeader& h, const SessionGrant& grant) const;
  SipKey KeyOf(const SessionGrant& grant) const { return room_ == nullptr ? SipKey() : room_->KeyOf(grant.by->path); }

 private:
  Result<InodeId> Resolve(const std::string& path) const;

  MetaCore* const core_;
  const ExportRoom* room_ = nullptr;
  std::function<bool(const Peer&)> trusted_root_ = [](const Peer&) { return false; };
};

}  // namespace stria
