#include "test/sim/sim_kernel.h"

#include <algorithm>
#include <cerrno>

#include "client/fuse/kernel_names.h"
#include "common/check.h"

namespace stria {

Task<void> SimKernel::InvalidateInode(InodeId ino, bool data, uint64_t, uint64_t) {
  ++(data ? pages_forgotten_ : attrs_forgotten_);
  pages_.ForgetAttr(ino);
  if (!data) co_return;
  const int64_t takes_ns = forget_ns_ > 0 ? static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(forget_ns_))) : 0;
  co_await pages_.ForgetPages(ino, takes_ns);
}

Task<Result<EntryOut>> SimKernel::Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name) {
  const Key key(parent, std::move(name));
  auto found = co_await vfs.Lookup(who, parent, key.second);
  const auto known = names_.find(key);  // as it is now: others may have asked beside us
  if (known != names_.end()) {
    const int error = found.ok() ? 0 : LookupErrno(found.code(), /*kept=*/true, ToErrno(found.code()));
    const bool same = found.ok() && found->attr.ino == known->second.ino;
    if (!same && error != ENOMEM) Drop(known, found.ok() ? "it is another inode" : found.error().ToString());
  }
  if (found.ok() && found->attr.type == FileType::kDirectory) names_.emplace(key, Name{found->attr.ino});
  co_return found;
}

void SimKernel::MountOn(InodeId parent, const std::string& name) {
  auto it = names_.find({parent, name});
  CHECK(it != names_.end());
  it->second.mounted = true;
}

bool SimKernel::IsMounted(InodeId parent, const std::string& name) const {
  auto it = names_.find({parent, name});
  return it != names_.end() && it->second.mounted;
}

void SimKernel::Drop(std::map<Key, Name>::iterator it, const std::string& why) {
  const auto [key, dropped] = *it;
  names_.erase(it);
  if (dropped.mounted) detached_.push_back(key.second + " in directory " + std::to_string(key.first.v) + ": " + why);
  for (auto below = names_.lower_bound({dropped.ino, ""}); below != names_.end() && below->first.first == dropped.ino;
       below = names_.lower_bound({dropped.ino, ""})) {
    Drop(below, why);
  }
}

}  // namespace stria
