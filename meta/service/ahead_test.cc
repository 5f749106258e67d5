// Directories that a session has to itself, and files that are made with their first commit.
#include <gtest/gtest.h>

#include <functional>

#include "meta/service/meta_testing.h"

namespace stria {
namespace {

using Kind = SessionEvent::Kind;

class AheadTest : public testing::Test {
 protected:
  AheadTest() {
    a.Open();
    b.Open();
    dir = a.Make(kRootInode, "d", FileType::kDirectory)->node.attr.ino;
    SetAttrRequest open_up;  // for uid 7
    open_up.header = a.Mutation();
    open_up.ino = dir;
    open_up.mode = 0777;
    EXPECT_TRUE(a.Run(h.server->SetAttr(open_up)).ok());
  }
  MakeNodeRequest Request(TestClient& c, const std::string& name) {
    MakeNodeRequest r;
    r.header = c.Mutation();
    r.parent = dir;
    r.name = name;
    r.type = FileType::kFile;
    r.mode = 0640;
    r.open = r.exclusive = true;
    return r;
  }
  // A file as always, which asks for the directory.
  Result<OpenReply> Ask(TestClient& c, const std::string& name, uint32_t numbers = 4) {
    MakeNodeRequest r = Request(c, name);
    r.ahead = true;
    r.numbers = numbers;
    return c.Run(h.server->MakeNode(r));
  }
  CommitRequest First(TestClient& c, const std::string& name, InodeId ino, const std::string& text = "bytes") {
    CommitRequest r;
    r.header = c.Mutation();
    r.ino = ino;
    r.header.uid = 7;
    r.header.gid = 8;
    r.header.opened = c.Proof(ino, kOpenNumber);
    r.make = MadeFile{dir, name, 0640, 022, 123'456, std::nullopt};
    if (!text.empty()) {
      Extent e;
      e.length = text.size();
      e.inline_bytes = text;
      r.extents.push_back(e);
    }
    return r;
  }
  Result<NodeReply> Look(TestClient& c, const std::string& name) {
    NameRequest r;
    r.header = c.Header();
    r.parent = dir;
    r.name = name;
    return c.Run(h.server->Lookup(r));
  }

  void CloseSession(TestClient& c) {
    c.Stop();
    ASSERT_TRUE(c.Run(h.server->CloseSession(c.Ino(InodeId()))).ok());
  }

  MetaHarness h;
  TestClient a{&h, 1}, b{&h, 2};
  InodeId dir;
};

TEST_F(AheadTest, AFileIsMadeWithItsFirstCommit) {
  const auto asked = Ask(a, "x");
  ASSERT_TRUE(asked.ok()) << asked.error();
  ASSERT_TRUE(asked->alone);
  ASSERT_EQ(asked->numbers, 4u);
  const InodeId ino = asked->first_number;
  const CommitRequest first = First(a, "y", ino);
  const auto made = a.Run(h.server->Commit(first));
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_EQ(made->attr.ino, ino);
  EXPECT_EQ(made->attr.size, 5u);
  EXPECT_EQ(made->attr.mode, 0640u);
  EXPECT_EQ(made->attr.uid, 7u);
  EXPECT_EQ(made->attr.gid, 8u);
  EXPECT_EQ(made->attr.atime_ns, 123'456);
  ASSERT_TRUE(made->parent);
  EXPECT_EQ(made->parent->ino, dir);
  EXPECT_EQ(made->parent->size, 2u);
  EXPECT_EQ(made->parent->mtime_ns, 123'456);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kExclusive);
  // The same again: its answer was lost, or nobody knows what became of it.
  EXPECT_EQ(a.Run(h.server->Commit(first))->attr, made->attr);
  CommitRequest again = First(a, "y", ino, "others");
  const auto twice = a.Run(h.server->Commit(again));
  ASSERT_TRUE(twice.ok()) << twice.error();
  EXPECT_EQ(twice->attr.size, 6u);
  // Its number is not one for another file.
  EXPECT_EQ(a.Run(h.server->Commit(First(a, "z", ino))).code(), FsError::kConflict);
  h.ex.RunFor(kSecond);
  EXPECT_TRUE(h.Fsck().empty());
}

// "Made already" is said to the session that was given its number.
TEST_F(AheadTest, WhatAnotherMadeIsNotMadeAlready) {
  const auto asked = Ask(a, "x");
  const InodeId ino = asked->first_number;
  CommitRequest made = First(a, "y", ino);
  ASSERT_TRUE(a.Run(h.server->Commit(made)).ok());
  const auto try_as = [&](TestClient& c, uint32_t uid) {
    CommitRequest r = First(c, "y", ino, "evil bytes");
    r.header.uid = r.header.gid = uid;
    r.header.opened.clear();
    return c.Run(h.server->Commit(r)).code();
  };
  EXPECT_EQ(try_as(b, 1000), FsError::kConflict);
  EXPECT_FALSE(h.server->leases().IsOpenBy(b.session, ino));
  EXPECT_EQ(b.GetAttr(ino)->attr.size, 5u);
  EXPECT_EQ(try_as(b, 7), FsError::kConflict) << "its owner, by a session that was not given the number";
  // A number that was given to another.
  CommitRequest stolen = First(b, "z", InodeId(ino.v + 1));
  EXPECT_EQ(b.Run(h.server->Commit(stolen)).code(), FsError::kConflict);
}

TEST_F(AheadTest, AFileIsMadeAsItWasChanged) {
  const auto asked = Ask(a, "x");
  ASSERT_TRUE(asked->sets);
  const InodeId ino = asked->first_number;
  const auto request = [&] {
    CommitRequest r = First(a, "y", ino);
    r.make->set.emplace();
    r.make->set->mode = 0400;
    return r;
  };
  CommitRequest first = request();
  first.make->set->atime_ns = 1;
  first.make->set->mtime_ns = 2;
  first.mtime_ns = 3;
  // By who makes it, who may not give it away.
  CommitRequest given = request();
  given.make->set->uid = 9;
  EXPECT_EQ(a.Run(h.server->Commit(given)).code(), FsError::kPerm);
  EXPECT_EQ(Look(a, "y").code(), FsError::kNoEnt);

  const auto made = a.Run(h.server->Commit(first));
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_EQ(made->attr.mode, 0400u);
  EXPECT_EQ(made->attr.uid, 7u);
  EXPECT_EQ(made->attr.atime_ns, 1);
  EXPECT_EQ(made->attr.mtime_ns, 3);
  // It is made already: what was changed since stays.
  SetAttrRequest later;
  later.header = a.Mutation();
  later.ino = ino;
  later.mode = 0600;
  ASSERT_TRUE(a.Run(h.server->SetAttr(later)).ok());
  EXPECT_EQ(a.Run(h.server->Commit(request()))->attr.mode, 0600u);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(AheadTest, NumbersAreTheirSessions) {
  const InodeId ino = Ask(a, "x")->first_number;
  EXPECT_EQ(b.Run(h.server->Commit(First(b, "y", ino))).code(), FsError::kConflict);
  EXPECT_EQ(a.Run(h.server->Commit(First(a, "y", InodeId(ino.v + 100)))).code(), FsError::kConflict);
  CommitRequest other = First(a, "y", ino);
  other.append = true;
  EXPECT_EQ(a.Run(h.server->Commit(other)).code(), FsError::kBadRequest);
  // Nobody else is given them.
  for (int i = 0; i < 10; ++i) {
    const InodeId next = a.Make(kRootInode, "f" + std::to_string(i))->node.attr.ino;
    EXPECT_TRUE(next < ino || next.v >= ino.v + 4) << next.v;
  }
  EXPECT_EQ(Look(b, "y").code(), FsError::kNoEnt) << "a failed making makes nothing";
}

TEST_F(AheadTest, WhoComesWaitsUntilAllIsTold) {
  ASSERT_TRUE(Ask(a, "x")->alone);
  const InodeId ino(Ask(a, "w")->first_number);
  size_t told = 0;
  a.flush = [&](const SessionEvent& e) -> Task<void> {
    if (e.ino != dir) co_return;
    EXPECT_TRUE((co_await h.server->Commit(First(a, "y", ino))).ok());
    ++told;
  };
  const auto seen = Look(b, "y");
  ASSERT_TRUE(seen.ok()) << seen.error();
  EXPECT_EQ(seen->attr.ino, ino);
  EXPECT_EQ(told, 1u);
  EXPECT_NE(h.server->leases().ModeOf(a.session, dir), LeaseMode::kExclusive);
  // b knows a name now, or that there is none: it must be told at once.
  EXPECT_FALSE(Ask(a, "v")->alone);
  b.events.clear();
  ASSERT_TRUE(a.Run(h.server->MakeNode(Request(a, "u"))).ok());
}

TEST_F(AheadTest, WhatOthersDoThereRecallsIt) {
  ASSERT_TRUE(a.Make(dir, "file").ok());
  size_t n = 0;
  const auto recalls = [&](auto act) {
    TestClient other(&h, 10 + n);
    other.Open();
    const auto asked = Ask(a, "x" + std::to_string(n++));
    ASSERT_TRUE(asked.ok()) << asked.error();
    ASSERT_TRUE(asked->alone) << n;
    act(other);
    EXPECT_NE(h.server->leases().ModeOf(a.session, dir), LeaseMode::kExclusive) << n;
    CloseSession(other);
  };
  recalls([&](TestClient& c) { EXPECT_EQ(Look(c, "none").code(), FsError::kNoEnt); });
  recalls([&](TestClient& c) {
    ReadDirRequest r;
    r.header = c.Header();
    r.ino = dir;
    EXPECT_TRUE(c.Run(h.server->ReadDir(r)).ok());
  });
  recalls([&](TestClient& c) { EXPECT_TRUE(c.Make(dir, "theirs").ok()); });
  recalls([&](TestClient& c) {
    SetAttrRequest r;
    r.header = c.Mutation();
    r.ino = dir;
    r.mode = 0755;
    EXPECT_TRUE(c.Run(h.server->SetAttr(r)).ok());
  });
  recalls([&](TestClient& c) {
    XattrRequest r;
    r.header = c.Mutation();
    r.ino = dir;
    r.name = "user.a";
    r.value = "b";
    EXPECT_TRUE(c.Run(h.server->SetXattr(r)).ok());
  });
  recalls([&](TestClient& c) {
    RenameRequest r;
    r.header = c.Mutation();
    r.parent = dir;
    r.name = "file";
    r.new_parent = kRootInode;
    r.new_name = "file";
    EXPECT_TRUE(c.Run(h.server->Rename(r)).ok());
  });
  recalls([&](TestClient& c) {
    NameRequest r;
    r.header = c.Mutation();
    r.parent = dir;
    r.name = "theirs";
    EXPECT_TRUE(c.Run(h.server->Unlink(r)).ok());
  });
  recalls([&](TestClient& c) {
    NameRequest r;
    r.header = c.Mutation();
    r.parent = kRootInode;
    r.name = "d";
    EXPECT_EQ(c.Run(h.server->Rmdir(r)).code(), FsError::kNotEmpty);
  });
}

TEST_F(AheadTest, ItsAttributesAreFlushedAndNotKept) {
  ASSERT_TRUE(b.GetAttr(dir).ok());
  b.events.clear();
  const InodeId ino = Ask(a, "x")->first_number;
  a.flush = [&](const SessionEvent&) -> Task<void> {
    EXPECT_TRUE((co_await h.server->Commit(First(a, "y", ino))).ok());
  };
  const auto attr = b.GetAttr(dir);
  ASSERT_TRUE(attr.ok()) << attr.error();
  EXPECT_EQ(attr->attr.size, 2u);
  EXPECT_TRUE(attr->held_elsewhere);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, dir), LeaseMode::kExclusive);
}

TEST_F(AheadTest, AfterARestartItsNumbersAreGood) {
  const InodeId ino = Ask(a, "x")->first_number;
  ASSERT_TRUE(a.Run(h.server->Sync(a.Ino(dir))).ok());
  a.Stop();
  b.Stop();
  h.Crash(true);
  ASSERT_TRUE(a.Reclaim({{dir, LeaseMode::kExclusive, true}, {ino, LeaseMode::kExclusive, true}}));
  ASSERT_TRUE(b.Reclaim());
  InodeRequest sync;
  sync.header = a.Header();
  ASSERT_TRUE(a.Run(h.server->Sync(sync)).ok());
  sync.header = b.Header();
  ASSERT_TRUE(b.Run(h.server->Sync(sync)).ok());
  CommitRequest stolen = First(b, "y", ino);
  stolen.header.opened = a.Proof(ino, kOpenNumber);
  EXPECT_EQ(b.Run(h.server->Commit(stolen)).code(), FsError::kConflict) << "it was not given to b";
  const auto made = a.Run(h.server->Commit(First(a, "y", ino)));
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_EQ(made->attr.ino, ino);
  EXPECT_EQ(Look(b, "y")->attr.ino, ino);
  h.ex.RunFor(kSecond);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(AheadTest, WithItsSessionItIsFree) {
  ASSERT_TRUE(Ask(a, "x")->alone);
  a.Stop();  // it answers nothing any more, and its lease runs out
  const auto seen = Look(b, "x");
  ASSERT_TRUE(seen.ok()) << seen.error();
  EXPECT_EQ(Look(b, "y").code(), FsError::kNoEnt);
}

}  // namespace
}  // namespace stria
