// What happened to the cluster, each change once: a bounded history in the store, for `stria events` and `stria watch`.
//
// Owns: the events that are kept, with what was told last of each subject and the next number (family cluster, docs/formats.md); what
// nodes say of clock and version; and the calls that wait for the next event.
//
// Invariants:
//  - an event is durable before anybody is told, and so its number is never another's. In a store that was made from a backup, numbers
//    go on far behind those that may have been given since.
//  - what was told before a restart is not told again after it.
//  - nothing is written while the metadata's disk takes nothing any more.
//
// Called by MetaServer (its clock, what it sees), NodeCalls and AdminCalls. Sees the core. Executor's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "api/admin_api.h"
#include "common/exec/task.h"
#include "meta/core/meta_core.h"
#include "meta/events/event_teller.h"
#include "meta/events/judge.h"

namespace stria {

struct EventRoomOptions {
  int64_t look_ns = 2 * kSecond;
  size_t max_events = 10'000;  // kept; the oldest go first
};
inline constexpr size_t kMaxWaitingForEvents = 256;      // calls; more are answered at once
inline constexpr size_t kMaxWaitingOfOne = 16;           // of one holder of a certificate
inline constexpr uint64_t kEventsJump = 1'000'000;       // of numbers, after a restore

class EventRoom {
 public:
  // What is so; an error: it cannot be said now.
  using Look = std::function<Task<Result<ClusterSeen>>()>;

  EventRoom(MetaCore* core, const EventRoomOptions& options) : core_(core), options_(options) {}
  ~EventRoom() { Stop(); }
  Result<void> Load(Txn& txn);
  // Looks again and again from now on.
  void Start(Look look) { scope_.Spawn(Loop(std::move(look))); }
  void Stop();
  // Calls that wait are answered.
  void Pulse() { new_.Pulse(); }

  // A heartbeat says so; a clock of 0 and an empty version are not said.
  void NoteBeat(NodeId node, int64_t wall_ns, const std::string& version);
  const std::map<NodeId, NodeFacts>& facts() const { return facts_; }

  // Compares with what was told, and tells. Durable on return.
  Task<Result<void>> Take(ClusterSeen seen);
  // `certificates`: the caller may know of them, too.
  Task<Result<ReadEventsReply>> Read(ReadEventsRequest r, bool certificates);

  const std::deque<ClusterEvent>& events() const { return events_; }  // by number

 private:
  Task<void> Loop(Look look);
  ReadEventsReply Page(const ReadEventsRequest& r, bool certificates) const;
  ClusterEvent* Find(uint64_t seq);

  MetaCore* const core_;
  const EventRoomOptions options_;
  EventTeller teller_;
  bool adopt_ = false;  // no look was ever taken
  std::deque<ClusterEvent> events_;
  std::map<NodeId, NodeFacts> facts_;
  std::multiset<uint64_t> waiting_;  // calls, by who asks (Peer::Holder; 0: nothing is proved)
  Event new_;
  TaskScope scope_;  // last: its tasks use everything above
};

}  // namespace stria
