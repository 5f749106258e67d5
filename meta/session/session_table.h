// Sessions of the metadata server and their leases. Each has a queue of events (event_queue.h) and its mutations, which are done
// exactly once (once_ops.h); what they repeat after a restart is in replays.h. A pure state machine: time comes in as nanoseconds
// that never jump, effects go out as return values; its owner pushes, persists and waits.
//
// Life of a session:
//
//                 Open            Renew / Reclaim
//     (nothing) --------> active <---------------- unclaimed <--- Load (after a restart)
//                          |  ^                        |
//        lease over, silent,  |  ComeBack              | lease over
//        queue overflow    |  |  (a new epoch)         |
//                          v  |                        |
//                         lapsed <---------------------'<--- Load (it had lapsed before)
//                          |
//                          |  not back in time, or its client has a new one
//                          v
//     (gone: kFenced) <-- removed <--- Close, or from anywhere
//
// A lapsed session holds nothing against other sessions, gets no events, and no operation waits for it (Exists is false). Its
// calls get kLapsed until it comes back; calls from before that get kRetryLater afterwards (an older epoch). Its operations
// stay exactly once throughout. Clients that do not know kLapsed are removed instead.
//
// Invariants:
//  1. A session that is gone never comes back; its id is never used again.
//  2. What is remembered of lapsed ones is bounded: max_lapsed of them, remember_ns long.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"
#include "common/ids.h"
#include "meta/session/event_queue.h"
#include "meta/session/once_ops.h"
#include "meta/session/replays.h"
#include "meta/session/session_owner.h"

namespace stria {

inline constexpr int64_t kDefaultLeaseNs = 15 * kSecond;
inline constexpr int64_t kDefaultRememberNs = 600 * kSecond;
inline constexpr size_t kMaxSessions = 4096;
inline constexpr size_t kMaxLapsedSessions = 256;     // more, and the one that has been away longest is fenced
inline constexpr size_t kMaxSessionEvents = 16384;    // queued; more and the session lapses
inline constexpr size_t kMaxUnackedReplies = 16384;   // stored, per session; then kRetryLater

struct SessionTableOptions {
  int64_t lease_ns = kDefaultLeaseNs;
  int64_t remember_ns = kDefaultRememberNs;  // a session that has lapsed; 0: it is fenced at once
  size_t max_lapsed = kMaxLapsedSessions;
  size_t max_sessions = kMaxSessions;
  size_t max_events = kMaxSessionEvents;
  size_t max_replies = kMaxUnackedReplies;
};

// The part of a session that survives a restart of the server.
struct SessionRecord {
  SessionId id;
  Epoch epoch;
  Uuid client_uuid;
  std::string client;
  std::string node_name;
  OpSeq acked_below;
  bool fenced = false;  // over; its leftovers are being collected
  bool lapsed = false;
  bool comes_back = false;  // its client knows how
  SessionOwner owner;
  SessionGrant grant;
  bool operator==(const SessionRecord&) const = default;
};
std::string EncodeSessionRecord(const SessionRecord& r);
Result<SessionRecord> DecodeSessionRecord(std::string_view bytes);

class SessionTable {
 public:
  explicit SessionTable(SessionTableOptions options = {}) : options_(options) {}

  // The server's term. Events of different terms never share a number, so a late answer to a recall of one term is never taken
  // for an answer to a recall of another. Call before all else.
  void SetTerm(uint64_t term) { first_event_ = (term << kTermShift) + 1; }

  // ---- Life ----
  // A session of before the restart: known, but it must reclaim within one lease.
  void Load(SessionRecord record, int64_t now_ns);
  // REQUIRES: !full(), and an id never used before.
  void Open(SessionRecord record, uint64_t open_nonce, CommitSeq seen, int64_t now_ns);
  // True if the session was unclaimed and is active from now on; false if it was active already. `replay_next`: of
  // the first change that it repeats, 0 if there is none.
  // REQUIRES: Check(id, epoch) is ok.
  bool Reclaim(SessionId id, OpSeq acked_below, CommitSeq seen, uint64_t replay_next, int64_t now_ns);
  // The session lapses now; its owner takes away what it holds. REQUIRES: exists, or is unclaimed.
  void Lapse(SessionId id, int64_t now_ns);
  // It is active again, under a new epoch. `attempt`: a number of the client's. REQUIRES: IsLapsed.
  void ComeBack(SessionId id, OpSeq acked_below, uint64_t attempt, int64_t now_ns);
  bool IsLapsed(SessionId id) const;
  // The attempt by which it came back last, in this term; 0: none.
  uint64_t Attempt(SessionId id) const;
  std::vector<SessionId> Forgotten(int64_t now_ns) const;  // have been lapsed for too long, or are too many
  int64_t AwayNs(SessionId id, int64_t now_ns) const;      // since it lapsed, in this term
  // kFenced if there is no such session, kLapsed if it is that.
  Error Check(SessionId id, Epoch epoch) const;
  // The same for a session that does not exist.
  Error Gone(SessionId id) const;
  // Extends the lease. REQUIRES: exists.
  void Renew(SessionId id, CommitSeq seen, int64_t now_ns, const ClientIo& io = {});
  // This server did not run for `ns`: all leases last that much longer here (clients count their own).
  void Excuse(int64_t ns);
  // Forgets the session: it is fenced from now on.
  void Remove(SessionId id);

  bool Exists(SessionId id) const;  // and is not lapsed
  bool IsUnclaimed(SessionId id) const;
  bool full() const { return sessions_.size() - lapsed_ >= options_.max_sessions; }
  // True while sessions from before the restart may still hold what they held then.
  bool reclaiming() const;
  std::vector<SessionId> Expired(int64_t now_ns) const;
  int64_t LeaseLeftNs(SessionId id, int64_t now_ns) const;
  const ClientIo& Io(SessionId id) const { return At(id).io; }  // of its last renewal. REQUIRES: there is such a session
  int64_t lease_ns() const { return options_.lease_ns; }
  int64_t remember_ns() const { return options_.remember_ns; }
  const SessionRecord* Find(SessionId id) const;  // lapsed ones too
  // It holds by another line of the exports from now on. REQUIRES: there is such a session; it may have lapsed.
  void Rebind(SessionId id, SessionGrant grant) { At(id).record.grant = std::move(grant); }
  // Lapsed ones too. Of this owner only: who knows a client's number ends no session of another.
  std::optional<SessionId> FindByClient(const Uuid& client_uuid, const SessionOwner& owner) const;
  uint64_t OpenNonce(SessionId id) const;
  std::vector<SessionId> All() const;
  // The least that any session has seen (max value without sessions): garbage of commits up to it has
  // no readers. Unclaimed sessions have seen nothing. Lapsed ones are not counted: when they are back they ask for all
  // mappings again, and find out by a missing shard that one is old.
  CommitSeq MinSeen() const;

  // ---- What each session has
  // Queues an event; its number, or 0 if the queue is full (the session is to lapse) or the session does not exist.
  uint64_t Push(SessionId id, SessionEvent e, int64_t now_ns);
  // True if the session has processed `event`, or does not exist.
  bool Acked(SessionId id, uint64_t event) const;
  // REQUIRES: there is such a session; it may have lapsed.
  EventQueue& events(SessionId id) { return At(id).events; }
  // Null if there is no such session.
  const EventQueue* FindEvents(SessionId id) const;
  // Replies below `acked_below` have arrived. REQUIRES: there is such a session.
  void AckReplies(SessionId id, OpSeq acked_below);
  // REQUIRES: there is such a session; it may have lapsed.
  OnceOps& ops(SessionId id) { return At(id).ops; }
  // Null if there is no such session.
  OnceOps* FindOps(SessionId id);
  // Changes that are repeated after a restart: from Reclaim on, no longer than a lease.
  Replays& replays() { return replays_; }
  const Replays& replays() const { return replays_; }

 private:
  struct Session {
    SessionRecord record;
    EventQueue events;
    OnceOps ops;
    bool unclaimed = false;
    int64_t lapsed_ns = 0;  // since when
    uint64_t attempt = 0;
    uint64_t open_nonce = 0;
    int64_t expires_ns = 0;
    CommitSeq seen;
    ClientIo io;
  };
  static constexpr int kTermShift = 40;  // more events than a term has
  Session& Add(SessionRecord record);
  Session& At(SessionId id);
  const Session& At(SessionId id) const;

  const Session* Live(SessionId id) const;  // null if it does not exist

  SessionTableOptions options_;
  uint64_t first_event_ = 1;
  std::map<SessionId, Session> sessions_;
  size_t lapsed_ = 0;  // of them
  Replays replays_;
};

}  // namespace stria
