// Fewer nodes or disks are left than the layout has columns, in every state that those that are gone can be in: what is
// written goes on as well as it can, it is said everywhere, and it gets better by itself when others come.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

class Room {
 public:
  Room(int count, int disks, const std::string& layout) : h(11, Options()) {
    for (int n = 1; n <= count; ++n) Join(disks);
    a.Open();
    h.ex.RunFor(5 * kSecond);
    Set(layout);
    auto made = a.Make(kRootInode, "f");
    EXPECT_TRUE(made.ok()) << made.error();
    ino = made->node.attr.ino;
  }
  ~Room() { nodes.clear(), a.Stop(); }

  static MetaServerOptions Options() {
    MetaServerOptions o;
    o.cluster.out_ns = 60 * kSecond;
    return o;
  }
  void Join(int disks) {
    nodes.push_back(std::make_unique<TestNode>(&h, nodes.size() + 1, disks));
    nodes.back()->Start();
  }
  void Set(const std::string& layout) {
    LayoutRequest set;
    set.header.cluster = h.cluster;
    set.ino = kRootInode;
    set.layout = *ParseLayout(layout + ",unit=64K,stripe=768K");  // some rows of whatever width
    const auto done = RunSim(h.ex, h.server->SetLayout(set));
    EXPECT_TRUE(done.ok()) << done.error();
  }
  Result<AdminReply> Admin(AdminVerb verb, NodeId node, TargetId target = TargetId(), bool dry_run = false) {
    AdminRequest r;
    r.header.cluster = h.cluster;
    r.verb = verb;
    r.node = node;
    r.target = target;
    r.dry_run = dry_run;
    return a.Run(h.server->Admin(r));
  }
  void MustAdmin(AdminVerb verb, NodeId node, TargetId target = TargetId()) {
    const auto done = Admin(verb, node, target);
    EXPECT_TRUE(done.ok()) << done.error();
  }
  // Dies, and is missed.
  TestNode& Kill(size_t n) {
    nodes[n - 1]->Stop();
    h.ex.RunFor(12 * kSecond);
    return *nodes[n - 1];
  }
  void GiveUp(size_t n) { MustAdmin(AdminVerb::kOut, Kill(n).id); }
  StatusReply Status() { return a.Run(h.server->Status(a.Ino(InodeId()))).value(); }
  Result<StripeInfo> Allocated() {
    auto got = a.Allocate(ino);
    if (!got.ok()) return got.error();
    return got->stripes[0].info;
  }
  static std::string FormOf(const StripeInfo& s) {
    return std::to_string(s.shape.k) + "+" + std::to_string(s.shape.m) + (s.narrow ? " narrow" : "") +
           (s.crowded ? " crowded" : "");
  }
  std::string Form() {
    const auto got = Allocated();
    return got.ok() ? FormOf(*got) : got.error().ToString();
  }
  // Of the file's first stripe.
  std::string Lies() {
    GetExtentsRequest r;
    r.header = a.Header();
    r.ino = ino;
    r.length = kGiB;
    const auto got = a.Run(h.server->GetExtents(r));
    return got.ok() && !got->stripes.empty() ? FormOf(got->stripes[0].info) : "nothing";
  }
  bool Becomes(const std::function<bool()>& holds, int64_t limit_s = 120) {
    for (int64_t s = 0; s < 2 * limit_s && !holds(); ++s) h.ex.RunFor(kSecond / 2);
    return holds();
  }
  bool IsWhole() {
    const StatusReply s = Status();
    return s.narrow_stripes + s.crowded_stripes + s.degraded_stripes + s.thin_stripes + s.garbage_shards == 0;
  }

  MetaHarness h;
  TestClient a{&h, 1, "n1"};
  std::vector<std::unique_ptr<TestNode>> nodes;
  InodeId ino;
};

// Five nodes, raid5:4+1, and one is gone: nothing has changed for who writes, however it is gone.
TEST(Places, WritingGoesNarrowHoweverANodeIsGone) {
  const std::pair<const char*, std::function<void(Room&)>> ways[] = {
      {"down", [](Room& r) { r.Kill(5); }},
      {"out", [](Room& r) { r.GiveUp(5); }},
      {"out by itself", [](Room& r) { r.Kill(5), r.h.ex.RunFor(90 * kSecond); }},
      {"all its disks are out",
       [](Room& r) {
         TestNode& n = r.Kill(5);
         for (TargetId t : n.targets) r.MustAdmin(AdminVerb::kOut, n.id, t);
       }},
      {"all its disks have failed",
       [](Room& r) {
         for (DiskHello& d : r.nodes[4]->disks()) d.failed = true;
         r.h.ex.RunFor(5 * kSecond);
       }},
      {"drained", [](Room& r) { r.MustAdmin(AdminVerb::kDrain, r.nodes[4]->id); }},
      {"drained and removed",
       [](Room& r) {
         r.MustAdmin(AdminVerb::kDrain, r.nodes[4]->id);
         r.h.ex.RunFor(5 * kSecond);
         r.Kill(5);
         r.MustAdmin(AdminVerb::kRemove, r.nodes[4]->id);
       }},
      {"out and removed",
       [](Room& r) {
         r.GiveUp(5);
         r.MustAdmin(AdminVerb::kRemove, r.nodes[4]->id);
       }},
  };
  for (const auto& [name, go] : ways) {
    SCOPED_TRACE(name);
    Room r(5, 2, "raid5:4+1");
    EXPECT_EQ(r.Form(), "4+1");
    EXPECT_TRUE(r.Status().layouts.empty());
    go(r);
    EXPECT_EQ(r.Form(), "3+1 narrow");
    const auto written = r.a.WriteStripe(r.ino, 0, 500'000);
    EXPECT_TRUE(written.ok()) << written.error();
    const StatusReply s = r.Status();
    ASSERT_EQ(s.layouts.size(), 1u);
    EXPECT_EQ(s.layouts[0].layout, "raid5:4+1");
    EXPECT_EQ(s.layouts[0].stripes, "3+1");
    EXPECT_TRUE(s.layouts[0].narrow && !s.layouts[0].crowded && !s.layouts[0].none);
    EXPECT_EQ(s.layouts[0].until, std::string(name) == "down" ? "what is down is back" : "another node joins");
    r.Join(2);
    EXPECT_TRUE(r.Becomes([&] { return r.Form() == "4+1" && r.IsWhole(); })) << r.Form();
    EXPECT_TRUE(r.Status().layouts.empty());
    EXPECT_EQ(r.Lies(), "4+1");
    EXPECT_TRUE(r.h.Fsck().empty());
  }
}

TEST(Places, FromAllNodesToOneDisk) {
  struct Case {
    const char* layout;
    std::vector<const char*> forms;  // with 5 .. 1 nodes, and then with one disk
  };
  const Case cases[] = {
      {"raid5:4+1", {"4+1", "3+1 narrow", "2+1 narrow", "1+1 narrow", "1+1 narrow crowded", "TooFewDomains"}},
      {"raid6:3+2", {"3+2", "2+2 narrow", "1+2 narrow", "2+2 narrow crowded", "TooFewDomains", "TooFewDomains"}},
      {"raid1:2", {"1+1", "1+1", "1+1", "1+1", "1+1 crowded", "TooFewDomains"}},
      {"raid1:3", {"1+2", "1+2", "1+2", "1+2 crowded", "TooFewDomains", "TooFewDomains"}},
      {"raid1:3,min=1", {"1+2", "1+2", "1+2", "1+2 crowded", "1+1 narrow crowded", "1+0 narrow"}},
      {"raid5:4+1,min=1", {"4+1", "3+1 narrow", "2+1 narrow", "1+1 narrow", "1+1 narrow crowded", "1+0 narrow"}},
      {"raid0:4", {"4+0", "4+0", "3+0 narrow", "2+0 narrow", "1+0 narrow", "1+0 narrow"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.layout);
    Room r(5, 2, c.layout);
    for (size_t gone = 0; gone < c.forms.size(); ++gone) {
      SCOPED_TRACE(testing::Message() << gone << " are gone");
      if (gone == 5) r.MustAdmin(AdminVerb::kDrain, r.nodes[0]->id, r.nodes[0]->targets[0]);
      else if (gone > 0) r.GiveUp(6 - gone);
      const std::string form = r.Form();
      EXPECT_TRUE(form.starts_with(c.forms[gone])) << form;
      const auto rooms = r.Status().layouts;
      if (!form.starts_with("TooFew")) {
        EXPECT_EQ(rooms.empty(), form.find(' ') == std::string::npos);
        continue;
      }
      EXPECT_NE(form.find("needs"), std::string::npos) << form;
      EXPECT_NE(form.find("add "), std::string::npos) << form;
      ASSERT_EQ(rooms.size(), 1u);
      EXPECT_TRUE(rooms[0].none);
    }
  }
}

// The smallest room: it goes on with both copies in one node, and they part when there is another one.
TEST(Places, TwoNodesWithTwoDisks) {
  for (const bool out : {false, true}) {
    Room r(2, 2, "raid1:2");
    EXPECT_EQ(r.Form(), "1+1");
    r.nodes[1]->Stop();
    r.h.ex.RunFor(4 * kSecond);
    if (out) r.h.ex.RunFor(8 * kSecond), r.MustAdmin(AdminVerb::kOut, r.nodes[1]->id);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(r.a.WriteStripe(r.ino, i * kMiB, 100'000).ok());
    StatusReply s = r.Status();
    EXPECT_EQ(s.crowded_stripes, 4u);
    if (!out) {
      EXPECT_TRUE(s.layouts.empty()) << "it may only be late";
      r.h.ex.RunFor(8 * kSecond);
      s = r.Status();
    }
    ASSERT_EQ(s.layouts.size(), 1u);
    EXPECT_TRUE(s.layouts[0].crowded);
    EXPECT_EQ(s.layouts[0].stripes, "2 copies");
    EXPECT_EQ(r.Lies(), "1+1 crowded");
    r.nodes[1]->Start();
    EXPECT_TRUE(r.Becomes([&] { return r.IsWhole(); }));
    EXPECT_EQ(r.Lies(), "1+1");
    EXPECT_TRUE(r.Status().layouts.empty());
    EXPECT_TRUE(r.h.Fsck().empty());
  }
}

// A client that cannot reach a node that is well writes crowded; that is put right at once.
TEST(Places, WhatOnlyOneWriterHadToCrowdIsSpreadAtOnce) {
  Room r(2, 2, "raid1:2");
  AllocateRequest ask;
  ask.header = r.a.Mutation();
  ask.ino = r.ino;
  ask.count = 1;
  ask.avoid = r.nodes[1]->targets;
  const auto got = r.a.Run(r.h.server->Allocate(ask));
  ASSERT_TRUE(got.ok()) << got.error();
  EXPECT_EQ(Room::FormOf(got->stripes[0].info), "1+1 crowded");
  CommitRequest c;
  c.header = r.a.Mutation();
  c.ino = r.ino;
  c.stripes = {TestClient::Sealed(got->stripes[0].info, 1000)};
  Extent e;
  e.length = 1000;
  e.stripe = c.stripes[0].id;
  c.extents = {e};
  ASSERT_TRUE(r.a.Run(r.h.server->Commit(c)).ok());
  EXPECT_EQ(r.Status().crowded_stripes, 1u);
  EXPECT_TRUE(r.Becomes([&] { return r.IsWhole(); }, 20));
}

// Five nodes with four disks each, four of them gone: as wide as one node can be. Each better room is made use of as soon as
// the stripe stands more by it, and the whole one.
TEST(Places, CrowdedAndNarrowGetsBetterStepByStep) {
  Room r(5, 4, "raid5:4+1");
  for (size_t n = 5; n >= 2; --n) r.Kill(n);
  EXPECT_EQ(r.Form(), "3+1 narrow crowded");
  ASSERT_TRUE(r.a.WriteStripe(r.ino, 0, 500'000).ok());
  r.nodes[1]->Start();
  EXPECT_TRUE(r.Becomes([&] { return r.Lies() == "1+1 narrow"; })) << r.Lies();
  r.nodes[2]->Start();
  r.h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(r.Lies(), "1+1 narrow") << "it stands no more by being wider";
  r.nodes[3]->Start();
  r.nodes[4]->Start();
  EXPECT_TRUE(r.Becomes([&] { return r.Lies() == "4+1" && r.IsWhole(); })) << r.Lies();
  EXPECT_TRUE(r.h.Fsck().empty());
}

// With fewer copies, as the layout allows: named as at risk, and made whole as soon as that is possible, crowded if need be.
TEST(Places, FewerCopiesAreAtRiskUntilThereAreMore) {
  for (const char* layout : {"raid1:2,min=1", "raid1:2,min=1,arrange=gathered,place=local"}) {
    SCOPED_TRACE(layout);
    Room r(2, 1, layout);
    r.GiveUp(2);
    EXPECT_EQ(r.Form(), "1+0 narrow");
    ASSERT_TRUE(r.a.WriteStripe(r.ino, 0, 100'000).ok());
    StatusReply s = r.Status();
    EXPECT_EQ(s.thin_stripes, 1u);
    ASSERT_EQ(s.thin_files.size(), 1u);
    EXPECT_EQ(s.thin_files[0].path, "/f");
    ASSERT_EQ(s.layouts.size(), 1u);
    EXPECT_TRUE(s.layouts[0].thin);
    EXPECT_EQ(s.layouts[0].stripes, "1 copy");
    r.h.ex.RunFor(60 * kSecond);
    EXPECT_EQ(r.Lies(), "1+0 narrow");
    r.Join(1);
    EXPECT_TRUE(r.Becomes([&] { return r.Lies() == "1+1" && r.IsWhole(); })) << r.Lies();
    s = r.Status();
    EXPECT_EQ(s.thin_stripes, 0u);
    EXPECT_TRUE(s.thin_files.empty() && s.layouts.empty());
    EXPECT_TRUE(r.h.Fsck().empty());
  }
}

TEST(Places, FewerCopiesOnlyIfTheDisksThatFailedAWriterAreGone) {
  Room r(2, 1, "raid1:2,min=1");
  AllocateRequest ask;
  ask.header = r.a.Mutation();
  ask.ino = r.ino;
  ask.avoid = r.nodes[1]->targets;
  const auto got = r.a.Run(r.h.server->Allocate(ask));
  ASSERT_TRUE(got.ok()) << got.error();
  EXPECT_EQ(Room::FormOf(got->stripes[0].info), "1+1");
}

// A layout that the room as it is does not hold is refused; one that it held once is written on.
TEST(Places, SettingALayoutIsAnotherMatter) {
  Room r(5, 1, "raid5:4+1");
  r.GiveUp(5);
  LayoutRequest set;
  set.header.cluster = r.h.cluster;
  set.ino = kRootInode;
  set.layout = *ParseLayout("raid5:4+1");
  const auto refused = RunSim(r.h.ex, r.h.server->SetLayout(set));
  EXPECT_EQ(refused.code(), FsError::kTooFewDomains);
  EXPECT_NE(refused.error().message.find("or layout raid5:3+1"), std::string::npos) << refused.error();
  EXPECT_EQ(r.Form(), "3+1 narrow");
  set.layout = *ParseLayout("raid5:4+1,min=1");
  EXPECT_TRUE(RunSim(r.h.ex, r.h.server->SetLayout(set)).ok()) << "it says how little may do";
  set.layout = *ParseLayout("raid5:3+1");
  EXPECT_TRUE(RunSim(r.h.ex, r.h.server->SetLayout(set)).ok());
}

// The last disk that takes anything is not drained without more ado; and if it is, who writes hears of it at once.
TEST(Places, DrainingAllDisksIsRefusedOrToldAtOnce) {
  Room r(2, 1, "raid1:2,min=1");
  r.MustAdmin(AdminVerb::kDrain, r.nodes[0]->id);
  const auto refused = r.Admin(AdminVerb::kDrain, r.nodes[1]->id);
  ASSERT_EQ(refused.code(), FsError::kBusy);
  EXPECT_NE(refused.error().message.find("every disk would be being emptied"), std::string::npos) << refused.error();
  EXPECT_EQ(r.Admin(AdminVerb::kDrain, r.nodes[1]->id, TargetId(), true).code(), FsError::kBusy) << "told beforehand";
  AdminRequest force;
  force.header.cluster = r.h.cluster;
  force.verb = AdminVerb::kDrain;
  force.node = r.nodes[1]->id;
  force.force = true;
  ASSERT_TRUE(r.a.Run(r.h.server->Admin(force)).ok());
  const std::string form = r.Form();
  EXPECT_TRUE(form.starts_with("AllEmptied") && form.find("every disk is being emptied") != std::string::npos) << form;
  r.MustAdmin(AdminVerb::kUndrain, r.nodes[1]->id);
  EXPECT_TRUE(r.Allocated().ok()) << r.Form();
  // One that is only away is waited for.
  r.MustAdmin(AdminVerb::kUndrain, r.nodes[0]->id);
  r.Kill(2);
  ASSERT_TRUE(r.Admin(AdminVerb::kDrain, r.nodes[0]->id).ok());
  EXPECT_TRUE(r.Form().starts_with("TooFew")) << r.Form();
}

// A stripe has each column on a disk of its own. Where fewer would be left, it has nowhere to go, and the drain no end.
TEST(Places, DrainingBelowTheWidthOfAStripeIsRefused) {
  Room r(5, 1, "raid5:3+1");
  ASSERT_TRUE(r.a.WriteStripe(r.ino, 0, 700 * kKiB).ok());
  const auto drain = [&](size_t n, bool dry_run, bool force) {
    AdminRequest q;
    q.header.cluster = r.h.cluster;
    q.verb = AdminVerb::kDrain;
    q.node = r.nodes[n]->id;
    q.dry_run = dry_run;
    q.force = force;
    return r.a.Run(r.h.server->Admin(q));
  };
  ASSERT_TRUE(drain(0, false, false).ok()) << "there is one disk more than it needs";
  r.h.ex.RunFor(60 * kSecond);
  const auto told = drain(1, true, false);
  ASSERT_TRUE(told.ok()) << told.error();
  EXPECT_NE(told->message.find("1 stripe with more columns than the 3 disks that would be left"), std::string::npos)
      << told->message;
  const auto refused = drain(1, false, false);
  EXPECT_EQ(refused.code(), FsError::kBusy);
  EXPECT_NE(refused.error().message.find("would never be empty. Add a disk first"), std::string::npos) << refused.error();
  EXPECT_EQ(r.Status().map.FindTarget(r.nodes[1]->targets[0])->state, TargetState::kUp);
  EXPECT_TRUE(drain(1, false, true).ok());
  r.MustAdmin(AdminVerb::kUndrain, r.nodes[1]->id);
  r.Join(1);
  r.h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(drain(1, false, false).ok()) << "now there is a place";
}

TEST(Places, VerbsSayWhatTheyMeanForNewStripes) {
  const std::string told = "; new stripes of layout raid5:4+1 will be 3+1 until another node joins";
  Room r(5, 2, "raid5:4+1");
  const auto message = [&](AdminVerb verb, NodeId node, TargetId target, bool dry_run) {
    const auto done = r.Admin(verb, node, target, dry_run);
    EXPECT_TRUE(done.ok()) << done.error();
    return done.ok() ? done->message : "";
  };
  const NodeId n5 = r.nodes[4]->id;
  EXPECT_TRUE(message(AdminVerb::kDrain, n5, TargetId(), true).ends_with(told));
  const std::string one_disk = message(AdminVerb::kDrain, n5, r.nodes[4]->targets[0], true);
  EXPECT_EQ(one_disk.find("new stripes"), std::string::npos) << one_disk << ": it has another disk";
  EXPECT_TRUE(message(AdminVerb::kRemove, n5, TargetId(), true).ends_with(told));
  r.Kill(5);
  EXPECT_TRUE(message(AdminVerb::kOut, n5, TargetId(), true).ends_with(told));
  EXPECT_EQ(r.Status().map.FindNode(n5)->state, NodeState::kDown) << "that was a try";
  EXPECT_TRUE(message(AdminVerb::kOut, n5, TargetId(), false).ends_with(told));
  EXPECT_TRUE(message(AdminVerb::kRemove, n5, TargetId(), false).ends_with(told));
  const std::string next = message(AdminVerb::kDrain, r.nodes[3]->id, TargetId(), true);
  EXPECT_TRUE(next.ends_with("new stripes of layout raid5:4+1 will be 2+1 until 2 more nodes join")) << next;
  r.Join(2);
  r.h.ex.RunFor(5 * kSecond);
  r.MustAdmin(AdminVerb::kDrain, r.nodes[3]->id);
  const std::string undrained = message(AdminVerb::kUndrain, r.nodes[3]->id, TargetId(), false);
  EXPECT_EQ(undrained.find("new stripes"), std::string::npos) << undrained;
  // Of a layout that only stripes have which were written long ago.
  Room mirrored(2, 1, "raid1:2");
  ASSERT_TRUE(mirrored.a.WriteStripe(mirrored.ino, 0, 1000).ok());
  mirrored.Set("linear");
  mirrored.h.ex.RunFor(7200 * kSecond);
  (void)mirrored.Status();
  const auto left = mirrored.Admin(AdminVerb::kDrain, mirrored.nodes[1]->id, TargetId(), true);
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(left->message.ends_with("; nothing can be written with layout raid1:2 until another node joins"))
      << left->message;
}

}  // namespace
}  // namespace stria
