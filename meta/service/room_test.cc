// A metadata disk that gets full: ENOSPC in time, deleting and reading go on.
#include <gtest/gtest.h>

#include "meta/service/service_testing.h"

namespace stria {
namespace {

class FakeRoom final : public MetaRoom {
 public:
  RoomLevel Level() override { return level; }
  std::vector<Advice> Told() override { return level < RoomLevel::kScarce ? std::vector<Advice>() : std::vector<Advice>{{1, "scarce", ""}}; }
  RoomLevel level = RoomLevel::kPlenty;
};

using MetaRoomTest = ServiceTest;

TEST_F(MetaRoomTest, OnlyWhatFreesSpaceIsDoneOnAFullDisk) {
  FakeRoom room;
  h.server->UseRoom(&room);
  const auto f = a.Make(kRootInode, "f");
  ASSERT_TRUE(f.ok());
  const InodeId ino = f->node.attr.ino;
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "bytes"))).ok());
  ASSERT_TRUE(a.Make(kRootInode, "g").ok());
  room.level = RoomLevel::kScarce;
  EXPECT_TRUE(a.Make(kRootInode, "h").ok());
  EXPECT_EQ(a.Run(h.server->Status(a.Ino(InodeId())))->advice.size(), 1u);

  room.level = RoomLevel::kFull;
  const int64_t start = h.ex.NowNs();
  EXPECT_EQ(a.Make(kRootInode, "i").code(), FsError::kNoSpace);
  EXPECT_EQ(b.Make(kRootInode, "d", FileType::kDirectory).code(), FsError::kNoSpace);
  EXPECT_EQ(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "other"))).code(), FsError::kNoSpace);
  EXPECT_EQ(a.Allocate(ino).code(), FsError::kNoSpace);
  CommitRequest hole;
  hole.header = a.Mutation();
  hole.ino = ino;
  hole.punch = {{0, 2}};
  EXPECT_TRUE(a.Run(h.server->Commit(hole)).ok());
  EXPECT_LT(h.ex.NowNs() - start, kSecond) << "nobody waits for it";
  EXPECT_TRUE(b.Lookup("f").ok());
  EXPECT_TRUE(a.GetAttr(ino).ok());
  EXPECT_TRUE(a.Unlink("g").ok());
  SetAttrRequest cut;
  cut.header = a.Mutation();
  cut.ino = ino;
  cut.size = 1;
  EXPECT_TRUE(a.Run(h.server->SetAttr(cut)).ok());

  room.level = RoomLevel::kNone;
  EXPECT_EQ(a.Unlink("h").code(), FsError::kNoSpace);
  EXPECT_TRUE(b.Lookup("h").ok());
  room.level = RoomLevel::kPlenty;
  EXPECT_TRUE(a.Make(kRootInode, "i").ok()) << "it goes on by itself";
  EXPECT_TRUE(a.Unlink("h").ok());
}

// A client says with each renewal which nodes do not answer it.
TEST_F(MetaRoomTest, WhatClientsCannotReachIsTold) {
  TestNode n(&h, 1);
  n.Start();
  h.ex.RunFor(2 * kSecond);
  RenewRequest r;
  r.header = a.Header();
  r.unreachable = {n.id};
  ASSERT_TRUE(a.Run(h.server->Renew(r)).ok());
  const auto told = a.Run(h.server->Status(a.Ino(InodeId())))->advice;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].what, "Node n1 is heard, but client 1 cannot reach it at n1:7001; they read and write without it.");
}

// What it calls itself is anything: it is filed under the name that it has proved, and takes nobody else's place.
TEST_F(MetaRoomTest, WhoCannotReachANodeIsNamedByItsCertificate) {
  TestNode n(&h, 1);
  n.Start();
  h.ex.RunFor(2 * kSecond);
  TestClient proved(&h, 9);
  proved.peer = TestPeer(Role::kClient, "pc9");
  proved.renews = false;  // that would say that all is well
  proved.Open();
  RenewRequest r;
  r.header = proved.Header();
  r.unreachable = {n.id};
  ASSERT_TRUE(a.Run(h.server->Renew(r)).ok());
  const auto told = a.Run(h.server->Status(a.Ino(InodeId())))->advice;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].what.find("client pc9 (client 9) cannot reach it"), std::string::npos) << told[0].what;
  proved.Stop();
}

// Its sessions may call themselves anything: they are one client.
TEST_F(MetaRoomTest, AClientCountsOnceAmongThoseThatCannotReachANode) {
  TestNode n(&h, 1);
  n.Start();
  h.ex.RunFor(2 * kSecond);
  std::vector<std::unique_ptr<TestClient>> mounts;
  for (uint64_t i = 0; i < 3; ++i) {
    mounts.push_back(std::make_unique<TestClient>(&h, 20 + i));
    mounts.back()->peer = TestPeer(Role::kClient, "pc9");
    mounts.back()->renews = false;
    mounts.back()->Open();
    RenewRequest r;
    r.header = mounts.back()->Header();
    r.unreachable = {n.id, n.id, NodeId(4711), n.id};
    ASSERT_TRUE(a.Run(h.server->Renew(r)).ok());
  }
  auto told = a.Run(h.server->Status(a.Ino(InodeId())))->advice;
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].what.find("other"), std::string::npos) << told[0].what;
  EXPECT_LE(h.server->cluster().reach().size(), 3u);
  for (const auto& m : mounts) {
    m->Stop();
    ASSERT_TRUE(a.Run(h.server->CloseSession(m->Ino(InodeId()))).ok());
  }
  EXPECT_EQ(h.server->cluster().reach().size(), 0u) << "what a session said goes with it";
  told = a.Run(h.server->Status(a.Ino(InodeId())))->advice;
  EXPECT_TRUE(told.empty());
}

}  // namespace
}  // namespace stria
