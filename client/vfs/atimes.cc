#include "client/vfs/atimes.h"

#include "api/relatime.h"

namespace stria {
namespace {
constexpr int64_t kTellEachNs = 1 * kSecond;
}  // namespace

void Atimes::Note(const InodeAtimePtr& inode, Attr attr, bool noatime) {
  if (!relatime_ || noatime) return;
  const int64_t now_ns = Executor::Current().WallNs();
  attr.atime_ns = inode->newest_ns().value_or(attr.atime_ns);
  if (!ReadMovesAtime(attr, now_ns)) return;
  inode->Note(now_ns);
  if (inode->Begin()) scope_.Spawn(Tell(inode));
}

Task<void> Atimes::Tell(InodeAtimePtr inode) {
  std::optional<int64_t> told;
  while (inode->newest_ns() && inode->newest_ns() != told) {
    const int64_t pause_ns = inode->told_at_ns() + kTellEachNs - Executor::Current().NowNs();
    if (inode->told_at_ns() != 0 && pause_ns > 0) co_await Sleep(pause_ns);
    if (!inode->newest_ns() || !co_await needs_.may_tell(inode)) break;
    told = inode->newest_ns();
    inode->ToldAt(Executor::Current().NowNs());
    if (!co_await needs_.tell(inode, told)) break;
  }
  inode->End();
  needs_.maybe_unused(inode);
}

}  // namespace stria
