// ConfinedTree, read in the metadata store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "meta/exports/confined_meta.h"
#include "meta/store/txn.h"

namespace stria {

// Remembers which directories lie below which root until a directory is moved. Executor's thread only.
class StoreTree final : public ConfinedTree {
 public:
  static constexpr size_t kMaxKnown = 64 * 1024;

  explicit StoreTree(std::function<MetaStore*()> store) : store_(std::move(store)) {}

  bool LiesBelow(InodeId dir, InodeId root) override;
  std::optional<std::string> PathOf(InodeId dir) override;

  size_t known() const { return known_.size(); }

 private:
  struct Pair {
    InodeId dir, root;
    bool operator==(const Pair&) const = default;
  };
  struct Hash {
    size_t operator()(const Pair& p) const { return p.dir.v * 0x9e3779b97f4a7c15 ^ p.root.v; }
  };

  const std::function<MetaStore*()> store_;
  uint64_t moves_ = 0;  // MetaStore::dir_moves when they were found
  std::unordered_set<Pair, Hash> known_;
};

}  // namespace stria
