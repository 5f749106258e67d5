// Owners of sessions that have lapsed because they did not answer while they renewed their leases. Once, that is a client in need:
// a slow disk, a stopped process. One that comes back and is silent again may do that to hold others, so each time it gets less:
// its questions are to be answered within its lease, and it comes back later.
//
// Invariants: who was silent once may come back at once. From the second time on it waits for a lease, then for twice as long each
// time, at most kMostAwayNs: it may be in need still, and its programs wait meanwhile. Who is not silent for kForgottenNs is as
// everybody.
//
// A pure state machine; bounded. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "common/ids.h"
#include "common/units.h"
#include "meta/session/session_owner.h"

namespace stria {

class SilentOwners {
 public:
  static constexpr int64_t kForgottenNs = 600 * kSecond;
  static constexpr int64_t kMostAwayNs = 60 * kSecond;
  static constexpr size_t kMaxOwners = 4096;  // beyond that the one that was silent longest ago is forgotten

  // An owner without proof is one of this session only.
  static std::string KeyOf(const SessionOwner& owner, SessionId s) {
    return owner.name.empty() ? "session " + std::to_string(s.v) : "owner " + owner.name;
  }

  void Note(const std::string& key, int64_t lease_ns, int64_t now_ns) {
    std::erase_if(owners_, [&](const auto& o) { return IsOver(o.second, now_ns); });
    if (owners_.size() >= kMaxOwners && !owners_.contains(key)) {
      owners_.erase(std::min_element(owners_.begin(), owners_.end(), [](const auto& a, const auto& b) { return a.second.at_ns < b.second.at_ns; }));
    }
    Silent& o = owners_[key];
    o.at_ns = now_ns;
    o.away_ns = ++o.times == 1 ? 0 : std::min(std::max(2 * o.away_ns, lease_ns), kMostAwayNs);
  }
  bool Has(const std::string& key, int64_t now_ns) const {
    const auto it = owners_.find(key);
    return it != owners_.end() && !IsOver(it->second, now_ns);
  }
  // Its sessions open and come back from then on.
  int64_t OpensAt(const std::string& key) const {
    const auto it = owners_.find(key);
    return it == owners_.end() ? INT64_MIN / 2 : it->second.at_ns + it->second.away_ns;
  }
  size_t size() const { return owners_.size(); }

 private:
  struct Silent {
    int64_t at_ns = 0;    // the last time
    uint64_t times = 0;
    int64_t away_ns = 0;  // that it has to stay away since then
  };
  static bool IsOver(const Silent& o, int64_t now_ns) { return now_ns - o.at_ns >= o.away_ns + kForgottenNs; }

  std::map<std::string, Silent> owners_;
};

}  // namespace stria
