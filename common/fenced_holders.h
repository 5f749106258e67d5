// Holders of tokens (bound_token.h) that may not use any more what they were given up to a time: the server has ended their last
// session. The metadata server keeps the list, data servers hear of it with heartbeats and keep what they have heard.
//
// A token says when it ends, and lives as long as all of its kind: one that ends by the time given here was signed before the fence;
// what its holder is given in a new session ends later, and is good. Times are seconds, as tokens have them.
//
// Bounded: when there are too many the one that is over first goes. Pure, not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace stria {

struct FencedHolder {
  uint64_t holder = 0;         // Peer::Holder()
  int64_t writes_until_s = 0;  // of tokens to write
  int64_t others_until_s = 0;  // of tokens to do anything else
  bool operator==(const FencedHolder&) const = default;
};
inline constexpr size_t kMaxFencedHolders = 4096;

class FencedHolders {
 public:
  explicit FencedHolders(size_t max = kMaxFencedHolders) : max_(max) {}
  // Of a holder that is there already the later times count. Nothing if `f.holder` is 0.
  void Note(const FencedHolder& f);
  // Forgets those of whose tokens before the fence none can be good at `now_s`.
  void Forget(int64_t now_s);
  // Whether a token that ends then is one of before. `writes`: it gives the right to write.
  bool Has(uint64_t holder, bool writes, int64_t expiry_s) const;
  std::vector<FencedHolder> All() const;  // by holder
  bool empty() const { return fenced_.empty(); }

 private:
  const size_t max_;
  std::map<uint64_t, FencedHolder> fenced_;
};

}  // namespace stria
