// Who has a file open: what others buffered is recalled, what an open brings along, what happens to a file without a name.
#include <gtest/gtest.h>

#include "meta/service/service_testing.h"

namespace stria {
namespace {

using Kind = SessionEvent::Kind;

// What is open is so for what it was opened for, and nobody opens a file for nothing.
TEST_F(ServiceTest, AnOpenIsForWhatItSays) {
  const InodeId ino = a.Make(kRootInode, "f", FileType::kFile, false)->node.attr.ino;
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "bytes"))).ok());
  const auto mode = [&](uint32_t to) {
    SetAttrRequest r;
    r.header = a.Mutation();
    r.ino = ino;
    r.mode = to;
    EXPECT_TRUE(a.Run(h.server->SetAttr(r)).ok());
  };
  std::string proof;
  const auto open = [&](bool read, bool write, bool check) {
    OpenRequest r;
    r.header = b.Header();
    r.header.uid = r.header.gid = 1000;
    r.header.opened = proof;
    r.ino = ino;
    r.for_read = read;
    r.for_write = write;
    r.check_access = check;
    r.map_bytes = kMiB;
    return b.Run(h.server->Open(r));
  };
  const auto read = [&] {
    GetExtentsRequest r;
    r.header = b.Header();
    r.header.uid = r.header.gid = 1000;
    r.header.opened = proof;
    r.ino = ino;
    r.length = kMiB;
    return b.Run(h.server->GetExtents(r)).code();
  };
  mode(0600);
  for (const bool check : {false, true}) {
    EXPECT_EQ(open(false, false, check).code(), FsError::kInval);
    EXPECT_EQ(open(true, false, check).code(), FsError::kAccess);
  }
  EXPECT_EQ(read(), FsError::kAccess);
  mode(0602);
  const auto written = open(false, true, true);
  ASSERT_TRUE(written.ok()) << written.error();
  EXPECT_FALSE(written->mapping);
  EXPECT_EQ(read(), FsError::kAccess) << "it is open for writing only";
  mode(0606);
  const auto both = open(true, false, true);
  ASSERT_TRUE(both.ok()) << both.error();
  mode(0600);
  EXPECT_EQ(read(), FsError::kOk);
  EXPECT_EQ(open(true, true, true).code(), FsError::kAccess) << "by somebody else";
  EXPECT_TRUE(open(true, true, false).ok()) << "again";
  // The server does not know any more; what it has said holds.
  b.Release(ino);
  EXPECT_EQ(read(), FsError::kAccess);
  EXPECT_EQ(open(true, false, false).code(), FsError::kAccess);
  proof = both->proof;
  EXPECT_EQ(read(), FsError::kOk);
  EXPECT_TRUE(open(true, true, false).ok());
  proof = a.Proof(ino);  // another session's
  b.Release(ino);
  EXPECT_EQ(read(), FsError::kAccess);
  EXPECT_EQ(open(true, false, false).code(), FsError::kAccess);
}

// Who may not do it takes nobody's lease.
TEST_F(ServiceTest, WhoMayNotRecallsNothing) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  SetAttrRequest cut;
  cut.header = b.Mutation();
  cut.header.uid = 1000;
  cut.ino = ino;
  cut.size = 0;
  EXPECT_EQ(b.Run(h.server->SetAttr(cut)).code(), FsError::kAccess);
  OpenRequest open;
  open.header = b.Mutation();
  open.header.uid = 1000;
  open.ino = ino;
  open.truncate = true;
  EXPECT_EQ(b.Run(h.server->Open(open)).code(), FsError::kAccess);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kExclusive);
  EXPECT_EQ(Count(a.events, SessionEvent::Kind::kRecall, ino), 0u);
}

TEST_F(ServiceTest, SecondOpenerRecallsAndSeesWhatWasBuffered) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  a.flush = [&](SessionEvent e) -> Task<void> {
    CommitRequest r = a.InlineCommit(ino, 0, "hello");
    EXPECT_TRUE((co_await h.server->Commit(r)).ok());
  };
  auto opened = b.OpenFile(ino, false);
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_EQ(opened->lease, LeaseMode::kShared);
  EXPECT_EQ(opened->node.attr.size, 5u);
  EXPECT_EQ(Count(a.events, Kind::kRecall, ino), 1u);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kShared);
  // Shared: the writer's commits reach the reader before they are answered.
  EXPECT_TRUE(b.GetAttr(ino).ok());
  b.events.clear();
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 5, " world"))).ok());
  EXPECT_GE(Count(b.events, Kind::kInvalidateAttr, ino) + Count(b.events, Kind::kInvalidateData, ino), 1u);
  EXPECT_EQ(b.GetAttr(ino)->attr.size, 11u);
}

// It took so long that the server has restarted since, and has asked for the same again: what has been written under the lease
// that was claimed after the restart is not committed with that answer.
TEST_F(ServiceTest, AnAnswerToARecallOfBeforeARestartIsNoneToALaterOne) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  a.answers = false;
  const auto recall = [&] {
    for (const SessionEvent& e : a.events) {
      if (e.kind == Kind::kRecall && e.ino == ino) return e.seq;
    }
    return uint64_t{0};
  };
  std::optional<Result<OpenReply>> opened;
  const auto open = [&](TaskScope* scope) {
    a.events.clear();
    scope->Spawn([](Task<Result<OpenReply>> t, std::optional<Result<OpenReply>>* out) -> Task<void> {
      *out = co_await std::move(t);
    }(b.OpenTask(ino, false), &opened));
    for (int i = 0; i < 10 && recall() == 0; ++i) h.ex.RunFor(kSecond);
    EXPECT_FALSE(opened);
    return recall();
  };
  auto scope = std::make_unique<TaskScope>();
  const uint64_t before = open(scope.get());
  ASSERT_NE(before, 0u);
  scope.reset();
  a.Stop(), b.Stop();
  h.Crash(false);
  ASSERT_TRUE(a.Reclaim({{ino, LeaseMode::kExclusive, true}}));
  ASSERT_TRUE(b.Reclaim());
  for (TestClient* c : {&a, &b}) {  // who has nothing to repeat
    InodeRequest r = c->Ino(InodeId());
    r.header.term = h.server->term();
    EXPECT_TRUE(c->Run(h.server->Sync(r)).ok());
  }
  scope = std::make_unique<TaskScope>();
  const uint64_t after = open(scope.get());
  ASSERT_NE(after, 0u);
  LeaseDoneRequest done;
  done.header = a.Header();
  done.ino = ino;
  done.lease = LeaseMode::kShared;
  done.event_seq = before;
  (void)a.Run(h.server->LeaseDone(done));
  h.ex.RunFor(kSecond);
  EXPECT_FALSE(opened);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kExclusive);
  done.event_seq = after;
  EXPECT_TRUE(a.Run(h.server->LeaseDone(done)).ok());
  h.ex.RunFor(kSecond);
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->ok()) << opened->error();
}

TEST_F(ServiceTest, ACloneHasWhatOthersBufferedAndIsMadeOnce) {
  const InodeId from = a.Make(kRootInode, "from")->node.attr.ino;
  const InodeId to = b.Make(kRootInode, "to")->node.attr.ino;
  int flushes = 0;
  a.flush = [&](SessionEvent e) -> Task<void> {
    ++flushes;
    EXPECT_TRUE((co_await h.server->Commit(a.InlineCommit(from, 0, "hello"))).ok());
  };
  CloneRequest r;
  r.header = b.Mutation();
  r.from = from;
  r.from_offset = 1;
  r.to = to;
  r.to_offset = 10;
  r.length = kMaxFileBytes;
  auto first = b.Run(h.server->Clone(r));
  ASSERT_TRUE(first.ok()) << first.error();
  EXPECT_EQ(first->cloned, 4u);
  EXPECT_EQ(flushes, 1);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, from), LeaseMode::kExclusive) << "reading takes nothing away";
  auto again = b.Run(h.server->Clone(r));
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again->seq, first->seq) << "the stored answer";
  EXPECT_EQ(b.GetAttr(to)->attr.size, 14u);
}

TEST_F(ServiceTest, StatByOthersFlushesAndIsNotCached) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  uint64_t size = 0;
  a.flush = [&](SessionEvent e) -> Task<void> {
    EXPECT_EQ(e.kind, Kind::kFlush);
    size += 3;
    EXPECT_TRUE((co_await h.server->Commit(a.InlineCommit(ino, size - 3, "abc"))).ok());
  };
  const Result<NodeReply> seen = b.GetAttr(ino);
  EXPECT_EQ(seen->attr.size, 3u);
  EXPECT_TRUE(seen->held_elsewhere);
  EXPECT_EQ(b.Lookup("f")->attr.size, 6u);
  EXPECT_FALSE(a.GetAttr(ino)->held_elsewhere);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kExclusive);
  ReadDirRequest list;
  list.header = b.Header();
  list.ino = kRootInode;
  list.with_attrs = true;
  auto entries = b.Run(h.server->ReadDir(list));
  ASSERT_EQ(entries->entries.size(), 1u);
  EXPECT_FALSE(entries->entries[0].attr) << "unknown while somebody buffers";
}

TEST_F(ServiceTest, ExclusiveGrantDropsWhatOthersCached) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  const InodeId ino = b.Lookup("f")->attr.ino;
  b.events.clear();
  EXPECT_EQ(a.OpenFile(ino, true)->lease, LeaseMode::kExclusive);
  EXPECT_EQ(Count(b.events, Kind::kInvalidateAttr, ino), 1u);
}

TEST_F(ServiceTest, RemoteTruncateRecalls) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  a.flush = [&](SessionEvent) -> Task<void> {
    EXPECT_TRUE((co_await h.server->Commit(a.InlineCommit(ino, 0, "hello"))).ok());
  };
  SetAttrRequest r;
  r.header = b.Mutation();
  r.ino = ino;
  r.size = 2;
  auto reply = b.Run(h.server->SetAttr(r));
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_EQ(reply->attr.size, 2u);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kShared);
}

// The kernel of who creates it did not know that somebody else had just made it.
TEST_F(ServiceTest, ACreateThatTruncatesRecalls) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  a.flush = [&](SessionEvent) -> Task<void> {
    EXPECT_TRUE((co_await h.server->Commit(a.InlineCommit(ino, 0, "hello"))).ok());
  };
  MakeNodeRequest r;
  r.header = b.Mutation();
  r.parent = kRootInode;
  r.name = "f";
  r.mode = 0644;
  r.open = r.truncate = true;
  auto made = b.Run(h.server->MakeNode(r));
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_FALSE(made->created);
  EXPECT_EQ(made->node.attr.ino, ino);
  EXPECT_EQ(made->node.attr.size, 0u);
  EXPECT_EQ(Count(a.events, Kind::kRecall, ino), 1u);
}

// Asked again, as its first answer is late, an open is granted no earlier.
TEST_F(ServiceTest, AnExclusiveGrantWaitsForThoseWhoCacheHoweverOftenItIsAsked) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  const InodeId ino = b.Lookup("f")->attr.ino;
  b.Stop();
  TaskScope scope;
  std::vector<LeaseMode> granted;
  for (int tries = 0; tries < 2; ++tries) {
    scope.Spawn(a.OpenTask(ino, true), [&granted](Result<OpenReply> r) {
      EXPECT_TRUE(r.ok()) << r.error();
      granted.push_back(r->lease);
    });
    h.ex.RunFor(3 * kSecond);
    EXPECT_TRUE(granted.empty()) << tries;
  }
  h.ex.RunFor(15 * kSecond);  // until the lease of `b` has ended
  EXPECT_EQ(granted, (std::vector<LeaseMode>{LeaseMode::kExclusive, LeaseMode::kExclusive}));
}

// Somebody removes the name while a create still waits for those who knew that it was not there.
TEST_F(ServiceTest, ACreatedFileIsOpenFromItsBeginning) {
  TestClient c{&h, 3};
  c.Open();
  EXPECT_EQ(b.Lookup("f").code(), FsError::kNoEnt);
  b.Stop();
  TaskScope scope;
  std::optional<Result<OpenReply>> made;
  std::optional<Result<NodeReply>> unlinked;
  scope.Spawn([](TestClient* client, MetaServer* server, std::optional<Result<OpenReply>>* out) -> Task<void> {
    MakeNodeRequest r;
    r.header = client->Mutation();
    r.parent = kRootInode;
    r.name = "f";
    r.mode = 0644;
    r.open = r.exclusive = true;
    out->emplace(co_await server->MakeNode(std::move(r)));
  }(&a, h.server.get(), &made));
  h.ex.RunFor(10 * kMillisecond);
  scope.Spawn([](MetaServer* server, NameRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->Unlink(std::move(r)));
  }(h.server.get(), c.Name(kRootInode, "f", true), &unlinked));
  h.ex.RunFor(10 * kMillisecond);
  EXPECT_FALSE(made || unlinked) << "b has not been told";
  h.ex.RunFor(20 * kSecond);  // until b is fenced
  ASSERT_TRUE(made && unlinked && unlinked->ok());
  ASSERT_TRUE(made->ok()) << made->error();
  const InodeId ino = (*made)->node.attr.ino;
  EXPECT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "mine"))).ok());
  a.Release(ino);
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(ServiceTest, UnlinkedFileLivesUntilClosed) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  ASSERT_TRUE(b.Unlink("f").ok());
  h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(a.GetAttr(ino).ok());
  EXPECT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "still here"))).ok());
  // Its holder dies: it is freed.
  a.Stop();
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(b.GetAttr(ino).code(), FsError::kStale);
  EXPECT_TRUE(h.Fsck().empty());
}

// What another session has looked up it can use, although the last name goes before it does.
TEST_F(ServiceTest, WhatOthersHaveJustLookedUpIsNotFreedAtOnce) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  const InodeId ino = b.Lookup("f")->attr.ino;
  ASSERT_TRUE(a.Unlink("f").ok());
  EXPECT_EQ(b.Lookup("f").code(), FsError::kNoEnt);
  EXPECT_EQ(b.GetAttr(ino)->attr.nlink, 0u);
  h.ex.RunFor(RecentLookups::kKeepNs - kSecond / 10);
  ASSERT_TRUE(b.OpenFile(ino, true).ok());
  EXPECT_TRUE(b.Run(h.server->Commit(b.InlineCommit(ino, 0, "still here"))).ok());
  h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(b.GetAttr(ino).ok()) << "it is open";
  EXPECT_TRUE(h.Fsck().empty());
  b.Release(ino);
  h.ex.RunFor(kSecond);
  EXPECT_EQ(b.GetAttr(ino).code(), FsError::kStale) << "it was looked up long ago";
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(ServiceTest, WhatOthersHaveJustLookedUpIsFreedIfTheyDoNotUseIt) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  const InodeId ino = b.Lookup("f")->attr.ino;
  ASSERT_TRUE(a.Unlink("f").ok());
  h.ex.RunFor(RecentLookups::kKeepNs + kSecond);
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);
  EXPECT_EQ(b.GetAttr(ino).code(), FsError::kStale);
  EXPECT_TRUE(h.Fsck().empty());
  // Nor longer ago, nor by itself.
  ASSERT_TRUE(a.Make(kRootInode, "g", FileType::kFile, false).ok());
  ASSERT_TRUE(b.Lookup("g").ok());
  h.ex.RunFor(RecentLookups::kKeepNs + kSecond);
  const InodeId mine = a.Lookup("g")->attr.ino;
  ASSERT_TRUE(a.Unlink("g").ok());
  EXPECT_EQ(a.GetAttr(mine).code(), FsError::kStale);
  EXPECT_TRUE(h.Fsck().empty());
}

// One of two that have looked it up opens and closes it before the other comes.
TEST_F(ServiceTest, WhoComesSecondFindsItToo) {
  TestClient c{&h, 3};
  c.Open();
  for (TestClient* second : {&c, &b}) {  // another program of b
    ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
    const InodeId ino = b.Lookup("f")->attr.ino;
    ASSERT_TRUE(second->Lookup("f").ok());
    ASSERT_TRUE(a.Unlink("f").ok());
    ASSERT_TRUE(b.OpenFile(ino, false).ok());
    b.Release(ino);
    h.ex.RunFor(kSecond);
    ASSERT_TRUE(second->OpenFile(ino, false).ok());
    second->Release(ino);
    h.ex.RunFor(RecentLookups::kKeepNs + kSecond);
    EXPECT_EQ(second->GetAttr(ino).code(), FsError::kStale);
    EXPECT_TRUE(h.Fsck().empty());
  }
}

TEST_F(ServiceTest, AnUnlinkGivesBackWhatNobodyUses) {
  const auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  NameRequest r = a.Name(kRootInode, "f", true);
  r.release = ino;
  const auto reply = a.Run(h.server->Unlink(r));
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_TRUE(reply->released);
  EXPECT_EQ(reply->attr.nlink, 0u);
  EXPECT_FALSE(h.server->leases().IsOpen(ino));
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);  // at once: it was no orphan
  // The same again: whether it was heeded is not stored.
  const auto again = a.Run(h.server->Unlink(r));
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_FALSE(again->released);
  EXPECT_TRUE(h.Fsck().empty());
}

RenameRequest NewOverF(TestClient* client, InodeId release) {
  RenameRequest r;
  r.header = client->Mutation();
  r.parent = r.new_parent = kRootInode;
  r.name = "new";
  r.new_name = "f";
  r.release = release;
  return r;
}

// "Write new, rename over old" by one client, as an editor does: no other call, no event, no orphan.
TEST_F(ServiceTest, ARenameGivesBackWhatNobodyUses) {
  const InodeId old = a.Make(kRootInode, "f")->node.attr.ino;
  const InodeId made = a.Make(kRootInode, "new")->node.attr.ino;
  const RenameRequest r = NewOverF(&a, old);
  a.events.clear();
  const auto reply = a.Run(h.server->Rename(r));
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_TRUE(reply->released);
  EXPECT_EQ(a.GetAttr(old).code(), FsError::kStale);  // at once
  h.ex.RunFor(kSecond);
  EXPECT_EQ(Count(a.events, Kind::kInvalidateAttr, old), 0u) << "it knows";
  EXPECT_EQ(b.Lookup("f")->attr.ino, made);
  EXPECT_TRUE(h.Fsck().empty());
}

// It has another name yet, of which the caller did not know.
TEST_F(ServiceTest, ARenameTellsOfWhatHasANameLeft) {
  const InodeId old = a.Make(kRootInode, "f")->node.attr.ino;
  a.Release(old);
  ASSERT_TRUE(a.Make(kRootInode, "new", FileType::kFile, false).ok());
  LinkRequest link;
  link.header = a.Mutation();
  link.ino = old;
  link.new_parent = kRootInode;
  link.new_name = "other";
  ASSERT_TRUE(a.Run(h.server->Link(link)).ok());
  ASSERT_TRUE(a.GetAttr(old).ok());
  const RenameRequest r = NewOverF(&a, old);
  a.events.clear();
  ASSERT_TRUE(a.Run(h.server->Rename(r)).ok());
  h.ex.RunFor(kSecond);
  EXPECT_EQ(Count(a.events, Kind::kInvalidateAttr, old), 1u);
  EXPECT_EQ(a.GetAttr(old)->attr.nlink, 1u);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(ServiceTest, AnUnlinkDoesNotGiveBackWhatWasOpenedLater) {
  const auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  OpenRequest open;
  open.header = a.Header();
  open.header.trace_id = 6;
  open.ino = ino;
  open.for_write = true;
  ASSERT_TRUE(a.Run(h.server->Open(open)).ok());
  NameRequest r = a.Name(kRootInode, "f", true);
  r.header.trace_id = 5;
  r.release = ino;
  ASSERT_TRUE(a.Run(h.server->Unlink(r)).ok());
  EXPECT_TRUE(h.server->leases().IsOpen(ino));
  h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "still here"))).ok());
  a.Release(ino);
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(ServiceTest, AnOpenTellsTheMappingOfASmallFile) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "text"))).ok());
  a.Release(ino);
  OpenRequest open;
  open.ino = ino;
  open.header = b.Header();
  auto opened = b.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_FALSE(opened->mapping);  // it was not asked for
  open.map_bytes = kMiB;
  opened = b.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok() && opened->mapping);
  EXPECT_EQ(opened->lease, LeaseMode::kRead);
  ASSERT_EQ(opened->mapping->extents.size(), 1u);
  EXPECT_EQ(opened->mapping->extents[0].inline_bytes, "text");
  EXPECT_EQ(opened->mapping->covered_to, kMiB);
  EXPECT_EQ(opened->mapping->attr.size, 4u);
  // It is told of what comes next, as if it had asked for the mapping.
  SetAttrRequest cut;
  cut.header = a.Mutation();
  cut.ino = ino;
  cut.size = 2;
  const size_t told = Count(b.events, Kind::kInvalidateData, ino);
  ASSERT_TRUE(a.Run(h.server->SetAttr(cut)).ok());
  EXPECT_EQ(Count(b.events, Kind::kInvalidateData, ino), told + 1);
  // Where others write nothing may be kept.
  open.header = a.Header();
  open.for_write = true;
  opened = a.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_EQ(opened->lease, LeaseMode::kShared);
  EXPECT_FALSE(opened->mapping);
}

TEST_F(ServiceTest, AnOpenTellsNoLongMapping) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  for (uint64_t i = 0; i < 65; ++i) {
    ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, i * 1000, "x"))).ok());
  }
  a.Release(ino);
  OpenRequest open;
  open.ino = ino;
  open.header = b.Header();
  open.map_bytes = 64'000;
  auto opened = b.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok() && opened->mapping);
  EXPECT_EQ(opened->mapping->extents.size(), 64u);
  open.map_bytes = kMiB;
  opened = b.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_FALSE(opened->mapping);
}

// Somebody who showed what was there before a change does not know of it yet.
TEST_F(ServiceTest, AnOpenTellsNoMappingThatOthersDoNotKnow) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "text"))).ok());
  a.Release(ino);
  TestClient c{&h, 3};
  c.Open();
  GetExtentsRequest read;  // of a descriptor that has lost its lease: a lease would be recalled first
  read.ino = ino;
  read.length = kMiB;
  read.header = b.Header();
  ASSERT_TRUE(b.Run(h.server->GetExtents(read)).ok());
  b.Stop();  // polls no more
  SetAttrRequest cut;
  cut.header = a.Mutation();
  cut.ino = ino;
  cut.size = 2;
  TaskScope scope;
  bool answered = false;
  scope.Spawn([](MetaServer* s, SetAttrRequest r, bool* done) -> Task<void> {
    (void)co_await s->SetAttr(r);
    *done = true;
  }(h.server.get(), cut, &answered));
  h.ex.RunFor(kSecond / 10);
  ASSERT_FALSE(answered);
  OpenRequest open;
  open.ino = ino;
  open.map_bytes = kMiB;
  open.header = c.Header();
  const auto opened = c.Run(h.server->Open(open));
  ASSERT_TRUE(opened.ok()) << opened.error();
  EXPECT_FALSE(opened->mapping);
  scope.CancelAll();
}

}  // namespace
}  // namespace stria
