#include "test/sim/sim_kernel.h"

#include <algorithm>
#include <vector>

namespace stria {

Task<void> SimKernel::InvalidateInode(InodeId ino, bool data, uint64_t, uint64_t) {
  ++(data ? pages_forgotten_ : attrs_forgotten_);
  pages_.ForgetAttr(ino);
  if (!data) co_return;
  const int64_t takes_ns = forget_ns_ > 0 ? static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(forget_ns_))) : 0;
  co_await pages_.ForgetPages(ino, takes_ns);
}

std::optional<InodeId> SimKernel::Believed(InodeId parent, const std::string& name) const {
  auto it = names_.find({parent, name});
  if (it == names_.end() || it->second.epoch != epoch_ || it->second.until_ns < Executor::Current().NowNs()) return std::nullopt;
  return it->second.ino;
}

void SimKernel::Enter(InodeId parent, const std::string& name, InodeId ino, uint64_t epoch, int64_t valid_ns) {
  if (valid_ns > 0) names_[{parent, name}] = {ino, epoch, Executor::Current().NowNs() + valid_ns};
}

Task<Result<EntryOut>> SimKernel::Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name, bool* believed) {
  if (const auto known = Believed(parent, name)) {
    ++believed_;
    if (believed) *believed = true;
    if (!*known) co_return Error(FsError::kNoEnt);
    auto attr = co_await vfs.GetAttr(who, *known);
    if (attr.code() != FsError::kStale) co_return attr;  // else it looks the name up
    if (believed) *believed = false;
  }
  const uint64_t epoch = epoch_, changes = changes_;
  auto found = co_await vfs.Lookup(who, parent, name);
  if (!found.ok() && found.code() != FsError::kNoEnt) co_return found;
  const InodeId ino = found.ok() ? found->attr.ino : InodeId();
  const int64_t valid_ns = vfs.NameValidNs(parent, name, ino);
  if (changes == changes_) Enter(parent, name, ino, epoch, valid_ns);
  co_return found;
}

Task<Result<ReadDirReply>> SimKernel::List(Vfs& vfs, Caller who, InodeId dir, Random& rng) {
  const uint64_t changes = changes_;
  auto listed = co_await vfs.ReadDir(who, dir, 0, 1000, true);
  if (!listed.ok()) co_return listed;
  std::vector<std::pair<const DirEntry*, int64_t>> keep;
  for (const DirEntry& e : listed->entries) {
    if (const auto known = vfs.Listed(dir, e)) keep.emplace_back(&e, std::min(known->name_valid_ns, NameEpoch::kListedValidNs));
  }
  if (keep.empty()) co_return listed;
  forget_.Listed(dir);
  co_await Sleep(static_cast<int64_t>(rng.Below(NameEpoch::kEnteredNs)));  // the program waits for a processor
  if (changes != changes_) co_return listed;
  for (const auto& [e, valid_ns] : keep) Enter(dir, e->name, e->ino, epoch_, valid_ns);
  co_return listed;
}

void SimKernel::Renamed(InodeId parent, const std::string& from, InodeId new_parent, const std::string& to) {
  auto moved = names_.extract({parent, from});
  names_.erase({new_parent, to});
  if (moved.empty()) return;
  moved.key() = {new_parent, to};
  names_.insert(std::move(moved));
}

}  // namespace stria
