#include "common/file_limit.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(FileLimit, IsRaisedToWhatIsAllowed) { EXPECT_GT(RaiseFileLimit(), 0u); }

TEST(FileLimit, IsNeverOverdrawn) {
  for (uint64_t limit = 1; limit < 100'000; limit += 1 + limit / 7) {
    for (const uint64_t stores : {1, 2, 3, 8, 24, 60}) {
      const Result<FileBudget> b = DivideFiles(limit, stores, "stria-test");
      const uint64_t need = kOtherFiles + kMinConnections + kMinFilesPerStore * stores;
      ASSERT_EQ(b.ok(), limit >= need) << limit << " for " << stores;
      if (!b.ok()) continue;
      EXPECT_LE(kOtherFiles + b->per_store * stores + b->connections, limit);
      EXPECT_GE(b->per_store, kMinFilesPerStore);
      EXPECT_LE(b->per_store, kMaxFilesPerStore);
      EXPECT_GE(b->connections, kMinConnections) << limit << " for " << stores;
    }
  }
}

TEST(FileLimit, SaysWhatIsNeeded) {
  const Error e = DivideFiles(100, 2, "stria-data").error();
  EXPECT_NE(e.message.find("stria-data may have only 100 files open, and needs 288"), std::string::npos) << e.message;
}

}  // namespace
}  // namespace stria
