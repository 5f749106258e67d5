// Which changes are told as events: pure. It remembers what was told last of each subject, compares that with what is so now, and gives
// the events in between.
//
//  - A level is told when it has been so for `hold_ns` of its track. What gets worse is told at each level, what gets better only when it
//    is well again; a level that is lower for kLowerNs is remembered, so that the next rise is told.
//  - A subject whose level changes again and again is told at ever longer intervals: from the third event within kBurstNs on the hold
//    doubles, up to kMostHoldNs. What came and went meanwhile is counted in the last event. So the last event is always true in the end.
//
// Time never jumps (`now_ns`); the wall clock is for people. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "meta/events/judge.h"

namespace stria {

class EventTeller {
 public:
  static constexpr int64_t kLowerNs = 600 * kSecond;
  static constexpr int64_t kBurstNs = 900 * kSecond;
  static constexpr int64_t kBurstHoldNs = 30 * kSecond;
  static constexpr int64_t kMostHoldNs = 600 * kSecond;
  // Of a look; what is beyond comes with the next one. Together they fit into one transaction.
  static constexpr size_t kMaxEventsAtOnce = 60;
  static constexpr size_t kMaxChangesAtOnce = 1500;
  static constexpr size_t kMaxCountedAtOnce = 100;

  struct Step {
    std::vector<ClusterEvent> events;       // new, by number
    std::vector<uint64_t> counted;          // events of before that were so once more
    std::map<EventKey, ToldState> changed;  // to be stored
    std::vector<EventKey> forgotten;        // to be deleted
    bool more = false;                      // these are not all
    bool events_full() const { return events.size() >= kMaxEventsAtOnce; }
    bool changes_full() const { return changed.size() + forgotten.size() >= kMaxChangesAtOnce; }
    bool empty() const { return events.empty() && counted.empty() && changed.empty() && forgotten.empty(); }
  };

  // Of the store: what was told, and the next event's number (at least 1).
  void Load(ToldStates told, uint64_t next_seq);
  // `adopt`: who is of the cluster is taken as it is; nobody has joined.
  Step Look(const Judgement& now_is, bool adopt, int64_t now_ns, int64_t wall_ns);

  const ToldStates& told() const { return told_; }
  uint64_t next_seq() const { return next_seq_; }

 private:
  struct Watch {
    uint8_t seen = 0;        // level at the last look
    int64_t since_ns = 0;    // it is so since
    uint32_t burst = 0;      // events, each within kBurstNs of the one before
    int64_t told_ns = 0;     // the last one
    uint64_t seq = 0;        // its number
    bool kept_back = false;  // it has changed, and only the longer hold keeps it from being told
  };
  void LookAt(const Judged& j, bool adopt, int64_t now_ns, int64_t wall_ns, Step* step);
  // It is as it was told: what was kept back has come and gone.
  static void Settle(uint8_t level, int64_t now_ns, Watch* watch, Step* step);
  void Set(const EventKey& key, const ToldState& state, Step* step);
  void Forget(const EventKey& key, Step* step);

  ToldStates told_;
  std::map<EventKey, Watch> watched_;  // that changed lately
  uint64_t next_seq_ = 1;
};

}  // namespace stria
