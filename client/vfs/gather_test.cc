#include "client/vfs/gather.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "client/io/io_test_env.h"

namespace stria {
namespace {

// A file whose bytes are in memory, and stripes of it that it was given.
class GatherTest : public ::testing::Test {
 public:
  GatherTest() : env(3), layout(MakeLayout(1, 4, 1, 64 * kKiB, 16, Arrangement::kGathered)) {
    payload = RandomPayload(env.rng, 1 * kMiB);
  }

  class File : public FileForGather {
   public:
    explicit File(GatherTest* t) : t_(t) { ++t_->holds; }
    ~File() override { --t_->holds; }
    const Layout& layout() const override { return t_->layout; }
    uint64_t size() const override { return t_->payload.size(); }
    std::unique_ptr<GrantSource> Source() override { return std::make_unique<FakeSource>(&t_->env.cluster, t_->layout); }
    Task<Result<BufferChain>> Read(uint64_t offset, uint64_t length) override {
      if (!t_->read_error.ok()) co_return t_->read_error;
      co_return t_->payload.Slice(offset, length);
    }
    bool held() const override { return t_->held; }
    Task<Result<void>> Swap(uint64_t offset, uint64_t length, StripeInfo stripe) override {
      EXPECT_EQ(t_->holds, 1);
      if (!t_->swap_errors.empty()) {
        const Error error = t_->swap_errors.front();
        t_->swap_errors.pop_front();
        co_return error;
      }
      t_->swapped.push_back({offset, length, std::move(stripe)});
      co_return Ok();
    }

   private:
    GatherTest* const t_;
  };

  Result<void> Gather(uint64_t offset, std::vector<uint64_t> columns) {
    const HoldForGather hold = [this]() -> Task<Result<std::unique_ptr<FileForGather>>> {
      if (!hold_error.ok()) co_return hold_error;
      std::unique_ptr<FileForGather> file = std::make_unique<File>(this);
      co_return std::move(file);
    };
    GatherRequest request{offset, std::move(columns)};
    return RunSim(env.ex, GatherColumns(env.io, std::move(request), hold));
  }

  struct Swapped {
    uint64_t offset = 0, length = 0;
    StripeInfo stripe;
  };

  IoEnv env;
  const Layout layout;
  BufferChain payload;
  Error hold_error, read_error;
  std::deque<Error> swap_errors;
  std::vector<Swapped> swapped;
  bool held = true;
  int holds = 0;
};

TEST(GatherRequestTest, Parse) {
  const auto r = ParseGather("4096:10,20");
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->offset, 4096u);
  EXPECT_EQ(r->columns, (std::vector<uint64_t>{10, 20}));
  for (const char* bad : {"", "1", "1:", "1:0", "1:2,", "1:2x", ":2", "-1:2", "1:99999999999999999999", "x:1"}) {
    EXPECT_EQ(ParseGather(bad).code(), FsError::kInval) << bad;
  }
}

TEST_F(GatherTest, ColumnsAreAsLongAsAskedFor) {
  ASSERT_TRUE(Gather(1000, {100'000, 200'000, 50'000}).ok());
  ASSERT_EQ(swapped.size(), 1u);
  EXPECT_EQ(swapped[0].offset, 1000u);
  EXPECT_EQ(swapped[0].length, 350'000u);
  EXPECT_EQ(swapped[0].stripe.columns[1].length, 200'000u);
  EXPECT_EQ(env.Read(swapped[0].stripe, 0, 350'000), BytesOf(payload.Slice(1000, 350'000)));
  EXPECT_EQ(holds, 0);
}

// More columns than a stripe has go into the next one.
TEST_F(GatherTest, ManyColumnsAreSeveralStripes) {
  ASSERT_TRUE(Gather(0, {1000, 1000, 1000, 1000, 1000, 1000}).ok());
  ASSERT_EQ(swapped.size(), 2u);
  EXPECT_EQ(swapped[1].offset, 4000u);
  EXPECT_EQ(swapped[1].length, 2000u);
}

// The allocation did not survive a restart of the server: another one may do.
TEST_F(GatherTest, AConflictIsTriedAgain) {
  swap_errors = {Error(FsError::kConflict), Error(FsError::kConflict)};
  ASSERT_TRUE(Gather(0, {1000}).ok());
  EXPECT_EQ(swapped.size(), 1u);
}

TEST_F(GatherTest, NothingElseIsTriedAgain) {
  swap_errors = {Error(FsError::kQuota)};
  EXPECT_EQ(Gather(0, {1000}).code(), FsError::kQuota);
  hold_error = Error(FsError::kBusy);
  EXPECT_EQ(Gather(0, {1000}).code(), FsError::kBusy);
  hold_error = Error();
  read_error = Error(FsError::kInval, "a hole");
  EXPECT_EQ(Gather(0, {1000}).code(), FsError::kInval);
  read_error = Error();
  EXPECT_EQ(Gather(payload.size() - 999, {1000}).code(), FsError::kInval);
  EXPECT_TRUE(swapped.empty());
}

TEST_F(GatherTest, WithoutItsSessionItSwapsNothing) {
  held = false;
  EXPECT_EQ(Gather(0, {1000}).code(), FsError::kFenced);
  EXPECT_TRUE(swapped.empty());
}

}  // namespace
}  // namespace stria
