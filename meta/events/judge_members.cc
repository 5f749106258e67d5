#include "meta/events/judge_members.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/printable.h"

namespace stria {
namespace {

constexpr char kAll[] = "coordinator";
constexpr int64_t kCoordinatorHoldNs = 10 * kSecond;
constexpr uint8_t kCatchesUp = 1, kLost = 2;  // levels of kMetaCopy

std::string Listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + Printable(n);
  return out;
}

class JudgingMembers {
 public:
  JudgingMembers(const MembersSeen& seen, const ToldStates& told, Judgement* out) : seen_(seen), told_(told), out_(out) {
    for (const MemberState& m : seen_.status.members) {
      names_.insert(m.name);
      if (m.in_sync) in_sync_.push_back(m.name);
    }
  }

  void Run() {
    for (const MemberState& m : seen_.status.members) {
      OfMember(m);
      OfCopy(m);
    }
    OfPrimary();
    OfCoordinator();
    OfGone();
  }

 private:
  bool IsTold(EventTrack track, const std::string& subject) const { return told_.contains({track, subject}); }
  uint8_t ToldLevel(EventTrack track, const std::string& subject) const {
    const auto it = told_.find({track, subject});
    return it == told_.end() ? 0 : it->second.level;
  }
  void Say(EventTrack track, const std::string& subject, uint8_t level, const char* kind, EventSeverity severity, std::string text, std::string action = "",
           int64_t hold_ns = 0) {
    const bool alone = track == EventTrack::kMetaPrimary;  // the told primary is the last one
    out_->items.push_back({{track, subject}, level, kind, severity, std::move(text), std::move(action), hold_ns, false, alone});
  }
  void Remember(EventTrack track, const std::string& subject, uint8_t level) {
    out_->items.push_back({{track, subject}, level, "", EventSeverity::kNote, "", "", 0, true});
  }

  void OfMember(const MemberState& m) {
    Say(EventTrack::kMetaMember, m.name, 1, "meta-joined", EventSeverity::kNote,
        "Metadata server " + Printable(m.name) + " at " + Printable(m.address) + " is one of the cluster's.");
  }

  // Who has never been in sync is not lost when it is not.
  void OfCopy(const MemberState& m) {
    if (m.in_sync) {
      if (!IsTold(EventTrack::kMetaCopy, m.name)) return;
      return Say(EventTrack::kMetaCopy, m.name, 0, "meta-copy-back", EventSeverity::kNote,
                 "Metadata server " + Printable(m.name) + " is in sync: " + Copies() + ".");
    }
    const bool catches_up = ToldLevel(EventTrack::kMetaCopy, m.name) == kCatchesUp || !IsTold(EventTrack::kMetaMember, m.name);
    if (catches_up) return Remember(EventTrack::kMetaCopy, m.name, kCatchesUp);
    const bool waits = in_sync_.size() < seen_.status.min_in_sync;
    std::string text = "Metadata server " + Printable(m.name) + " is not in sync any more";
    if (!m.problem.empty()) text += " (" + Printable(m.problem) + ")";
    text += "; " + Copies() + (waits ? ", and fsync waits until there are " + std::to_string(seen_.status.min_in_sync) : "") + ".";
    Say(EventTrack::kMetaCopy, m.name, kLost, "meta-copy-lost", waits || in_sync_.size() <= 1 ? EventSeverity::kCritical : EventSeverity::kWarning,
        std::move(text),
        "See to it, it comes back by itself:  systemctl status stria-meta  there. If its disk is lost, start it with an empty directory after  stria meta remove " +
            Printable(m.name));
  }
  std::string Copies() const {
    if (in_sync_.size() == 1) return "only one copy of the metadata is left, that of " + Listed(in_sync_);
    return std::to_string(in_sync_.size()) + " have everything that is durable (" + Listed(in_sync_) + ")";
  }

  // The step that tells the new primary forgets the former one. Forgotten earlier, its name would be missing in the event. Forgotten later,
  // it would count as told when it is primary again soon.
  void OfPrimary() {
    const std::string& primary = seen_.status.primary;
    if (primary.empty()) return;
    if (IsTold(EventTrack::kMetaPrimary, primary)) return Remember(EventTrack::kMetaPrimary, primary, 1);
    std::string before;
    for (const auto& [key, state] : told_) {
      if (key.track == EventTrack::kMetaPrimary) before = key.subject;
    }
    if (before.empty()) return Remember(EventTrack::kMetaPrimary, primary, 1);
    const std::string in_term = ", in term " + std::to_string(seen_.status.term);
    if (seen_.handed) {
      return Say(EventTrack::kMetaPrimary, primary, 1, "meta-promoted", EventSeverity::kNote,
                 "Metadata server " + Printable(primary) + " is the primary" + in_term + ": " + Printable(before) + " has handed over to it.");
    }
    Say(EventTrack::kMetaPrimary, primary, 1, "meta-failover", EventSeverity::kWarning,
        "Metadata server " + Printable(primary) + " has taken over from " + Printable(before) + " and is the primary" + in_term + ".",
        "See to " + Printable(before) + ", it follows by itself when it is back:  stria meta status");
  }

  // If nobody reaches it, that is told once.
  void OfCoordinator() {
    uint64_t asked = 0, away = 0;
    std::string problem;
    for (const MemberState& m : seen_.status.members) {
      if (m.role == MemberRole::kUnreachable) continue;
      ++asked;
      away += !m.coordinator;
      if (problem.empty() && !m.coordinator_problem.empty()) problem = " (" + Printable(m.coordinator_problem) + ")";
    }
    const bool all = asked > 0 && away == asked;
    for (const MemberState& m : seen_.status.members) {
      const uint8_t was = ToldLevel(EventTrack::kCoordinator, m.name);
      OfReach(m.name, m.role == MemberRole::kUnreachable || all ? was : !m.coordinator,
              "Metadata server " + Printable(m.name) + " does not reach etcd" +
                  (m.coordinator_problem.empty() ? "" : " (" + Printable(m.coordinator_problem) + ")") + "; it could not take over.",
              "Look at its network, and at ha.etcd in its settings.", "Metadata server " + Printable(m.name) + " reaches etcd again.");
    }
    OfReach(kAll, all,
            "The metadata servers do not reach etcd" + problem + ". They go on, but nobody could take over, and if one of them is lost now, fsync waits.",
            "Start etcd on more than half of its PCs:  systemctl status etcd  there.", "The metadata servers reach etcd again.");
  }
  void OfReach(const std::string& subject, uint8_t level, std::string away, std::string action, std::string back) {
    if (level == 0 && !IsTold(EventTrack::kCoordinator, subject)) return;
    if (level == 0) return Say(EventTrack::kCoordinator, subject, 0, "coordinator-back", EventSeverity::kNote, std::move(back));
    Say(EventTrack::kCoordinator, subject, 1, "coordinator-away", EventSeverity::kWarning, std::move(away), std::move(action), kCoordinatorHoldNs);
  }

  void OfGone() {
    for (const auto& [key, state] : told_) {
      if (names_.contains(key.subject)) continue;
      if (key.track == EventTrack::kMetaMember) {
        Say(key.track, key.subject, 0, "meta-removed", EventSeverity::kNote, "Metadata server " + Printable(key.subject) + " is none of the cluster's any more.");
      } else if (key.track == EventTrack::kMetaCopy || (key.track == EventTrack::kCoordinator && key.subject != kAll)) {
        out_->gone.push_back(key);
      }
    }
  }

  const MembersSeen& seen_;
  const ToldStates& told_;
  Judgement* const out_;
  std::set<std::string> names_;
  std::vector<std::string> in_sync_;
};

}  // namespace

void JudgeMembers(const std::optional<MembersSeen>& seen, const ToldStates& told, Judgement* out) {
  if (seen) return JudgingMembers(*seen, told, out).Run();
  for (const auto& [key, state] : told) {
    if (key.track >= EventTrack::kMetaMember && key.track <= EventTrack::kCoordinator) out->gone.push_back(key);
  }
}

}  // namespace stria
