// Which session may have cached which attributes, data, directory entries and listings. A change is pushed to those sessions,
// and answered only when they have processed it. Bounded: a new entry evicts the oldest, whose sessions are told to forget
// them. A pure state machine. Not thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/ids.h"

namespace stria {

inline constexpr size_t kMaxInterests = 512 * 1024;  // (thing, session) pairs

class InterestTable {
 public:
  // An event to push, and its session; `event.seq` is not set.
  struct Notice {
    SessionId session;
    SessionEvent event;
  };

  explicit InterestTable(size_t max_interests = kMaxInterests) : max_(max_interests) {}

  // The session may cache from now on. Notices of evictions, if any, are appended to `evicted`: push
  // them, and let no mutation be answered before they are processed.
  void NoteAttr(SessionId s, InodeId ino, std::vector<Notice>* evicted);
  void NoteData(SessionId s, InodeId ino, std::vector<Notice>* evicted);
  void NoteEntry(SessionId s, InodeId parent, const std::string& name, std::vector<Notice>* evicted);
  void NoteListing(SessionId s, InodeId parent, std::vector<Notice>* evicted);

  // The change happened: returns the sessions that must forget. Their interest ends. A session equal to `except` is left alone
  // and keeps its interest (it learns of the change from its reply).
  std::vector<Notice> AttrChanged(InodeId ino, SessionId except);
  std::vector<Notice> DataChanged(InodeId ino, SessionId except);  // covers attributes
  std::vector<Notice> EntryChanged(InodeId parent, const std::string& name, SessionId except);

  // Whether a session other than `s` may know names of the directory, or that there are none.
  bool OthersKnowNames(InodeId dir, SessionId s) const;

  void Drop(SessionId s);
  size_t size() const { return lru_.size(); }

 private:
  enum class What : uint8_t { kData = 1, kAttr = 2, kListing = 3, kEntry = 4 };
  struct Key {
    InodeId ino;
    What what = What::kAttr;
    std::string name;
    SessionId session;
    auto operator<=>(const Key&) const = default;
  };
  static bool OfNames(What w) { return w == What::kListing || w == What::kEntry; }
  void Note(Key key, std::vector<Notice>* evicted);
  void Collect(InodeId ino, What what, const std::string& name, SessionId except, std::vector<Notice>* out);
  static SessionEvent EventFor(const Key& key);

  using Map = std::map<Key, std::list<const Key*>::iterator>;
  void Erase(Map::iterator it);

  const size_t max_;
  Map map_;
  std::list<const Key*> lru_;  // oldest first; points to keys of map_
  std::map<std::pair<InodeId, SessionId>, size_t> names_;  // how many listings and entries
};

}  // namespace stria
