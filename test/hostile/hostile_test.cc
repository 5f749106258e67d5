// 20,000 requests of a hostile client (campaign.h). Longer runs: tools/fuzz-protocol.
//
// What the oracle can see is tried first: each of what it guards is hurt once, by root or by this process.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "proto/stubs.h"
#include "test/hostile/campaign.h"
#include "test/hostile/hostile_world.h"

namespace stria {
namespace {

struct Hurt {
  std::string names;  // a word of the difference
  std::function<void(HostileWorld&)> does;
};

TEST(Hostile, TheOracleSeesWhatIsChanged) {
  const std::vector<Hurt> hurts = {
      {"inodes", [](HostileWorld& w) {
         SetAttrRequest r;
         r.header = w.strangers().root().Mutation();
         r.ino = w.strangers().handles().files[0];
         r.mode = 0666;
         ASSERT_TRUE(RunSim(w.ex(), w.meta().SetAttr(r)).ok());
       }},
      {"dentries", [](HostileWorld& w) { ASSERT_TRUE(w.strangers().root().Make(w.strangers().open_dir(), "new").ok()); }},
      {"extents", [](HostileWorld& w) {
         ASSERT_TRUE(RunSim(w.ex(), w.meta().Commit(w.strangers().root().InlineCommit(w.strangers().handles().held, 0, "bad"))).ok());
       }},
      {"xattrs", [](HostileWorld& w) {
         XattrRequest r;
         r.header = w.strangers().root().Mutation();
         r.ino = w.strangers().handles().files[0];
         r.name = "user.new";
         ASSERT_TRUE(RunSim(w.ex(), w.meta().SetXattr(r)).ok());
       }},
      {"lock", [](HostileWorld& w) {
         LockRequest r;
         r.header = w.strangers().root().Mutation();
         r.header.term = w.meta().term();
         r.op = LockOp::kUnlock;
         r.lock = {w.strangers().handles().held, LockKind::kPosix, 5, LockType::kNone, 0, 99, 1};
         ASSERT_TRUE(RunSim(w.ex(), w.meta().Lock(r)).ok());
       }},
      {"session", [](HostileWorld& w) {
         InodeRequest r;
         r.header = w.strangers().root().Header();
         ASSERT_TRUE(RunSim(w.ex(), w.meta().CloseSession(r)).ok());
       }},
      {"target", [](HostileWorld& w) {
         AdminRequest r;
         r.header.cluster = w.strangers().h().cluster;
         r.verb = AdminVerb::kDrain;
         r.node = NodeId(1);
         ASSERT_TRUE(RunSim(w.ex(), w.meta().Admin(r)).ok());
       }},
      {"scrub", [](HostileWorld& w) {
         UpkeepRequest r;
         r.header.cluster = w.strangers().h().cluster;
         r.verb = UpkeepVerb::kScrubPause;
         ASSERT_TRUE(RunSim(w.ex(), w.meta().Upkeep(r)).ok());
       }},
  };
  for (const Hurt& h : hurts) {
    HostileWorld w(1);
    const auto before = w.Audit({});
    w.ex().RunFor(5 * kSecond);
    EXPECT_EQ(Difference(before, w.Audit({})), "") << "before anything was done";
    h.does(w);
    if (HasFatalFailure()) return;
    EXPECT_NE(Difference(before, w.Audit({})).find(h.names), std::string::npos) << h.names << ": " << Difference(before, w.Audit({}));
  }
}

TEST(Hostile, TheOracleSeesWhatIsTold) {
  HostileWorld w(1);
  EXPECT_EQ(w.Leak("nothing in particular, nor \"\x01\x02\""), "");
  EXPECT_NE(w.Leak("xx SECRET_file xx"), "");
  for (const std::string& token : w.TokensOfRoot()) {
    EXPECT_NE(w.Leak("in front " + token + " behind"), "") << token.size() << " bytes";
    std::string forged = token;
    forged.back() = static_cast<char>(forged.back() ^ 1);
    EXPECT_EQ(w.Leak("in front " + forged + " behind"), "") << "opens nothing";
  }
  EXPECT_EQ(w.CheckBytes(), "");
  EXPECT_EQ(w.CheckBounds(), "");
}

// A client's own session.
struct HostileClient {
  explicit HostileClient(HostileWorld* world) : w(world), stub(world->to_meta()) {
    OpenSessionRequest open;
    open.header.cluster = w->strangers().h().cluster;
    open.client_uuid = Uuid{66, 1};
    open.client = "mount of the hostile one";
    const auto reply = RunSim(w->ex(), stub.OpenSession(open));
    EXPECT_TRUE(reply.ok()) << reply.error();
    if (reply.ok()) session = reply->session, epoch = reply->epoch;
  }
  OpHeader Header() {
    OpHeader h;
    h.cluster = w->strangers().h().cluster;
    h.session = session, h.epoch = epoch, h.op_seq = OpSeq(next_op++);
    h.uid = h.gid = kStranger;
    return h;
  }
  template <class T>
  Error Run(Task<Result<T>> task) {
    const Result<T> reply = RunSim(w->ex(), std::move(task));
    return reply.ok() ? Error() : reply.error();
  }
  HostileWorld* w;
  MetaStub stub;
  SessionId session;
  Epoch epoch;
  uint64_t next_op = 1;
};

// Requests by which it once took others' leases, or ended the server.
TEST(Hostile, WhatItHasFound) {
  static constexpr InodeId kNowhere(999'999'999);
  using Try = std::function<Error(HostileClient&, InodeId)>;
  const std::vector<std::pair<std::string, Try>> tries = {
      {"a rename from nowhere", [](HostileClient& c, InodeId victim) {
         RenameRequest r;
         r.header = c.Header();
         r.parent = kNowhere, r.name = "a", r.new_parent = victim, r.new_name = "b";
         return c.Run(c.stub.Rename(r));
       }},
      {"a link of nothing", [](HostileClient& c, InodeId victim) { return c.Run(c.stub.Link({c.Header(), kNowhere, victim, "b"})); }},
      {"an attribute of no kind", [](HostileClient& c, InodeId victim) {
         return c.Run(c.stub.RemoveXattr({c.Header(), victim, "none", "", false, false}));
       }},
      {"a list that is none", [](HostileClient& c, InodeId victim) {
         return c.Run(c.stub.SetXattr({c.Header(), victim, "system.posix_acl_access", "bad", false, false}));
       }},
      {"a symlink to nothing", [](HostileClient& c, InodeId victim) {
         MakeNodeRequest r;
         r.header = c.Header();
         r.parent = victim, r.name = "b", r.type = FileType::kSymlink;
         return c.Run(c.stub.MakeNode(r));
       }},
      // More than the cluster has: the sentence says which layout it is, and works out how long its stripes would be by default.
      {"a layout without columns", [](HostileClient& c, InodeId victim) {
         LayoutRequest r{c.Header(), victim, Layout()};
         r.layout->k = 0, r.layout->m = 14;
         return c.Run(c.stub.SetLayout(r));
       }},
      {"a layout without units", [](HostileClient& c, InodeId victim) {
         LayoutRequest r{c.Header(), victim, Layout()};
         r.layout->k = 30, r.layout->unit_bytes = 0;
         return c.Run(c.stub.SetLayout(r));
       }},
  };
  for (const auto& [what, attempt] : tries) {
    SCOPED_TRACE(what);
    HostileWorld w(1);
    HostileClient c(&w);
    const Handles& roots = w.strangers().handles();
    MakeNodeRequest own;
    own.header = c.Header();
    own.parent = w.strangers().own_dir(), own.name = "own", own.mode = 0755, own.type = FileType::kDirectory;
    const auto dir = RunSim(w.ex(), c.stub.MakeNode(own));
    ASSERT_TRUE(dir.ok()) << dir.error();
    const auto before = w.Audit({c.session});
    for (const InodeId victim : {dir->node.attr.ino, roots.held, roots.alone, roots.files[3]}) {
      const Error e = attempt(c, victim);
      EXPECT_FALSE(e.ok());
      EXPECT_EQ(Difference(before, w.Audit({c.session})), "") << "inode " << victim << ": " << e;
    }
    EXPECT_TRUE(c.Run(c.stub.Renew({c.Header(), {}, {}})).ok()) << "the server lives";
  }
}

// It fills the table of what may be cached with names that do not exist, and acknowledges one event when its time is nearly over.
TEST(Hostile, ADeafFlooderHoldsNobodyForLong) {
  MetaServerOptions options;
  options.max_interests = 4096;
  HostileWorld w(1, Hostile::kClient, options);
  HostileClient c(&w);
  TestClient& root = w.strangers().root();
  const InodeId open_dir = w.strangers().open_dir(), own_dir = w.strangers().own_dir();
  TaskScope flood;
  const auto look = [&](int i) {
    NameRequest r;
    r.header = c.Header();
    r.header.op_seq = OpSeq();
    r.header.timeout_ns = 300 * kSecond;
    r.parent = open_dir, r.name = "no" + std::to_string(i);
    flood.Spawn([](MetaStub* stub, NameRequest name) -> Task<void> { (void)co_await stub->Lookup(std::move(name)); }(&c.stub, std::move(r)));
  };
  for (int i = 0; i < 9000; ++i) {
    look(i);
    if (i % 100 == 0) w.ex().RunFor(100 * kMillisecond);
  }
  w.ex().RunFor(kSecond);
  const EventQueue* const queued = w.meta().sessions().FindEvents(c.session);
  ASSERT_NE(queued, nullptr);
  ASSERT_GT(queued->size(), 4000u);
  TaskScope calls;
  uint64_t acked = queued->first() - 1;
  // Seconds until the call is done, while the flooder lives on.
  const auto takes = [&](auto task) {
    bool done = false;
    calls.Spawn(std::move(task), [&done](auto reply) {
      EXPECT_TRUE(reply.ok()) << reply.error();
      done = true;
    });
    int64_t seconds = 0;
    for (; !done && seconds < 400; ++seconds) {
      RenewRequest renew;
      renew.header = c.Header();
      renew.header.op_seq = OpSeq();
      (void)c.Run(c.stub.Renew(renew));
      if (seconds % 80 == 79) {
        PollRequest poll;
        poll.header = renew.header;
        poll.header.timeout_ns = kMillisecond;
        poll.acked_event = acked++;
        (void)c.Run(c.stub.Poll(poll));
      }
      w.ex().RunFor(kSecond);
    }
    return seconds;
  };
  const auto rename = [&](InodeId dir, const std::string& from, const std::string& to) {
    RenameRequest r;
    r.header = root.Mutation();
    r.header.timeout_ns = 300 * kSecond;
    r.parent = r.new_parent = dir, r.name = from, r.new_name = to;
    return w.meta().Rename(std::move(r));
  };
  ASSERT_TRUE(root.Make(own_dir, "mine").ok());
  EXPECT_LE(takes(rename(own_dir, "mine", "mine as well")), 2) << "it has cached nothing there";
  const int64_t lease_s = w.meta().sessions().lease_ns() / kSecond;
  NameRequest look_there;
  look_there.header = root.Header();
  look_there.header.timeout_ns = 300 * kSecond;
  look_there.parent = open_dir, look_there.name = "file";
  EXPECT_LE(takes(w.meta().Lookup(look_there)), lease_s + 2) << "there is room for what others read";
  EXPECT_LE(takes(rename(open_dir, "file", "no17")), options.answer_timeout_ns / kSecond + 2) << "it is waited for no longer than for who says nothing";
  EXPECT_FALSE(w.meta().sessions().Exists(c.session));
}

CampaignResult RunAs(Hostile as, uint64_t requests) {
  CampaignPlan plan;
  plan.seed = 20'261'127;
  plan.as = as;
  plan.requests = requests;
  const CampaignResult r = RunCampaign(plan);
  std::string last;
  for (const std::string& shot : r.last) last += "\n  " + shot;
  EXPECT_EQ(r.failure, "") << "after " << r.requests << " requests of seed " << plan.seed << "; of the last ones it was one of" << last;
  if (r.failure.empty()) EXPECT_EQ(r.requests, plan.requests);
  return r;
}

// It got somewhere: what is refused at the door tests the door only.
void ExpectTaken(const CampaignResult& r, const std::string& service, const std::vector<const char*>& methods) {
  for (const char* method : methods) {
    const auto it = r.methods.find("/" + service + "/" + method);
    ASSERT_NE(it, r.methods.end()) << method;
    EXPECT_GT(it->second.taken, 0u) << method << " was never taken, of " << it->second.sent;
  }
}
void ExpectRefused(const CampaignResult& r, const std::string& service, const std::vector<const char*>& methods) {
  for (const char* method : methods) {
    const auto it = r.methods.find("/" + service + "/" + method);
    ASSERT_NE(it, r.methods.end()) << method;
    EXPECT_GT(it->second.sent, 0u) << method;
    EXPECT_EQ(it->second.taken, 0u) << method;
  }
}
const std::string kMeta = kMetaServiceName, kAdmin = kAdminServiceName, kTrust = kTrustServiceName, kData = kDataServiceName;

TEST(Hostile, ReadsChangesAndExhaustsNothing) {
  const CampaignResult r = RunAs(Hostile::kClient, 20'000);
  if (!r.failure.empty()) return;
  ExpectTaken(r, kMeta, {"OpenSession", "Renew", "Poll", "Lookup", "GetAttr", "MakeNode", "Open", "ReadDir", "Allocate", "Commit", "GetExtents", "GetMap"});
  // And nowhere where no client comes.
  ExpectRefused(r, kMeta, {"Admin", "RegisterNode", "Heartbeat"});
  ExpectRefused(r, kAdmin, {"FsckRepair", "ReadEvents"});
  ExpectRefused(r, kTrust, {"MakeToken", "RevokeCertificate", "SetExport", "ChangeAuthority", "FollowAuthority"});
  ExpectRefused(r, kData, {"Inventory"});
}

TEST(Hostile, NorWhoMayReadOneDirectory) {
  const CampaignResult r = RunAs(Hostile::kConfined, 10'000);
  if (!r.failure.empty()) return;
  EXPECT_GT(r.sessions, 0u);
  ExpectTaken(r, kMeta, {"Renew", "Lookup", "GetAttr", "Open", "ReadDir", "GetExtents", "GetMap", "Status"});
  ExpectRefused(r, kMeta, {"MakeNode", "SetAttr", "Commit", "Allocate", "Unlink", "Rmdir", "Rename", "Link", "SetXattr", "RemoveXattr", "Clone", "Admin", "Heartbeat"});
  ExpectRefused(r, kAdmin, {"ReadEvents", "Files", "Upkeep"});
  ExpectRefused(r, kTrust, {"MakeToken", "SetExport"});
  ExpectRefused(r, kData, {"Inventory"});
}

TEST(Hostile, NorADataServer) {
  const CampaignResult r = RunAs(Hostile::kNode, 10'000);
  if (!r.failure.empty()) return;
  ExpectTaken(r, kMeta, {"GetMap"});
  ExpectRefused(r, kMeta, {"OpenSession", "Commit", "Admin", "GetExtents", "Status"});
  ExpectRefused(r, kAdmin, {"FsckRepair", "Files", "ReadEvents", "Upkeep"});
  ExpectRefused(r, kTrust, {"MakeToken", "SetExport", "FollowAuthority"});
}

}  // namespace
}  // namespace stria
