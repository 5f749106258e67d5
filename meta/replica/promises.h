// What a member has promised: who answers a primary's beat promises not to open as primary itself for the grace G, on its own
// clock, from when the beat arrived. A primary acts only while such promises hold (in_sync_set.h).
//
// Beats are answered by a thread of their own, so that a long step of the logic costs no failover: any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "meta/replica/register.h"

namespace stria {

enum class BeatAnswer : uint8_t {
  kPromised,    // answer it
  kLowerTerm,   // answer with term(): the sender is no primary any more
  kSilent,      // no answer at all
  kHigherTerm,  // no answer, and tell the election of the term
};

class Promises {
 public:
  // A process that has just started does not know what it promised before: as if it had promised now. Until Open it answers nothing.
  explicit Promises(int64_t now_ns);

  // A beat of `from`, which arrived at now_ns.
  BeatAnswer OnBeat(const MetaLife& from, int64_t now_ns);

  // That life answers nothing any more, and never will: it has said so itself. If the last promise was to it, that binds nobody any more,
  // true. Nor does an earlier promise: who beats has waited, or was let in, until all earlier lives were over. Whatever the last one was to,
  // none follows: a beat of that life comes late, by another connection.
  bool Over(const MetaLife& life);

  // From now on it promises to primaries of this term or a later one.
  void Open(uint64_t term);
  // From now on it promises nothing: it has asked for the primary's place, or has it. Nobody it beats to is answered after this returns.
  void Close();
  // The same if that is so at the moment, and nothing else: since nothing was promised for silent_ns, or that is over; since the last promise
  // was to `to`.
  bool CloseIfSilent(int64_t now_ns, int64_t silent_ns);
  bool CloseIfLastTo(const MetaLife& to);

  struct Given {
    int64_t at_ns = 0;           // of the last promise
    std::optional<MetaLife> to;  // none since the start
    uint64_t term = 0;           // the highest that it has promised to, or was opened with
    bool over = false;           // `to` is
  };
  Given Last() const;
  uint64_t term() const { return Last().term; }

 private:
  mutable std::mutex mu_;
  bool open_ = false;  // guarded by mu_
  Given given_;        // guarded by mu_
  std::optional<MetaLife> ended_;  // guarded by mu_: the last that has said so
};

}  // namespace stria
