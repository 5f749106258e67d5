#include "server/disk_watch.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/exec/passed.h"
#include "common/exec/pool.h"
#include "common/log.h"
#include "server/detach.h"
#include "server/disk_place.h"

namespace stria {
namespace {

// kNotReady when there is, where something else had filled the disk. Blocks.
Error RoomAgain(const std::string& path, uint64_t wanted) {
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(path, error);
  if (error || room.available < wanted) return Error();
  return Error(FsError::kNotReady, "disk " + path + " has room for its index again, and is opened anew");
}

}  // namespace

void DiskWatch::Start() {
  leaves_.resize(disks_->size());
  for (size_t i = 0; i < disks_->size(); ++i) scope_.Spawn(Follow(i));
}

// What it waits for may never come. Nothing of it is lost: a disk is as it would be after a crash.
Task<void> DiskWatch::Follow(size_t i) {
  {
    TaskScope kept;
    kept.Spawn(Keep(i));
    co_await leaves_[i].Wait();
  }
  Drop(i);
}

Task<void> DiskWatch::Keep(size_t i) {
  // Also a disk whose index opened, and then could not be read.
  const bool damaged = (*disks_)[i].index && node_->problem(i).code == FsError::kCorrupt;
  if ((*disks_)[i].reindex || damaged) co_await MakeIndexAgain(i);
  while (true) {
    if ((*disks_)[i].disk) co_await AwaitEnd(i);
    else co_await TakeWhatIsThere(i);
  }
}

DiskChanges DiskWatch::TakeSettings(const std::vector<DiskSpec>& wanted) {
  std::vector<DiskSpec> now;
  for (size_t i = 0; i < disks_->size(); ++i) now.push_back(leaves_[i].is_set() ? DiskSpec() : (*disks_)[i].spec);
  DiskChanges changes = CompareDisks(now, wanted);
  for (const std::string& path : changes.later) LogWarning("disk {}: its other label or channel counts after a restart", path);
  for (const size_t i : changes.dropped) leaves_[i].Set();
  for (const DiskSpec& spec : changes.added) {
    OpenDisk d;
    d.spec = spec;
    d.where = "disk " + spec.path;
    d.problem = Error(FsError::kNotReady, d.where + " is new in the settings, and is looked for");
    LogInfo("{}", d.problem.message);
    const size_t i = node_->AddDisk(d.ForNode());
    disks_->push_back(std::move(d));
    leaves_.emplace_back();
    scope_.Spawn(Follow(i));
  }
  return changes;
}

void DiskWatch::Drop(size_t i) {
  OpenDisk& d = (*disks_)[i];
  const Error why(FsError::kNoEnt, d.where + " is not in the settings of stria-data any more: it can be unmounted");
  if (d.disk) LetGo(i, why);
  else LogInfo("{}", why.message);
  node_->DropDisk(i, why);
  d.spec = DiskSpec();
}

// A disk whose index is lost or damaged; the others serve meanwhile.
Task<void> DiskWatch::MakeIndexAgain(size_t i) {
  OpenDisk& d = (*disks_)[i];
  const Result<void> expected = co_await node_->Expect(i, d.ForNode());
  if (!expected.ok()) co_return co_await KeepOut(i, expected.error());
  LogWarning("{}: making its index again, from everything that is on it", d.where);
  Result<ReindexResult> r = co_await MakeIndex(&d, env_);
  Result<void> done = r.ok() ? Result<void>(Ok()) : Result<void>(r.error());
  size_t proved = 0;
  if (done.ok() && !r->unproved.empty()) {
    std::vector<UnprovedShard> known = co_await node_->Prove(i, std::move(r->unproved));
    proved = known.size();
    done = co_await IndexProved(d.index.get(), d.index_pool.get(), std::move(known));
  }
  if (done.ok()) done = TakeIndex(&d, env_);
  if (done.ok()) done = co_await node_->Attach(i, d.ForNode());
  if (!done.ok()) {
    LogError("{}: its index cannot be made again: {}; replace the disk", d.where, done.error());
    co_return;
  }
  local_->Add(node_->stores()[i].get(), d.disk.get());
  LogInfo("{}: {} shards, {} bytes found, {} more known by the metadata; {} damaged, {} bad segments of {}; the disk "
          "serves again", d.where, r->shards, r->bytes, proved, r->damaged, r->bad_segments,
          r->segments + r->bad_segments);
}

// Until the disk is not there any more, or an admin has taken it out. One that hangs does not say whether it is there, and an admin may
// take it out nevertheless.
Task<void> DiskWatch::AwaitEnd(size_t i) {
  Error gone, answer;
  Event answered;
  TaskScope look;
  while (gone.ok()) {
    co_await Sleep(times_.look_for_disk_ns);
    const OpenDisk& d = (*disks_)[i];
    if (!d.superblock.own) {
      gone = node_->problem(i);  // not yet a disk of this node: its place is looked at anew
      continue;
    }
    gone = TakenOut(d.superblock.own);
    if (!gone.ok()) continue;
    if (!d.index_pool) {
      gone = LookForDisk(d.spec.path, d.place, d.superblock.own);
      continue;
    }
    if (look.running() == 0) {
      answered.Reset();
      const ShardStore* const store = node_->stores()[i].get();
      const uint64_t wanted = store != nullptr && store->out_of_room() ? store->room_for_index() : 0;
      look.Spawn(RunOn(*d.index_pool,
                       [path = d.spec.path, place = d.place, disk = d.superblock.own, wanted] {
                         Error gone_now = LookForDisk(path, place, disk);
                         if (gone_now.ok() && wanted > 0) gone_now = RoomAgain(path, wanted);
                         return gone_now;
                       }),
                 [&](Error said) {
                   answer = std::move(said);
                   answered.Set();
                 });
    }
    if (co_await WithTimeout(times_.look_for_disk_ns, Passed(&answered))) gone = answer;
  }
  LetGo(i, gone);
}

Error DiskWatch::TakenOut(const Uuid& disk) const {
  const auto& map = node_->agent().map();
  if (!map || !disk) return Error();
  const auto t = std::ranges::find_if(map->targets, [&](const TargetInfo& o) { return o.disk_uuid == disk; });
  if (t == map->targets.end() || t->node != node_->agent().node()) return Error();
  const std::string name = map->TargetName(t->id);
  if (t->state == TargetState::kRemoved) {
    return Error(FsError::kPerm, "disk " + name + " was removed from the cluster: it can be unmounted, and another put in its place; "
                                 "to use it again:  stria disk add " + name);
  }
  if (t->state != TargetState::kOut) return Error();
  return Error(FsError::kPerm, "disk " + name + " is out: it can be unmounted, and another put in its place");
}

void DiskWatch::LetGo(size_t i, const Error& why) {
  OpenDisk& d = (*disks_)[i];
  if (const ShardStore* store = node_->stores()[i].get()) local_->Remove(store);
  node_->Detach(i, why);
  if (d.index) {
    // Closing may wait for the disk.
    std::shared_ptr<KvStore> kv = d.index->Remove(why);
    if (d.index_pool) d.index_pool->Submit([kv = std::move(kv)]() mutable { kv.reset(); });
  }
  d.disk->Remove(why);
  OpenDisk empty;
  empty.spec = d.spec;
  empty.where = d.where;
  empty.problem = why;
  gone_.push_back(std::exchange(d, std::move(empty)));
}

Task<void> DiskWatch::KeepOut(size_t i, Error why) {
  refused_[i] = {(*disks_)[i].superblock.own, why, Executor::Current().NowNs() + times_.try_refused_again_ns};
  co_await Refuse(i, std::move(why));
}

// A disk that the node does not take, such as a copy: nothing has used it, so nothing of it is kept. It may lie there for weeks.
Task<void> DiskWatch::Refuse(size_t i, Error why) {
  if (node_->has_disk(i)) co_return LetGo(i, why);
  node_->Detach(i, why);
  OpenDisk empty;
  empty.spec = (*disks_)[i].spec;
  empty.where = (*disks_)[i].where;
  empty.problem = why;
  co_await RunIn(scope_, Close(std::exchange((*disks_)[i], std::move(empty)), std::move(why)));
}

Task<bool> DiskWatch::Close(OpenDisk d, Error why) {
  if (d.index) {
    std::shared_ptr<KvStore> kv = d.index->Remove(why);
    if (d.index_pool) co_await RunOn(*d.index_pool, [kv = std::move(kv)]() mutable { return kv.reset(), true; });  // may wait for the disk
  }
  d.disk->Remove(why);
  co_return true;
}

Task<void> DiskWatch::TakeWhatIsThere(size_t i) {
  while (true) {
    const Result<bool> taken = co_await TryPlace(i);
    if (taken.ok() && *taken) co_return;
    if (!taken.ok()) node_->SetProblem(i, taken.error());
    // A new disk is made as soon as the node is registered.
    co_await Sleep(node_->agent().registered() ? times_.look_at_place_ns : kAwaitRegistrationNs);
  }
}

// False: nothing that may be used is there, for the reason that the node knows.
Task<Result<bool>> DiskWatch::TryPlace(size_t i) {
  if (!node_->agent().registered()) co_return false;
  const DiskSpec spec = (*disks_)[i].spec;
  if (const Result<Uuid> there = DiskAt(spec.path); there.ok()) {
    if (Error out = TakenOut(*there); !out.ok()) co_return out;
    const auto before = refused_.find(i);
    if (before != refused_.end() && before->second.disk == *there && Executor::Current().NowNs() < before->second.until_ns) {
      co_return before->second.why;
    }
  }
  // To its end, though nobody wait for it any more: a disk that is half open must not be closed on this thread if it hangs.
  CO_ASSIGN_OR_RETURN(OpenDisk d, co_await RunIn(scope_, OpenDataDisk(spec, env_, false)));
  if (d.is_new && node_->PlaceIsFree(i)) {
    CO_ASSIGN_OR_RETURN(d, co_await RunIn(scope_, OpenDataDisk(spec, env_, true)));
  }
  if (d.is_new) co_return false;
  if (!d.problem.ok() && !d.reindex) co_return d.problem;  // not there while it is being mounted, perhaps
  OpenDisk& mine = (*disks_)[i] = std::move(d);
  if (mine.reindex) {
    co_await MakeIndexAgain(i);
    co_return true;
  }
  const Result<void> done = co_await node_->Attach(i, mine.ForNode());
  if (!done.ok()) {
    co_await KeepOut(i, done.error());
    co_return false;
  }
  refused_.erase(i);
  local_->Add(node_->stores()[i].get(), mine.disk.get());
  co_return true;
}

}  // namespace stria
