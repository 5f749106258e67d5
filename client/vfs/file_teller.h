// Room: what user.stria.told.* say (locality/told.h): a file's rows page by page, a layout, the nodes, an inode's names. For commands that have no
// credentials of their own, and ask through the mount as whoever runs them.
//
// Owns nothing.
//
// Invariant: what needs permission to read is asked of the server in the caller's name, so nobody is told more than a read would show
// him. (The kernel asks for that permission before, as of any user.* attribute.)
//
// Called by: Xattrs. Calls: the metadata server, and through FileTellerNeeds what commits and shows a file. Knows no other room.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "client/io/peers.h"
#include "client/session/meta_session.h"
#include "common/exec/task.h"

namespace stria {

struct FileTellerNeeds {
  // What is dirty of it is committed: bytes in memory are nowhere yet.
  std::function<Task<Result<void>>(InodeId)> commit;
  std::function<Task<Result<Attr>>(Caller, InodeId)> stat;
};

class FileTeller {
 public:
  // All of them outlive it.
  FileTeller(FileTellerNeeds needs, MetaSession& session, const DataPeers& peers)
      : needs_(std::move(needs)), session_(session), peers_(peers) {}
  FileTeller(const FileTeller&) = delete;
  FileTeller& operator=(const FileTeller&) = delete;

  // REQUIRES: the name begins with kToldXattrs. kNoData: there is no such attribute. kInval: it asks for no page.
  Task<Result<std::string>> Get(Caller who, InodeId ino, std::string name);

 private:
  Task<Result<std::string>> Rows(Caller who, InodeId ino, std::string name);
  Task<Result<std::string>> Paths(Caller who, std::string name);

  const FileTellerNeeds needs_;
  MetaSession& session_;
  const DataPeers& peers_;
};

}  // namespace stria
