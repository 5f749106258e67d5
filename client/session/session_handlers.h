// The options of a session with the metadata service, and the handlers that the session calls.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "api/replica_api.h"
#include "common/exec/task.h"

namespace stria {

struct MetaSessionOptions {
  std::vector<std::string> addresses;     // host:port; at least one
  // Asked who of several metadata servers is primary, and where the others are. Outlives the session. Null: addresses are tried in turn.
  MemberConnector* members = nullptr;
  // Told the addresses of all metadata servers that are known, when they have changed, before any new one is called. May be missing.
  std::function<void(const std::vector<std::string>&)> on_addresses;
  std::string client_name;                // for status: "mount /data on pc7 (pid 123)"
  Uuid client_uuid;                       // a restarted client with the same uuid fences its former session
  std::string node_name;                  // the node this client lives on, "" if none
  std::string path = "/";                 // the directory that is mounted: OpenSessionRequest::path
  int64_t timeout_ns = 60 * kSecond;      // of a call with all its retries (the mount's --timeout)
  int64_t try_timeout_ns = 10 * kSecond;  // of one try
  int64_t poll_ns = 10 * kSecond;         // longest wait of a quiet poll
  int64_t lease_margin_ns = 1 * kSecond;  // taken off the lease: scheduling, clock rates
  uint64_t seed = 1;                      // of the jitter
};

// The inodes that a call is about; 0: none.
using SessionCallNames = std::array<InodeId, 2>;

// All optional. Called on the executor's thread.
struct SessionHandlers {
  // Called before each call, which waits for the task, if there is one: the handler tells the server of changes that it must have
  // before the call. The handler itself makes only calls that name no inode; there is nothing to tell before these.
  std::function<std::optional<Task<Result<void>>>(const SessionCallNames&)> before_call;
  // Called at once, in order of arrival: caches here must not outlive an answer that came after the event. on_event does the
  // rest, and may wait for earlier events.
  std::function<void(const SessionEvent&)> on_event_came;
  std::function<Task<void>(SessionEvent)> on_event;  // kClusterMap is handled by the session itself
  // Called before a reclaim. Once all sessions have reclaimed, others make changes that this one is not told of, so no cache
  // may be shown any more without asking the session. May be called more than once.
  std::function<Task<void>()> on_restart;
  std::function<std::vector<HeldInode>()> held;      // for a reclaim, or to come back
  std::function<std::vector<FileLock>()> locks;      // the same
  // lost: everything held (leases, open files, allocations) is gone. Otherwise only allocated and not yet
  // committed stripes may be. Must not make calls that wait for the session (they would wait for this).
  std::function<Task<void>(bool lost)> on_reclaimed;
  // All leases are gone, and changes by others were not told. Everything claimed is open and locked, but for the given losses.
  // Must not wait for the session either.
  std::function<Task<void>(std::vector<NotTaken>)> on_came_back;
  // A mutation that a restart had lost was done again: it gave the file this data_version, and before the restart the former one.
  std::function<void(InodeId, uint64_t former, uint64_t now)> on_repeated;
  // Whether the mount uses the inode, so that it may name it although it did not for long. Null: it may. Of a confined session.
  std::function<bool(InodeId)> in_use;
  std::function<std::vector<NodeId>()> unreachable;  // data servers, now: told with each renewal
  std::function<ClientIo()> io;                      // the same
  std::function<void(const std::shared_ptr<const ClusterMap>&)> on_map;  // at the start and on changes
};

}  // namespace stria
