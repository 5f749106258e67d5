#include "server/data_node.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace stria {

DataNode::DataNode(std::vector<DataNodeDisk> disks, DataNodeOptions options)
    : disks_(std::move(disks)),
      options_(std::move(options)),
      verifier_(options_.keys),
      server_(&verifier_, options_.server) {}

Task<Result<void>> DataNode::OpenStores(Pool* cpu_pool) {
  for (const DataNodeDisk& d : disks_) {
    ShardStoreOptions options;
    options.disk = d.superblock.own;
    options.name = d.where;
    options.background = options_.store_background;
    stores_.push_back(std::make_unique<ShardStore>(d.disk, d.kv, d.index_pool, cpu_pool, options));
    Result<void> opened = co_await stores_.back()->Open();
    if (!opened.ok()) co_return opened.error().WithContext(d.where);
    Result<DiskIdentity> identity = co_await ReadIdentity(d.disk);
    if (!identity.ok()) co_return identity.error().WithContext(d.where);
    identities_.push_back(*identity);
    const DiskUsage usage = stores_.back()->Usage();
    LogInfo("{}: label {}, {} shards, {} bytes used, {} free", d.where, d.superblock.label, usage.shards,
            usage.used_bytes, usage.free_bytes);
  }
  co_return Ok();
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
  for (size_t i = 0; i < disks_.size(); ++i) {
    if (stores_[i]->failed()) continue;
    const DataNodeDisk& d = disks_[i];
    CO_RETURN_IF_ERROR(
        co_await AdoptCluster(d.disk, &disks_[i].superblock, reply.map.cluster, reply.map.incarnation));
    const DiskIdentity identity{reply.targets[i], reply.map.incarnation, node_};
    if (identity == identities_[i]) continue;
    Result<void> kept = co_await WriteIdentity(d.disk, identity);
    if (!kept.ok()) co_return kept.error().WithContext(d.where);
    identities_[i] = identity;
  }
  co_return Ok();
}

Task<Result<std::unique_ptr<DataNode>>> DataNode::Open(std::vector<DataNodeDisk> disks, DataNodeEnv env,
                                                       DataNodeOptions options) {
  std::unique_ptr<DataNode> node(new DataNode(std::move(disks), std::move(options)));
  CO_ASSIGN_OR_RETURN(const Uuid cluster, node->AgreeOnCluster());
  CO_RETURN_IF_ERROR(co_await node->OpenStores(env.cpu_pool));
  std::vector<std::pair<std::string, Uuid>> owners;
  for (size_t i = 0; i < node->disks_.size(); ++i) {
    owners.emplace_back(node->disks_[i].where, node->identities_[i].node);
  }
  CO_ASSIGN_OR_RETURN(const Uuid owner, AgreeOnNode(owners));

  AgentOptions agent = node->options_.agent;
  agent.cluster = cluster;
  agent.node = node->node_ = owner ? owner : node->options_.new_node;
  agent.name = node->options_.name;
  agent.address = node->options_.address;
  agent.proof = TokenSigner(node->options_.keys.at(0)).ProveNode(agent.node, agent.name);
  std::vector<AgentDisk> agent_disks;
  for (size_t i = 0; i < node->disks_.size(); ++i) {
    const DataNodeDisk& d = node->disks_[i];
    const DiskIdentity& identity = node->identities_[i];
    agent.incarnation = std::max(agent.incarnation, identity.incarnation);
    if (identity.target) node->server_.SetTarget(identity.target, node->stores_[i].get());
    agent_disks.push_back(
        {node->stores_[i].get(), d.superblock.own, d.superblock.label, d.channel, identity.target});
  }
  if (cluster && agent.incarnation > 0) node->server_.SetCluster(cluster, agent.incarnation);
  DataNode* self = node.get();
  agent.on_registered = [self](const RegisterNodeReply& reply) { return self->Adopt(reply); };
  node->link_ = std::make_unique<MetaLink>(env.meta, node->options_.meta_addresses);
  if (env.admin != nullptr) {
    node->admin_link_ = std::make_unique<AdminLink>(env.admin, node->options_.meta_addresses);
    agent.admin = node->admin_link_.get();
  }
  node->agent_ =
      std::make_unique<Agent>(node->link_.get(), env.data, &node->server_, &node->verifier_, &node->codecs_,
                              env.cpu_pool, std::move(agent_disks), std::move(agent));
  co_return std::move(node);
}

}  // namespace stria
