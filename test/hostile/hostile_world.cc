#include "test/hostile/hostile_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/exec/sim_run.h"
#include "meta/model/families.h"
#include "meta/ops/ops.h"

namespace stria {
namespace {

constexpr uint64_t kShardBytes = 80'000;  // of each of root's on the disk: more than a block
constexpr uint64_t kKeyOfRoot = 1, kKeyOfStranger = 7, kKeyOfHostile = 13;
constexpr char kReadOnly[] = "path=/own clients=wn7,wn13 access=ro squash=all";

// What a peer may have. The servers' own constants are beside what they bound; these say what is promised.
constexpr size_t kMostSessions = 64;
constexpr size_t kMostAllocated = 4096;  // stripes, of each session
constexpr size_t kMostHandlers = 20'000;  // within the longest time that a call may wait

std::shared_ptr<const Peer> PeerOf(Role role, const std::string& name, uint64_t key) {
  auto peer = std::make_shared<Peer>();
  peer->role = role;
  peer->name = name;
  peer->address = "10.9.9." + std::to_string(key) + ":40000";
  peer->key_hash.fill(static_cast<uint8_t>(key));
  peer->serial = "0" + std::to_string(key);
  peer->not_after_s = INT64_MAX;
  return peer;
}

std::shared_ptr<const Peer> Client(const std::string& name, uint64_t key) { return PeerOf(Role::kClient, name, key); }

std::shared_ptr<const Peer> Attacking(Hostile as) {
  return as == Hostile::kNode ? PeerOf(Role::kData, kHostileNode, kKeyOfHostile) : Client(kHostileHost, kKeyOfHostile);
}

DispatchOptions Proved() {
  DispatchOptions options;
  options.proved = true;
  return options;
}

// As TestNode has them.
Uuid NodeUuid(uint64_t n) { return Uuid{500, n}; }
constexpr uint64_t kNodes = 5;

}  // namespace

std::string HexBytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

HostileWorld::HostileWorld(uint64_t seed, Hostile as, MetaServerOptions options)
    : as_(as),
      strangers_(as == Hostile::kConfined ? Client("wn7", kKeyOfStranger) : nullptr, as == Hostile::kConfined ? kReadOnly : "", std::move(options)),
      verifier_({TestKey()}),
      store_(seed),
      front_(&meta(), &meta(), meta().confined(), [this] { return meta().store(); }),
      meta_dispatcher_(front_.meta(), Proved()),
      admin_dispatcher_(front_.admin(), Proved()),
      trust_dispatcher_(meta().trust().service(), Proved()),
      network_(std::make_unique<SimNetwork>(&ex(), seed)) {
  incarnation_ = meta().cluster().Map().incarnation;
  network_->SetPeer(kHostileHost, Attacking(as));
  meta_router_.Add(kMetaServiceName, &meta_dispatcher_);
  meta_router_.Add(kAdminServiceName, &admin_dispatcher_);
  meta_router_.Add(kTrustServiceName, &trust_dispatcher_);
  network_->Serve(kMetaAddress, &meta_router_);
  to_meta_ = network_->MakeTransport(kHostileHost, kMetaAddress);
  store_.Start(ex());
  for (uint64_t n = 1; n <= kNodes; ++n) StartNode(n);
  StoreBytesOfRoot();
}

void HostileWorld::StartNode(uint64_t n) {
  const std::vector<ClusterKey> keys = NodeKeysAround(TestKey(), NodeUuid(n), NowS());
  nodes_.push_back(std::make_unique<const BoundTokenVerifier>(keys, incarnation_));
  std::vector<NodeTokenKey> told;
  for (const ClusterKey& k : keys) told.push_back({k.id, std::string(k.secret.begin(), k.secret.end())});
  Node& node = *data_.emplace_back(std::make_unique<Node>(Proved()));
  node.gate.TakeKeys(told, incarnation_);
  node.server.SetCluster(strangers_.h().cluster, incarnation_);
  node.server.SetTokenTime(ex().WallNs());
  const ClusterMap map = meta().cluster().Map();
  for (const TargetInfo& t : map.targets) {
    if (map.FindNode(t.node)->uuid == NodeUuid(n)) node.server.SetTarget(t.id, store_.store.get());
  }
  CHECK(!node.server.stores().empty(), "each node has a disk");
  node.address = "n" + std::to_string(n) + ":7425";
  network_->Serve(node.address, &node.router);
  node.to = network_->MakeTransport(kHostileHost, node.address);
}

size_t HostileWorld::Handlers() const {
  size_t out = network_->Running(kMetaAddress);
  for (const auto& n : data_) out += network_->Running(n->address);
  return out;
}

HostileWorld::~HostileWorld() { network_.reset(); }

void HostileWorld::StoreBytesOfRoot() {
  for (const StripeInfo& stripe : strangers_.handles().stripes) {
    for (const Column& c : stripe.columns) {
      if (!c.shard) continue;
      Shard s{c.shard, c.target, ""};
      while (s.bytes.size() < kShardBytes) s.bytes += std::string(kSecret) + " in shard " + std::to_string(c.shard.v) + ". ";
      const std::vector<uint32_t> table = TableOf(s.shard, s.bytes);
      RunSim(ex(), WriteBlocks(store_.store.get(), s.shard, s.bytes, table, 0, table.size())).value();
      RunSim(ex(), store_.store->Seal(s.shard, s.bytes.size())).value();
      shards_.push_back(std::move(s));
    }
  }
  CHECK(!shards_.empty(), "root has bytes");
}

std::vector<std::string> HostileWorld::TokensOfRoot() {
  std::vector<std::string> out;
  const TokenSigner signer(TestKey());
  const uint64_t root = Client("wn1", kKeyOfRoot)->Holder();
  for (const Shard& s : shards_) {
    for (const uint8_t rights : {uint8_t{kTokenRead}, kTokenAllRights}) {
      out.push_back(EncodeToken(signer.Sign(s.shard, s.target, rights, NowS() + 3600)));
      BoundToken bound;
      bound.shard = s.shard, bound.target = s.target, bound.rights = rights, bound.expiry_s = NowS() + 3600;
      bound.holder = root, bound.most_bytes = kMaxStripeBytes, bound.incarnation = incarnation_;
      const ClusterMap map = meta().cluster().Map();
      const Uuid node = map.FindNode(map.FindTarget(s.target)->node)->uuid;
      out.push_back(EncodeBoundToken(BoundTokenSigner(DeriveNodeKey(TestKey(), node, KeyGeneration(NowS()))).Sign(bound)));
    }
  }
  return out;
}

// ---- Read ---------------------------------------------------------------------------------------------

bool HostileWorld::IsOfHostileNode(TargetId target) {
  const ClusterMap map = meta().cluster().Map();
  const TargetInfo* t = map.FindTarget(target);
  return t != nullptr && map.FindNode(t->node) != nullptr && map.FindNode(t->node)->name == kHostileNode;
}

// Lets the attacker do what it is not to do with the shard. A node may read what it has to make others from, and do all with its own.
bool HostileWorld::Opens(std::string_view token, ShardId shard) {
  const uint8_t harmless = as_ == Hostile::kNode ? kTokenRead : 0;
  const auto is_its_own = [&](TargetId target) { return as_ == Hostile::kNode && IsOfHostileNode(target); };
  if (token.size() >= kTokenBytes) {
    const std::string_view one = token.substr(0, kTokenBytes);
    const auto t = DecodeToken(one);
    if (t.ok() && t->shard == shard && !stolen_.contains(one) && !is_its_own(t->target)) {
      for (const uint8_t right : {uint8_t{kTokenRead}, uint8_t{kTokenWrite}, uint8_t{kTokenDelete}}) {
        if (right == harmless) continue;
        if (verifier_.Check(one, shard, t->target, right, NowS()).ok()) return true;
      }
    }
  }
  if (token.size() < kBoundTokenBytes) return false;
  const std::string_view one = token.substr(0, kBoundTokenBytes);
  const auto t = DecodeBoundToken(one);
  if (!t.ok() || t->shard != shard || stolen_.contains(one) || is_its_own(t->target) || (t->rights & ~harmless) == 0) return false;
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    TokenUse use;
    use.shard = shard, use.target = t->target, use.holder = t->holder;
    use.right = static_cast<uint8_t>(t->rights & (~t->rights + 1));  // one of them
    return node->Check(one, use, std::min(NowS(), t->expiry_s)).ok();
  });
}

std::string HostileWorld::Leak(const std::string& answer) {
  if (answer.find(kSecret) != answer.npos) return "a secret";
  // A node is told where the columns of a stripe are to which it has one.
  if (std::string told = as_ == Hostile::kNode ? "" : strangers_.Leak(answer); !told.empty()) return told;
  for (const Shard& s : shards_) {
    const std::string id(reinterpret_cast<const char*>(&s.shard.v), sizeof s.shard.v);
    // Both forms of a token have the shard behind a first byte.
    for (size_t at = answer.find(id, 1); at != answer.npos; at = answer.find(id, at + 1)) {
      if (Opens(std::string_view(answer).substr(at - 1), s.shard)) return "a token for root's shard " + std::to_string(s.shard.v);
    }
  }
  return "";
}

std::string HostileWorld::LeakOfSeal(InodeId shown) const {
  const bool own = as_ == Hostile::kConfined && (shown == strangers_.own_dir() || shown == strangers_.stranger_file());
  return own ? "" : "inode " + std::to_string(shown.v) + ", which its export does not show";
}

// ---- Changed ------------------------------------------------------------------------------------------

void HostileWorld::AddRows(Family family, const std::string& prefix, std::map<std::string, std::string>* out) {
  std::string from = prefix;
  while (true) {
    const auto page = meta().store()->kv().Scan(static_cast<KvFamily>(family), from, PrefixEnd(prefix), 1000);
    CHECK(page.ok());
    for (const KvEntry& e : *page) (*out)[std::string(FamilyName(family)) + " " + KeyToString(family, e.first)] = HexBytes(e.second);
    if (page->size() < 1000) return;
    from = page->back().first + '\0';
  }
}

void HostileWorld::AddCluster(std::map<std::string, std::string>* out) {
  const ClusterMap map = meta().cluster().Map();
  for (const NodeInfo& n : map.nodes) {
    if (as_ == Hostile::kNode && n.name == kHostileNode) continue;
    (*out)["node " + std::to_string(n.id.v)] = n.uuid.ToString() + " " + n.name + " at " + n.address + " state " + std::to_string(static_cast<int>(n.state));
  }
  for (const TargetInfo& t : map.targets) {
    if (as_ == Hostile::kNode && IsOfHostileNode(t.id)) continue;
    (*out)["target " + std::to_string(t.id.v)] = "of node " + std::to_string(t.node.v) + " " + t.disk_uuid.ToString() + " " + t.label + " state " +
                                                 std::to_string(static_cast<int>(t.state)) + (t.given_up ? " given up" : "") + " " + t.problem;
  }
  (*out)["incarnation"] = std::to_string(map.incarnation);
  OpHeader admin;  // of this process
  admin.cluster = strangers_.h().cluster;
  UpkeepRequest ask;
  ask.header = admin;
  const auto upkeep = RunSim(ex(), meta().Upkeep(ask));
  InodeRequest status_ask;
  status_ask.header = admin;
  const auto status = RunSim(ex(), meta().Status(status_ask));
  CHECK(upkeep.ok() && status.ok(), "root may ask");
  (*out)["scrub"] = std::string(upkeep->scrub_paused ? "paused" : "on") + " " + std::to_string(upkeep->scrub_bytes_per_s);
  (*out)["rebalance"] = upkeep->rebalancing ? "on" : "off";
  (*out)["repair"] = std::to_string(status->repair_limit_bytes_per_s) + " bytes/s, " +
                     (std::any_of(status->repairs.begin(), status->repairs.end(), [](const RepairProgress& r) { return r.paused; }) ? "paused" : "on");
  (*out)["removed nodes"] = std::to_string(status->removed.size());
}

std::map<std::string, std::string> HostileWorld::Audit(const std::vector<SessionId>& hostile) {
  std::map<std::string, std::string> out;
  const Handles& roots = strangers_.handles();
  std::vector<InodeId> inodes = roots.All();
  inodes.push_back(strangers_.open_dir());
  if (as_ == Hostile::kConfined) inodes.insert(inodes.end(), {strangers_.own_dir(), strangers_.stranger_file()});
  const auto looked_at = [&](InodeId ino) {  // by whom it may: that moves its atime, and opens it
    return ino == strangers_.open_dir() || ino == strangers_.own_dir() || ino == strangers_.stranger_file();
  };
  const LeaseTable& leases = meta().leases();
  const SessionId root = strangers_.root().session;
  for (const InodeId ino : inodes) {
    for (const Family family : {Family::kDentries, Family::kParents, Family::kExtents, Family::kOrphans, Family::kXattrs, Family::kIntents}) {
      AddRows(family, InodeKey(ino), &out);
    }
    if (looked_at(ino)) continue;
    AddRows(Family::kInodes, InodeKey(ino), &out);
    const std::string name = std::to_string(ino.v);
    out["lease " + name] = std::to_string(static_cast<int>(leases.ModeOf(root, ino))) + (leases.IsWriter(root, ino) ? " writes" : "");
    out["open " + name] = std::any_of(hostile.begin(), hostile.end(), [&](SessionId s) { return leases.IsOpenBy(s, ino); }) ? "by the hostile one" : "";
  }
  if (as_ == Hostile::kNode) AddColumns(&out);
  for (const StripeInfo& s : as_ == Hostile::kNode ? std::vector<StripeInfo>() : roots.stripes) {
    for (const Family family : {Family::kStripes, Family::kRefBytes, Family::kStripeRefs}) AddRows(family, StripeKey(s.id), &out);
    for (const Column& c : s.columns) {
      if (!c.shard) continue;
      AddRows(Family::kTargetStripes, TargetShardKey(c.target, c.shard), &out);
      AddRows(Family::kGarbage, TargetShardKey(c.target, c.shard), &out);
    }
  }
  FileLock probe{roots.held, LockKind::kPosix, 77, LockType::kWrite, 0, 99, 1};
  out["lock"] = meta().locks().Test(SessionId(UINT64_MAX), probe).conflict ? "root's" : "free";
  const SessionRecord* session = meta().sessions().Find(root);
  out["session"] = meta().sessions().Exists(root) && session != nullptr ? "lives as " + session->client : "gone";
  out["session is served"] = strangers_.root().fenced ? "not any more" : "yes";
  out["the stranger's session"] = meta().sessions().Exists(strangers_.stranger().session) ? "lives" : "gone";
  AddCluster(&out);
  // Exports, tokens to join with, certificates that were given and revoked (docs/formats.md).
  for (const std::string prefix : {"P", "G", "C", "R"}) AddRows(Family::kCluster, prefix, &out);
  return out;
}

// What the node has of root's it may lose; then others make it again.
void HostileWorld::AddColumns(std::map<std::string, std::string>* out) {
  Txn txn(*meta().store());
  for (const StripeInfo& s : strangers_.handles().stripes) {
    const auto record = GetStripeRecord(txn, s.id);
    CHECK(record.ok());
    const std::string of = "stripe " + std::to_string(s.id.v);
    (*out)[of] = *record && (*record)->info.columns.size() == s.columns.size() ? "as wide as it was" : "another";
    for (size_t c = 0; *record && c < s.columns.size() && c < (*record)->info.columns.size(); ++c) {
      if (IsOfHostileNode(s.columns[c].target)) continue;
      const Column& now = (*record)->info.columns[c];
      (*out)[of + " column " + std::to_string(c)] =
          std::to_string(now.shard.v) + " on " + std::to_string(now.target.v) + " digest " + std::to_string(now.digest);
      AddRows(Family::kTargetStripes, TargetShardKey(now.target, now.shard), out);
      AddRows(Family::kGarbage, TargetShardKey(now.target, now.shard), out);
    }
  }
}

std::string HostileWorld::CheckBytes() {
  for (const Shard& s : shards_) {
    const auto read = RunSim(ex(), store_.store->Read(s.shard, 0, s.bytes.size()));
    if (!read.ok()) return "root's shard " + std::to_string(s.shard.v) + " cannot be read: " + read.error().message;
    if (read->bytes.Flatten().view() != s.bytes) return "root's shard " + std::to_string(s.shard.v) + " has other bytes";
  }
  return "";
}

// ---- Grown --------------------------------------------------------------------------------------------

std::string HostileWorld::CheckBounds() {
  const std::vector<SessionId> all = meta().sessions().All();
  size_t hostile = 0;
  for (const SessionId s : all) hostile += s != strangers_.root().session && s != strangers_.stranger().session;
  if (hostile > kMostSessions) return std::to_string(hostile) + " sessions of one client";
  for (const SessionId s : all) {
    const std::string of = " of session " + std::to_string(s.v);
    const EventQueue* events = meta().sessions().FindEvents(s);
    if (events != nullptr && events->size() > kMaxSessionEvents) return std::to_string(events->size()) + " queued events" + of;
    const auto stripes = meta().store()->kv().Scan(static_cast<KvFamily>(Family::kSessionStripes), SessionKey(s), PrefixEnd(SessionKey(s)), kMostAllocated + 1);
    CHECK(stripes.ok());
    if (stripes->size() > kMostAllocated) return "more than " + std::to_string(kMostAllocated) + " allocated stripes" + of;
    // Those that are acknowledged go with the next batches.
    const size_t most_replies = 2 * kMaxUnackedReplies;
    const auto replies = meta().store()->kv().Scan(static_cast<KvFamily>(Family::kReplies), SessionKey(s), PrefixEnd(SessionKey(s)), most_replies + 1);
    CHECK(replies.ok());
    if (replies->size() > most_replies) return "more than " + std::to_string(most_replies) + " stored replies" + of;
  }
  const ReachReports& reach = meta().cluster().reach();
  if (reach.size() > kMostSessions + 2 + kNodes + 1 || reach.nodes() > reach.size() * kNodes) {
    return std::to_string(reach.size()) + " reports of " + std::to_string(reach.nodes()) + " nodes that cannot be reached";
  }
  if (Handlers() > kMostHandlers) return std::to_string(Handlers()) + " calls that run";
  return "";
}

uint64_t HostileWorld::StoredBytes() {
  constexpr uint64_t kNodeBytes = 200;  // of a map's node and two strings
  uint64_t out = 0;
  for (KvFamily family = 0; family < kFamilies; ++family) {
    std::string from;
    while (true) {
      const auto page = meta().store()->kv().Scan(family, from, std::string(64, '\xff'), 1000);
      CHECK(page.ok());
      for (const KvEntry& e : *page) out += e.first.size() + e.second.size() + kNodeBytes;
      if (page->size() < 1000) break;
      from = page->back().first + '\0';
    }
  }
  return out;
}

std::string Difference(const std::map<std::string, std::string>& before, const std::map<std::string, std::string>& after) {
  std::string out;
  const auto add = [&out](const std::string& line) { out += (out.empty() ? "" : "\n    ") + line; };
  for (const auto& [key, value] : before) {
    const auto it = after.find(key);
    if (it == after.end()) add(key + " is gone, it was " + value);
    else if (it->second != value) add(key + " changed from " + value + " to " + it->second);
  }
  for (const auto& [key, value] : after) {
    if (!before.contains(key)) add(key + " was added: " + value);
  }
  return out;
}

uint64_t ResidentBytes() {
  std::FILE* f = std::fopen("/proc/self/statm", "r");
  unsigned long long size = 0, resident = 0;
  const int n = f == nullptr ? 0 : std::fscanf(f, "%llu %llu", &size, &resident);
  if (f != nullptr) std::fclose(f);
  return n == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace stria
