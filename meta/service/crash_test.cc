// The whole service under crashes at random points, duplicated requests and clients that die: appends
// happen exactly once, rights never conflict, and the store is always consistent.
#include <gtest/gtest.h>

#include <map>

#include "meta/service/meta_testing.h"

namespace stria {
namespace {

// Appends bytes to a file of its own, one op at a time, each sent until it is answered.
class Appender {
 public:
  Appender(MetaHarness* h, uint64_t n) : h_(h), client_(h, n), name_("a" + std::to_string(n)) {}

  void Begin() {
    client_.Open();
    auto made = client_.Make(kRootInode, name_);
    ASSERT_TRUE(made.ok()) << made.error();
    ino_ = made->node.attr.ino;
    ASSERT_TRUE(RunSim(h_->ex, h_->server->Sync(client_.Ino(InodeId()))).ok());
    Go();
  }
  void Stop() {
    scope_ = std::make_unique<TaskScope>();
    client_.Stop();
  }
  void Resume() {
    const LeaseMode mode = shared_ ? LeaseMode::kShared : LeaseMode::kExclusive;
    ASSERT_TRUE(client_.Reclaim({{ino_, mode, true}}));
    Go();
  }
  void Check() {
    // What is under way may or may not be done; all answered ones are, once.
    auto attr = client_.GetAttr(ino_);
    ASSERT_TRUE(attr.ok()) << attr.error();
    EXPECT_GE(attr->attr.size, answered_) << name_;
    EXPECT_LE(attr->attr.size, answered_ + 1) << name_;
  }
  uint64_t answered() const { return answered_; }
  InodeId ino() const { return ino_; }
  const std::string& name() const { return name_; }

 private:
  void Go() {
    client_.flush = [this](SessionEvent e) -> Task<void> {
      if (e.kind == SessionEvent::Kind::kRecall) shared_ = true;
      co_return;
    };
    scope_->Spawn(Loop());
  }
  Task<void> Loop() {
    while (true) {
      if (!request_) {
        request_ = client_.InlineCommit(ino_, 0, "x");
        request_->append = true;
        request_->durable = true;
      }
      request_->header.session = client_.session;
      request_->header.epoch = client_.epoch;
      request_->header.acked_below = request_->header.op_seq;
      request_->header.timeout_ns = 3 * kSecond;
      std::vector<Task<Result<CommitReply>>> copies;
      for (uint64_t i = 0, n = 1 + h_->rng.Below(2); i < n; ++i) copies.push_back(h_->server->Commit(*request_));
      auto replies = co_await WhenAll(std::move(copies));
      if (replies[0].ok()) {
        EXPECT_EQ(replies[0]->append_offset, answered_) << name_ << " op " << request_->header.op_seq;
        if (replies.size() > 1 && replies[1].ok()) EXPECT_EQ(replies[1]->append_offset, answered_);
        ++answered_;
        request_.reset();
        co_await Sleep(static_cast<int64_t>(h_->rng.Below(100)) * kMillisecond);
      } else {
        EXPECT_TRUE(IsRetryable(replies[0].code())) << replies[0].error();
        co_await Sleep(50 * kMillisecond);
      }
    }
  }

  MetaHarness* h_;
  TestClient client_;
  const std::string name_;
  InodeId ino_;
  bool shared_ = false;
  uint64_t answered_ = 0;
  std::optional<CommitRequest> request_;
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>();
};

// Does anything to a few names; dies and comes back as somebody else.
class Vandal {
 public:
  Vandal(MetaHarness* h, uint64_t n) : h_(h), client_(std::make_unique<TestClient>(h, n)), n_(n), rng_(h->rng.Next()) {}
  void Begin() {
    client_->Open();
    scope_->Spawn(Loop());
  }
  void Stop() {
    scope_ = std::make_unique<TaskScope>();
    client_->Stop();
  }
  void Resume() {
    open_.clear();
    if (rng_.OneIn(2)) client_ = std::make_unique<TestClient>(h_, n_ += 100);  // the former one expires
    else if (client_->Reclaim()) return scope_->Spawn(Loop());
    client_->Open();
    scope_->Spawn(Loop());
  }

 private:
  std::string Name() { return std::string(1, static_cast<char>('p' + rng_.Below(5))); }
  Task<void> Loop() {
    while (true) {
      co_await Sleep(static_cast<int64_t>(rng_.Below(60)) * kMillisecond);
      co_await One();
    }
  }
  Task<void> One() {
    switch (rng_.Below(9)) {
      case 0:
      case 1: co_await Create(); break;
      case 2: (void)co_await h_->server->Unlink(client_->Name(kRootInode, Name(), true)); break;
      case 3: co_await RenameOne(); break;
      case 4: co_await LookAtAppender(); break;
      case 5: (void)co_await h_->server->Lookup(client_->Name(kRootInode, Name())); break;
      case 6: co_await WriteSome(); break;
      case 7: co_await CloseOne(); break;
      case 8: co_await ListAll(); break;
    }
    EXPECT_EQ(h_->server->leases().CheckInvariants(), "");
  }
  Task<void> Create() {
    MakeNodeRequest r;
    r.header = client_->Mutation();
    r.parent = kRootInode;
    r.name = Name();
    r.open = true;
    r.truncate = rng_.OneIn(3);
    auto reply = co_await h_->server->MakeNode(r);
    if (reply.ok()) open_.insert(reply->node.attr.ino);
  }
  Task<void> RenameOne() {
    RenameRequest r;
    r.header = client_->Mutation();
    r.parent = r.new_parent = kRootInode;
    r.name = Name();
    r.new_name = Name();
    r.exchange = rng_.OneIn(4);
    (void)co_await h_->server->Rename(r);
  }
  // Stats (which flushes) or reads (which recalls) a file that somebody writes.
  Task<void> LookAtAppender() {
    auto found = co_await h_->server->Lookup(client_->Name(kRootInode, "a" + std::to_string(1 + rng_.Below(2))));
    if (!found.ok() || !rng_.OneIn(10)) co_return;
    const InodeId ino = found->attr.ino;
    if ((co_await client_->OpenTask(ino, false)).ok()) open_.insert(ino);
  }
  Task<void> WriteSome() {
    if (open_.empty()) co_return;
    const InodeId ino = *open_.begin();
    if (!h_->server->leases().IsWriter(client_->session, ino)) co_return;
    AllocateRequest a;
    a.header = client_->Mutation();
    a.ino = ino;
    auto alloc = co_await h_->server->Allocate(a);
    if (!alloc.ok() || rng_.OneIn(4)) co_return;  // forgotten: the session's end collects them
    CommitRequest r;
    r.header = client_->Mutation();
    r.ino = ino;
    r.stripes = {TestClient::Sealed(alloc->stripes[0].info, 100'000)};
    Extent e;
    e.file_offset = rng_.Below(4) * 50'000;
    e.length = 100'000;
    e.stripe = r.stripes[0].id;
    r.extents = {e};
    (void)co_await h_->server->Commit(r);
  }
  Task<void> CloseOne() {
    if (open_.empty()) co_return;
    const InodeId ino = *open_.begin();
    open_.erase(ino);
    (void)co_await h_->server->Release(client_->Ino(ino));
  }
  Task<void> ListAll() {
    ReadDirRequest r;
    r.header = client_->Header();
    r.ino = kRootInode;
    r.with_attrs = true;
    auto reply = co_await h_->server->ReadDir(r);
    if (!reply.ok()) co_return;
    std::set<std::string> names;
    for (const DirEntry& e : reply->entries) EXPECT_TRUE(names.insert(e.name).second);
  }

  MetaHarness* h_;
  std::unique_ptr<TestClient> client_;
  uint64_t n_;
  Random rng_;
  std::set<InodeId> open_;
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>();
};

void RunSeed(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  MetaServerOptions options;
  options.max_interests = 20;  // evictions all the time
  MetaHarness h(seed, options);
  std::vector<std::unique_ptr<TestNode>> nodes;
  for (uint64_t n = 1; n <= 4; ++n) nodes.push_back(std::make_unique<TestNode>(&h, n));
  for (auto& n : nodes) n->Start();
  h.ex.RunFor(2 * kSecond);
  Appender a1(&h, 1), a2(&h, 2);
  Vandal v1(&h, 11), v2(&h, 12);
  a1.Begin(), a2.Begin(), v1.Begin(), v2.Begin();
  for (int round = 0; round < 6 && !testing::Test::HasFatalFailure(); ++round) {
    h.ex.RunFor(static_cast<int64_t>(h.rng.Below(5000)) * kMillisecond + static_cast<int64_t>(h.rng.Below(3000)) * kMicrosecond);
    const bool power = h.rng.OneIn(2);
    for (auto& n : nodes) n->Stop();
    a1.Stop(), a2.Stop(), v1.Stop(), v2.Stop();
    h.Crash(power);
    ASSERT_EQ(h.Fsck(), std::vector<std::string>());
    for (auto& n : nodes) n->Start();
    a1.Resume(), a2.Resume(), v1.Resume(), v2.Resume();
  }
  h.ex.RunFor(40 * kSecond);
  v1.Stop(), v2.Stop(), a1.Stop(), a2.Stop();
  a1.Resume(), a2.Resume();
  h.ex.RunFor(20 * kSecond);
  a1.Check(), a2.Check();
  EXPECT_GT(a1.answered() + a2.answered(), 20u);
  a1.Stop(), a2.Stop();
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(h.Fsck(), std::vector<std::string>());
  EXPECT_EQ(h.server->store()->Count(Counter::kAllocated), 0u);
  EXPECT_EQ(h.server->store()->Count(Counter::kGarbageShards), 0u);
  for (auto& n : nodes) n->Stop();
}

// What was answered and not synced is gone until the client repeats it. To a call of one that has not heard of the
// restart nothing is durable: its fsync would be answered, and it might die before it repeats anything.
TEST(MetaCrash, NothingIsDurableBeforeTheSessionIsReclaimed) {
  MetaHarness h(3);
  TestClient a(&h, 1);
  a.Open();
  InodeRequest sync = a.Ino(InodeId());
  sync.header.term = h.server->term();
  ASSERT_TRUE(a.Run(h.server->Sync(sync)).ok());
  ASSERT_TRUE(a.Make(kRootInode, "f").ok());
  a.Stop();
  h.Crash(true);
  EXPECT_EQ(a.Run(h.server->Sync(sync)).code(), FsError::kRetryLater);
  ASSERT_TRUE(a.Reclaim());
  sync.header = a.Header();
  sync.header.term = h.server->term() - 1;
  EXPECT_EQ(a.Run(h.server->Sync(sync)).code(), FsError::kRetryLater) << "sent before the restart";
  sync.header.term = h.server->term();
  EXPECT_TRUE(a.Run(h.server->Sync(sync)).ok());
  a.Stop();
}

TEST(MetaCrash, WhatWasAnsweredIsDurableSoonAndOnce) {
  MetaHarness h(5);
  TestClient a(&h, 1);
  a.Open();
  const int64_t soon_ns = 4 * h.options.group_sync_ns;
  ASSERT_TRUE(a.Make(kRootInode, "f").ok());
  h.ex.RunUntil([] { return false; }, h.ex.NowNs() + soon_ns);
  EXPECT_EQ(h.server->store()->durable_seq(), h.server->store()->last_seq());
  // Nothing else happens: no more syncs.
  uint64_t before = h.media->syncs();
  h.ex.RunUntil([] { return false; }, h.ex.NowNs() + soon_ns);
  EXPECT_EQ(h.media->syncs(), before);
  // A client that asks for it itself, more often than the server would: one sync each.
  const InodeRequest sync = a.Ino(InodeId());
  before = h.media->syncs();
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(a.Make(kRootInode, "g" + std::to_string(i)).ok());
    h.ex.RunUntil([] { return false; }, h.ex.NowNs() + h.options.group_sync_ns / 4);
    ASSERT_TRUE(a.Run(h.server->Sync(sync)).ok());
    EXPECT_EQ(h.media->syncs(), before + i);
  }
  // And one that does not: all of it is durable soon, at any moment.
  std::map<CommitSeq, int64_t> answered;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(a.Make(kRootInode, "h" + std::to_string(i)).ok());
    answered[h.server->store()->last_seq()] = h.ex.NowNs();
    h.ex.RunUntil([] { return false; }, h.ex.NowNs() + h.options.group_sync_ns / 3);
    for (const auto& [seq, at_ns] : answered) {
      if (seq > h.server->store()->durable_seq()) EXPECT_LT(h.ex.NowNs() - at_ns, soon_ns);
    }
  }
  a.Stop();
}

TEST(Crash, ExactlyOnceAndConsistent) {
  for (uint64_t seed = 1; seed <= 6 && !testing::Test::HasFailure(); ++seed) RunSeed(seed);
}

}  // namespace
}  // namespace stria
