// Which life of the metadata server this node has heard of, so that it does nothing for a former one: an old copy of the metadata
// may still be served, and takes for garbage what was written since.
//
// A metadata server's own answer is believed. Others bring what they have heard with their requests (DataHeader::seen_term); only a
// metadata server can tell a proof from a number that was made up. So what they bring is a claim, and the node asks: the next
// request to a metadata server has it. One of a former life ends by it, and its answer is none. One that answers says that the claim
// is false: who made it is not listened to any more. As long as there is a claim that the server was not asked of, its answers do not
// count. What a disk has kept is a claim, too: it may have been of another machine, and its bytes prove nothing. Pure. For the
// executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "api/types.h"
#include "trust/identity.h"

namespace stria {

inline constexpr size_t kMaxTermClaims = 16;     // that wait to be asked of
inline constexpr size_t kMaxTermLiars = 4096;    // that are remembered

class HeardTerms {
 public:
  // What a restart must not forget. Before a metadata server has answered (known.term == 0) the disks have more than this.
  struct Kept {
    SaidTerm known;    // of a metadata server
    SaidTerm claimed;  // the highest claim; 0: there is none above it
    bool operator==(const Kept&) const = default;
  };
  // What was kept on one of the disks, as claims. May be called again. What has no proof is forgotten: no server could tell it from
  // a number that was made up.
  void Load(const Kept& kept);
  Kept ToKeep() const;

  const SaidTerm& known() const { return known_; }
  uint64_t Highest() const;  // known or claimed
  bool HasClaims() const { return !claims_.empty(); }
  // A metadata server has said so.
  void Learn(const SaidTerm& said);
  // Somebody else has (null: nobody proved who it is). False: there are too many claims now; the request cannot be taken.
  bool Claim(const Peer* by, const SaidTerm& said);
  void OnClaim(std::function<void()> told) { on_claim_ = std::move(told); }

  // ---- Asking a metadata server
  struct Asked {
    SaidTerm said;
    std::string by;
  };
  Asked ToAsk() const;
  // It has answered without an error a request that had `asked`. `term`: its own; 0: the answer does not say. Ok: the answer
  // counts. kNotLeader: it is of a former life. kRetryLater: it has to be asked again.
  Error Answered(const Asked& asked, uint64_t term);

 private:
  static std::string NameOf(const Peer* by);
  bool IsClaimed(const SaidTerm& said) const;
  void Settle();

  SaidTerm known_;
  std::vector<Asked> claims_;  // above known_, one of each peer
  std::set<std::string> liars_;
  std::function<void()> on_claim_ = [] {};
};

}  // namespace stria
