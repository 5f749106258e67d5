#include "client/vfs/kernel_view.h"

#include "client/vfs/counted.h"

namespace stria {
namespace {
// Others wait for it: rather they go on and the kernel has the old size until somebody asks.
constexpr int64_t kLookNs = 1 * kSecond;
}  // namespace

bool InodeInKernel::OpenPages(uint64_t data_version) {
  // The kernel drops what is not to be kept when it hears of the first.
  if (++cached_opens_ == 1) pages_at_ = WantedAt(data_version);
  const bool right = pages_version_ != 0 && pages_version_ == data_version;
  pages_version_ = data_version;
  return right;
}

Task<void> KernelView::ForgetPages(InodeInKernelPtr of, uint64_t offset, uint64_t length) {
  const Counted counted(&of->forgetting_);
  needs_.pages_may_come();
  co_await kernel_.InvalidateInode(of->ino(), true, offset, length);
}

// A file that is being cut here the kernel keeps from writing its pages back until it has the answer, which may wait for
// others. Who reads those pages by a descriptor asks first (AttrView::PagesGated).
Task<void> KernelView::ForgetPagesForOthers(InodeInKernelPtr of) {
  if (needs_.being_cut(of)) {
    of->WrittenBesidePages();
    scope_.Spawn(ForgetPages(std::move(of), 0, 0));
    co_return;
  }
  co_await ForgetPages(std::move(of), 0, 0);
}

// What the kernel reads from here on we are asked for after this, so it is at least as new.
Task<void> KernelView::DropOldPages(InodeInKernelPtr of, uint64_t data_version) {
  const InodeInKernel::PagesAt wanted = of->WantedAt(data_version);
  if (of->PagesAre(wanted)) co_return;
  co_await ForgetPages(of, 0, 0);
  of->SetPagesAt(wanted);
}

Task<void> KernelView::ForgetShown(InodeId ino, InodeInKernelPtr of) {
  if (of && of->attr_forgotten()) co_return;
  const uint64_t shown = of ? of->attr_shown() : 0;
  co_await kernel_.InvalidateInode(ino, false, 0, 0);
  if (of) of->ForgottenUpTo(shown);
}

Task<void> KernelView::ForgetNamesAndAttrs(std::vector<InodeId> known) {
  co_await kernel_.NameChanged(InodeId(), "");
  for (const InodeId ino : known) co_await kernel_.InvalidateInode(ino, false, 0, 0);
}

Task<std::optional<FileGrowth>> KernelView::GrowthOf(InodeInKernelPtr of) {
  // While it is cut here the kernel has the size of that.
  if (!of || !needs_.may_show_growth(of)) co_return std::nullopt;
  auto found = co_await WithTimeout(kLookNs, needs_.look(std::move(of)));
  if (!found || !found->ok()) co_return std::nullopt;
  co_return std::move(**found);
}

Task<void> KernelView::ShowGrowth(InodeInKernelPtr of, std::optional<FileGrowth> growth) {
  if (!growth || !growth->last || growth->seen.size <= of->size()) co_return;
  if (!needs_.may_show_growth(of)) co_return;
  const uint64_t last = growth->seen.size - 1;
  of->SizeStored(growth->seen.size);
  co_await kernel_.SizeGrew(of->ino(), last, *growth->last);
  // Who writes here does not know of that page.
  co_await ForgetPages(std::move(of), last, 1);
}

Task<void> KernelView::ForgetOldBytes(InodeInKernelPtr of) {
  std::optional<FileGrowth> growth = co_await GrowthOf(of);
  // Pages that come from here on are at least as new as what was seen.
  const InodeInKernel::PagesAt at = of->WantedAt(growth ? growth->seen.data_version : 0);
  const bool waits = !needs_.being_cut(of);
  co_await ForgetPagesForOthers(of);
  if (growth && waits) of->SetPagesAt(at);
  co_await ShowGrowth(std::move(of), std::move(growth));
}

}  // namespace stria
