#include <algorithm>

#include "test/sim/root_caller.h"
#include "test/sim/world.h"

namespace stria {
namespace {
constexpr int64_t kNamesPauseNs = 200 * kMillisecond;
constexpr int64_t kSessionPauseNs = 1500 * kMillisecond;  // of a writer, at most

Buffer ToBuffer(const std::string& s) { return Buffer::FromString(s); }
}  // namespace

// Runs before any fault: files and directories exist and are durable.
Task<void> SimWorld::Setup() {
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    Vfs& vfs = cluster_.vfs(c);
    auto dir = co_await vfs.MakeNode(kRoot, kRootInode, "d" + std::to_string(c), FileType::kDirectory, 0755, 0, "");
    if (!dir.ok()) co_return Fail("setup mkdir: " + dir.error().ToString());
    names_.push_back(std::make_unique<Names>());
    names_.back()->dir = dir->attr.ino;
    for (size_t i = 0; i < options_.files_per_client; ++i) {
      auto file = std::make_unique<File>();
      file->name = "f" + std::to_string(c) + "_" + std::to_string(i);
      file->writer = c;
      auto made = co_await vfs.Create(kRoot, kRootInode, file->name, 0644, true, false, SimWork::Flags(true));
      if (!made.ok()) co_return Fail("setup create: " + made.error().ToString());
      auto synced = co_await vfs.Fsync(kRoot, made->handle);
      if (!synced.ok()) co_return Fail("setup fsync: " + synced.error().ToString());
      (void)co_await vfs.Release(kRoot, made->handle);
      files_.push_back(std::move(file));
    }
    auto watched = co_await MakeWatched(c);
    if (!watched.ok()) co_return Fail("setup: " + watched.error().ToString());
    if (c == 0) watched = co_await MakeCells(c);
    if (!watched.ok()) co_return Fail("setup: " + watched.error().ToString());
    auto synced = co_await vfs.SyncDir(kRoot, kRootInode);
    if (!synced.ok()) co_return Fail("setup sync: " + synced.error().ToString());
  }
  MakeWorks();
  for (auto& w : works_) {
    auto done = co_await w->Setup();
    if (!done.ok()) co_return Fail("setup: " + done.error().ToString());
  }
  auto synced = co_await cluster_.vfs(0).SyncDir(kRoot, kRootInode);
  if (!synced.ok()) co_return Fail("setup sync: " + synced.error().ToString());
}

void SimWorld::MakeWorks() {
  const SimWorkPlan& p = options_.work;
  if (p.locks) works_.push_back(MakeLockWork(this));
  if (p.clones) works_.push_back(MakeCloneWork(this));
  if (p.shared_names) works_.push_back(MakeSharedNamesWork(this));
  if (p.orphans) works_.push_back(MakeOrphanWork(this));
  if (p.appends) works_.push_back(MakeAppendWork(this));
  if (p.trust) works_.push_back(MakeTrustWork(this));
}

void SimWorld::StartActors(size_t client) {
  const SimWorkPlan& p = options_.work;
  TaskScope& scope = cluster_.scope(client);
  if (p.files) {
    for (auto& f : files_) {
      if (f->writer == client) scope.Spawn(Writer(client, f.get(), rng_.Next()));
    }
    scope.Spawn(Reader(client, rng_.Next()));
  }
  if (p.names) scope.Spawn(Namer(client, rng_.Next()));
  if (p.values || p.clones) scope.Spawn(Updater(client, rng_.Next()));
  for (size_t i = 0; p.values && i < options_.watchers_per_client; ++i) scope.Spawn(Watcher(client, rng_.Next()));
  for (auto& w : works_) w->Start(client, rng_.Next());
}

Task<Result<std::string>> SimWorld::ReadAll(size_t client, VfsHandlePtr h, InodeId ino) {
  Vfs& vfs = cluster_.vfs(client);
  CO_ASSIGN_OR_RETURN(const EntryOut entry, co_await vfs.GetAttr(kRoot, ino));
  std::string content;
  while (content.size() < entry.attr.size) {
    CO_ASSIGN_OR_RETURN(const BufferChain part, co_await cluster_.Read(client, h, content.size(), 256 * kKiB));
    if (part.empty()) break;
    content += std::string(part.Flatten().view());
  }
  if (content.size() != entry.attr.size) {
    co_return Error(FsError::kConflict, "the size was " + std::to_string(entry.attr.size) + ", reading gave " +
                                            std::to_string(content.size()));
  }
  co_return content;
}

Task<Result<SimWorld::Opened>> SimWorld::OpenAndRead(size_t client, File* file, bool for_write) {
  Vfs& vfs = cluster_.vfs(client);
  CO_ASSIGN_OR_RETURN(const EntryOut found, co_await vfs.Lookup(kRoot, kRootInode, file->name));
  CO_ASSIGN_OR_RETURN(Vfs::Opened opened, co_await vfs.Open(kRoot, found.attr.ino, false, SimWork::Flags(for_write)));
  cluster_.kernel(client).pages().Opened(opened.handle);
  auto content = co_await ReadAll(client, opened.handle, found.attr.ino);
  if (!content.ok()) {
    (void)co_await vfs.Release(kRoot, opened.handle);
    co_return content.error();
  }
  co_return Opened{opened.handle, found.attr.ino, std::move(*content)};
}

bool SimWorld::CheckContent(size_t client, File* file, const std::string& content, const char* who, bool same_session) {
  if (!file->unsure) {
    if (content == file->model.now()) return true;
    Fail(std::string(who) + " c" + std::to_string(client + 1) + " of " + file->name + ": " +
         FirstDifference(file->model.now(), content));
    return false;
  }
  const bool resumes = same_session && !WasFull();
  auto wrong = resumes ? file->model.Resume(content) : file->model.Recover(content, WasFull());
  if (wrong) {
    Fail(std::string(who) + " c" + std::to_string(client + 1) + " of " + file->name + " after a crash: " + *wrong);
    return false;
  }
  file->unsure = false;
  ++counts_["recovered files"];
  return true;
}

void SimWorld::CheckPlaceError(size_t client, const File& file, const Error& error) {
  const bool wrong = error.code == FsError::kNoSpace ? !WasFull()
                                                     : error.code == FsError::kTooFewDomains && options_.faults.shrink > 0;
  if (wrong) {
    Fail("c" + std::to_string(client + 1) + " finds no place for " + file.name + ", although there is one: " +
         error.ToString());
  }
}

Task<void> SimWorld::Writer(size_t client, File* file, uint64_t seed) {
  Random rng(seed);
  ++actors_;
  while (!stopping()) {
    const bool fine = co_await WriteSession(client, file, rng);
    co_await Sleep(fine ? static_cast<int64_t>(rng.Below(kSessionPauseNs)) : kNamesPauseNs);
  }
  --actors_;
}

// Where modes mean something: what is opened for writing stays so, whatever becomes of its mode.
Task<bool> SimWorld::SetMode(size_t client, const std::string& name, uint32_t mode) {
  if (!options_.cluster.meta.root_squash) co_return true;
  Vfs& vfs = cluster_.vfs(client);
  const auto found = co_await vfs.Lookup(kRoot, kRootInode, name);
  if (!found.ok()) co_return false;
  SetAttrIn set;
  set.mode = mode;
  co_return (co_await vfs.SetAttr(kRoot, found->attr.ino, set)).ok();
}

Task<bool> SimWorld::WriteSession(size_t client, File* file, Random& rng) {
  auto held = co_await file->mu.Lock();
  Vfs& vfs = cluster_.vfs(client);
  const uint64_t generation = cluster_.client(client).session().generation();
  const bool writable = co_await SetMode(client, file->name, 0644);
  Result<Opened> opened = Error(FsError::kAccess, "its mode was not set");
  if (writable) opened = co_await OpenAndRead(client, file, true);
  Trace(ClientName(client) + " " + file->name + " open: " +
        (opened.ok() ? std::to_string(opened->content.size()) : opened.error().ToString()));
  if (!opened.ok()) {
    if (cluster_.client(client).session().generation() != generation) file->unsure = true;
    ++counts_["failed opens"];
    co_return false;
  }
  // The session may have been lost since the last close, with bytes that were never acknowledged.
  const bool same_session = opened->handle->generation == file->opened_generation;
  if (!same_session && file->opened_generation != 0) file->unsure = true;
  file->opened_generation = opened->handle->generation;
  file->opened_era = cluster_.client(client).session().era();
  if (!CheckContent(client, file, opened->content, "writer", same_session)) co_return false;
  bool fine = co_await SetMode(client, file->name, 0444);
  const uint64_t operations = 1 + rng.Below(12);
  for (uint64_t i = 0; i < operations && fine && !stopping(); ++i) {
    fine = co_await OneOperation(client, file, opened->handle, opened->ino, rng);
  }
  if (fine) {
    auto closed = co_await vfs.Flush(kRoot, opened->handle);
    Trace(ClientName(client) + " " + file->name + " close: " + closed.error().ToString());
    if (closed.ok()) {
      file->model.Acknowledge();
      ++counts_["closes"];
      Strike();
    } else {
      fine = false;
      CheckPlaceError(client, *file, closed.error());
      ++counts_["failed closes"];
    }
  }
  // Lost, as it may be without knowing so if its lease has run out.
  const MetaSession& session = cluster_.client(client).session();
  if (session.generation() != opened->handle->generation || session.LeaseLeftNs() <= 0) file->unsure = true;
  (void)co_await vfs.Release(kRoot, opened->handle);
  co_return fine;
}

Task<bool> SimWorld::OneOperation(size_t client, File* file, VfsHandlePtr h, InodeId ino, Random& rng) {
  Vfs& vfs = cluster_.vfs(client);
  FileModel& model = file->model;
  const uint64_t size = model.now().size();
  const uint64_t kind = rng.Below(10);
  if (kind < 6) {  // write: small or large, inside, at the end, beyond it
    uint64_t length = rng.OneIn(3) ? 1 + rng.Below(300 * kKiB) : 1 + rng.Below(8 * kKiB);
    const uint64_t offset = rng.OneIn(3) ? size : rng.Below(std::min(size + 50'000, options_.max_file_bytes) + 1);
    length = std::min(length, options_.max_file_bytes + 64 * kKiB - std::min(offset, options_.max_file_bytes));
    const std::string bytes = PatternBytes(rng, length);
    // Before the answer: if this client dies meanwhile, it may have been done.
    model.Write(offset, bytes);
    StrikeClient(client);
    auto done = co_await vfs.Write(kRoot, h, offset, ToBuffer(bytes));
    Trace(ClientName(client) + " " + file->name + " write " + std::to_string(offset) + "+" + std::to_string(length) + ": " +
          done.error().ToString());
    ++counts_["writes"];
    if (done.ok()) co_return true;
    // A write that went straight to the servers may have been done although the answer is an error.
    file->unsure = true;
    CheckPlaceError(client, *file, done.error());
    ++counts_["failed writes"];
    co_return false;
  }
  if (kind < 7) {
    const uint64_t to = rng.Below(size + 10'000);
    SetAttrIn set;
    set.size = std::min(to, options_.max_file_bytes);
    model.Truncate(*set.size);
    auto done = co_await vfs.SetAttr(kRoot, ino, set);
    Trace(ClientName(client) + " " + file->name + " truncate " + std::to_string(*set.size) + ": " + done.error().ToString());
    ++counts_["truncates"];
    if (done.ok()) co_return true;
    file->unsure = true;
    ++counts_["failed truncates"];
    co_return false;
  }
  if (kind < 9) {
    StrikeClient(client);
    auto done = co_await vfs.Fsync(kRoot, h);
    Trace(ClientName(client) + " " + file->name + " fsync: " + done.error().ToString());
    if (!done.ok()) {
      CheckPlaceError(client, *file, done.error());
      ++counts_["failed fsyncs"];
      co_return false;
    }
    model.Acknowledge();
    ++counts_["fsyncs"];
    if (InUse() < columns_) ++counts_["fsyncs with too few nodes"];
    Strike();
    co_return true;
  }
  if (size == 0) co_return true;
  const uint64_t offset = rng.Below(size);
  const uint64_t length = 1 + rng.Below(std::min<uint64_t>(size - offset, 200 * kKiB));
  auto got = co_await cluster_.Read(client, h, offset, length);
  Trace(ClientName(client) + " " + file->name + " read " + std::to_string(offset) + "+" + std::to_string(length) + ": " +
        got.error().ToString());
  ++counts_["reads"];
  if (!got.ok()) {
    ++counts_["failed reads"];
    co_return false;
  }
  const std::string want = model.now().substr(offset, length);
  const std::string bytes(got->Flatten().view());
  if (bytes != want) {
    Fail("read by writer c" + std::to_string(client + 1) + " of " + file->name + " at " + std::to_string(offset) +
         ": " + FirstDifference(want, bytes));
    co_return false;
  }
  co_return true;
}

Task<void> SimWorld::Reader(size_t client, uint64_t seed) {
  Random rng(seed);
  ++actors_;
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(2 * kSecond)));
    File* file = files_[rng.Below(files_.size())].get();
    auto held = co_await file->mu.Lock();
    if (stopping()) break;
    // What the writer's client may still lose is not ours to judge.
    if (file->unsure || !cluster_.client_up(file->writer)) continue;
    const uint64_t era = cluster_.client(file->writer).session().era();
    auto opened = co_await OpenAndRead(client, file, false);
    Trace(ClientName(client) + " " + file->name + " read: " +
          (opened.ok() ? std::to_string(opened->content.size()) : opened.error().ToString()));
    if (!opened.ok()) {
      ++counts_["failed reader opens"];
      continue;
    }
    const bool same_writer = cluster_.client_up(file->writer) && !file->unsure &&
                             cluster_.client(file->writer).session().era() == era &&
                             cluster_.client(file->writer).session().LeaseLeftNs() > 0 &&
                             era == file->opened_era;  // nor is he only on his way to write it
    if (same_writer) {
      ++counts_["reader checks"];
      (void)CheckContent(client, file, opened->content, "reader");
    }
    (void)co_await cluster_.vfs(client).Release(kRoot, opened->handle);
  }
  --actors_;
}

}  // namespace stria
