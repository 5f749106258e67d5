// Room: what the kernel has of files that are in use here: pages, attributes that it may keep, and the size that it believes.
//
// Owns: what was shown to the kernel of each inode, what it has surely forgotten, and what its pages are at least as new as
// (InodeInKernel, the room's part of an inode).
//
// Invariants:
//  - attributes count as forgotten when the kernel has answered a call that began after they were shown;
//  - pages count as new only when the kernel has dropped what it had, or a first open has found it without any;
//  - when others have made a file longer, the kernel is told the new size only if it does not surely know it, and never while a call
//    of ours changes the size.
//
// Files that others have made longer: read(2) asks us for the size before it believes what the kernel has; sendfile, splice,
// mappings and copy_file_range do not. So of a file that is open for reading here the kernel is told before the writer goes on.
//
// Called by: AttrView, AttrCalls, FileCalls, Recalls, ComeBack, SessionEvents, KernelSide. Calls: the kernel, and
// KernelViewNeeds. Knows no other room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/types.h"
#include "client/vfs/kernel.h"
#include "common/exec/task.h"

namespace stria {

// KernelView changes it. Two groups of rooms change it by its methods: AttrView, AttrCalls, FileCalls, Reads and AheadMaker note
// what they show the kernel; Commits, Recalls, LeaseKeeper, Ranges, ComeBack and SessionEvents note that the kernel's pages or
// attributes are old. All other rooms only look.
class InodeInKernel {
 public:
  explicit InodeInKernel(InodeId ino) : ino_(ino) {}
  InodeInKernel(const InodeInKernel&) = delete;
  InodeInKernel& operator=(const InodeInKernel&) = delete;

  InodeId ino() const { return ino_; }

  // ---- Pages.
  // Of handles whose pages the kernel caches. True: what it kept of earlier opens is right still, as the file is at
  // `data_version`.
  bool OpenPages(uint64_t data_version);
  void ClosePages() { --cached_opens_; }
  uint64_t pages_version() const { return pages_version_; }
  bool has_pages() const { return cached_opens_ > 0; }
  // What the kernel keeps for a next open is not right any more.
  void KeptPagesAreOld() { pages_version_ = 0; }
  // A program here wrote while pages could be there, or something else makes them old that no data_version says.
  void WrittenBesidePages() { ++writes_beside_pages_; }
  // Of files that the kernel has pages of while somebody may write them (AttrView::PagesGated): what its pages are at least as new
  // as. A program's read asks first (GETATTR), and old pages go before that is answered.
  struct PagesAt {
    uint64_t data_version = 0;
    uint64_t writes = 0;  // by programs here, while pages could be there
    bool operator==(const PagesAt&) const = default;
  };
  PagesAt WantedAt(uint64_t data_version) const { return {data_version, writes_beside_pages_}; }
  bool PagesAre(PagesAt wanted) const { return pages_at_ == wanted; }
  void SetPagesAt(PagesAt at) { pages_at_ = at; }
  // The kernel is being told to forget pages.
  bool forgetting() const { return forgetting_ > 0; }
  uint32_t forgetting_calls() const { return forgetting_; }

  // ---- Attributes.
  // The kernel was given some to keep, of this version of the inode.
  void AttrShown(uint64_t version) { ++attr_shown_, ShownUpTo(version); }
  bool attr_forgotten() const { return attr_forgotten_ == attr_shown_; }
  // It has nothing of it that it may keep.
  void NothingShown() { attr_forgotten_ = attr_shown_; }
  uint64_t attr_shown() const { return attr_shown_; }
  void ForgottenUpTo(uint64_t shown) { attr_forgotten_ = std::max(attr_forgotten_, shown); }
  uint64_t shown_version() const { return shown_version_; }  // newest; 0: perhaps any
  void ShownUpTo(uint64_t version) { shown_version_ = std::max(shown_version_, version); }
  void ForgetVersions() { shown_version_ = 0; }  // the server may count on from less

  // ---- Size.
  // That the kernel surely has, and was given no less since. It drops an answer, with its size, if it is told to forget something while
  // it takes the answer (attr_version in fs/fuse): a greater size is sure only when it was stored.
  uint64_t size() const { return size_; }
  void SizeShown(uint64_t size) { size_ = std::min(size_, size); }
  void SizeStored(uint64_t size) { size_ = size; }
  // We made it, or wrote behind its end, now.
  void Grew(int64_t now_ns) { grew_ns_ = now_ns; }
  bool GrewSince(int64_t ns) const { return grew_ns_ && ns < *grew_ns_; }

 private:
  friend class KernelView;  // the same room
  const InodeId ino_;
  uint32_t cached_opens_ = 0;
  uint64_t pages_version_ = 0;  // data_version that the kernel's pages show; 0 none
  PagesAt pages_at_;
  uint64_t writes_beside_pages_ = 0;
  uint32_t forgetting_ = 0;
  // How often the kernel was given attributes to keep, and how many of these it has surely forgotten.
  uint64_t attr_shown_ = 1;
  uint64_t attr_forgotten_ = 0;
  uint64_t shown_version_ = 0;
  uint64_t size_ = 0;
  std::optional<int64_t> grew_ns_;
};
// Keeps the inode that it is a part of.
using InodeInKernelPtr = std::shared_ptr<InodeInKernel>;

// Of a file that may be longer than the kernel believes.
struct FileGrowth {
  Attr seen;
  std::optional<uint8_t> last;  // its last byte, if the kernel does not know that it is so long
};

struct KernelViewNeeds {
  // It is open for reading here, and no call of ours changes its size.
  std::function<bool(const InodeInKernelPtr&)> may_show_growth;
  // A call of ours cuts it: until that is answered the kernel writes back none of its pages.
  std::function<bool(const InodeInKernelPtr&)> being_cut;
  // Asks the server, and waits for no lease, nor for acknowledgements of others.
  std::function<Task<Result<FileGrowth>>(InodeInKernelPtr)> look;
  // Notice: the kernel is about to be told to forget pages, and may write them back first.
  std::function<void()> pages_may_come;
};

class KernelView {
 public:
  // `kernel` and `scope` outlive it; `scope` is cancelled before it goes.
  KernelView(KernelCache& kernel, KernelViewNeeds needs, TaskScope& scope)
      : kernel_(kernel), needs_(std::move(needs)), scope_(scope) {}
  KernelView(const KernelView&) = delete;
  KernelView& operator=(const KernelView&) = delete;

  // See KernelCache::InvalidateInode.
  Task<void> ForgetPages(InodeInKernelPtr of, uint64_t offset, uint64_t length);
  // As far as those who wait for our answer may wait for it.
  Task<void> ForgetPagesForOthers(InodeInKernelPtr of);
  // Before the kernel is told that the file is at `data_version`.
  Task<void> DropOldPages(InodeInKernelPtr of, uint64_t data_version);
  // Returns when the kernel has forgotten what attributes of it were shown until now. `of` may be null.
  Task<void> ForgetShown(InodeId ino, InodeInKernelPtr of);
  // The attributes of these, and all that the kernel believes of names.
  Task<void> ForgetNamesAndAttrs(std::vector<InodeId> known);

  // If there is any. `of` may be null.
  Task<std::optional<FileGrowth>> GrowthOf(InodeInKernelPtr of);
  Task<void> ShowGrowth(InodeInKernelPtr of, std::optional<FileGrowth> growth);
  // Others have changed its bytes.
  Task<void> ForgetOldBytes(InodeInKernelPtr of);

 private:
  KernelCache& kernel_;
  const KernelViewNeeds needs_;
  TaskScope& scope_;
};

}  // namespace stria
