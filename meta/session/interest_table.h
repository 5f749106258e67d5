// Which session may have cached which attributes, data, directory entries and listings. A change is pushed to those sessions,
// and answered only when they have processed it. A pure state machine. Not thread-safe.
//
// Bounded: when the table is full a new entry evicts an old one, whose session is told to forget it. Each owner of sessions has a
// share of the table. Who has more than that gives room first: to itself its own oldest, and to others. While nobody has more
// than its share, the oldest of all goes.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/ids.h"

namespace stria {

inline constexpr size_t kMaxInterests = 512 * 1024;  // (thing, session) pairs
inline constexpr size_t kInterestShares = 8;         // a share is this part of the table

class InterestTable {
 public:
  // An event to push, and its session; `event.seq` is not set.
  struct Notice {
    SessionId session;
    SessionEvent event;
  };

  // A number that all sessions of one owner have and no other's; 0: it is an owner by itself.
  using OwnerOf = std::function<uint64_t(SessionId)>;
  explicit InterestTable(size_t max_interests = kMaxInterests, OwnerOf owner_of = nullptr)
      : max_(max_interests), share_(std::max<size_t>(1, max_interests / kInterestShares)), owner_of_(std::move(owner_of)) {}

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
  size_t size() const { return map_.size(); }
  // Whose entry goes when `s` notes one more; 0: there is room.
  SessionId GivesRoomTo(SessionId s) const;
  bool HasMoreThanItsShare(SessionId s) const;

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

  using Lru = std::list<const Key*>;               // oldest first; points to keys of map_
  using ShareKey = std::pair<uint64_t, SessionId>;  // owner, or the session that is one
  struct Share {
    ShareKey key;
    Lru lru;
  };
  struct Place {
    Share* share = nullptr;
    Lru::iterator all, own;
  };
  using Map = std::map<Key, Place>;
  void Erase(Map::iterator it);
  ShareKey ShareOf(SessionId s) const;
  const Share* FindShare(SessionId s) const;
  // Of what the next one to go is the oldest; `asks` needs the room (null: one that has nothing).
  const Lru& Victims(const Share* asks) const;

  const size_t max_, share_;
  const OwnerOf owner_of_;
  Map map_;
  Lru lru_;
  std::map<ShareKey, Share> shares_;  // none is empty
  std::set<Share*> over_;             // that have more than a share: few
  std::map<std::pair<InodeId, SessionId>, size_t> names_;  // how many listings and entries
};

}  // namespace stria
