// After a restart: what sessions claim, and what they repeat.
#include <gtest/gtest.h>

#include "meta/service/service_testing.h"

namespace stria {
namespace {

// a made f, b renamed it to g, a removed g; none of it was durable. Whatever comes first: it is done in that order.
TEST_F(ServiceTest, ReplaysAreDoneInTheOrderOfTheLostCommits) {
  a.Stop(), b.Stop();
  h.Crash(false);
  a.replay_next = 10;
  b.replay_next = 11;
  ASSERT_TRUE(a.Reclaim());
  ASSERT_TRUE(b.Reclaim());
  const auto place = [](OpHeader header, uint64_t order, uint64_t next) {
    header.replay_order = order;
    header.replay_next = next;
    return header;
  };
  RenameRequest rename;
  rename.header = place(b.Mutation(), 11, 0);
  rename.parent = rename.new_parent = kRootInode;
  rename.name = "f";
  rename.new_name = "g";
  TaskScope scope;
  std::optional<Result<NodeReply>> renamed;
  scope.Spawn([](MetaServer* server, RenameRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->Rename(r));
  }(h.server.get(), rename, &renamed));
  h.ex.RunFor(kSecond);
  EXPECT_FALSE(renamed) << "before what a did before it";
  MakeNodeRequest make;
  make.header = place(a.Mutation(), 10, 12);
  make.parent = kRootInode;
  make.name = "f";
  ASSERT_TRUE(a.Run(h.server->MakeNode(make)).ok());
  NameRequest unlink = a.Name(kRootInode, "g", true);
  unlink.header = place(unlink.header, 12, 0);
  Result<NodeReply> unlinked = FsError::kIo;
  EXPECT_LT(Timed(h.server->Unlink(unlink), &unlinked), kSecond) << "neither waits for the other's end";
  EXPECT_TRUE(unlinked.ok()) << unlinked.error();
  ASSERT_TRUE(renamed.has_value());
  EXPECT_TRUE(renamed->ok()) << renamed->error();
  EXPECT_TRUE(h.Fsck().empty());
}

// What it opened before a session has claimed, if it still has it; else there is nobody who would ever give it back.
TEST_F(ServiceTest, ARepeatedCreateOpensNothing) {
  for (const bool held : {false, true}) {
    const auto made = a.Make(kRootInode, "f");
    ASSERT_TRUE(made.ok()) << made.error();
    const InodeId ino = made->node.attr.ino;
    if (!held) a.Release(ino);
    a.Stop(), b.Stop();
    h.Crash(false);
    a.replay_next = 10;
    ASSERT_TRUE(a.Reclaim(held ? std::vector<HeldInode>{{ino, LeaseMode::kExclusive, true}} : std::vector<HeldInode>()));
    ASSERT_TRUE(b.Reclaim());
    MakeNodeRequest again;
    again.header = a.Mutation();
    again.header.replay_order = 10;
    again.parent = kRootInode;
    again.name = "f";
    again.mode = 0755;
    again.open = true;
    again.former = ino;
    again.header.opened = made->proof;
    const auto remade = a.Run(h.server->MakeNode(again));
    ASSERT_TRUE(remade.ok()) << remade.error();
    EXPECT_EQ(remade->node.attr.ino, ino);
    EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
    ASSERT_TRUE(b.Unlink("f").ok());
    h.ex.RunFor(5 * kSecond);
    EXPECT_EQ(a.GetAttr(ino).code(), held ? FsError::kOk : FsError::kStale);
    if (held) a.Release(ino);
    h.ex.RunFor(5 * kSecond);
    EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);
    EXPECT_TRUE(h.Fsck().empty());
    EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  }
}

// What it was allowed by then (its handle) is closed since.
TEST_F(ServiceTest, WhatIsRepeatedWasAllowed) {
  for (int round = 0; round < 16; ++round) {  // a crash loses a part of what was last, which is another each time
    SCOPED_TRACE(round);
    const auto made = a.Make(kRootInode, "f" + std::to_string(round));
    ASSERT_TRUE(made.ok()) << made.error();
    const InodeId ino = made->node.attr.ino;
    ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
    CommitRequest commit = a.InlineCommit(ino, 0, "acknowledged");
    commit.header.uid = 1000;
    commit.header.opened = made->proof;
    ASSERT_TRUE(a.Run(h.server->Commit(commit)).ok());
    SetAttrRequest shorten;
    shorten.header = a.Mutation();
    shorten.header.uid = 1000;
    shorten.header.opened = made->proof;
    shorten.ino = ino;
    shorten.size = 5;
    const bool shortens = round % 2 == 1;
    if (shortens) ASSERT_TRUE(a.Run(h.server->SetAttr(shorten)).ok());
    a.Release(ino);
    a.Stop(), b.Stop();
    h.Crash(true);
    a.replay_next = 10;
    ASSERT_TRUE(a.Reclaim());
    ASSERT_TRUE(b.Reclaim());
    commit.header.replay_order = 10;
    commit.header.replay_next = shortens ? 11 : 0;
    // Nobody else had it open, whatever he says.
    CommitRequest others = a.InlineCommit(ino, 0, "wrong");
    others.header.uid = 1000;
    others.header.replay_order = others.header.replay_next = 10;
    EXPECT_EQ(a.Run(h.server->Commit(others)).code(), FsError::kAccess);
    const auto committed = a.Run(h.server->Commit(commit));
    EXPECT_TRUE(committed.ok()) << committed.error();
    if (shortens) {
      shorten.header.replay_order = 11;
      const auto shortened = a.Run(h.server->SetAttr(shorten));
      EXPECT_TRUE(shortened.ok()) << shortened.error();
    }
    EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
    EXPECT_EQ(b.GetAttr(ino)->attr.size, shortens ? 5u : 12u);
    shorten.header = a.Mutation();
    shorten.header.uid = 1000;
    shorten.size = 0;
    EXPECT_EQ(a.Run(h.server->SetAttr(shorten)).code(), FsError::kAccess) << "a new one";
  }
  EXPECT_TRUE(h.Fsck().empty());
}

// Room is not asked for again of what was acknowledged: in the time for that, and of what has its place there.
TEST_F(ServiceTest, ARepetitionHasItsTimeAndItsPlace) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  const std::string piece(kMaxInlineBytes, 'x');
  for (uint64_t from = 0; from < kMiB; from += piece.size()) {
    ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, from, piece))).ok());
  }
  uint64_t at = kMiB;
  const auto repeat = [&](uint64_t order, uint64_t next) {
    CommitRequest r = a.InlineCommit(ino, at += 100, "too much");
    r.header.replay_order = order;
    r.header.replay_next = next;
    return a.Run(h.server->Commit(r)).code();
  };
  EXPECT_EQ(repeat(10, 10), FsError::kTooBig) << "nothing was lost";
  ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  for (const bool told : {true, false}) {  // that there is something to repeat
    a.Stop(), b.Stop();
    h.Crash(false);
    a.replay_next = told ? 10 : 0;
    ASSERT_TRUE(a.Reclaim({{ino, LeaseMode::kExclusive, true}}));
    ASSERT_TRUE(b.Reclaim());
    EXPECT_TRUE(RunSim(h.ex, h.server->Sync(b.Ino(InodeId()))).ok());
    EXPECT_EQ(repeat(9, 10), FsError::kTooBig) << "before the first that it told of";
    EXPECT_EQ(repeat(UINT64_MAX, 10), FsError::kTooBig) << "it was not answered";
    EXPECT_EQ(repeat(10, told ? 12 : 0), told ? FsError::kOk : FsError::kTooBig);
    if (told) EXPECT_EQ(repeat(10, 12), FsError::kTooBig) << "the next one is another";
    if (told) EXPECT_EQ(repeat(12, 13), FsError::kOk);
    EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
    EXPECT_EQ(repeat(13, 14), FsError::kTooBig) << "it has said that it was all";
    CommitRequest punch;
    punch.header = a.Mutation();
    punch.ino = ino;
    punch.punch = {{kMiB, kMiB}};
    ASSERT_TRUE(a.Run(h.server->Commit(punch)).ok());
    ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  }
}

// The time for that begins when it can be done: after the last client that may come back.
TEST_F(ServiceTest, RepetitionsHaveTheirTimeWhenOthersDoNotComeBack) {
  a.Stop(), b.Stop();
  h.Crash(false);
  a.replay_next = 10;
  ASSERT_TRUE(a.Reclaim());
  h.ex.RunFor(20 * kSecond);  // b has gone
  EXPECT_FALSE(h.server->sessions().reclaiming());
  EXPECT_TRUE(h.server->sessions().replays().MayRepeat(a.session, 10, h.ex.NowNs()));
  h.ex.RunFor(20 * kSecond);
  EXPECT_FALSE(h.server->sessions().replays().MayRepeat(a.session, 10, h.ex.NowNs()));
}

// A session claims what it was given, and nothing that it only knows the number of.
TEST_F(ServiceTest, AClaimNeedsItsProof) {
  const auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  const FileLock lock{ino, LockKind::kFlock, 1, LockType::kWrite, 0, kLockToEnd, 1};
  ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  const std::string for_reading = a.Proof(ino, kOpenRead);
  const std::vector<std::pair<HeldInode, bool>> claims = {
      {{ino, LeaseMode::kExclusive, true, false, ""}, false},
      {{ino, LeaseMode::kExclusive, true, false, for_reading}, false},
      {{ino, LeaseMode::kExclusive, true, false, b.Proof(ino)}, false},
      {{InodeId(ino.v + 1), LeaseMode::kRead, false, false, made->proof}, false},
      {{ino, LeaseMode::kRead, false, false, for_reading}, true},
      {{ino, LeaseMode::kNone, false, false, for_reading}, true},
  };
  for (const auto& [claim, good] : claims) {
    a.Stop(), b.Stop();
    h.Crash(false);
    HeldInode held = claim;
    if (held.proof == for_reading) held.proof = a.Proof(ino, kOpenRead);
    if (held.proof == made->proof) held.proof = a.Proof(ino);
    EXPECT_TRUE(b.Reclaim());
    EXPECT_EQ(a.ReclaimAs({held}, {lock}), good) << claim.proof.size();
    EXPECT_FALSE(h.server->leases().IsWriter(a.session, ino));
  }
  // And no lock of what it does not claim to have open.
  a.Stop(), b.Stop();
  h.Crash(false);
  EXPECT_TRUE(b.Reclaim());
  EXPECT_FALSE(a.ReclaimAs({}, {lock}));
}

TEST_F(ServiceTest, WhatWasAskedOfTheServerBeforeIsAskedAgain) {
  MakeNodeRequest late;
  late.header = a.Mutation();
  late.header.term = h.server->term();
  late.parent = kRootInode;
  late.name = "f";
  a.Stop(), b.Stop();
  h.Crash(false);
  ASSERT_TRUE(a.Reclaim());
  ASSERT_TRUE(b.Reclaim());
  EXPECT_EQ(a.Run(h.server->MakeNode(late)).code(), FsError::kRetryLater);
  late.header.term = h.server->term();
  EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok() && RunSim(h.ex, h.server->Sync(b.Ino(InodeId()))).ok());
  EXPECT_TRUE(a.Run(h.server->MakeNode(late)).ok());
}

TEST_F(ServiceTest, RestartWaitsForReclaims) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  a.Stop(), b.Stop();
  h.Crash(false);
  TestClient c{&h, 3};
  c.Open();
  EXPECT_EQ(a.Lookup("f").code(), FsError::kRetryLater) << "reclaim first";
  // A reclaims its exclusive lease; B does not come back. C must wait for B's lease, then recalls A.
  EXPECT_TRUE(a.Reclaim({{ino, LeaseMode::kExclusive, true}}));
  ASSERT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
  EXPECT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "dirty"))).ok()) << "in nobody's way";
  Result<OpenReply> opened = FsError::kIo;
  const int64_t took = Timed(c.OpenTask(ino, false), &opened);
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_GT(took, 10 * kSecond);
  EXPECT_EQ(opened->lease, LeaseMode::kShared);
  EXPECT_EQ(opened->node.attr.size, 5u);
  EXPECT_FALSE(b.Reclaim()) << "expired: everything it held is lost";
}

// It holds more than the server can tell it of: it gets a fresh session.
TEST(ReclaimTest, OfMoreThanCanBeToldIsRefused) {
  MetaServerOptions o;
  o.max_interests = 8;
  o.sessions.max_events = 8;
  MetaHarness h(1, o);
  TestClient a(&h, 1);
  a.Open();
  const SessionId before = a.session;
  std::vector<HeldInode> held;
  for (int i = 0; i < 100; ++i) {
    const auto made = a.Make(kRootInode, "f" + std::to_string(i));
    ASSERT_TRUE(made.ok()) << made.error();
    held.push_back({made->node.attr.ino, LeaseMode::kExclusive, true});
  }
  a.Stop();
  h.Crash(false);
  EXPECT_FALSE(a.Reclaim(held));
  EXPECT_NE(a.session, before);
  EXPECT_TRUE(a.Lookup("f7").ok());
  EXPECT_FALSE(h.server->leases().IsOpen(held[7].ino));
  a.Stop();
}

}  // namespace
}  // namespace stria
