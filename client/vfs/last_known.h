// Room: what a mount still shows when no metadata server answers and its lease has run out: directories as they were last
// seen, and the sizes of the filesystem. Never used while the lease lasts, nor while a server answers.
//
// Owns: listings as last seen (at most kMaxListings), and the last answer to statfs. Reads the caches of attributes and of
// names, whatever is left in them.
//
// Invariants: with `shows` false nothing is kept or shown but an answer to statfs of a moment ago. A listing is whole: one
// reply held all of the directory.
//
// Called by: Names, AttrCalls; ComeBack. Calls: the server's statfs, through LastKnownNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "api/meta_api.h"
#include "client/cache/attr_cache.h"
#include "client/cache/entry_cache.h"
#include "client/session/caller.h"
#include "client/vfs/server_silent.h"
#include "common/exec/task.h"

namespace stria {

struct LastKnownNeeds {
  std::function<int64_t()> lease_left_ns;
  std::function<uint64_t()> generation;  // of the session
  std::function<Task<Result<StatFsReply>>(Caller)> statfs;
};

class LastKnown {
 public:
  // The caches outlive it.
  LastKnown(bool shows, LastKnownNeeds needs, const AttrCache& attrs, const EntryCache& entries)
      : shows_(shows), needs_(std::move(needs)), attrs_(attrs), entries_(entries) {}
  LastKnown(const LastKnown&) = delete;
  LastKnown& operator=(const LastKnown&) = delete;

  // The call's answer; if the servers are gone, what is known.
  template <class T>
  Task<Result<T>> Or(Task<Result<T>> call, std::optional<T> known) {
    if (!known) co_return co_await std::move(call);
    auto [reply, gone] = co_await FirstOf(std::move(call), ServersGone());
    if (reply && (reply->ok() || !ServerSilent(reply->code()))) co_return std::move(*reply);
    co_return std::move(*known);
  }

  std::optional<NodeReply> Directory(InodeId ino) const;
  // Also of what is no directory: the kernel, which may have something mounted there, keeps a name only if it is told what
  // that leads to. With attributes that it must ask for it shows nothing of a file.
  std::optional<NodeReply> Entry(InodeId parent, const std::string& name) const;
  std::optional<ReadDirReply> Listing(InodeId ino, uint64_t cookie) const;
  // df(1) is for people: it tells what is known rather than wait. Of a moment ago if that is enough.
  Task<Result<StatFsReply>> StatFs(Caller who);

  // The server answered a listing from `cookie` on with this.
  void NoteListing(InodeId ino, uint64_t cookie, const ReadDirReply& reply);
  void Forget() { listings_.clear(); }

 private:
  Task<bool> ServersGone();
  std::optional<NodeReply> Node(InodeId ino) const;
  Task<Result<StatFsReply>> FetchStatFs(Caller who);

  const bool shows_;
  const LastKnownNeeds needs_;
  const AttrCache& attrs_;
  const EntryCache& entries_;
  std::map<InodeId, ReadDirReply> listings_;
  std::optional<StatFsReply> last_statfs_;
  int64_t statfs_at_ns_ = 0;
};

}  // namespace stria
