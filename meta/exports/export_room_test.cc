#include "meta/exports/export_room.h"

#include "meta/core/core_testing.h"

namespace stria {
namespace {

class ExportRoomTest : public CoreTest {
 protected:
  void Begin() {
    room.reset();
    Make();
    room = std::make_unique<ExportRoom>(core.get());
    room->OnChange([this] { ++changes; });
    Start([&](Txn& txn) { return room->Load(txn); });
  }
  static Peer From(const std::string& name, const std::string& address = "10.3.0.7:999") {
    Peer p;
    p.name = name;
    p.address = address;
    return p;
  }
  FsError Set(const std::string& line) { return RunSim(ex, room->Set(ParseExport(line).value())).code(); }
  FsError Remove(const std::string& path, std::vector<ClientPattern> clients = {}) {
    return RunSim(ex, room->Remove(path, std::move(clients))).code();
  }
  std::vector<std::string> Lines() const {
    std::vector<std::string> out;
    for (const Export& e : room->List()) out.push_back(FormatExport(e));
    return out;
  }
  std::unique_ptr<ExportRoom> room;
  int changes = 0;
};

TEST_F(ExportRoomTest, ANewClusterShowsAllToEveryClientAndSquashesRoot) {
  Begin();
  EXPECT_EQ(Lines(), (std::vector<std::string>{"path=/ clients=* access=rw squash=root"}));
  const Result<Export> e = room->For(From("pc7"), "/atlas/data");
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(e->path, "/");
  for (const char* bad : {"", "atlas", "/atlas/", "/a//b", "/a/../b", "/."}) {
    EXPECT_EQ(room->For(From("pc7"), bad).code(), FsError::kInval) << bad;
  }
}

TEST_F(ExportRoomTest, WhatIsChangedIsThereAfterARestartInOrder) {
  Begin();
  ASSERT_EQ(Set("path=/atlas clients=wn* access=ro"), FsError::kOk);
  ASSERT_EQ(Set("path=/b clients=10.3.0.0/16"), FsError::kOk);
  ASSERT_EQ(Set("path=/atlas clients=pc*"), FsError::kOk);
  EXPECT_EQ(changes, 3);
  const auto before = Lines();
  ASSERT_EQ(before.size(), 4u);
  const SipKey key = room->KeyOf("/atlas");
  Begin();
  EXPECT_EQ(Lines(), before);
  EXPECT_EQ(room->KeyOf("/atlas").k0, key.k0) << "what was sealed stays so";
  EXPECT_EQ(room->KeyOf("/atlas").k1, key.k1);
  EXPECT_NE(room->KeyOf("/b").k0, key.k0);
  EXPECT_NE(room->KeyOf("/elsewhere").k0, key.k0);
  // In its place.
  ASSERT_EQ(Set("path=/atlas clients=wn* access=rw"), FsError::kOk);
  EXPECT_EQ(Lines()[1], "path=/atlas clients=wn* access=rw squash=root");
  EXPECT_EQ(room->KeyOf("/atlas").k0, key.k0);
}

TEST_F(ExportRoomTest, RemovesOneAndTheLastOne) {
  Begin();
  ASSERT_EQ(Set("path=/a clients=pc7"), FsError::kOk);
  ASSERT_EQ(Set("path=/a clients=pc8"), FsError::kOk);
  EXPECT_EQ(Remove("/nowhere"), FsError::kNoEnt);
  EXPECT_EQ(Remove("/a"), FsError::kInval) << "two of them";
  EXPECT_EQ(Remove("/a", ParseExport("path=/a clients=pc9")->clients), FsError::kNoEnt);
  EXPECT_EQ(Remove("/a", ParseExport("path=/a clients=pc7")->clients), FsError::kOk);
  EXPECT_EQ(Remove("/a"), FsError::kOk);
  EXPECT_EQ(Remove("/"), FsError::kOk);
  EXPECT_TRUE(room->List().empty());
  const Result<Export> none = room->For(From("pc7"), "/atlas");
  EXPECT_EQ(none.code(), FsError::kAccess);
  EXPECT_EQ(none.error().message, "pc7 may not mount /atlas: no export names it");
  Begin();
  EXPECT_TRUE(room->List().empty()) << "not what a new cluster has";
}

TEST_F(ExportRoomTest, IsBounded) {
  Begin();
  for (size_t i = 1; i < kMaxExports; ++i) ASSERT_EQ(Set("path=/e" + std::to_string(i)), FsError::kOk) << i;
  EXPECT_EQ(Set("path=/more"), FsError::kInval);
  EXPECT_EQ(Set("path=/e1 access=ro"), FsError::kOk) << "in the place of another";
}

TEST(GivesAtLeast, OnlyWhatIsNoLoss) {
  const auto gives = [](const std::string& now, const std::string& had) {
    return GivesAtLeast(ParseExport("path=/a " + now).value(), ParseExport("path=/a " + had).value());
  };
  EXPECT_TRUE(gives("", ""));
  EXPECT_TRUE(gives("clients=pc*", "clients=pc7"));
  EXPECT_TRUE(gives("access=rw", "access=ro"));
  EXPECT_FALSE(gives("access=ro", "access=rw"));
  EXPECT_TRUE(gives("squash=none", "squash=root"));
  EXPECT_TRUE(gives("squash=root", "squash=all"));
  EXPECT_FALSE(gives("squash=all", "squash=root"));
  EXPECT_FALSE(gives("squash=root", "squash=none"));
  EXPECT_TRUE(gives("", "uids=5-7"));
  EXPECT_FALSE(gives("uids=5-7", ""));
  EXPECT_TRUE(gives("uids=1-9,20-30", "uids=5-7,25"));
  EXPECT_FALSE(gives("uids=1-9", "uids=5-7,25"));
  EXPECT_FALSE(gives("gids=1-9", "gids=5-70"));
  EXPECT_FALSE(GivesAtLeast(ParseExport("path=/").value(), ParseExport("path=/a").value())) << "another root";
}

}  // namespace
}  // namespace stria
