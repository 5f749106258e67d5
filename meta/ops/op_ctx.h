// The context of an operation besides its request: caller, time, and a place to note changes that others must be told. An
// operation is a function Result<Reply> OpX(Txn&, const OpCtx&, const XRequest&): it checks, writes into the transaction and
// notes; the caller commits (or drops the transaction on an error, also if the commit gives kTooBig). Operations take nothing
// from the request's header; OpCtx has it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace stria {

// The open inodes, from the session layer.
class OpenTable {
 public:
  virtual ~OpenTable() = default;
  // By any session; or another session than `asks` got it by a lookup just now and may be about to use it.
  virtual bool IsInUse(SessionId asks, InodeId ino) const = 0;
  // By this session (for_write: for writing). An open file needs no further check of permissions.
  virtual bool HasOpen(SessionId session, InodeId ino, bool for_write) const = 0;
  // It had, as `proof` says (OpHeader::opened).
  virtual bool HadOpen(SessionId session, InodeId ino, bool for_write, std::string_view proof) const { return false; }
};

// The changes of an operation, for invalidations, recalls and background work. Sorted sets: pushes have the same order in every
// run.
struct Touched {
  std::set<InodeId> attrs;                            // attributes or xattrs
  std::set<InodeId> data;                             // content or size
  std::set<std::pair<InodeId, std::string>> entries;  // (directory, name) appeared, vanished or changed
  std::set<StripeId> freed;                           // stripes that became garbage
  std::set<InodeId> nameless;                         // lost their last names
  std::set<InodeId> orphaned;                         // unlinked, still in use
  CommitSeq allocated;                                // the newest allocation of a stripe that became live
  std::set<InodeId> trim;                             // have ranges to trim: call TrimStep
};

struct OpCtx {
  uint32_t uid = 0;  // after root squash
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary
  int64_t now_ns = 0;            // wall clock, of this operation
  SessionId session;
  const OpenTable* open = nullptr;  // null: nothing is open by others; the caller has all it asks for open
  Touched* touched = nullptr;       // never null in mutations
  std::string_view opened;          // OpHeader::opened
  InodeId made;                     // by this very request: its maker has it open
  InodeId confined_to;              // the root of the caller's export, if he is confined to one: what is above it is not his business
  // The number for a new inode: the session was given it for that, and no inode has it yet; or, before a restart, for this or
  // another inode (the operation looks whether it exists).
  bool own_number = false;
  bool former_number = false;
  // It was done and answered before a restart that lost it (OpHeader::replay_order): a refusal now for want of room would lose
  // a change that its caller has been told of. Permissions are checked as usual.
  bool repeated = false;

  bool IsRoot() const { return uid == 0; }
  bool InGroup(uint32_t g) const {
    if (g == gid) return true;
    for (uint32_t x : groups) if (x == g) return true;
    return false;
  }
  bool IsInUse(InodeId ino) const { return open && open->IsInUse(session, ino); }
  bool HasOpen(InodeId ino, bool for_write) const {
    if (!open || (made && ino == made) || open->HasOpen(session, ino, for_write)) return true;
    return !opened.empty() && open->HadOpen(session, ino, for_write, opened);
  }
};

}  // namespace stria
