// Files on coherence, a cluster and a core, without a metadata server.
#include "meta/files/files.h"

#include "meta/core/core_testing.h"
#include "meta/exports/export_room.h"

namespace stria {
namespace {

class FilesTest : public CoreTest, public CleanerHost, public ClusterHost, public FilesHost, public MetaRoom {
 protected:
  FilesTest() {
    core->UseRoom(this);
    cleaner = std::make_unique<Cleaner>(core.get(), this);
    cluster = std::make_unique<ClusterKeeper>(core.get(), this, ClusterOptions());
    coherence = std::make_unique<Coherence>(core.get(), cleaner.get(), CoherenceOptions(), [this](SessionId s) { files->NoteEnded(s); });
    exports = std::make_unique<ExportRoom>(core.get());
    coherence->UseExports(exports.get(), [](const Peer&) { return false; });
    files = std::make_unique<Files>(core.get(), cleaner.get(), coherence.get(), cluster.get(), this);
    Start([&](Txn& txn) -> Result<void> {
      RETURN_IF_ERROR(cluster->Load(txn));
      RETURN_IF_ERROR(exports->Load(txn));
      return coherence->Load(txn);
    });
    cleaner->EndClaims();
    cleaner->Start();
    for (uint64_t client = 1; client <= 2; ++client) {
      OpenSessionRequest r;
      r.header = Header();
      r.client_uuid = Uuid{77, client};
      r.client = "client";
      const OpenSessionReply reply = RunSim(ex, coherence->OpenSession(r)).value();
      sessions.push_back({reply.session, reply.epoch});
    }
  }
  ~FilesTest() override {
    core->CancelTasks();
    cleaner->Stop();
    files->ForgetRuns();
  }
  // ---- Rooms around it ----
  bool IsOpen(InodeId ino) const override { return coherence->IsOpen(ino); }
  bool IsWanted(InodeId ino) const override { return coherence->IsWanted(ino); }
  void TellTrimmed(const Touched& t) override { coherence->notices().TellTrimmed(t); }
  void MapChanged() override {}
  void Moved(Txn&, const std::set<TargetId>&) override {}
  void Restarted(const std::set<TargetId>&) override {}
  void LayoutAsked(const Layout&) override { ++asked; }
  Result<void> Committed(const std::vector<StripeInfo>& stripes) override {
    committed += stripes.size();
    return Ok();
  }
  Result<void> FoundBad(const ReportedShard&) override { return Ok(); }
  void Doubted(const ReportedShard&, TargetId, uint64_t) override {}
  RoomLevel Level() override { return level; }
  std::vector<Advice> Told() override { return {}; }

  OpHeader As(size_t client, uint64_t op = 0) {
    OpHeader h = Header();
    h.session = sessions[client].first;
    h.epoch = sessions[client].second;
    h.op_seq = OpSeq(op);
    return h;
  }
  Result<OpenReply> Make(size_t client, uint64_t op, const std::string& name) {
    MakeNodeRequest r;
    r.header = As(client, op);
    r.parent = kRootInode;
    r.name = name;
    r.mode = 0644;
    return RunSim(ex, files->MakeNode(r));
  }
  Result<NodeReply> Lookup(size_t client, const std::string& name) {
    NameRequest r;
    r.header = As(client);
    r.parent = kRootInode;
    r.name = name;
    return RunSim(ex, files->Lookup(r));
  }

  std::unique_ptr<Cleaner> cleaner;
  std::unique_ptr<ClusterKeeper> cluster;
  std::unique_ptr<ExportRoom> exports;
  std::unique_ptr<Coherence> coherence;
  std::unique_ptr<Files> files;
  std::vector<std::pair<SessionId, Epoch>> sessions;
  RoomLevel level = RoomLevel::kPlenty;
  int asked = 0;
  size_t committed = 0;
};

TEST_F(FilesTest, AnOperationIsDoneOnceHoweverOftenItIsAsked) {
  const Result<OpenReply> first = Make(0, 1, "f");
  ASSERT_TRUE(first.ok()) << first.error();
  EXPECT_TRUE(first->created);
  const Result<OpenReply> again = Make(0, 1, "f");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->node.attr.ino, first->node.attr.ino);
  EXPECT_TRUE(again->created);
  EXPECT_EQ(core->store().Count(Counter::kFiles), 1u);
  // The same number for something else.
  NameRequest r;
  r.header = As(0, 1);
  r.parent = kRootInode;
  r.name = "f";
  EXPECT_EQ(RunSim(ex, files->Unlink(r)).code(), FsError::kBadRequest);
  EXPECT_EQ(Make(0, 1, "g").code(), FsError::kBadRequest) << "another name of the same kind of call";
  EXPECT_EQ(Lookup(0, "g").code(), FsError::kNoEnt);
}

TEST_F(FilesTest, WhatWasRefusedStaysRefused) {
  NameRequest r;
  r.header = As(0, 1);
  r.parent = kRootInode;
  r.name = "f";
  EXPECT_EQ(RunSim(ex, files->Unlink(r)).code(), FsError::kNoEnt);
  ASSERT_TRUE(Make(1, 1, "f").ok());
  EXPECT_EQ(RunSim(ex, files->Unlink(r)).code(), FsError::kNoEnt);  // a copy that comes late
  EXPECT_TRUE(Lookup(0, "f").ok());
}

TEST_F(FilesTest, AChangeIsAnsweredWhenOthersHaveForgottenWhatTheyCached) {
  ASSERT_TRUE(Make(0, 1, "f").ok());
  ASSERT_TRUE(Lookup(1, "f").ok());
  std::optional<Result<NodeReply>> removed;
  TaskScope scope;
  scope.Spawn([](Files* f, OpHeader h, std::optional<Result<NodeReply>>* out) -> Task<void> {
    NameRequest r;
    r.header = h;
    r.parent = kRootInode;
    r.name = "f";
    out->emplace(co_await f->Unlink(r));
  }(files.get(), As(0, 2), &removed));
  ex.RunFor(kSecond);
  EXPECT_FALSE(removed);
  PollRequest poll;
  poll.header = As(1);
  poll.header.timeout_ns = 0;
  const auto events = RunSim(ex, coherence->sessions().Poll(poll)).value().events;
  ASSERT_FALSE(events.empty());
  poll.acked_event = events.back().seq;
  (void)RunSim(ex, coherence->sessions().Poll(poll));
  ex.RunFor(kSecond);
  ASSERT_TRUE(removed);
  EXPECT_TRUE(removed->ok());
}

TEST_F(FilesTest, OnAFullDiskOfTheMetadataNothingIsMadeAndDeletingGoesOn) {
  ASSERT_TRUE(Make(0, 1, "f").ok());
  level = RoomLevel::kFull;
  EXPECT_EQ(Make(0, 2, "g").code(), FsError::kNoSpace);
  NameRequest r;
  r.header = As(0, 3);
  r.parent = kRootInode;
  r.name = "f";
  EXPECT_TRUE(RunSim(ex, files->Unlink(r)).ok());
}

TEST_F(FilesTest, ByAReadOnlyExportNothingIsChanged) {
  const Result<OpenReply> made = Make(0, 1, "f");
  ASSERT_TRUE(made.ok());
  const InodeId ino = made->node.attr.ino;
  ASSERT_TRUE(RunSim(ex, exports->Set(ParseExport("path=/ access=ro squash=none").value())).ok());
  Peer peer;
  peer.name = "pc7";
  OpenSessionRequest open;
  open.header = Header();
  open.header.peer = std::make_shared<const Peer>(peer);
  open.client_uuid = Uuid{78, 1};
  const OpenSessionReply session = RunSim(ex, coherence->OpenSession(open)).value();
  ASSERT_TRUE(session.read_only);
  uint64_t op = 0;
  const auto header = [&] {
    OpHeader h = open.header;
    h.session = session.session;
    h.epoch = session.epoch;
    h.term = core->term();
    h.op_seq = OpSeq(++op);
    return h;
  };
  SetAttrRequest set{.header = header(), .ino = ino, .mode = 0600};
  EXPECT_EQ(RunSim(ex, files->SetAttr(set)).code(), FsError::kRoFs);
  NameRequest name;
  name.header = header();
  name.parent = kRootInode;
  name.name = "f";
  EXPECT_EQ(RunSim(ex, files->Unlink(name)).code(), FsError::kRoFs);
  AllocateRequest allocate;
  allocate.header = header();
  allocate.ino = ino;
  EXPECT_EQ(RunSim(ex, files->Allocate(allocate)).code(), FsError::kRoFs);
  EXPECT_EQ(asked, 0);
  CommitRequest commit;
  commit.header = header();
  commit.ino = ino;
  commit.extents = {{.length = 1, .inline_bytes = "x"}};
  EXPECT_EQ(RunSim(ex, files->Commit(commit)).code(), FsError::kRoFs);
  OpenRequest file;
  file.header = header();
  file.ino = ino;
  file.for_write = true;
  EXPECT_EQ(RunSim(ex, files->Open(file)).code(), FsError::kRoFs);
  file.header = header();
  file.for_write = false;
  file.truncate = true;
  EXPECT_EQ(RunSim(ex, files->Open(file)).code(), FsError::kRoFs);
  // Reading goes on, and locks, which are of no export.
  file.header = header();
  file.truncate = false;
  EXPECT_TRUE(RunSim(ex, files->Open(file)).ok());
  LockRequest lock;
  lock.header = header();
  lock.op = LockOp::kTry;
  lock.lock.ino = ino;
  lock.lock.type = LockType::kWrite;
  const Result<LockReply> locked = RunSim(ex, files->Lock(lock));
  ASSERT_TRUE(locked.ok()) << locked.error();
  EXPECT_TRUE(locked->granted);
  EXPECT_TRUE(Lookup(0, "f").ok()) << "it is still there";
}

TEST_F(FilesTest, WithoutDisksNothingIsAllocated) {
  const Result<OpenReply> made = Make(0, 1, "f");
  AllocateRequest r;
  r.header = As(0, 2);
  r.ino = made->node.attr.ino;
  EXPECT_EQ(RunSim(ex, files->Allocate(r)).code(), FsError::kTooFewDomains);
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace stria
