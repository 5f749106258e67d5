#include "client/fuse/open_modes.h"

#include "common/check.h"

namespace stria {

void OpenModes::Begin(InodeId ino, int32_t backing, uint64_t data_version) {
  CHECK(MayBegin(ino), "a file that is open cannot be given a backing");
  open_[ino] = {backing, data_version, 0};
}

OpenedAs OpenModes::Enter(InodeId ino, bool writes, std::optional<uint64_t> data_version) {
  Inode& n = open_[ino];
  if (n.backing && writes) return {OpenMode::kBusy, 0};
  ++n.files;
  if (!n.backing) return {OpenMode::kOrdinary, 0};
  return {n.data_version == data_version ? OpenMode::kThrough : OpenMode::kBeside, *n.backing};
}

std::optional<int32_t> OpenModes::Leave(InodeId ino, OpenMode mode) {
  const auto it = open_.find(ino);
  if (it == open_.end() || mode == OpenMode::kBusy) return std::nullopt;
  if (--it->second.files > 0) return std::nullopt;
  const std::optional<int32_t> backing = it->second.backing;
  open_.erase(it);
  return backing;
}

}  // namespace stria
