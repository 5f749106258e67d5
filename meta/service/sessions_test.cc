// Sessions, what they are told of names, and exactly-once of the whole service.
#include <gtest/gtest.h>

#include "meta/service/service_testing.h"

namespace stria {
namespace {

using Kind = SessionEvent::Kind;

TEST_F(ServiceTest, CreateLookupUnlink) {
  auto made = a.Make(kRootInode, "f");
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_EQ(made->lease, LeaseMode::kExclusive);
  EXPECT_TRUE(made->created);
  EXPECT_EQ(b.Lookup("f")->attr.ino, made->node.attr.ino);
  ASSERT_TRUE(a.Unlink("f").ok());
  EXPECT_EQ(b.Lookup("f").code(), FsError::kNoEnt);
  a.Release(made->node.attr.ino);
  h.ex.RunFor(5 * kSecond);
  EXPECT_TRUE(h.Fsck().empty());
  EXPECT_EQ(a.GetAttr(made->node.attr.ino).code(), FsError::kStale);
}

TEST_F(ServiceTest, ChangesArePushedBeforeTheReply) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  const InodeId ino = b.Lookup("f")->attr.ino;
  EXPECT_TRUE(b.GetAttr(ino).ok());
  b.events.clear();
  SetAttrRequest r;
  r.header = a.Mutation();
  r.ino = ino;
  r.mode = 0600;
  ASSERT_TRUE(a.Run(h.server->SetAttr(r)).ok());
  EXPECT_EQ(Count(b.events, Kind::kInvalidateAttr, ino), 1u) << "processed by the time of the reply";
  ASSERT_TRUE(a.Unlink("f").ok());
  EXPECT_EQ(Count(b.events, Kind::kInvalidateEntry, kRootInode), 1u);
  EXPECT_EQ(b.Lookup("f").code(), FsError::kNoEnt);
  b.events.clear();
  ASSERT_TRUE(a.Make(kRootInode, "f").ok());
  EXPECT_EQ(Count(b.events, Kind::kInvalidateEntry, kRootInode), 1u) << "also what is not there";
}

TEST_F(ServiceTest, WhoMadeADirectoryIsToldOfItsNames) {
  const auto made = a.Make(kRootInode, "d", FileType::kDirectory);
  ASSERT_TRUE(made.ok()) << made.error();
  EXPECT_TRUE(made->whole);
  const InodeId dir = made->node.attr.ino;
  ASSERT_TRUE(a.Make(dir, "mine").ok());
  EXPECT_EQ(Count(a.events, Kind::kInvalidateEntry, dir), 0u);
  ASSERT_TRUE(b.Make(dir, "theirs").ok());
  EXPECT_EQ(Count(a.events, Kind::kInvalidateEntry, dir), 1u);
  // Whoever may not list it is not told what is in it.
  MakeNodeRequest r;
  r.header = a.Mutation();
  r.header.uid = 1000;
  r.parent = kRootInode;
  r.name = "closed";
  r.type = FileType::kDirectory;
  r.mode = 0300;
  ASSERT_TRUE(a.Run(h.server->SetAttr([&] {
    SetAttrRequest open;
    open.header = a.Mutation();
    open.ino = kRootInode;
    open.mode = 0777;
    return open;
  }())).ok());
  const auto closed = a.Run(h.server->MakeNode(r));
  ASSERT_TRUE(closed.ok()) << closed.error();
  EXPECT_FALSE(closed->whole);
  // The answer again, when there is a name by now.
  MakeNodeRequest again;
  again.header = a.Mutation();
  again.parent = kRootInode;
  again.name = "e";
  again.type = FileType::kDirectory;
  again.mode = 0755;
  const auto first = a.Run(h.server->MakeNode(again));
  ASSERT_TRUE(first.ok() && first->whole);
  ASSERT_TRUE(b.Make(first->node.attr.ino, "x").ok());
  const auto second = a.Run(h.server->MakeNode(again));
  ASSERT_TRUE(second.ok()) << second.error();
  EXPECT_EQ(second->node.attr.ino, first->node.attr.ino);
  EXPECT_FALSE(second->whole);
}

TEST_F(ServiceTest, ASilentSessionIsWaitedForOnlyUntilItsLeaseEnds) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  ASSERT_TRUE(b.Lookup("f").ok());
  b.Stop();
  Result<NodeReply> reply = FsError::kIo;
  const int64_t took = Timed(h.server->Unlink(a.Name(kRootInode, "f", true)), &reply);
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_GT(took, 13 * kSecond);
  EXPECT_LT(took, 17 * kSecond);
  EXPECT_EQ(b.Lookup("f").code(), FsError::kFenced);
}

// Else a could hear that the name is gone, tell b, and b would still find it.
TEST_F(ServiceTest, AnswersAboutNamesWaitForWhatOthersAreToBeTold) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  ASSERT_TRUE(b.Lookup("f").ok());
  b.Stop();
  NameRequest unlink = a.Name(kRootInode, "f", true);
  unlink.header.timeout_ns = 2 * kSecond;
  EXPECT_EQ(a.Run(h.server->Unlink(unlink)).code(), FsError::kDeadline);
  Result<NodeReply> found = FsError::kIo;
  const int64_t took = Timed(h.server->Lookup(a.Name(kRootInode, "f")), &found);
  EXPECT_EQ(found.code(), FsError::kNoEnt);
  EXPECT_GT(took, 10 * kSecond) << "b has not been told";
  EXPECT_EQ(b.Lookup("f").code(), FsError::kFenced);
  EXPECT_TRUE(a.Run(h.server->Unlink(unlink)).ok());
}

// b is told of the first change only, and still shows what was before both of them.
TEST_F(ServiceTest, AChangeIsNotAnsweredBeforeTheOneBeforeItIsKnown) {
  const InodeId ino = a.Make(kRootInode, "f", FileType::kFile, false)->node.attr.ino;
  ASSERT_TRUE(b.Lookup("f").ok());
  b.Stop();
  const auto change = [&](uint32_t mode, int64_t timeout_ns) {
    SetAttrRequest r;
    r.header = a.Mutation();
    r.header.timeout_ns = timeout_ns;
    r.ino = ino;
    r.mode = mode;
    return r;
  };
  EXPECT_EQ(a.Run(h.server->SetAttr(change(0600, 2 * kSecond))).code(), FsError::kDeadline);
  Result<NodeReply> reply = FsError::kIo;
  const int64_t took = Timed(h.server->SetAttr(change(0640, 30 * kSecond)), &reply);
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_GT(took, 10 * kSecond) << "b has not been told";
  EXPECT_EQ(b.GetAttr(ino).code(), FsError::kFenced);
}

TEST_F(ServiceTest, WhoKeepsAFileThatLosesItsLastNameIsTold) {
  auto made = a.Make(kRootInode, "f");
  const InodeId ino = made->node.attr.ino;
  ASSERT_TRUE(b.OpenFile(ino, false).ok());
  // What b is told of this is all that it is told of bytes and attributes, until it asks again.
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "hello"))).ok());
  b.events.clear();
  ASSERT_TRUE(a.Unlink("f").ok());
  h.ex.RunFor(kSecond);
  EXPECT_EQ(Count(b.events, Kind::kInvalidateAttr, ino), 1u);
  a.Release(ino);
  b.Release(ino);
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kStale);
}

TEST_F(ServiceTest, ALateCopyOfARefusedRequestIsRefused) {
  NameRequest unlink = a.Name(kRootInode, "f", true);
  EXPECT_EQ(a.Run(h.server->Unlink(unlink)).code(), FsError::kNoEnt);
  ASSERT_TRUE(b.Make(kRootInode, "f", FileType::kFile, false).ok());
  EXPECT_EQ(a.Run(h.server->Unlink(unlink)).code(), FsError::kNoEnt);
  EXPECT_TRUE(b.Lookup("f").ok());
  EXPECT_TRUE(a.Unlink("f").ok());
}

TEST_F(ServiceTest, WhoRenewsButTakesNoEventsIsFenced) {
  ASSERT_TRUE(a.Make(kRootInode, "f", FileType::kFile, false).ok());
  ASSERT_TRUE(b.Lookup("f").ok());
  b.Stop();
  b.polls = false;
  b.Loops();
  auto header = a.Mutation();
  NameRequest r = a.Name(kRootInode, "f");
  r.header = header;
  EXPECT_EQ(a.Run(h.server->Unlink(r)).code(), FsError::kDeadline);
  h.ex.RunFor(60 * kSecond);
  EXPECT_TRUE(a.Run(h.server->Unlink(r)).ok()) << "the same operation, done once";
  EXPECT_EQ(b.Lookup("f").code(), FsError::kFenced);
}

// While a change is announced, another one comes: who made the first may keep its reply, so it hears of the second.
TEST_F(ServiceTest, AReplyThatAnotherChangeOvertakesIsNotKept) {
  TestClient c{&h, 3};
  c.Open();
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  ASSERT_TRUE(b.OpenFile(ino, true).ok() && c.OpenFile(ino, true).ok());
  ASSERT_TRUE(c.Run(h.server->Commit(c.InlineCommit(ino, 0, "1"))).ok()) << "takes A's interest away";
  ASSERT_TRUE(b.GetAttr(ino).ok());
  b.Stop();  // announcements take as long as its lease
  a.events.clear();
  std::optional<Result<CommitReply>> first;
  TaskScope scope;
  scope.Spawn([](MetaServer* server, CommitRequest r, std::optional<Result<CommitReply>>* out) -> Task<void> {
    out->emplace(co_await server->Commit(std::move(r)));
  }(h.server.get(), a.InlineCommit(ino, 0, "22"), &first));
  h.ex.RunFor(10 * kMillisecond);
  ASSERT_FALSE(first) << "B has not answered";
  ASSERT_TRUE(c.Run(h.server->Commit(c.InlineCommit(ino, 0, "333"))).ok());
  h.ex.RunFor(20 * kSecond);  // until B is fenced
  ASSERT_TRUE(first && first->ok());
  EXPECT_EQ((*first)->attr.size, 2u);
  EXPECT_GE(Count(a.events, Kind::kInvalidateAttr, ino) + Count(a.events, Kind::kInvalidateData, ino), 1u);
}

// What C has seen, B does not contradict from its cache.
TEST_F(ServiceTest, AChangeIsSeenWhenThoseWhoCacheWhatWasBeforeKnow) {
  TestClient c{&h, 3};
  c.Open();
  const InodeId ino = a.Make(kRootInode, "f", FileType::kFile, false)->node.attr.ino;
  ASSERT_TRUE(b.GetAttr(ino).ok());
  b.Stop();
  TaskScope scope;
  std::optional<Result<NodeReply>> changed, seen, found;
  std::optional<Result<GetExtentsReply>> mapped;
  scope.Spawn([](MetaServer* server, SetAttrRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->SetAttr(std::move(r)));
  }(h.server.get(), [&] {
    SetAttrRequest r;
    r.header = a.Mutation();
    r.ino = ino;
    r.mode = 0400;
    return r;
  }(), &changed));
  h.ex.RunFor(10 * kMillisecond);
  scope.Spawn([](MetaServer* server, InodeRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->GetAttr(std::move(r)));
  }(h.server.get(), c.Ino(ino), &seen));
  scope.Spawn([](MetaServer* server, NameRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->Lookup(std::move(r)));
  }(h.server.get(), c.Name(kRootInode, "f"), &found));
  scope.Spawn([](MetaServer* server, GetExtentsRequest r, std::optional<Result<GetExtentsReply>>* out) -> Task<void> {
    out->emplace(co_await server->GetExtents(std::move(r)));
  }(h.server.get(), GetExtentsRequest{c.Header(), ino, 0, 3}, &mapped));
  ReadDirRequest list;
  list.header = c.Header();
  list.ino = kRootInode;
  list.with_attrs = true;
  const auto entries = c.Run(h.server->ReadDir(list));
  ASSERT_EQ(entries->entries.size(), 1u);
  EXPECT_FALSE(entries->entries[0].attr);
  h.ex.RunFor(10 * kMillisecond);
  EXPECT_FALSE(changed || seen || found || mapped) << "B shows the old mode";
  // What B itself reads may be pages that its kernel needs before it can forget them.
  EXPECT_EQ(c.Run(h.server->GetExtents(GetExtentsRequest{b.Header(), ino, 0, 3}))->attr.mode & 07777, 0400u);
  h.ex.RunFor(20 * kSecond);  // until B is fenced
  ASSERT_TRUE(changed && seen && found && changed->ok() && seen->ok() && found->ok());
  ASSERT_TRUE(mapped && mapped->ok());
  EXPECT_EQ((*seen)->attr.mode & 07777, 0400u);
  EXPECT_EQ((*found)->attr.mode & 07777, 0400u);
}

TEST_F(ServiceTest, DuplicatesGetOneResult) {
  MakeNodeRequest r;
  r.header = a.Mutation();
  r.parent = kRootInode;
  r.name = "d";
  r.type = FileType::kDirectory;
  // At the same time:
  std::vector<Task<Result<OpenReply>>> both;
  both.push_back(h.server->MakeNode(r));
  both.push_back(h.server->MakeNode(r));
  auto replies = RunSim(h.ex, WhenAll(std::move(both)));
  ASSERT_TRUE(replies[0].ok() && replies[1].ok());
  EXPECT_EQ(replies[0]->node.attr, replies[1]->node.attr);
  EXPECT_EQ(replies[0]->node.seq, replies[1]->node.seq);
  // Later, and after restarts of both kinds:
  for (int i = 0; i < 3; ++i) {
    if (i > 0) {
      EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
      a.Stop(), b.Stop();
      h.Crash(i == 2);
      EXPECT_TRUE(a.Reclaim());
      EXPECT_TRUE(b.Reclaim());
    }
    r.header.session = a.session;
    r.header.epoch = a.epoch;
    auto again = a.Run(h.server->MakeNode(r));
    ASSERT_TRUE(again.ok()) << again.error();
    EXPECT_EQ(again->node.attr.ino, replies[0]->node.attr.ino);
  }
  // Another request under the same number is refused; an acknowledged one too.
  NameRequest other = a.Name(kRootInode, "d");
  other.header.op_seq = r.header.op_seq;
  EXPECT_EQ(a.Run(h.server->Rmdir(other)).code(), FsError::kBadRequest);
  r.header.acked_below = OpSeq(r.header.op_seq.v + 1);
  EXPECT_EQ(a.Run(h.server->MakeNode(r)).code(), FsError::kBadRequest);
}

// A client asks what became of a request that it does not want to be made any more.
TEST_F(ServiceTest, WhatIsSettledIsDoneOrNeverWillBe) {
  MakeNodeRequest done;
  done.header = a.Mutation();
  done.parent = kRootInode;
  done.name = "done";
  done.type = FileType::kDirectory;
  MakeNodeRequest not_done = done;
  not_done.header = a.Mutation();
  not_done.name = "not_done";
  const auto made = a.Run(h.server->MakeNode(done));
  ASSERT_TRUE(made.ok()) << made.error();
  for (const bool restart : {false, true}) {
    if (restart) {
      EXPECT_TRUE(RunSim(h.ex, h.server->Sync(a.Ino(InodeId()))).ok());
      a.Stop(), b.Stop();
      h.Crash(true);
      EXPECT_TRUE(a.Reclaim());
      EXPECT_TRUE(b.Reclaim());
    }
    for (const bool settle : {true, false}) {
      done.header.settle = not_done.header.settle = settle;
      const auto again = a.Run(h.server->MakeNode(done));
      ASSERT_TRUE(again.ok()) << again.error();
      EXPECT_EQ(again->node.attr.ino, made->node.attr.ino);
      EXPECT_EQ(a.Run(h.server->MakeNode(not_done)).code(), FsError::kTimedOut);
    }
  }
  EXPECT_EQ(a.Run(h.server->Lookup(a.Name(kRootInode, "not_done"))).code(), FsError::kNoEnt);
}

// While it is being done it is waited for, as without asking.
TEST_F(ServiceTest, WhatIsBeingDoneIsSettledWhenItIs) {
  const auto file = b.Make(kRootInode, "f");
  ASSERT_TRUE(file.ok());
  b.Stop();  // it has the file to itself, and does not answer
  SetAttrRequest cut;
  cut.header = a.Mutation();
  cut.ino = file->node.attr.ino;
  cut.size = 0;
  TaskScope scope;
  std::optional<Result<NodeReply>> first, settled;
  const auto run = [](MetaServer* server, SetAttrRequest r, std::optional<Result<NodeReply>>* out) -> Task<void> {
    out->emplace(co_await server->SetAttr(r));
  };
  scope.Spawn(run(h.server.get(), cut, &first));
  h.ex.RunFor(kSecond);
  EXPECT_FALSE(first);
  cut.header.settle = true;
  scope.Spawn(run(h.server.get(), cut, &settled));
  h.ex.RunFor(60 * kSecond);  // b is fenced
  ASSERT_TRUE(first && settled);
  EXPECT_EQ(first->code(), settled->code());
  EXPECT_EQ(first->ok(), settled->ok());
}

TEST_F(ServiceTest, ASecondSessionOfTheSameClientFencesTheFirst) {
  auto made = a.Make(kRootInode, "f");
  ASSERT_TRUE(made.ok());
  TestClient again{&h, 1};
  again.Open();
  EXPECT_EQ(a.Lookup("f").code(), FsError::kFenced);
  EXPECT_EQ(a.Run(h.server->Commit(a.InlineCommit(made->node.attr.ino, 0, "x"))).code(), FsError::kFenced);
  EXPECT_FALSE(h.server->leases().IsOpen(made->node.attr.ino));
  EXPECT_EQ(again.Lookup("f")->attr.size, 0u);
}

// Many files are looked at while few may be cached: others have to forget what they cache, and get the time for that.
TEST(ServiceLimits, NobodyIsFencedByWhatOthersRead) {
  constexpr int kFiles = 400;
  MetaServerOptions options;
  options.max_interests = 100;
  options.sessions.max_events = 64;
  MetaHarness h(1, options);
  TestClient a{&h, 1}, b{&h, 2};
  a.Open();
  b.Open();
  std::vector<InodeId> files;
  for (int i = 0; i < kFiles; ++i) {
    const auto made = a.Make(kRootInode, "f" + std::to_string(i), FileType::kFile, false);
    ASSERT_TRUE(made.ok()) << made.error();
    files.push_back(made->node.attr.ino);
    if (i % 4 == 0) EXPECT_TRUE(b.GetAttr(files.back()).ok());
  }
  std::vector<Task<Result<NodeReply>>> looks;
  for (int i = 0; i < kFiles; ++i) looks.push_back(h.server->Lookup(a.Name(kRootInode, "f" + std::to_string(i))));
  const auto seen = RunSim(h.ex, WhenAll(std::move(looks)));
  for (const auto& s : seen) EXPECT_TRUE(s.ok()) << s.error();
  EXPECT_TRUE(a.GetAttr(files[0]).ok());
  EXPECT_TRUE(b.GetAttr(files[0]).ok());
  EXPECT_FALSE(a.fenced || b.fenced);
}

TEST_F(ServiceTest, AdminsReadAndSetLayoutsWithoutASession) {
  const InodeId ino = a.Make(kRootInode, "f")->node.attr.ino;
  ASSERT_TRUE(a.Run(h.server->Commit(a.InlineCommit(ino, 0, "abc"))).ok());
  a.Release(ino);
  OpHeader header;
  header.cluster = h.cluster;
  NameRequest name{header, kRootInode, "f"};
  EXPECT_EQ(RunSim(h.ex, h.server->Lookup(name))->attr.ino, ino);
  EXPECT_EQ(RunSim(h.ex, h.server->GetAttr({header, ino})).code(), FsError::kOk);
  EXPECT_EQ(RunSim(h.ex, h.server->GetExtents({header, ino, 0, 3}))->extents.size(), 1u);
  LayoutRequest set{header, kRootInode, Layout()};
  set.layout->k = 1;
  set.layout->m = 0;
  set.layout->codec = Codec::kNone;
  EXPECT_EQ(RunSim(h.ex, h.server->SetLayout(set)).code(), FsError::kTooFewDomains) << "no disks here";
  EXPECT_EQ(RunSim(h.ex, h.server->GetLayout({header, ino, std::nullopt})).code(), FsError::kOk);
  // Nothing else, and no op numbers, without a session.
  EXPECT_EQ(RunSim(h.ex, h.server->Unlink(name)).code(), FsError::kFenced);
  set.header.op_seq = OpSeq(1);
  EXPECT_EQ(RunSim(h.ex, h.server->SetLayout(set)).code(), FsError::kBadRequest);
  // Nobody waits for the admin's caches.
  EXPECT_TRUE(a.Unlink("f").ok());
}

TEST_F(ServiceTest, RefusesStrangers) {
  InodeRequest r = a.Ino(kRootInode);
  r.header.protocol = r.header.oldest_protocol = 9;
  EXPECT_EQ(a.Run(h.server->GetAttr(r)).code(), FsError::kVersion);
  r = a.Ino(kRootInode);
  r.header.cluster = Uuid{8, 8};
  EXPECT_EQ(a.Run(h.server->GetAttr(r)).code(), FsError::kWrongCluster);
  r = a.Ino(kRootInode);
  r.header.epoch = Epoch(99);
  EXPECT_EQ(a.Run(h.server->GetAttr(r)).code(), FsError::kFenced);
  RegisterNodeRequest n;
  n.uuid = Uuid{5, 5};
  n.name = "evil";
  n.proof = "no";
  EXPECT_EQ(a.Run(h.server->RegisterNode(n)).code(), FsError::kBadToken);
}

}  // namespace
}  // namespace stria
