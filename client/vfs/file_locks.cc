#include "client/vfs/file_locks.h"

#include <utility>

#include "client/vfs/server_silent.h"

namespace stria {
namespace {
constexpr int64_t kTellAgainNs = 1 * kSecond;

FileLock ToFileLock(InodeId ino, const LockIn& in) {
  return {ino, in.kind, in.owner, in.range.type, in.range.first, in.range.last, in.range.pid};
}

LockIn AllOf(InodeLocks::Owner key) {
  LockIn all;
  all.kind = key.first;
  all.owner = key.second;
  return all;
}

Error LostLocks() { return Error(FsError::kFenced, "the mount lost its session, and its locks"); }

}  // namespace

std::vector<InodeLocks::Owner> InodeLocks::Owners() const {
  std::vector<Owner> out;
  for (const auto& [owner, locks] : owners_) out.push_back(owner);
  return out;
}

std::vector<FileLock> InodeLocks::Held() const {
  std::vector<FileLock> out;
  for (const auto& [owner, locks] : owners_) {
    for (const LockRange& r : locks.held.All()) out.push_back(ToFileLock(ino_, {owner.first, owner.second, r}));
  }
  return out;
}

bool InodeLocks::Dropped(const Owner& owner) const {
  const auto it = owners_.find(owner);
  return it != owners_.end() && it->second.dropped;
}

const LockRanges* InodeLocks::HeldBy(const Owner& owner) const {
  const auto it = owners_.find(owner);
  return it == owners_.end() ? nullptr : &it->second.held;
}

void InodeLocks::Tidy(const Owner& owner) {
  if (const auto it = owners_.find(owner); it != owners_.end() && it->second.empty()) owners_.erase(it);
}

void InodeLocks::LoseAll(Error loss) {
  ++era_;
  loss_ = std::move(loss);
  owners_.clear();
}

// A ticket, from before the first question until its owner is gone.
class FileLocks::Line {
 public:
  Line(FileLocks* all, std::shared_ptr<LockWait> wait) : all_(all) {
    if (!wait) return;
    ticket_ = all_->next_ticket_++;
    all_->waits_[ticket_] = std::move(wait);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() { all_->waits_.erase(ticket_); }
  uint64_t ticket() const { return ticket_; }

 private:
  FileLocks* const all_;
  uint64_t ticket_ = 0;
};

Task<Result<LockReply>> FileLocks::Ask(InodeLocksPtr locks, LockOp op, LockIn lock, uint64_t ticket) {
  LockRequest r;
  r.op = op;
  r.ticket = ticket;
  r.lock = ToFileLock(locks->ino(), lock);
  r.header.opened = locks->proof();
  const uint64_t generation = needs_.generation(), era = locks->era();
  const bool asks = op == LockOp::kTry || op == LockOp::kWait;
  auto turn = co_await locks->Turn();
  // What the next session is given here nobody would know of, and nobody would give up.
  if (generation != needs_.generation()) co_return LostLocks();
  if (asks && era != locks->era()) co_return locks->loss();
  if (op == LockOp::kTest) co_return co_await needs_.ask(std::move(r));
  if (op == LockOp::kWithdraw) co_return co_await needs_.change(std::move(r));
  // A lock that is less than what we hold of some bytes, and may be refused because of others, is asked for in two
  // steps: first what it is more, then all of it, which nobody can be refused any more. Refused as a whole after a
  // restart of the server, it would leave us with what we have not claimed.
  const LockRanges* held = locks->HeldBy({lock.kind, lock.owner});
  if (lock.kind == LockKind::kPosix && op != LockOp::kUnlock && held != nullptr) {
    LockRanges more = *held, less = *held;
    more.Strengthen(lock.range);
    less.Weaken(lock.range);
    if (more != *held && less != *held) {
      r.keep = true;
      auto reply = co_await Change(locks, r, lock.range);
      if (!reply.ok() || !reply->granted) co_return reply;
      if (generation != needs_.generation()) co_return LostLocks();
      if (era != locks->era()) co_return locks->loss();
      r.op = LockOp::kTry;
      r.ticket = 0;
      r.keep = false;
    }
  }
  co_return co_await Change(locks, std::move(r), lock.range);
}

// It is this request's turn. Should the server restart meanwhile, we claim no more than what is ours whatever it did: what it
// has taken away, somebody else may have by now. A refusal must leave us with no more than that. flock(2) gives up its
// old lock even if it does not get the new one.
Task<Result<LockReply>> FileLocks::Change(InodeLocksPtr locks, LockRequest r, LockRange range) {
  const uint64_t generation = needs_.generation(), era = locks->era();
  const InodeLocks::Owner owner(r.lock.kind, r.lock.owner);
  const bool flock = r.lock.kind == LockKind::kFlock;
  const bool keep = r.keep;
  const LockOp op = r.op;
  const LockRanges before = locks->Of(owner).held;
  if (!keep) locks->Of(owner).held.Weaken(flock ? LockRange() : range);
  auto reply = co_await needs_.change(std::move(r));
  if (generation != needs_.generation() || era != locks->era()) co_return reply;  // lost: as GiveUp has left it
  InodeLocks::OwnerLocks& mine = locks->Of(owner);
  if (reply.ok() && reply->granted) {
    if (keep) mine.held.Strengthen(range);
    else mine.held.Set(range);
    if (op == LockOp::kUnlock && range.first == 0 && range.last == kLockToEnd) mine.more = false;
  } else if (ServerSilent(reply.code())) {
    mine.more = true;  // it is unlocked again when its owner goes
  } else if (!reply.ok() || !flock) {
    mine.held = before;
  }
  locks->Tidy(owner);
  co_return reply;
}

Task<Result<void>> FileLocks::Set(InodeLocksPtr locks, LockIn lock, std::shared_ptr<LockWait> wait,
                                  std::function<Result<void>()> still) {
  CO_RETURN_IF_ERROR(still());
  if (lock.range.type == LockType::kNone) {
    const CallList::Call under_way(&calls_, "unlock of", locks->ino());
    co_return co_await Unlock(locks, lock);
  }
  const InodeLocks::Owner owner(lock.kind, lock.owner);
  if (locks->Dropped(owner)) {
    CO_RETURN_IF_ERROR(co_await Unlock(locks, AllOf(owner)));  // else it would go with the old ones
    CO_RETURN_IF_ERROR(still());
  }
  const Line line(this, wait);
  while (true) {
    if (wait) wait->free = false;
    Result<LockReply> reply = LockReply();
    {
      const CallList::Call under_way(&calls_, "lock of", locks->ino());
      reply = co_await Ask(locks, wait ? LockOp::kWait : LockOp::kTry, lock, line.ticket());
    }
    // Whose file was lost meanwhile wants it no more, and says so: others stand behind it. (What it was granted goes with
    // all that its owner had: GiveUp.)
    const auto leave = [&] {
      if (wait) scope_.Spawn(Withdraw(locks, lock, line.ticket()));
    };
    if (ServerSilent(reply.code())) leave();
    CO_RETURN_IF_ERROR(reply);
    if (!still().ok()) {
      if (!reply->granted) leave();
      co_return still();
    }
    if (reply->granted) co_return Ok();
    if (!wait) co_return Error(FsError::kAgain);
    while (!wait->free && !wait->interrupted && still().ok()) co_await wait->changed.Wait();
    if (!still().ok()) {
      leave();
      co_return still();
    }
    if (!wait->interrupted) continue;
    const CallList::Call under_way(&calls_, "end of a wait for a lock of", locks->ino());
    const auto withdrawn = co_await Ask(locks, LockOp::kWithdraw, lock, line.ticket());
    if (ServerSilent(withdrawn.code())) scope_.Spawn(Withdraw(locks, lock, line.ticket()));
    co_return Error(FsError::kIntr);
  }
}

Task<void> FileLocks::Withdraw(InodeLocksPtr locks, LockIn lock, uint64_t ticket) {
  const uint64_t generation = needs_.generation();
  while (generation == needs_.generation()) {
    const auto withdrawn = co_await Ask(locks, LockOp::kWithdraw, lock, ticket);
    if (!ServerSilent(withdrawn.code())) break;
    co_await Sleep(kTellAgainNs);
  }
  needs_.maybe_unused(locks);
}

Task<Result<void>> FileLocks::Unlock(InodeLocksPtr locks, LockIn lock) {
  CO_RETURN_IF_ERROR(co_await Ask(locks, LockOp::kUnlock, lock, 0));
  co_return Ok();
}

Task<Result<std::optional<FileLock>>> FileLocks::Test(InodeLocksPtr locks, LockIn lock) {
  CO_ASSIGN_OR_RETURN(const LockReply reply, co_await Ask(std::move(locks), LockOp::kTest, lock, 0));
  co_return reply.conflict;
}

Task<void> FileLocks::Drop(InodeLocksPtr locks, LockKind kind, uint64_t id) {
  const CallList::Call under_way(&calls_, "unlock of", locks->ino());
  const InodeLocks::Owner owner(kind, id);
  // A request that is under way may bring the owner a lock.
  if (locks->asking()) (void)co_await locks->Turn();
  if (locks->HeldBy(owner) == nullptr) co_return;
  locks->Of(owner).dropped = true;
  if (!ServerSilent((co_await Unlock(locks, AllOf(owner))).code())) needs_.maybe_unused(locks);
  else scope_.Spawn(UnlockDropped(std::move(locks), owner));
}

Task<void> FileLocks::UnlockDropped(InodeLocksPtr locks, InodeLocks::Owner owner) {
  while (locks->Dropped(owner)) {
    if (!ServerSilent((co_await Unlock(locks, AllOf(owner))).code())) break;
    co_await Sleep(kTellAgainNs);
  }
  needs_.maybe_unused(locks);
}

void FileLocks::GiveUp(const InodeLocksPtr& locks, const std::vector<InodeLocks::Owner>& owners) {
  for (const InodeLocks::Owner& owner : owners) {
    locks->Of(owner).more = locks->Of(owner).dropped = true;
    scope_.Spawn(UnlockDropped(locks, owner));
  }
}

void FileLocks::Wake(uint64_t ticket) {
  const auto it = waits_.find(ticket);
  if (it == waits_.end()) return;
  it->second->free = true;
  it->second->changed.Pulse();
}

void FileLocks::WakeAll() {
  for (auto& [ticket, wait] : waits_) {
    wait->free = true;
    wait->changed.Pulse();
  }
}

}  // namespace stria
