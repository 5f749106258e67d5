// Files that are unlinked while clients have them open.
//
// Invariants:
//  - Who has a file open reads all of it, until its last close or the end of its session: over crashes of other
//    clients, of the metadata server (who has what open is claimed again before anything is freed), rebuilds.
//  - Nobody finds it by its name once the unlink was answered.
//  - When the last has closed it, or its session has ended, its space comes back.
//
// Oracle: the content, which is whole and durable before the unlink and never changes. In the end no unlinked file
// is left (run.cc asks the metadata), nor a shard of one.
#include <list>

#include "test/sim/file_model.h"
#include "test/sim/root_caller.h"
#include "test/sim/work.h"

namespace stria {
namespace {

constexpr uint64_t kMostOrphanBytes = 150 * kKiB;
constexpr size_t kMaxKept = 12;

class OrphanWork final : public SimWork {
 public:
  using SimWork::SimWork;
  void Start(size_t client, uint64_t seed) override;

 private:
  struct File {
    std::string name;
    InodeId ino;
    std::string content;
    Who owner;
    bool unlinked = false;  // by its owner, which was told so
  };
  using FilePtr = std::shared_ptr<File>;

  Task<void> Owner(size_t client, uint64_t seed);
  Task<void> Holder(size_t client, uint64_t seed);
  Task<bool> Make(size_t client, const FilePtr& f, Random& rng, VfsHandlePtr* h);
  Task<void> Unlink(size_t client, FilePtr f);
  Task<bool> Look(const Who& who, FilePtr f, VfsHandlePtr h);
  Task<void> Hold(size_t client, FilePtr f, VfsHandlePtr h, Random& rng, bool unlink);

  std::list<FilePtr> files_;  // durable, and not known to be unlinked
  uint64_t next_ = 0;
};

void OrphanWork::Start(size_t client, uint64_t seed) {
  Spawn(client, Owner(client, seed));
  Spawn(client, Holder(client, seed + 1));
}

Task<void> OrphanWork::Owner(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(kSecond)));
    auto f = std::make_shared<File>();
    VfsHandlePtr h;
    const bool fine = co_await Make(client, f, rng, &h);
    if (fine) {
      files_.push_back(f);
      if (files_.size() > kMaxKept) files_.pop_front();  // of owners that died
      co_await Hold(client, f, h, rng, true);
      files_.remove(f);
    }
    if (h) (void)co_await vfs(client).Release(kRoot, h);
  }
}

Task<bool> OrphanWork::Make(size_t client, const FilePtr& f, Random& rng, VfsHandlePtr* h) {
  f->name = "u" + std::to_string(next_);
  ++next_;
  f->content = PatternBytes(rng, 1 + rng.Below(rng.OneIn(2) ? kMostOrphanBytes : 4000));
  auto made = co_await vfs(client).Create(kRoot, kRootInode, f->name, 0644, true, false, Flags(true));
  if (!made.ok()) co_return false;
  *h = made->handle;
  f->ino = made->entry.attr.ino;
  Trace(f->name + " is inode " + std::to_string(f->ino.v));
  f->owner = Me(client);
  f->owner.generation = made->handle->generation;
  auto n = co_await vfs(client).Write(kRoot, *h, 0, Buffer::FromString(f->content));
  co_return n.ok() && (co_await vfs(client).Fsync(kRoot, *h)).ok();
}

// Reads it now and then, for some seconds before and after it is unlinked.
Task<void> OrphanWork::Hold(size_t client, FilePtr f, VfsHandlePtr h, Random& rng, bool unlink) {
  Who who = Me(client);
  who.generation = h->generation;
  const uint64_t looks = 1 + rng.Below(4);
  const uint64_t unlink_at = unlink ? rng.Below(looks) : looks;
  for (uint64_t i = 0; i < looks; ++i) {
    co_await Sleep(static_cast<int64_t>(rng.Below(rng.OneIn(3) ? 6 * kSecond : 500 * kMillisecond)));
    if (i == unlink_at) co_await Unlink(client, f);
    if (!co_await Look(who, f, h) || stopping()) break;
  }
}

Task<void> OrphanWork::Unlink(size_t client, FilePtr f) {
  auto gone = co_await vfs(client).Unlink(kRoot, kRootInode, f->name);
  Trace(f->name + " unlinked by " + Name(client) + ": " + gone.error().ToString());
  if (gone.code() == FsError::kNoEnt) Fail(f->name + " was durable and is not there to be unlinked");
  if (!gone.ok()) co_return;
  Count("files unlinked while open");
  f->unlinked = true;
  Strike();
}

// False: it is of no use any more.
Task<bool> OrphanWork::Look(const Who& who, FilePtr f, VfsHandlePtr h) {
  const bool lived = Lives(who);
  auto got = co_await vfs(who.client).Read(kRoot, h, 0, kMostOrphanBytes + 1);
  Trace(f->name + " look by " + Name(who.client) + ": " +
        (got.ok() ? std::to_string(got->size()) : got.error().ToString()));
  if (got.ok()) {
    Count(f->unlinked ? "looks at unlinked files" : "looks at doomed files");
    const std::string bytes(got->Flatten().view());
    if (bytes == f->content) co_return true;
    Fail(Name(who.client) + " reads " + f->name + (f->unlinked ? ", unlinked: " : ": ") +
         FirstDifference(f->content, bytes));
    co_return false;
  }
  if (lived && Lives(who) && !Unknown(got.code())) {
    Fail(Name(who.client) + " has " + f->name + " open" + (f->unlinked ? ", unlinked," : "") + " and reads: " +
         got.error().ToString());
  }
  co_return h->generation == Me(who.client).generation;
}

Task<void> OrphanWork::Holder(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(700 * kMillisecond)));
    if (files_.empty()) continue;
    auto it = files_.begin();
    std::advance(it, static_cast<ptrdiff_t>(rng.Below(files_.size())));
    const FilePtr f = *it;
    const bool was_unlinked = f->unlinked;
    auto found = co_await vfs(client).Lookup(kRoot, kRootInode, f->name);
    if (found.ok() && was_unlinked && Lives(f->owner) && Me(client).session) {
      Fail(Name(client) + " finds " + f->name + ", which was unlinked");
    }
    if (!found.ok()) continue;
    auto opened = co_await vfs(client).Open(kRoot, f->ino, false, Flags(rng.OneIn(4)));
    if (!opened.ok()) continue;  // it may just have gone
    Trace(f->name + " opened by " + Name(client));
    co_await Hold(client, f, opened->handle, rng, false);
    Trace(f->name + " closed by " + Name(client));
    (void)co_await vfs(client).Release(kRoot, opened->handle);
  }
}

}  // namespace

std::unique_ptr<SimWork> MakeOrphanWork(SimWorld* world) { return std::make_unique<OrphanWork>(world); }

}  // namespace stria
