#include "test/sim/sim_kernel.h"

#include <algorithm>
#include <cerrno>

#include "client/fuse/kernel_names.h"
#include "common/check.h"
#include "common/units.h"

namespace stria {
namespace {
// From the answer to a rename until its thread has had a processor and has moved the entry; now and then others keep it busy.
constexpr uint64_t kMoveNs = 5 * kMillisecond, kLateMoveNs = 150 * kMillisecond;
constexpr uint64_t kLateOneIn = 8;
constexpr int64_t kMoveLookNs = 1 * kMillisecond;
}  // namespace

Task<void> SimKernel::InvalidateInode(InodeId ino, bool data, uint64_t, uint64_t) {
  ++(data ? pages_forgotten_ : attrs_forgotten_);
  pages_.ForgetAttr(ino);
  if (!data) co_return;
  const int64_t takes_ns = forget_ns_ > 0 ? static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(forget_ns_))) : 0;
  co_await pages_.ForgetPages(ino, takes_ns);
}

class SimKernel::Look {
 public:
  explicit Look(SimKernel* kernel, InodeId dir) : kernel_(kernel), dir_(dir) { ++kernel_->dirs_[dir_].looks; }
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;
  ~Look() {
    --kernel_->dirs_[dir_].looks;
    kernel_->let_go_.Pulse();
  }

 private:
  SimKernel* const kernel_;
  const InodeId dir_;
};

class SimKernel::Renames {
 public:
  explicit Renames(SimKernel* kernel, InodeId dir) : kernel_(kernel), dir_(dir) { kernel_->dirs_[dir_].renames = true; }
  Renames(const Renames&) = delete;
  Renames& operator=(const Renames&) = delete;
  ~Renames() {
    kernel_->dirs_[dir_].renames = false;
    kernel_->let_go_.Pulse();
  }

 private:
  SimKernel* const kernel_;
  const InodeId dir_;
};

Task<Result<EntryOut>> SimKernel::Lookup(Vfs& vfs, Caller who, InodeId parent, std::string name) {
  const Key key(parent, std::move(name));
  std::optional<Look> look;
  InodeId asked;  // the entry that is asked about; none: the name is looked up
  for (const uint32_t thread = ++threads_;;) {
    const auto known = names_.find(key);
    asked = known != names_.end() ? known->second.ino : InodeId();
    if (asked && Executor::Current().NowNs() < known->second.believed_ns) {
      EntryOut out;
      out.attr.ino = asked;
      out.attr.type = FileType::kDirectory;
      co_return out;
    }
    if (!asked && dirs_[parent].renames) {
      co_await let_go_.Wait();
      continue;
    }
    if (!asked) look.emplace(this, parent);
    const auto find = [&] { return vfs.Lookup(who, parent, key.second); };
    auto answer = co_await Moves().Ask<Result<EntryOut>>(parent, key.second, thread, find);
    if (answer.unsure) co_return Error(FsError::kNoMem, "its entry is perhaps being moved");
    const InodeId had = answer.moving ? answer.moving : answer.had;
    Result<EntryOut> found = had ? co_await vfs.GetAttr(Caller(), had) : *std::move(answer.found);
    const auto now = asked ? Find(asked) : names_.end();  // where it is by now
    if (now != names_.end()) {
      const int error = found.ok() ? 0 : LookupErrno(found.code(), /*kept=*/true, ToErrno(found.code()));
      const bool same = found.ok() && found->attr.ino == asked;
      if (!same && error != ENOMEM) Drop(now, found.ok() ? "it is another inode" : found.error().ToString());
    }
    if (!found.ok() || found->attr.type != FileType::kDirectory) co_return found;
    // (The entry that was asked about stays where the kernel has moved it meanwhile.)
    if (found->attr.ino != asked || Find(asked) == names_.end()) Put(key, found->attr.ino);
    if (!had || (answer.moving && Moves().IsMoving(parent, key.second))) {
      Believe(vfs, key, found->attr.ino);
    } else {
      if (const auto moved = Find(asked); moved != names_.end()) moved->second.believed_ns = 0;
      Moves().Doubt();
      driver_names_.Doubt(Executor::Current().NowNs());
    }
    co_return found;
  }
}

// As FuseAdapter does with an answer, and the kernel with what it is told.
void SimKernel::Believe(Vfs& vfs, const Key& key, InodeId ino) {
  const int64_t now_ns = Executor::Current().NowNs();
  driver_inodes_.Given(ino.v);
  driver_names_.Given(key.first, key.second, ino.v, driver_inodes_);
  const int64_t valid_ns = vfs.kernel_side().NameValidNs(key.first, key.second, ino);
  const auto it = names_.find(key);
  const int64_t believed_ns = driver_names_.Believe(key.first, key.second, valid_ns, now_ns);
  if (it != names_.end() && it->second.ino == ino) it->second.believed_ns = now_ns + believed_ns;
}

Task<void> SimKernel::NameChanged(InodeId dir, std::string name) {
  const int64_t left_ns = driver_names_.Until(dir, name) - Executor::Current().NowNs();
  if (left_ns > 0) co_await Sleep(left_ns);
}

Task<Result<void>> SimKernel::Rename(Vfs& vfs, Caller who, InodeId parent, std::string from, std::string to) {
  (void)co_await Lookup(vfs, who, parent, from);
  while (dirs_[parent].renames) co_await let_go_.Wait();
  const Renames renames(this, parent);
  while (dirs_[parent].looks > 0) co_await let_go_.Wait();
  const auto known = names_.find({parent, from});
  const InodeId ino = known != names_.end() ? known->second.ino : InodeId();
  if (ino) Moves().Begin(parent, from, ino);
  const Result<void> done = co_await vfs.Rename(std::move(who), parent, from, parent, to, false, false);
  const uint32_t thread = ++threads_;
  if (done.ok() && ino) {
    while (!driver_names_.MayMove(parent, from, Executor::Current().NowNs())) co_await Sleep(kMoveLookNs);
    runnable_.insert(thread);
    Moves().Answered(parent, from, thread, driver_names_.BelievedTo(parent, from));
    driver_names_.Moved(parent, from, parent, to);
  }
  if (ino) Moves().End(parent, from);
  if (!done.ok()) co_return done;
  co_await Sleep(static_cast<int64_t>(rng_.Below(rng_.OneIn(kLateOneIn) ? kLateMoveNs : kMoveNs)));
  runnable_.erase(thread);
  if (const auto now = Find(ino); now != names_.end()) Put({parent, to}, ino);
  co_return Ok();
}

NameMoves& SimKernel::Moves() {
  if (!moves_) {
    moves_.emplace(&Executor::Current(), [this](uint32_t thread) -> std::optional<ThreadRun> {
      ThreadRun run;
      run.runnable = runnable_.contains(thread);
      return run;
    });
  }
  return *moves_;
}

SimKernel::Names::iterator SimKernel::Find(InodeId ino) {
  return std::find_if(names_.begin(), names_.end(), [ino](const auto& n) { return n.second.ino == ino; });
}

// A directory has one name: the kernel's entry, with what is below, moves there.
SimKernel::Names::iterator SimKernel::Put(const Key& key, InodeId ino) {
  Name name{ino};
  if (const auto before = Find(ino); before != names_.end()) {
    if (before->first == key) return before;
    name = before->second;
    names_.erase(before);
  }
  if (const auto other = names_.find(key); other != names_.end()) Drop(other, "another directory has its name");
  return names_.emplace(key, name).first;
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

void SimKernel::SitIn(InodeId dir) {
  if (auto it = Find(dir); it != names_.end()) it->second.sat_in = true;
}

void SimKernel::Leave(InodeId dir) {
  for (auto& [key, name] : names_) {
    if (name.ino == dir || key.first == dir) name.mounted = name.sat_in = false;
  }
}

void SimKernel::Drop(Names::iterator it, const std::string& why) {
  const auto [key, dropped] = *it;
  names_.erase(it);
  if (dropped.mounted || dropped.sat_in) {
    detached_.push_back(key.second + " in directory " + std::to_string(key.first.v) + ": " + why);
  }
  for (auto below = names_.lower_bound({dropped.ino, ""}); below != names_.end() && below->first.first == dropped.ino;
       below = names_.lower_bound({dropped.ino, ""})) {
    Drop(below, why);
  }
}

}  // namespace stria
