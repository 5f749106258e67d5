#include "client/session/seals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/session/fake_meta.h"
#include "client/session/meta_session.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

InodeSeal SealOf(uint64_t ino) { return {InodeId(ino), ino * 1000}; }
NodeReply Shows(uint64_t ino) {
  NodeReply r;
  r.seals = {SealOf(ino)};
  return r;
}
// The seals that a request about the inode is given.
std::vector<InodeSeal> Given(Seals& seals, uint64_t ino) {
  InodeRequest r;
  r.ino = InodeId(ino);
  seals.AddTo(&r);
  return r.header.seals;
}
bool Has(Seals& seals, uint64_t ino) { return !Given(seals, ino).empty(); }

TEST(Seals, GivesRequestsWhatRepliesBrought) {
  Seals seals([](InodeId) { return true; });
  EXPECT_TRUE(Given(seals, 5).empty());
  seals.Learn(Empty());
  EXPECT_EQ(seals.size(), 0u);
  ReadDirReply list;
  list.seals = {SealOf(5), SealOf(6)};
  seals.Learn(list);
  EXPECT_EQ(Given(seals, 5), std::vector<InodeSeal>{SealOf(5)});
  EXPECT_TRUE(Given(seals, 7).empty());

  RenameRequest rename;
  rename.parent = InodeId(5);
  rename.new_parent = InodeId(6);
  rename.header.seals = {SealOf(99)};  // of an earlier try
  seals.AddTo(&rename);
  EXPECT_EQ(rename.header.seals, (std::vector<InodeSeal>{SealOf(5), SealOf(6)}));
  rename.new_parent = InodeId(5);
  seals.AddTo(&rename);
  EXPECT_EQ(rename.header.seals, std::vector<InodeSeal>{SealOf(5)}) << "once";

  // A number that was given beforehand is proved otherwise.
  CommitRequest commit;
  commit.ino = InodeId(6);
  commit.make.emplace().parent = InodeId(5);
  seals.AddTo(&commit);
  EXPECT_EQ(commit.header.seals, std::vector<InodeSeal>{SealOf(5)});

  // With another key of the export.
  NodeReply again;
  again.seals = {{InodeId(5), 77}};
  seals.Learn(again);
  EXPECT_EQ(Given(seals, 5), (std::vector<InodeSeal>{{InodeId(5), 77}}));
  EXPECT_EQ(seals.size(), 2u);
}

TEST(Seals, WhoIsConfinedCanNameWhatHeWasShown) {
  Seals seals([](InodeId) { return true; });
  EXPECT_TRUE(seals.CanName(InodeId(5))) << "nothing says that the session is confined";
  seals.Learn(Shows(5));
  EXPECT_TRUE(seals.CanName(InodeId(5)));
  EXPECT_FALSE(seals.CanName(InodeId(6)));
}

TEST(Seals, KeepsWhatIsUsedAndForgetsTheRest) {
  std::set<InodeId> open = {InodeId(1'000'001), InodeId(1'000'002)};
  Seals seals([&](InodeId ino) { return open.contains(ino); }, 100, 1000);
  OpenSessionReply root;
  root.root = InodeId(1'000'000);
  root.seals = {SealOf(1'000'000)};
  seals.LearnRoot(root);
  for (const InodeId ino : open) seals.Learn(Shows(ino.v));
  seals.Learn(Shows(2'000'000));
  seals.Learn(Shows(2'000'001));
  size_t largest = 0;
  for (uint64_t i = 1; i <= 10'000; ++i) {
    seals.Learn(Shows(i));
    EXPECT_TRUE(Has(seals, i)) << "just shown";
    EXPECT_TRUE(Has(seals, 2'000'000)) << "named all the time";
    largest = std::max(largest, seals.size());
  }
  EXPECT_LE(largest, 400u);
  EXPECT_GE(seals.size(), 100u);
  EXPECT_TRUE(Has(seals, 1'000'000));
  for (const InodeId ino : open) EXPECT_TRUE(Has(seals, ino.v));
  EXPECT_FALSE(Has(seals, 2'000'001)) << "shown once, and not in use";
  EXPECT_FALSE(Has(seals, 1));
  // Those that were shown last are there.
  for (uint64_t i = 9'980; i <= 10'000; ++i) EXPECT_TRUE(Has(seals, i)) << i;
  // Given back, it goes, too.
  open.erase(InodeId(1'000'001));
  for (uint64_t i = 20'000; i <= 22'000; ++i) seals.Learn(Shows(i));
  EXPECT_FALSE(Has(seals, 1'000'001));
  EXPECT_TRUE(Has(seals, 1'000'002));
}

TEST(Seals, WhatComesWithSealsIsTheInodesOwn) {
  Seals seals([](InodeId) { return false; }, 10, 20);
  for (uint64_t i = 1; i <= 500; ++i) {
    seals.Learn(Shows(i));
    for (uint64_t j = i > 30 ? i - 30 : 1; j <= i; ++j) {
      const auto given = Given(seals, j);
      if (!given.empty()) EXPECT_EQ(given, std::vector<InodeSeal>{SealOf(j)});
    }
  }
}

TEST(Seals, AreBoundedAlsoIfAllAreInUse) {
  Seals seals([](InodeId) { return true; }, 100, 300);
  OpenSessionReply root;
  root.root = InodeId(1'000'000);
  root.seals = {SealOf(1'000'000)};
  seals.LearnRoot(root);
  seals.Learn(Shows(2'000'000));
  for (uint64_t i = 1; i <= 5'000; ++i) {
    seals.Learn(Shows(i));
    EXPECT_LE(seals.size(), 300u);
    EXPECT_TRUE(Has(seals, i));
    if (i < 250) EXPECT_TRUE(Has(seals, 1)) << "there is room";
  }
  EXPECT_TRUE(Has(seals, 1'000'000));
  EXPECT_FALSE(Has(seals, 2)) << "not named for longest";
}

// A server that names a new root at each opening fills nothing.
TEST(Seals, FewStayAlways) {
  Seals seals([](InodeId) { return false; }, 50, 100);
  for (uint64_t i = 1; i <= 1'000; ++i) {
    OpenSessionReply root;
    root.root = InodeId(i);
    root.seals = {SealOf(i), SealOf(5'000 + i)};
    seals.LearnRoot(root);
    EXPECT_LE(seals.size(), 100u);
  }
  for (uint64_t i = 2'000; i <= 2'200; ++i) seals.Learn(Shows(i));
  EXPECT_TRUE(Has(seals, 1));
  EXPECT_FALSE(Has(seals, 5'001));
  EXPECT_FALSE(Has(seals, 900));
}

class Env {
 public:
  Env() : meta(3), session(meta, Options()) {
    meta.root_seals = {SealOf(1'000)};
    session.SetHandlers({});
    session.Start();
  }
  static MetaSessionOptions Options() {
    MetaSessionOptions o;
    o.addresses = {"a"};
    o.client_uuid = Uuid{1, 2};
    return o;
  }
  // The seals that came with it.
  std::vector<InodeSeal> Unlink(InodeId parent, const std::string& name, NodeReply* reply = nullptr) {
    NameRequest r;
    r.parent = parent;
    r.name = name;
    Result<NodeReply> done = RunSim(ex, session.Mutate(&MetaService::Unlink, r));
    EXPECT_TRUE(done.ok());
    if (done.ok() && reply != nullptr) *reply = *done;
    return meta.got_seals;
  }

  SimExecutor ex{1, 4};
  FakeMeta meta;
  MetaSession session;
};

TEST(SealsOfASession, ComeWithEveryCall) {
  Env env;
  env.meta.seals_changes = true;
  EXPECT_EQ(env.Unlink(InodeId(1'000), "a"), std::vector<InodeSeal>{SealOf(1'000)});
  NodeReply shown;
  EXPECT_TRUE(env.Unlink(InodeId(4), "b", &shown).empty()) << "it was not shown";
  ASSERT_EQ(shown.seals.size(), 1u);
  EXPECT_EQ(env.Unlink(shown.seals[0].ino, "c"), shown.seals);
  NameRequest look;
  look.parent = shown.seals[0].ino;
  look.name = "d";
  EXPECT_EQ(RunSim(env.ex, env.session.Call(&MetaService::Lookup, look)).code(), FsError::kNoEnt);
  EXPECT_EQ(env.meta.got_seals, shown.seals);
  // Of another session of the same export.
  env.meta.Fence();
  env.ex.RunFor(60 * kSecond);
  EXPECT_EQ(env.meta.sessions_opened(), 2u);
  EXPECT_EQ(env.Unlink(shown.seals[0].ino, "e"), shown.seals);
}

TEST(SealsOfASession, ComeWithReplays) {
  Env env;
  env.meta.SyncByItself(false);
  EXPECT_EQ(env.Unlink(InodeId(1'000), "a"), std::vector<InodeSeal>{SealOf(1'000)});
  env.meta.got_seals.clear();
  env.meta.Restart(false);
  env.ex.RunFor(60 * kSecond);
  EXPECT_EQ(env.meta.log(), std::vector<std::string>{"a"}) << "repeated";
  EXPECT_EQ(env.meta.got_seals, std::vector<InodeSeal>{SealOf(1'000)});
}

TEST(SealsOfASession, AreNoneIfItIsNotConfined) {
  Env env;
  env.meta.root_seals.clear();
  EXPECT_TRUE(env.Unlink(InodeId(1'000), "a").empty());
  EXPECT_TRUE(env.Unlink(InodeId(1'000), "b").empty());
}

}  // namespace
}  // namespace stria
