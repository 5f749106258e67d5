#include "client/vfs/node_cache.h"

namespace stria {

uint64_t NodeCache::AfterChange(uint64_t since) {
  const bool overtaken = since != epoch_;
  ++epoch_;
  return overtaken ? 0 : epoch_;
}

std::optional<Attr> NodeCache::Remember(const Attr& attr, uint64_t since) {
  if (since != epoch_ || IsResizing(attr.ino)) {
    // Something was invalidated while this answer was on its way: it is used once and not kept. What is cached from before may
    // be older still.
    attrs_.ForgetBefore(attr.ino, attr.version);
    return std::nullopt;
  }
  return attrs_.Remember(attr, needs_.generation());
}

std::optional<Attr> NodeCache::FindAttr(InodeId ino) {
  if (needs_.lease_left_ns() <= 0) return std::nullopt;
  return attrs_.Find(ino, needs_.generation());
}

std::optional<InodeId> NodeCache::FindEntry(InodeId parent, const std::string& name) {
  if (needs_.lease_left_ns() <= 0) return std::nullopt;
  return entries_.Find(parent, name, needs_.generation());
}

bool NodeCache::LeadsTo(InodeId parent, const std::string& name, InodeId ino) {
  return !IsChanging(parent, name) && FindEntry(parent, name) == ino;
}

void NodeCache::RememberEntry(InodeId parent, const std::string& name, InodeId ino, uint64_t since) {
  if (since != epoch_ || IsChanging(parent, name)) {
    // As in Remember: not kept, and what is cached may be older (a name that was not there before this
    // answer to our own creating it).
    ForgetEntry(parent, name);
    return;
  }
  entries_.Remember(parent, name, ino, needs_.generation());
}

void NodeCache::MadeHere(InodeId dir, const std::string& name, InodeId ino) {
  NameMade();
  entries_.Remember(dir, name, ino, needs_.generation());
}

bool NodeCache::MayKnowWhole(InodeId dir, uint64_t since, uint64_t made) const {
  if (since != epoch_ || made != names_made_) return false;
  // What is under way may have been done before or after.
  const auto changes = changing_.lower_bound({dir, std::string()});
  return changes == changing_.end() || changes->first.first != dir;
}

void NodeCache::NoteRemovedDir(Attr attr) {
  attr.nlink = 0;
  if (removed_dirs_.insert_or_assign(attr.ino, attr).second) removed_order_.push_back(attr.ino);
  if (removed_order_.size() <= kMaxRemovedDirs) return;
  removed_dirs_.erase(removed_order_.front());
  removed_order_.pop_front();
}

std::optional<Attr> NodeCache::RemovedDir(InodeId ino) const {
  const auto it = removed_dirs_.find(ino);
  return it == removed_dirs_.end() ? std::nullopt : std::optional(it->second);
}

void NodeCache::Clear() {
  Invalidate();
  attrs_.Clear();
  entries_.Clear();
}

NodeCache::Changing::Changing(NodeCache* cache, InodeId parent, std::string name)
    : cache_(cache), name_(parent, std::move(name)) {
  ++cache_->changing_[name_];
  cache_->ForgetEntry(name_.first, name_.second);
}

void NodeCache::Changing::End() {
  if (cache_ == nullptr) return;
  auto it = cache_->changing_.find(name_);
  if (--it->second == 0) cache_->changing_.erase(it);
  cache_ = nullptr;
}

NodeCache::Resizing::Resizing(NodeCache* cache, InodeId ino) : cache_(cache), ino_(ino) {
  ++cache_->resizing_[ino_];
  cache_->ForgetAttr(ino_);
}

NodeCache::Resizing::~Resizing() {
  auto it = cache_->resizing_.find(ino_);
  if (--it->second == 0) cache_->resizing_.erase(it);
  // What is on its way may be from before, and the answer that said better was not remembered.
  cache_->Invalidate();
}

}  // namespace stria
