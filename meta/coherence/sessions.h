// Sessions: who calls, whether it may, and what it is to be told.
//
// Owns: the session table (meta/session/session_table.h) with its records in the store, the polls that wait for events, how many
// sessions each owner has, which owners were silent, and whether what a restart has lost is being repeated.
//
// Invariants: a call of a session is carried out only for its owner (MayUse), under its epoch, in this term, and when what the
// session has yet to reclaim or repeat of before a restart is there (Gate). Of a session one poll waits at most. An event reaches its
// session or ends what it holds (Overflow).
//
// Called by everything that answers calls or tells sessions anything. Sees the core. Sessions are opened and ended by Coherence.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/core/meta_core.h"
#include "meta/session/session_owner.h"
#include "meta/session/session_table.h"
#include "meta/session/silent_owners.h"

namespace stria {

// Of whom the cluster is, and as whom root counts.
struct CallerOptions {
  bool root_squash = false;  // uid 0 of clients becomes squash_id
  uint32_t squash_id = 65534;
  std::set<uint32_t> admin_uids = {0};  // who may change the cluster
};

class Sessions {
 public:
  // The session does not take its events: what it holds is to be taken from it.
  using Overflow = std::function<void(SessionId, std::string_view why)>;
  // The session calls from another host than the one by which its export was judged.
  using Elsewhere = std::function<void(SessionId, const std::string& address)>;
  Sessions(MetaCore* core, const SessionTableOptions& options, CallerOptions callers, Overflow overflow, Elsewhere elsewhere)
      : core_(core), options_(options), callers_(std::move(callers)), overflow_(std::move(overflow)), elsewhere_(std::move(elsewhere)),
        table_(options) {}
  // `ended`: sessions that are over, and left something.
  Result<void> Load(Txn& txn, const std::function<void(SessionId)>& ended);
  // This server did not run for `ns`.
  void Excuse(int64_t ns) { table_.Excuse(ns); }

  const SessionTable& table() const { return table_; }
  // For exactly-once runs (OpRuns), which note in it what they do.
  OnceOps& ops(SessionId s) { return table_.ops(s); }
  OnceOps* FindOps(SessionId s) { return table_.FindOps(s); }
  const CallerOptions& callers() const { return callers_; }
  size_t max_events() const { return options_.max_events; }
  // Of its owner's key, as Peer::Holder; 0 without proof.
  uint64_t HolderOfOwner(SessionId s) const;

  // ---- May it? ----
  // ok(): the session is the caller's, of this epoch, and has not lapsed. kAccess: it is another's. Every path asks this first.
  Error Check(const OpHeader& h) const;
  // The same; a session that calls from another host than before keeps only what the exports give it there.
  Error CheckHere(const OpHeader& h);
  // The first part of it, of a session that there is.
  Error CheckOwner(const OpHeader& h) const;
  // It was opened by an export that takes no changes.
  bool IsReadOnly(SessionId s) const;
  // The header is right, and the session, there where it calls from; notes acknowledged replies.
  Result<void> CheckSession(const OpHeader& h);
  // The same; also without a session, for admins' calls, who read what is true now and keep nothing.
  Result<void> CheckCaller(const OpHeader& h) { return h.session ? CheckSession(h) : core_->CheckHeader(h); }
  // CheckSession, then waits for the end of the reclaim window.
  Task<Result<void>> Gate(const OpHeader& h);
  Task<Result<void>> GateCaller(const OpHeader& h);  // the same with CheckCaller
  Task<Result<void>> AwaitReclaims(const OpHeader& h);
  // What is the cluster's. Who has proved who it is: role admin, and no other. Without proof: for admins and data servers, who call
  // without a session; nobody whom clients call by another name.
  bool IsAdmin(const OpHeader& h) const;
  // CheckCaller; kPerm, "only root ..", "only an admin ..", if it is nobody of those.
  Result<void> CheckAdmin(const OpHeader& h, const char* does = "asks for this, and data servers");

  // ---- What a restart has lost, repeated ----
  // As the request says, asked and answered before a restart that lost it. What its session holds the session has claimed:
  // nothing is opened by it, as there may be nobody any more who would give it back.
  static bool IsReplay(const OpHeader& h) { return h.replay_order != 0 && h.replay_order != UINT64_MAX; }
  // And it can be so: it has its place among what the restart has lost. One that comes too late is a request like others.
  bool Repeats(const OpHeader& h) const { return IsReplay(h) && ReplayOrder(h) != 0; }
  void ReplayIsAt(const OpHeader& h, uint64_t order);  // nothing if it is not of a replay
  void Replayed(SessionId s);                          // it has repeated all
  void NoteReclaimed();                                // a session has, or it is gone

  // ---- Events ----
  // Queues `e` for the session: its number; 0 if there is no such session, or it does not take its events (Overflow).
  uint64_t Push(SessionId s, SessionEvent e);
  void PushAll(SessionEvent::Kind kind);
  // A later one of the same session ends it, without events.
  Task<Result<PollReply>> Poll(PollRequest r);
  void BeginPolls(SessionId s) { polls_[s] = Polls(); }
  void PulsePoll(SessionId s);
  void PulsePolls();
  void EndPolls(SessionId s);

  // ---- Who does not answer ----
  // How long a session may leave a question unanswered, or an event unacknowledged: `most_ns`, or the lease if its owner was silent.
  int64_t AnswersWithin(SessionId s, int64_t most_ns) const;
  bool WasSilent(SessionId s) const;
  // It has lapsed because it did not answer.
  void NoteSilent(SessionId s);
  // Whether sessions of this owner may open, or come back; kRetryLater with a sentence. `of`: the session, of an owner without proof.
  Error MayOpen(const SessionOwner& owner, SessionId of) const;

 private:
  friend class Coherence;  // opens and ends sessions: the same room
  struct Polls {
    std::shared_ptr<Event> event = std::make_shared<Event>();  // pulsed when the session has events
    uint64_t newest = 0;
  };
  bool Recovers(const OpHeader& h) const;
  uint64_t ReplayOrder(const OpHeader& h) const;

  MetaCore* const core_;
  const SessionTableOptions options_;
  const CallerOptions callers_;
  const Overflow overflow_;
  const Elsewhere elsewhere_;
  SessionTable table_;
  SessionsOfOwners owners_;
  std::map<SessionId, Polls> polls_;
  SilentOwners silent_;
  bool replays_began_ = false;
};

}  // namespace stria
