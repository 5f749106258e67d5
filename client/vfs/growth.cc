// Files that others have made longer. read(2) asks us for the size before it believes what the kernel has; sendfile, splice,
// mappings and copy_file_range do not. So of a file that is open for reading here the kernel is told before who has written
// goes on.
#include <algorithm>
#include <memory>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
// Others wait for it: rather they go on and the kernel has the old size until somebody asks.
constexpr int64_t kLookNs = 1 * kSecond;
// Of the mapping, asked together with the size: what one write adds.
constexpr uint64_t kMapBytes = 1 * kMiB;
}  // namespace

// The kernel takes a size only with a byte. As for pages that it reads: this waits for no lease, nor for acknowledgements.
Task<Result<Vfs::Growth>> Vfs::LookForGrowth(std::shared_ptr<VfsInode> inode) {
  VfsInode& n = *inode;
  const ReadGuard guard = session_.BeginRead();
  const Mappings::AtOnceHow how{.for_pages = true};
  Growth g;
  auto mapping = std::make_unique<ExtentCache>();
  const uint64_t from = n.kernel_size > 0 ? n.kernel_size - 1 : 0;
  uint64_t end = RangeEnd(from, kMapBytes);
  CO_ASSIGN_OR_RETURN(bool whole, co_await mappings_.AtOnce(MappingOf(inode), from, how, &end, mapping.get(), &g.seen));
  if (whole && g.seen.size > n.kernel_size && g.seen.size > end) {
    mapping = std::make_unique<ExtentCache>();
    end = g.seen.size;
    CO_ASSIGN_OR_RETURN(whole, co_await mappings_.AtOnce(MappingOf(inode), end - 1, how, &end, mapping.get(), &g.seen));
  }
  const uint64_t size = g.seen.size;
  if (!whole || size <= n.kernel_size) co_return g;
  ReadParts one;
  one.for_pages = true;
  one.patient = false;
  CO_ASSIGN_OR_RETURN(const bool mapped,
                      AddParts(n.writes.Find(size - 1, 1), *mapping, size - 1, size, false, n.tally, &one));
  if (!mapped) co_return g;
  CO_ASSIGN_OR_RETURN(const BufferChain bytes, co_await Fetch(std::move(one)));
  if (bytes.size() == 1) g.last = bytes.Flatten().data()[0];
  co_return g;
}

Task<std::optional<Vfs::Growth>> Vfs::GrowthOf(std::shared_ptr<VfsInode> inode) {
  // While it is cut here the kernel has the size of that.
  if (!inode || inode->reading == 0 || inode->cuts > 0 || nodes_.IsResizing(inode->ino)) co_return std::nullopt;
  auto found = co_await WithTimeout(kLookNs, LookForGrowth(inode));
  if (!found || !found->ok()) co_return std::nullopt;
  co_return std::move(**found);
}

Task<void> Vfs::ShowGrowth(std::shared_ptr<VfsInode> inode, std::optional<Growth> growth) {
  VfsInode& n = *inode;
  if (!growth || !growth->last || growth->seen.size <= n.kernel_size) co_return;
  if (n.reading == 0 || n.cuts > 0 || nodes_.IsResizing(n.ino)) co_return;
  const uint64_t last = growth->seen.size - 1;
  n.kernel_size = growth->seen.size;
  co_await kernel_.SizeGrew(n.ino, last, *growth->last);
  // Who writes here does not know of that page.
  co_await ForgetPages(std::move(inode), last, 1);
}

Task<void> Vfs::ForgetOldBytes(std::shared_ptr<VfsInode> inode) {
  std::optional<Growth> growth = co_await GrowthOf(inode);
  // Pages that come from here on are at least as new as what was seen.
  const uint64_t writes = inode->writes_beside_pages;
  const bool waits = inode->cuts == 0;
  co_await ForgetPagesForOthers(inode);
  if (growth && waits) inode->pages_at = {growth->seen.data_version, writes};
  co_await ShowGrowth(std::move(inode), std::move(growth));
}

void Vfs::SizeShown(InodeId ino, uint64_t size) {
  if (auto it = inodes_.find(ino); it != inodes_.end()) it->second->kernel_size = size;
}

}  // namespace stria
