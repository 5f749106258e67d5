#include "server/data_node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "server/term_file.h"

namespace stria {
namespace {

constexpr size_t kTriesPerExpect = 10;

size_t PiecesFor(const DataServerOptions& options, size_t disks) { return std::max(options.background.pieces, kBackgroundPiecesPerDisk * disks); }

DataServerOptions ForDisks(DataServerOptions options, size_t disks) {
  options.background.pieces = PiecesFor(options, disks);
  return options;
}

std::string CopyOf(const DataNodeDisk& copy, const DataNodeDisk& original) {
  return copy.where + " says that it is the same disk as " + original.where +
         ": one is a copy of the other, and this one is left alone; to use it as a new disk, empty its directory";
}

}  // namespace

DataNode::DataNode(std::vector<DataNodeDisk> disks, DataNodeOptions options)
    : disks_(std::make_move_iterator(disks.begin()), std::make_move_iterator(disks.end())),
      options_(std::move(options)),
      gate_(options_.keys),
      server_(&gate_, ForDisks(options_.server, disks_.size())),
      backups_(&gate_, &server_, options_.name, [this] { return BackupDisks(); }) {}

// Also disks without an index: their files can be read.
std::vector<BackupDisk> DataNode::BackupDisks() const {
  std::vector<BackupDisk> out;
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (disks_[i].disk == nullptr) continue;
    const ShardStore* store = i < stores_.size() ? stores_[i].get() : nullptr;
    BackupDisk d{disks_[i].disk, store != nullptr && !store->failed(), 0};
    if (d.writable) d.free_bytes = store->Usage().free_bytes;
    out.push_back(d);
  }
  return out;
}

Task<Result<void>> DataNode::OpenStore(size_t i) {
  const DataNodeDisk& d = disks_[i];
  ShardStoreOptions options;
  options.disk = d.superblock.own;
  options.name = d.where;
  options.background = options_.store_background;
  auto store = std::make_unique<ShardStore>(d.disk, d.kv, d.index_pool, cpu_pool_, options);
  CO_RETURN_IF_ERROR(co_await store->Open());
  stores_[i] = std::move(store);
  const DiskUsage usage = stores_[i]->Usage();
  LogInfo("{}: label {}, {} shards, {} bytes used, {} free", d.where, d.label, usage.shards, usage.used_bytes,
          usage.free_bytes);
  co_return Ok();
}

// Two disks with one identity: one is a copy of the other, and lists the same shards, perhaps old. The disk that has the label
// of its slot is more likely the original; otherwise the first.
void DataNode::KeepCopiesOut() {
  for (size_t i = 0; i < disks_.size(); ++i) {
    for (size_t j = i + 1; j < disks_.size(); ++j) {
      if (!disks_[i].superblock.own || disks_[i].superblock.own != disks_[j].superblock.own) continue;
      const auto in_its_slot = [](const DataNodeDisk& d) { return d.label == d.superblock.label; };
      const bool first = in_its_slot(disks_[i]) || !in_its_slot(disks_[j]);
      DataNodeDisk& copy = disks_[first ? j : i];
      copy.problem = Error(FsError::kExist, CopyOf(copy, disks_[first ? i : j]));
      copy.superblock.own = Uuid();  // it has no identity
      copy.kv = nullptr;
      copy.give_up = false;
    }
  }
}

Task<void> DataNode::OpenStores() {
  stores_.resize(disks_.size());
  identities_.resize(disks_.size());
  for (size_t i = 0; i < disks_.size(); ++i) {
    DataNodeDisk& d = disks_[i];
    if (d.label.empty()) d.label = d.superblock.label;
    if (d.disk != nullptr && d.problem.code != FsError::kExist) {
      Result<DiskIdentity> identity = co_await ReadIdentity(d.disk);
      if (identity.ok()) identities_[i] = *std::move(identity);
      else if (d.problem.ok()) d.problem = identity.error().WithContext(d.where);
      const Result<HeardTerms::Kept> terms = co_await ReadTerms(d.disk);
      if (terms.ok()) server_.terms().Load(*terms);
    }
    if (d.problem.ok() && d.kv == nullptr) d.problem = Error(FsError::kCorrupt, d.where + " has no index");
    if (d.problem.ok()) {
      Result<void> opened = co_await OpenStore(i);
      if (!opened.ok()) d.problem = opened.error().WithContext(d.where);
    }
    if (d.problem.ok() || d.is_new) continue;
    // Which deleted shards it would bring back cannot be known; an index can be made again.
    if (d.problem.code == FsError::kDiskFailed || d.problem.code == FsError::kIo) d.give_up = true;
    LogError("{}; going on without it", d.problem);
  }
}

Result<Uuid> DataNode::AgreeOnCluster() const {
  const DataNodeDisk* first = nullptr;
  for (const DataNodeDisk& d : disks_) {
    if (!d.superblock.cluster) continue;
    if (first == nullptr) first = &d;
    if (d.superblock.cluster != first->superblock.cluster) {
      return Error(FsError::kWrongCluster,
                   first->where + " and " + d.where + " belong to different clusters");
    }
  }
  return first == nullptr ? Uuid() : first->superblock.cluster;
}

// Superblocks and identities, where they have changed.
Task<Result<void>> DataNode::Adopt(RegisterNodeReply reply) {
  for (size_t i = 0; i < reply.targets.size(); ++i) {
    if (!stores_[i] || stores_[i]->failed() || !reply.targets[i]) continue;
    // The disk may be let go while this waits.
    const DataNodeDisk d = disks_[i];
    const auto is_there = [this, i, disk = d.disk] { return stores_[i] != nullptr && disks_[i].disk == disk; };
    Superblock superblock = d.superblock;
    Result<void> adopted = co_await AdoptCluster(d.disk, &superblock, reply.map.cluster, reply.map.incarnation, d.label);
    if (!is_there()) continue;
    CO_RETURN_IF_ERROR(std::move(adopted));
    disks_[i].superblock = superblock;
    const bool given = i < reply.disk_proofs.size() && !reply.disk_proofs[i].empty();
    const std::string& proof = given ? reply.disk_proofs[i] : identities_[i].proof;
    const DiskIdentity identity{reply.targets[i], reply.map.incarnation, node_, options_.name, proof};
    if (identity == identities_[i]) continue;
    Result<void> kept = co_await WriteIdentity(d.disk, identity);
    if (!is_there()) continue;
    if (!kept.ok()) co_return kept.error().WithContext(d.where);
    identities_[i] = identity;
  }
  co_return Ok();
}

Task<Result<void>> DataNode::KeepTerms(HeardTerms::Kept kept) {
  std::vector<Disk*> disks;
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (stores_[i] && !stores_[i]->failed() && !stores_[i]->silence().silent()) disks.push_back(disks_[i].disk);
  }
  co_return co_await WriteTermsOn(std::move(disks), kept);
}

Task<Result<std::unique_ptr<DataNode>>> DataNode::Open(std::vector<DataNodeDisk> disks, DataNodeEnv env,
                                                       DataNodeOptions options) {
  std::unique_ptr<DataNode> node(new DataNode(std::move(disks), std::move(options)));
  CO_ASSIGN_OR_RETURN(const Uuid cluster, node->AgreeOnCluster());
  node->cpu_pool_ = env.cpu_pool;
  node->KeepCopiesOut();
  co_await node->OpenStores();
  std::vector<std::pair<std::string, DiskIdentity>> owners;
  for (size_t i = 0; i < node->disks_.size(); ++i) {
    owners.emplace_back(node->disks_[i].where, node->identities_[i]);
  }
  CO_ASSIGN_OR_RETURN(const Uuid owner, AgreeOnNode(node->options_.name, owners));

  AgentOptions agent = node->options_.agent;
  agent.cluster = cluster;
  agent.node = node->node_ = owner ? owner : node->options_.new_node;
  agent.name = node->options_.name;
  agent.address = node->options_.address;
  // One with a certificate may have no key: the connection proves which node it is.
  if (!node->options_.keys.empty()) agent.proof = TokenSigner(node->options_.keys.front()).ProveNode(agent.node, agent.name);
  std::vector<AgentDisk> agent_disks;
  for (size_t i = 0; i < node->disks_.size(); ++i) {
    const DataNodeDisk& d = node->disks_[i];
    const DiskIdentity& identity = node->identities_[i];
    agent.incarnation = std::max(agent.incarnation, identity.incarnation);
    AgentDisk disk;
    disk.store = node->stores_[i].get();
    disk.uuid = d.superblock.own;
    disk.label = d.label;
    disk.channel = d.channel;
    disk.target = identity.target;
    disk.proof = identity.proof;
    disk.problem = d.problem.message;
    disk.give_up = d.give_up;
    if (disk.target && disk.store != nullptr) node->server_.SetTarget(disk.target, disk.store);
    agent_disks.push_back(std::move(disk));
  }
  if (cluster && agent.incarnation > 0) node->server_.SetCluster(cluster, agent.incarnation);
  DataNode* self = node.get();
  node->peers_ = std::make_unique<NotedConnector>(env.data);
  agent.unreachable = [self] { return self->peers_->Failed(); };
  agent.on_registered = [self](const RegisterNodeReply& reply) { return self->Adopt(reply); };
  agent.keep_terms = [self](HeardTerms::Kept kept) { return self->KeepTerms(std::move(kept)); };
  node->metas_ = std::make_shared<MetaPeers>(node->options_.meta_addresses);
  node->link_ = std::make_unique<MetaLink>(env.meta, node->metas_);
  if (env.admin != nullptr) {
    node->admin_link_ = std::make_unique<AdminLink>(env.admin, node->metas_);
    agent.admin = node->admin_link_.get();
  }
  if (env.members != nullptr) {
    node->locator_ = std::make_unique<MetaLocator>(env.members, node->metas_.get(), [self] { return self->server_.cluster(); });
    node->link_->UseLocator(node->locator_.get());
    if (node->admin_link_) node->admin_link_->UseLocator(node->locator_.get());
  }
  node->agent_ =
      std::make_unique<Agent>(node->link_.get(), node->peers_.get(), &node->server_, &node->gate_, &node->codecs_,
                              env.cpu_pool, std::move(agent_disks), std::move(agent));
  co_return std::move(node);
}

void DataNode::Start() {
  if (locator_) locator_->Start();
  agent_->Start();
}

Task<Result<bool>> DataNode::IsKnown(size_t i, const UnprovedShard& u) {
  const ShardId before(u.shard.v - 1);
  CO_ASSIGN_OR_RETURN(const CompareShardsReply without, co_await agent_->CompareShards(i, before, u.shard, {}));
  if (without.missing.empty()) co_return false;  // no live stripe has it there
  std::vector<HeldShard> held = {{u.shard, u.record.digest}};
  CO_ASSIGN_OR_RETURN(const CompareShardsReply with, co_await agent_->CompareShards(i, before, u.shard, std::move(held)));
  co_return with.wrong.empty() && with.missing.empty();
}

Task<std::vector<UnprovedShard>> DataNode::Prove(size_t i, std::vector<UnprovedShard> shards) {
  std::vector<UnprovedShard> out;
  for (UnprovedShard& u : shards) {
    Result<bool> known = co_await IsKnown(i, u);
    for (size_t tries = 1; !known.ok(); ++tries) {
      SetProblem(i, Error(known.code(), disks_[i].where + ": its index is being made again, and the metadata server has to say which of its shards it knows; " +
                                            "it cannot be asked yet (" + known.error().message + ")"));
      co_await Sleep(options_.agent.retry_ns);
      if (tries % kTriesPerExpect == 0) agent_->Expect(i, disks_[i].superblock.own, identities_[i].proof);
      known = co_await IsKnown(i, u);
    }
    if (*known) out.push_back(std::move(u));
  }
  co_return out;
}

// Under the label of disk `i`, or under one that was made from it because the former disk still had it (d1-2).
// Not only disks in use: one that fails is often not mounted either. So only an admin's word frees the place.
bool DataNode::HoldsPlace(const TargetInfo& t, size_t i) const {
  if (t.node != agent_->node() || t.state == TargetState::kOut || t.state == TargetState::kRemoved) return false;
  const std::string& label = disks_[i].label;
  if (t.label == label) return true;
  if (!t.label.starts_with(label + "-")) return false;
  const std::string number = t.label.substr(label.size() + 1);
  return !number.empty() && number.find_first_not_of("0123456789") == std::string::npos &&
         std::none_of(disks_.begin(), disks_.end(), [&](const DataNodeDisk& d) { return d.label == t.label; });
}

bool DataNode::PlaceIsFree(size_t i) {
  if (!agent_->registered()) return false;
  const ClusterMap& map = *agent_->map();
  const auto holder =
      std::find_if(map.targets.begin(), map.targets.end(), [&](const TargetInfo& t) { return HoldsPlace(t, i); });
  if (holder == map.targets.end()) return true;
  const std::string name = map.TargetName(holder->id);
  const uint64_t mib = DivCeil(holder->used_bytes, kMiB);
  const std::string held = mib == 0 ? "" : " with " + std::to_string(mib) + " MiB of shards";
  agent_->SetPlace(i, holder->disk_uuid, holder->id);
  SetProblem(i, Error(FsError::kNotEmpty,
                      disks_[i].where + " is empty, but the cluster knows " + name + " in its place" + held +
                          ": mount it, and it is used at once; if there is a new disk in its place, give the old one up "
                          "with `stria disk out " + name + "`"));
  return false;
}

void DataNode::SetProblem(size_t i, const Error& problem) {
  if (disks_.at(i).problem.message == problem.message) return;
  disks_[i].problem = problem;
  agent_->SetProblem(i, problem.message);
  LogError("{}; going on without it", problem);
}

void DataNode::Detach(size_t i, const Error& why) {
  LogError("{}; going on without it", why);
  agent_->Detach(i, why.message);
  if (stores_.at(i)) {
    stores_[i]->LetGo(why);
    gone_.push_back(std::move(stores_[i]));
  }
  DataNodeDisk& d = disks_[i];
  d.disk = nullptr;
  d.kv = nullptr;
  d.superblock = Superblock();
  d.problem = why;
  identities_[i] = DiskIdentity();
}

size_t DataNode::AddDisk(DataNodeDisk disk) {
  AgentDisk told;
  told.label = disk.label;
  told.channel = disk.channel;
  told.problem = disk.problem.message;
  disks_.push_back(std::move(disk));
  stores_.emplace_back();
  identities_.emplace_back();
  server_.gate().SetPieces(PiecesFor(options_.server, disks_.size()));
  agent_->AddDisk(std::move(told));
  return disks_.size() - 1;
}

void DataNode::DropDisk(size_t i, const Error& why) {
  CHECK(!stores_.at(i), "a disk that serves is dropped");
  disks_[i] = DataNodeDisk();
  disks_[i].problem = why;
  agent_->Leave(i, why.message);
}

// In the place, unless it does not belong there.
Result<void> DataNode::Put(size_t i, DataNodeDisk disk) {
  CHECK(!stores_.at(i), "a disk that serves is replaced");
  const DataNodeDisk before = std::exchange(disks_[i], std::move(disk));
  Error fault;
  if (const Result<Uuid> cluster = AgreeOnCluster(); !cluster.ok()) fault = cluster.error();
  for (size_t j = 0; j < disks_.size() && fault.ok(); ++j) {
    // Also one that is being attached: it has no store yet.
    if (j == i || disks_[j].disk == nullptr || disks_[j].superblock.own != disks_[i].superblock.own) continue;
    fault = Error(FsError::kExist, CopyOf(disks_[i], disks_[j]));
  }
  if (fault.ok()) return Ok();
  disks_[i] = before;
  return fault;
}

Task<Result<void>> DataNode::Expect(size_t i, DataNodeDisk disk) {
  disk.kv = nullptr;  // not the one that it will have
  if (disk.problem.ok()) disk.problem = disks_.at(i).problem;
  CO_RETURN_IF_ERROR(Put(i, std::move(disk)));
  agent_->SetProblem(i, disks_[i].problem.message);
  const Result<DiskIdentity> identity = co_await ReadIdentity(disks_[i].disk);
  if (identity.ok()) identities_[i] = *identity;
  agent_->Expect(i, disks_[i].superblock.own, identities_[i].proof);
  co_return Ok();
}

Task<Result<void>> DataNode::Attach(size_t i, DataNodeDisk disk) {
  CO_RETURN_IF_ERROR(Put(i, std::move(disk)));
  // Carried here from another node, it has what that one was given for it.
  Result<DiskIdentity> identity = co_await ReadIdentity(disks_[i].disk);
  const Result<HeardTerms::Kept> terms = co_await ReadTerms(disks_[i].disk);
  if (terms.ok()) server_.terms().Load(*terms);
  CO_RETURN_IF_ERROR(co_await OpenStore(i));
  identities_[i] = identity.ok() ? *std::move(identity) : DiskIdentity();
  agent_->Attach(i, stores_[i].get(), disks_[i].superblock.own, identities_[i].proof);
  co_return Ok();
}

}  // namespace stria
