// Values that one client replaces as a whole, again and again, while others look: contents of files, times
// of files, names. Each has a number that only grows. Who looks must see one number, never a mix, no
// less than what was acknowledged before the look began, no more than what was begun before it ended.
// That is what atomic commits, leases and invalidations are for.
#include <algorithm>
#include <cstring>

#include "test/sim/root_caller.h"
#include "test/sim/world.h"

namespace stria {
namespace {
constexpr uint64_t kInlineValueBytes = 20'000;    // one commit, in the metadata
constexpr uint64_t kStripedValueBytes = 150'000;  // one commit, of one stripe

// Values of all clients in one file, which is written by all and read by all at once.
constexpr uint64_t kCellBytes[] = {3'000, 80'000};
constexpr uint64_t kFirstCellAt = 777;
// A file that gets shorter: whoever shows an old size shows too many bytes.
constexpr uint64_t kFirstSize = 300'000;

std::string NameOf(uint64_t number) { return "v" + std::to_string(number); }

}  // namespace

std::string SimWorld::ValueBytes(const Watched& w, uint64_t number) {
  Random rng(number * 1'000'003 + w.ino.v + w.offset);
  std::string bytes = PatternBytes(rng, w.length);
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

Task<Result<void>> SimWorld::MakeCells(size_t client) {
  CO_ASSIGN_OR_RETURN(const EntryOut made,
                      co_await cluster_.vfs(client).MakeNode(kRoot, kRootInode, "cells", FileType::kFile, 0755, 0, ""));
  uint64_t offset = kFirstCellAt;
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    for (uint64_t length : kCellBytes) {
      auto w = std::make_unique<Watched>();
      w->name = "cell" + std::to_string(watched_.size());
      w->ino = made.attr.ino;
      w->writer = c;
      w->offset = offset;
      w->length = length;
      offset += length;
      watched_.push_back(std::move(w));
    }
  }
  co_return Ok();
}

Task<Result<void>> SimWorld::MakeWatched(size_t client) {
  Vfs& vfs = cluster_.vfs(client);
  using Kind = Watched::Kind;
  const std::pair<Kind, uint64_t> all[] = {{Kind::kBytes, kInlineValueBytes},
                                           {Kind::kBytes, kStripedValueBytes},
                                           {Kind::kTime, 0},
                                           {Kind::kSize, 0},
                                           {Kind::kName, 0}};
  for (const auto& [kind, length] : all) {
    auto w = std::make_unique<Watched>();
    w->kind = kind;
    w->length = length;
    w->writer = client;
    w->name = "w" + std::to_string(watched_.size());
    const bool dir = kind == Kind::kName;
    CO_ASSIGN_OR_RETURN(const EntryOut made,
                        co_await vfs.MakeNode(kRoot, kRootInode, w->name,
                                              dir ? FileType::kDirectory : FileType::kFile, 0755, 0, ""));
    w->ino = made.attr.ino;
    if (dir) {
      CO_RETURN_IF_ERROR(co_await vfs.MakeNode(kRoot, w->ino, NameOf(0), FileType::kFile, 0644, 0, ""));
    }
    if (kind == Kind::kTime) {
      SetAttrIn set;
      set.mtime_ns = 0;
      CO_RETURN_IF_ERROR(co_await vfs.SetAttr(kRoot, w->ino, set));
    }
    if (kind == Kind::kSize) {
      SetAttrIn set;
      set.size = kFirstSize;
      CO_RETURN_IF_ERROR(co_await vfs.SetAttr(kRoot, w->ino, set));
    }
    watched_.push_back(std::move(w));
  }
  co_return Ok();
}

SimWorld::Life SimWorld::LifeOf(size_t client) {
  const MetaSession& s = cluster_.client(client).session();
  return {s.id(), s.era()};
}

// What must be visible now. What was acknowledged may only be lost with the writer's session, or not be seen while its lease
// has run out and until it is written after that.
uint64_t SimWorld::FloorOf(const Watched& w) {
  const bool known = cluster_.client_up(w.writer) && cluster_.meta_up();
  if (!known) return w.durable;
  MetaSession& s = cluster_.client(w.writer).session();
  const bool same = LifeOf(w.writer) == w.session && s.LeaseLeftNs() > 0 &&
                    cluster_.meta_server()->sessions().Exists(w.session.first);
  return same ? w.acked : w.durable;
}

void SimWorld::Acked(Watched* w, uint64_t number, Life session) {
  if (session != LifeOf(w->writer)) return;
  if (w->session != session) w->acked = w->durable;
  w->session = session;
  w->acked = std::max(w->acked, number);
}

Task<void> SimWorld::Updater(size_t client, uint64_t seed) {
  Random rng(seed);
  std::map<Watched*, VfsHandlePtr> handles;
  std::vector<Watched*> mine;
  for (auto& w : watched_) {
    if (w->writer == client) mine.push_back(w.get());
  }
  ++actors_;
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(400 * kMillisecond)));
    Watched* w = mine[rng.Below(mine.size())];
    ++counts_["updates"];
    if (w->kind == Watched::Kind::kBytes) co_await UpdateBytes(client, w, &handles[w], rng);
    else if (w->kind == Watched::Kind::kTime || w->kind == Watched::Kind::kSize) co_await UpdateAttr(client, w, rng);
    else co_await UpdateName(client, w, rng);
  }
  --actors_;
}

Task<void> SimWorld::UpdateBytes(size_t client, Watched* w, VfsHandlePtr* h, Random& rng) {
  Vfs& vfs = cluster_.vfs(client);
  if (!*h) {
    auto opened = co_await vfs.Open(kRoot, w->ino, false, SimWork::Flags(true));
    if (!opened.ok()) co_return;
    *h = opened->handle;
  }
  const Life id = LifeOf(client);
  const uint64_t number = ++w->started;
  auto done = co_await vfs.Write(kRoot, *h, w->offset, Buffer::FromString(ValueBytes(*w, number)));
  Trace(ClientName(client) + " " + w->name + " update " + std::to_string(number) + ": " + done.error().ToString());
  bool fine = done.ok();
  if (fine) Acked(w, number, id);
  if (fine && rng.OneIn(3)) {
    auto synced = co_await vfs.Fsync(kRoot, *h);
    Trace(ClientName(client) + " " + w->name + " fsync of " + std::to_string(number) + ": " + synced.error().ToString());
    if (synced.ok()) w->durable = std::max(w->durable, number);
    fine = synced.ok();
    if (fine) Strike();
  }
  if (fine && !rng.OneIn(5)) co_return;
  auto old = std::exchange(*h, nullptr);
  (void)co_await vfs.Release(kRoot, old);
}

Task<void> SimWorld::UpdateAttr(size_t client, Watched* w, Random& rng) {
  Vfs& vfs = cluster_.vfs(client);
  const Life id = LifeOf(client);
  SetAttrIn set;
  if (w->kind == Watched::Kind::kSize && rng.OneIn(2)) {
    // Who has been told of this must be told of the size, too.
    set.mode = 0600 + static_cast<uint32_t>(rng.Below(0100));
    if (!(co_await vfs.SetAttr(kRoot, w->ino, set)).ok()) co_return;
    set = SetAttrIn();
  }
  const uint64_t number = ++w->started;
  if (w->kind == Watched::Kind::kTime) set.mtime_ns = static_cast<int64_t>(number);
  else set.size = kFirstSize - number;
  auto done = co_await vfs.SetAttr(kRoot, w->ino, set);
  Trace(ClientName(client) + " " + w->name + " attr " + std::to_string(number) + ": " +
        (done.ok() ? "ok" : done.error().ToString()));
  if (!done.ok()) co_return;
  Acked(w, number, id);
  if (!rng.OneIn(4) || !(co_await vfs.SyncDir(kRoot, kRootInode)).ok()) co_return;
  w->durable = std::max(w->durable, number);
}

// The number that the directory has now. After errors and crashes nobody knows it before.
Task<Result<uint64_t>> SimWorld::ReadNumber(size_t client, Watched* w) {
  CO_ASSIGN_OR_RETURN(const ReadDirReply page,
                      co_await cluster_.vfs(client).ReadDir(kRoot, w->ino, 0, 10, false));
  std::vector<uint64_t> found;
  for (const DirEntry& e : page.entries) {
    if (e.name[0] == 'v') found.push_back(std::strtoull(e.name.c_str() + 1, nullptr, 10));
  }
  if (found.size() == 1) co_return found[0];
  Fail("directory " + w->name + " has " + std::to_string(found.size()) + " names instead of one");
  co_return Error(FsError::kIo);
}

Task<void> SimWorld::UpdateName(size_t client, Watched* w, Random& rng) {
  Vfs& vfs = cluster_.vfs(client);
  const Life id = LifeOf(client);
  if (w->unsure || w->session != id) {
    auto now = co_await ReadNumber(client, w);
    if (!now.ok()) co_return;
    if (*now < w->durable || *now > w->started) {
      Fail("directory " + w->name + " is at " + std::to_string(*now) + ", not between " + std::to_string(w->durable) +
           " and " + std::to_string(w->started));
      co_return;
    }
    // Nothing of a former session can come any more, nor of this one: its calls have ended.
    w->started = *now;
    w->unsure = false;
    w->session = id;
    w->acked = *now;
  }
  const uint64_t from = w->started;
  ++w->started;
  w->unsure = true;
  auto done = co_await vfs.Rename(kRoot, w->ino, NameOf(from), w->ino, NameOf(from + 1), false, false);
  Trace(ClientName(client) + " " + w->name + " name " + std::to_string(from + 1) + ": " + done.error().ToString());
  if (done.code() == FsError::kNoEnt) {
    Fail("renaming " + NameOf(from) + " in " + w->name + ": it is not there");
  }
  if (!done.ok()) co_return;
  w->unsure = false;
  Acked(w, from + 1, id);
  if (!rng.OneIn(4) || !(co_await vfs.SyncDir(kRoot, w->ino)).ok()) co_return;
  w->durable = std::max(w->durable, from + 1);
}

// ---- Looking

Task<void> SimWorld::Watcher(size_t client, uint64_t seed) {
  Random rng(seed);
  std::map<Watched*, VfsHandlePtr> handles;
  ++actors_;
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(200 * kMillisecond)));
    Watched* w = watched_[rng.Below(watched_.size())].get();
    VfsHandlePtr& h = handles[w];
    auto seen = co_await Look(client, w, &h);
    ++counts_[seen.ok() ? "looks" : "failed looks"];
    if (!h || (seen.ok() && !rng.OneIn(6))) continue;
    auto old = std::exchange(h, nullptr);
    (void)co_await cluster_.vfs(client).Release(kRoot, old);
  }
  --actors_;
}

Task<Result<uint64_t>> SimWorld::Look(size_t client, Watched* w, VfsHandlePtr* h) {
  const uint64_t floor = FloorOf(*w);
  const uint64_t durable = w->durable;
  const Life session = w->session;
  Result<uint64_t> seen = w->kind == Watched::Kind::kBytes  ? co_await LookAtBytes(client, w, h)
                          : w->kind == Watched::Kind::kTime ? co_await LookAtTime(client, w)
                          : w->kind == Watched::Kind::kSize ? co_await LookAtSize(client, w, h)
                                                            : co_await LookAtName(client, w, floor);
  Trace(ClientName(client) + " " + w->name + " look: " + (seen.ok() ? std::to_string(*seen) : seen.error().ToString()));
  if (!seen.ok()) co_return seen;
  // If the writer's session was lost meanwhile, so may be what it had not made durable.
  const bool lost = session != w->session || FloorOf(*w) < floor;
  const uint64_t least = lost ? durable : floor;
  if (*seen < least || *seen > w->started) {
    Fail("c" + std::to_string(client + 1) + " saw " + w->name + " at " + std::to_string(*seen) + "; at least " +
         std::to_string(least) + " was acknowledged before, " + std::to_string(w->started) + " begun");
  }
  co_return seen;
}

// Through the kernel's pages a read is one page after the other, as on ext4: beside a write some may be as of before it. None
// is anything else; the oldest counts.
std::optional<uint64_t> SimWorld::OldestPage(const Watched& w, const std::string& bytes) {
  uint64_t oldest = w.started;
  for (uint64_t at = 0; at < bytes.size();) {
    const uint64_t page_end = ((w.offset + at) / SimPages::kPageBytes + 1) * SimPages::kPageBytes - w.offset;
    const uint64_t end = std::min<uint64_t>(page_end, bytes.size());
    std::optional<uint64_t> number;
    for (uint64_t n = w.started + 1; n-- > 0 && !number;) {
      const std::string value = n == 0 ? std::string(bytes.size(), '\0') : ValueBytes(w, n);
      if (bytes.compare(at, end - at, value, at, end - at) == 0) number = n;
    }
    if (!number) return std::nullopt;
    oldest = std::min(oldest, *number);
    at = end;
  }
  return oldest;
}

Task<Result<uint64_t>> SimWorld::LookAtBytes(size_t client, Watched* w, VfsHandlePtr* h) {
  Vfs& vfs = cluster_.vfs(client);
  if (!*h) {
    CO_ASSIGN_OR_RETURN(Vfs::Opened opened, co_await vfs.Open(kRoot, w->ino, false, SimWork::Flags(false)));
    cluster_.kernel(client).pages().Opened(opened.handle);
    *h = opened.handle;
  }
  CO_ASSIGN_OR_RETURN(const BufferChain got, co_await cluster_.Read(client, *h, w->offset, w->length + (w->offset == 0)));
  const std::string bytes(got.Flatten().view());
  // Before the first write, and perhaps after one of those behind it.
  if (std::all_of(bytes.begin(), bytes.end(), [](char b) { return b == 0; })) co_return 0;
  uint64_t number = 0;
  if (bytes.size() >= sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  const std::string want = ValueBytes(*w, number);
  if (number <= w->started && bytes == want) co_return number;
  if ((*h)->page_cache && bytes.size() == w->length) {
    if (const auto oldest = OldestPage(*w, bytes)) co_return *oldest;
  }
  Fail("c" + std::to_string(client + 1) + " read " + w->name + ", begins as " + std::to_string(number) +
       ", is not what was written: " + FirstDifference(want, bytes));
  co_return Error(FsError::kIo);
}

// By how much can be read, through a file that may be open for long.
Task<Result<uint64_t>> SimWorld::LookAtSize(size_t client, Watched* w, VfsHandlePtr* h) {
  Vfs& vfs = cluster_.vfs(client);
  if (!*h) {
    CO_ASSIGN_OR_RETURN(Vfs::Opened opened, co_await vfs.Open(kRoot, w->ino, false, SimWork::Flags(false)));
    cluster_.kernel(client).pages().Opened(opened.handle);
    *h = opened.handle;
  }
  CO_ASSIGN_OR_RETURN(const BufferChain got, co_await cluster_.Read(client, *h, 0, kFirstSize + 1));
  co_return kFirstSize - got.size();
}

Task<Result<uint64_t>> SimWorld::LookAtTime(size_t client, Watched* w) {
  CO_ASSIGN_OR_RETURN(const EntryOut out, co_await cluster_.vfs(client).GetAttr(kRoot, w->ino));
  co_return static_cast<uint64_t>(out.attr.mtime_ns);
}

// By one name that is there or not: only in a moment without a change it tells the number.
Task<Result<uint64_t>> SimWorld::LookAtName(size_t client, Watched* w, uint64_t floor) {
  Vfs& vfs = cluster_.vfs(client);
  const uint64_t number = w->started;
  if (w->unsure || floor != number) co_return Error(FsError::kRetryLater);
  auto there = co_await vfs.Lookup(kRoot, w->ino, NameOf(number));
  if (!there.ok() && there.code() != FsError::kNoEnt) co_return there.error();
  auto before = Result<EntryOut>(FsError::kNoEnt);
  if (number > 0) before = co_await vfs.Lookup(kRoot, w->ino, NameOf(number - 1));
  if (!before.ok() && before.code() != FsError::kNoEnt) co_return before.error();
  if (w->unsure || w->started != number || FloorOf(*w) != number) co_return Error(FsError::kRetryLater);
  co_return there.ok() && !before.ok() ? number : number - 1;
}

// When all writers have ended: everybody sees the same.
Task<void> SimWorld::CheckWatched() {
  for (auto& w : watched_) {
    std::optional<uint64_t> first;
    for (size_t c = 0; c < options_.cluster.clients; ++c) {
      VfsHandlePtr h;
      Result<uint64_t> seen =
          w->kind == Watched::Kind::kName ? co_await ReadNumber(c, w.get()) : co_await Look(c, w.get(), &h);
      if (h) (void)co_await cluster_.vfs(c).Release(kRoot, h);
      if (!seen.ok()) co_return Fail("final look at " + w->name + ": " + seen.error().ToString());
      if (!first) first = *seen;
      if (*first != *seen) {
        co_return Fail("in the end c1 sees " + w->name + " at " + std::to_string(*first) + ", c" +
                       std::to_string(c + 1) + " at " + std::to_string(*seen));
      }
      if (*seen < w->durable) Fail(w->name + " is at " + std::to_string(*seen) + " but " + std::to_string(w->durable) + " was durable");
    }
  }
}

}  // namespace stria
