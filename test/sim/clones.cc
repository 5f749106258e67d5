// Clones (copy_file_range): ranges of the values of watched.cc, which their writers replace meanwhile, and of
// other clones, appear in files of this workload, which their owners then change, cut, delete and make again.
//
// Invariants:
//  - A cloned range is what the source had there at one moment of the call: one number of a value, no less than was
//    acknowledged before, no more than was begun before the end.
//  - Who has shared stripes notices nothing of what becomes of the others: a clone keeps its bytes when its source
//    is overwritten or deleted, and the other way round. No stripe is collected too soon (who reads finds the
//    bytes), none is left (run.cc: disks against metadata, and fsck's count of references).
//  - A clone is durable when it is answered.
//
// Oracle: a FileModel per file, as for the files of workload.cc. After a clone its owner looks which number came.
// If it does not live to look, the file has what it had or any number that may have come.
#include "test/sim/file_model.h"
#include "test/sim/root_caller.h"
#include "test/sim/work.h"
#include "test/sim/world.h"

namespace stria {
namespace {

constexpr size_t kFilesPerClient = 2;
constexpr uint64_t kMaxBytes = 400 * kKiB;

}  // namespace

class CloneWork final : public SimWork {
 public:
  using SimWork::SimWork;
  Task<Result<void>> Setup() override;
  void Start(size_t client, uint64_t seed) override;
  void Died(size_t client) override;
  Task<void> FinalChecks() override;

 private:
  using Watched = SimWorld::Watched;
  // What is cloned, as far as it is known before the answer.
  struct Plan {
    uint64_t from = 0, to = 0, length = 0;
    Watched* value = nullptr;  // numbers from `low` on
    uint64_t low = 0;
    std::string bytes;         // if it is no value: of the range
  };
  struct File {
    std::string name;
    size_t owner = 0;
    InodeId ino;         // as last opened
    AsyncMutex mu;       // held by who uses it
    FileModel model;
    bool there = true;
    bool unsure = false;  // the last operation on it may have been done, the ones before it may be lost
    bool unsure_name = false;  // it may be there or not
    bool maybe_new = false;    // it may have been made again, empty
    std::optional<Plan> plan;  // nothing else was unacknowledged when it began
    uint64_t generation = 0;  // of the session of the last open by its owner
    uint64_t era = 0;         // likewise
  };

  Task<void> Owner(size_t client, uint64_t seed);
  Task<void> Reader(size_t client, uint64_t seed);
  Task<bool> MakeAgain(size_t client, File* f);
  Task<bool> Use(size_t client, File* f, Random& rng);
  Task<bool> Change(size_t client, File* f, VfsHandlePtr h, Random& rng);
  Task<bool> Clone(size_t client, File* f, VfsHandlePtr h, Random& rng);
  Task<bool> CloneValue(size_t client, File* f, VfsHandlePtr h, Random& rng);
  Task<bool> CloneClone(size_t client, File* f, VfsHandlePtr h, Random& rng);
  Task<bool> Durable(size_t client, File* f, VfsHandlePtr h);
  Task<Result<VfsHandlePtr>> OpenFile(size_t client, File* f, bool write);
  Task<bool> Resync(size_t client, File* f, VfsHandlePtr h);
  bool Explains(const File& f, const std::string& content) const;
  void TraceClone(const File& f, const std::string& source, const Plan& plan, const Result<uint64_t>& done);
  std::string RangeOf(const Watched& w, uint64_t number, uint64_t from, uint64_t length) const;

  std::vector<std::unique_ptr<File>> files_;
};

Task<Result<void>> CloneWork::Setup() {
  for (size_t c = 0; c < clients(); ++c) {
    for (size_t i = 0; i < kFilesPerClient; ++i) {
      auto f = std::make_unique<File>();
      f->name = "k" + std::to_string(c) + "_" + std::to_string(i);
      f->owner = c;
      CO_RETURN_IF_ERROR(co_await vfs(c).MakeNode(kRoot, kRootInode, f->name, FileType::kFile, 0644, 0, ""));
      files_.push_back(std::move(f));
    }
    CO_RETURN_IF_ERROR(co_await vfs(c).SyncDir(kRoot, kRootInode));
  }
  co_return Ok();
}

void CloneWork::Start(size_t client, uint64_t seed) {
  Spawn(client, Owner(client, seed));
  Spawn(client, Reader(client, seed + 1));
}

void CloneWork::Died(size_t client) {
  for (auto& f : files_) {
    if (f->owner == client) f->unsure = true;
  }
}

Task<Result<VfsHandlePtr>> CloneWork::OpenFile(size_t client, File* f, bool write) {
  CO_ASSIGN_OR_RETURN(const EntryOut found, co_await vfs(client).Lookup(kRoot, kRootInode, f->name));
  CO_ASSIGN_OR_RETURN(Vfs::Opened opened, co_await vfs(client).Open(kRoot, found.attr.ino, false, Flags(write)));
  f->ino = found.attr.ino;
  co_return opened.handle;
}

Task<void> CloneWork::Owner(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(800 * kMillisecond)));
    File* f = files_[client * kFilesPerClient + rng.Below(kFilesPerClient)].get();
    auto held = co_await f->mu.Lock();
    if (stopping()) break;
    (void)co_await Use(client, f, rng);
  }
}

Task<bool> CloneWork::MakeAgain(size_t client, File* f) {
  const bool gone = !f->there && !f->unsure_name;
  f->unsure_name = f->maybe_new = true;
  auto made = co_await vfs(client).MakeNode(kRoot, kRootInode, f->name, FileType::kFile, 0644, 0, "");
  Trace(f->name + " make: " + (made.ok() ? std::to_string(made->attr.ino.v) : made.error().ToString()));
  if (made.ok()) {
    f->model = FileModel();
    f->plan.reset();
    f->unsure = false;
  } else if (made.code() != FsError::kExist) {
    co_return false;
  } else {
    if (gone) Fail(f->name + " was deleted and is there again");
    f->unsure = true;
  }
  f->there = true;
  if (!(co_await vfs(client).SyncDir(kRoot, kRootInode)).ok()) co_return false;
  f->unsure_name = false;
  co_return true;
}

// One time from open to close, and perhaps the file's end.
Task<bool> CloneWork::Use(size_t client, File* f, Random& rng) {
  if ((f->unsure_name || !f->there) && !co_await MakeAgain(client, f)) co_return false;
  auto opened = co_await OpenFile(client, f, true);
  if (!opened.ok()) {
    if (opened.code() == FsError::kNoEnt) Fail(f->name + " is not there");
    co_return false;
  }
  const VfsHandlePtr h = *opened;
  if (f->generation != 0 && f->generation != h->generation) f->unsure = true;
  f->generation = h->generation;
  f->era = Me(client).era;
  bool fine = !f->unsure || co_await Resync(client, f, h);
  for (uint64_t n = 1 + rng.Below(4); n > 0 && fine && !stopping(); --n) fine = co_await Change(client, f, h, rng);
  // What was never acknowledged is lost with the session.
  if (!fine || Me(client).generation != h->generation) f->unsure = true;
  if (fine && !co_await Durable(client, f, h)) fine = false;
  (void)co_await vfs(client).Release(kRoot, h);
  if (!fine || !rng.OneIn(4)) co_return fine;
  f->unsure_name = true;
  auto gone = co_await vfs(client).Unlink(kRoot, kRootInode, f->name);
  Trace(f->name + " unlink: " + gone.error().ToString());
  if (!gone.ok() || !(co_await vfs(client).SyncDir(kRoot, kRootInode)).ok()) co_return false;
  Count("deleted clones");
  f->there = f->unsure_name = false;
  co_return true;
}

Task<bool> CloneWork::Durable(size_t client, File* f, VfsHandlePtr h) {
  const auto synced = co_await vfs(client).Fsync(kRoot, h);
  if (!synced.ok()) {
    f->unsure = true;
    co_return false;
  }
  f->model.Acknowledge();
  co_return true;
}

Task<bool> CloneWork::Change(size_t client, File* f, VfsHandlePtr h, Random& rng) {
  const uint64_t kind = rng.Below(6);
  if (kind < 4) co_return co_await Clone(client, f, h, rng);
  const uint64_t size = f->model.now().size();
  Result<void> done = Ok();
  if (kind == 4) {
    const std::string bytes = PatternBytes(rng, 1 + rng.Below(rng.OneIn(4) ? 100 * kKiB : 5000));
    const uint64_t offset = rng.Below(std::min(size, kMaxBytes - 100 * kKiB) + 1);
    f->model.Write(offset, bytes);
    auto n = co_await vfs(client).Write(kRoot, h, offset, Buffer::FromString(bytes));
    if (!n.ok()) done = n.error();
  } else {
    SetAttrIn set;
    set.size = rng.Below(size + 1);
    f->model.Truncate(*set.size);
    auto n = co_await vfs(client).SetAttr(kRoot, f->ino, set);
    if (!n.ok()) done = n.error();
  }
  Trace(f->name + (kind == 4 ? " write: " : " cut: ") + done.error().ToString());
  if (!done.ok()) f->unsure = true;
  co_return done.ok();
}

Task<bool> CloneWork::Clone(size_t client, File* f, VfsHandlePtr h, Random& rng) {
  // So that only the clone itself is in doubt if this client dies.
  if (!co_await Durable(client, f, h)) co_return false;
  const bool fine = rng.OneIn(3) ? co_await CloneClone(client, f, h, rng) : co_await CloneValue(client, f, h, rng);
  if (!fine) f->unsure = true;
  co_return fine;
}

void CloneWork::TraceClone(const File& f, const std::string& source, const Plan& plan, const Result<uint64_t>& done) {
  Trace(f.name + " clone of " + source + " " + std::to_string(plan.from) + "+" + std::to_string(plan.length) + " to " +
        std::to_string(plan.to) + ": " + (done.ok() ? std::to_string(*done) : done.error().ToString()));
}

std::string CloneWork::RangeOf(const Watched& w, uint64_t number, uint64_t from, uint64_t length) const {
  if (number == 0) return "";  // nothing was written yet
  const std::string all = SimWorld::ValueBytes(w, number);
  return from < all.size() ? all.substr(from, length) : "";
}

Task<bool> CloneWork::CloneValue(size_t client, File* f, VfsHandlePtr h, Random& rng) {
  std::vector<Watched*> values;
  for (auto& w : world_->watched_) {
    if (w->kind == Watched::Kind::kBytes && w->offset == 0) values.push_back(w.get());
  }
  Watched* w = values[rng.Below(values.size())];
  auto source = co_await vfs(client).Open(kRoot, w->ino, false, Flags(false));
  if (!source.ok()) co_return true;
  const uint64_t floor = world_->FloorOf(*w), durable = w->durable;
  const auto session = w->session;
  Plan plan;
  plan.from = rng.OneIn(2) ? 0 : rng.Below(w->length);
  plan.length = rng.OneIn(2) ? w->length - plan.from : 1 + rng.Below(w->length - plan.from);
  plan.to = rng.OneIn(2) ? 0 : rng.Below(std::min(f->model.now().size(), kMaxBytes - w->length) + 1);
  plan.value = w;
  plan.low = durable;
  f->plan = plan;
  StrikeClient(client);
  auto done = co_await vfs(client).CopyRange(kRoot, source->handle, plan.from, h, plan.to, plan.length);
  TraceClone(*f, w->name, plan, done);
  (void)co_await vfs(client).Release(kRoot, source->handle);
  if (!done.ok()) {
    Count(done.code() == FsError::kNotSupported ? "refused clones" : "failed clones");
    if (done.code() == FsError::kNotSupported) f->plan.reset();
    co_return done.code() == FsError::kNotSupported;
  }
  Count("clones");
  Strike();
  auto got = co_await vfs(client).Read(kRoot, h, plan.to, *done);
  if (!got.ok()) co_return false;
  const std::string bytes(got->Flatten().view());
  const bool lost = session != w->session || world_->FloorOf(*w) < floor;
  for (uint64_t n = lost ? durable : floor; n <= w->started; ++n) {
    if (RangeOf(*w, n, plan.from, *done) != bytes) continue;
    f->model.Write(plan.to, bytes);
    f->model.Acknowledge();
    f->plan.reset();
    co_return true;
  }
  std::string what = "is none of its values";
  for (uint64_t n = 0; n < floor; ++n) {
    if (RangeOf(*w, n, plan.from, *done) == bytes) what = "has number " + std::to_string(n);
  }
  Fail("clone of " + w->name + " " + std::to_string(plan.from) + "+" + std::to_string(*done) + " in " + f->name +
       " " + what + "; at least " + std::to_string(lost ? durable : floor) + " was acknowledged before, " +
       std::to_string(w->started) + " begun");
  co_return false;
}

// Of the owner's other file.
Task<bool> CloneWork::CloneClone(size_t client, File* f, VfsHandlePtr h, Random& rng) {
  File* other = nullptr;
  for (auto& o : files_) {
    if (o->owner == client && o.get() != f) other = o.get();
  }
  if (!other->there || other->unsure || other->unsure_name || other->model.now().empty()) co_return true;
  auto source = co_await OpenFile(client, other, false);
  if (!source.ok()) co_return true;
  if ((*source)->generation != other->generation) {
    (void)co_await vfs(client).Release(kRoot, *source);
    co_return true;
  }
  const std::string& all = other->model.now();
  Plan plan;
  plan.from = rng.Below(all.size());
  plan.length = 1 + rng.Below(std::min<uint64_t>(all.size() - plan.from, 200 * kKiB));
  plan.to = rng.Below(std::min(f->model.now().size(), kMaxBytes - plan.length) + 1);
  plan.bytes = all.substr(plan.from, plan.length);
  f->plan = plan;
  StrikeClient(client);
  auto done = co_await vfs(client).CopyRange(kRoot, *source, plan.from, h, plan.to, plan.length);
  TraceClone(*f, other->name, plan, done);
  (void)co_await vfs(client).Release(kRoot, *source);
  if (!done.ok()) {
    Count(done.code() == FsError::kNotSupported ? "refused clones" : "failed clones");
    if (done.code() == FsError::kNotSupported) f->plan.reset();
    co_return done.code() == FsError::kNotSupported;
  }
  Count("clones of clones");
  f->model.Write(plan.to, plan.bytes.substr(0, *done));
  f->model.Acknowledge();
  f->plan.reset();
  Strike();
  auto got = co_await ReadAll(client, h);
  if (!got.ok()) co_return false;
  if (*got != f->model.now()) {
    Fail(f->name + " after a clone of " + other->name + ": " + FirstDifference(f->model.now(), *got));
  }
  co_return true;
}

// Could a clone that nobody looked at have left this? Some front part of it, if it was in several pieces.
bool CloneWork::Explains(const File& f, const std::string& content) const {
  const Plan& p = *f.plan;
  const uint64_t first = p.value ? p.low : 0, last = p.value ? p.value->started : 0;
  for (uint64_t n = first; n <= last; ++n) {
    const std::string bytes = p.value ? RangeOf(*p.value, n, p.from, p.length) : p.bytes;
    uint64_t same = 0;
    while (same < bytes.size() && p.to + same < content.size() && content[p.to + same] == bytes[same]) ++same;
    FileModel then = f.model;
    then.Write(p.to, bytes.substr(0, same));
    if (then.now() == content) return true;
  }
  return false;
}

Task<bool> CloneWork::Resync(size_t client, File* f, VfsHandlePtr h) {
  auto content = co_await ReadAll(client, h);
  if (!content.ok()) co_return false;
  if ((f->maybe_new && content->empty()) || (f->plan && Explains(*f, *content))) {
    f->model = FileModel();
    f->model.Write(0, *content);
    f->model.Acknowledge();
  } else if (auto wrong = world_->WasFull() ? f->model.Recover(*content, true) : f->model.Resume(*content)) {
    Fail(f->name + " of " + Name(client) + " after a crash" + (f->plan ? " and perhaps a clone: " : ": ") + *wrong);
    co_return false;
  }
  f->plan.reset();
  // It is what it is, but may not be durable yet.
  if (!(co_await vfs(client).Fsync(kRoot, h)).ok()) co_return false;
  f->model.Acknowledge();
  f->unsure = f->maybe_new = false;
  Count("recovered clones");
  co_return true;
}

Task<void> CloneWork::Reader(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(2 * kSecond)));
    File* f = files_[rng.Below(files_.size())].get();
    auto held = co_await f->mu.Lock();
    if (stopping()) break;
    if (f->unsure || f->unsure_name || !f->there || f->plan || !cluster().client_up(f->owner)) continue;
    if (f->generation != 0 && Me(f->owner).era != f->era) continue;
    auto opened = co_await OpenFile(client, f, false);
    if (!opened.ok()) continue;
    auto content = co_await ReadAll(client, *opened);
    (void)co_await vfs(client).Release(kRoot, *opened);
    // The owner's may have been lost meanwhile.
    if (!content.ok() || f->unsure || !cluster().client_up(f->owner)) continue;
    if (f->generation != 0 && Me(f->owner).era != f->era) continue;
    Count("looks at clones");
    if (*content == f->model.now()) continue;
    Fail(Name(client) + " reads " + f->name + ": " + FirstDifference(f->model.now(), *content));
  }
}

Task<void> CloneWork::FinalChecks() {
  for (size_t c = 0; c < clients(); ++c) {
    for (auto& f : files_) {
      auto opened = co_await OpenFile(c, f.get(), false);
      if (!opened.ok()) {
        if (opened.code() == FsError::kNoEnt && (!f->there || f->unsure_name)) continue;
        co_return Fail("final open of " + f->name + " by " + Name(c) + ": " + opened.error().ToString());
      }
      if (!f->there && !f->unsure_name) Fail(f->name + " is there again");
      if (Me(f->owner).generation != f->generation && f->generation != 0) f->unsure = true;
      auto content = co_await ReadAll(c, *opened);
      if (!content.ok()) {
        co_return Fail("final read of " + f->name + " by " + Name(c) + ": " + content.error().ToString());
      }
      if (f->unsure || f->unsure_name) (void)co_await Resync(c, f.get(), *opened);
      else if (*content != f->model.now()) {
        Fail("in the end " + Name(c) + " reads " + f->name + ": " + FirstDifference(f->model.now(), *content));
      }
      (void)co_await vfs(c).Release(kRoot, *opened);
    }
  }
}

std::unique_ptr<SimWork> MakeCloneWork(SimWorld* world) { return std::make_unique<CloneWork>(world); }

}  // namespace stria
