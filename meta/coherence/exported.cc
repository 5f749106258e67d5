#include "meta/coherence/exported.h"

#include <algorithm>
#include <vector>

#include "common/printable.h"
#include "meta/ops/ops.h"

namespace stria {
namespace {

std::vector<CallerRange> RangesOf(const IdRanges& ids, bool with_zero) {
  std::vector<CallerRange> out;
  for (const auto& [first, last] : ids.empty() ? IdRanges{{0, UINT32_MAX}} : ids) {
    if (with_zero || first > 0) out.push_back({first, last});
    else if (last > 0) out.push_back({1, last});
  }
  return out;
}

}  // namespace

Result<InodeId> Exported::Resolve(const std::string& path) const {
  Txn txn(core_->store());
  InodeId at = kRootInode;
  for (size_t from = 1; from < path.size();) {
    const size_t to = std::min(path.find('/', from), path.size());
    NameRequest r;
    r.parent = at;
    r.name = path.substr(from, to - from);
    const Result<NodeReply> found = OpLookup(txn, OpCtx(), r);
    if (found.code() == FsError::kNoEnt) {
      return Error(FsError::kNoEnt, "cannot mount " + path + ": there is no such directory in the filesystem");
    }
    if (!found.ok()) return found.error().WithContext("cannot mount " + path);
    if (found->attr.type != FileType::kDirectory) return Error(FsError::kNotDir, "cannot mount " + path + ": it is not a directory");
    at = found->attr.ino;
    from = to + 1;
  }
  return at;
}

Result<SessionGrant> Exported::Give(const OpHeader& h, const std::string& path) const {
  SessionGrant out;
  out.path = path.empty() ? "/" : path;
  if (!IsExportPath(out.path)) {
    return Error(FsError::kInval, "'" + Printable(out.path.substr(0, 200)) +
                                      "' cannot be mounted: it is no absolute path without '.', '..', '//' and a slash at its end");
  }
  if (h.peer) {
    if (room_ == nullptr) return Error::Denial(h.peer->name + " may not mount " + out.path + ": there are no exports");
    ASSIGN_OR_RETURN(out.by, room_->For(*h.peer, out.path));
    out.address = h.peer->address;
  }
  ASSIGN_OR_RETURN(out.root, Resolve(out.path));
  return out;
}

Result<SessionGrant> Exported::Keep(const SessionOwner& owner, const SessionGrant& had, const std::string& address) const {
  if (owner.name.empty() || !had.by) return had;
  if (room_ == nullptr) return Error(FsError::kAccess, "there are no exports");
  Peer peer;
  peer.name = owner.name;
  peer.key_hash = owner.key;
  peer.address = address;
  ASSIGN_OR_RETURN(const Export now, room_->For(peer, had.path));
  if (!GivesAtLeast(now, *had.by)) {
    return Error(FsError::kAccess, "its export was '" + FormatExport(*had.by) + "' and is now '" + FormatExport(now) + "'");
  }
  SessionGrant out = had;
  out.by = now;
  out.address = address;
  return out;
}

CallerIds Exported::Squashed(const OpHeader& h, const SessionGrant* grant) const {
  if (!h.session && h.peer->role == Role::kAdmin) return {0, 0, {}};
  if (grant == nullptr || !grant->by) return CallerIds();
  return SquashCaller(*grant->by, {h.uid, h.gid, h.groups}, trusted_root_(*h.peer));
}

BelievedCallers Exported::Believes(const OpHeader& h, const SessionGrant& grant) const {
  const Export& e = *grant.by;
  BelievedCallers out;
  if (e.squash == Export::Squash::kAll) return out;
  out.root = e.squash == Export::Squash::kNone || trusted_root_(*h.peer);
  out.uids = RangesOf(e.uids, false);
  out.gids = RangesOf(e.gids, out.root);
  return out;
}

}  // namespace stria
