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
  lru_.erase(it->second);
  map_.erase(it);
}

void InterestTable::Note(Key key, std::vector<Notice>* evicted) {
  auto [it, fresh] = map_.try_emplace(std::move(key));
  if (!fresh) {
    lru_.splice(lru_.end(), lru_, it->second);
    return;
  }
  it->second = lru_.insert(lru_.end(), &it->first);
  if (OfNames(it->first.what)) ++names_[{it->first.ino, it->first.session}];
  while (map_.size() > max_) {
    auto oldest = map_.find(*lru_.front());
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
