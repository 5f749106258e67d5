#include "client/fuse/moved_dirs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/fuse/executor_thread.h"

namespace stria {
namespace {

class MovedDirsTest : public testing::Test {
 protected:
  using Walked = std::vector<std::pair<std::string, uint64_t>>;

  void SetUp() override {
    loop_.Do([this] {
      dirs_ = std::make_unique<MovedDirs>([this](InodeId ino) { return Where(ino); },
                                          [this](const std::string& path, InodeId ino) { return Walk(path, ino); },
                                          [this] { return InUse(); });
    });
  }
  void TearDown() override {
    loop_.Do([this] { dirs_.reset(); });
  }
  Task<Result<std::string>> Where(InodeId ino) {
    if (silent_ > 0 && silent_-- > 0) co_return Error(FsError::kUnavailable);
    const auto it = places_.find(ino.v);
    co_return it == places_.end() ? std::string() : it->second;
  }
  // On the walker's thread.
  bool Walk(const std::string& path, InodeId ino) {
    walker_ = static_cast<uint32_t>(gettid());
    held_.wait(true);
    std::lock_guard<std::mutex> lock(mu_);
    walked_.emplace_back(path, ino.v);
    return fail_ == 0 || fail_-- == 0;
  }
  std::vector<InodeId> InUse() {
    std::lock_guard<std::mutex> lock(mu_);
    ++looks_;
    return in_use_;
  }
  void Changed(uint64_t ino, uint64_t dir, const std::string& name) {
    loop_.Do([&] { dirs_->Changed(InodeId(ino), {InodeId(dir), name}); });
  }
  Walked WaitFor(size_t walks) {
    while (true) {
      {
        std::lock_guard<std::mutex> lock(mu_);
        if (walked_.size() >= walks) return walked_;
      }
      usleep(1000);
    }
  }

  ExecutorThread loop_;
  std::unique_ptr<MovedDirs> dirs_;
  // Of the executor's thread.
  std::map<uint64_t, std::string> places_;
  int silent_ = 0;
  std::atomic<bool> held_ = false;
  std::atomic<uint32_t> walker_ = 0;
  std::mutex mu_;
  Walked walked_;  // guarded by mu_
  int fail_ = 0;   // guarded by mu_
  int looks_ = 0;  // guarded by mu_
  std::vector<InodeId> in_use_;  // guarded by mu_
};

TEST_F(MovedDirsTest, AreWalkedTo) {
  loop_.Do([this] { places_ = {{1, MovedDirs::kRoot}, {5, "d"}, {6, "top"}, {7, "e/new"}, {8, "d/same"}, {11, "up"}}; });
  Changed(8, 5, "same");  // has not moved
  Changed(6, 1, "top");
  Changed(9, 5, "gone");
  Changed(1, 5, "nothing above");
  Changed(7, 5, "old");
  Changed(11, 12, "up");  // out of a directory that is gone, too
  EXPECT_EQ(WaitFor(3), Walked({{"d/same", 8}, {"e/new", 7}, {"up", 11}})) << "one that has not moved is looked up again";
}

TEST_F(MovedDirsTest, AreTriedAgain) {
  loop_.Do([this] {
    places_ = {{7, "new"}};
    silent_ = 2;
  });
  fail_ = 2;
  Changed(7, 0, "old");
  EXPECT_EQ(WaitFor(3), Walked(3, {"new", 7}));
}

TEST_F(MovedDirsTest, AreGivenUpAfterSomeTries) {
  loop_.Do([this] { places_ = {{7, "new"}, {8, "other"}}; });
  fail_ = MovedDirs::kTries;
  Changed(7, 0, "old");
  (void)WaitFor(MovedDirs::kTries);
  Changed(8, 0, "old");
  const Walked all = WaitFor(MovedDirs::kTries + 1);
  EXPECT_EQ(all.back(), std::make_pair(std::string("other"), uint64_t{8}));
}

TEST_F(MovedDirsTest, AreBoundedWhileAWalkHangs) {
  held_ = true;
  loop_.Do([this] {
    for (uint64_t i = 1; i <= 2 * MovedDirs::kMaxQueued; ++i) {
      places_[i] = std::to_string(i);
      dirs_->Changed(InodeId(i), {});
      dirs_->Changed(InodeId(i), {});
    }
    EXPECT_LE(dirs_->queued(), MovedDirs::kMaxQueued);
  });
  held_ = false;
  held_.notify_all();
  EXPECT_GE(WaitFor(MovedDirs::kMaxQueued).size(), MovedDirs::kMaxQueued);
}

TEST_F(MovedDirsTest, AreLookedForIfNobodyTells) {
  in_use_ = {InodeId(7), InodeId(8), InodeId(9)};
  loop_.Do([this] {
    places_ = {{7, "a"}, {8, "b"}};
    for (int i = 0; i < 100; ++i) dirs_->AllMayHaveMoved();
  });
  EXPECT_EQ(WaitFor(2), Walked({{"a", 7}, {"b", 8}}));
  std::lock_guard<std::mutex> lock(mu_);
  EXPECT_LE(looks_, 2);
}

// What is queued for one name and changes by another meanwhile is not taken for where it was.
TEST_F(MovedDirsTest, AreWalkedToIfTheyMovedBack) {
  held_ = true;
  loop_.Do([this] {
    places_ = {{1, "first"}, {5, "d"}, {7, "d/a"}};
    dirs_->Changed(InodeId(1), {});
    dirs_->Changed(InodeId(7), {InodeId(5), "a"});
    dirs_->Changed(InodeId(7), {InodeId(5), "b"});
  });
  held_ = false;
  held_.notify_all();
  EXPECT_EQ(WaitFor(2), Walked({{"first", 1}, {"d/a", 7}}));
}

// Only the walker is kept from taking what the kernel has.
TEST_F(MovedDirsTest, TakeNothingElseAway) {
  const auto may = [this](uint32_t thread, uint64_t had, uint64_t found) {
    bool may = false;
    loop_.Do([&] { may = dirs_->MayReplace(thread, InodeId(had), InodeId(found)); });
    return may;
  };
  held_ = true;
  EXPECT_TRUE(may(static_cast<uint32_t>(gettid()), 3, 0));
  loop_.Do([this] {
    places_ = {{7, "new"}};
    dirs_->Changed(InodeId(7), {});
  });
  while (walker_ == 0) usleep(1000);
  EXPECT_TRUE(may(walker_, 3, 3));
  EXPECT_TRUE(may(walker_, 3, 7)) << "what it goes to";
  EXPECT_FALSE(may(walker_, 3, 0));
  EXPECT_FALSE(may(walker_, 3, 8));
  EXPECT_TRUE(may(walker_ + 1, 3, 0));
  held_ = false;
  held_.notify_all();
  (void)WaitFor(1);
}

}  // namespace
}  // namespace stria
