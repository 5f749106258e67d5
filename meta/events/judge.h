// What is so in the cluster, subject by subject, in the words that people are told: pure.
//
// A track is one thing that can be well or not of a subject ("is node n3 there", "how full is disk n3:d2"). Its level says how bad it is:
// 0 is well. An event is told when a level changes (event_teller.h).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/admin_api.h"
#include "api/cluster_api.h"
#include "common/units.h"
#include "meta/core/members_seen.h"
#include "meta/store/room.h"

namespace stria {

// The numbers are in the store.
enum class EventTrack : uint8_t {
  kNodeMember = 1,   // it is of the cluster
  kDiskMember = 2,
  kNode = 3,         // it is heard
  kDisk = 4,         // it is usable
  kRedundancy = 5,   // of what is stored
  kWriting = 6,      // the form of new stripes
  kBackup = 7,       // of the metadata
  kDiskRoom = 8,     // of a disk, and of all of them together
  kMetaRoom = 9,     // on the metadata's own disk
  kCertificate = 10,
  kClock = 11,       // of a node
  kVersion = 12,     // of a node's program
  kScrub = 13,       // of a disk
  kSmart = 14,       // of a disk
  kMetaMember = 15,  // it is one of the metadata servers
  kMetaPrimary = 16, // it serves
  kMetaCopy = 17,    // it has everything that is durable
  kCoordinator = 18, // is reached: by a metadata server, or by any ("coordinator")
};
inline constexpr uint8_t kEventTracks = 18;

struct EventKey {
  EventTrack track = EventTrack::kNode;
  std::string subject;
  auto operator<=>(const EventKey&) const = default;
};

// What was told last.
struct ToldState {
  uint8_t level = 0;
  uint64_t seq = 0;  // of the event that told it; 0: none did
  bool operator==(const ToldState&) const = default;
};
using ToldStates = std::map<EventKey, ToldState>;

// What nodes say of themselves with each heartbeat, and the metadata server does not keep.
struct NodeFacts {
  int64_t ahead_ns = 0;  // its clock, of this server's
  bool has_clock = false;
  std::string version;   // "": it does not say
};

struct CertificateEnd {
  std::string whose;  // "client wn7"
  int64_t not_after_s = 0;
};

struct ClusterSeen {
  ClusterMap map;
  std::map<TargetId, std::string> emptied;  // disks that are emptied although no admin asked for it: why
  uint64_t degraded_stripes = 0;
  uint64_t lost_stripes = 0;
  uint64_t thin_stripes = 0;
  std::vector<LayoutRoom> layouts;  // in use; new stripes of them are not as they ask
  BackupState backup;
  std::vector<ScrubProgress> scrubs;
  RoomLevel room = RoomLevel::kPlenty;  // of the metadata's disk
  std::vector<Advice> room_told;
  std::vector<CertificateEnd> certificates;  // that end soon
  std::map<NodeId, NodeFacts> facts;
  std::string version;  // of this server; "": it does not matter
  std::optional<MembersSeen> members;  // none: it serves alone
  int64_t wall_ns = 0;
};

struct Judged {
  EventKey key;
  uint8_t level = 0;
  std::string kind;
  EventSeverity severity = EventSeverity::kNote;
  std::string text;
  std::string action;
  int64_t hold_ns = 0;  // it is told when it has been so for so long
  bool quiet = false;   // it is remembered, and not told
  bool alone = false;   // telling it forgets the told states of all other subjects of its track
};

struct Judgement {
  std::vector<Judged> items;   // what is well and was told to be so is left out
  std::vector<EventKey> gone;  // of what was told: the subject is not there any more
};

inline constexpr int64_t kCertificateSoonS = 14 * 24 * 3600;
inline constexpr int64_t kCertificateVerySoonS = 3 * 24 * 3600;
inline constexpr int64_t kClockOffNs = 5 * kSecond;       // told beyond it,
inline constexpr int64_t kClockRightNs = 2 * kSecond;     // well again within it
inline constexpr int64_t kBackupBehindNs = 600 * kSecond;

Judgement Judge(const ClusterSeen& seen, const ToldStates& told);

}  // namespace stria
