#include "client/fuse/fuse_adapter.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "client/fuse/request_buffers.h"
#include "common/check.h"

namespace stria {
namespace {

constexpr int kFirstGroupsRoom = 64;
constexpr int kMaxGroups = 65'536;
thread_local ReaderSlot* reader_slot = nullptr;

std::vector<uint32_t> AskGroups(fuse_req_t req) {
  std::vector<gid_t> groups(kFirstGroupsRoom);
  int n = fuse_req_getgroups(req, static_cast<int>(groups.size()), groups.data());
  if (n > static_cast<int>(groups.size())) {
    groups.resize(std::min(n, kMaxGroups));
    n = fuse_req_getgroups(req, static_cast<int>(groups.size()), groups.data());
  }
  // The groups of a caller that has gone, or lives in another pid namespace, cannot be known.
  groups.resize(std::clamp(n, 0, static_cast<int>(groups.size())));
  return std::vector<uint32_t>(groups.begin(), groups.end());
}

}  // namespace

FuseAdapter::FuseAdapter(Vfs& vfs, Executor& executor, FuseAdapterOptions options)
    : vfs_(vfs), executor_(executor), options_(std::move(options)), through_(options_.whole_file, options_.warn),
      thread_looks_(1, "callers"), replies_(1, "reply") {
  FuseKernelCache* names = options_.names;
  if (names == nullptr || !options_.where) return;
  moved_ = std::make_unique<MovedDirs>(options_.where, options_.walk, options_.in_use);
  names->WatchDirs([this](InodeId ino, InodeId dir, const std::string& name) {
    if (ino) {
      moved_->Changed(ino, {dir, name});
    } else {
      moved_->AllMayHaveMoved();
    }
  });
}

FuseAdapter::~FuseAdapter() {
  if (moved_) options_.names->WatchDirs(nullptr);
  while (!requests_.empty()) requests_.erase(requests_.begin());
}

fuse_lowlevel_ops FuseAdapter::Ops() {
  fuse_lowlevel_ops ops = {};
  AddNameOps(&ops);
  AddFileOps(&ops);
  AddDirOps(&ops);
  AddLockOps(&ops);
  return ops;
}

void FuseAdapter::SetFeatures(FuseFeatures features) {
  direct_io_mmap_ = features.direct_io_mmap;
  kill_priv_ = features.kill_priv;
  passthrough_ = features.passthrough;
}

FuseFeatures FuseAdapter::features() const { return {direct_io_mmap_, kill_priv_, passthrough_}; }

void FuseAdapter::SetReaderSlot(ReaderSlot* slot) { reader_slot = slot; }

Buffer FuseAdapter::TakePayload(const char* bytes, size_t size) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes);
  CHECK(reader_slot != nullptr, "not on a reader's thread");
  if (!RequestBuffers::WorthKeeping(size, reader_slot->payload_bytes)) return Buffer::Copy({data, size});
  reader_slot->taken = true;
  return Buffer(reader_slot->buffer, data, size);
}

const uint8_t* FuseAdapter::RawArguments() {
  CHECK(reader_slot != nullptr, "not on a reader's thread");
  return reader_slot->buffer.get() + sizeof(fuse_in_header);
}

FuseAdapter::Asker FuseAdapter::CallerOf(fuse_req_t req, bool groups_now) {
  const fuse_ctx* ctx = fuse_req_ctx(req);
  Asker asker;
  Caller& who = asker.who;
  who.uid = ctx->uid;
  who.gid = ctx->gid;
  who.umask = ctx->umask;
  if (options_.owner.IsOwner(who.uid)) {
    who.uid = options_.owner.as_uid;
    who.gid = options_.owner.as_gid;
    return asker;
  }
  // Root is not asked for its groups by any check of permissions.
  if (who.uid != 0 && ctx->pid != 0) {
    auto groups = groups_.Get(ctx->pid, who.uid, who.gid, executor_.NowNs(), [req] { return AskGroups(req); }, groups_now);
    who.groups = std::move(groups.ids);
    asker.groups_remembered = groups.remembered;
  }
  return asker;
}

void FuseAdapter::Begin(fuse_req_t req, OnInterrupt on_interrupt, Identity identity, Work work) {
  Asker asker;
  if (identity != Identity::kNone) asker = CallerOf(req, identity == Identity::kCallerNow);
  CHECK(reader_slot != nullptr, "not on a reader's thread");
  const auto* header = reinterpret_cast<const fuse_in_header*>(reader_slot->buffer.get());
  const FuseAsked asked{header->opcode, roots().FromNode(header->nodeid), header->pid, executor_.NowNs()};
  executor_.PostOrRun([this, req, on_interrupt, asker = std::move(asker), asked, work = std::move(work)]() mutable {
    Run(req, on_interrupt, std::move(asker), asked, std::move(work));
  });
}

void FuseAdapter::Forgotten(std::vector<fuse_forget_data> forgotten) {
  if (!options_.forgotten) return;
  executor_.PostOrRun([this, forgotten = std::move(forgotten)] {
    for (const fuse_forget_data& f : forgotten) options_.forgotten(f.ino, f.nlookup);
  });
}

void FuseAdapter::Run(fuse_req_t req, OnInterrupt on_interrupt, Asker asker, FuseAsked asked, Work work) {
  Reap();
  const uint64_t id = next_id_++;
  auto owned = std::make_unique<FuseRequest>(*this, req, id, on_interrupt, std::move(asker.who), asked);
  FuseRequest* r = owned.get();
  r->may_be_judged_again_ = asker.groups_remembered;
  if (options_.jobs && on_interrupt != OnInterrupt::kIgnore) {
    const bool opens = asked.opcode == FUSE_OPEN || asked.opcode == FUSE_CREATE;
    r->use_ = options_.jobs->Begin(asked.thread, opens, asked.at_ns);
  }
  requests_.emplace(id, std::move(owned));
  if (on_interrupt != OnInterrupt::kIgnore) {
    fuse_req_interrupt_func(req, &OnInterrupted, reinterpret_cast<void*>(id));
  }
  // A dying process closes its files one after another.
  const bool closes_dying = asked.opcode == FUSE_FLUSH && asked.thread != 0 && asked.thread == dying_;
  LookBy(asked.at_ns + (closes_dying ? 0 : kLookNs));
  r->task_.Spawn(Carry(this, r, std::move(work)));
}

void FuseAdapter::LookBy(int64_t when_ns) {
  if (look_.pending() && look_at_ns_ <= when_ns) return;
  look_at_ns_ = when_ns;
  executor_.StartTimer(&look_, when_ns, [this] { LookAtRunning(); });
}

void FuseAdapter::LookAtRunning() {
  Reap();
  const int64_t now_ns = executor_.NowNs();
  bool again_soon = false;
  RequestsOfThreads may_be_dying;
  for (auto& [id, r] : requests_) {
    if (!r->req_) continue;
    const int64_t waits_ns = now_ns - r->asked_.at_ns;
    // The kernel reports no signal for a dying process that closes its files, nor for a thread that waits for readahead pages.
    if (r->asked_.thread != 0 && r->on_interrupt_ != OnInterrupt::kIgnore) {
      const bool soon = r->interrupted_ || r->asked_.opcode == FUSE_FLUSH;
      again_soon = again_soon || soon;
      if (waits_ns >= (soon ? kLookForDyingNs : kLookNs) || r->asked_.thread == dying_) may_be_dying[r->asked_.thread].push_back(id);
    }
    if (r->asked_.opcode == FUSE_SETLKW) continue;
    SayIfSlow(*r, waits_ns);
    // The operation goes on, and no cache shows its change before its outcome is known. An operation that takes long for
    // another reason (an fsync of many bytes) is not given up.
    if (r->on_interrupt_ == OnInterrupt::kDetach && waits_ns >= options_.timeout_ns && vfs_.kernel_side().overdue(r->asked_.ino)) {
      r->too_late_ = true;
      GiveUp(id, Error(FsError::kTimedOut, r->asked_.ToString() + ": the metadata server does not say whether it was done"));
    }
  }
  if (!may_be_dying.empty() && !looking_for_dying_) looks_.Spawn(LetDyingGo(this, std::move(may_be_dying)));
  if (!requests_.empty()) LookBy(now_ns + (again_soon ? kLookForDyingNs : kLookNs));
}

Task<void> FuseAdapter::LetDyingGo(FuseAdapter* adapter, RequestsOfThreads asking) {
  adapter->looking_for_dying_ = true;
  const RequestsOfThreads dying = co_await RunOn(adapter->thread_looks_, [adapter, asking = std::move(asking)]() mutable {
    std::erase_if(asking, [adapter](const auto& a) { return !adapter->threads_.IsDying(a.first); });
    return std::move(asking);
  });
  adapter->looking_for_dying_ = false;
  for (const auto& [thread, requests] : dying) {
    adapter->dying_ = thread;
    for (const uint64_t id : requests) adapter->GiveUp(id, Error(FsError::kIntr));
  }
}

// The log names each slow request.
void FuseAdapter::SayIfSlow(FuseRequest& r, int64_t waits_ns) {
  if (!options_.slow || r.said_slow_ || waits_ns < kSlowNs) return;
  r.said_slow_ = true;
  options_.slow(r.asked_.ToString() + " has not been answered for " + std::to_string(waits_ns / kSecond) +
                " s: " + vfs_.report().Describe(r.asked_.ino));
}

Task<void> FuseAdapter::Carry(FuseAdapter* adapter, FuseRequest* request, Work work) {
  co_await work(*adapter, request);
  if (request->refused_ != FsError::kOk && request->req_) {
    // Refused by groups that the caller had a moment ago. It has done nothing.
    request->may_be_judged_again_ = false;
    Caller now = adapter->CallerOf(request->req_, true).who;
    if (now.groups == request->who.groups) {
      request->Fail(request->refused_);
    } else {
      request->who = std::move(now);
      co_await work(*adapter, request);
    }
  }
  CHECK(request->req_ == nullptr, "an operation ended without a reply");
  // The kernel was told that it did nothing (at EINTR it forgets attributes by itself).
  if (request->given_up_ && request->too_late_) adapter->vfs_.kernel_side().ChangeInDoubt(request->asked_.ino);
  request->grace_.Cancel();
  adapter->finished_.push_back(request->id_);
  if (adapter->running() == 0) adapter->idle_.Pulse();
}

void FuseAdapter::Reap() {
  for (uint64_t id : finished_) requests_.erase(id);
  finished_.clear();
}

// On a reader's thread, or inside fuse_req_interrupt_func.
void FuseAdapter::OnInterrupted(fuse_req_t req, void* id) {
  FuseAdapter* adapter = &Of(req);
  adapter->executor_.Post([adapter, id = reinterpret_cast<uint64_t>(id)] { adapter->Interrupted(id); });
}

void FuseAdapter::Interrupted(uint64_t id) {
  auto it = requests_.find(id);
  if (it == requests_.end() || !it->second->req_) return;
  FuseRequest& r = *it->second;
  r.interrupted_ = true;
  if (r.when_interrupted_) r.when_interrupted_();
  if (r.on_interrupt_ == OnInterrupt::kEnd) {
    executor_.StartTimer(&r.grace_, executor_.NowNs() + kInterruptGraceNs, [this, id] { GiveUp(id, Error(FsError::kIntr)); });
  }
  LookBy(executor_.NowNs() + kLookForDyingNs);
}

void FuseAdapter::GiveUp(uint64_t id, const Error& error) {
  auto it = requests_.find(id);
  if (it == requests_.end() || !it->second->req_) return;
  FuseRequest& r = *it->second;
  r.given_up_ = true;
  r.Fail(error);
  if (r.on_interrupt_ != OnInterrupt::kCancel) return;
  requests_.erase(it);
  if (running() == 0) idle_.Pulse();
}

uint64_t FuseAdapter::AddFile(FuseFilePtr file) {
  files_.emplace(next_handle_, std::move(file));
  return next_handle_++;
}

FuseFilePtr FuseAdapter::File(uint64_t fh) const {
  auto it = files_.find(fh);
  return it == files_.end() ? nullptr : it->second;
}

uint64_t FuseAdapter::AddDir(FuseDirPtr dir) {
  dirs_.emplace(next_handle_, std::move(dir));
  return next_handle_++;
}

FuseDirPtr FuseAdapter::Dir(uint64_t fh) const {
  auto it = dirs_.find(fh);
  return it == dirs_.end() ? nullptr : it->second;
}

Task<void> FuseAdapter::Drain(int64_t timeout_ns) {
  const int64_t until_ns = executor_.NowNs() + timeout_ns;
  for (auto& [id, r] : requests_) {
    r->interrupted_ = true;
    if (r->when_interrupted_) r->when_interrupted_();
  }
  while (running() > 0 && executor_.NowNs() < until_ns) {
    (void)co_await WithTimeout(until_ns - executor_.NowNs(), [](FuseAdapter* a) -> Task<bool> {
      co_await a->idle_.Wait();
      co_return true;
    }(this));
  }
  Reap();
  requests_.clear();
  (void)co_await RunOn(replies_, [] { return true; });  // the last of them is out
}

FuseAdapter::Moving::Moving(FuseAdapter* adapter, InodeId dir, const std::string& name) : adapter_(adapter), key_(dir, name) {
  const FuseKernelCache* names = adapter->options_.names;
  if (const InodeId ino = names ? names->DirOf(dir, name) : InodeId()) adapter->moves_.Begin(dir, name, ino);
}

Task<void> FuseAdapter::Moving::Done(uint32_t thread) {
  FuseKernelCache* const names = adapter_->options_.names;
  if (names) co_await names->WaitToMove(key_.first, key_.second);
  if (!adapter_->moves_.IsMoving(key_.first, key_.second)) co_return;
  adapter_->moves_.Answered(key_.first, key_.second, thread, names->BelievedTo(key_.first, key_.second));
}

Task<Result<void>> KillPrivileges(Vfs& vfs, Caller who, InodeId ino, uint32_t mode) {
  if ((mode & (S_ISUID | S_ISGID)) == 0) co_return Ok();
  SetAttrIn in;
  in.kill_suid = true;
  CO_RETURN_IF_ERROR(co_await vfs.SetAttr(std::move(who), ino, std::move(in)));
  // The kernel did not ask for this change: it believes in the mode that it has.
  co_await vfs.kernel_side().ForgetShown(ino);
  co_return Ok();
}

void FuseAdapter::Warn(const Error& error) {
  if (!options_.warn) return;
  const int64_t second = executor_.NowNs() / kSecond;
  if (second != warn_second_) {
    warn_second_ = second;
    warnings_ = 0;
  }
  if (++warnings_ <= kMaxWarningsPerSecond) options_.warn(error.ToString());
}

void FuseAdapter::WarnFromReader(const Error& error) {
  executor_.Post([this, error] { Warn(error); });
}

}  // namespace stria
