// The metadata servers that a program knows of, and the one that its calls go to. Pure but for one event; executor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/units.h"

namespace stria {

inline constexpr size_t kMaxFormer = 8;
inline constexpr int64_t kTryHintAgainNs = 2 * kSecond;  // one that led nowhere, where nobody serves

class MetaPeers {
 public:
  // As they were given to the program; at least one.
  explicit MetaPeers(std::vector<std::string> given);

  // The given ones in their order, then those of members that were heard of; none twice.
  const std::vector<std::string>& addresses() const { return all_; }
  // Former members, the latest first; at most kMaxFormer. MetaLocator asks them for the primary, too: one may be a member again when
  // all members that this program knows are lost.
  const std::vector<std::string>& former() const { return former_; }
  // Both: whom MetaLocator asks.
  std::vector<std::string> asked() const;
  const std::string& current() const { return current_; }
  // The highest term that a server has answered in.
  uint64_t proved() const { return proved_; }
  // The highest that is known, hints too: of less nobody need tell.
  uint64_t known() const;

  // A call at `address` was answered by a server of this term.
  void Answered(const std::string& address, uint64_t term);
  // Nobody serves at `address`: not reached, not primary, or of a former term. Calls go to the next, unless they go elsewhere already.
  void Failed(const std::string& address);
  // A member's answer. True: calls go elsewhere from now on.
  bool Heard(const LocateReply& said);
  // Is told asked() when addresses() have changed, before calls go to any new one.
  void OnAddresses(std::function<void(const std::vector<std::string>&)> told) { told_ = std::move(told); }
  // Pulsed when current() or addresses() changed.
  Event& changed() { return changed_; }

 private:
  struct Hint {
    uint64_t term = 0;
    std::string address;
    auto operator<=>(const Hint&) const = default;
  };
  void NoteFailed(const Hint& hint);
  bool LedNowhere(const Hint& hint) const;
  void GoTo(const std::string& address);
  bool TakeMembers(const std::vector<MemberAddress>& members);

  const std::vector<std::string> given_;
  std::vector<std::string> all_, former_;
  std::string current_;
  uint64_t proved_ = 0;
  std::string proved_at_;     // the address that has answered in it
  std::optional<Hint> hint_;  // that current_ comes from
  std::map<Hint, int64_t> failed_;  // hints that led nowhere, in the proved term, and when
  std::function<void(const std::vector<std::string>&)> told_;
  Event changed_;
};

// Until calls that went to `address` should go elsewhere.
Task<bool> LeftFor(MetaPeers* peers, std::string address);

}  // namespace stria
