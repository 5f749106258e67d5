// A caller of uid 65534 tries every method of the metadata server, in every form, with headers of his own and of others, and
// changes or learns nothing of root's: bytes, mappings and tokens, names, lists of directories, targets of symlinks, extended
// attributes, leases, locks, sessions. The methods are those of proto/methods.h and proto/admin_stubs.h, without which there
// is no stub of them: one that is new has no request here (requests.h) and does not compile.
//
// What a number alone tells, as from an NFS server: the attributes and the layout of an inode. (Who comes by a path asks its
// directories; a kernel does so, and the server does when a name is looked up.)
//
// Where callers prove who they are (a certificate of a client, over the simulated network) that holds of root's sessions, too, with
// all that belongs to them. What is left where nobody proves anything, so that the header says who asks, is in
// WhatIsLeftToTheIdentityOfCallers, each with a proof that it is so.
#include <algorithm>
#include <concepts>

#include "common/bound_token.h"
#include "common/sanitized.h"
#include "meta/exports/confined_front.h"
#include "proto/admin_stubs.h"
#include "proto/methods.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "proto/wire.h"
#include "test/strangers/requests.h"

namespace stria {
namespace {

struct Who {
  std::string name;
  std::function<void(StrangersWorld&, OpHeader*)> wear;
};

OpHeader Own(StrangersWorld& w) {
  OpHeader h = w.stranger().Mutation();
  h.uid = h.gid = kStranger;
  h.term = w.h().server->term();
  h.timeout_ns = 20 * kMillisecond;
  return h;
}

// Beside the session.
void WearAllOfRoots(StrangersWorld& w, uint64_t replay_order, OpHeader* h) {
  h->replay_order = replay_order, h->replay_next = 2;
  h->settle = true;
  h->opened = w.handles().proof;
}

std::vector<Who> Headers() {
  return {
      {"with a session of his own", [](StrangersWorld&, OpHeader*) {}},
      {"without a number", [](StrangersWorld&, OpHeader* h) { h->op_seq = OpSeq(); }},
      {"as a replay", [](StrangersWorld&, OpHeader* h) { h->replay_order = 1, h->replay_next = 2; }},
      {"as a replay of later", [](StrangersWorld&, OpHeader* h) { h->replay_order = uint64_t{1} << 40, h->replay_next = 1; }},
      {"as what was not answered", [](StrangersWorld&, OpHeader* h) { h->replay_order = UINT64_MAX; }},
      {"given up", [](StrangersWorld&, OpHeader* h) { h->settle = true; }},
      {"with a proof of root's", [](StrangersWorld& w, OpHeader* h) { h->opened = w.handles().proof; }},
      {"with a proof that nobody gave", [](StrangersWorld& w, OpHeader* h) {
         ClusterKey key;
         key.id = 1;
         h->opened = TokenSigner(key).ProveOpen({h->session, InodeId(1), 1'000'000, 7});
       }},
      {"without a session", [](StrangersWorld&, OpHeader* h) { h->session = {}, h->epoch = {}, h->op_seq = {}; }},
      {"in root's session, without its epoch", [](StrangersWorld& w, OpHeader* h) { h->session = w.handles().session, h->epoch = {}; }},
      {"in root's session, with his epoch", [](StrangersWorld& w, OpHeader* h) { h->session = w.handles().session; }},
      {"in root's session, with the server's term", [](StrangersWorld& w, OpHeader* h) {
         h->session = w.handles().session;
         h->epoch = Epoch(w.h().server->term());
       }},
      {"in root's session, as a replay that is given up, with a proof of root's", [](StrangersWorld& w, OpHeader* h) {
         h->session = w.handles().session;
         h->epoch = {};
         WearAllOfRoots(w, 1, h);
       }},
      {"in root's session, with the server's term, as what was not answered and is given up, with a proof of root's",
       [](StrangersWorld& w, OpHeader* h) {
         h->session = w.handles().session;
         h->epoch = Epoch(w.h().server->term());
         WearAllOfRoots(w, UINT64_MAX, h);
       }},
  };
}

// The server as a client with a certificate comes to it: over the network, through the dispatchers.
class ProvedWay {
 public:
  explicit ProvedWay(StrangersWorld& w)
      : net_(&w.h().ex, 42),
        front_(w.h().server.get(), w.h().server.get(), w.h().server->confined(), [&w] { return w.h().server->store(); }),
        meta_(front_.meta(), Proved()),
        admin_(front_.admin(), Proved()) {
    router_.Add(kMetaServiceName, &meta_);
    router_.Add(kAdminServiceName, &admin_);
    net_.Serve("meta:7", &router_);
    net_.SetPeer("stranger", w.caller());
  }
  ~ProvedWay() { net_.Stop("meta:7"); }
  MetaService& Of(MetaService*) { return meta_stub_; }
  AdminService& Of(AdminService*) { return admin_stub_; }

 private:
  static DispatchOptions Proved() {
    DispatchOptions o;
    o.proved = true;
    return o;
  }
  SimNetwork net_;
  ConfinedFront front_;
  MetaDispatcher meta_;
  AdminDispatcher admin_;
  Router router_;
  MetaStub meta_stub_{net_.MakeTransport("stranger", "meta:7")};
  AdminStub admin_stub_{net_.MakeTransport("stranger", "meta:7")};
};

// What only who proves another name is kept from.
std::vector<Who> HeadersOfOthers() {
  return {
      {"in root's session, with its epoch", [](StrangersWorld& w, OpHeader* h) { h->session = w.root().session, h->epoch = w.root().epoch; }},
      {"in root's session, with its epoch and a proof of its", [](StrangersWorld& w, OpHeader* h) {
         h->session = w.root().session;
         h->epoch = w.root().epoch;
         h->opened = w.handles().proof;
       }},
      {"in root's session, with its epoch, as a replay that is given up, with a proof", [](StrangersWorld& w, OpHeader* h) {
         h->session = w.root().session;
         h->epoch = w.root().epoch;
         WearAllOfRoots(w, 1, h);
       }},
      {"without a session, as root", [](StrangersWorld&, OpHeader* h) { h->session = {}, h->epoch = {}, h->op_seq = {}, h->uid = h->gid = 0; }},
  };
}

// What a client tries who is shown one directory.
std::vector<Who> HeadersOfConfined() {
  const auto guess = [](StrangersWorld& w) {
    std::vector<InodeSeal> out;
    for (const InodeId ino : w.handles().All()) out.push_back({ino, 0x5ec2e7});
    return out;
  };
  return {
      {"with seals of what he was shown", [](StrangersWorld& w, OpHeader* h) { h->seals = w.Seals(); }},
      {"with seals of what another client was shown", [](StrangersWorld& w, OpHeader* h) { h->seals = w.SealsOfOthers(); }},
      {"with seals that nobody gave", [guess](StrangersWorld& w, OpHeader* h) { h->seals = guess(w); }},
      {"with seals, as a replay", [](StrangersWorld& w, OpHeader* h) { h->seals = w.Seals(), h->replay_order = 1, h->replay_next = 2; }},
      {"with seals and a proof of root's", [](StrangersWorld& w, OpHeader* h) { h->seals = w.Seals(), h->opened = w.handles().proof; }},
      {"with seals, without a session", [](StrangersWorld& w, OpHeader* h) { h->seals = w.Seals(), h->session = {}, h->epoch = {}, h->op_seq = {}; }},
      {"with seals, as root", [](StrangersWorld& w, OpHeader* h) { h->seals = w.Seals(), h->uid = h->gid = 0; }},
  };
}

std::string Text(const WireMessage& message) { return std::string(message.Bytes().Flatten().view()); }

size_t NextTurn() {
  static size_t turns = 0;
  return turns++;
}

// Tokens by which shards can be written.
bool MayWrite(const std::vector<StripeGrant>& stripes) {
  for (const StripeGrant& g : stripes) {
    for (const std::string& token : g.tokens) {
      if (const auto t = DecodeBoundToken(token); t.ok() && (t->rights & ~kTokenRead) != 0) return true;
      if (const auto t = DecodeToken(token); t.ok() && (t->rights & ~kTokenRead) != 0) return true;
    }
  }
  return false;
}

// Of the node that asks, whose business it is.
template <class Req>
bool IsAbout(StrangersWorld& w, const std::string& node, const Req& r) {
  const ClusterMap map = w.h().server->cluster().Map();
  const auto is = [&](NodeId n) { return map.FindNode(n) != nullptr && map.FindNode(n)->name == node; };
  const auto has = [&](TargetId t) { return map.FindTarget(t) != nullptr && is(map.FindTarget(t)->node); };
  if constexpr (std::is_same_v<Req, ReportShardRequest>) {
    for (const StripeInfo& s : w.handles().stripes) {
      if (s.id == r.stripe && has(s.columns[r.column].target)) return true;
      if (r.stripe) continue;  // as its scrub says it: by the shard alone
      for (const Column& c : s.columns) {
        if (c.shard == r.shard && has(c.target)) return true;
      }
    }
  } else {
    if constexpr (requires { { r.node } -> std::convertible_to<NodeId>; }) {
      if (is(r.node)) return true;
    }
    if constexpr (requires { { r.target } -> std::convertible_to<TargetId>; }) {
      if (has(r.target)) return true;
    }
  }
  return false;
}

// To the server itself; or over `way`.
template <class Req, class Rep, class Service>
void Try(StrangersWorld& w, const std::string& method, Task<Result<Rep>> (Service::*call)(Req), uint32_t uid, ProvedWay* way) {
  std::vector<Who> headers = Headers();
  if (way != nullptr) {
    for (Who& who : HeadersOfOthers()) headers.push_back(std::move(who));
  }
  if (!w.Seals().empty()) {
    for (Who& who : HeadersOfConfined()) headers.push_back(std::move(who));
  }
  const auto& peer = w.caller();
  const std::string own_node = peer && peer->role == Role::kData ? peer->name : "";
  const size_t turn = NextTurn();
  for (size_t i = 0; i < headers.size(); ++i) {
    if (kSanitized && (i + turn) % 2 != 0) continue;  // each header comes with every other method; not sanitized, with all
    const Who& who = headers[i];
    w.Refresh();
    const auto dump = [&] {
      std::map<std::string, std::string> all = w.Dump();
      if (!own_node.empty()) all.merge(w.DumpCluster(own_node));
      return all;
    };
    std::map<std::string, std::string> before = dump();
    int form = 0;
    requests::Each(w, requests::Use<Req>([&](Req r) {
      ++form;
      w.Renew();
      r.header = Own(w);
      r.header.uid = uid;
      who.wear(w, &r.header);
      if (uid == 0 && !r.header.session) return;  // see below
      if (!own_node.empty() && IsAbout(w, own_node, r)) return;
      const std::string what = method + " " + who.name + ", form " + std::to_string(form);
      Service* const server = w.h().server.get();
      Service& service = way != nullptr ? way->Of(server) : *server;
      const Result<Rep> reply = w.stranger().Run((service.*call)(std::move(r)));
      std::string answer = reply.ok() ? "" : reply.error().message;
      if (reply.ok()) answer = Text(Encode(*reply));
      EXPECT_EQ(w.Leak(answer), "") << what;
      if (reply.ok()) {
        EXPECT_EQ(w.Outside(*reply), "") << what;
        if constexpr (requires { reply->stripes[0].tokens; }) {
          EXPECT_FALSE(!w.Seals().empty() && MayWrite(reply->stripes)) << what << ": a token to write, although he may only read";
        }
      }
      if (testing::Test::HasFailure()) return;
    }));
    std::map<std::string, std::string> after = dump();
    for (const auto& [key, value] : before) {
      if (after[key] != value) ADD_FAILURE() << method << " " << who.name << " changed " << key << " from " << value << " to " << after[key];
    }
    for (const auto& [key, value] : after) {
      if (!before.contains(key)) ADD_FAILURE() << method << " " << who.name << " added " << key << ": " << value;
    }
    EXPECT_FALSE(w.root().fenced) << method << " " << who.name;
    if (testing::Test::HasFailure()) return;
  }
}

void TryAll(StrangersWorld& w, uint32_t uid, ProvedWay* way = nullptr) {
#define X(Name, Request, Reply)                                            \
  Try<Request, Reply>(w, #Name, &MetaService::Name, uid, way);             \
  ASSERT_FALSE(testing::Test::HasFailure());
  STRIA_META_METHODS(X)
#undef X
#define X(Name, Request, Reply)                                            \
  Try<Request, Reply>(w, #Name, &AdminService::Name, uid, way);            \
  ASSERT_FALSE(testing::Test::HasFailure());
  STRIA_ADMIN_METHODS(X)
#undef X
}

TEST(Strangers, ChangeAndLearnNothing) {
  StrangersWorld w;
  TryAll(w, kStranger);
}

// In the time in which sessions repeat what a restart has lost.
TEST(Strangers, NorAfterARestart) {
  StrangersWorld w;
  w.Restart(false);
  TryAll(w, kStranger);
}

// Root of a client whose root is nobody.
TEST(Strangers, NorDoesASquashedRoot) {
  StrangersWorld w;
  w.Restart(true);
  TryAll(w, 0);
}

// A client with a certificate, who knows the numbers and epochs of others' sessions.
TEST(Strangers, NorDoesAClientWithACertificate) {
  StrangersWorld w(TestPeer(Role::kClient, "wn7"));
  ProvedWay way(w);
  TryAll(w, kStranger, &way);
}

// One directory of the tree, for reading only, as nobody.
constexpr char kReadOnly[] = "path=/own clients=wn7 access=ro squash=all";

TEST(Strangers, NorDoesAClientOfOneDirectory) {
  StrangersWorld w(TestPeer(Role::kClient, "wn7"), kReadOnly);
  ProvedWay way(w);
  TryAll(w, kStranger, &way);
}

TEST(Strangers, NorIsRootOfSuchAClientMore) {
  StrangersWorld w(TestPeer(Role::kClient, "wn7"), kReadOnly);
  ProvedWay way(w);
  TryAll(w, 0, &way);
}

// What is refused above is refused for what it is about: he is served.
TEST(Strangers, AClientOfOneDirectoryReadsThat) {
  StrangersWorld w(TestPeer(Role::kClient, "wn7"), kReadOnly);
  ProvedWay way(w);
  MetaService& meta = way.Of(static_cast<MetaService*>(nullptr));
  const auto header = [&] {
    OpHeader h = Own(w);
    h.seals = w.Seals();
    return h;
  };
  const auto run = [&](auto task) { return w.stranger().Run(std::move(task)); };
  const auto found = run(meta.Lookup({header(), w.own_dir(), "mine", InodeId()}));
  ASSERT_TRUE(found.ok()) << found.error();
  EXPECT_EQ(found->attr.ino, w.stranger_file());
  const auto up = run(meta.Lookup({header(), w.own_dir(), "..", InodeId()}));
  EXPECT_EQ(up.ok() ? up->attr.ino : InodeId(), w.own_dir());
  const auto list = run(meta.ReadDir({header(), w.own_dir(), 0, 100, true}));
  ASSERT_TRUE(list.ok()) << list.error();
  EXPECT_EQ(list->entries.size(), 1u);
  OpenRequest open;
  open.header = header();
  open.ino = w.stranger_file();
  open.for_read = true;
  EXPECT_TRUE(run(meta.Open(open)).ok());
  open.for_write = true;
  EXPECT_EQ(run(meta.Open(open)).code(), FsError::kRoFs);
  const auto extents = run(meta.GetExtents({header(), w.stranger_file(), 0, kGiB}));
  ASSERT_TRUE(extents.ok()) << extents.error();
  ASSERT_EQ(extents->stripes.size(), 1u);
  EXPECT_FALSE(extents->stripes[0].tokens.empty());
  EXPECT_FALSE(MayWrite(extents->stripes));
}

// With a session or without: what a client is told of the cluster is the same, and none of it is of others.
TEST(Strangers, WhatAClientMayAskAloneTellsNoMore) {
  for (const char* exported : {"", kReadOnly}) {
    SCOPED_TRACE(exported);
    StrangersWorld w(TestPeer(Role::kClient, "wn7"), exported);
    ProvedWay way(w);
    MetaService& meta = way.Of(static_cast<MetaService*>(nullptr));
    AdminService& admin = way.Of(static_cast<AdminService*>(nullptr));
    for (const bool alone : {false, true}) {
      SCOPED_TRACE(alone ? "alone" : "in a session");
      OpHeader h = Own(w);
      if (alone) h.session = {}, h.epoch = {}, h.op_seq = {};
      const auto status = w.stranger().Run(meta.Status({h, InodeId()}));
      ASSERT_TRUE(status.ok()) << status.error();
      EXPECT_EQ(status->map.nodes.size(), 5u);
      EXPECT_FALSE(status->sessions.empty());
      for (const SessionInfo& s : status->sessions) EXPECT_EQ(s.owner, "wn7");
      EXPECT_EQ(status->files + status->directories + status->stripes + status->live_bytes + status->inline_bytes + status->garbage_shards, 0u);
      EXPECT_EQ(status->degraded_stripes + status->narrow_stripes + status->crowded_stripes + status->lost_stripes + status->thin_stripes, 0u);
      EXPECT_TRUE(status->advice.empty() && status->layouts.empty() && status->repairs.empty() && status->removed.empty());
      ReadEventsRequest events;
      events.header = h;
      events.limit = 10;
      EXPECT_EQ(w.stranger().Run(admin.ReadEvents(events)).code(), FsError::kAccess);
      EXPECT_TRUE(w.stranger().Run(meta.GetMap({h, InodeId()})).ok());
    }
  }
}

// Node n3 against the other nodes and their disks.
TEST(Strangers, NorDoesADataServerOfTheOthersDisks) {
  StrangersWorld w(TestPeer(Role::kData, "n3"));
  ProvedWay way(w);
  TryAll(w, kStranger, &way);
}

struct Exception {
  std::string why;
  std::function<std::string(StrangersWorld&)> told;  // "": there is no reason for it any more
};

// Where nobody proves who he is whoever reaches the server's port may say so; one who has closed one of these takes it out of this list.
TEST(Strangers, WhatIsLeftToTheIdentityOfCallers) {
  const std::vector<Exception> exceptions = {
      {"a header that says root is root's: of a call without a session an admin's or a data server's, who get mappings, paths and tokens",
       [](StrangersWorld& w) {
         GetExtentsRequest r;
         r.ino = w.handles().files[0];
         r.length = kGiB;
         const auto reply = w.stranger().Run(w.h().server->GetExtents(r));
         return reply.ok() ? w.Leak(Text(Encode(*reply))) : "";
       }},
      {"a header with session and epoch of another client is that client's, whoever sends it: it reads what that has open",
       [](StrangersWorld& w) {
         GetExtentsRequest r;
         r.header = w.root().Header();
         r.header.uid = kStranger;
         r.ino = w.handles().held;
         r.length = kGiB;
         const auto reply = w.stranger().Run(w.h().server->GetExtents(r));
         return reply.ok() ? w.Leak(Text(Encode(*reply))) : "";
       }},
      {"a client is told what changes of what it was shown, not each of its users: of a directory that one of them could list "
       "it hears of later names, although it is closed by then",
       [](StrangersWorld& w) {
         ReadDirRequest list{Own(w), w.open_dir(), 0, 100, false};
         EXPECT_TRUE(w.stranger().Run(w.h().server->ReadDir(list)).ok());
         SetAttrRequest close;
         close.header = w.root().Mutation();
         close.ino = w.open_dir();
         close.mode = 0700;
         EXPECT_TRUE(w.root().Run(w.h().server->SetAttr(close)).ok());
         EXPECT_TRUE(w.root().Make(w.open_dir(), "SECRET_later").ok());
         std::string names;
         for (const SessionEvent& e : w.stranger().events) names += e.name;
         return w.Leak(names);
       }},
  };
  for (const Exception& e : exceptions) {
    StrangersWorld w;
    EXPECT_NE(e.told(w), "") << "not so any more: " << e.why;
  }
}

}  // namespace
}  // namespace stria
