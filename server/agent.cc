#include "server/agent.h"

#include <algorithm>
#include <utility>

#include "common/exec/passed.h"
#include "common/log.h"

namespace stria {
namespace {

constexpr int64_t kMinBeatNs = 20 * kMillisecond;  // even if results come faster

}  // namespace

Agent::Agent(MetaLink* meta, DataConnector* connector, DataServer* server, TokenGate* gate,
             CodecSet* codecs, Pool* cpu_pool, std::vector<AgentDisk> disks, AgentOptions options)
    : meta_(meta),
      peers_(connector),
      server_(server),
      tokens_(gate),
      codecs_(codecs),
      cpu_pool_(cpu_pool),
      disks_(std::move(disks)),
      options_(std::move(options)),
      checks_(server, [this] { work_done_.Set(); }) {
  meta_->UseTerms(&server_->terms());
  if (options_.admin != nullptr) options_.admin->UseTerms(&server_->terms());
  server_->terms().OnClaim([this] { work_done_.Set(); });
}

Agent::~Agent() {
  server_->terms().OnClaim([] {});
}

OpHeader Agent::Header() const {
  OpHeader h;
  h.cluster = options_.cluster;
  h.timeout_ns = options_.call_timeout_ns;
  return h;
}

Task<void> Agent::Run() {
  if (options_.sweep) scope_.Spawn(SweepLoop());
  scrubbers_.resize(disks_.size());
  for (size_t i = 0; i < disks_.size(); ++i) scrub_scopes_.push_back(std::make_unique<TaskScope>());
  for (size_t i = 0; i < disks_.size(); ++i) StartScrub(i);
  if (options_.admin != nullptr && options_.scrub) scope_.Spawn(ScrubReportLoop());
  while (true) {
    if (registered_ && held_until_ns_ != 0 && Executor::Current().NowNs() >= held_until_ns_) {
      held_until_ns_ = 0;
      if (TryHeldBack(&disks_)) registered_ = false;
    }
    const bool registers = !registered_;
    Result<void> done = registers ? co_await Register() : co_await Beat();
    if (!done.ok() && registers && WithoutNewDisks(done.error())) continue;
    if (!done.ok()) {
      LogWarning("node {}: {}", options_.name, done.error());
      co_await Sleep(options_.retry_ns);
      continue;
    }
    co_await Sleep(kMinBeatNs);
    co_await WithTimeout(beat_ns_ - kMinBeatNs, Passed(&work_done_));
    work_done_.Reset();
  }
}

// The node goes on with the disks that it had. Whether one of the others is the reason is seen when it is registered without them.
bool Agent::WithoutNewDisks(const Error& refused) {
  const auto news = HoldBack(&disks_, refused);
  if (!news) return false;
  for (const size_t i : *news) LogError("disk {} of node {} is not used, {}", disks_[i].label, options_.name, disks_[i].refusal);
  held_until_ns_ = Executor::Current().NowNs() + kTryHeldBackNs;
  return true;
}

Task<Result<void>> Agent::Register() {
  RegisterNodeRequest request;
  request.header = Header();
  request.uuid = options_.node;
  request.name = options_.name;
  request.address = options_.address;
  request.incarnation = options_.incarnation;
  request.proof = options_.proof;
  const std::vector<size_t> told = RegisteredDisks(disks_);
  request.disks = HellosOf(disks_, told, options_.smart);
  for (size_t n = 0; n < told.size(); ++n) request.disks[n].proof = disks_[told[n]].proof;
  const uint64_t attached = attached_;
  co_await KeepTerms();
  CO_ASSIGN_OR_RETURN(RegisterNodeReply reply,
                      co_await meta_->Call(&MetaService::RegisterNode, std::move(request)));
  if (attached_ != attached) co_return Ok();  // its targets may be of other disks than are there now: again
  if (reply.targets.size() != told.size()) {
    co_return Error(FsError::kBadRequest, "the metadata server gave a malformed registration");
  }
  if (options_.cluster && reply.map.cluster != options_.cluster) {
    co_return Error(FsError::kWrongCluster, "the metadata server belongs to cluster " +
                                                reply.map.cluster.ToString() + ", these disks to " +
                                                options_.cluster.ToString());
  }
  SpreadOver(disks_.size(), told, &reply);
  co_await TakeLife(reply.map.said());
  if (options_.on_registered) CO_RETURN_IF_ERROR(co_await options_.on_registered(reply));
  if (attached_ != attached) co_return Ok();
  node_ = reply.node;
  epoch_ = reply.epoch;
  beat_ns_ = std::clamp<int64_t>(reply.beat_ns, 2 * kMinBeatNs, 60 * kSecond);
  options_.cluster = reply.map.cluster;
  const bool restored = options_.incarnation != 0 && reply.map.incarnation != options_.incarnation;
  options_.incarnation = reply.map.incarnation;
  for (size_t i = 0; i < disks_.size(); ++i) {
    AgentDisk& d = disks_[i];
    if (d.held_back) {
      if (d.store != nullptr) server_->DropStore(d.store);
      continue;
    }
    d.fresh = false;
    d.refusal.clear();
    d.target = reply.targets[i];
    if (i < reply.disk_proofs.size() && !reply.disk_proofs[i].empty()) d.proof = std::move(reply.disk_proofs[i]);
    if (d.store == nullptr) continue;
    server_->DropStore(d.store);
    if (d.target) server_->SetTarget(d.target, d.store);
    else LogKeptOut(d, reply.map);
  }
  server_->SetCluster(reply.map.cluster, reply.map.incarnation);
  tokens_->TakeKeys(reply.token_keys, reply.map.incarnation);
  server_->SetTokenTime(reply.token_time_ns);
  tokens_->TakeFenced(reply.fenced, server_->TokenTimeS());
  map_ = std::make_shared<const ClusterMap>(std::move(reply.map));
  map_term_ = map_->term;
  registered_ = true;
  LogInfo("registered as node {} ({}) with {} disks", node_, options_.name, told.size());
  if (restored) {
    LogWarning("the metadata was restored from a backup: the disks are compared with it");
    for (size_t i = 0; i < scrubbers_.size(); ++i) {
      if (scrubbers_[i]) scrub_scopes_[i]->Spawn(CompareSoon(i));
    }
  }
  co_return Ok();
}

// Another node has it, too: one of them is a copy, or it was carried here and that node has not missed it yet. Or it was carried here
// without what that node was given for it.
void Agent::LogKeptOut(const AgentDisk& d, const ClusterMap& map) const {
  const auto t = std::ranges::find_if(map.targets, [&](const TargetInfo& o) { return o.disk_uuid == d.uuid; });
  LogWarning("{} is not used while {} is: they say that they are the same disk, so that one is a copy of the other, or it has lost its identity",
             d.store->options().name, t == map.targets.end() ? "another" : "disk " + map.TargetName(t->id));
}

// A restart of the server, too, makes another map: it has the proof of the new life.
Task<Result<void>> Agent::RefreshMap(uint64_t version, uint64_t term) {
  if (map_->version == version && map_term_ == term) co_return Ok();
  InodeRequest request;
  request.header = Header();
  CO_ASSIGN_OR_RETURN(ClusterMap map, co_await meta_->Call(&MetaService::GetMap, std::move(request)));
  if (map.incarnation != options_.incarnation) registered_ = false;  // learn it properly
  map_ = std::make_shared<const ClusterMap>(std::move(map));
  map_term_ = term;
  co_await TakeLife(map_->said());
  co_return Ok();
}

Task<void> Agent::TakeLife(SaidTerm said) {
  server_->terms().Learn(said);
  co_await KeepTerms();
}

// Without a disk that can be written there is nothing to be deleted either: the node goes on. Before a metadata server has answered each disk
// keeps what it has: what one of them says may be false, and must not take the place of what the others say.
Task<void> Agent::KeepTerms() {
  const HeardTerms::Kept now = server_->terms().ToKeep();
  if (now.known.term == 0 || now == kept_ || !options_.keep_terms) co_return;
  const Result<void> done = co_await options_.keep_terms(now);
  if (done.ok()) kept_ = now;
  else LogWarning("node {}: life {} of the metadata server cannot be noted: {}", options_.name, now.known.term, done.error());
}

Task<Result<void>> Agent::Beat() {
  co_await KeepTerms();
  // The answer to a report says nothing of lives: while claims wait, the heartbeat asks of them first.
  if (!server_->terms().HasClaims()) CO_RETURN_IF_ERROR(co_await ReportResults());
  co_await ReportBadShards();
  HeartbeatRequest request;
  request.header = Header();
  request.node = node_;
  request.epoch = epoch_;
  request.disks = HellosOf(disks_, ToldDisks(disks_), options_.smart);
  const std::vector<size_t> leaving = LeavingDisks(disks_);
  request.rebuild_slots =
      static_cast<uint32_t>(options_.max_rebuilds - std::min(options_.max_rebuilds, rebuilding_));
  std::vector<std::string> silent = options_.unreachable ? options_.unreachable() : std::vector<std::string>();
  for (std::string& lost : peers_.Lost()) silent.push_back(std::move(lost));
  for (const NodeInfo& n : map_->nodes) {
    if (n.id != node_ && std::ranges::count(silent, n.address)) request.unreachable.push_back(n.id);
  }
  request.wall_ns = Executor::Current().WallNs();
  request.version = options_.version;
  Result<HeartbeatReply> reply = co_await meta_->Call(&MetaService::Heartbeat, std::move(request));
  if (reply.code() == FsError::kFenced || reply.code() == FsError::kStale ||
      (reply.ok() && reply->register_again)) {
    registered_ = false;
    co_return Ok();
  }
  if (!reply.ok()) co_return reply.error();
  for (const size_t i : leaving) disks_[i].left = true;
  co_await TakeLife({reply->term, 0});
  server_->SetTokenTime(reply->token_time_ns);
  tokens_->TakeKeys(reply->token_keys, options_.incarnation);
  tokens_->TakeFenced(reply->fenced, server_->TokenTimeS());
  CO_RETURN_IF_ERROR(co_await RefreshMap(reply->map_version, reply->term));
  LogDebug("heartbeat: {} deletes, {} rebuilds given, {} rebuilds under way", reply->deletes.size(),
           reply->rebuilds.size(), rebuilding_);
  TakeDeletes(std::move(reply->deletes));
  TakeRebuilds(std::move(reply->rebuilds));
  TakeWidens(std::move(reply->widens));
  checks_.Take(std::move(reply->checks));
  co_return Ok();
}

Task<Result<void>> Agent::ReportResults() {
  if (deleted_.empty() && rebuilt_.empty() && widened_.empty() && checks_.done().empty()) co_return Ok();
  ReportWorkRequest request;
  request.header = Header();
  request.node = node_;
  request.epoch = epoch_;
  for (const ShardId shard : deleted_) {
    if (request.deleted.size() == kMaxReportedShards) break;
    request.deleted.push_back(shard);
  }
  request.rebuilt = rebuilt_;
  request.widened = widened_;
  request.checked = checks_.done();
  const size_t checked = request.checked.size();
  const std::vector<ShardId> deleted = request.deleted;
  const size_t rebuilt = rebuilt_.size(), widened = widened_.size();
  Result<Empty> done = co_await meta_->Call(&MetaService::ReportWork, std::move(request));
  if (done.code() == FsError::kFenced || done.code() == FsError::kStale) registered_ = false;
  if (!done.ok()) co_return done.error();
  for (const ShardId shard : deleted) {
    deleted_.erase(shard);
    deleting_.erase(shard);
  }
  checks_.Reported(checked);
  for (size_t i = 0; i < rebuilt; ++i) tasks_.erase(rebuilt_[i].task);
  rebuilt_.erase(rebuilt_.begin(), rebuilt_.begin() + static_cast<ptrdiff_t>(rebuilt));
  for (size_t i = 0; i < widened; ++i) tasks_.erase(widened_[i].task);
  widened_.erase(widened_.begin(), widened_.begin() + static_cast<ptrdiff_t>(widened));
  co_return Ok();
}

// The node does not know the stripe (0): the metadata server finds it by the shard.
Task<void> Agent::ReportBadShards() {
  size_t left = kMaxBadReports;
  for (size_t n = 0; n < disks_.size(); ++n) {
    ShardStore* const store = disks_[n].store;  // the disk may be taken away while this waits
    if (store == nullptr) continue;
    const std::vector<ShardId> bad = store->TakeBadShards(left);
    left -= bad.size();
    for (size_t i = 0; i < bad.size(); ++i) {
      ReportShardRequest request;
      request.header = Header();
      request.shard = bad[i];
      request.reason = FsError::kChecksum;
      Result<Empty> done = co_await meta_->Call(&MetaService::ReportShard, std::move(request));
      if (done.ok() || done.code() == FsError::kNoEnt || done.code() == FsError::kNoSuchShard) continue;
      for (; i < bad.size(); ++i) store->MarkBad(bad[i]);  // again with the next heartbeat
      co_return;
    }
  }
}

// ---- Deletes --------------------------------------------------------------------------------------

void Agent::TakeDeletes(std::vector<DeleteWork> work) {
  std::vector<DeleteWork> fresh;
  for (DeleteWork& w : work) {
    if (deleting_.size() >= kMaxPendingDeletes) break;
    if (!deleting_.insert(w.shard).second) continue;
    fresh.push_back(std::move(w));
    if (fresh.size() == kMaxDataItems) scope_.Spawn(DeleteShards(std::exchange(fresh, {})));
  }
  if (!fresh.empty()) scope_.Spawn(DeleteShards(std::move(fresh)));
}

Task<void> Agent::DeleteShards(std::vector<DeleteWork> work) {
  DeleteRequest request;
  request.header.cluster = options_.cluster;
  request.header.incarnation = options_.incarnation;
  if (options_.self) request.header.peer = options_.self();
  for (const DeleteWork& w : work) request.items.push_back({w.shard, w.target, w.token});
  Result<DeleteReply> reply = co_await server_->Delete(std::move(request));
  for (size_t i = 0; i < work.size(); ++i) {
    const ShardId shard = work[i].shard;
    if (reply.ok() && reply->items[i].code == FsError::kOk) {
      deleted_.insert(shard);
    } else {
      deleting_.erase(shard);  // will be given again
    }
  }
  if (!deleted_.empty()) work_done_.Set();
}

// ---- Rebuilds -------------------------------------------------------------------------------------

void Agent::TakeRebuilds(std::vector<RebuildWork> work) {
  for (RebuildWork& w : work) {
    if (rebuilding_ >= options_.max_rebuilds) break;
    if (!tasks_.insert(w.task).second) continue;
    ++rebuilding_;
    scope_.Spawn(RebuildOne(std::move(w)));
  }
}

Task<void> Agent::RebuildOne(RebuildWork work) {
  RebuildResult result;
  result.task = work.task;
  const TokenUse use{.shard = work.new_shard, .target = work.new_target, .right = kTokenWrite};
  const std::shared_ptr<const Peer> self = options_.self ? options_.self() : nullptr;
  Result<void> allowed = tokens_->Check(work.write_token, use, self.get(), server_->TokenTimeS());
  ShardStore* store = server_->FindStore(work.new_target);
  if (allowed.ok() && store == nullptr) {
    allowed =
        Error(FsError::kNoSuchShard, "target " + std::to_string(work.new_target.v) + " is not on this node");
  }
  if (allowed.ok()) {
    RebuildEnv env;
    env.map = map_;
    env.connector = &peers_;
    env.codecs = codecs_;
    env.cpu_pool = cpu_pool_;
    env.store = store;
    env.gate = &server_->gate();
    result = co_await RunRebuild(std::move(work), std::move(env));
  } else {
    result.result = ItemResult{allowed.code(), allowed.error().message};
  }
  if (result.result.code != FsError::kOk) {
    LogWarning("rebuild {} failed: {}", result.task, result.result.error());
  } else {
    LogDebug("rebuild {}: {} bytes made from {}", result.task, result.length, result.bytes_read);
  }
  --rebuilding_;
  ++rebuilds_done_;
  rebuilt_.push_back(std::move(result));
  work_done_.Set();
}

void Agent::TakeWidens(std::vector<WidenWork> work) {
  for (WidenWork& w : work) {
    if (rebuilding_ >= options_.max_rebuilds) break;
    if (!tasks_.insert(w.task).second) continue;
    ++rebuilding_;
    scope_.Spawn(WidenOne(std::move(w)));
  }
}

Task<void> Agent::WidenOne(WidenWork work) {
  WidenEnv env{map_, &peers_, codecs_, cpu_pool_};
  WidenResult result = co_await RunWiden(std::move(work), std::move(env));
  if (result.result.code != FsError::kOk) {
    LogWarning("widening a stripe, task {}, failed: {}", result.task, result.result.error());
  }
  --rebuilding_;
  widened_.push_back(std::move(result));
  work_done_.Set();
}

// ---- Scrubs ---------------------------------------------------------------------------------------

void Agent::SetPace(size_t max_rebuilds, uint64_t scrub_bytes_per_s) {
  options_.max_rebuilds = max_rebuilds;
  options_.scrub_options.bytes_per_s = scrub_bytes_per_s;
  for (const auto& scrubber : scrubbers_) {
    if (scrubber != nullptr) scrubber->SetRate(scrub_bytes_per_s);
  }
}

void Agent::StartScrub(size_t disk) {
  if (!options_.scrub || disks_[disk].store == nullptr) return;
  scrubbers_[disk] = MakeScrubber(disk);
  scrub_scopes_[disk]->Spawn(scrubbers_[disk]->Run());
}

std::unique_ptr<Scrubber> Agent::MakeScrubber(size_t disk) {
  ShardStore* store = disks_[disk].store;
  ScrubHooks hooks;
  hooks.gate = &server_->gate();
  if (options_.admin == nullptr) return std::make_unique<Scrubber>(store, options_.scrub_options, std::move(hooks));
  hooks.compare = [this, disk](ShardId after, ShardId last, std::vector<HeldShard> held) {
    return CompareShards(disk, after, last, std::move(held));
  };
  hooks.lost = [this](ShardId shard) { return ReportLost(shard); };
  hooks.list_parity = [this, disk](ShardId after, ShardId last) { return ListParity(disk, after, last); };
  hooks.check_parity = [this](StripeGrant stripe) { return CompareParity(std::move(stripe)); };
  return std::make_unique<Scrubber>(store, options_.scrub_options, std::move(hooks));
}

Task<Result<ListParityReply>> Agent::ListParity(size_t disk, ShardId after, ShardId last) {
  ListParityRequest request;
  request.header = Header();
  request.target = disks_[disk].target;
  request.after = after;
  request.last = last;
  if (!registered_ || !request.target) co_return Error(FsError::kNotReady, "not registered");
  co_return co_await options_.admin->Call(&AdminService::ListParity, std::move(request));
}

Task<Result<ParityCheckResult>> Agent::CompareParity(StripeGrant stripe) {
  const StripeInfo info = stripe.info;
  ParityCheckEnv env{map_, &peers_, codecs_, cpu_pool_};
  CO_ASSIGN_OR_RETURN(ParityCheckResult result, co_await CheckParity(std::move(stripe), std::move(env)));
  for (const uint16_t column : result.wrong) {
    LogWarning("node {}: column {} of stripe {} does not have the written bytes", options_.name, column, info.id.v);
    ReportShardRequest request;
    request.header = Header();
    request.stripe = info.id;
    request.column = column;
    request.shard = info.columns[column].shard;
    CO_ASSIGN_OR_RETURN([[maybe_unused]] const Empty done, co_await meta_->Call(&MetaService::ReportShard, std::move(request)));
  }
  co_return result;
}

Task<Result<CompareShardsReply>> Agent::CompareShards(size_t disk, ShardId after, ShardId last,
                                                      std::vector<HeldShard> held) {
  CompareShardsRequest request;
  request.header = Header();
  request.target = disks_[disk].target;
  request.after = after;
  request.last = last;
  request.held = std::move(held);
  if (!registered_ || !request.target || options_.admin == nullptr) co_return Error(FsError::kNotReady, "not registered");
  co_return co_await options_.admin->Call(&AdminService::CompareShards, std::move(request));
}

Task<Result<void>> Agent::ReportLost(ShardId shard) {
  ReportShardRequest request;
  request.header = Header();
  request.shard = shard;
  request.reason = FsError::kNoSuchShard;
  Result<Empty> done = co_await meta_->Call(&MetaService::ReportShard, std::move(request));
  if (!done.ok()) co_return done.error();
  co_return Ok();
}

Task<Result<void>> Agent::ReportScrubs() {
  ReportScrubRequest request;
  request.header = Header();
  request.node = node_;
  request.epoch = epoch_;
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (!disks_[i].target || !scrubbers_[i]) continue;
    request.disks.push_back(scrubbers_[i]->progress());
    request.disks.back().target = disks_[i].target;
  }
  CO_ASSIGN_OR_RETURN(const ScrubOrder order, co_await options_.admin->Call(&AdminService::ReportScrub, std::move(request)));
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (scrubbers_[i]) scrubbers_[i]->Obey(order, std::ranges::count(order.targets, disks_[i].target) > 0);
  }
  co_return Ok();
}

Task<void> Agent::ScrubReportLoop() {
  while (true) {
    co_await Sleep(options_.scrub_report_ns);
    if (!registered_) continue;
    const Result<void> done = co_await ReportScrubs();
    if (!done.ok()) LogDebug("node {}: scrubs were not reported: {}", options_.name, done.error());
  }
}

// ---- Sweeps ---------------------------------------------------------------------------------------

Task<void> Agent::SweepLoop() {
  while (true) {
    co_await Sleep(options_.sweep_period_ns);
    if (!registered_) continue;
    for (size_t n = 0; n < disks_.size(); ++n) {
      const AgentDisk d = disks_[n];  // it may be taken away while this waits
      if (!d.target || d.store == nullptr || d.store->failed()) continue;
      Result<SweepResult> r =
          co_await SweepUnknown(d.target, d.store, meta_, Header(), options_.quarantine_hold_ns);
      if (!r.ok()) {
        LogWarning("sweep of {}: {}", d.store->options().name, r.error());
      } else if (r->unknown > 0) {
        LogInfo("sweep of {}: {} of {} shards are unknown, {} deleted", d.store->options().name, r->unknown,
                r->checked, r->deleted);
      }
    }
  }
}

// ---- Disks that come later ------------------------------------------------------------------------

void Agent::Attach(size_t i, ShardStore* store, Uuid disk, std::string proof) {
  AgentDisk& d = disks_.at(i);
  const bool is_new = d.uuid != disk;
  if (is_new) d.target = TargetId();  // of the disk in whose place it is
  d.uuid = disk;
  d.proof = std::move(proof);
  d.fresh = true;
  d.held_back = false;
  d.store = store;
  d.problem.clear();
  d.give_up = false;
  if (d.target) server_->SetTarget(d.target, store);
  registered_ = false;
  kept_ = {};  // it has to be noted there, too
  // It was let go under another number, and is back before that was told: it must not be named twice.
  for (AgentDisk& o : disks_) {
    if (o.leaves && o.uuid == disk) o.left = true;
  }
  ++attached_;
  work_done_.Set();
  if (scrubbers_.empty()) return;  // before Start
  StartScrub(i);
  if (scrubbers_[i] && !is_new) scrub_scopes_[i]->Spawn(CompareSoon(i));
}

void Agent::Expect(size_t i, Uuid disk, std::string proof) {
  AgentDisk& d = disks_.at(i);
  if (d.store != nullptr || (d.uuid == disk && d.target)) return;
  d.uuid = disk;
  d.proof = std::move(proof);
  d.fresh = true;
  d.held_back = false;
  d.target = TargetId();  // of the disk in whose place it is
  registered_ = false;
  ++attached_;
  work_done_.Set();
}

void Agent::Detach(size_t i, std::string problem) {
  AgentDisk& d = disks_.at(i);
  if (d.store != nullptr) server_->DropStore(d.store);
  d.store = nullptr;
  d.held_back = false;
  d.problem = std::move(problem);
  if (!scrubbers_.empty()) {
    scrub_scopes_[i] = std::make_unique<TaskScope>();
    scrubbers_[i].reset();
  }
  ++attached_;
  work_done_.Set();  // it is told at once
}

void Agent::AddDisk(AgentDisk disk) {
  disk.fresh = true;
  disks_.push_back(std::move(disk));
  if (!scrubbers_.empty()) {  // it runs
    scrubbers_.emplace_back();
    scrub_scopes_.push_back(std::make_unique<TaskScope>());
  }
  registered_ = false;
  ++attached_;
  work_done_.Set();
}

void Agent::Leave(size_t i, std::string problem) {
  AgentDisk& d = disks_.at(i);
  CHECK(d.store == nullptr, "a disk that serves is taken away");
  d.problem = std::move(problem);
  d.leaves = true;
  work_done_.Set();
}

void Agent::SetPlace(size_t i, Uuid disk, TargetId target) {
  CHECK(disks_.at(i).store == nullptr, "a disk that serves is another");
  disks_[i].uuid = disk;
  disks_[i].target = target;
}

// Finds lost shards of the disk without waiting for a scrub.
Task<void> Agent::CompareSoon(size_t disk) {
  while (true) {
    co_await Sleep(options_.retry_ns);
    const Result<void> done = co_await scrubbers_[disk]->CompareAll();
    if (!done.ok()) continue;
    LogInfo("{} was compared with the metadata: {} shards are missing or differ from what was written",
            disks_[disk].store->options().name, scrubbers_[disk]->progress().damaged);
    co_return;
  }
}

}  // namespace stria
