// What a primary knows of the set: which sequence is durable on all that count (the commit rule), until when it may answer
// (authority), and which change of the register it asks for next. Pure: fed with what happens and the time of the own monotonic clock.
//
// Who counts is the maximal set: the members that the register may name, whatever becomes of a swap that is not decided, and the one
// that is about to join. A member that falls silent counts until the register has been read without it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/error.h"
#include "common/units.h"
#include "meta/replica/register.h"

namespace stria {

struct InSyncOptions {
  int64_t promise_ns = 3 * kSecond;      // L: how long an answered beat counts, from when it was sent
  int64_t suspect_ns = 1500 * kMillisecond;  // silence after which a member leaves the set
  int64_t ack_timeout_ns = 2 * kSecond;  // how long it may owe an acknowledgement that somebody waits for
  int64_t own_disk_ns = 5 * kSecond;     // how long the primary itself may owe what another one of the set has made durable
  int64_t handover_ns = 2 * kSecond;     // how long changes are held back for a planned switchover
  int64_t again_ns = 500 * kMillisecond;     // an undecided swap is asked for again
  // A member begins to count when it lacks no more than this; else durable answers would wait for what it still has to get.
  uint64_t join_lag = 1024;                    // batches
  int64_t join_behind_ns = 1 * kSecond;        // all that was written before is durable there
};

class InSyncSet {
 public:
  // Of a primary that opens: `named` is the register that names it, `last` the last sequence of its log.
  InSyncSet(const MetaLife& self, const Register& named, const InSyncOptions& options, uint64_t last, int64_t now_ns);

  // ---- What happens ----
  void OnWritten(uint64_t last);             // to its own log
  void OnSynced(uint64_t seq);               // of its own log
  void OnWanted(uint64_t seq, int64_t now_ns);  // somebody waits until it is durable
  // A member answered the beat that was sent at sent_ns in the term `term`. Answers that are not of this life are ignored, also below.
  void OnPromise(const std::string& member, uint64_t term, int64_t sent_ns, int64_t now_ns);
  struct Ack {
    std::string member;
    Uuid uuid;
    uint64_t term = 0;
    uint64_t durable = 0;  // synced, and the same as the primary's log up to there
    bool whole = false;
  };
  void OnAck(const Ack& ack);
  // Its log is no prefix of the primary's: it leaves the set, and is rewound then.
  void OnDiverged(const std::string& member, uint64_t term);
  void OnRewound(const std::string& member, uint64_t term);
  // Nothing was done here for `ns` until now: what others owe or have not said in that time is not held against them.
  void Excuse(int64_t ns, int64_t now_ns);
  // A register that was read, or that a swap gave. False: this life is over.
  bool OnRegister(const Register& seen);
  // Whether the coordinator has answered lately; at first it has. While it does not, nobody begins to count: until it decides, who does
  // so without being in the set could keep durable answers waiting.
  void OnCoordinator(bool answers) { coordinator_answers_ = answers; }

  // ---- What follows ----
  // Durable on all that count: durable answers up to it may go out. Never falls.
  uint64_t committed() const { return committed_; }
  // Whether an answer may go out now. Ask when it is finished, not when it begins.
  bool HasAuthority(int64_t now_ns) const;
  int64_t AuthorityUntilNs() const;  // INT64_MAX while nobody else counts
  std::set<std::string> Required() const;  // without itself
  const Register& known() const { return known_; }
  bool IsInSync(const std::string& member) const { return known_.in_sync.contains(member); }
  // Its own disk keeps everybody waiting: another one of the set, which is heard, has made durable what this one owes.
  bool OwnDiskHangs(int64_t now_ns) const;
  // What the coordinator is to be asked for now; a swap that is not decided, again. `nonce` gives one that was never used.
  std::optional<RegisterSwap> Next(int64_t now_ns, const std::function<Uuid()>& nonce);

  // ---- What people ask for ----
  // T7: a transition that was made from known(). kBusy: another change is not decided yet.
  Result<RegisterSwap> Ask(const Register& next, int64_t now_ns);
  // T6: from now on new changes are to be held back; as soon as `to` has everything, it is offered the place. Changes go on after
  // options.handover_ns without that.
  Result<void> BeginHandOver(const std::string& to, int64_t now_ns);
  bool HoldsChanges() const;  // new changes wait
  bool Stopped() const;       // nothing at all is answered: the place has been offered

 private:
  struct Peer {
    uint64_t durable = 0;
    bool whole = false;
    bool diverged = false;
    int64_t until_ns = INT64_MIN;  // its promise
    int64_t heard_ns = 0;
  };
  struct Wanted {
    uint64_t seq;
    int64_t since_ns;
  };
  Peer* Find(const std::string& member, uint64_t term);
  int64_t OwesNs(const Peer& peer, int64_t now_ns) const;
  Lapse LapseOf(const std::string& member, int64_t now_ns) const;
  bool Lapsed(const Lapse& lapse) const;
  void NoteWritten(int64_t now_ns);
  bool KeepsUp(const Peer& peer) const;
  void Commit();
  std::optional<RegisterSwap> Begin(Result<Register> next, int64_t now_ns);
  std::optional<RegisterSwap> NextHandOver(int64_t now_ns, const Uuid& nonce);
  std::optional<RegisterSwap> NextShrink(int64_t now_ns, const Uuid& nonce);
  std::optional<RegisterSwap> NextGrow(int64_t now_ns, const Uuid& nonce);

  const MetaLife self_;
  const InSyncOptions options_;
  Register known_;
  std::map<std::string, Peer> peers_;  // the other members
  const uint64_t opened_at_;  // up to there, former primaries may have acknowledged
  uint64_t last_;
  uint64_t synced_ = 0;
  uint64_t committed_ = 0;
  std::deque<Wanted> wanted_;  // not committed yet
  struct Written {
    uint64_t last;
    int64_t at_ns;
  };
  std::deque<Written> written_;  // where the log was lately, no longer ago than join_behind_ns
  uint64_t written_before_;      // .. and where it was before
  bool coordinator_answers_ = true;

  std::optional<RegisterSwap> pending_;
  std::string leaving_;  // whom the pending swap drops
  int64_t again_ns_ = 0;
  std::string joiner_;  // counts already, although it is not in the set; "" if none
  uint64_t joiner_from_ = 0;
  std::string hand_to_;
  int64_t hand_until_ns_ = 0;
  bool offered_ = false;  // the pending swap hands over
};

}  // namespace stria
