#include "client/cache/entry_cache.h"

#include <algorithm>

namespace stria {
namespace {
// Never among the names of a directory.
bool IsDots(const std::string& name) { return name == "." || name == ".."; }
}  // namespace

std::optional<InodeId> EntryCache::Find(InodeId dir, const std::string& name, uint64_t generation) {
  if (generation != generation_) return std::nullopt;
  Dir* d = FindDir(dir);
  if (d == nullptr) return std::nullopt;
  auto it = d->names.find(name);
  if (it != d->names.end()) return it->second;
  if (!d->whole || IsDots(name)) return std::nullopt;
  return InodeId();
}

std::optional<InodeId> EntryCache::LastKnown(InodeId dir, const std::string& name) const {
  auto d = dirs_.find(dir);
  if (d == dirs_.end()) return std::nullopt;
  auto it = d->second.names.find(name);
  return it == d->second.names.end() ? std::nullopt : it->second;
}

bool EntryCache::IsWhole(InodeId dir, uint64_t generation) const {
  auto d = dirs_.find(dir);
  return generation == generation_ && d != dirs_.end() && d->second.whole;
}

void EntryCache::Remember(InodeId dir, const std::string& name, InodeId ino, uint64_t generation) {
  Use(generation);
  Put(Touch(dir), name, ino);
  Trim();
}

void EntryCache::MadeEmpty(InodeId dir, uint64_t generation) {
  Use(generation);
  Drop(dir);
  Touch(dir).whole = true;
  Trim();
}

void EntryCache::Listed(InodeId dir, uint64_t cookie, const std::vector<DirEntry>& entries, bool end,
                        uint64_t generation) {
  Use(generation);
  Dir& d = Touch(dir);
  for (const DirEntry& e : entries) Put(d, e.name, e.ino);
  const bool follows = cookie == 0 || (d.listed_to != 0 && cookie <= d.listed_to);
  if (follows && !d.whole) {
    const uint64_t last = entries.empty() ? 0 : entries.back().cookie;
    d.listed_to = cookie == 0 ? last : std::max(d.listed_to, last);
    d.whole = end;
    if (end) d.listed_to = 0;
  }
  Trim();
}

void EntryCache::Forget(InodeId dir, const std::string& name) {
  Dir* d = FindDir(dir);
  if (d == nullptr) return;
  d->listed_to = 0;
  if (!d->whole) {
    EraseName(*d, name);
    return;
  }
  auto [it, fresh] = d->names.insert_or_assign(name, std::nullopt);
  if (fresh) ++names_;
  Trim();
}

void EntryCache::Revoked(InodeId dir, const std::string& name) {
  Dir* d = FindDir(dir);
  if (d == nullptr) return;
  d->listed_to = 0;
  EraseName(*d, name);
  if (!d->whole) return;
  d->whole = false;
  names_ -= std::erase_if(d->names, [](const auto& n) { return !n.second; });
}

void EntryCache::Drop(InodeId dir) {
  if (auto it = dirs_.find(dir); it != dirs_.end()) Erase(it);
}

void EntryCache::Clear() {
  dirs_.clear();
  lru_.clear();
  names_ = 0;
}

void EntryCache::Use(uint64_t generation) {
  if (generation == generation_) return;
  Clear();
  generation_ = generation;
}

EntryCache::Dir& EntryCache::Touch(InodeId dir) {
  if (Dir* d = FindDir(dir)) return *d;
  lru_.push_front(dir);
  Dir& d = dirs_[dir];
  d.lru = lru_.begin();
  return d;
}

EntryCache::Dir* EntryCache::FindDir(InodeId dir) {
  auto it = dirs_.find(dir);
  if (it == dirs_.end()) return nullptr;
  lru_.splice(lru_.begin(), lru_, it->second.lru);
  return &it->second;
}

void EntryCache::Put(Dir& d, const std::string& name, InodeId ino) {
  if (!ino && d.whole) {
    EraseName(d, name);
    return;
  }
  auto [it, fresh] = d.names.insert_or_assign(name, ino);
  if (fresh) ++names_;
}

void EntryCache::EraseName(Dir& d, const std::string& name) { names_ -= d.names.erase(name); }

void EntryCache::Erase(Dirs::iterator it) {
  names_ -= it->second.names.size();
  lru_.erase(it->second.lru);
  dirs_.erase(it);
}

void EntryCache::Trim() {
  while (size() > max_entries_) Erase(dirs_.find(lru_.back()));
}

}  // namespace stria
