#include "client/vfs/recalls.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "client/vfs/inode_testing.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kIno{6};
constexpr uint64_t kGeneration = 2;

std::string Name(LeaseMode mode) {
  switch (mode) {
    case LeaseMode::kNone: return "none";
    case LeaseMode::kRead: return "read";
    case LeaseMode::kExclusive: return "exclusive";
    case LeaseMode::kShared: return "shared";
  }
  return "?";
}

// All that a demand does, in order. Each step takes a moment.
class RecallsTest : public ::testing::Test, public KernelCache {
 public:
  RecallsTest()
      : ex(1), table(InodesNeedsForTest(&released)), leases(ForLeases()), nodes(100, ForNodes()),
        view(*this, ForKernelView(), scope), room(table, leases, nodes, view, Needs()), file(table.Of(kIno)) {
    GrantForTest(*file, LeaseMode::kExclusive, true, kGeneration);
    ++file->writers;
  }
  ~RecallsTest() override { scope.CancelAll(); }

  Task<void> InvalidateInode(InodeId, bool data, uint64_t, uint64_t) override {
    log.push_back(std::string(data ? "kernel forgets pages" : "kernel forgets attributes") +
                  (file->turns.lease_mu.locked() ? " under lease_mu" : ""));
    co_await Sleep(kMillisecond);
  }
  Task<void> NameChanged(InodeId, std::string) override { co_return; }

  LeasesNeeds ForLeases() {
    LeasesNeeds needs;
    needs.generation = [] { return kGeneration; };
    needs.term = [] { return uint64_t{1}; };
    needs.era = [this] { return era; };
    needs.number_call = [this] { return ++calls; };
    needs.lease_left_ns = [] { return kSecond; };
    needs.release = [](InodeRequest) -> Task<Result<Empty>> { co_return Empty(); };
    needs.lease_done = [this](LeaseDoneRequest r) -> Task<Result<Empty>> {
      log.push_back("answer " + std::to_string(r.event_seq) + " " + Name(r.lease));
      co_await Sleep(kMillisecond);
      co_return Empty();
    };
    needs.maybe_unused = [](const InodeLeasePtr&) {};
    return needs;
  }
  static NodeCacheNeeds ForNodes() {
    NodeCacheNeeds needs;
    needs.generation = [] { return kGeneration; };
    needs.lease_left_ns = [] { return kSecond; };
    return needs;
  }
  static KernelViewNeeds ForKernelView() {
    KernelViewNeeds needs;
    needs.may_show_growth = [](const InodeInKernelPtr&) { return false; };
    needs.being_cut = [](const InodeInKernelPtr&) { return false; };
    needs.look = [](InodeInKernelPtr) -> Task<Result<FileGrowth>> { co_return FileGrowth(); };
    needs.pages_may_come = [] {};
    return needs;
  }
  RecallsNeeds Needs() {
    RecallsNeeds needs;
    needs.era = [this] { return era; };
    needs.flush_held = [this](VfsInodePtr inode) -> Task<Result<void>> {
      log.push_back(std::string("flush") + (inode->turns.lease_mu.locked() ? " under lease_mu" : ""));
      co_await Sleep(kMillisecond);
      if (during_flush) during_flush();
      if (errors.empty()) co_return Ok();
      const Error error = errors.front();
      errors.pop_front();
      co_return error;
    };
    needs.flush = [this](VfsInodePtr) -> Task<Result<void>> {
      log.push_back("flush pages");
      co_await Sleep(kMillisecond);
      co_return Ok();
    };
    needs.was_given_back = [this](const VfsInodePtr& inode, uint64_t call, bool surely) {
      EXPECT_EQ(inode, file);
      EXPECT_EQ(inode->lease.owes(), call);
      log.push_back(surely ? "given back" : "perhaps given back");
    };
    return needs;
  }
  static SessionEvent Demand(SessionEvent::Kind kind, LeaseMode left) {
    SessionEvent e;
    e.seq = 9;
    e.kind = kind;
    e.ino = kIno;
    e.lease = left;
    return e;
  }
  void Recall(LeaseMode left) { RunSim(ex, room.GiveUpLease(table.Find(kIno), Demand(SessionEvent::Kind::kRecall, left))); }
  using Log = std::vector<std::string>;

  SimExecutor ex;
  Log log;
  std::vector<InodeId> released;
  uint64_t era = 1, calls = 0;
  std::deque<Error> errors;
  std::function<void()> during_flush;
  TaskScope scope;
  Inodes table;
  Leases leases;
  NodeCache nodes;
  KernelView view;
  Recalls room;
  const VfsInodePtr file;
};

// Bytes first, then what the kernel has, without lease_mu, then the answer: only then has anybody else anything.
TEST_F(RecallsTest, ARecallCommitsForgetsAndAnswers) {
  const uint64_t epoch = nodes.epoch(), mapping = file->mapping.epoch();
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"flush under lease_mu", "kernel forgets pages", "flush pages", "answer 9 read"}));
  EXPECT_EQ(file->lease.mode(), LeaseMode::kRead);
  EXPECT_TRUE(file->attr_known);
  EXPECT_NE(nodes.epoch(), epoch);  // answers on their way are not remembered
  EXPECT_NE(file->mapping.epoch(), mapping);
  EXPECT_FALSE(file->turns.in_use());
  EXPECT_EQ(file->turns.demand_at(), DemandAt::kNowhere);
}

TEST_F(RecallsTest, WithoutALeaseAttributesAreNotKnown) {
  Recall(LeaseMode::kNone);
  EXPECT_EQ(log.back(), "answer 9 none");
  EXPECT_TRUE(file->lease.none());
  EXPECT_FALSE(file->attr_known);
}

// Nothing was buffered under it, so nothing is flushed for it.
TEST_F(RecallsTest, AReadLeaseIsGivenUpAtOnce) {
  GrantForTest(*file, LeaseMode::kRead, false, kGeneration);
  Recall(LeaseMode::kNone);
  EXPECT_EQ(log, Log({"kernel forgets pages", "answer 9 none"}));
}

TEST_F(RecallsTest, BytesAreCommittedHoweverOftenThatTakes) {
  errors = {Error(FsError::kTimedOut), Error(FsError::kUnavailable)};
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"flush under lease_mu", "flush under lease_mu", "flush under lease_mu", "kernel forgets pages",
                      "flush pages", "answer 9 read"}));
}

// A session that has come back, or another one, has no demands of before.
TEST_F(RecallsTest, NothingIsAnsweredInAnotherEra) {
  errors = {Error(FsError::kTimedOut)};
  during_flush = [this] { ++era; };
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"flush under lease_mu"}));
  EXPECT_EQ(file->lease.mode(), LeaseMode::kExclusive);
  EXPECT_FALSE(file->turns.in_use());

  log.clear();
  during_flush = nullptr;
  RunSim(ex, room.AnswerFlush(file, Demand(SessionEvent::Kind::kFlush, LeaseMode::kNone)));
  EXPECT_EQ(log, Log({"flush under lease_mu", "answer 9 exclusive"}));
}

TEST_F(RecallsTest, WhatIsNotHeldIsAnsweredAtOnce) {
  RunSim(ex, room.GiveUpLease(nullptr, Demand(SessionEvent::Kind::kRecall, LeaseMode::kRead)));
  EXPECT_EQ(log, Log({"answer 9 none"}));
  file->lease.Drop();
  log.clear();
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"answer 9 none"}));
  log.clear();
  RunSim(ex, room.AnswerFlush(nullptr, Demand(SessionEvent::Kind::kFlush, LeaseMode::kNone)));
  EXPECT_EQ(log, Log({"answer 9 none"}));
}

// It was given back while its bytes were committed.
TEST_F(RecallsTest, WhatIsNotHeldAnyMoreIsAnsweredSo) {
  during_flush = [this] { file->lease.Drop(); };
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"flush under lease_mu", "answer 9 none"}));
}

// Whoever asks for it then has it alone.
TEST_F(RecallsTest, AFileThatNobodyUsesHereIsGivenBackWithTheAnswer) {
  --file->writers;
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log, Log({"flush under lease_mu", "kernel forgets pages", "flush pages", "answer 9 none", "given back"}));
  EXPECT_TRUE(file->lease.none());
  EXPECT_FALSE(file->attr_known);
}

// Closed and opened again meanwhile it is another grant than the recalled one.
TEST_F(RecallsTest, ANewGrantIsNotGivenBackWithTheOldOne) {
  --file->writers;
  during_flush = [this] { file->lease.Take({.mode = LeaseMode::kExclusive, .for_read = true, .for_write = true}, "proof", {}); };
  Recall(LeaseMode::kRead);
  EXPECT_EQ(log.back(), "answer 9 read");
}

TEST_F(RecallsTest, AFlushForOthersKeepsTheLease) {
  RunSim(ex, room.AnswerFlush(file, Demand(SessionEvent::Kind::kFlush, LeaseMode::kNone)));
  EXPECT_EQ(log, Log({"flush under lease_mu", "answer 9 exclusive"}));
  EXPECT_EQ(file->lease.mode(), LeaseMode::kExclusive);
  EXPECT_TRUE(released.empty());
}

}  // namespace
}  // namespace stria
