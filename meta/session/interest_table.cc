#include "meta/session/interest_table.h"

namespace stria {

SessionEvent InterestTable::EventFor(const Key& key) {
  SessionEvent e;
  e.ino = key.ino;
  switch (key.what) {
    case What::kAttr: e.kind = SessionEvent::Kind::kInvalidateAttr; break;
    case What::kData: e.kind = SessionEvent::Kind::kInvalidateData; break;
    case What::kListing:
    case What::kEntry:
      e.kind = SessionEvent::Kind::kInvalidateEntry;
      e.name = key.name;
      break;
  }
  return e;
}

void InterestTable::Erase(Map::iterator it) {
  if (OfNames(it->first.what)) {
    auto names = names_.find({it->first.ino, it->first.session});
    if (--names->second == 0) names_.erase(names);
  }
  Share& share = *it->second.share;
  lru_.erase(it->second.all);
  share.lru.erase(it->second.own);
  map_.erase(it);
  if (share.lru.size() <= share_) over_.erase(&share);
  if (share.lru.empty()) shares_.erase(ShareKey(share.key));
}

InterestTable::ShareKey InterestTable::ShareOf(SessionId s) const {
  const uint64_t owner = owner_of_ ? owner_of_(s) : 0;
  return owner == 0 ? ShareKey(0, s) : ShareKey(owner, SessionId());
}

const InterestTable::Share* InterestTable::FindShare(SessionId s) const {
  const auto it = shares_.find(ShareOf(s));
  return it == shares_.end() ? nullptr : &it->second;
}

const InterestTable::Lru& InterestTable::Victims(const Share* asks) const {
  if (over_.empty()) return lru_;
  return asks != nullptr && asks->lru.size() > share_ ? asks->lru : (*over_.begin())->lru;
}

SessionId InterestTable::GivesRoomTo(SessionId s) const {
  return map_.size() < max_ || map_.empty() ? SessionId() : Victims(FindShare(s)).front()->session;
}

bool InterestTable::HasMoreThanItsShare(SessionId s) const {
  const Share* const share = FindShare(s);
  return share != nullptr && share->lru.size() > share_;
}

void InterestTable::Note(Key key, std::vector<Notice>* evicted) {
  auto [it, fresh] = map_.try_emplace(std::move(key));
  Place& place = it->second;
  if (!fresh) {
    lru_.splice(lru_.end(), lru_, place.all);
    place.share->lru.splice(place.share->lru.end(), place.share->lru, place.own);
    return;
  }
  const ShareKey of = ShareOf(it->first.session);
  place.share = &shares_.try_emplace(of, Share{of, {}}).first->second;
  place.all = lru_.insert(lru_.end(), &it->first);
  place.own = place.share->lru.insert(place.share->lru.end(), &it->first);
  if (place.share->lru.size() > share_) over_.insert(place.share);
  if (OfNames(it->first.what)) ++names_[{it->first.ino, it->first.session}];
  while (map_.size() > max_) {
    auto oldest = map_.find(*Victims(place.share).front());
    evicted->push_back({oldest->first.session, EventFor(oldest->first)});
    Erase(oldest);
  }
}

void InterestTable::NoteAttr(SessionId s, InodeId ino, std::vector<Notice>* evicted) {
  Note({ino, What::kAttr, "", s}, evicted);
}
void InterestTable::NoteData(SessionId s, InodeId ino, std::vector<Notice>* evicted) {
  Note({ino, What::kData, "", s}, evicted);
}
void InterestTable::NoteEntry(SessionId s, InodeId parent, const std::string& name, std::vector<Notice>* evicted) {
  Note({parent, What::kEntry, name, s}, evicted);
}
void InterestTable::NoteListing(SessionId s, InodeId parent, std::vector<Notice>* evicted) {
  Note({parent, What::kListing, "", s}, evicted);
}

void InterestTable::Collect(InodeId ino, What what, const std::string& name, SessionId except,
                            std::vector<Notice>* out) {
  auto it = map_.lower_bound(Key{ino, what, name, SessionId()});
  while (it != map_.end() && it->first.ino == ino && it->first.what == what && it->first.name == name) {
    auto here = it++;
    if (here->first.session == except) continue;
    out->push_back({here->first.session, EventFor(here->first)});
    Erase(here);
  }
}

std::vector<InterestTable::Notice> InterestTable::AttrChanged(InodeId ino, SessionId except) {
  std::vector<Notice> out;
  Collect(ino, What::kAttr, "", except, &out);
  return out;
}

std::vector<InterestTable::Notice> InterestTable::DataChanged(InodeId ino, SessionId except) {
  std::vector<Notice> out;
  Collect(ino, What::kData, "", except, &out);
  std::vector<Notice> attrs;
  Collect(ino, What::kAttr, "", except, &attrs);
  for (Notice& n : attrs) {
    bool told = false;
    for (const Notice& o : out) told = told || o.session == n.session;
    if (!told) out.push_back(std::move(n));
  }
  return out;
}

std::vector<InterestTable::Notice> InterestTable::EntryChanged(InodeId parent, const std::string& name,
                                                               SessionId except) {
  std::vector<Notice> out;
  Collect(parent, What::kEntry, name, except, &out);
  std::vector<Notice> listings;
  Collect(parent, What::kListing, "", except, &listings);
  for (Notice& n : listings) {
    bool told = false;
    for (const Notice& o : out) told = told || o.session == n.session;
    if (told) continue;
    n.event.name = name;  // names the change; the listing is forgotten with it
    out.push_back(std::move(n));
  }
  return out;
}

bool InterestTable::OthersKnowNames(InodeId dir, SessionId s) const {
  for (auto it = names_.lower_bound({dir, SessionId()}); it != names_.end() && it->first.first == dir; ++it) {
    if (it->first.second != s) return true;
  }
  return false;
}

void InterestTable::Drop(SessionId s) {
  for (auto it = map_.begin(); it != map_.end();) {
    auto here = it++;
    if (here->first.session == s) Erase(here);
  }
}

}  // namespace stria
