// The names in directories that a client knows: the inode of a name, or that it does not exist. Of some directories the client
// knows all names (they are known whole), so any other name does not exist.
//
// A directory is known whole once this client has made it, empty, or listed it to its end while nothing changed in it, and as
// long as the server tells this client of every change in it. Revoked ends that, for any name. A change by the client itself,
// which the server does not report, leaves the directory whole but the name in doubt (Forget), until an answer says what the
// name is now (Remember).
//
// The owner decides what may be remembered (NodeCache::RememberEntry): nothing from before an event or a change of its own.
// All is of one generation of the session; what comes with another begins afresh.
//
// Bounded: directories and names together are at most max_entries (about 150 bytes each, and the name); beyond that the
// directories not used for longest go, whole. Executor's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/meta_api.h"
#include "common/ids.h"

namespace stria {

class EntryCache {
 public:
  explicit EntryCache(size_t max_entries) : max_entries_(max_entries) {}
  EntryCache(const EntryCache&) = delete;
  EntryCache& operator=(const EntryCache&) = delete;

  // The inode of the name; 0: it does not exist; nullopt: not known.
  std::optional<InodeId> Find(InodeId dir, const std::string& name, uint64_t generation);
  // The same, of any generation, and only if it was remembered by its name.
  std::optional<InodeId> LastKnown(InodeId dir, const std::string& name) const;
  bool IsWhole(InodeId dir, uint64_t generation) const;

  // `ino` 0: the name is not there.
  void Remember(InodeId dir, const std::string& name, InodeId ino, uint64_t generation);
  // The directory was made, and is empty.
  void MadeEmpty(InodeId dir, uint64_t generation);
  // A part of a listing: `entries` are all names after `cookie` (0: all from the start) up to the last of them, or, with
  // `end`, up to the end. Parts that follow each other make the directory whole, if no name was forgotten meanwhile.
  void Listed(InodeId dir, uint64_t cookie, const std::vector<DirEntry>& entries, bool end, uint64_t generation);

  // The name is being changed by this client, or has been, and it is not known how.
  void Forget(InodeId dir, const std::string& name);
  // Another client has changed the name ("": any of them); the server reports no further change in this directory.
  void Revoked(InodeId dir, const std::string& name);
  // The directory is gone, or nothing that is known of it may be believed.
  void Drop(InodeId dir);
  void Clear();

  size_t size() const { return dirs_.size() + names_; }

 private:
  struct Dir {
    std::unordered_map<std::string, std::optional<InodeId>> names;  // nullopt: in doubt, in a whole directory
    bool whole = false;
    uint64_t listed_to = 0;  // all names with cookies up to this are in `names`; 0: no listing is under way
    std::list<InodeId>::iterator lru;
  };
  using Dirs = std::unordered_map<InodeId, Dir>;

  void Use(uint64_t generation);
  Dir& Touch(InodeId dir);
  Dir* FindDir(InodeId dir);
  void Put(Dir& d, const std::string& name, InodeId ino);
  void EraseName(Dir& d, const std::string& name);
  void Erase(Dirs::iterator it);
  void Trim();

  const size_t max_entries_;
  uint64_t generation_ = 0;
  Dirs dirs_;
  std::list<InodeId> lru_;  // most recently used first
  size_t names_ = 0;
};

}  // namespace stria
