// The client's session with the metadata service: keeps the lease, delivers pushed events, survives
// restarts of the server, and carries every call with retries.
//
// 1. Start() opens a session at one of the addresses; calls wait for it.
// 2. The lease is renewed at a third of its length and counted from SENDING the renewal, on Executor::NowNs, less a margin.
//    Caches are valid while LeaseLeftNs() > 0.
// 3. Events are polled and handled: those of one inode one after another, those of different inodes at once; demands (recalls,
//    flushes) of an inode beside its invalidations. An event is acknowledged when it and all before it have been handled. A
//    demand counts as handled once it is under way: LeaseDone tells its end. So an acknowledgement, for which other clients may
//    wait, never waits for a demand, which may wait for other clients.
// 4. A new term (the server restarted): calls wait, on_restart, held inodes are reclaimed, mutations that were
//    not known durable are replayed in order under their op_seq, on_reclaimed(false), calls go on.
// 5. Lapsed (the lease ran out at the server): the session comes back under a new epoch. Calls wait, on_restart, open files are
//    claimed, on_came_back tells what is lost; calls that were under way are repeated, then new ones go out. era() grows: no
//    earlier lease holds.
// 6. Fenced (replaced, or away for too long): calls fail with kFenced until a fresh session is open; then
//    generation() is larger and on_reclaimed(true) is told that everything held is lost. A call never
//    crosses generations.
//
// 7. Where several metadata servers are asked who is primary (MetaSessionOptions::members): calls that hang elsewhere are dropped, and
//    repeated there, as soon as any of them knows.
//
// 8. A lower term (an old copy of the metadata is served as well) is refused, whatever it says: the session goes on looking for
//    the server of the highest term that it has seen. Each request says which that is.
//
// Exactly once: a mutation keeps its op_seq over all its tries; acked_below stays under each op that is
// unanswered or not known durable. Executor's thread only.
//
// Bounds: kMaxUndurableOps and kMaxUndurableBytes of mutations kept for replay (more wait until the server
// has synced), kMaxEventsInHand events being handled.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/io/backoff.h"
#include "client/session/caller.h"
#include "client/session/lost_changes.h"
#include "client/session/op_log.h"
#include "client/session/read_tracker.h"
#include "client/session/seals.h"
#include "client/session/session_handlers.h"
#include "common/exec/task.h"
#include "common/random.h"
#include "peers/meta_locator.h"
#include "peers/meta_peers.h"

namespace stria {

class MetaSession {
 public:
  static constexpr size_t kMaxEventsInHand = 4096;

  MetaSession(MetaConnector& connector, MetaSessionOptions options);
  ~MetaSession();
  MetaSession(const MetaSession&) = delete;
  MetaSession& operator=(const MetaSession&) = delete;

  // Before Start.
  void SetHandlers(SessionHandlers handlers) { handlers_ = std::move(handlers); }
  // Opens the session in the background and keeps it; WaitReady, or just call.
  void Start();
  // Ok when a session is open; the reason why not after this time, or timeout_ns. It goes on being opened then.
  Task<Result<void>> WaitReady(std::optional<int64_t> within_ns = std::nullopt);
  // After kFenced: waits until the lost session has a successor, for which new calls then wait. An error if the server refuses one,
  // or grants none within timeout_ns.
  Task<Result<void>> WaitNext();
  // Ends the session at the server (best effort, at most one try) and stops. Calls fail with kCancelled.
  Task<void> Close();

  // A call that changes nothing, or that may be repeated without harm (Open without truncate, Release, LeaseDone, Sync,
  // ReportShard):
  //   co_await session.Call(&MetaService::Lookup, std::move(request), caller)
  // Errors: the service's own; kTimedOut or kUnavailable when no server answered within timeout_ns; kFenced.
  template <class Req, class Rep>
  Task<Result<Rep>> Call(Task<Result<Rep>> (MetaService::*method)(Req), Req request, Caller caller = {}) {
    return Run(method, std::move(request), std::move(caller), false);
  }
  // A mutation: exactly once, and replayed after a restart of the server until known durable. If it may have been done, this
  // returns when its outcome is known or the session is lost, if need be after timeout_ns. After kTimedOut and kUnavailable it
  // was not done and will not be; after kFenced and kCancelled that is unknown. overdue() serves callers who cannot wait
  // longer.
  template <class Req, class Rep>
  Task<Result<Rep>> Mutate(Task<Result<Rep>> (MetaService::*method)(Req), Req request, Caller caller = {}) {
    return Run(method, std::move(request), std::move(caller), true);
  }

  // Every change that was answered before is durable on return (Sync). The server logs the call as one of this inode. Errors as of Call.
  Task<Result<void>> MakeDurable(InodeId ino, Caller caller = {});
  LostChanges& lost_changes() { return lost_changes_; }

  // True while a mutation that may have been done is asked after (Mutate) later than its caller was to wait.
  bool overdue() const { return !overdue_.empty(); }
  // The same of one that changes this inode, or a name in it.
  bool overdue(InodeId ino) const { return overdue_.contains(ino); }

  // The number that a call is given when it begins and that all its tries carry (OpHeader::trace_id), unless the
  // request has one already. Of calls about one inode the server tells by it which began later.
  uint64_t NumberCall() { return ++calls_; }
  // A request keeps its OpHeader::opened over all tries. A request that holds only for this term of the server has the term in
  // OpHeader::term (`release` of NameRequest and RenameRequest, and Release itself).

  // How long this session's caches may still be used; <= 0: not at all.
  int64_t LeaseLeftNs() const;
  // Grows when a session was lost: descriptors of older generations give EIO.
  uint64_t generation() const { return generation_; }
  // Grows also when the session has come back after its lease ran out: no earlier lease, recall or flush counts any more.
  uint64_t era() const { return generation_ + lapses_; }
  bool fenced() const { return state_ == State::kFenced; }
  uint64_t term() const { return term_; }
  SessionId id() const { return session_; }
  // Of the mounted directory, as the first session was told; kRootInode before that.
  InodeId root() const { return root_; }
  bool CanName(InodeId ino) const { return seals_.CanName(ino); }  // see Seals
  const BelievedCallers& believed() const { return believed_; }  // of its callers, as the present session was told
  bool read_only() const { return read_only_; }  // the server takes no changes from this session
  Epoch epoch() const { return epoch_; }
  CommitSeq durable_seq() const { return durable_seq_; }
  // True if all changes of names and attributes that were answered when NextOp() was `before` are known durable.
  OpSeq NextOp() const { return ops_.Next(); }
  bool ChangesDurable(OpSeq before) const { return !ops_.HasUndurableChange(before); }
  // Hold over a read, from before its extents are looked up: keeps garbage that it may need.
  ReadGuard BeginRead() { return reads_.Begin(); }
  // Never null; empty before the first session is open.
  const std::shared_ptr<const ClusterMap>& map() const { return map_; }
  const MetaSessionOptions& options() const { return options_; }
  // Events that have come and are not handled, for tests that look for circles of waits.
  struct InHand {
    InodeId ino;
    uint64_t seq = 0;
    bool demand = false;   // a recall or a flush, else something to forget
    bool begun = false;    // else it waits for one before it about the same inode
  };
  std::vector<InHand> EventsInHand() const;

 private:
  // kSettling: open at the server, but replays and handlers are not through; calls wait.
  enum class State { kOpening, kSettling, kReady, kReclaiming, kFenced, kClosed };
  // Answers later than this after the time limit that the request carries are not waited for.
  static constexpr int64_t kTrySlackNs = 500 * kMillisecond;
  struct Overdue {
    Overdue(MetaSession* session, const SessionCallNames& of) : all(&session->overdue_), named(of) {
      for (const InodeId ino : named) ++(*all)[ino];
    }
    Overdue(const Overdue&) = delete;
    Overdue& operator=(const Overdue&) = delete;
    ~Overdue() {
      for (const InodeId ino : named) {
        if (auto it = all->find(ino); --it->second == 0) all->erase(it);
      }
    }
    std::map<InodeId, uint32_t>* const all;
    const SessionCallNames named;
  };
  // The state under which a try was sent, to tell news from history when its answer comes.
  struct Try {
    std::shared_ptr<MetaService> service;
    std::string address;
    uint64_t term = 0;
    Epoch epoch;
    SessionId session;
  };

  // Defined in session_calls.cc for the calls that there are.
  template <class Req, class Rep>
  Task<Result<Rep>> Run(Task<Result<Rep>> (MetaService::*method)(Req), Req request, Caller caller,
                        bool mutation);
  // The answer to a mutation is there.
  template <class Req, class Rep>
  void Done(Task<Result<Rep>> (MetaService::*method)(Req), Req request, const Rep& reply, OpTicket ticket);
  // One try of a replay. `made`: the data_version that the mutation gave the file, the last time that it was done.
  template <class Req, class Rep>
  Task<Result<CommitSeq>> Resend(Task<Result<Rep>> (MetaService::*method)(Req), Req request, OpLog::Place place,
                                 std::shared_ptr<uint64_t> made);

  // Ok once calls may go out; kFenced, kCancelled, or the reason why there is no session.
  // `begun`: a mutation that has its number, and is asked again before new ones.
  Task<Result<void>> WaitOpen(uint64_t generation, int64_t deadline_ns, bool begun);
  Task<bool> NotWaiting(uint64_t generation, bool begun);
  // Waiting for a session does not help: the server says why it gives none.
  bool Refused() const { return !last_error_.ok() && !IsRetryable(last_error_.code); }
  bool Open(bool begun) const { return state_ == State::kReady || (begun && recovering_); }
  // Until the server has restarted or the session has come back: earlier answers count no more.
  Task<bool> PastOf(Try t);
  bool IsPast(const Try& t) const { return t.term != term_ || t.epoch != epoch_; }
  Try BeginTry();
  // Takes note of the error of a try (other address, fenced ...): true to try again.
  bool Retry(const Error& error, const Try& t);
  static Error FencedError();
  Error GiveUp(const Error& last) const;
  OpHeader Header(const Caller& caller, OpSeq op_seq) const;

  // The life of the session (meta_session.cc).
  Task<void> KeepOpen();
  Task<Result<void>> OpenFresh();
  Task<Result<void>> Reclaim();  // after a restart, or after it has lapsed: the server knows which
  Task<Result<void>> GoOn(OpenSessionReply reply, int64_t sent_ns);
  Task<Result<OpenSessionReply>> SendOpen(OpenSessionRequest request);
  Task<std::optional<Result<OpenSessionReply>>> OpenAt(Try t, OpenSessionRequest request);
  Task<void> PauseOpening(int64_t ns);
  void Moved();  // another server is said to be primary
  Task<Result<void>> Replay();
  // Calls that were under way when the server restarted are repeated: others may have seen their effects.
  Task<Result<void>> EndCalls();
  // Makes it durable, and lets the server serve others again.
  Task<Result<void>> EndReplay();
  Task<void> Settle(bool lost);
  void Adopt(const OpenSessionReply& reply, int64_t sent_ns);
  Task<void> KeepRenewed();
  Task<Error> RenewOnce();
  Task<Result<void>> MakeRoom(int64_t deadline_ns);
  bool Live() const { return state_ == State::kReady || state_ == State::kSettling; }
  void SawTerm(uint64_t term);
  // Ok; kNotLeader if the answer is of a former life of the server.
  Error CheckTerm(uint64_t term) const;
  void KnownDurable(CommitSeq seq);
  void SetState(State s);
  void Fence();
  void Lapsed();

  // Events and the map (session_events.cc).
  Task<void> KeepPolling();
  Task<Result<PollReply>> PollOnce(Try t);
  Task<bool> AckedPast(uint64_t seq);
  bool TakeEvents(std::vector<SessionEvent> events);  // true if any was new
  using EventQueue = std::pair<InodeId, bool>;  // demands are true
  Task<void> HandleEvents(EventQueue queue);
  void Acknowledge(uint64_t seq, uint64_t numbering);
  void ResetEvents(uint64_t first_event);
  Task<void> KeepMap();
  void SetMap(ClusterMap map);

  MetaConnector& connector_;
  const MetaSessionOptions options_;
  SessionHandlers handlers_;
  Random rng_;

  MetaPeers peers_;                                               // where the next try goes
  std::map<std::string, std::shared_ptr<MetaService>> services_;  // by address, made on first use
  std::unique_ptr<MetaLocator> locator_;                          // null: nobody is asked where the primary is
  Error last_error_;                                    // why no session could be opened

  State state_ = State::kOpening;
  bool recovering_ = false;  // kSettling, in EndCalls
  Event changed_;  // pulsed when state_ changes
  SessionId session_;
  Epoch epoch_;
  InodeId root_ = kRootInode;
  bool read_only_ = false;
  BelievedCallers believed_;
  uint64_t term_ = 0;
  SaidTerm seen_;  // the highest; of a server that has only been heard of, without the proof
  bool opened_before_ = false;
  uint64_t calls_ = 0;
  uint64_t open_nonce_ = 0;   // of the open being tried
  int64_t open_sent_ns_ = 0;  // its first try
  uint64_t attempt_ = 0;      // of the reclaim being tried
  uint64_t generation_ = 1;
  uint64_t lapses_ = 0;
  int64_t lease_until_ns_ = 0;
  int64_t lease_ns_ = 0;
  Event renew_now_;
  CommitSeq durable_seq_;
  ReadTracker reads_;
  OpLog ops_;
  LostChanges lost_changes_;
  Seals seals_{[this](InodeId ino) { return !handlers_.in_use || handlers_.in_use(ino); }};
  std::map<InodeId, uint32_t> overdue_;  // changes by their inodes; a change of one inode also counts under 0
  Event durable_grew_;  // pulsed

  std::shared_ptr<const ClusterMap> map_ = std::make_shared<ClusterMap>();
  bool map_stale_ = false;
  Event map_wanted_;  // pulsed

  struct Queued {
    SessionEvent event;
    uint64_t numbering = 0;  // 0: acknowledged already
  };
  uint64_t numbering_ = 0;                              // of events; events of older ones are not acknowledged
  uint64_t acked_event_ = 0;                            // it and all before are handled, or recalls
  size_t in_hand_ = 0;                                  // being handled, or behind one that is
  uint64_t taken_event_ = 0;                            // the last that was taken from a poll
  std::set<uint64_t> handled_;                          // above acked_event_
  std::map<EventQueue, std::deque<Queued>> event_queues_;  // being handled
  Event acked_;                                         // pulsed when acked_event_ grows or one is handled

  TaskScope scope_;   // the loops
  TaskScope events_;  // handlers
};

}  // namespace stria
