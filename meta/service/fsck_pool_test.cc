// The check of the metadata runs on a pool, over a snapshot: calls go on meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "common/exec/pool.h"
#include "meta/ops/ops.h"
#include "meta/service/meta_testing.h"

namespace stria {
namespace {

// Runs its work when the test says so.
class LatePool final : public Pool {
 public:
  void Submit(std::function<void()> work) override { work_.push_back(std::move(work)); }
  size_t waiting() const { return work_.size(); }
  void RunAll() {
    for (; !work_.empty(); work_.pop_front()) work_.front()();
  }

 private:
  std::deque<std::function<void()>> work_;
};

class FsckPoolTest : public testing::Test {
 protected:
  FsckPoolTest() { h.server->UsePool(&pool); }
  InodeRequest Request() const {
    InodeRequest r;
    r.header.cluster = h.cluster;
    return r;
  }
  void Ask(std::optional<Result<FsckReply>>* out) {
    scope.Spawn([](MetaServer* server, InodeRequest r, std::optional<Result<FsckReply>>* to) -> Task<void> {
      to->emplace(co_await server->Fsck(std::move(r)));
    }(h.server.get(), Request(), out));
    h.ex.RunFor(kSecond);
  }
  void MakeDirectory(const std::string& name) {
    Touched touched;
    OpCtx root;
    root.touched = &touched;
    MakeNodeRequest r;
    r.parent = kRootInode;
    r.name = name;
    r.type = FileType::kDirectory;
    r.mode = 0777;
    Txn txn(*h.server->store());
    ASSERT_TRUE(OpMakeNode(txn, root, r).ok());
    ASSERT_TRUE(txn.Commit().ok());
  }

  LatePool pool;
  MetaHarness h;
  TaskScope scope;
};

TEST_F(FsckPoolTest, CallsGoOnMeanwhileAndItSeesOneMoment) {
  std::optional<Result<FsckReply>> first, second;
  Ask(&first);
  ASSERT_EQ(pool.waiting(), 1u);
  EXPECT_FALSE(first);
  EXPECT_EQ(RunSim(h.ex, h.server->Fsck(Request())).code(), FsError::kBusy) << "one at a time: it takes memory";
  EXPECT_TRUE(RunSim(h.ex, h.server->GetMap(Request())).ok());
  MakeDirectory("d");
  pool.RunAll();
  h.ex.RunFor(kSecond);
  ASSERT_TRUE(first && first->ok()) << first->error();
  EXPECT_TRUE((*first)->problems.empty());
  Ask(&second);
  pool.RunAll();
  h.ex.RunFor(kSecond);
  ASSERT_TRUE(second && second->ok());
  EXPECT_TRUE((*second)->problems.empty());
  EXPECT_EQ((*second)->inodes, (*first)->inodes + 1) << "the first was of the moment when it was asked for";
}

TEST_F(FsckPoolTest, TheServerMayEndMeanwhile) {
  std::optional<Result<FsckReply>> answer;
  Ask(&answer);
  ASSERT_EQ(pool.waiting(), 1u);
  scope.CancelAll();
  h.server.reset();
  pool.RunAll();
  h.ex.RunFor(kSecond);
  EXPECT_FALSE(answer);
}

TEST_F(FsckPoolTest, ACheckIsStopped) {
  const std::atomic<bool> stop{true};
  EXPECT_EQ(CheckStore(h.server->store()->kv(), &stop).code(), FsError::kCancelled);
}

}  // namespace
}  // namespace stria
