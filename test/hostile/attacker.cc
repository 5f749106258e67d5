#include "test/hostile/attacker.h"

#include <algorithm>
#include <memory>

#include "proto/admin_stubs.h"
#include "proto/methods.h"
#include "proto/trust_stubs.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

using random_messages::RandomMessage;

constexpr size_t kMaxKnown = 256;  // of each kind
constexpr size_t kMaxRecent = 64;
constexpr size_t kMaxKeptMessage = 64 * kKiB;
constexpr char kMade[] = "h";
constexpr uint64_t kMostMade = 40;  // names in the directory that is open to all
constexpr size_t kProofBytes = 33;  // of OpenReply::proof

std::string Text(const WireMessage& message) { return std::string(message.Bytes().Flatten().view()); }

// Of a fixed number; the first `keep` are not replaced.
template <class T>
void Keep(Random& rng, size_t keep, const T& v, std::vector<T>* in) {
  if (std::find(in->begin(), in->end(), v) != in->end()) return;
  if (in->size() < kMaxKnown) in->push_back(v);
  else (*in)[rng.Between(keep, in->size() - 1)] = v;
}

std::vector<InodeId> OfRoot(const StrangersWorld& w) {
  std::vector<InodeId> out = w.handles().All();
  out.push_back(w.handles().ahead);
  return out;
}

}  // namespace

Attacker::Attacker(HostileWorld* world, uint64_t seed) : world_(world), rng_(seed), roots_(OfRoot(world->strangers())) {
  StrangersWorld& w = world_->strangers();
  own_ = {kRootInode, w.own_dir(), w.own_dir(), w.own_dir(), w.open_dir(), w.stranger_file()};
  first_own_ = own_.size();
  for (const StripeInfo& s : w.handles().stripes) {
    stripes_.push_back(s.id);
    for (const Column& c : s.columns) {
      if (c.shard) shards_.push_back(c.shard);
    }
  }
  roots_stripes_ = stripes_.size(), roots_shards_ = shards_.size();
  for (const TargetInfo& t : world_->meta().cluster().Map().targets) targets_.push_back(t.id);
  // A proof of root's, and some that nobody gave.
  proofs_ = {w.handles().proof};
  ClusterKey other;
  other.id = 1;
  for (const InodeId ino : roots_) proofs_.push_back(TokenSigner(other).ProveOpen({w.root().session, ino, 1, kOpenRead | kOpenWrite}));
  names_ = {"file",        "closed",       "mine",          "..",        ".",          "new",       "a",
            "SECRET_file", "SECRET_dir",   "SECRET_link",   "SECRET_0",  "SECRET_1",   "SECRET_held", "SECRET_gone",
            "user.x",      "user.SECRET",  "security.SECRET", "trusted.x", "user.open", "system.posix_acl_access", "system.posix_acl_default",
            std::string("\x02\0\0\0", 4)};
  for (int i = 0; i < 8; ++i) names_.push_back(kMade + std::to_string(i));
#define X(Name, Request, Reply) Add<Request, Reply>("/" + std::string(kMetaServiceName) + "/" #Name, false);
  STRIA_META_METHODS(X)
#undef X
#define X(Name, Request, Reply) Add<Request, Reply>("/" + std::string(kAdminServiceName) + "/" #Name, false);
  STRIA_ADMIN_METHODS(X)
#undef X
#define X(Name, Request, Reply) Add<Request, Reply>("/" + std::string(kDataServiceName) + "/" #Name, true);
  STRIA_DATA_METHODS(X)
#undef X
#define X(Name, Request, Reply) Add<Request, Reply>("/" + std::string(kTrustServiceName) + "/" #Name, false);
  STRIA_TRUST_METHODS(X)
#undef X
  AddPlausible();
}

template <class Req, class Rep>
void Attacker::Add(const std::string& method, bool data) {
  // What test/strangers tries of this kind, to begin with.
  const auto forms = std::make_shared<std::vector<Req>>();
  if constexpr (requires(const requests::Use<Req>& use) { requests::Each(world_->strangers(), use); }) {
    requests::Each(world_->strangers(), requests::Use<Req>([&](Req r) { forms->push_back(std::move(r)); }));
  }
  Weapon w;
  w.method = method;
  w.data = data;
  w.make = [this, forms] {
    const bool known = !forms->empty() && rng_.OneIn(2);
    Req r = known ? (*forms)[rng_.Below(forms->size())] : RandomMessage<Req>(rng_);
    Aim aim{this, known ? uint64_t{10} : uint64_t{70}};
    WalkMessage(r, aim);
    Scrub(r);
    return Text(Encode(r));
  };
  w.hear = [this](const WireMessage& answer) {
    Result<Rep> reply = Decode<Rep>(answer);
    if (!reply.ok()) return false;
    Learn learn{this};
    WalkMessage(*reply, learn);
    if constexpr (std::is_same_v<Rep, OpenSessionReply>) Remember(*reply);
    return true;
  };
  by_method_.emplace(method, weapons_.size());
  weapons_.push_back(std::move(w));
}

// Requests as a client makes them, so that it comes to have files, stripes and tokens, and root's shards asked for as who knows how.
void Attacker::AddPlausible() {
  const auto like = [this](const std::string& method, std::function<std::string()> make) {
    Weapon w = weapons_[by_method_.at(method)];
    w.make = std::move(make);
    for (int weight = 0; weight < 3; ++weight) weapons_.push_back(w);
  };
  const std::string meta = "/" + std::string(kMetaServiceName) + "/", data = "/" + std::string(kDataServiceName) + "/";
  like(meta + "MakeNode", [this] {
    MakeNodeRequest r;
    r.header = ValidHeader(true);
    r.parent = world_->strangers().own_dir();
    r.name = kMade + std::to_string(rng_.Below(kMostMade));
    r.mode = 0666;
    r.type = rng_.OneIn(5) ? FileType::kDirectory : FileType::kFile;
    r.open = r.type == FileType::kFile;
    return Text(Encode(r));
  });
  // What a client that may only read one directory is shown.
  like(meta + "Lookup", [this] { return Text(Encode(NameRequest{ValidHeader(true), world_->strangers().own_dir(), rng_.OneIn(2) ? "mine" : One(names_), {}})); });
  like(meta + "Unlink", [this] { return Text(Encode(NameRequest{ValidHeader(true), world_->strangers().own_dir(), kMade + std::to_string(rng_.Below(kMostMade)), {}})); });
  like(meta + "Rename", [this] {
    RenameRequest r;
    r.header = ValidHeader(true);
    r.parent = r.new_parent = world_->strangers().own_dir();
    r.name = kMade + std::to_string(rng_.Below(kMostMade)), r.new_name = kMade + std::to_string(rng_.Below(kMostMade));
    if (rng_.OneIn(3)) (rng_.OneIn(2) ? r.parent : r.new_parent) = One(own_);
    r.exchange = rng_.OneIn(4);
    return Text(Encode(r));
  });
  like(meta + "Link", [this] {
    LinkRequest r{ValidHeader(true), rng_.OneIn(3) ? One(roots_) : One(own_), world_->strangers().own_dir(), kMade + std::to_string(rng_.Below(kMostMade))};
    return Text(Encode(r));
  });
  like(meta + "SetXattr", [this] {
    XattrRequest r;
    r.header = ValidHeader(true);
    r.ino = One(own_);
    r.name = "user.h" + std::to_string(rng_.Below(8));
    r.value.resize(rng_.Below(100), 'h');
    return Text(Encode(r));
  });
  like(meta + "Clone", [this] {
    CloneRequest r;
    r.header = ValidHeader(true);
    r.from = rng_.OneIn(3) ? One(roots_) : One(own_), r.to = One(own_);
    r.from_offset = rng_.Below(2) * kMiB, r.to_offset = rng_.Below(4) * kMiB, r.length = kMiB;
    return Text(Encode(r));
  });
  like(meta + "SetAttr", [this] {
    SetAttrRequest r;
    r.header = ValidHeader(true);
    r.ino = One(own_);
    if (rng_.OneIn(2)) r.mode = 0600 | (rng_.OneIn(2) ? 0066 : 0);
    if (rng_.OneIn(3)) r.size = rng_.Below(4) * kMiB;
    return Text(Encode(r));
  });
  like(meta + "Allocate", [this] {
    AllocateRequest r;
    r.header = ValidHeader(true);
    r.ino = One(own_);
    r.count = static_cast<uint32_t>(rng_.Between(1, 16));
    return Text(Encode(r));
  });
  like(meta + "Commit", [this] {
    CommitRequest r;
    r.header = ValidHeader(true);
    r.ino = One(own_);
    Extent e;
    e.file_offset = rng_.Below(4) * kMiB;
    if (rng_.OneIn(2)) {
      e.inline_bytes = "bytes of the hostile one";
      e.length = e.inline_bytes.size();
    } else if (!allocated_.empty() && rng_.OneIn(2)) {
      r.stripes = {TestClient::Sealed(One(allocated_), kMiB)};
      e.stripe = r.stripes[0].id;
      e.length = kMiB;
    } else {  // of a stripe that it may not have
      e.stripe = One(stripes_);
      e.length = kMiB;
    }
    r.extents = {e};
    return Text(Encode(r));
  });
  like(meta + "Open", [this] {
    OpenRequest r;
    r.header = ValidHeader(false);
    r.ino = rng_.OneIn(3) ? One(roots_) : One(own_);
    if (rng_.OneIn(2)) r.header.opened = One(proofs_);
    r.for_read = rng_.OneIn(2), r.for_write = rng_.OneIn(2), r.check_access = rng_.OneIn(2);
    r.map_bytes = kGiB;
    return Text(Encode(r));
  });
  like(meta + "GetExtents", [this] {
    GetExtentsRequest r;
    r.header = ValidHeader(false);
    r.ino = rng_.OneIn(2) ? One(roots_) : One(own_);
    if (rng_.OneIn(2)) r.header.opened = One(proofs_);
    r.length = kGiB;
    return Text(Encode(r));
  });
  like(data + "Read", [this] {
    ReadRequest r;
    AimHeader(&r.header);
    for (uint64_t i = rng_.Between(1, 4); i > 0; --i) {
      const Granted g = SomeGrant();
      r.items.push_back({g.shard, g.target, g.token, 0, kChecksumBlockBytes});
    }
    return Text(Encode(r));
  });
  like(data + "Write", [this] {
    WriteRequest r;
    AimHeader(&r.header);
    ShardWrite w;
    const Granted g = SomeGrant();
    w.shard = g.shard, w.target = g.target, w.token = g.token;
    const std::string bytes(4096, 'h');
    w.length = bytes.size(), w.crcs = TableOf(w.shard, bytes), w.seal = rng_.OneIn(2);
    r.items = {w};
    r.payload = BufferChain(Buffer::FromString(bytes));
    return Text(Encode(r));
  });
}

// ---- Messages -----------------------------------------------------------------------------------------

Shot Attacker::Next() {
  Shot shot;
  shot.weapon = rng_.Below(weapons_.size());
  shot.node = rng_.Below(16);
  shot.bytes = weapons_[shot.weapon].make();
  if (shot.bytes.size() <= kMaxKeptMessage) {
    recent_.push_back(shot.bytes);
    if (recent_.size() > kMaxRecent) recent_.pop_front();
  }
  if (rng_.OneIn(5)) {
    shot.mutated = true;
    shot.bytes = Mutated(shot);
  }
  return shot;
}

std::string Attacker::Mutated(const Shot& shot) {
  std::string out = shot.bytes;
  const std::vector<std::string> samples = {recent_[rng_.Below(recent_.size())]};
  for (uint64_t n = rng_.Between(1, 4); n > 0; --n) Mutate(rng_, 0, samples, &out);
  Clean(&out);
  return out;
}

bool Attacker::Heard(const Shot& shot, const WireMessage& answer) { return weapons_[shot.weapon].hear(answer); }

OpHeader Attacker::ValidHeader(bool mutation) {
  OpHeader h;
  h.cluster = world_->strangers().h().cluster;
  h.session = session_;
  h.epoch = epoch_;
  if (mutation) h.op_seq = OpSeq(next_op_++);
  h.acked_below = OpSeq(next_op_ > 100 ? next_op_ - 100 : 0);
  h.uid = h.gid = kStranger;
  h.timeout_ns = kSecond;
  h.term = world_->meta().term();
  for (const auto& [_, seal] : seals_) {
    if (h.seals.size() < kMaxRequestSeals) h.seals.push_back(seal);
  }
  return h;
}

void Attacker::UseSession(SessionId session, Epoch epoch) {
  session_ = session, epoch_ = epoch, next_op_ = 1;
}

void Attacker::Remember(const OpenSessionReply& reply) {
  sessions_.emplace_back(reply.session, reply.epoch);
  if (sessions_.size() > kMaxKnown) sessions_.pop_front();
}

void Attacker::AimHeader(OpHeader* h) {
  const OpHeader wild = RandomMessage<OpHeader>(rng_);
  const TestClient& root = world_->strangers().root();
  *h = ValidHeader(rng_.Percent(70));
  switch (rng_.Below(20)) {
    case 0: h->session = root.session; break;  // with its own epoch
    case 1: h->session = root.session, h->epoch = root.epoch; break;  // it has come by it
    case 2: h->session = root.session, h->epoch = Epoch(world_->meta().term()); break;
    case 3: h->session = root.session, h->epoch = {}; break;
    case 4: h->session = {}, h->epoch = {}, h->op_seq = {}; break;
    case 5: h->session = wild.session, h->epoch = wild.epoch; break;
    case 6:
      if (!sessions_.empty()) std::tie(h->session, h->epoch) = sessions_[rng_.Below(sessions_.size())];
      break;
    case 7: h->session = world_->strangers().stranger().session, h->epoch = world_->strangers().stranger().epoch; break;
    default: break;
  }
  const uint32_t ids[] = {0, 0, kStranger, 1000, wild.uid};
  h->uid = ids[rng_.Below(std::size(ids))];
  h->gid = ids[rng_.Below(std::size(ids))];
  if (rng_.OneIn(5)) h->groups = {ids[rng_.Below(std::size(ids))]};
  if (rng_.OneIn(1000)) h->groups.resize(70'000);
  h->trace_id = rng_.OneIn(2) ? wild.trace_id : 0;
  if (rng_.OneIn(10)) h->op_seq = rng_.OneIn(3) ? wild.op_seq : OpSeq(rng_.Below(next_op_ + 2));  // again, or for another request
  if (rng_.OneIn(2000)) h->acked_below = wild.acked_below;
  if (rng_.OneIn(20)) h->term = rng_.OneIn(2) ? 0 : wild.term;
  if (rng_.OneIn(5)) {
    const uint64_t orders[] = {1, 2, uint64_t{1} << 40, UINT64_MAX, wild.replay_order};
    h->replay_order = orders[rng_.Below(std::size(orders))];
    h->replay_next = orders[rng_.Below(std::size(orders))];
  }
  if (rng_.OneIn(3)) h->opened = rng_.OneIn(10) ? wild.opened : One(proofs_);
  switch (world_->as() == Hostile::kConfined ? rng_.Below(12) : 12) {
    case 0: h->seals.clear(); break;
    case 1: h->seals = world_->strangers().SealsOfOthers(); break;
    case 2: h->seals = {{One(roots_), wild.trace_id}}; break;
    case 3:
      if (!h->seals.empty()) h->seals[0].ino = One(roots_);  // one that it has, for another inode
      break;
    default: break;
  }
  h->settle = rng_.OneIn(20);
  const int64_t waits[] = {kMillisecond, 20 * kMillisecond, 100 * kMillisecond, kSecond};
  h->timeout_ns = rng_.OneIn(50) ? wild.timeout_ns : waits[rng_.Below(std::size(waits))];
  if (rng_.OneIn(200)) h->protocol = wild.protocol;
  if (rng_.OneIn(200)) h->cluster = wild.cluster;
}

void Attacker::AimHeader(DataHeader* h) {
  const DataHeader wild = RandomMessage<DataHeader>(rng_);
  *h = DataHeader();
  h->cluster = rng_.OneIn(100) ? wild.cluster : world_->strangers().h().cluster;
  h->incarnation = rng_.OneIn(100) ? wild.incarnation : world_->incarnation();
  h->timeout_ns = rng_.OneIn(50) ? wild.timeout_ns : kSecond;
  h->background = rng_.OneIn(10);
  if (rng_.OneIn(200)) h->protocol = wild.protocol;
}

uint64_t Attacker::SomeNumber(uint64_t was) {
  const uint64_t some[] = {0, 1, 2, 3, 8, 16, 255, 4096, kChecksumBlockBytes, kMiB, kGiB, kMaxStripeBytes, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX};
  return rng_.OneIn(2) ? was : some[rng_.Below(std::size(some))];
}

std::string Attacker::SomeToken() {
  if (!tokens_.empty() && rng_.OneIn(2)) return One(tokens_);
  if (stolen_.empty()) return "";
  std::string token = One(stolen_);
  if (rng_.OneIn(4)) token[rng_.Below(token.size())] = static_cast<char>(rng_.Next());
  return token;
}

Attacker::Granted Attacker::SomeGrant() {
  if (granted_.empty()) return {One(shards_), One(targets_), SomeToken()};
  Granted out = One(granted_);
  switch (rng_.Below(8)) {
    case 0: out.shard = One(shards_); break;
    case 1: out.target = One(targets_); break;
    case 2:
    case 3: out = {One(shards_), One(targets_), SomeToken()}; break;
    default: break;
  }
  return out;
}

void Attacker::Aim::operator()(Uuid& v) {
  if (!Changes()) return;
  Random& rng = a->rng_;
  switch (rng.Below(4)) {
    case 0: v = a->world_->strangers().h().cluster; break;
    case 1: v = {500, rng.Between(1, 6)}; break;  // of a node
    case 2: v = {77, rng.Between(1, 3)}; break;   // of root's mount, and the stranger's
    default: break;
  }
}
// Of numbers that are 0 most mean something: no stripe, no inode to give back.
void Attacker::Aim::operator()(InodeId& v) {
  if (!Changes() || (!v && !a->rng_.OneIn(4))) return;
  v = a->rng_.OneIn(2) ? a->One(a->roots_) : a->One(a->own_);
}
void Attacker::Aim::operator()(StripeId& v) {
  if (Changes() && v) v = a->One(a->stripes_);
}
void Attacker::Aim::operator()(ShardId& v) {
  if (Changes() && v) v = a->One(a->shards_);
}
void Attacker::Aim::operator()(TargetId& v) {
  if (Changes() && v) v = a->One(a->targets_);
}
void Attacker::Aim::operator()(NodeId& v) {
  if (Changes() && v) v = NodeId(static_cast<uint32_t>(a->rng_.Between(1, 6)));
}
void Attacker::Aim::operator()(SessionId& v) {
  if (Changes()) v = a->rng_.OneIn(2) ? a->session_ : a->world_->strangers().root().session;
}
void Attacker::Aim::operator()(Epoch& v) {
  if (Changes()) v = Epoch(a->rng_.Between(1, 12));  // a node's
}
void Attacker::Aim::operator()(std::string& v) {
  if (!Changes()) return;
  switch (a->rng_.Below(8)) {
    case 0:
    case 1:
    case 2:
    case 3: v = a->One(a->names_); break;
    case 4: v = a->One(a->proofs_); break;
    case 5: v = a->SomeToken(); break;
    default: break;
  }
}

void Attacker::Learn::operator()(InodeId& v) {
  if (v && std::find(a->roots_.begin(), a->roots_.end(), v) == a->roots_.end()) Keep(a->rng_, a->first_own_, v, &a->own_);
}
void Attacker::Learn::operator()(StripeId& v) {
  if (v) Keep(a->rng_, a->roots_stripes_, v, &a->stripes_);
}
void Attacker::Learn::operator()(ShardId& v) {
  if (v) Keep(a->rng_, a->roots_shards_, v, &a->shards_);
}
void Attacker::Learn::operator()(std::string& v) {
  if (v.size() == kProofBytes) Keep(a->rng_, 1, v, &a->proofs_);
  if (v.size() == kTokenBytes || v.size() == kBoundTokenBytes) Keep(a->rng_, 0, v, &a->tokens_);
}

void Attacker::Learn::Whole(StripeGrant& v) {
  // To be filled; of a stripe in use there is a payload.
  if (v.info.shape.payload_bytes == 0) Keep(a->rng_, 0, v.info, &a->allocated_);
  for (size_t i = 0; i < v.info.columns.size() && i < v.tokens.size(); ++i) {
    const Column& c = v.info.columns[i];
    if (c.shard) Keep(a->rng_, 0, Granted{c.shard, c.target, v.tokens[i]}, &a->granted_);
  }
}

// ---- Marks --------------------------------------------------------------------------------------------

void Attacker::Clean(std::string* text) {
  for (size_t at = text->find(kSecret); at != text->npos; at = text->find(kSecret, at)) text->replace(at, kSecret.size(), "GUESS_");
}

bool Attacker::IsRoots(InodeId ino) const {
  const std::vector<InodeId>& dirs = world_->strangers().handles().dirs;
  return std::find(dirs.begin(), dirs.end(), ino) != dirs.end();
}

void Attacker::Scrub(MakeNodeRequest& r) {
  if (!IsRoots(r.parent)) Clean(&r.name);
  Clean(&r.target);
}
void Attacker::Scrub(LinkRequest& r) {
  if (!IsRoots(r.new_parent)) Clean(&r.new_name);
}
void Attacker::Scrub(RenameRequest& r) {
  if (!IsRoots(r.new_parent)) Clean(&r.new_name);
}
void Attacker::Scrub(CommitRequest& r) {
  if (r.make && !IsRoots(r.make->parent)) Clean(&r.make->name);
  for (Extent& e : r.extents) Clean(&e.inline_bytes);
}
void Attacker::Scrub(XattrRequest& r) {
  if (std::find(roots_.begin(), roots_.end(), r.ino) == roots_.end()) Clean(&r.name);
  Clean(&r.value);
}

}  // namespace stria
