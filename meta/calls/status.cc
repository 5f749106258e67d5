// What status shows, the consistency check, and which files are meant.
#include <algorithm>

#include "meta/cluster/room_advice.h"
#include "meta/ops/fsck.h"
#include "meta/calls/admin_calls.h"
#include "meta/calls/admin_peer.h"

namespace stria {
namespace {

constexpr size_t kMaxLostFiles = 100;  // in a status

class Checking {
 public:
  explicit Checking(bool* flag) : flag_(flag) { *flag_ = true; }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;
  ~Checking() { *flag_ = false; }

 private:
  bool* const flag_;
};

}  // namespace

// What whoever may ask is told: of sessions a client's own ones.
StatusReply AdminCalls::StatusOfCaller(const OpHeader& h) const {
  StatusReply s;
  s.map = cluster_->state().Map();
  const bool is_client = h.peer && h.peer->role == Role::kClient;
  for (SessionId id : sessions_->table().All()) {
    const SessionRecord& record = *sessions_->table().Find(id);
    if (is_client && record.owner != OwnerOf(h)) continue;
    s.sessions.push_back({id, record.client, record.node_name, sessions_->table().LeaseLeftNs(id, core_->Now()), record.owner.name, sessions_->table().Io(id)});
  }
  s.wall_ns = core_->Wall();
  s.version = core_->options().version;
  return s;
}

// A client learns of its cluster what its map has, with a session or without. How many files and stripes there are, what is damaged,
// and who cannot reach a node, would tell of others.
Task<Result<StatusReply>> AdminCalls::Status(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  if (r.header.peer && r.header.peer->role == Role::kClient) co_return StatusOfCaller(r.header);
  CO_ASSIGN_OR_RETURN(const Damage damage, co_await rooms_->survey->DamageNow());
  StatusReply s = StatusOfCaller(r.header);
  s.files = core_->store().Count(Counter::kFiles);
  s.directories = core_->store().Count(Counter::kDirectories);
  s.stripes = core_->store().Count(Counter::kStripes);
  s.live_bytes = core_->store().Count(Counter::kLiveBytes);
  s.inline_bytes = core_->store().Count(Counter::kInlineBytes);
  s.narrow_stripes = core_->store().Count(Counter::kNarrow);
  s.crowded_stripes = core_->store().Count(Counter::kCrowded);
  s.garbage_shards = core_->store().Count(Counter::kGarbageShards);
  s.degraded_stripes = damage.degraded;
  s.lost_stripes = damage.lost.size();
  const bool named = IsAdminCall(*sessions_, r.header);  // files are named to admins only
  if (named) {
    CO_ASSIGN_OR_RETURN(s.lost_files, ListFilesOf(core_->store(), damage.lost, kMaxLostFiles, damage.gone));
  }
  s.repairs = rooms_->upkeep->repairer().Progress();
  s.repair_limit_bytes_per_s = static_cast<int64_t>(rooms_->upkeep->repairer().settings().limit_bytes_per_s);
  s.node_loss = co_await rooms_->survey->NodeLossNow();
  CO_ASSIGN_OR_RETURN(s.layouts, rooms_->survey->LackingRooms());
  if (const auto& exposure = rooms_->survey->exposure()) {
    s.thin_stripes = exposure->thin;
    if (named) {
      CO_ASSIGN_OR_RETURN(s.thin_files, ListFilesOf(core_->store(), exposure->some_thin, kMaxLostFiles));
    }
  }
  s.advice = RoomAdvice(cluster_->state(), core_->Wall());
  if (core_->room() != nullptr) {
    for (Advice& a : core_->room()->Told()) s.advice.push_back(std::move(a));
  }
  s.removed = cluster_->state().removed().All();
  co_return std::move(s);
}

// A client may ask only where nobody proves what he is, and then not of certificates.
Task<Result<ReadEventsReply>> AdminCalls::ReadEvents(ReadEventsRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  if (rooms_->events == nullptr) co_return Error(FsError::kNotSupported, "this metadata server keeps no events");
  const bool certificates = r.header.peer ? r.header.peer->role != Role::kClient : sessions_->IsAdmin(r.header);
  co_return co_await rooms_->events->Read(std::move(r), certificates);
}

Task<Result<FsckReply>> AdminCalls::Fsck(InodeRequest r) {
  CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "checks the metadata, which takes a while"));
  std::shared_ptr<KvStore> now = pool_ != nullptr ? core_->store().kv().Snapshot() : nullptr;
  // On this thread nothing changes meanwhile: everybody waits until it is done.
  if (now == nullptr) co_return CheckStore(core_->store().kv());
  // It takes memory for each inode and stripe.
  if (checking_) co_return Error(FsError::kBusy, "the metadata is being checked already: ask again when that is done");
  const Checking checking(&checking_);
  co_return co_await RunOn(*pool_, [now = std::move(now), stop = stop_] { return CheckStore(*now, stop.get()); });
}

// Whoever asks is told what listing directories would tell; an admin all.
Task<Result<NamesReply>> AdminCalls::Names(NamesRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  Txn txn(core_->store());
  CO_ASSIGN_OR_RETURN(PathsPage page, OpPaths(txn, coherence_->NamesCtx(r.header), r.ino, r.after));
  co_return NamesReply{std::move(page.paths), page.hidden, std::move(page.next)};
}

Task<Result<FilesReply>> AdminCalls::Files(FilesRequest r) {
  CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "is told which files these are"));
  co_return co_await rooms_->survey->Files(std::move(r), rooms_->upkeep->scrubs().Progress());
}

}  // namespace stria
