// Room: attributes and names, as far as the session's lease lets this client remember them, and what says whether an answer
// may be remembered.
//
// Owns: the caches of attributes and of names, directories that were removed here and may still be used, the epoch, and the
// guards for changes of ours that are under way (Changing, Resizing). It has no part of an inode: what is open is newer, and
// those who own that put it over what is remembered here (AttrView::Newest).
//
// The epoch grows with every invalidation. `since` is the epoch from before the call whose answer is remembered: what an
// invalidation overtook is not.
//
// Invariants:
//  - nothing is remembered that was asked before an event, or a change of ours, that may contradict it;
//  - of a name that a call of ours changes nothing is remembered from the call's beginning to its answer: the server tells
//    others of the change, but not us. The same holds for the attributes of an inode whose size one changes;
//  - what another generation of the session remembered is not shown, nor is anything while the lease is out.
//
// Called by: AttrView, Names, and calls that change an inode; LastKnown reads its caches. Calls nobody. Knows no other room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/cache/attr_cache.h"
#include "client/cache/entry_cache.h"

namespace stria {

struct NodeCacheNeeds {
  std::function<uint64_t()> generation;  // of the session
  std::function<int64_t()> lease_left_ns;
};

class NodeCache {
 public:
  NodeCache(size_t max_entries, NodeCacheNeeds needs)
      : needs_(std::move(needs)), attrs_(max_entries), entries_(max_entries) {}
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  // ---- The epoch.
  uint64_t epoch() const { return epoch_; }
  void Invalidate() { ++epoch_; }
  // After a change of ours: what to remember its answer with. What was asked before is not remembered.
  uint64_t AfterChange(uint64_t since);
  // The same; but if the answer can be remembered, so can answers to what was asked before.
  uint64_t SinceChange(uint64_t since) { return since == epoch_ ? since : AfterChange(since); }
  // Names made by us, ever: what was looked up before is not remembered after.
  uint64_t names_made() const { return names_made_; }
  void NameMade() { ++names_made_; }

  // ---- Attributes.
  // What is remembered now; nullopt: nothing may be, and what is older goes. (The answer may be that of our own change.)
  std::optional<Attr> Remember(const Attr& attr, uint64_t since);
  std::optional<Attr> FindAttr(InodeId ino);
  void ForgetAttr(InodeId ino) { attrs_.Forget(ino); }
  void ForgetAttrBefore(InodeId ino, uint64_t version) { attrs_.ForgetBefore(ino, version); }
  const AttrCache& attrs() const { return attrs_; }

  // ---- Names.
  // The inode, 0 if the name is not there, nullopt if that is not known.
  std::optional<InodeId> FindEntry(InodeId parent, const std::string& name);
  // It does, and no call of ours is changing that.
  bool LeadsTo(InodeId parent, const std::string& name, InodeId ino);
  // `ino` 0: it is not there.
  void RememberEntry(InodeId parent, const std::string& name, InodeId ino, uint64_t since);
  void ForgetEntry(InodeId parent, const std::string& name) { entries_.Forget(parent, name); }
  // An event said that somebody else has changed the name ("": any of them).
  void Revoked(InodeId parent, const std::string& name) { entries_.Revoked(parent, name); }
  const EntryCache& entries() const { return entries_; }

  // ---- Directories.
  // What was asked when `since` and names_made() were these, and is answered now, may say what all names of it are.
  bool MayKnowWhole(InodeId dir, uint64_t since, uint64_t made) const;
  bool IsWhole(InodeId dir) const { return entries_.IsWhole(dir, needs_.generation()); }
  void MadeEmpty(InodeId dir) { entries_.MadeEmpty(dir, needs_.generation()); }
  void Listed(InodeId dir, uint64_t cookie, const std::vector<DirEntry>& entries, bool end) {
    entries_.Listed(dir, cookie, entries, end, needs_.generation());
  }
  // A file was made here, ahead of the server, in a directory that nobody else knows.
  void MadeHere(InodeId dir, const std::string& name, InodeId ino);
  void DropDir(InodeId dir) { entries_.Drop(dir); }
  // By us: the server keeps nothing of it, but who has it open, or works in it, may still ask.
  void NoteRemovedDir(Attr attr);
  std::optional<Attr> RemovedDir(InodeId ino) const;

  // Nothing of it is remembered, but removed directories.
  void Clear();

  // ---- Guards.
  // A name that a call of ours changes.
  class Changing {
   public:
    Changing(NodeCache* cache, InodeId parent, std::string name);
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;
    ~Changing() { End(); }
    void End();  // before what the answer says is remembered

   private:
    NodeCache* cache_;
    const std::pair<InodeId, std::string> name_;
  };
  bool IsChanging(InodeId parent, const std::string& name) const { return changing_.contains({parent, name}); }

  // An inode whose size a call of ours changes. Others, on this mount and elsewhere, may see the change before the call's
  // thread has its answer.
  class Resizing {
   public:
    Resizing(NodeCache* cache, InodeId ino);
    Resizing(const Resizing&) = delete;
    Resizing& operator=(const Resizing&) = delete;
    ~Resizing();

   private:
    NodeCache* const cache_;
    const InodeId ino_;
  };
  bool IsResizing(InodeId ino) const { return resizing_.contains(ino); }

 private:
  static constexpr size_t kMaxRemovedDirs = 1000;

  const NodeCacheNeeds needs_;
  AttrCache attrs_;
  EntryCache entries_;
  uint64_t epoch_ = 1;
  uint64_t names_made_ = 0;
  std::map<std::pair<InodeId, std::string>, size_t> changing_;  // how many calls
  std::map<InodeId, size_t> resizing_;                          // how many calls
  std::map<InodeId, Attr> removed_dirs_;
  std::deque<InodeId> removed_order_;
};

}  // namespace stria
