// Room: extended attributes. The server keeps them, but for user.stria.* (virtual_xattr.h), which are made up here (Residence,
// FileTeller) or are orders (gather).
//
// Owns no state, and has no invariants of its own.
//
// Called by: programs, through Vfs. Calls: the rooms below, the session.
#pragma once

#include <string>
#include <vector>

#include "api/meta_api.h"
#include "client/session/meta_session.h"
#include "client/vfs/ahead_maker.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/calls.h"
#include "client/vfs/file_teller.h"
#include "client/vfs/inodes.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/ranges.h"
#include "client/vfs/residence.h"
#include "common/exec/task.h"

namespace stria {

// All of them outlive Xattrs.
struct XattrsRooms {
  Inodes& inodes;
  AttrView& attrs;
  NodeCache& nodes;
  MadeAhead& made_ahead;
  AheadMaker& ahead;
  Residence& residence;
  FileTeller& teller;
  Ranges& ranges;
  MetaSession& session;
  CallList& calls;
};

class Xattrs {
 public:
  explicit Xattrs(XattrsRooms rooms);
  Xattrs(const Xattrs&) = delete;
  Xattrs& operator=(const Xattrs&) = delete;

  Task<Result<std::string>> GetXattr(Caller who, InodeId ino, std::string name);
  Task<Result<std::vector<std::string>>> ListXattr(Caller who, InodeId ino);
  Task<Result<void>> SetXattr(Caller who, InodeId ino, std::string name, std::string value, bool create, bool replace);
  Task<Result<void>> RemoveXattr(Caller who, InodeId ino, std::string name);

 private:
  Inodes& inodes_;
  AttrView& attrs_;
  NodeCache& nodes_;
  MadeAhead& made_ahead_;
  AheadMaker& ahead_;
  Residence& residence_;
  FileTeller& teller_;
  Ranges& ranges_;
  MetaSession& session_;
  CallList& calls_;
};

}  // namespace stria
