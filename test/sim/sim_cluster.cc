#include "test/sim/sim_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/vfs/inode.h"
#include "common/bound_token.h"
#include "common/exec/pool.h"
#include "meta/backup/fleet.h"
#include "meta/backup/revive.h"
#include "meta/model/families.h"
#include "server/term_file.h"
#include "stripe/layout_spec.h"
#include "test/sim/sim_metas.h"

namespace stria {
namespace {
constexpr char kMetaAddress[] = "meta:7";
constexpr char kOtherMetaAddress[] = "meta2:7";
constexpr char kAdminHost[] = "admin";
constexpr int64_t kBootLimitNs = 120 * kSecond;

// Who mounts a directory is confined to it, as by an export of its own.
class Bounds final : public ConfinedSessions {
 public:
  explicit Bounds(const MetaServer* server) : server_(server) {}
  std::optional<Bound> BoundOf(SessionId s) const override {
    const SessionRecord* session = server_->sessions().Find(s);
    if (session == nullptr || session->grant.path == "/") return std::nullopt;
    return Bound{SipKey{11, 12}, session->grant.root};
  }
  bool IsOwn(const OpHeader& h) const override {
    const SessionRecord* session = server_->sessions().Find(h.session);
    return session == nullptr || MayUse(h.session, session->owner, h).ok();
  }

 private:
  const MetaServer* const server_;
};

// Makes what confined clients mount. With root squashed nobody could make anything in the root: then it is opened to all.
Task<Result<void>> PrepareTree(std::unique_ptr<KvStore> kv, bool open_root, bool confined) {
  CO_ASSIGN_OR_RETURN(const auto store, co_await MetaStore::Open(std::move(kv)));
  {
    Txn txn(*store);
    Touched touched;
    OpCtx root;
    root.touched = &touched;
    if (open_root) {
      SetAttrRequest r;
      r.ino = kRootInode;
      r.mode = 0777;
      CO_RETURN_IF_ERROR(OpSetAttr(txn, root, r));
    }
    if (confined) {
      MakeNodeRequest r;
      r.parent = kRootInode;
      r.name = std::string(kConfinedPath).substr(1);
      r.type = FileType::kDirectory;
      r.mode = 0777;
      CO_RETURN_IF_ERROR(OpMakeNode(txn, root, r));
    }
    CO_RETURN_IF_ERROR(txn.Commit());
  }
  co_return co_await store->Sync();
}

// Workloads are root's, too.
SimClusterOptions WithTrustedRoots(SimClusterOptions options) {
  if (options.trusted_roots) options.meta.trusted_root = {"*"};
  return options;
}

}  // namespace

SimCluster::SimCluster(uint64_t seed, SimClusterOptions options)
    : options_(WithTrustedRoots(std::move(options))), rng_(seed * 2654435761 + 1), ex_(seed, options_.shuffle),
      net_(std::make_unique<SimNetwork>(&ex_, seed + 7)) {
  key_.id = 1;
  key_.secret.fill(static_cast<uint8_t>(seed | 1));
  cluster_ = SeededUuid(rng_);
  meta_address_ = kMetaAddress;
  meta_.media = std::make_shared<MemKvMedia>(kFamilies);
  meta_contents_ = std::make_unique<MemKv>(meta_.media);
  SimHostsNeeds needs;
  needs.map_of = [this](const std::string& host) { return MapOf(host); };
  needs.note_given = [this](const Certificate& given) {
    if (meta_.server != nullptr && meta_.server->store() != nullptr) (void)meta_.server->trust().enrolment()->NoteGiven(given);
  };
  needs.meta_address = [this] { return several_ ? several_->PrimaryAddress() : meta_address_; };
  hosts_ = std::make_unique<SimHosts>(net_.get(), options_.secured, std::move(needs));
  if (options_.certificates) hosts_->UseCertificates(cluster_, &ex_);
  hosts_->Prove("meta", Role::kMeta);
  if (options_.two_metas) hosts_->Prove(kOtherMetaHost, Role::kMeta);
  hosts_->Prove(kBackupHost, Role::kMeta);  // a host of its own, of the same process
  hosts_->Prove(kAdminHost, Role::kAdmin);
  if (options_.metas > 1) MakeSeveral();
  for (size_t n = 0; n < options_.nodes; ++n) nodes_.push_back(MakeNode(n));
  for (size_t c = 0; c < options_.clients; ++c) {
    clients_.push_back(std::make_unique<ClientState>());
    clients_.back()->kernel.SetSlow(seed * 31 + c, options_.kernel_ns);
    clients_.back()->uuid = SeededUuid(rng_);
    hosts_->Prove(ClientHost(c), Role::kClient);
  }
  admin_factory_ = net_->MakeFactory(kAdminHost);
  admin_ = std::make_shared<MetaStub>(admin_factory_->Make(kMetaAddress));
}

void SimCluster::MakeSeveral() {
  CHECK(!options_.backups && !options_.certificates && !options_.two_metas, "several metadata servers are simulated without these");
  SimMetasNeeds needs;
  needs.executor = &ex_;
  needs.network = net_.get();
  needs.rng = &rng_;
  needs.key = key_;
  needs.cluster = cluster_;
  needs.server = options_.meta;
  needs.doors = Doors();
  several_ = std::make_unique<SimMetas>(std::move(needs), options_.metas);
  for (size_t m = 0; m < options_.metas; ++m) hosts_->Prove(MetaHost(m), Role::kMeta);
}

SimCluster::~SimCluster() {
  for (size_t c = 0; c < clients_.size(); ++c) CrashClient(c);
  for (size_t n = 0; n < nodes_.size(); ++n) CrashNode(n, false);
  CrashMeta(false);
  EndMeta(&former_, kMetaAddress, false);
  several_.reset();
}

std::vector<std::string> SimCluster::MetaAddresses() const {
  if (several_) return several_->addresses();
  if (options_.two_metas) return {kMetaAddress, kOtherMetaAddress};
  return {kMetaAddress};
}

// As each hears it: the metadata server of itself.
std::shared_ptr<const ClusterMap> SimCluster::MapOf(const std::string& host) {
  for (size_t n = 0; n < nodes_.size(); ++n) {
    if (host == NodeHost(n)) return nodes_[n]->agent ? nodes_[n]->agent->map() : nullptr;
  }
  for (size_t c = 0; c < clients_.size(); ++c) {
    if (host == ClientHost(c)) return client_up(c) ? client(c).session().map() : nullptr;
  }
  if (!meta_up() || meta_server()->store() == nullptr) return nullptr;
  return std::make_shared<const ClusterMap>(meta_server()->cluster().Map());
}

std::string SimCluster::TokenFor(size_t n, ShardId shard, uint64_t holder, int64_t expiry_s, uint32_t generation) const {
  BoundToken t;
  t.shard = shard;
  t.target = disks_.target(n, 0);
  t.rights = kTokenRead;
  t.expiry_s = expiry_s;
  t.holder = holder;
  t.incarnation = nodes_[n]->incarnation;
  return EncodeBoundToken(BoundTokenSigner(DeriveNodeKey(key_, nodes_[n]->uuid, generation)).Sign(t));
}

DispatchOptions SimCluster::Doors() const {
  DispatchOptions o;
  o.proved = options_.secured;
  return o;
}

std::unique_ptr<SimCluster::Node> SimCluster::MakeNode(size_t n) {
  auto node = std::make_unique<Node>();
  node->uuid = SeededUuid(rng_);
  hosts_->Prove(NodeHost(n), Role::kData);
  disks_.AddNode(options_.disks);
  return node;
}

size_t SimCluster::AddNode() {
  nodes_.push_back(MakeNode(nodes_.size()));
  StartNode(nodes_.size() - 1);
  return nodes_.size() - 1;
}

OpHeader SimCluster::AdminHeader() const {
  OpHeader h;
  h.cluster = cluster_;
  h.timeout_ns = 10 * kSecond;
  return h;
}

bool SimCluster::Run(Task<void> task, int64_t limit_ns) {
  TaskScope scope;
  bool done = false;
  auto body = [](Task<void> t, bool* flag) -> Task<void> {
    co_await std::move(t);
    *flag = true;
  };
  scope.Spawn(body(std::move(task), &done));
  return ex_.RunUntil([&] { return done; }, ex_.NowNs() + limit_ns);
}

Result<void> SimCluster::Boot() {
  Result<void> result = Ok();
  auto format = [](SimCluster* self, Result<void>* out) -> Task<void> {
    FormatParams p;
    p.cluster = self->cluster_;
    const std::shared_ptr<MemKvMedia> media = self->several_ ? self->several_->media(0) : self->meta_.media;
    p.store = self->several_ ? self->several_->store_id(0) : SeededUuid(self->rng_);
    auto layout = ParseLayout(self->options_.layout);
    if (!layout.ok()) {
      *out = layout.error();
      co_return;
    }
    p.layout = *layout;
    p.now_ns = self->ex_.WallNs();
    *out = co_await FormatMetaStore(std::make_unique<MemKv>(media), p);
    const bool open_root = self->options_.meta.root_squash || !self->options_.trusted_roots, confined = !self->options_.confined.empty();
    if (out->ok() && (open_root || confined)) {
      *out = co_await PrepareTree(std::make_unique<MemKv>(media), open_root, confined);
    }
    if (out->ok() && self->several_) *out = co_await self->several_->Found();
  };
  if (!Run(format(this, &result), kBootLimitNs)) return Error(FsError::kTimedOut, "formatting took too long");
  RETURN_IF_ERROR(result);
  StartMeta();
  for (size_t n = 0; n < nodes_.size(); ++n) StartNode(n);
  for (size_t c = 0; c < clients_.size(); ++c) StartClient(c);
  auto ready = [this] {
    for (const auto& n : nodes_) {
      if (!n->agent || !n->agent->registered()) return false;
    }
    for (const auto& c : clients_) {
      if (c->client->session().map()->targets.size() < nodes_.size() * options_.disks) return false;
    }
    return !several_ || several_->AllIn();
  };
  if (!ex_.RunUntil(ready, ex_.NowNs() + kBootLimitNs)) return Error(FsError::kTimedOut, "booting took too long");
  return Ok();
}

// ---- Metadata server

MetaServer* SimCluster::meta_server() const { return several_ ? several_->server() : meta_.server.get(); }
KvStore& SimCluster::MetaContents() { return several_ ? several_->Contents() : *meta_contents_; }

Task<void> SimCluster::OpenMeta() {
  MetaServer* const server = meta_.server.get();
  auto started = co_await server->Start();
  if (started.ok()) co_return;
  // Its store failed a sync: the process ends and is started again.
  ex_.Post([this, server] {
    if (meta_.server.get() != server) return;
    CrashMeta(true);
    StartMeta();
  });
}

void SimCluster::StartMeta() {
  if (several_) return several_->StartAll();
  CHECK(!meta_up());
  meta_.server = std::make_unique<MetaServer>(options_.meta, std::make_unique<MemKv>(meta_.media),
                                              Random(rng_.Next()), std::vector<ClusterKey>{key_});
  MetaServer* const server = meta_.server.get();
  meta_.bounds = std::make_unique<Bounds>(server);
  meta_.front = std::make_unique<ConfinedFront>(server, server, meta_.bounds.get(), [server] { return server->store(); });
  meta_.dispatcher = std::make_unique<MetaDispatcher>(meta_.front->meta(), Doors());
  meta_.admin_dispatcher = std::make_unique<AdminDispatcher>(meta_.front->admin(), Doors());
  meta_.router = std::make_unique<Router>();
  meta_.router->Add(kMetaServiceName, meta_.dispatcher.get());
  meta_.router->Add(kAdminServiceName, meta_.admin_dispatcher.get());
  if (options_.backups) {
    meta_.factory = net_->MakeFactory(kBackupHost);
    meta_.backups = std::make_unique<TransportBackupConnector>(meta_.factory.get());
    meta_.server->UseBackups(meta_.backups.get());
  }
  if (options_.certificates) {
    server->trust().Use(hosts_->trust().ForMeta());
    meta_.trust_dispatcher = std::make_unique<TrustDispatcher>(server->trust().service(), Doors());
    meta_.router->Add(kTrustServiceName, meta_.trust_dispatcher.get());
  }
  net_->Serve(meta_address_, meta_.router.get());
  meta_.scope = std::make_unique<TaskScope>();
  meta_.scope->Spawn(OpenMeta());
}

void SimCluster::CrashMeta(bool power_cut) {
  EndMeta(&meta_, meta_address_, power_cut);
  for (size_t m = 0; several_ && m < several_->size(); ++m) several_->Crash(m, power_cut);
}

void SimCluster::EndMeta(Meta* meta, const std::string& address, bool power_cut) {
  if (meta->server == nullptr) return;
  net_->Stop(address);
  meta->scope.reset();
  meta->router.reset();
  meta->trust_dispatcher.reset();
  meta->admin_dispatcher.reset();
  meta->dispatcher.reset();
  meta->front.reset();
  meta->bounds.reset();
  meta->server.reset();
  meta->backups.reset();
  meta->factory.reset();
  meta->media->Crash(rng_, power_cut);
}

void SimCluster::ServeCopy() {
  CHECK(options_.two_metas && meta_up() && former_.server == nullptr);
  auto copy = std::make_shared<MemKvMedia>(kFamilies);
  MemKv from(meta_.media), to(copy);
  KvBatch all;
  for (size_t family = 0; family < kFamilies; ++family) {
    const auto f = static_cast<KvFamily>(family);
    const auto rows = from.Scan(f, {}, {}, SIZE_MAX);
    CHECK(rows.ok());
    for (const KvEntry& row : *rows) all.Put(f, row.first, row.second);
  }
  CHECK(to.Write(all).ok());
  CHECK(Do(to.Sync(), kBootLimitNs).ok());
  former_ = std::move(meta_);
  former_service_ = std::move(admin_);
  meta_ = Meta();
  meta_.media = copy;
  meta_contents_ = std::make_unique<MemKv>(copy);
  meta_address_ = kOtherMetaAddress;
  admin_ = std::make_shared<MetaStub>(admin_factory_->Make(meta_address_));
  StartMeta();
}

Task<void> SimCluster::RestoreInto(std::shared_ptr<MemKvMedia> media, Result<RestoreResult>* out) {
  const std::unique_ptr<TransportFactory> factory = net_->MakeFactory(kBackupHost);
  TransportBackupConnector connector(factory.get());
  const TokenSigner signer(key_);
  BackupFleet fleet(&connector, &signer);
  std::vector<std::string> addresses;
  for (size_t n = 0; n < nodes_.size(); ++n) addresses.push_back(NodeAddress(n));
  if (const Result<void> asked = co_await fleet.Ask(std::move(addresses)); !asked.ok()) {
    *out = asked.error();
    co_return;
  }
  auto kv = std::make_unique<MemKv>(media);
  const ArchiveSeal seal({key_});
  *out = co_await RestoreArchive(fleet.names(), &fleet, kv.get(), {&seal, false});
  if (!out->ok()) co_return;
  ReviveParams params;
  params.incarnation = std::max(fleet.incarnation(), (*out)->incarnation) + 1;
  params.store = SeededUuid(rng_);
  params.wall_ns = ex_.WallNs();
  const Result<ReviveResult> revived = co_await ReviveStore(std::move(kv), params);
  if (!revived.ok()) *out = revived.error();
  else if (!revived->fsck.problems.empty()) *out = Error(FsError::kCorrupt, revived->fsck.problems.front());
}

Result<RestoreResult> SimCluster::RestoreMeta() {
  CHECK(!meta_up(), "the metadata is restored while its server is down");
  auto media = std::make_shared<MemKvMedia>(kFamilies);
  Result<RestoreResult> out = Error(FsError::kTimedOut, "the restore took too long");
  (void)Run(RestoreInto(media, &out), kBootLimitNs);
  if (!out.ok()) return out;
  meta_.media = media;
  meta_contents_ = std::make_unique<MemKv>(media);
  return out;
}

// ---- Data servers

// A disk that cannot be opened is left out, as an administrator would take it out of the configuration.
Task<void> SimCluster::OpenNode(size_t index) {
  Node& node = *nodes_[index];
  for (SimNodeDisk& d : disks_.OfNode(index)) {
    d.left_out = !(co_await d.store->Open()).ok();
    const Result<HeardTerms::Kept> terms = co_await ReadTerms(d.disk.get());
    if (terms.ok()) node.server->terms().Load(*terms);
  }
  node.agent = MakeAgent(index);
  if (options_.backups) ServeBackups(index);
  else net_->Serve(NodeAddress(index), node.dispatcher.get());
  if (node.locator) node.locator->Start();
  node.agent->Start();
}

// As DataNode does it.
void SimCluster::ServeBackups(size_t index) {
  Node& node = *nodes_[index];
  if (node.cluster) node.server->SetCluster(node.cluster, node.incarnation);
  const std::vector<SimNodeDisk>& all = disks_.OfNode(index);
  node.keeper = std::make_unique<BackupKeeper>(node.verifier.get(), node.server.get(), NodeHost(index), [&all] {
    std::vector<BackupDisk> disks;
    for (const SimNodeDisk& d : all) {
      BackupDisk b{d.disk.get(), !d.left_out && !d.store->failed(), 0};
      if (b.writable) b.free_bytes = d.store->Usage().free_bytes;
      disks.push_back(b);
    }
    return disks;
  });
  node.backup_dispatcher = std::make_unique<BackupDispatcher>(node.keeper.get(), Doors());
  node.router = std::make_unique<Router>();
  node.router->Add(kDataServiceName, node.dispatcher.get());
  node.router->Add(kBackupServiceName, node.backup_dispatcher.get());
  net_->Serve(NodeAddress(index), node.router.get());
}

std::unique_ptr<Agent> SimCluster::MakeAgent(size_t index) {
  Node& node = *nodes_[index];
  std::vector<AgentDisk> disks;
  std::vector<SimNodeDisk*> given;
  std::vector<SimNodeDisk>& all = disks_.OfNode(index);
  for (size_t i = 0; i < all.size(); ++i) {
    SimNodeDisk& d = all[i];
    d.opened = !d.left_out;
    if (d.left_out) continue;
    AgentDisk a;
    a.store = d.store.get();
    a.uuid = d.uuid;
    a.label = "d" + std::to_string(i + 1);
    disks.push_back(std::move(a));
    given.push_back(&d);
  }
  AgentOptions o;
  o.cluster = node.cluster;
  o.node = node.uuid;
  o.name = NodeHost(index);
  o.address = NodeAddress(index);
  o.proof = TokenSigner(key_).ProveNode(node.uuid, o.name);
  o.self = [this, host = o.name] { return net_->PeerOf(host); };
  o.incarnation = node.incarnation;
  o.sweep_period_ns = 40 * kSecond;
  o.quarantine_hold_ns = 30 * kSecond;
  o.scrub = options_.scrub_pause_ns > 0;
  o.scrub_options.first_after_ns = o.scrub_options.pause_ns = options_.scrub_pause_ns;
  if (options_.scrub_orders) {
    node.admin_connector = std::make_unique<TransportAdminConnector>(node.factory.get());
    node.admin_link = std::make_unique<AdminLink>(node.admin_connector.get(), node.metas);
    o.admin = node.admin_link.get();
  }
  o.on_registered = [&node, given](const RegisterNodeReply& r) -> Task<Result<void>> {
    node.cluster = r.map.cluster;
    node.incarnation = r.map.incarnation;
    for (size_t i = 0; i < given.size(); ++i) given[i]->target = r.targets[i];
    co_return Ok();
  };
  o.keep_terms = [given](HeardTerms::Kept kept) -> Task<Result<void>> {
    std::vector<Disk*> writable;
    for (SimNodeDisk* d : given) {
      if (!d->store->failed()) writable.push_back(d->disk.get());
    }
    return WriteTermsOn(std::move(writable), kept);
  };
  return std::make_unique<Agent>(node.link.get(), node.data_connector.get(), node.server.get(),
                                 node.verifier.get(), node.codecs.get(), &pool_, std::move(disks), std::move(o));
}

void SimCluster::StartNode(size_t index) {
  Node& node = *nodes_[index];
  CHECK(!node_up(index));
  ++node.starts;
  node.factory = net_->MakeFactory(NodeHost(index));
  node.meta_connector = std::make_unique<TransportMetaConnector>(node.factory.get());
  node.data_connector = std::make_unique<TransportDataConnector>(node.factory.get());
  node.codecs = std::make_unique<CodecSet>();
  node.verifier = std::make_unique<TokenGate>(std::vector<ClusterKey>{key_});
  node.metas = std::make_shared<MetaPeers>(MetaAddresses());
  node.link = std::make_unique<MetaLink>(node.meta_connector.get(), node.metas);
  if (several_) {
    node.members = std::make_unique<TransportMemberConnector>(node.factory.get());
    MetaLocatorOptions look;
    look.seed = rng_.Next();
    node.locator = std::make_unique<MetaLocator>(node.members.get(), node.metas.get(), [&node] { return node.server->cluster(); }, look);
    node.link->UseLocator(node.locator.get());
  }
  node.server = std::make_unique<DataServer>(node.verifier.get());
  node.dispatcher = std::make_unique<DataDispatcher>(node.server.get(), Doors());
  std::vector<SimNodeDisk>& disks = disks_.OfNode(index);
  for (size_t i = 0; i < disks.size(); ++i) {
    SimNodeDisk& d = disks[i];
    d.disk = std::make_unique<SimDisk>(d.media);
    d.index = std::make_unique<MemKv>(d.index_media);
    ShardStoreOptions o;
    o.disk = d.uuid;
    o.name = DiskName(index, i);
    d.store = std::make_unique<ShardStore>(d.disk.get(), d.index.get(), &pool_, &pool_, o);
  }
  node.scope = std::make_unique<TaskScope>();
  node.scope->Spawn(OpenNode(index));
}

void SimCluster::CrashNode(size_t index, bool power_cut) {
  Node& node = *nodes_[index];
  if (!node_up(index)) return;
  net_->Stop(NodeAddress(index));
  node.scope.reset();
  node.agent.reset();
  node.admin_link.reset();
  node.admin_connector.reset();
  node.locator.reset();
  node.router.reset();
  node.backup_dispatcher.reset();
  node.keeper.reset();
  node.dispatcher.reset();
  node.server.reset();
  node.link.reset();
  for (SimNodeDisk& d : disks_.OfNode(index)) {
    d.opened = false;
    d.store.reset();
    d.index.reset();
    d.disk.reset();
    d.media->Crash(rng_, power_cut);
    d.index_media->Crash(rng_, power_cut);
  }
  node.members.reset();
  node.data_connector.reset();
  node.meta_connector.reset();
  node.factory.reset();
}

// ---- Clients

void SimCluster::StartClient(size_t c) {
  ClientState& s = *clients_[c];
  CHECK(!client_up(c));
  s.factory = net_->MakeFactory(ClientHost(c));
  s.meta_connector = std::make_unique<TransportMetaConnector>(s.factory.get());
  s.data_connector = std::make_unique<TransportDataConnector>(s.factory.get());
  ClientOptions o;
  o.session.addresses = MetaAddresses();
  o.session.client_name = ClientHost(c);
  o.session.client_uuid = s.uuid;
  o.session.node_name = NodeHost(c % nodes_.size());
  o.session.timeout_ns = options_.client_timeout_ns;
  o.session.seed = rng_.Next();
  if (several_) {
    s.members = std::make_unique<TransportMemberConnector>(s.factory.get());
    o.session.members = s.members.get();
  }
  if (options_.confined.contains(c)) o.session.path = kConfinedPath;
  o.vfs.dirty_limit_bytes = options_.dirty_limit_bytes;
  o.vfs.block_cache_bytes = 4 * kMiB;
  o.vfs.mapping_bytes = options_.mapping_bytes;
  o.vfs.readahead_bytes = 2 * kMiB;
  s.client = std::make_unique<Client>(o, *s.meta_connector, *s.data_connector, pool_, s.kernel);
  s.scope = std::make_unique<TaskScope>();
  s.client->Start();
  ++s.starts;
}

void SimCluster::FailNextMetaSync() { meta_.media->FailNextSync(); }

std::string SimCluster::UnknownLease() const {
  const MetaServer* const meta = meta_server();
  for (size_t c = 0; meta != nullptr && c < clients_.size(); ++c) {
    if (!client_up(c)) continue;
    Vfs& vfs = clients_[c]->client->vfs();
    const MetaSession& session = clients_[c]->client->session();
    const SessionId s = session.id();
    // It has not heard yet that the server has restarted, or that it is fenced.
    if (session.term() != meta->term() || !meta->sessions().Exists(s) || meta->sessions().IsUnclaimed(s)) continue;
    if (session.epoch() != meta->sessions().Find(s)->epoch) continue;  // nor that it was taken back
    for (const InodeId ino : vfs.session_side().Leased()) {
      if (meta->leases().IsOpenBy(s, ino)) continue;
      return ClientHost(c) + " has inode " + std::to_string(ino.v) + ": " + vfs.report().Describe(ino);
    }
  }
  return "";
}

Task<Result<BufferChain>> SimCluster::Read(size_t c, VfsHandlePtr h, uint64_t offset, uint64_t length) {
  if (options_.signals && rng_.OneIn(20)) {
    const int64_t after_ns = rng_.OneIn(2) ? 3 * kMillisecond : 30 * kSecond;
    auto read = co_await WithTimeout(static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(after_ns))), ReadOnce(c, h, offset, length));
    if (read) co_return std::move(*read);
  }
  co_return co_await ReadOnce(c, std::move(h), offset, length);
}

Task<Result<BufferChain>> SimCluster::ReadOnce(size_t c, VfsHandlePtr h, uint64_t offset, uint64_t length) {
  if (h->page_cache) co_return co_await kernel(c).pages().Read(vfs(c), Caller(), std::move(h), offset, length);
  co_return co_await vfs(c).Read(Caller(), std::move(h), offset, length);
}

void SimCluster::CrashClient(size_t c) {
  ClientState& s = *clients_[c];
  if (!client_up(c)) return;
  s.scope.reset();
  s.client.reset();
  s.kernel.Unmounted();
  s.members.reset();
  s.data_connector.reset();
  s.meta_connector.reset();
  s.factory.reset();
}

}  // namespace stria
