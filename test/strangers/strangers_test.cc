// A caller of uid 65534 tries every method of the metadata server, in every form, with headers of his own and of others, and
// changes or learns nothing of root's: bytes, mappings and tokens, names, lists of directories, targets of symlinks, extended
// attributes, leases, locks, sessions. The methods are those of proto/methods.h and proto/admin_stubs.h, without which there
// is no stub of them: one that is new has no request here (requests.h) and does not compile.
//
// What a number alone tells, as from an NFS server: the attributes and the layout of an inode. (Who comes by a path asks its
// directories; a kernel does so, and the server does when a name is looked up.)
//
// What is left to the identity of callers (issue 36: certificates; until then the header says who asks) is in
// WhatIsLeftToTheIdentityOfCallers, each with a proof that it is so.
#include <algorithm>

#include "proto/admin_stubs.h"
#include "proto/methods.h"
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
  };
}

std::string Text(const WireMessage& message) { return std::string(message.Bytes().Flatten().view()); }

template <class Req, class Rep, class Service>
void Try(StrangersWorld& w, const std::string& method, Task<Result<Rep>> (Service::*call)(Req), uint32_t uid) {
  for (const Who& who : Headers()) {
    w.Refresh();
    std::map<std::string, std::string> before = w.Dump();
    int form = 0;
    requests::Each(w, requests::Use<Req>([&](Req r) {
      ++form;
      w.Renew();
      r.header = Own(w);
      r.header.uid = uid;
      who.wear(w, &r.header);
      if (uid == 0 && !r.header.session) return;  // see below
      const std::string what = method + " " + who.name + ", form " + std::to_string(form);
      const Result<Rep> reply = w.stranger().Run((w.h().server.get()->*call)(std::move(r)));
      std::string answer = reply.ok() ? "" : reply.error().message;
      if (reply.ok()) answer = Text(Encode(*reply));
      EXPECT_EQ(w.Leak(answer), "") << what;
      if (testing::Test::HasFailure()) return;
    }));
    std::map<std::string, std::string> after = w.Dump();
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

void TryAll(StrangersWorld& w, uint32_t uid) {
#define X(Name, Request, Reply)                                            \
  Try<Request, Reply>(w, #Name, &MetaServer::Name, uid);                   \
  ASSERT_FALSE(testing::Test::HasFailure());
  STRIA_META_METHODS(X)
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

struct Exception {
  std::string why;
  std::function<std::string(StrangersWorld&)> told;  // "": there is no reason for it any more
};

// Whoever reaches the server's port may say so; one who has closed one of these takes it out of this list.
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
