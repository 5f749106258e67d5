// Which inodes the requests and replies of sessions name. For who confines a session to a part of the tree (meta/exports/confined_meta.h),
// and for who keeps the seals of its inodes (client/session/seals.h).
//
//   ForEachInode(request, [&](InodeId ino, InodeUse use) { ... });
//
// calls with every inode of the message, in any order, with 0 where the message names none, and perhaps with one inode more than once. A
// type without an overload does not compile; test/inodes fails if an overload forgets a member. Pure.
#pragma once

#include "api/admin_api.h"
#include "api/meta_api.h"

namespace stria {

enum class InodeUse : uint8_t {
  kNamed,      // of a request: the client names it, and has to seal it. Of a reply: the server shows it
  kDirectory,  // the same, of requests: a directory in which names are asked for or changed
  // Not sealed. Of requests: the session was given the number beforehand (NumberGrants), or had it (OpenProof, the tables of leases and
  // locks), which is proved by that, and nothing else is done with it. Of replies: the number is for later, or the session has named it
  // itself.
  kKnown,
};

// ---- Sessions

template <class F>
void ForEachInode(const OpenSessionRequest& r, F f) {
  for (const HeldInode& h : r.held) f(h.ino, InodeUse::kKnown);
  for (const FileLock& l : r.locks) f(l.ino, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const OpenSessionReply& r, F f) {
  f(r.root, InodeUse::kNamed);
  for (const NotTaken& n : r.not_taken) f(n.ino, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const PollReply& r, F f) {
  for (const SessionEvent& e : r.events) f(e.ino, InodeUse::kKnown);  // the server has shown these before
}
template <class F>
void ForEachInode(const InodeRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const LeaseDoneRequest& r, F f) {
  f(r.ino, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const LockRequest& r, F f) {
  f(r.lock.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const LockReply& r, F f) {
  if (r.conflict) f(r.conflict->ino, InodeUse::kKnown);
}

// ---- Namespace

template <class F>
void ForEachInode(const NameRequest& r, F f) {
  f(r.parent, InodeUse::kDirectory);
  f(r.release, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const NodeReply& r, F f) {
  f(r.attr.ino, InodeUse::kNamed);
  if (r.parent) f(r.parent->ino, InodeUse::kNamed);
  if (r.parent2) f(r.parent2->ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const SetAttrRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const MakeNodeRequest& r, F f) {
  f(r.parent, InodeUse::kDirectory);
  f(r.former, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const OpenRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const GetExtentsReply& r, F f) {
  f(r.attr.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const OpenReply& r, F f) {
  ForEachInode(r.node, f);
  if (r.mapping) ForEachInode(*r.mapping, f);
  f(r.first_number, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const RenameRequest& r, F f) {
  f(r.parent, InodeUse::kDirectory);
  f(r.new_parent, InodeUse::kDirectory);
  f(r.release, InodeUse::kKnown);
}
template <class F>
void ForEachInode(const LinkRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
  f(r.new_parent, InodeUse::kDirectory);
}
template <class F>
void ForEachInode(const ReadDirRequest& r, F f) {
  f(r.ino, InodeUse::kDirectory);
}
template <class F>
void ForEachInode(const ReadDirReply& r, F f) {
  f(r.parent, InodeUse::kNamed);
  for (const DirEntry& e : r.entries) {
    f(e.ino, InodeUse::kNamed);
    if (e.attr) f(e.attr->ino, InodeUse::kNamed);
  }
}
template <class F>
void ForEachInode(const XattrRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const LayoutRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const NamesRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}

// ---- Data

template <class F>
void ForEachInode(const GetExtentsRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const AllocateRequest& r, F f) {
  f(r.ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const CommitRequest& r, F f) {
  f(r.ino, r.make ? InodeUse::kKnown : InodeUse::kNamed);
  if (r.make) f(r.make->parent, InodeUse::kDirectory);
}
template <class F>
void ForEachInode(const CommitReply& r, F f) {
  f(r.attr.ino, InodeUse::kNamed);
  if (r.parent) f(r.parent->ino, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const CloneRequest& r, F f) {
  f(r.from, InodeUse::kNamed);
  f(r.to, InodeUse::kNamed);
}
template <class F>
void ForEachInode(const CloneReply& r, F f) {
  f(r.attr.ino, InodeUse::kNamed);
}

// ---- Those that name none

#define STRIA_NAMES_NO_INODE(T) \
  template <class F>            \
  void ForEachInode(const T&, F) {}
STRIA_NAMES_NO_INODE(Empty)
STRIA_NAMES_NO_INODE(RenewRequest)
STRIA_NAMES_NO_INODE(RenewReply)
STRIA_NAMES_NO_INODE(PollRequest)
STRIA_NAMES_NO_INODE(ReadLinkReply)
STRIA_NAMES_NO_INODE(XattrReply)
STRIA_NAMES_NO_INODE(StatFsReply)
STRIA_NAMES_NO_INODE(LayoutReply)
STRIA_NAMES_NO_INODE(PathsReply)
STRIA_NAMES_NO_INODE(AllocateReply)
STRIA_NAMES_NO_INODE(ReportShardRequest)
STRIA_NAMES_NO_INODE(ClusterMap)
STRIA_NAMES_NO_INODE(NamesReply)
#undef STRIA_NAMES_NO_INODE

}  // namespace stria
