// Notices of changes: what each session may have cached, and that no change is answered before those who cached what it changes
// have acknowledged that they forgot it, or hold nothing any more. Invalidation with acknowledgements, in other words.
//
// Owns: interests (meta/session/interest_table.h), changes that were told and perhaps not acknowledged yet ("untold"), what sessions
// were told to forget to make room and perhaps have not ("evicted"), and the list of what waits for whom.
//
// Invariants: no answer about a name, attributes or bytes overtakes what was announced of them (WaitTold): who hears of a change
// from us never finds afterwards, in somebody's cache, that it has not happened. A change waits also for those who may have what
// it changes although it was evicted, and for no other evictions: who makes room has to do with nobody else's changes.
//
// Called by Grants, Coherence, AdminCalls and handlers of files; through MetaServer by the keepers and the cleaner.
// Sees sessions and the core.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/task.h"
#include "meta/coherence/sessions.h"
#include "meta/coherence/waits.h"
#include "meta/core/meta_core.h"
#include "meta/ops/op_ctx.h"
#include "meta/session/interest_table.h"

namespace stria {

class Notices {
 public:
  // Sessions that have the inode open.
  using Holders = std::function<std::vector<SessionId>(InodeId)>;
  Notices(MetaCore* core, Sessions* sessions, size_t max_interests, int64_t answer_timeout_ns, Holders holders);

  // ---- What sessions may cache ----
  // What `s` may cache from now on: it is told of changes. What is to be forgotten for that is pushed when this ends; do
  // not await meanwhile. No change of that is answered before it is acknowledged.
  class Caching {
   public:
    Caching(Notices* notices, SessionId s) : notices_(notices), s_(s) {}
    Caching(const Caching&) = delete;
    Caching& operator=(const Caching&) = delete;
    ~Caching() { notices_->NoteEvictions(evicted_); }
    Caching& Attr(InodeId ino) { return notices_->interests_.NoteAttr(s_, ino, &evicted_), *this; }
    Caching& Data(InodeId ino) { return notices_->interests_.NoteData(s_, ino, &evicted_), *this; }
    Caching& Listing(InodeId dir) { return notices_->interests_.NoteListing(s_, dir, &evicted_), *this; }
    Caching& Entry(InodeId dir, const std::string& name) {
      return notices_->interests_.NoteEntry(s_, dir, name, &evicted_), *this;
    }

   private:
    Notices* const notices_;
    const SessionId s_;
    std::vector<InterestTable::Notice> evicted_;
  };
  Caching MayCache(SessionId s) { return Caching(this, s); }
  // What may be cached is bounded: for what one reads somebody has to forget something, and lapses when its queue is full. So
  // `s` reads no faster than it, or who gives it room, can. To be followed by the noting without another await. Not for what a
  // kernel may need to read a page (attributes, mappings): forgetting that page waits for it.
  Task<void> WaitEvictions(SessionId s);
  // Sessions that have more than their share, and keep others waiting for room for so long.
  std::vector<SessionId> Hoarders(int64_t most_ns) const;
  bool OthersKnowNames(InodeId dir, SessionId s) const;
  void Drop(SessionId s);  // it holds nothing any more

  // ---- Changes ----
  // Tells everybody but `from` what changed, and `from` what its reply does not cover; waits for the others.
  Task<void> Announce(SessionId from, const Touched& touched, std::vector<InodeId> covered);
  // All but `except` are to forget what they cache of it; WaitTold waits until they have.
  void TellAndNote(InodeId ino, SessionId except);
  // The same, and nobody waits for it.
  void TellData(InodeId ino, SessionId except) { Push(interests_.DataChanged(ino, except), nullptr); }
  void TellTrimmed(const Touched& touched);  // its allocated bytes are fewer
  // The file has lost its last name: sessions that keep it for a next open, or will, are to give it back.
  void TellOrphaned(const Touched& touched);

  // ---- Whether it was told ----
  // Of changes of names in `dir`.
  Task<void> WaitTold(InodeId dir) { return WaitTold(&untold_, dir, SessionId(), WaitList::For::kQuestion); }
  // Of changes of the inode's attributes or bytes; `asks` does not wait for itself. Who is to change them, or to have them for
  // itself (kChange, kOpen), waits also for those who were to forget them to make room.
  Task<void> WaitToldOf(InodeId ino, SessionId asks, WaitList::For why = WaitList::For::kQuestion);
  bool IsUntold(SessionId s, InodeId ino) const;        // `s` has perhaps not forgotten what it cached of it
  bool IsUntoldToOthers(SessionId s, InodeId ino) const;
  bool HasUntold(InodeId ino) const { return untold_attrs_.contains(ino); }
  bool HasUntoldNames(InodeId dir) const;
  bool NotesNamesOf(InodeId dir) const { return untold_.contains(dir); }  // the same, or had until a moment ago

  WaitList& waits() { return waits_; }
  const WaitList& waits() const { return waits_; }

 private:
  using Untold = std::map<SessionId, uint64_t>;  // newest event
  using Acks = std::vector<std::pair<SessionId, uint64_t>>;
  // Appends to `acks` (may be null) what to wait for.
  void Push(const std::vector<InterestTable::Notice>& notices, Acks* acks);
  void NoteEvictions(const std::vector<InterestTable::Notice>& evicted);
  void ForgetEvictions(SessionId s, uint64_t before);  // those of events before that one
  bool IsBehind(SessionId s) const;  // it has more events to take than who reads may add to
  Task<void> WaitAcks(Acks acks, SessionId asks, InodeId ino, WaitList::For why);  // as WaitList::Wait
  Task<void> WaitTold(std::map<InodeId, Untold>* of, InodeId ino, SessionId except, WaitList::For why);

  MetaCore* const core_;
  Sessions* const sessions_;
  const int64_t answer_timeout_ns_;
  const Holders holders_;
  InterestTable interests_;
  // Names of these directories, attributes or data of these inodes have changed: newest event of that which a
  // session has perhaps not acknowledged.
  std::map<InodeId, Untold> untold_, untold_attrs_;
  struct Eviction {
    uint64_t event = 0;
    InodeId ino;
    bool of_names = false;
  };
  std::map<SessionId, std::deque<Eviction>> evictions_;  // perhaps not acknowledged, oldest first
  std::map<InodeId, Untold> evicted_names_, evicted_attrs_;  // of them the newest of each
  WaitList waits_;
};

}  // namespace stria
