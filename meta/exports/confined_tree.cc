#include "meta/exports/confined_tree.h"

#include <utility>

#include "meta/ops/ops.h"

namespace stria {

// That one does not lie there is not remembered: who asks is refused, and an honest client does not ask again.
bool StoreTree::LiesBelow(InodeId dir, InodeId root) {
  if (dir == root) return true;
  MetaStore& store = *store_();
  if (moves_ != store.dir_moves()) {
    moves_ = store.dir_moves();
    known_.clear();
  }
  if (known_.contains({dir, root})) return true;
  Txn txn(store);
  const Result<std::optional<bool>> below = OpLiesBelow(txn, dir, root);
  if (!below.ok()) return false;  // it is nested too deeply, or damaged, which others tell
  if (!*below) return true;  // there is none
  if (!**below) return false;
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.insert({dir, root});
  return true;
}

std::optional<std::string> StoreTree::PathOf(InodeId dir) {
  Txn txn(*store_());
  Result<PathsPage> page = OpPaths(txn, OpCtx(), dir, {}, 1);
  if (!page.ok() || page->paths.empty()) return std::nullopt;
  return std::move(page->paths.front());
}

}  // namespace stria
