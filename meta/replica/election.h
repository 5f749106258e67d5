// Who tries to become primary, and when: the state machine of one member. Pure: fed with events and the time of the own monotonic clock
// (CLOCK_BOOTTIME), it gives actions, which its driver carries out in their order. While the member is primary, InSyncSet has the rest.
//
//   boot       has not read the register since its start: answers nobody
//   standby    follows whoever beats; in the set or still catching up
//   candidate  has asked, or is about to ask, for the primary's place: promises nothing
//   opening    the register names it; waits until what it promised to others is over
//   primary    serves, as far as InSyncSet lets it
//
// Safety needs of a driver: a register that was read or that a swap gave is told whole, in any order; kOpen's `opened` is durable
// before the first answer; after kStop nothing of that term is answered; facts are true. All else is a question of how soon.
// Executor's thread, but for `promises`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/units.h"
#include "meta/replica/log_shape.h"
#include "meta/replica/promises.h"
#include "meta/replica/register.h"

namespace stria {

enum class MetaRole : uint8_t { kBoot, kStandby, kCandidate, kOpening, kPrimary };
const char* MetaRoleName(MetaRole role);

struct ElectionOptions {
  std::string self;
  Uuid uuid;
  int64_t grace_ns = 5 * kSecond;             // G
  int64_t read_ns = 1 * kSecond;              // between reads of the register; a quarter of it where something waits for them
  int64_t ask_ns = 200 * kMillisecond;        // how long answers of the others are waited for
  int64_t courtesy_ns = 500 * kMillisecond;   // how much longer, if one of them should rather take over
  int64_t give_up_ns = 2 * kSecond;           // a candidacy that has not asked the register by then
  int64_t pause_ns = 700 * kMillisecond;      // from then to the next one: a beat must have a chance
  int64_t again_ns = 500 * kMillisecond;      // an undecided swap is asked for again
};

// A sentence if these times are not safe or not sensible together: beat*4 <= suspect < promise, and grace >= 1.5 promise.
Result<void> CheckElectionTimes(int64_t beat_ns, int64_t suspect_ns, int64_t promise_ns, int64_t grace_ns);

// What its own store says.
struct OwnLog {
  LogShape shape;
  bool whole = false;        // no marker of a rewind or a copy
  uint64_t store_term = 0;   // the last term that was opened in it; 0: none
  uint64_t opened_term = 0;  // of the local file `opened`: the last term that this member opened; 0: not known
};

// Another member's answer to kAsk.
struct AskedMember {
  LogShape shape;
  bool whole = false;
  int64_t silent_ns = 0;  // since it heard of a primary
};

struct ElectionAction {
  enum class Kind : uint8_t {
    kRead,   // the register; one read at a time will do
    kSwap,   // `swap`
    kAsk,    // all other members of the set (Replica.Ask), with `attempt`
    kOpen,   // serve as `life`, of `reg`
    kStop,   // serve nothing of `life` any more; follow
    kAlarm,  // people should know `text`
  };
  Kind kind;
  RegisterSwap swap = {};
  uint64_t attempt = 0;
  MetaLife life = {};
  Register reg = {};
  std::string text = {};
};

class Election {
 public:
  using Actions = std::vector<ElectionAction>;

  // A process that has just started. `promises`, made then too, outlives it.
  Election(const ElectionOptions& options, Promises* promises, int64_t now_ns, std::function<Uuid()> nonce);

  // Often: at least with each beat.
  Actions Tick(int64_t now_ns, const OwnLog& own);
  // A register that was read, or that a swap gave.
  Actions OnRegister(int64_t now_ns, const Register& seen, const OwnLog& own);
  // The answer of a member to kAsk.
  void OnAsked(uint64_t attempt, const std::string& member, const AskedMember& answer);
  // Somebody knows of this term: a member that refused a beat, a beat of it, a client or data server that has seen it.
  Actions OnTerm(int64_t now_ns, uint64_t term);
  // It cannot go on (it ends, its store failed): it serves no more, and never opens again, whatever the register says. A swap that is
  // not decided may still be carried out; others take over then as from any primary that is silent.
  Actions Resign(int64_t now_ns);
  // Its disk keeps the others waiting, so one of these is to take over. If none does, it asks for the place again after `pause_ns`.
  Actions StepBack(int64_t now_ns, int64_t pause_ns);

  MetaRole role() const { return role_; }
  uint64_t term() const { return life_.term; }  // of its own life; 0 unless it is opening or primary
  const std::optional<Register>& known() const { return known_; }
  bool SwapPending() const { return pending_.has_value(); }

 private:
  void Become(MetaRole role, int64_t now_ns);
  void Stop(int64_t now_ns, Actions* out);
  void Read(int64_t now_ns, Actions* out);
  void Stand(int64_t now_ns, Actions* out);  // becomes a candidate
  int64_t GraceNs() const;
  bool MayStand(int64_t now_ns, const OwnLog& own) const;
  int64_t SilentNs(int64_t now_ns) const;
  void MakeClaim(int64_t now_ns, const OwnLog& own, Actions* out);
  bool SomebodyBetter(const OwnLog& own) const;
  void Won(int64_t now_ns, const Register& seen, bool at_once, Actions* out);
  void TryOpen(int64_t now_ns, Actions* out);
  void Alarm(std::string text, Actions* out);

  const ElectionOptions options_;
  Promises* const promises_;
  const std::function<Uuid()> nonce_;
  MetaRole role_ = MetaRole::kBoot;
  std::optional<Register> known_;  // the newest that was seen
  MetaLife life_;
  int64_t silent_from_ns_;  // since it stopped being primary, another one got the place, or its start
  int64_t read_at_ns_;      // when to read next
  std::optional<int64_t> low_since_ns_;  // since when the register's term is below that of the own store
  std::optional<int64_t> older_since_ns_;  // since when only older registers than known_ were seen
  std::string alarmed_;     // the last alarm, not told twice in a row

  // A candidacy.
  uint64_t attempt_ = 0;
  int64_t stood_ns_ = 0;
  int64_t pause_until_ns_ = INT64_MIN;
  bool resigned_ = false;
  std::map<std::string, AskedMember> asked_;
  std::optional<RegisterSwap> pending_;
  bool pending_own_ = false;  // it was the primary of pending_->old all the time, and has promised nothing
  int64_t again_ns_ = 0;
  bool fresh_ = false;        // the register was seen since it stood

  bool at_once_ = false;  // opening: nothing that it promised is in the way
};

}  // namespace stria
