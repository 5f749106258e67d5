#include "meta/backup/checkpoint_walk.h"

#include "meta/model/families.h"

namespace stria {
namespace {

constexpr size_t kRun = 128;  // entries read at once; each can be as large as a file's inline bytes

}  // namespace

Result<void> CheckpointWalk::Step(KvStore& kv) {
  if (ended_) return Ok();
  const auto family = static_cast<KvFamily>(family_);
  ASSIGN_OR_RETURN(const auto entries, kv.Scan(family, from_, "", kRun));
  size_t taken = 0;
  while (taken < entries.size() && !page_full()) {
    page_.Add(family, entries[taken].first, entries[taken].second);
    ++taken;
  }
  if (taken == entries.size() && taken < kRun) {
    ++family_;
    from_.clear();
    ended_ = family_ == kFamilies;
  } else {
    from_ = entries[taken - 1].first + '\0';
  }
  return Ok();
}

}  // namespace stria
