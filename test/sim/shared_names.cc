// Names of one directory that all clients make, link, rename, remove, look up and list at the same time.
//
// Invariants:
//  - All answers are explained by one order of the operations in which each took effect at one moment between its
//    call and its answer (test/linear): nobody sees a name that was removed before, an exclusive create succeeds
//    once, a rename is never half done. Also with caches, and over crashes of everybody.
//  - An operation without an answer took effect once, at any time after, or never.
//  - Each client has something mounted on a directory there that nobody removes, and somebody who works in the directory that all
//    share: both stay, whatever changes beside them, and whoever is away or has lost a session meanwhile. Now and then that
//    directory is renamed, while others on the same client walk through it by its name. (Nobody on other clients walks by the old
//    name then, which would end what is there: docs/posix.md, "Mounts below".)
//  - Mode and time that its maker gives a file between its creation and its close are what the maker is shown then, and
//    everybody who looks it up once it is closed.
//
// Oracle: the history of a directory, checked when it is long enough; then all move to a fresh one, so that
// histories stay small. What was answered may be lost only with a power cut of the metadata server whose client
// client does not come back to say it again (BeforePowerCut): then the directory's history ends there.
//
// At first a directory is its maker's alone, who may then make files in it before the server hears of them
// (client/vfs/made_ahead.h), until the others come. A file that was neither closed nor synced may go with its client, or its
// session: as if it had been removed by somebody at any time since.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>

#include "test/linear/models.h"
#include "test/sim/root_caller.h"
#include "test/sim/work.h"

namespace stria {
namespace {

using linear::NamesModel;
using Op = NamesModel::Op;
using Event = linear::Event<Op>;

constexpr size_t kActorsPerClient = 2;
constexpr size_t kNames = 4;
constexpr size_t kManyOps = 120;  // operations of a directory
constexpr size_t kShort = 40;  // of every other one
constexpr size_t kMostAlone = 24;
constexpr int64_t kAloneNs = 4 * kSecond;  // the others wait no longer
constexpr uint64_t kOpenNs = 30 * kMillisecond;
// All act at about the same time, so that they meet.
constexpr int64_t kBeatNs = 250 * kMillisecond;
constexpr uint64_t kJitterNs = 3 * kMillisecond;
// What the metadata server has answered is durable after this, whatever becomes of its client.
constexpr int64_t kSyncEveryNs = 3 * kSecond;
constexpr char kMountPoint[] = "mnt";
constexpr uint64_t kRenameOneIn = 12;

class SharedNamesWork final : public SimWork {
 public:
  using SimWork::SimWork;
  void Start(size_t client, uint64_t seed) override;
  void BeforePowerCut() override;
  Task<void> FinalChecks() override;

 private:
  static inline const Who kNobody{};
  // What this client changed shortly before a power cut is kept if it says it again.
  struct Risk {
    Who who;
    int64_t at_ns = 0;
  };
  // What the maker of a file has set of it.
  struct Stamp {
    uint32_t mode = 0;
    int64_t mtime_ns = 0;
    int64_t since_ns = 0;  // everybody sees it
  };
  struct Dir {
    InodeId ino;
    std::string name;
    std::vector<Event> history;
    std::vector<Risk> risks;
    std::map<size_t, int64_t> changed_ns;  // by client: its last change that was answered, or is under way
    std::vector<InodeId> files;            // seen lately
    size_t maker = 0;
    size_t length = kManyOps;
    size_t alone = 0;  // so many operations, and the next file made, are the maker's
    bool over = false;
    int64_t made_ns = 0;
    uint64_t renamed = 0;               // times
    std::optional<size_t> renames;      // the client that renames it just now
    bool lost = false;                  // nobody knows what it is called, and nobody goes there
    std::map<size_t, uint64_t> visits;  // by client: under way, by its name
    struct Made {
      Who who;
      std::string name;
      int64_t at_ns = 0;
    };
    std::map<InodeId, Made> open;  // neither closed nor synced
    std::map<InodeId, Stamp> stamps;
  };
  using DirPtr = std::shared_ptr<Dir>;

  Task<void> Actor(size_t client, uint64_t seed);
  Task<void> NextDir(size_t client);
  Task<void> OneOperation(size_t client, DirPtr dir, Random& rng);
  Task<void> Act(size_t client, DirPtr dir, Op op, Random& rng);
  Task<void> Peek(size_t client, DirPtr dir, std::string name, uint64_t seed);
  size_t Begin(const DirPtr& dir, const Op& op);
  Task<Error> Do(size_t client, DirPtr dir, Op* op, Random& rng);
  Task<void> VisitMount(size_t client, DirPtr dir);
  Task<void> VisitSoon(size_t client, DirPtr dir, uint64_t seed);
  Task<void> RenameDir(size_t client, DirPtr dir, uint64_t seed);
  class Visit;
  class Renaming;
  void Answered(const Who& who, const DirPtr& dir, size_t index, Op op, const Error& error);
  void Check(const DirPtr& dir);
  bool IsAlone(const Dir& dir);
  bool IsFull(const Dir& dir) const;
  Task<void> Close(size_t client, DirPtr dir, InodeId ino, VfsHandlePtr h, uint64_t seed);
  Task<bool> SetStamp(size_t client, InodeId ino, VfsHandlePtr h, Stamp stamp, Random& rng);
  bool Shows(const Attr& attr, const Stamp& stamp, const char* to);

  DirPtr dir_;
  uint64_t dirs_ = 0;
};

void SharedNamesWork::Start(size_t client, uint64_t seed) {
  for (size_t i = 0; i < kActorsPerClient; ++i) Spawn(client, Actor(client, seed + i));
}

Task<void> SharedNamesWork::Actor(size_t client, uint64_t seed) {
  Random rng(seed);
  while (!stopping()) {
    const int64_t beat_ns = (NowNs() / kBeatNs + 1) * kBeatNs;
    co_await Sleep(beat_ns - NowNs() + static_cast<int64_t>(rng.Below(kJitterNs)));
    if (!dir_ || IsFull(*dir_)) co_await NextDir(client);
    else if (client == dir_->maker || !IsAlone(*dir_)) co_await OneOperation(client, dir_, rng);
  }
}

bool SharedNamesWork::IsFull(const Dir& dir) const { return dir.lost || dir.history.size() >= dir.length; }

bool SharedNamesWork::IsAlone(const Dir& dir) {
  return !dir.over && NowNs() < dir.made_ns + kAloneNs && cluster().client_up(dir.maker);
}

// The others come when something has just been made there.
Task<void> SharedNamesWork::Peek(size_t client, DirPtr dir, std::string name, uint64_t seed) {
  Random rng(seed);
  co_await Sleep(static_cast<int64_t>(rng.Below(kJitterNs)));
  Op op;
  op.kind = rng.OneIn(2) ? Op::Kind::kLookup : Op::Kind::kList;
  op.client = static_cast<uint32_t>(client + 1);
  op.name = std::move(name);
  op.two_lookups = false;
  co_await Act(client, std::move(dir), std::move(op), rng);
}

// Names of directories are not used twice, so that nobody cares who has made one and died.
Task<void> SharedNamesWork::NextDir(size_t client) {
  const std::string name = "s" + std::to_string(dirs_);
  ++dirs_;
  auto made = co_await vfs(client).MakeNode(kRoot, kRootInode, name, FileType::kDirectory, 0755, 0, "");
  if (!made.ok()) co_return;
  auto point = co_await vfs(client).MakeNode(kRoot, made->attr.ino, kMountPoint, FileType::kDirectory, 0755, 0, "");
  if (!point.ok() || !(co_await vfs(client).SyncDir(kRoot, kRootInode)).ok()) co_return;
  if (dir_ && !IsFull(*dir_)) co_return;  // somebody else was faster
  if (dir_) Check(dir_);
  dir_ = std::make_shared<Dir>();
  dir_->ino = made->attr.ino;
  dir_->name = name;
  dir_->maker = client;
  dir_->length = dirs_ % 2 == 0 ? kShort : kManyOps;
  dir_->alone = dirs_ * 7 % kMostAlone;
  dir_->made_ns = NowNs();
}

Task<void> SharedNamesWork::OneOperation(size_t client, DirPtr dir, Random& rng) {
  static constexpr Op::Kind kKinds[] = {Op::Kind::kLookup, Op::Kind::kLookup, Op::Kind::kCreate, Op::Kind::kCreate,
                                        Op::Kind::kUnlink, Op::Kind::kRename, Op::Kind::kRename, Op::Kind::kLink,
                                        Op::Kind::kList};
  Op op;
  op.kind = kKinds[rng.Below(std::size(kKinds))];
  if (IsAlone(*dir) && rng.OneIn(2)) op.kind = Op::Kind::kCreate;
  op.client = static_cast<uint32_t>(client + 1);
  const uint64_t name = rng.Below(kNames);
  op.name = std::string(1, static_cast<char>('a' + name));
  op.to = std::string(1, static_cast<char>('a' + (name + 1 + rng.Below(kNames - 1)) % kNames));
  op.two_lookups = false;
  if (op.kind == Op::Kind::kLink) {
    if (dir->files.empty()) co_return;
    op.file = dir->files[rng.Below(dir->files.size())].v;
  }
  co_await Act(client, dir, std::move(op), rng);
  if (client != dir->maker && IsAlone(*dir)) co_return;
  if (rng.OneIn(kRenameOneIn)) Spawn(client, RenameDir(client, dir, rng.Next()));
  co_await VisitMount(client, std::move(dir));
}

class SharedNamesWork::Visit {
 public:
  Visit(DirPtr dir, size_t client) : dir_(std::move(dir)), client_(client) { ++dir_->visits[client_]; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() { --dir_->visits[client_]; }

 private:
  const DirPtr dir_;
  const size_t client_;
};

// Ends without an answer if its client dies.
class SharedNamesWork::Renaming {
 public:
  Renaming(DirPtr dir, size_t client) : dir_(std::move(dir)) { dir_->renames = client; }
  Renaming(const Renaming&) = delete;
  Renaming& operator=(const Renaming&) = delete;
  ~Renaming() {
    dir_->renames.reset();
    dir_->lost = dir_->lost || (asked_ && !done_);
  }
  void Asked() { asked_ = true; }
  void Done(std::string name) {
    dir_->name = std::move(name);
    done_ = true;
  }

 private:
  const DirPtr dir_;
  bool asked_ = false, done_ = false;
};

// Others learn its name when that is durable.
Task<void> SharedNamesWork::RenameDir(size_t client, DirPtr dir, uint64_t seed) {
  if (dir->renames || dir->lost) co_return;
  Renaming renaming(dir, client);
  const auto others = [&] {
    return std::ranges::any_of(dir->visits, [&](const auto& v) { return v.first != client && v.second > 0; });
  };
  while (others()) co_await Sleep(kMillisecond);
  Random rng(seed);
  for (uint64_t i = rng.Below(3); i > 0; --i) Spawn(client, VisitSoon(client, dir, rng.Next()));
  const std::string to = dir->name.substr(0, dir->name.find('.')) + "." + std::to_string(++dir->renamed);
  renaming.Asked();
  const auto done = co_await cluster().kernel(client).Rename(vfs(client), kRoot, kRootInode, dir->name, to);
  Trace("rename of directory " + dir->name + " to " + to + ": " + done.error().ToString());
  if (!done.ok() && !Unknown(done.code())) Fail("rename of directory " + dir->name + ": " + done.error().ToString());
  // It may have been renamed, and the kernel does not know it: the next lookup of the old name ends what is there.
  if (!done.ok()) cluster().kernel(client).Leave(dir->ino);
  if (!done.ok() || !(co_await vfs(client).SyncDir(kRoot, kRootInode)).ok()) co_return;
  renaming.Done(to);
  Count("renamed directories that are in use");
}

Task<void> SharedNamesWork::VisitSoon(size_t client, DirPtr dir, uint64_t seed) {
  Random rng(seed);
  co_await Sleep(static_cast<int64_t>(rng.Below(kJitterNs)));
  co_await VisitMount(client, std::move(dir));
}

// By its whole path, as a program does.
Task<void> SharedNamesWork::VisitMount(size_t client, DirPtr dir) {
  if (dir->lost || (dir->renames && *dir->renames != client)) co_return;
  const Visit visit(dir, client);
  SimKernel& kernel = cluster().kernel(client);
  const bool above = (co_await kernel.Lookup(vfs(client), kRoot, kRootInode, dir->name)).ok();
  if (above) kernel.SitIn(dir->ino);
  if (above && (co_await kernel.Lookup(vfs(client), kRoot, dir->ino, kMountPoint)).ok()) {
    Count(kernel.IsMounted(dir->ino, kMountPoint) ? "visits of mounts" : "mounts");
    kernel.MountOn(dir->ino, kMountPoint);
  }
  for (const std::string& what : kernel.detached()) Fail("detached on client " + std::to_string(client + 1) + ": " + what);
}

Task<void> SharedNamesWork::Act(size_t client, DirPtr dir, Op op, Random& rng) {
  const bool change = op.kind != Op::Kind::kLookup && op.kind != Op::Kind::kList;
  const Who who = Me(client);
  const size_t index = Begin(dir, op);
  if (change) dir->changed_ns[client] = INT64_MAX;
  StrikeClient(client);
  const Error error = co_await Do(client, dir, &op, rng);
  Answered(who, dir, index, op, error);
  if (op.kind == Op::Kind::kCreate && error.ok() && IsAlone(*dir) && dir->history.size() >= dir->alone) {
    dir->over = true;
    for (size_t c = 0; c < clients(); ++c) {
      if (c != client && cluster().client_up(c)) Spawn(c, Peek(c, dir, op.name, rng.Next()));
    }
  }
  if (change && error.ok()) Strike();
}

size_t SharedNamesWork::Begin(const DirPtr& dir, const Op& op) {
  dir->history.push_back({NowNs(), linear::kPending, op});
  return dir->history.size() - 1;
}

Task<Error> SharedNamesWork::Do(size_t client, DirPtr dir, Op* op, Random& rng) {
  Vfs& fs = vfs(client);
  switch (op->kind) {
    case Op::Kind::kLookup:
    case Op::Kind::kCreate: {
      const bool opens = op->kind == Op::Kind::kCreate && (IsAlone(*dir) || rng.OneIn(2));
      Result<EntryOut> r = FsError::kIo;
      const int64_t called_ns = NowNs();
      if (opens) {
        const uint64_t seed = rng.Next();
        auto opened = co_await fs.Create(kRoot, dir->ino, op->name, 0644, true, false, Flags(true));
        if (opened.ok()) {
          r = opened->entry;
          dir->open[r->attr.ino] = {Me(client), op->name, NowNs()};
          Spawn(client, Close(client, dir, r->attr.ino, std::move(opened->handle), seed));
        } else {
          r = opened.error();
        }
      } else if (op->kind == Op::Kind::kCreate) {
        r = co_await fs.MakeNode(kRoot, dir->ino, op->name, FileType::kFile, 0644, 0, "");
      } else {
        r = co_await cluster().kernel(client).Lookup(fs, kRoot, dir->ino, op->name);
      }
      if (!r.ok()) co_return r.error();
      op->file = r->attr.ino.v;
      if (const auto stamp = dir->stamps.find(r->attr.ino); stamp != dir->stamps.end()) {
        if (stamp->second.since_ns < called_ns) Shows(r->attr, stamp->second, "who looks it up");
      }
      if (dir->files.size() > 4) dir->files.erase(dir->files.begin());
      dir->files.push_back(r->attr.ino);
      co_return Error();
    }
    case Op::Kind::kUnlink: {
      co_return (co_await fs.Unlink(kRoot, dir->ino, op->name)).error();
    }
    case Op::Kind::kRename: {
      co_return (co_await fs.Rename(kRoot, dir->ino, op->name, dir->ino, op->to, false, false)).error();
    }
    case Op::Kind::kLink: {
      co_return (co_await fs.Link(kRoot, InodeId(op->file), dir->ino, op->to)).error();
    }
    case Op::Kind::kList: {
      auto r = co_await fs.ReadDir(kRoot, dir->ino, 0, 1000, true);
      if (!r.ok()) co_return r.error();
      for (const DirEntry& e : r->entries) {
        if (e.name != "." && e.name != ".." && e.name != kMountPoint) op->names.push_back(e.name);
      }
      std::sort(op->names.begin(), op->names.end());
      co_return Error();
    }
  }
  co_return Error();
}

void SharedNamesWork::Answered(const Who& who, const DirPtr& dir, size_t index, Op op, const Error& error) {
  Event& e = dir->history[index];
  Count("shared name operations");
  Trace("names " + std::to_string(dir->ino.v) + " " + NamesModel::Describe(op) + ": " + error.ToString());
  const bool definite = error.ok() || error.code == FsError::kNoEnt || error.code == FsError::kStale ||
                        error.code == FsError::kExist;
  if (!definite) {
    if (!Unknown(error.code)) Fail("operation on shared names: " + NamesModel::Describe(op) + ": " + error.ToString());
    Count("failed shared name operations");
    return;
  }
  op.error = error.ok() ? 0 : error.code == FsError::kExist ? EEXIST : ENOENT;
  e.op = std::move(op);
  e.returned = NowNs();
  auto changed = dir->changed_ns.find(who.client);
  if (changed != dir->changed_ns.end()) changed->second = e.returned;
  // It goes on, so it has said again what was lost.
  std::erase_if(dir->risks, [&](const Risk& r) {
    return r.who.client == who.client && r.who.session == who.session && r.at_ns < e.called &&
           Me(who.client).session == who.session;
  });
}

bool SharedNamesWork::Shows(const Attr& attr, const Stamp& stamp, const char* to) {
  if (attr.mode == stamp.mode && attr.mtime_ns == stamp.mtime_ns) return true;
  Fail(fmt::format("file {} shows {} mode {:o} and time {} instead of {:o} and {}", attr.ino.v, to, attr.mode, attr.mtime_ns,
                   stamp.mode, stamp.mtime_ns));
  return false;
}

Task<bool> SharedNamesWork::SetStamp(size_t client, InodeId ino, VfsHandlePtr h, Stamp stamp, Random& rng) {
  const Who who = Me(client);
  if (rng.OneIn(2) && !(co_await vfs(client).Write(kRoot, h, 0, Buffer::FromString("bytes"))).ok()) co_return false;
  SetAttrIn mode, time;
  mode.mode = stamp.mode;
  time.mtime_ns = stamp.mtime_ns;
  if (!(co_await vfs(client).SetAttr(kRoot, ino, mode)).ok()) co_return false;
  if (!(co_await vfs(client).SetAttr(kRoot, ino, time)).ok()) co_return false;
  Count("stamps");
  const auto now = co_await vfs(client).GetAttr(kRoot, ino);
  co_return now.ok() && Lives(who) && Shows(now->attr, stamp, "its maker");
}

Task<void> SharedNamesWork::Close(size_t client, DirPtr dir, InodeId ino, VfsHandlePtr h, uint64_t seed) {
  Random rng(seed);
  if (rng.OneIn(2)) co_await Sleep(static_cast<int64_t>(rng.Below(kOpenNs)));
  const Who who = Me(client);
  Stamp stamp;
  stamp.mode = 0600 + static_cast<uint32_t>(rng.Below(0100));
  stamp.mtime_ns = static_cast<int64_t>(rng.Below(1u << 30));
  const bool stamped = rng.OneIn(2) && co_await SetStamp(client, ino, h, stamp, rng);
  if ((co_await vfs(client).Flush(kRoot, h)).ok()) {
    // Its client's lease ran out before the server knew it: others may not have found it, and found it later.
    if (const Dir::Made& made = dir->open.at(ino); Me(client).era != made.who.era) dir->risks.push_back({kNobody, made.at_ns});
    dir->open.erase(ino);
    stamp.since_ns = NowNs();
    if (stamped && Lives(who)) dir->stamps[ino] = stamp;
  }
  (void)co_await vfs(client).Release(kRoot, std::move(h));
}

void SharedNamesWork::BeforePowerCut() {
  if (!dir_) return;
  for (const auto& [client, changed_ns] : dir_->changed_ns) {
    if (changed_ns != INT64_MAX && NowNs() - changed_ns > kSyncEveryNs) continue;
    // Of a client that is down no session ever comes back.
    dir_->risks.push_back({cluster().client_up(client) ? Me(client) : kNobody, NowNs()});
  }
  std::erase_if(dir_->stamps, [&](const auto& s) { return NowNs() - s.second.since_ns <= kSyncEveryNs; });
}

void SharedNamesWork::Check(const DirPtr& dir) {
  int64_t end_ns = INT64_MAX;
  for (const auto& [ino, made] : dir->open) {
    const bool up = cluster().client_up(made.who.client) && Me(made.who.client).session == made.who.session;
    if (up && Me(made.who.client).era != made.who.era) end_ns = std::min(end_ns, made.at_ns);
  }
  for (const Risk& r : dir->risks) {
    const bool back = r.who.session && cluster().client_up(r.who.client) && Me(r.who.client).session == r.who.session;
    if (!back) end_ns = std::min(end_ns, r.at_ns);
  }
  std::vector<Event> history;
  for (const Event& e : dir->history) {
    if (e.op.kind == Op::Kind::kCreate && e.op.error == 0 && e.returned < end_ns) {
      const auto open = dir->open.find(InodeId(e.op.file));
      if (open != dir->open.end() && open->second.name == e.op.name) {
        Op gone;
        gone.kind = Op::Kind::kUnlink;
        gone.client = e.op.client;
        gone.name = e.op.name;
        gone.two_lookups = false;
        history.push_back({e.returned, linear::kPending, gone});
        Count("files that may have gone with their client");
      }
    }
    const bool change = e.op.kind != Op::Kind::kLookup && e.op.kind != Op::Kind::kList;
    const bool open = e.returned == linear::kPending || e.returned >= end_ns;
    if (e.called >= end_ns || (open && !change)) continue;
    history.push_back(e);
    if (!open) continue;
    Event& last = history.back();
    last.returned = linear::kPending;
    last.op.error = 0;
    if (e.op.kind == Op::Kind::kCreate) last.op.file = NamesModel::kUnknown + history.size();
  }
  Count(end_ns == INT64_MAX ? "histories" : "histories cut short");
  const std::string wrong = linear::Explain<NamesModel>(history, {});
  if (!wrong.empty()) Fail("names of directory " + std::to_string(dir->ino.v) + ": " + wrong);
}

Task<void> SharedNamesWork::FinalChecks() {
  if (!dir_) co_return;
  Random rng(1);
  for (size_t c = 0; c < clients(); ++c) {
    for (size_t i = 0; i <= kNames; ++i) {
      Op op;
      op.kind = i == kNames ? Op::Kind::kList : Op::Kind::kLookup;
      op.client = static_cast<uint32_t>(c + 1);
      if (i < kNames) op.name = std::string(1, static_cast<char>('a' + i));
      const Who who = Me(c);
      const size_t index = Begin(dir_, op);
      const Error error = co_await Do(c, dir_, &op, rng);
      Answered(who, dir_, index, op, error);
    }
  }
  Check(dir_);
}

}  // namespace

std::unique_ptr<SimWork> MakeSharedNamesWork(SimWorld* world) { return std::make_unique<SharedNamesWork>(world); }

}  // namespace stria
