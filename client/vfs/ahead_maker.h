// Room: making files ahead of the server. Of a directory that this client has to itself and knows whole it answers a Create
// here, and changes of such a file's attributes, without asking. (What becomes of the files: made_ahead.h; how the server is
// told: commits.h.)
//
// Owns no state.
//
// Invariants: a file is made here only if the server would surely allow it, its maker counts there as whom he says, and nobody else can notice. Between that decision and
// the file in MadeAhead there is no await.
//
// Called by: FileCalls and AttrCalls, before they ask the server; Xattrs (Untold). Calls: Inodes, NodeCache, AttrView, Leases,
// MadeAhead, ComeBack.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "client/session/caller.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/come_back.h"
#include "client/vfs/inodes.h"
#include "client/vfs/leases.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/vfs_types.h"

namespace stria {

class AheadMaker {
 public:
  // The caller as the server sees him; nothing: it takes him for somebody else than he says, or may.
  using AsBelieved = std::function<std::optional<Caller>(const Caller&)>;
  // All of them outlive it. `generation`: of the session.
  AheadMaker(Inodes& inodes, NodeCache& nodes, AttrView& attrs, Leases& leases, MadeAhead& made_ahead, ComeBack& come_back,
             std::function<uint64_t()> generation, AsBelieved believed)
      : inodes_(inodes), nodes_(nodes), attrs_(attrs), leases_(leases), made_ahead_(made_ahead), come_back_(come_back),
        generation_(std::move(generation)), believed_(std::move(believed)) {}
  AheadMaker(const AheadMaker&) = delete;
  AheadMaker& operator=(const AheadMaker&) = delete;

  // A Create asks for the directory and for numbers, if the next files there are to be made ahead.
  void AskAhead(const Caller& who, InodeId parent, MakeNodeRequest* r);
  // `asked`: Leases::events_seen when that was sent.
  void TakeAhead(InodeId parent, const OpenReply& reply, uint64_t asked);

  // The new file, with its lease. Null: the server must be asked.
  VfsInodePtr MakeFile(const Caller& caller, InodeId parent, const std::string& name, uint32_t mode);
  // An inode that was made here, and of which the server surely knows nothing yet; null if it is no such one.
  VfsInode* Untold(InodeId ino);
  // Nothing: it is the server's business.
  std::optional<EntryOut> SetAhead(const Caller& who, InodeId ino, const SetAttrIn& set);

 private:
  Inodes& inodes_;
  NodeCache& nodes_;
  AttrView& attrs_;
  Leases& leases_;
  MadeAhead& made_ahead_;
  ComeBack& come_back_;
  const std::function<uint64_t()> generation_;
  const AsBelieved believed_;
};

}  // namespace stria
