// Locks of several owners on every client: flock(2), fcntl(2) ranges of processes and of open files, taken and
// given up, waited for or not, waits interrupted.
//
// Invariants:
//  - No two owners hold locks that exclude each other while both clients have their sessions; also when the
//    metadata server has restarted in between (they are claimed again before anybody gets one).
//  - Who surely holds a lock is seen by who tests for it.
//  - A wait ends: with the lock, an interruption, or EDEADLK, which nobody hears who holds nothing.
//  - Locks of a client that crashed or lost its session are free after a bounded time.
//
// Oracle: per owner the ranges that it surely holds: from the answer that granted them until it asks for something
// else there. At each grant and before each change they are compared with all others of living sessions. An actor
// that waits for ever hangs the run; in the end every file can be locked as a whole.
#include <list>

#include "common/lock_ranges.h"
#include "test/sim/root_caller.h"
#include "test/sim/work.h"

namespace stria {
namespace {

constexpr size_t kFiles = 2;
constexpr size_t kOwnersPerClient = 3;
constexpr uint64_t kBytes = 12;  // that ranges are made of
// A dead client's lease, the window after a restart of the server, and some time to notice.
constexpr int64_t kFreeAfterNs = 90 * kSecond;

std::string Text(const LockRange& r) {
  return std::string(r.type == LockType::kWrite ? "w" : r.type == LockType::kRead ? "r" : "u") + "[" +
         std::to_string(r.first) + "," + (r.last == kLockToEnd ? "end" : std::to_string(r.last)) + "]";
}

class LockWork final : public SimWork {
 public:
  using SimWork::SimWork;
  Task<Result<void>> Setup() override;
  void Start(size_t client, uint64_t seed) override;
  Task<void> FinalChecks() override;

 private:
  struct Owner {
    uint64_t number = 0;
    LockKind kind = LockKind::kPosix;
    Who who;
    bool ended = false;
    uint64_t changes = 0;          // of `sure`
    LockRanges sure[kFiles];
    std::string Name() const { return SimWork::Name(who.client) + " owner " + std::to_string(number); }
  };
  using OwnerPtr = std::shared_ptr<Owner>;

  Task<void> Locker(size_t client, uint64_t seed);
  Task<void> Session(OwnerPtr owner, Random& rng, const std::vector<VfsHandlePtr>& handles);
  Task<bool> Take(OwnerPtr owner, size_t file, VfsHandlePtr h, LockRange range, bool wait, Random& rng);
  Task<void> Test(OwnerPtr owner, size_t file, VfsHandlePtr h, LockRange range);
  Task<void> LockAll(size_t client, size_t file, LockKind kind);
  LockRange RandomRange(LockKind kind, Random& rng) const;
  OwnerPtr Against(const Owner& owner, size_t file, const LockRange& range);
  void CheckExclusion(const Owner& owner, size_t file);

  InodeId files_[kFiles];
  std::list<OwnerPtr> owners_;
  uint64_t next_owner_ = 1;
};

Task<Result<void>> LockWork::Setup() {
  for (size_t i = 0; i < kFiles; ++i) {
    CO_ASSIGN_OR_RETURN(const EntryOut made, co_await vfs(0).MakeNode(kRoot, kRootInode, "l" + std::to_string(i),
                                                                      FileType::kFile, 0644, 0, ""));
    files_[i] = made.attr.ino;
  }
  co_return Ok();
}

void LockWork::Start(size_t client, uint64_t seed) {
  for (size_t i = 0; i < kOwnersPerClient; ++i) Spawn(client, Locker(client, seed + i));
}

Task<void> LockWork::Locker(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(400 * kMillisecond)));
    std::vector<VfsHandlePtr> handles;
    for (InodeId ino : files_) {
      auto opened = co_await vfs(client).Open(kRoot, ino, false, Flags(true));
      if (opened.ok()) handles.push_back(opened->handle);
    }
    if (handles.size() == kFiles) {
      auto owner = std::make_shared<Owner>();
      owner->number = next_owner_++;
      owner->kind = rng.OneIn(3) ? LockKind::kFlock : LockKind::kPosix;
      owner->who = Me(client);
      owner->who.generation = handles[0]->generation;
      std::erase_if(owners_, [this](const OwnerPtr& o) { return o->ended || !cluster().client_up(o->who.client); });
      owners_.push_back(owner);
      co_await Session(owner, rng, handles);
      for (LockRanges& r : owner->sure) r = LockRanges();
      ++owner->changes;
      for (const VfsHandlePtr& h : handles) co_await vfs(client).DropLocks(h->inode, owner->kind, owner->number);
      owner->ended = true;
    }
    for (const VfsHandlePtr& h : handles) (void)co_await vfs(client).Release(kRoot, h);
  }
}

LockRange LockWork::RandomRange(LockKind kind, Random& rng) const {
  LockRange r;
  r.type = rng.OneIn(2) ? LockType::kWrite : LockType::kRead;
  if (kind == LockKind::kFlock) return r;
  r.first = rng.Below(kBytes);
  r.last = rng.OneIn(6) ? kLockToEnd : r.first + rng.Below(kBytes - r.first);
  return r;
}

Task<void> LockWork::Session(OwnerPtr owner, Random& rng, const std::vector<VfsHandlePtr>& handles) {
  const bool flock = owner->kind == LockKind::kFlock;
  size_t file = rng.Below(kFiles);
  for (uint64_t steps = 1 + rng.Below(4); steps > 0 && !stopping(); --steps) {
    if (!flock) file = rng.Below(kFiles);  // flock(2) knows no deadlocks: who waits must hold nothing
    if (!co_await Take(owner, file, handles[file], RandomRange(owner->kind, rng), rng.OneIn(2), rng)) co_return;
    co_await Sleep(static_cast<int64_t>(rng.Below(rng.OneIn(5) ? 3 * kSecond : 200 * kMillisecond)));
    if (rng.OneIn(3)) co_await Test(owner, file, handles[file], RandomRange(owner->kind, rng));
    if (!rng.OneIn(3)) continue;
    LockIn unlock{owner->kind, owner->number, RandomRange(owner->kind, rng)};
    unlock.range.type = LockType::kNone;
    CheckExclusion(*owner, file);
    owner->sure[file].Set(unlock.range);
    ++owner->changes;
    if (!(co_await vfs(owner->who.client).SetLock(handles[file], unlock, nullptr)).ok()) co_return;
  }
  for (size_t f = 0; f < kFiles; ++f) CheckExclusion(*owner, f);
}

// False: the owner gives up what it has.
Task<bool> LockWork::Take(OwnerPtr owner, size_t file, VfsHandlePtr h, LockRange range, bool wait, Random& rng) {
  const LockIn in{owner->kind, owner->number, range};
  CheckExclusion(*owner, file);
  bool had_any = false;
  for (const LockRanges& r : owner->sure) had_any = had_any || !r.empty();
  // Not granted, an old range stays; but not a flock(2), and what is replaced may be so at any moment from now.
  LockRange gone = range;
  gone.type = LockType::kNone;
  const LockRanges before = owner->sure[file];
  owner->sure[file].Set(gone);
  ++owner->changes;
  std::shared_ptr<LockWait> waiter;
  if (wait) waiter = std::make_shared<LockWait>();
  if (wait && rng.OneIn(3)) {
    After(static_cast<int64_t>(rng.Below(2 * kSecond)), [waiter] {
      waiter->interrupted = true;
      waiter->changed.Pulse();
    });
  }
  StrikeClient(owner->who.client);
  const Result<void> got = co_await vfs(owner->who.client).SetLock(h, in, waiter);
  const bool flock = owner->kind == LockKind::kFlock;
  Trace(owner->Name() + (wait ? " waited for " : " tried ") + (flock ? "flock " : "") + Text(range) + " of l" +
        std::to_string(file) + ": " + got.error().ToString());
  Count(got.ok() ? "locks" : "refused locks");
  if (got.ok()) {
    owner->sure[file].Set(range);
    ++owner->changes;
    CheckExclusion(*owner, file);
    Strike();
    co_return true;
  }
  switch (got.code()) {
    case FsError::kAgain:
      if (wait) Fail(owner->Name() + " waits for a lock and hears EAGAIN");
      break;
    case FsError::kIntr:
      if (!waiter || !waiter->interrupted) Fail(owner->Name() + " hears EINTR, and nobody interrupted it");
      break;
    case FsError::kDeadlock:
      if (!wait || !had_any || flock) {
        Fail(owner->Name() + " hears EDEADLK, but nobody can be waiting for it");
      }
      Count("deadlocks");
      co_return false;
    default:
      co_return false;
  }
  if (owner->kind == LockKind::kPosix) owner->sure[file] = before;
  co_return true;
}

// What somebody else surely holds all the while must be seen.
Task<void> LockWork::Test(OwnerPtr owner, size_t file, VfsHandlePtr h, LockRange range) {
  const OwnerPtr holder = Against(*owner, file, range);
  const uint64_t changes = holder ? holder->changes : 0;
  auto found = co_await vfs(owner->who.client).TestLock(h, {owner->kind, owner->number, range});
  if (!found.ok() || !holder || !Lives(owner->who)) co_return;
  if (*found || holder->changes != changes || holder->ended || !Lives(holder->who)) co_return;
  Fail(owner->Name() + " sees no lock against " + Text(range) + " of l" + std::to_string(file) + ", but " +
       holder->Name() + " holds one");
}

LockWork::OwnerPtr LockWork::Against(const Owner& owner, size_t file, const LockRange& range) {
  for (const OwnerPtr& o : owners_) {
    if (o.get() == &owner || o->ended || o->kind != owner.kind || !o->sure[file].Conflict(range)) continue;
    if (Lives(o->who)) return o;
  }
  return nullptr;
}

void LockWork::CheckExclusion(const Owner& owner, size_t file) {
  if (!Lives(owner.who)) return;
  for (const LockRange& r : owner.sure[file].All()) {
    const OwnerPtr other = Against(owner, file, r);
    if (!other) continue;
    Fail(owner.Name() + " and " + other->Name() + " both hold " + Text(r) + " of l" + std::to_string(file) + ": " +
         Text(*other->sure[file].Conflict(r)));
  }
}

Task<void> LockWork::FinalChecks() {
  for (size_t c = 0; c < clients(); ++c) {
    for (size_t f = 0; f < kFiles; ++f) {
      co_await LockAll(c, f, LockKind::kPosix);
      co_await LockAll(c, f, LockKind::kFlock);
    }
  }
}

// Nobody is left who may hold anything.
Task<void> LockWork::LockAll(size_t client, size_t file, LockKind kind) {
  auto opened = co_await vfs(client).Open(kRoot, files_[file], false, Flags(true));
  if (!opened.ok()) co_return Fail("final open of a locked file: " + opened.error().ToString());
  LockIn in{kind, next_owner_++, {}};
  in.range.type = LockType::kWrite;
  const int64_t end = NowNs() + kFreeAfterNs;
  Result<void> got = Ok();
  while (true) {
    got = co_await vfs(client).SetLock(opened->handle, in, nullptr);
    if (got.ok() || NowNs() >= end) break;
    co_await Sleep(kSecond);
  }
  if (!got.ok()) {
    Fail("l" + std::to_string(file) + " cannot be locked by " + Name(client) + " in the end: " +
         got.error().ToString());
  }
  co_await vfs(client).DropLocks(opened->handle->inode, kind, in.owner);
  (void)co_await vfs(client).Release(kRoot, opened->handle);
}

}  // namespace

std::unique_ptr<SimWork> MakeLockWork(SimWorld* world) { return std::make_unique<LockWork>(world); }

}  // namespace stria
