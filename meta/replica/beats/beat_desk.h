// Beats without the logic: what a member's beat thread and its logic share. The beat thread answers other primaries' beats from the
// promises, and while this member is primary sends beats and notes what is promised for them; the logic takes that from here. So a step of
// the logic that takes long costs neither the primary's authority nor a failover.
//
// The watchdog: the logic ticks. When it has not done so for watchdog_ns it counts as hung for good: nothing is answered and nothing sent
// any more, until it ticks again. A primary that hangs then loses its authority after L and its place after G, as if it were gone.
//
// What holds, whatever runs at the same time:
//   - a promise is made under the lock of Promises, which the election closes before it asks for the primary's place (promises.h);
//   - a beat counts from before it was sent, and only for the life, and the member as it was then connected, that it was sent for;
//   - a member whose directory is not the listed one promises nothing.
//
// Pure: fed with what happens and the time of the own monotonic clock. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/beat_api.h"
#include "common/error.h"
#include "common/units.h"
#include "meta/replica/promises.h"
#include "meta/replica/register.h"

namespace stria {

struct BeatOptions {
  int64_t beat_ns = 250 * kMillisecond;
  int64_t answer_ns = 3 * kSecond;     // how long an answer is waited for: beyond L it promises nothing any more
  int64_t watchdog_ns = 15 * kSecond;  // how long a step of the logic may take
};

// A sentence if a watchdog of that time is not sensible: it would end a primary sooner than silence does.
Result<void> CheckWatchdog(int64_t grace_ns, int64_t watchdog_ns);

// A beat that is to be sent now.
struct DueBeat {
  std::string member;
  std::string address;
  BeatRequest request;
  uint64_t connection = 0;  // of the member, as it was connected then
  int64_t sent_ns = 0;
};

// A member has promised: it answered the beat that was sent then.
struct BeatPromise {
  std::string member;
  int64_t sent_ns = 0;
  int64_t heard_ns = 0;
};

struct BeatFigures {
  uint64_t sent = 0;      // beats
  uint64_t promised = 0;  // .. for which a promise came back
  uint64_t given = 0;     // promises, to others
  uint64_t hangs = 0;     // times that the watchdog has stopped the beats
  int64_t longest_step_ns = 0;  // between two ticks of the logic, ever
};

class BeatDesk {
 public:
  // The logic has just started, and ticks from now on. `self`: the member's name.
  BeatDesk(std::string self, const Uuid& cluster, const BeatOptions& options, int64_t now_ns);
  BeatDesk(const BeatDesk&) = delete;
  BeatDesk& operator=(const BeatDesk&) = delete;

  Promises* promises() { return &promises_; }
  const BeatOptions& options() const { return options_; }

  // ---- The logic's
  // Often: many times in watchdog_ns. Gives how long ago the last one was.
  int64_t Tick(int64_t now_ns);
  // Whether the register lists the directory of this member. Until then nothing is answered.
  void SetListed(bool listed);
  // The node is gone, or about to go: nothing is answered or sent any more, so that the others do not count on it. Idempotent.
  void Close();
  // Sends beats of this life from now on, to those that are connected; none are yet. What was promised to an earlier one is forgotten.
  void BeginLife(const MetaLife& life);
  void EndLife();
  // In place of what was under that name: what that has promised, or answers yet, counts no more.
  void Connect(const std::string& member, const std::string& address);
  void Disconnect(const std::string& member);
  // What was promised to this life since the last call, the newest of each member.
  std::vector<BeatPromise> TakePromises();
  // The highest term that was heard of in beats, sent or answered, if the election does not know it yet; 0: none. Once.
  uint64_t TakeHigherTerm();

  // ---- The beat thread's
  // kWrongCluster, kStale; kNotReady: it promises nothing now.
  Result<BeatReply> Answer(const BeatRequest& request, int64_t now_ns);
  // Those that count as sent now.
  std::vector<DueBeat> Due(int64_t now_ns);
  // The answer, or that there was none in time. Once for each.
  void Answered(const DueBeat& beat, const Result<BeatReply>& reply, int64_t now_ns);
  // The watchdog has stopped the beats.
  bool Hangs(int64_t now_ns) const;

  BeatFigures figures() const;

 private:
  struct Peer {
    std::string address;
    uint64_t connection = 0;
    int64_t next_ns = INT64_MIN;
    size_t waiting = 0;  // beats without an answer yet
    std::optional<BeatPromise> news;
  };
  bool HangsLocked(int64_t now_ns) const;

  const std::string self_;
  const Uuid cluster_;
  const BeatOptions options_;
  Promises promises_;
  mutable std::mutex mu_;
  // The rest: guarded by mu_.
  int64_t ticked_ns_;
  mutable bool hung_ = false;  // as it was seen last
  bool listed_ = false;
  bool closed_ = false;
  MetaLife life_;  // term 0: none
  std::map<std::string, Peer> peers_;
  uint64_t connections_ = 0;
  uint64_t higher_term_ = 0;
  mutable BeatFigures figures_;
};

}  // namespace stria
