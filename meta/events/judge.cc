#include "meta/events/judge.h"

#include <algorithm>

#include "common/printable.h"
#include "common/quantity.h"
#include "meta/events/judge_members.h"

namespace stria {
namespace {

constexpr char kCluster[] = "cluster";
constexpr uint64_t kFillingPercent = 80, kFullPercent = 95, kMarginPercent = 2;
constexpr int64_t kSuspectHoldNs = 5 * kSecond;
constexpr int64_t kStripesHoldNs = 3 * kSecond;
constexpr int64_t kWritingHoldNs = 10 * kSecond;
constexpr int64_t kRoomHoldNs = 10 * kSecond;
constexpr int64_t kClockHoldNs = 30 * kSecond;
constexpr int64_t kVersionHoldNs = 600 * kSecond;  // an upgrade, one node after the other

std::string CountOf(uint64_t n, const char* one, const char* many) { return std::to_string(n) + " " + (n == 1 ? one : many); }

std::string InDays(int64_t seconds) {
  if (seconds < 0) return "is over";
  return seconds >= 2 * 24 * 3600 ? "ends in " + std::to_string(seconds / (24 * 3600)) + " days" : "ends in " + std::to_string(seconds / 3600) + " h";
}

// One pass over what is seen.
class Judging {
 public:
  Judging(const ClusterSeen& seen, const ToldStates& told) : seen_(seen), told_(told) {}

  Judgement Run() {
    for (const NodeInfo& n : seen_.map.nodes) nodes_.insert(n.name);
    std::map<NodeId, const NodeInfo*> by_id;
    for (const NodeInfo& n : seen_.map.nodes) by_id[n.id] = &n;
    for (const TargetInfo& t : seen_.map.targets) {
      const auto node = by_id.find(t.node);
      if (node == by_id.end()) continue;
      names_[t.id] = node->second->name + ":" + t.label;
      if (t.state == TargetState::kRemoved) continue;
      disks_.insert(names_[t.id]);
      ++disks_of_[t.node];
    }
    for (const NodeInfo& n : seen_.map.nodes) OfNode(n);
    const uint8_t all = OfAllRoom();
    for (const TargetInfo& t : seen_.map.targets) {
      if (t.state != TargetState::kRemoved && names_.contains(t.id)) OfDisk(t, all);
    }
    OfScrubs();
    OfStripes();
    OfWriting();
    OfBackup();
    OfMetaRoom();
    OfCertificates();
    JudgeMembers(seen_.members, told_, &out_);
    OfGone();
    return std::move(out_);
  }

 private:
  uint8_t ToldLevel(EventTrack track, const std::string& subject) const {
    const auto it = told_.find({track, subject});
    return it == told_.end() ? 0 : it->second.level;
  }
  // What is well, and was never told to be otherwise, costs no words: null.
  Judged* Add(EventTrack track, const std::string& subject, uint8_t level) {
    if (level == 0 && ToldLevel(track, subject) == 0 && !IsWatched(track, subject)) return nullptr;
    out_.items.push_back({{track, subject}, level, "", EventSeverity::kNote, "", "", 0, false});
    return &out_.items.back();
  }
  bool IsWatched(EventTrack track, const std::string& subject) const { return told_.contains({track, subject}); }

  void OfNode(const NodeInfo& n) {
    if (Judged* j = Add(EventTrack::kNodeMember, n.name, 1)) {
      if (!IsWatched(EventTrack::kNodeMember, n.name)) {
        j->kind = "node-joined";
        j->text = "Node " + n.name + " has joined with " + CountOf(disks_of_[n.id], "disk.", "disks.");
      }
    }
    const uint8_t level = n.state == NodeState::kUp ? 0 : n.state == NodeState::kSuspect ? 1 : n.state == NodeState::kDown ? 2 : 3;
    if (Judged* j = Add(EventTrack::kNode, n.name, level)) {
      switch (n.state) {
        case NodeState::kUp:
          *j = Said(*j, "node-up", EventSeverity::kNote, "Node " + n.name + " is up again.");
          break;
        case NodeState::kSuspect:
          *j = Said(*j, "node-suspect", EventSeverity::kNote, "Node " + n.name + " has not been heard from for some seconds.",
                    "Nothing yet: it comes back, or counts as down soon.", kSuspectHoldNs);
          break;
        case NodeState::kDown:
          *j = Said(*j, "node-down", EventSeverity::kWarning, "Node " + n.name + " is down; its data is read through redundancy.",
                    "Start stria-data on " + n.name + " again, or give its place to another node:  stria node replace " + n.name + " NEW");
          break;
        case NodeState::kOut:
          *j = Said(*j, "node-out", EventSeverity::kWarning, "Node " + n.name + " is out; its data is made again elsewhere.",
                    "Watch it:  stria rebuild watch   Then forget the node:  stria node remove " + n.name);
          break;
      }
    }
    const auto facts = seen_.facts.find(n.id);
    if (facts == seen_.facts.end() || n.state != NodeState::kUp) return;
    OfClock(n, facts->second);
    OfVersion(n, facts->second);
  }

  void OfClock(const NodeInfo& n, const NodeFacts& f) {
    if (!f.has_clock) return;
    const int64_t off = f.ahead_ns < 0 ? -f.ahead_ns : f.ahead_ns;
    const bool was = ToldLevel(EventTrack::kClock, n.name) > 0;
    Judged* j = Add(EventTrack::kClock, n.name, off > (was ? kClockRightNs : kClockOffNs) ? 1 : 0);
    if (j == nullptr) return;
    if (j->level == 0) {
      *j = Said(*j, "clock-right", EventSeverity::kNote, "The clock of node " + n.name + " is right again.", "", kClockHoldNs);
    } else {
      *j = Said(*j, "clock-off", EventSeverity::kWarning,
                "The clock of node " + n.name + " is " + FormatDuration(off / kSecond * kSecond) + (f.ahead_ns > 0 ? " ahead of" : " behind") +
                    " that of the metadata server.",
                "Have both follow time servers (chrony or systemd-timesyncd):  timedatectl", kClockHoldNs);
    }
  }

  void OfVersion(const NodeInfo& n, const NodeFacts& f) {
    if (f.version.empty() || seen_.version.empty()) return;
    Judged* j = Add(EventTrack::kVersion, n.name, f.version != seen_.version ? 1 : 0);
    if (j == nullptr) return;
    if (j->level == 0) {
      *j = Said(*j, "version-same", EventSeverity::kNote, "Node " + n.name + " runs the version of the metadata server.");
    } else {
      *j = Said(*j, "version-mixed", EventSeverity::kWarning,
                "Node " + n.name + " runs stria-data " + Printable(f.version) + ", the metadata server is " + Printable(seen_.version) + ".",
                "Install the same version on all machines, and start the servers again.", kVersionHoldNs);
    }
  }

  void OfDisk(const TargetInfo& t, uint8_t all_room) {
    const std::string& name = names_.at(t.id);
    if (Judged* j = Add(EventTrack::kDiskMember, name, 1)) JoinedDisk(t, name, j);
    const auto emptied = seen_.emptied.find(t.id);
    const std::string why = t.problem.empty() ? "" : " Its node says: " + Printable(t.problem) + ".";
    const bool failed = t.state == TargetState::kFailed || t.state == TargetState::kOut;
    const uint8_t level = failed ? 3 : emptied != seen_.emptied.end() ? 2 : t.state == TargetState::kUp && !t.problem.empty() ? 1 : t.state == TargetState::kUp ? 0 : ToldLevel(EventTrack::kDisk, name);
    if (Judged* j = Add(EventTrack::kDisk, name, level)) {
      if (level == 0) {
        *j = Said(*j, "disk-up", EventSeverity::kNote, "Disk " + name + " is used again.");
      } else if (level == 1) {
        *j = Said(*j, "disk-absent", EventSeverity::kWarning, "Disk " + name + " is absent." + why,
                  "If it does not come back by itself, see to it on its node; it counts as failed after the grace period.");
      } else if (level == 2) {
        *j = Said(*j, "disk-emptied", EventSeverity::kWarning, "Disk " + name + " is being emptied: " + Printable(emptied->second) + ".",
                  "Watch it:  stria rebuild watch   Then take it out:  stria disk remove " + name);
      } else if (t.state == TargetState::kOut) {
        *j = Said(*j, "disk-out", EventSeverity::kWarning, "Disk " + name + " is out; its data is made again elsewhere." + why,
                  "Put a new disk in its place, and it is used by itself. Forget the old one:  stria disk remove " + name);
      } else if (t.given_up) {
        *j = Said(*j, "disk-failed", EventSeverity::kWarning, "Disk " + name + " has been away too long and is made again elsewhere." + why,
                  "Bring it back, and it is used again; or forget it when it is empty:  stria disk remove " + name);
      } else {
        *j = Said(*j, "disk-failed", EventSeverity::kWarning, "Disk " + name + " has failed; its data is made again elsewhere." + why,
                  "Put in a new disk: in the very place of the old one it is used after  stria disk out " + name +
                      "   elsewhere after  stria disk replace " + name + " NEW");
      }
    }
    OfSmart(t, name);
    const uint8_t room = t.state == TargetState::kUp && t.problem.empty() ? RoomLevelOf(name, t.free_bytes, t.capacity_bytes) : ToldLevel(EventTrack::kDiskRoom, name);
    // If all are as full, that is told once.
    OfRoom(name, "Disk " + name, room > all_room ? room : std::min(room, ToldLevel(EventTrack::kDiskRoom, name)), t.free_bytes, t.capacity_bytes,
           "Spread the data:  stria rebalance start   Or delete files, or add disks.");
  }

  void JoinedDisk(const TargetInfo& t, const std::string& name, Judged* j) {
    if (IsWatched(EventTrack::kDiskMember, name)) return;
    j->quiet = !IsWatched(EventTrack::kNodeMember, NodeOf(name));  // told with its node
    const auto old = std::ranges::find_if(seen_.map.targets, [&](const TargetInfo& o) {
      return o.node == t.node && o.id != t.id && names_.contains(o.id) && (o.state == TargetState::kFailed || o.state == TargetState::kOut);
    });
    if (old == seen_.map.targets.end()) {
      *j = Said(*j, "disk-joined", EventSeverity::kNote, "Disk " + name + " has joined.");
    } else {
      const std::string gone = names_.at(old->id);
      *j = Said(*j, "disk-replaced", EventSeverity::kNote, "Disk " + name + " has joined in place of " + gone + ".",
                "When " + gone + " is empty, forget it:  stria disk remove " + gone);
    }
  }

  void OfSmart(const TargetInfo& t, const std::string& name) {
    const DiskSmart& s = t.smart;
    if (s.device.empty() || s.health == SmartHealth::kUnknown) return;
    Judged* j = Add(EventTrack::kSmart, name, s.health == SmartHealth::kFailing ? 1 : 0);
    if (j == nullptr) return;
    const std::string what = "Disk " + name + " (" + Printable(s.model) + ", serial " + Printable(s.serial) + ", " + Printable(s.device) + ")";
    if (j->level == 0) {
      *j = Said(*j, "disk-healthy", EventSeverity::kNote, what + " does not predict its failure any more.");
    } else {
      *j = Said(*j, "disk-failing", EventSeverity::kWarning,
                what + " predicts its own failure" + (s.problem.empty() ? "." : ": " + Printable(s.problem) + "."),
                t.state == TargetState::kUp ? "Empty it while it can be read:  stria disk drain " + name : "Take it out when it is empty.");
    }
  }

  uint8_t RoomLevelOf(const std::string& subject, uint64_t free, uint64_t capacity) const {
    const uint8_t was = ToldLevel(EventTrack::kDiskRoom, subject);
    if (capacity == 0) return was;
    const uint64_t used = 100 - std::min(free, capacity) / (capacity / 100 + 1);
    if (used >= kFullPercent - (was >= 2 ? kMarginPercent : 0)) return 2;
    return used >= kFillingPercent - (was >= 1 ? kMarginPercent : 0) ? 1 : 0;
  }
  void OfRoom(const std::string& subject, const std::string& what, uint8_t level, uint64_t free, uint64_t capacity, const std::string& todo) {
    Judged* j = Add(EventTrack::kDiskRoom, subject, level);
    if (j == nullptr) return;
    const std::string left = ": " + FormatSize(free) + " of " + FormatSize(capacity) + " are free.";
    if (level == 0) {
      *j = Said(*j, "disk-room", EventSeverity::kNote, what + " has room again" + left, "", kRoomHoldNs);
    } else {
      const bool full = level == 2 && subject == kCluster;
      *j = Said(*j, level == 2 ? "disk-full" : "disk-filling", full ? EventSeverity::kCritical : EventSeverity::kWarning,
                what + " is more than " + std::to_string(level == 2 ? kFullPercent : kFillingPercent) + " % full" + left, todo, kRoomHoldNs);
    }
  }
  uint8_t OfAllRoom() {
    uint64_t free = 0, capacity = 0;
    for (const TargetInfo& t : seen_.map.targets) {
      if (t.state != TargetState::kUp || !t.problem.empty()) continue;
      free += t.free_bytes;
      capacity += t.capacity_bytes;
    }
    const uint8_t level = RoomLevelOf(kCluster, free, capacity);
    OfRoom(kCluster, "The filesystem", level, free, capacity, "Delete files or add a node with disks.");
    return level;
  }

  // A disk that was not reported since this server's start says nothing.
  void OfScrubs() {
    for (const ScrubProgress& p : seen_.scrubs) {
      const auto known = names_.find(p.target);
      if (known == names_.end() || !disks_.contains(known->second)) continue;
      const std::string& name = known->second;
      Judged* j = Add(EventTrack::kScrub, name, p.damaged > 0 || !p.unfit.empty() ? 1 : 0);
      if (j == nullptr) continue;
      if (j->level == 0) {
        j->quiet = true;  // the next pass has begun, and finds nothing so far
        continue;
      }
      std::string what = "The scrub of disk " + name + " has found ";
      if (p.damaged > 0) what += CountOf(p.damaged, "damaged shard, which is made again", "damaged shards, which are made again");
      if (!p.unfit.empty()) what += (p.damaged > 0 ? " and " : "") + CountOf(p.unfit.size(), "stripe", "stripes") + " whose parity does not fit";
      *j = Said(*j, "scrub-errors", EventSeverity::kWarning, what + ".",
                p.unfit.empty() ? "If it goes on, empty the disk:  stria disk drain " + name : "See which files:  stria scrub status");
    }
  }

  void OfStripes() {
    const uint8_t level = seen_.lost_stripes > 0 ? 2 : seen_.degraded_stripes > 0 ? 1 : 0;
    Judged* j = Add(EventTrack::kRedundancy, kCluster, level);
    if (j == nullptr) return;
    if (level == 2) {
      *j = Said(*j, "at-risk", EventSeverity::kCritical,
                CountOf(seen_.lost_stripes, "stripe", "stripes") + " cannot be read: more of their columns are away than their layout can stand.",
                "Bring back the nodes and disks that are down; do not remove any of them.", kStripesHoldNs);
    } else if (level == 1) {
      *j = Said(*j, "degraded", EventSeverity::kWarning,
                CountOf(seen_.degraded_stripes, "stripe misses", "stripes miss") + " a column and can stand fewer failures than their layout asks for.",
                "Bring back what is down. What stays away is made again elsewhere:  stria rebuild watch", kStripesHoldNs);
    } else {
      *j = Said(*j, "rebuilt", EventSeverity::kNote, "All stripes have all of their columns again.", "", kStripesHoldNs);
    }
  }

  void OfWriting() {
    const LayoutRoom* worst = nullptr;
    const auto rank = [](const LayoutRoom& r) { return r.none ? 3 : r.thin ? 2 : r.whole() ? 0 : 1; };
    for (const LayoutRoom& r : seen_.layouts) {
      if (rank(r) > (worst == nullptr ? 0 : rank(*worst))) worst = &r;
    }
    const bool thin = seen_.thin_stripes > 0;
    const uint8_t level = (worst != nullptr && rank(*worst) >= 2) || thin ? 2 : worst != nullptr ? 1 : 0;
    Judged* j = Add(EventTrack::kWriting, kCluster, level);
    if (j == nullptr) return;
    const std::string todo = "Bring back nodes and disks that are down, or add a node or disk.";
    if (level == 0) {
      *j = Said(*j, "writing-whole", EventSeverity::kNote, "New stripes are as their layouts ask for.", "", kWritingHoldNs);
      return;
    }
    std::string what;
    if (worst == nullptr) {
      what = CountOf(seen_.thin_stripes, "stripe has", "stripes have") + " fewer copies than their layout asks for, which it allows (min=)";
    } else if (worst->none) {
      what = "Nothing can be written with layout " + worst->layout;
    } else {
      what = "New stripes of layout " + worst->layout + " are " + worst->stripes;
      if (worst->crowded) what += ", crowded onto disks that fail together";
      if (worst->thin) what += ", fewer than the layout asks for";
    }
    if (worst != nullptr && !worst->until.empty()) what += " until " + worst->until;
    *j = Said(*j, level == 2 ? "writing-at-risk" : worst->crowded ? "writing-crowded" : "writing-narrow",
              level == 2 ? EventSeverity::kCritical : EventSeverity::kWarning, what + ".", todo, kWritingHoldNs);
  }

  void OfBackup() {
    const BackupState& b = seen_.backup;
    if (!b.on) return;
    Judged* j = Add(EventTrack::kBackup, "metadata", b.behind_ns > kBackupBehindNs ? 1 : 0);
    if (j == nullptr) return;
    if (j->level == 0) {
      *j = Said(*j, "backup-current", EventSeverity::kNote, "The backup of the metadata is up to date again.");
    } else {
      *j = Said(*j, "backup-behind", EventSeverity::kWarning,
                "The backup of the metadata is " + FormatDuration(b.behind_ns / kSecond * kSecond) + " behind." +
                    (b.problem.empty() ? "" : " Its problem: " + Printable(b.problem) + "."),
                "See to it that two data servers are up and have room.");
    }
  }

  void OfMetaRoom() {
    const uint8_t level = seen_.room == RoomLevel::kPlenty ? 0 : seen_.room == RoomLevel::kScarce ? 1 : 2;
    Judged* j = Add(EventTrack::kMetaRoom, "metadata", level);
    if (j == nullptr) return;
    if (level == 0) {
      *j = Said(*j, "meta-disk-room", EventSeverity::kNote, "The metadata's disk has room again.", "", kRoomHoldNs);
      return;
    }
    const std::string text = seen_.room_told.empty() ? "The metadata's disk is filling." : Printable(seen_.room_told[0].what);
    *j = Said(*j, level == 2 ? "meta-disk-full" : "meta-disk-filling", level == 2 ? EventSeverity::kCritical : EventSeverity::kWarning, text,
              seen_.room_told.empty() ? "Make room there." : seen_.room_told[0].action);
  }

  void OfCertificates() {
    for (const CertificateEnd& c : seen_.certificates) {
      const int64_t left = c.not_after_s - seen_.wall_ns / kSecond;
      if (left > kCertificateSoonS) continue;
      certificates_.insert(c.whose);
      Judged* j = Add(EventTrack::kCertificate, c.whose, left <= kCertificateVerySoonS ? 2 : 1);
      *j = Said(*j, "certificate-expiring", EventSeverity::kWarning, "The certificate of " + Printable(c.whose) + " " + InDays(left) + ".",
                "Its machine renews it by itself if it runs and reaches the metadata server; else let it join again (stria token make), or revoke "
                "what is not used any more:  stria cert ls");
    }
  }

  void OfGone() {
    for (const auto& [key, state] : told_) {
      switch (key.track) {
        case EventTrack::kNodeMember:
          if (nodes_.contains(key.subject)) break;
          if (Judged* j = Add(key.track, key.subject, 0)) {
            *j = Said(*j, "node-removed", EventSeverity::kNote, "Node " + key.subject + " has left the cluster.");
          }
          break;
        case EventTrack::kDiskMember:
          if (disks_.contains(key.subject)) break;
          if (Judged* j = Add(key.track, key.subject, 0)) {
            *j = Said(*j, "disk-removed", EventSeverity::kNote, "Disk " + key.subject + " has left the cluster.");
            j->quiet = !nodes_.contains(NodeOf(key.subject));  // told with its node
          }
          break;
        case EventTrack::kNode:
        case EventTrack::kClock:
        case EventTrack::kVersion:
          if (!nodes_.contains(key.subject)) out_.gone.push_back(key);
          break;
        case EventTrack::kDisk:
        case EventTrack::kScrub:
        case EventTrack::kSmart:
        case EventTrack::kDiskRoom:
          if (key.subject != kCluster && !disks_.contains(key.subject)) out_.gone.push_back(key);
          break;
        case EventTrack::kCertificate:
          if (!certificates_.contains(key.subject)) out_.gone.push_back(key);  // renewed, revoked, or over
          break;
        case EventTrack::kRedundancy:
        case EventTrack::kWriting:
        case EventTrack::kBackup:
        case EventTrack::kMetaRoom:
        case EventTrack::kMetaMember:  // JudgeMembers'
        case EventTrack::kMetaPrimary:
        case EventTrack::kMetaCopy:
        case EventTrack::kCoordinator:
          break;
      }
    }
  }

  static std::string NodeOf(const std::string& disk) { return disk.substr(0, disk.find(':')); }
  static Judged Said(Judged j, const char* kind, EventSeverity severity, std::string text, std::string action = "", int64_t hold_ns = 0) {
    j.kind = kind;
    j.severity = severity;
    j.text = std::move(text);
    j.action = std::move(action);
    j.hold_ns = hold_ns;
    return j;
  }

  const ClusterSeen& seen_;
  const ToldStates& told_;
  std::set<std::string> nodes_;
  std::map<TargetId, std::string> names_;  // removed ones, too
  std::map<NodeId, uint64_t> disks_of_;
  std::set<std::string> disks_, certificates_;
  Judgement out_;
};

}  // namespace

Judgement Judge(const ClusterSeen& seen, const ToldStates& told) { return Judging(seen, told).Run(); }

}  // namespace stria
