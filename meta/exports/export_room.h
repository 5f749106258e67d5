// Which part of the tree which clients may mount, and as whom they count there (trust/exports.h): the list of exports.
//
// Owns: the list, in order, with its records in the store (family cluster, docs/formats.md), and of each exported path the key
// with which the inodes of confined sessions are sealed.
//
// Invariants: a change is durable when it returns, and known to who asked for OnChange before that: what is open is judged again at
// once. A cluster whose list was never changed has one export: "/", for every enrolled client, rw, root squashed.
//
// Called by Coherence, and by the calls of admins. Sees the core. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/task.h"
#include "meta/core/meta_core.h"
#include "trust/exports.h"
#include "trust/inode_handle.h"

namespace stria {

inline constexpr size_t kMaxExports = 512;

// Whether who has `had` loses nothing if he is given `now` instead. Both name him; of the clients nothing else matters.
bool GivesAtLeast(const Export& now, const Export& had);

class ExportRoom {
 public:
  explicit ExportRoom(MetaCore* core) : core_(core) {}
  // The list has become another one.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }
  Result<void> Load(Txn& txn);

  std::vector<Export> List() const;
  // By which `peer` mounts `path`. kAccess: none names it. kInval: no such path can be mounted.
  Result<Export> For(const Peer& peer, const std::string& path) const;
  // Of an exported path. Of others, one with which nothing is sealed.
  SipKey KeyOf(const std::string& path) const;

  // Takes the place of that of the same path and clients; else it comes last. kInval: it is none, or there are too many.
  Task<Result<void>> Set(Export e);
  // No clients: whichever they are. kNoEnt: there is none. kInval: there are several, and no clients are given.
  Task<Result<void>> Remove(std::string path, std::vector<ClientPattern> clients);

 private:
  struct Item {
    uint32_t number = 0;  // in its key: the order
    Export e;
    SipKey key;
  };
  SipKey NewKey() const;
  Task<Result<void>> Change(std::vector<Item> next);

  MetaCore* const core_;
  std::function<void()> changed_ = [] {};
  std::vector<Item> items_;
  SipKey none_;
};

}  // namespace stria
