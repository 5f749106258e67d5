// How a session is opened, reclaims its files when the server restarts, and comes back after its lease has run out. Part of
// meta_api.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/types.h"

namespace stria {

struct HeldInode {  // held before a server's restart, or before the session lapsed
  InodeId ino;
  LeaseMode lease = LeaseMode::kNone;  // looked at after a restart only
  bool for_write = false;
  bool idle = false;  // kept for a next open only: not taken up by a session that has lapsed
  std::string proof;  // OpenReply::proof
};
struct OpenSessionRequest {
  OpHeader header;      // header.session/epoch set: reclaim that session, or come back to it (then trace_id: the attempt)
  std::string client;   // for status: "mount /data on pc7 (pid 123)"
  Uuid client_uuid;     // a restarted client with the same uuid fences its former session
  std::string node_name;  // the node this client lives on, "" if none: for locality
  std::vector<HeldInode> held;  // not of a new one
  std::vector<FileLock> locks;  // not of a new one
  bool comes_back = false;  // the client knows kLapsed
  // The directory that is to be mounted: absolute, without "//", ".", ".." and a slash at its end; "" means "/". An export must name the
  // client and it. Also with a reclaim, as that can become a new session.
  std::string path = "/";
};
// A loss of a session that came back.
struct NotTaken {
  InodeId ino;
  bool lock = false;  // another session got a lock that excludes one of its own; false: the inode is gone
  bool operator==(const NotTaken&) const = default;
};
// Both included.
struct CallerRange {
  uint32_t first = 0;
  uint32_t last = 0;
  bool operator==(const CallerRange&) const = default;
};
// The callers whom the server takes for the users that the session names. It does the calls of all others as another user, so the
// session asks the server before it answers those.
struct BelievedCallers {
  bool root = false;               // uid 0, with any group
  std::vector<CallerRange> uids;   // without 0; empty: nobody else
  std::vector<CallerRange> gids;   // of those; groups that are not here are left out
  bool operator==(const BelievedCallers&) const = default;
};
struct OpenSessionReply {
  SessionId session;
  Epoch epoch;
  bool reclaimed = false;  // false on a reclaim: the old session is gone, everything held is lost
  uint64_t term = 0;       // grows with every start of the server
  int64_t lease_ns = 0;
  uint64_t first_event = 1;  // number of the first event that Poll will give
  ClusterMap map;
  // The session had lapsed, and goes on under a new epoch: it holds no lease, but has its files open (idle ones not), and its
  // locks, except `not_taken`. Changes meanwhile were not told to it.
  bool lapsed = false;
  std::vector<NotTaken> not_taken;
  InodeId root = kRootInode;  // of the request's path, when the session was opened
  bool read_only = false;     // the export takes no changes: kRoFs
  bool confined = false;      // inodes are named by number and seal
  CommitSeq survived;  // commits of the term before this one up to here were not lost by the restart
  std::vector<InodeSeal> seals;  // of `root`, if confined
  BelievedCallers believed;  // at least these, as long as the session lives
};

}  // namespace stria
