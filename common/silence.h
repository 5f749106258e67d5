// Whether a data server is there at all, for clients (client/io/peers.h) and other data servers (server/silent_peers.h); or
// whether a disk is, for its server (server/disk_silence.h). Silent is not slow. A small state machine over time given as a
// parameter: pure, not thread-safe.
//
// A server that owes no answer, or was just heard, is fine. If it owes an answer and nothing at all has come from it for
// kPatienceNs, it is in doubt: it gets a probe (a request of nothing: no disk, no bytes), which a busy server answers at once.
// If it answers no probe either, within a few of their usual times, it is lost: no call waits for it. Anything that comes from
// it ends both states.
//
// If it is heard just after it was lost, it was only slower than ever before. Then its probes get twice as long.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/latency.h"
#include "common/units.h"

namespace stria {

class Silence {
 public:
  static constexpr int64_t kPatienceNs = 1 * kSecond;
  static constexpr int64_t kProbeNs = 1 * kSecond;           // the time for a probe, unless its usual time is longer
  static constexpr int64_t kUsualProbeMaxNs = 4 * kSecond;
  static constexpr int64_t kFalseAlarmNs = 6 * kSecond;      // heard so soon after it was called lost
  static constexpr int64_t kForgetAlarmNs = 300 * kSecond;   // each
  static constexpr int kMaxAlarms = 3;

  // A request goes out; call Ended when no call waits for its answer any more, with or without one.
  void Asked(int64_t now_ns) {
    ++waiting_;
    if (!since_ns_) since_ns_ = now_ns;
  }
  void Ended() {
    if (--waiting_ == 0 && !failing_) since_ns_.reset();
  }
  // It could not be reached, or a request had its whole time.
  void Failed(int64_t now_ns) {
    failing_ = true;
    if (!since_ns_) since_ns_ = now_ns;
  }
  void Heard(int64_t now_ns) {
    if (lost_since_ns_ && now_ns - *lost_since_ns_ <= kFalseAlarmNs) {
      alarms_ = std::min(alarms_ + 1, kMaxAlarms);
      alarm_ns_ = now_ns;
    } else if (alarms_ > 0 && now_ns - alarm_ns_ >= kForgetAlarmNs) {
      --alarms_;
      alarm_ns_ = now_ns;
    }
    failing_ = false;
    lost_since_ns_.reset();
    since_ns_.reset();
    if (waiting_ > 0) since_ns_ = now_ns;
  }
  // A request is under way.
  bool Awaited() const { return waiting_ > 0; }
  void ProbeAnswered(int64_t took_ns) { probes_.Add(took_ns, 0); }

  // When it will be in doubt if nothing comes; nothing is owed: never.
  std::optional<int64_t> DoubtNs() const {
    return since_ns_ ? std::optional<int64_t>(*since_ns_ + kPatienceNs) : std::nullopt;
  }
  bool InDoubt(int64_t now_ns) const { return since_ns_ && now_ns - *since_ns_ >= kPatienceNs; }
  // Why to probe it: to know whether it is there, or to hear when it is back.
  bool WantsProbes(int64_t now_ns) const { return lost() || failing_ || InDoubt(now_ns); }
  // How long to wait for the answer to a probe. No call waits for a lost server.
  int64_t ProbeNs() const {
    if (lost()) return kUsualProbeMaxNs;
    return std::clamp(probes_.UsualNs(), kProbeNs, kUsualProbeMaxNs) << alarms_;
  }
  // A probe was not answered, or refused. True: it may be called lost.
  bool Unanswered(int64_t now_ns) const { return !lost() && since_ns_ && now_ns - *since_ns_ >= kPatienceNs + kProbeNs; }
  void Lost(int64_t now_ns) { lost_since_ns_ = now_ns; }
  bool lost() const { return lost_since_ns_.has_value(); }

 private:
  int waiting_ = 0;
  bool failing_ = false;                   // it did not answer the last that it was asked for
  std::optional<int64_t> since_ns_;        // it owes an answer since then
  std::optional<int64_t> lost_since_ns_;
  Latency probes_;
  int alarms_ = 0;  // false ones
  int64_t alarm_ns_ = 0;
};

// How many servers may be given up: no more than half of those that there are, as then it is rather this client's own network,
// or all are slow; and a few at once and one more per so many answers, so that it never makes a general slowness worse.
class GiveUpBudget {
 public:
  static constexpr uint64_t kBurst = 16;
  static constexpr uint64_t kAnswersEach = 20;

  void Answered() { credit_ = std::min(credit_ + 1, kBurst * kAnswersEach); }
  // `silent` of `servers` say nothing, the one in question among them.
  bool Take(size_t silent, size_t servers) {
    if (2 * silent > servers || credit_ < kAnswersEach) return false;
    credit_ -= kAnswersEach;
    return true;
  }

 private:
  uint64_t credit_ = kBurst * kAnswersEach;  // in answers
};

}  // namespace stria
