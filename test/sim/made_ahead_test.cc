// Files of which the metadata server is told with their first bytes (client/vfs/made_ahead.h): what that costs, and that nobody
// can notice.
#include <gtest/gtest.h>

#include "common/sabotage_testing.h"
#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

const Caller kRoot;

class MadeAhead : public SmallFiles {};

// From the third on in a directory that nobody else knows.
TEST_F(MadeAhead, AreMadeWithTheirFirstBytes) {
  const InodeId dir = MakeDir(0, "d");
  Create(0, dir, "a", "first");
  Create(0, dir, "b", "second");
  Calls();
  std::map<std::string, InodeId> made;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "f" + std::to_string(i);
    made[name] = Create(0, dir, name, "bytes of " + name);
  }
  EXPECT_EQ(Calls(), "Commit 40");
  made["empty"] = Create(0, dir, "empty", "");
  EXPECT_EQ(Calls(), "Commit 1");
  EXPECT_EQ(Do(vfs(0).GetAttr(kRoot, dir))->attr.size, 43u);
  EXPECT_EQ(Read(0, made["f7"]), "bytes of f7");
  EXPECT_EQ(Calls(), "");
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 41u);
  // What others see of it.
  EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, dir))->attr.size, 43u);
  EXPECT_EQ(List(1, dir, 100), 43u);
  for (const auto& [name, ino] : made) {
    const auto found = Do(vfs(1).Lookup(kRoot, dir, name));
    ASSERT_TRUE(found.ok()) << name << ": " << found.error();
    EXPECT_EQ(found->attr.ino, ino);
    EXPECT_EQ(found->attr, Do(vfs(0).GetAttr(kRoot, ino))->attr);
    EXPECT_EQ(Read(1, ino), name == "empty" ? "" : "bytes of " + name);
  }
  // They know its names, so they are told of each.
  EXPECT_EQ(Lookup(1, dir, "later"), FsError::kNoEnt);
  Calls();
  Create(0, dir, "later", "x");
  EXPECT_EQ(Calls().substr(0, 20), "Commit 1, MakeNode 1");
  EXPECT_EQ(Lookup(1, dir, "later"), FsError::kOk);
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 41u);
}

// As tar and cp -p do: all that is set before the close goes with the bytes.
TEST_F(MadeAhead, AreSetBeforeTheyAreTold) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  VfsHandle flags;
  flags.write = true;
  for (const bool empty : {false, true}) {
    Calls();
    const auto open = Do(vfs(0).Create(kRoot, dir, empty ? "empty" : "f", 0600, true, false, flags));
    ASSERT_TRUE(open.ok());
    const InodeId ino = open->entry.attr.ino;
    if (!empty) ASSERT_TRUE(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString("bytes"))).ok());
    SetAttrIn times, owner, mode;
    times.mtime_ns = 1'000;
    times.atime_ns = 2'000;
    owner.uid = 7;
    owner.gid = 8;
    mode.mode = 0644;
    for (const SetAttrIn& set : {times, owner, mode}) ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
    const Attr shown = Do(vfs(0).GetAttr(kRoot, ino))->attr;
    // The kernel asks before a change of owner.
    EXPECT_EQ(Do(vfs(0).GetXattr(kRoot, ino, "security.capability")).code(), FsError::kNoData);
    EXPECT_TRUE(Do(vfs(0).ListXattr(kRoot, ino))->empty());
    EXPECT_EQ(Calls(), "");
    ASSERT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
    EXPECT_EQ(Calls(), "Commit 1");
    for (const size_t client : {0, 1}) {
      const Attr attr = Do(vfs(client).GetAttr(kRoot, ino))->attr;
      for (const Attr& a : {attr, shown}) {
        EXPECT_EQ(a.mtime_ns, 1'000);
        EXPECT_EQ(a.atime_ns, 2'000);
        EXPECT_EQ(a.uid, 7u);
        EXPECT_EQ(a.gid, 8u);
        EXPECT_EQ(a.mode, 0644u);
        EXPECT_EQ(a.size, empty ? 0u : 5u);
      }
      EXPECT_GE(attr.ctime_ns, shown.ctime_ns);
    }
    // What is written afterwards moves the time again.
    ASSERT_TRUE(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString("later"))).ok());
    ASSERT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
    EXPECT_GT(Do(vfs(1).GetAttr(kRoot, ino))->attr.mtime_ns, 1'000);
  }
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 6u);
}

// Written between two changes, and told between them: the last one counts.
TEST_F(MadeAhead, AreSetInOrder) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  VfsHandle flags;
  flags.write = true;
  for (const int64_t wait_ns : {int64_t{0}, int64_t{5}, int64_t{20}, int64_t{100}}) {
    const auto open = Do(vfs(0).Create(kRoot, dir, "f" + std::to_string(wait_ns), 0600, true, false, flags));
    ASSERT_TRUE(open.ok());
    const InodeId ino = open->entry.attr.ino;
    SetAttrIn set;
    set.mode = 0640;
    set.mtime_ns = 1'000;
    ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
    cluster_.executor().RunFor(wait_ns * kMillisecond);
    ASSERT_TRUE(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString("bytes"))).ok());
    EXPECT_GT(Do(vfs(0).GetAttr(kRoot, ino))->attr.mtime_ns, 1'000);
    set.mode = 0400;
    set.mtime_ns = 2'000;
    ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
    // It stays open for writing.
    ASSERT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
    EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, ino))->attr.mode, 0400u);
    EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, ino))->attr.mtime_ns, 2'000);
    ASSERT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
  }
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 6u);
}

class Impatient : public SmallFiles {
 public:
  Impatient() : SmallFiles(WithTimeout()) {}
  static SimClusterOptions WithTimeout() {
    SimClusterOptions o = Options();
    o.client_timeout_ns = 3 * kSecond;  // less than a lease
    return o;
  }
};

// Nobody knows whether the server has made it as it was: what is changed afterwards counts all the same.
TEST_F(Impatient, ChangesAfterALostAnswerCount) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  VfsHandle flags;
  flags.write = true;
  const auto open = Do(vfs(0).Create(kRoot, dir, "f", 0600, true, false, flags));
  ASSERT_TRUE(open.ok());
  const InodeId ino = open->entry.attr.ino;
  SetAttrIn set;
  set.mode = 0640;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 1u);
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  cluster_.executor().RunFor(4 * kSecond);
  cluster_.network().Heal();
  set.mode = 0604;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
  ASSERT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
  EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, ino))->attr.mode, 0604u);
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 1u);
}

// What may not be done, or has consequences, the server says or does.
TEST_F(MadeAhead, AreSetByWhoMay) {
  const InodeId dir = MakeDir(0, "d");
  SetAttrIn set;
  set.mode = 0777;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, dir, set)).ok());
  Caller maker, other;
  maker.uid = other.gid = 7;
  maker.gid = other.uid = 8;
  maker.groups = {9};
  VfsHandle flags;
  flags.write = true;
  int made = 0;
  const auto make = [&] {
    auto open = Do(vfs(0).Create(maker, dir, "f" + std::to_string(made++), 0666, true, false, flags));
    EXPECT_TRUE(open.ok());
    return open->entry.attr.ino;
  };
  for (int i = 0; i < 2; ++i) make();
  const auto change = [&](const Caller& who, auto member, uint32_t value) {
    SetAttrIn in;
    in.*member = value;
    return Do(vfs(0).SetAttr(who, make(), in));
  };
  EXPECT_EQ(change(other, &SetAttrIn::mode, 0777).code(), FsError::kPerm);
  EXPECT_EQ(change(maker, &SetAttrIn::uid, 8).code(), FsError::kPerm);
  EXPECT_EQ(change(maker, &SetAttrIn::gid, 10).code(), FsError::kPerm);
  EXPECT_EQ(change(maker, &SetAttrIn::mode, 06755)->attr.mode, 06755u);
  EXPECT_EQ(change(kRoot, &SetAttrIn::uid, 8)->attr.uid, 8u);
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 0u);
  EXPECT_EQ(change(maker, &SetAttrIn::gid, 9)->attr.gid, 9u);
  EXPECT_EQ(change(maker, &SetAttrIn::uid, 7)->attr.uid, 7u);
  EXPECT_EQ(change(maker, &SetAttrIn::mode, 0)->attr.mode, 0u);
  EXPECT_EQ(vfs(0).report().counters().set_ahead, 3u);
  EXPECT_GE(vfs(0).report().counters().made_ahead, 3u);
}

// Made, and neither closed nor written: whoever looks sees it, and this client's own calls find it.
TEST_F(MadeAhead, AreSeenBeforeTheirFirstBytes) {
  const InodeId dir = MakeDir(0, "d");
  VfsHandle flags;
  flags.read = flags.write = true;
  const auto make = [&](const std::string& name, uint32_t mode = 0644) {
    auto made = Do(vfs(0).Create(kRoot, dir, name, mode, true, false, flags));
    EXPECT_TRUE(made.ok()) << made.error();
    return *made;
  };
  make("a");
  make("b");
  Calls();
  auto open = make("open");
  EXPECT_EQ(Calls(), "");
  EXPECT_EQ(Do(vfs(0).Create(kRoot, dir, "open", 0644, true, false, flags)).code(), FsError::kExist);
  make("c");
  Calls();
  EXPECT_EQ(Lookup(1, dir, "open"), FsError::kOk);
  EXPECT_EQ(List(1, dir, 100), 4u);
  ASSERT_TRUE(Do(vfs(0).Write(kRoot, open.handle, 0, Buffer::FromString("now"))).ok());
  EXPECT_EQ(Read(1, open.entry.attr.ino), "now");

  const InodeId other = MakeDir(0, "e");
  const auto in_other = [&](const std::string& name) {
    auto made = Do(vfs(0).Create(kRoot, other, name, 0644, true, false, flags));
    EXPECT_TRUE(made.ok()) << made.error();
    return *made;
  };
  in_other("a");
  in_other("b");
  const uint64_t before = vfs(0).report().counters().made_ahead;
  // Each of these needs the server to know the file.
  const auto renamed = in_other("renamed");
  EXPECT_TRUE(Do(vfs(0).Rename(kRoot, other, "renamed", kRootInode, "here", false, false)).ok());
  EXPECT_EQ(Lookup(1, kRootInode, "here"), FsError::kOk);
  const auto removed = in_other("removed");
  EXPECT_TRUE(Do(vfs(0).Unlink(kRoot, other, "removed")).ok());
  ASSERT_TRUE(Do(vfs(0).Write(kRoot, removed.handle, 0, Buffer::FromString("still"))).ok());
  EXPECT_EQ(Text(Do(vfs(0).Read(kRoot, removed.handle, 0, 100))), "still");
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, removed.handle)).ok());
  const auto linked = in_other("linked");
  EXPECT_TRUE(Do(vfs(0).Link(kRoot, linked.entry.attr.ino, other, "twice")).ok());
  const auto named = in_other("named");
  EXPECT_TRUE(Do(vfs(0).SetXattr(kRoot, named.entry.attr.ino, "user.x", "y", false, false)).ok());
  SetAttrIn chmod;
  chmod.mode = 0600;
  const auto changed = in_other("changed");
  EXPECT_EQ(Do(vfs(0).SetAttr(kRoot, changed.entry.attr.ino, chmod))->attr.mode, 0600u);
  EXPECT_EQ(vfs(0).report().counters().made_ahead, before + 5);
  EXPECT_EQ(Do(vfs(0).Rmdir(kRoot, kRootInode, "e")).code(), FsError::kNotEmpty);
  EXPECT_EQ(List(1, other, 100), 6u);
  EXPECT_EQ(Do(vfs(1).Lookup(kRoot, other, "removed")).code(), FsError::kNoEnt);
}

// A directory is not empty that has a file of which the server does not know.
TEST_F(MadeAhead, AreSeenByWhoRemovesTheirDirectory) {
  const InodeId above = MakeDir(0, "above");
  VfsHandle flags;
  flags.write = true;
  for (const bool known : {true, false}) {
    const std::string name = known ? "known" : "unknown";
    const auto made = Do(vfs(0).MakeNode(kRoot, above, name, FileType::kDirectory, 0755, 0, ""));
    ASSERT_TRUE(made.ok());
    const InodeId dir = made->attr.ino;
    for (const char* file : {"a", "b"}) {
      Create(0, dir, file, "x");
      ASSERT_TRUE(Unlink(0, dir, file).ok());
    }
    const uint64_t before = vfs(0).report().counters().made_ahead;
    const auto open = Do(vfs(0).Create(kRoot, dir, "c", 0644, true, false, flags));
    ASSERT_TRUE(open.ok());
    ASSERT_EQ(vfs(0).report().counters().made_ahead, before + 1);
    if (known) {
      EXPECT_EQ(Do(vfs(0).Rmdir(kRoot, above, name)).code(), FsError::kNotEmpty);
    } else {
      ASSERT_TRUE(Do(vfs(0).MakeNode(kRoot, above, "other", FileType::kDirectory, 0755, 0, "")).ok());
      EXPECT_EQ(Do(vfs(0).Rename(kRoot, above, "other", above, name, false, false)).code(), FsError::kNotEmpty);
    }
    EXPECT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
    EXPECT_EQ(Lookup(1, dir, "c"), FsError::kOk);
    // Removed by somebody else, who does not see it either.
    ASSERT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
  }
}

// Who waits until the server knows of a file may be interrupted: the file is told all the same.
TEST_F(MadeAhead, AreToldWhoeverGoesAway) {
  const InodeId dir = MakeDir(0, "d");
  VfsHandle flags;
  flags.write = true;
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  for (int i = 0; i < 20; ++i) {
    auto open = Do(vfs(0).Create(kRoot, dir, "f" + std::to_string(i), 0644, true, false, flags));
    ASSERT_TRUE(open.ok());
    {
      TaskScope scope;
      scope.Spawn([](Vfs& fs, InodeId d) -> Task<void> {
        (void)co_await fs.ReadDir(kRoot, d, 0, 100, true);
      }(vfs(0), dir));
      cluster_.executor().RunFor(i * 20 * kMicrosecond);
      scope.CancelAll();
    }
    EXPECT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
    EXPECT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
  }
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 20u);
  EXPECT_EQ(List(1, dir, 100), 22u);
}

// The times of directories: those of the last file, neither earlier than before nor as far ahead as somebody has set them.
TEST_F(MadeAhead, MoveTheTimesOfTheirDirectory) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"a", "b"}) Create(0, dir, name, "x");
  SetAttrIn set;
  const int64_t far_ns = cluster_.executor().WallNs() + int64_t{365} * 86400 * kSecond;
  set.mtime_ns = far_ns;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, dir, set)).ok());
  EXPECT_EQ(Do(vfs(0).GetAttr(kRoot, dir))->attr.mtime_ns, far_ns);
  Create(0, dir, "asks", "x");
  VfsHandle flags;
  flags.write = true;
  const uint64_t before = vfs(0).report().counters().made_ahead;
  int64_t last_ns = 0;
  for (int i = 0; i < 5; ++i) {
    const auto open = Do(vfs(0).Create(kRoot, dir, "f" + std::to_string(i), 0644, true, false, flags));
    ASSERT_TRUE(open.ok());
    const int64_t now_ns = cluster_.executor().WallNs();
    EXPECT_EQ(open->entry.attr.mtime_ns, now_ns);
    const int64_t shown_ns = Do(vfs(0).GetAttr(kRoot, dir))->attr.mtime_ns;
    EXPECT_LE(shown_ns, now_ns + kSecond);
    EXPECT_GE(shown_ns, last_ns);
    if (i % 2 == 1) EXPECT_TRUE(Do(vfs(0).Flush(kRoot, open->handle)).ok());
    last_ns = Do(vfs(0).GetAttr(kRoot, dir))->attr.mtime_ns;
    EXPECT_GE(last_ns, shown_ns);
  }
  EXPECT_EQ(vfs(0).report().counters().made_ahead, before + 5);
  EXPECT_GE(Do(vfs(1).GetAttr(kRoot, dir))->attr.mtime_ns, last_ns);
}

// Neither a mount that dies at once loses what was closed, nor for long what was not.
TEST_F(MadeAhead, AreKeptWhenTheirMakerDies) {
  const InodeId dir = MakeDir(0, "d");
  VfsHandle flags;
  flags.write = true;
  for (const char* name : {"a", "b", "closed"}) Create(0, dir, name, "x");
  ASSERT_TRUE(Do(vfs(0).Create(kRoot, dir, "open", 0644, true, false, flags)).ok());
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 2u);
  cluster_.executor().RunFor(100 * kMillisecond);
  ASSERT_TRUE(Do(vfs(0).Create(kRoot, dir, "lost", 0644, true, false, flags)).ok());
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 3u);
  cluster_.CrashClient(0);
  EXPECT_EQ(Lookup(1, dir, "closed"), FsError::kOk);
  EXPECT_EQ(Lookup(1, dir, "open"), FsError::kOk);
  EXPECT_EQ(Lookup(1, dir, "lost"), FsError::kNoEnt);
}

// Whoever may not make a file there is told so.
TEST_F(MadeAhead, AreMadeByWhoMay) {
  const InodeId dir = MakeDir(0, "d");
  SetAttrIn set;
  set.mode = 02775;
  set.gid = 50;
  ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, dir, set)).ok());
  Caller member, stranger;
  member.uid = 7;
  member.gid = 8;
  member.groups = {50};
  member.umask = 027;
  stranger.uid = 9;
  stranger.gid = 9;
  VfsHandle flags;
  flags.write = true;
  for (const char* name : {"a", "b", "c"}) {
    const auto made = Do(vfs(0).Create(member, dir, name, 0666, true, false, flags));
    ASSERT_TRUE(made.ok()) << made.error();
    EXPECT_EQ(made->entry.attr.mode, 0640u);
    EXPECT_EQ(made->entry.attr.uid, 7u);
    EXPECT_EQ(made->entry.attr.gid, 50u);
    EXPECT_EQ(Do(vfs(0).Create(stranger, dir, std::string("x") + name, 0666, true, false, flags)).code(), FsError::kAccess);
  }
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 1u);
  const auto seen = Do(vfs(1).Lookup(kRoot, dir, "c"));
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(seen->attr.mode, 0640u);
  EXPECT_EQ(seen->attr.uid, 7u);
  EXPECT_EQ(seen->attr.gid, 50u);
}

class SquashedRoot : public SmallFiles {
 public:
  SquashedRoot() : SmallFiles(Squashed()) {}
  static SimClusterOptions Squashed() {
    SimClusterOptions o = Options();
    o.trusted_roots = false;
    return o;
  }
};

// As the exports of a new cluster have it: users are believed, and as quick as ever; root asks for each file.
TEST_F(SquashedRoot, UsersMakeFilesAhead) {
  constexpr uint32_t kNobodyHere = 65534;
  Caller user;
  user.uid = user.gid = 1000;
  user.groups = {0, 20};
  VfsHandle flags;
  flags.write = true;
  const auto make = [&](const Caller& who, InodeId dir, const std::string& name) {
    (void)Do(vfs(0).Lookup(who, dir, name));
    const auto made = Do(vfs(0).Create(who, dir, name, 0640, true, false, flags));
    EXPECT_TRUE(made.ok()) << made.error();
    if (!made.ok()) return Attr();
    EXPECT_TRUE(Do(vfs(0).Write(who, made->handle, 0, Buffer::FromString("bytes"))).ok());
    EXPECT_TRUE(Do(vfs(0).Flush(who, made->handle)).ok());
    EXPECT_TRUE(Do(vfs(0).Release(who, made->handle)).ok());
    return made->entry.attr;
  };
  const InodeId dir = Do(vfs(0).MakeNode(user, kRootInode, "d", FileType::kDirectory, 0777, 0, "")).value().attr.ino;
  for (const char* name : {"a", "b"}) make(user, dir, name);
  Calls();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(make(user, dir, "f" + std::to_string(i)).uid, 1000u);
  EXPECT_EQ(Calls(), "Commit 20");
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 20u);
  // Another user, and the same directory.
  Caller other;
  other.uid = other.gid = 1001;
  EXPECT_EQ(make(other, dir, "o").uid, 1001u);
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 21u);
  // Root is somebody else there, and the client does not say who.
  for (int i = 0; i < 5; ++i) EXPECT_EQ(make(kRoot, dir, "r" + std::to_string(i)).uid, kNobodyHere);
  EXPECT_EQ(vfs(0).report().counters().made_ahead, 21u);
  for (const char* name : {"f0", "f19", "r0"}) {
    const Attr seen = Do(vfs(1).Lookup(user, dir, name)).value().attr;
    EXPECT_EQ(seen.uid, name[0] == 'f' ? 1000u : kNobodyHere) << name;
    EXPECT_EQ(seen.gid, name[0] == 'f' ? 1000u : kNobodyHere) << name;
    EXPECT_EQ(seen.size, 5u) << name;
  }
}

// The server does not take it: its name went to somebody else, which it must not (the recall was left out).
TEST_F(MadeAhead, WhatCannotBeMadeIsSaidToWhoHasItOpen) {
  VfsHandle flags;
  flags.read = flags.write = true;
  for (const bool bytes : {false, true}) {
    const std::string name = bytes ? "bytes" : "empty";
    const InodeId dir = MakeDir(0, "with " + name);  // as the others know it afterwards
    for (const char* file : {"a", "b"}) Create(0, dir, file, "x");
    const uint64_t before = vfs(0).report().counters().made_ahead;
    const auto open = Do(vfs(0).Create(kRoot, dir, name, 0644, true, false, flags));
    ASSERT_TRUE(open.ok());
    ASSERT_EQ(vfs(0).report().counters().made_ahead, before + 1);
    if (bytes) ASSERT_TRUE(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString("lost"))).ok());
    {
      const ScopedSabotage on(Sabotage::kVisitUnasked);
      ASSERT_TRUE(Do(vfs(1).MakeNode(kRoot, dir, name, FileType::kDirectory, 0755, 0, "")).ok());
    }
    const auto closed = Do(vfs(0).Flush(kRoot, open->handle));
    EXPECT_EQ(closed.code(), FsError::kIo) << closed.error();
    EXPECT_EQ(Do(vfs(0).Flush(kRoot, open->handle)).code(), FsError::kIo) << "it is not forgotten";
    EXPECT_EQ(Do(vfs(0).Write(kRoot, open->handle, 0, Buffer::FromString("more"))).code(), FsError::kIo);
    EXPECT_TRUE(Do(vfs(0).Release(kRoot, open->handle)).ok());
    EXPECT_EQ(vfs(0).report().dirty_bytes(), 0u);
    EXPECT_EQ(vfs(0).report().Describe(open->entry.attr.ino), "not in use here");
    const auto theirs = Do(vfs(0).Lookup(kRoot, dir, name));
    ASSERT_TRUE(theirs.ok());
    EXPECT_EQ(theirs->attr.type, FileType::kDirectory);
    EXPECT_EQ(Do(vfs(0).SyncDir(kRoot, dir)).code(), FsError::kIo) << "a name that was answered is not there";
    EXPECT_EQ(Do(vfs(0).SyncDir(kRoot, dir)).code(), FsError::kOk);
  }
}

}  // namespace
}  // namespace stria
