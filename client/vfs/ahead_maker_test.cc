#include "client/vfs/ahead_maker.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "client/session/believed.h"
#include "client/vfs/floor_testing.h"

namespace stria {
namespace {

constexpr InodeId kDir{2};
constexpr InodeId kFirst{1000};
const Caller kRoot;

class AheadMakerTest : public ::testing::Test, public LowerFloorForTest {
 public:
  AheadMakerTest()
      : attrs(table, nodes, made_ahead, view, [this] { return lease_left_ns; }),
        come_back({table, nodes, last_known, leases, made_ahead, write_back, locks, take_ups, view}, ForComeBack(), scope),
        room(table, nodes, attrs, leases, made_ahead, come_back, [this] { return generation; },
             [this](const Caller& who) { return AsBelieved(believed, who); }) {}
  ~AheadMakerTest() override { scope.CancelAll(); }

  ComeBackNeeds ForComeBack() {
    ComeBackNeeds needs;
    needs.generation = [this] { return generation; };
    needs.number_call = [this] { return ++numbers; };
    needs.unknown_lost = [this](InodeId ino) { unknown_lost.push_back(ino); };
    return needs;
  }
  static Attr Directory() {
    Attr attr;
    attr.ino = kDir;
    attr.type = FileType::kDirectory;
    attr.mode = 0755;
    attr.uid = 7;
    attr.gid = 8;
    attr.nlink = 2;
    attr.version = 5;
    return attr;
  }
  // The server gives the directory to this client alone, and some numbers.
  void GiveDirectory() {
    nodes.MadeEmpty(kDir);
    OpenReply reply;
    reply.alone = true;
    reply.alone_proof = "directory";
    reply.first_number = kFirst;
    reply.numbers = 3;
    reply.numbers_proof = "numbers";
    reply.sets = true;
    reply.node.parent = Directory();
    room.TakeAhead(kDir, reply, leases.events_seen());
  }
  VfsInode& dir() { return *table.Look(kDir); }
  VfsInodePtr Make(const std::string& name = "new", const Caller& who = kRoot, uint32_t mode = 0666) {
    return room.MakeFile(who, kDir, name, mode);
  }

  BelievedCallers believed = {true, {{1, UINT32_MAX}}, {{0, UINT32_MAX}}};
  AttrView attrs;
  std::vector<InodeId> unknown_lost;
  ComeBack come_back;
  AheadMaker room;
};

TEST_F(AheadMakerTest, AFileIsMadeInADirectoryThatIsOursAlone) {
  EXPECT_EQ(Make(), nullptr);
  GiveDirectory();
  Caller who;
  who.uid = 7;
  who.gid = 9;
  who.umask = 0022;
  const VfsInodePtr file = Make("new", who);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->ino, kFirst);
  EXPECT_EQ(file->attr.mode, 0644u);
  EXPECT_EQ(file->attr.uid, 7u);
  EXPECT_EQ(file->attr.gid, 9u);
  EXPECT_EQ(file->lease.mode(), LeaseMode::kExclusive);
  EXPECT_EQ(file->lease.proof(), "numbers");
  EXPECT_TRUE(file->in_kernel.attr_forgotten());  // nobody has been shown anything
  ASSERT_TRUE(file->made.file());
  EXPECT_EQ(file->made.file()->name, "new");
  EXPECT_EQ(nodes.FindEntry(kDir, "new"), kFirst);
  EXPECT_NE(made_ahead.Unknown(kDir), nullptr);
  EXPECT_EQ(Make("new", who), nullptr);  // it is there: the server says what is to become of that
  EXPECT_EQ(Make("other", who)->ino, InodeId(kFirst.v + 1));
}

// Whatever is not sure is asked of the server.
TEST_F(AheadMakerTest, OnlyWhereTheServerWouldSurelyAllowItAndNobodyCanNotice) {
  GiveDirectory();
  EXPECT_EQ(Make(""), nullptr);
  EXPECT_EQ(Make("new", kRoot, 04755), nullptr);  // set-id bits
  Caller other;
  other.uid = 1234;
  EXPECT_EQ(Make("new", other), nullptr);  // who may not write there
  lease_left_ns = 0;
  EXPECT_EQ(Make(), nullptr);
  lease_left_ns = kSecond;
  dir().attr_stale = true;
  EXPECT_EQ(Make(), nullptr);
  dir().attr_stale = false;
  dir().layout_known = false;
  EXPECT_EQ(Make(), nullptr);
  dir().layout_known = true;
  {
    const MadeAhead::Pause pause(&made_ahead, kDir);
    EXPECT_EQ(Make(), nullptr);
  }
  {
    const NodeCache::Changing changing(&nodes, kDir, "other");
    EXPECT_EQ(Make("other"), nullptr);
  }
  {
    const SemaphoreHold held = RunSim(ex, dir().turns.lease_mu.Lock());  // it is on its way to be given up
    EXPECT_EQ(Make(), nullptr);
  }
  EXPECT_NE(Make(), nullptr);
  dir().lease.Recalled(LeaseMode::kRead, leases.events_seen());
  EXPECT_EQ(Make("third"), nullptr);
}

TEST_F(AheadMakerTest, NotInADirectoryThatIsNotKnownWhole) {
  GiveDirectory();
  nodes.Revoked(kDir, "");
  EXPECT_EQ(Make(), nullptr);
}

TEST_F(AheadMakerTest, NotWithoutNumbers) {
  GiveDirectory();
  for (const char* name : {"a", "b", "c"}) EXPECT_NE(Make(name), nullptr);
  EXPECT_EQ(Make("d"), nullptr);
}

TEST_F(AheadMakerTest, ADirectoryWithItsSetgidBitGivesItsGroup) {
  GiveDirectory();
  dir().attr.mode |= 02000;
  EXPECT_EQ(Make()->attr.gid, 8u);
}

TEST_F(AheadMakerTest, WhatItsMakerChangesIsToldWithTheFile) {
  GiveDirectory();
  const VfsInodePtr file = Make();
  SetAttrIn set;
  set.mode = 0600;
  set.mtime_ns = 77;
  const std::optional<EntryOut> done = room.SetAhead(kRoot, file->ino, set);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->attr.mode, 0600u);
  EXPECT_EQ(done->attr.mtime_ns, 77);
  EXPECT_EQ(file->made.file()->set->mode, 0600u);
  EXPECT_EQ(file->made.file()->set->mtime_ns, 77);
  EXPECT_FALSE(file->made.file()->set->uid);
  Caller other;
  other.uid = 1234;
  EXPECT_FALSE(room.SetAhead(other, file->ino, set));
  set.size = 0;
  EXPECT_FALSE(room.SetAhead(kRoot, file->ino, set));
}

// Root is squashed here: as whom it counts the server knows. Others are believed, without root's groups.
TEST_F(AheadMakerTest, OnlyForWhoCountsAsHimself) {
  believed = {false, {{1000, 1999}}, {{1000, 1999}}};
  made_ahead.NoteMade(kDir);
  nodes.MadeEmpty(kDir);
  Caller user, other, of_root;
  user.uid = user.gid = 1000;
  user.groups = {0, 1500};
  other.uid = 2000;
  other.gid = 1000;
  of_root.uid = 1000;
  for (const Caller& who : {kRoot, other, of_root}) {
    MakeNodeRequest asked;
    room.AskAhead(who, kDir, &asked);
    EXPECT_FALSE(asked.ahead) << who.uid;
  }
  MakeNodeRequest asked;
  room.AskAhead(user, kDir, &asked);
  EXPECT_TRUE(asked.ahead);
  GiveDirectory();
  dir().attr.mode = 0770;
  dir().attr.gid = 0;
  EXPECT_EQ(Make("new", user), nullptr) << "root's group is not believed";
  dir().attr.mode = 0777;
  for (const Caller& who : {kRoot, other, of_root}) EXPECT_EQ(Make("new", who), nullptr) << who.uid;
  const VfsInodePtr file = Make("new", user);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->attr.uid, 1000u);
  EXPECT_EQ(file->made.maker().groups, std::vector<uint32_t>{1500});
  SetAttrIn set;
  set.gid = 1500;
  EXPECT_TRUE(room.SetAhead(user, file->ino, set));
  set.gid = 0;
  EXPECT_FALSE(room.SetAhead(user, file->ino, set)) << "he is not of it there";
  set.gid = 1000;
  EXPECT_FALSE(room.SetAhead(kRoot, file->ino, set));
}

// It may have been made as it was when the server was told first.
TEST_F(AheadMakerTest, OnceTheServerIsToldItIsAsked) {
  GiveDirectory();
  const VfsInodePtr file = Make();
  EXPECT_EQ(room.Untold(file->ino), file.get());
  EXPECT_EQ(room.Untold(kDir), nullptr);
  (void)made_ahead.BeginTelling(file->made);
  EXPECT_EQ(room.Untold(file->ino), nullptr);
  SetAttrIn set;
  set.mode = 0600;
  EXPECT_FALSE(room.SetAhead(kRoot, file->ino, set));
}

TEST_F(AheadMakerTest, TheSecondFileInARowAsksForTheDirectoryAndForNumbers) {
  MakeNodeRequest first;
  room.AskAhead(kRoot, kDir, &first);
  EXPECT_FALSE(first.ahead);
  made_ahead.NoteMade(kDir);
  nodes.MadeEmpty(kDir);
  MakeNodeRequest second;
  room.AskAhead(kRoot, kDir, &second);
  EXPECT_TRUE(second.ahead);
  EXPECT_EQ(second.numbers, MadeAhead::kNumbersAtOnce);
  GiveDirectory();
  MakeNodeRequest third;
  room.AskAhead(kRoot, kDir, &third);
  EXPECT_FALSE(third.ahead);  // both are there
}

TEST_F(AheadMakerTest, ADirectoryOfAFormerSessionIsLostFirst) {
  GiveDirectory();
  ++generation;
  EXPECT_EQ(Make(), nullptr);
  GiveDirectory();
  EXPECT_EQ(dir().loss.era(), 1u);
  EXPECT_EQ(dir().lease.generation(), generation);
  EXPECT_NE(Make(), nullptr);
}

}  // namespace
}  // namespace stria
