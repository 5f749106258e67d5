// Cutting files down: what was written and is cut off before it was stored is not stored for that, and what others see, and
// what is there after a crash of the client, is the file before or after.
#include <gtest/gtest.h>

#include "common/random.h"
#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

class Cuts : public SmallFiles {
 public:
  void SetUp() override {
    dir_ = MakeDir(0, "d");
    ino_ = Create(0, dir_, "f", "");
    (void)Do([]() -> Task<bool> {
      co_await Sleep(kSecond);  // the server has been told of it by then
      co_return true;
    }());
    Open();
  }
  void TearDown() override { Close(); }
  void Open() {
    VfsHandle flags;
    flags.read = flags.write = flags.noatime = true;
    auto opened = Do(vfs(0).Open(Caller(), ino_, false, flags));
    ASSERT_TRUE(opened.ok()) << opened.error();
    handle_ = opened->handle;
    Settle();
  }
  void Close() {
    EXPECT_TRUE(Do(vfs(0).Release(Caller(), handle_)).ok());
    handle_.reset();
  }
  // What the other client reads. Then this one has the file to itself again.
  std::string There() {
    const std::string text = Read(1, ino_);
    Close();
    Open();
    return text;
  }
  void Put(uint64_t offset, const std::string& text) {
    const auto done = Do(vfs(0).Write(Caller(), handle_, offset, Buffer::FromString(text)));
    ASSERT_TRUE(done.ok()) << done.error();
    if (model_.size() < offset + text.size()) model_.resize(offset + text.size());
    model_.replace(offset, text.size(), text);
  }
  void Cut(uint64_t size) {
    SetAttrIn set;
    set.size = size;
    const auto done = Do(vfs(0).SetAttr(Caller(), ino_, set));
    ASSERT_TRUE(done.ok()) << done.error();
    EXPECT_EQ(done->attr.size, size);
    model_.resize(size);
  }
  void Sync() { ASSERT_TRUE(Do(vfs(0).Fsync(Caller(), handle_)).ok()); }
  std::string Here() { return Text(Do(vfs(0).Read(Caller(), handle_, 0, 4 * kMiB))); }
  // Writes to data servers since the last question.
  uint64_t Stored() {
    uint64_t now = 0;
    for (const auto& [method, count] : cluster_.network().stats().calls) {
      if (method.find(".Data/") != method.npos && method.find("Write") != method.npos) now += count;
    }
    return now - std::exchange(stored_, now);
  }
  void Settle() { (void)Calls(), (void)Stored(); }

  InodeId dir_, ino_;
  VfsHandlePtr handle_;
  std::string model_;
  uint64_t stored_ = 0;
};

// As xfstests' looptest -t.
TEST_F(Cuts, WhatIsCutOffBeforeItWasStoredIsNot) {
  for (int i = 0; i < 10; ++i) {
    Put(0, std::string(200'000, static_cast<char>('a' + i)));
    EXPECT_EQ(Here(), model_);
    Cut(0);
    EXPECT_EQ(Calls(), "SetAttr 1") << i;
    EXPECT_EQ(Stored(), 0u) << i;
    EXPECT_EQ(Here(), "");
  }
}

TEST_F(Cuts, WhatStaysIsStoredAndNothingElse) {
  Put(0, std::string(30'000, 'a'));
  Put(30'000, std::string(90'000, 'b'));
  Cut(40'000);
  EXPECT_EQ(Calls(), "Commit 1, SetAttr 1") << "inline";
  EXPECT_EQ(Stored(), 0u);
  EXPECT_EQ(Here(), model_);
  EXPECT_EQ(There(), model_);
  Put(100'000, "c");
  EXPECT_EQ(Here(), model_);
  EXPECT_EQ(There(), model_) << "with zeros between";
}

TEST_F(Cuts, WhatTheServerHasIsCutToo) {
  Put(0, std::string(100'000, 'a'));
  Sync();
  Settle();
  Put(50'000, std::string(100'000, 'b'));
  Cut(60'000);
  EXPECT_GT(Stored(), 0u) << "until the answer others read what was there before, with the last bytes";
  EXPECT_EQ(Here(), model_);
  EXPECT_EQ(There(), model_);
}

// Behind what is left nothing was written: the server has another size than the file shall have, and is told of all.
TEST_F(Cuts, IntoAHole) {
  Put(1'000'000, "a");
  Cut(500'000);
  EXPECT_EQ(Here(), model_);
  EXPECT_EQ(There(), model_);
  Put(700'000, "b");
  Cut(500'000);
  EXPECT_EQ(Calls().find("Commit"), std::string::npos) << "it has that size";
  EXPECT_EQ(There(), model_);
}

// What was to grow the file is not remembered when none of it is left, whoever makes the file shorter then.
TEST_F(Cuts, ASizeThatNothingIsLeftOfIsForgotten) {
  Put(0, std::string(100, 'a'));
  Sync();
  Put(100, std::string(100, 'b'));
  Cut(100);
  SetAttrIn none;
  none.size = 0;
  ASSERT_TRUE(Do(vfs(1).SetAttr(Caller(), ino_, none)).ok());
  model_.clear();
  Put(0, "c");
  Sync();
  EXPECT_EQ(There(), "c");
}

// Of everything in turn, with what another client sees now and then.
TEST_F(Cuts, AgainstAString) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    for (int i = 0; i < 60; ++i) {
      const uint64_t at = rng.Below(rng.OneIn(2) ? 400'000 : 2'000);
      switch (rng.Below(8)) {
        case 0:
        case 1:
        case 2: Put(at, std::string(rng.Between(1, rng.OneIn(3) ? 150'000 : 500), static_cast<char>('a' + i % 26))); break;
        case 3:
        case 4:
        case 5: Cut(at); break;
        case 6: Sync(); break;
        default: EXPECT_EQ(There(), model_.substr(0, kMiB)) << i; break;
      }
      ASSERT_EQ(Here(), model_) << i;
    }
    const auto attr = Do(vfs(1).GetAttr(Caller(), ino_));
    ASSERT_TRUE(attr.ok());
    ASSERT_EQ(attr->attr.size, model_.size());
  }
}

}  // namespace
}  // namespace stria
