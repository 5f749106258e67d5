#include "client/fuse/open_modes.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/random.h"

namespace stria {
namespace {

constexpr InodeId kIno{7};

TEST(OpenModes, FirstWithABackingThenAllOfThatVersion) {
  OpenModes m;
  ASSERT_TRUE(m.MayBegin(kIno));
  m.Begin(kIno, 3, 10);
  EXPECT_FALSE(m.MayBegin(kIno));
  EXPECT_EQ(m.Enter(kIno, false, 10), (OpenedAs{OpenMode::kThrough, 3}));
  EXPECT_EQ(m.Enter(kIno, false, 10), (OpenedAs{OpenMode::kThrough, 3}));
  // The file has changed: a new open reads the new bytes, though the kernel wants to hear of the backing.
  EXPECT_EQ(m.Enter(kIno, false, 11), (OpenedAs{OpenMode::kBeside, 3}));
  EXPECT_EQ(m.Enter(kIno, false, std::nullopt), (OpenedAs{OpenMode::kBeside, 3}));  // others may be changing it
  EXPECT_EQ(m.Leave(kIno, OpenMode::kThrough), std::nullopt);
  EXPECT_EQ(m.Leave(kIno, OpenMode::kThrough), std::nullopt);
  EXPECT_EQ(m.Leave(kIno, OpenMode::kBeside), std::nullopt);
  EXPECT_EQ(m.Leave(kIno, OpenMode::kBeside), 3);
  EXPECT_TRUE(m.MayBegin(kIno));
  EXPECT_EQ(m.inodes(), 0u);
}

TEST(OpenModes, WritersAreRefusedWhileItIsReadPastUsAndKeepItFromBeginning) {
  OpenModes m;
  m.Begin(kIno, 3, 10);
  EXPECT_EQ(m.Enter(kIno, false, 10).mode, OpenMode::kThrough);
  EXPECT_EQ(m.Enter(kIno, true, 10).mode, OpenMode::kBusy);
  EXPECT_EQ(m.Leave(kIno, OpenMode::kBusy), std::nullopt);  // was not counted
  EXPECT_EQ(m.Leave(kIno, OpenMode::kThrough), 3);
  EXPECT_EQ(m.Enter(kIno, true, 10).mode, OpenMode::kOrdinary);
  EXPECT_FALSE(m.MayBegin(kIno));
  EXPECT_EQ(m.Enter(kIno, false, 10).mode, OpenMode::kOrdinary);
  EXPECT_EQ(m.Leave(kIno, OpenMode::kOrdinary), std::nullopt);
  EXPECT_FALSE(m.MayBegin(kIno));
  EXPECT_EQ(m.Leave(kIno, OpenMode::kOrdinary), std::nullopt);
  EXPECT_TRUE(m.MayBegin(kIno));
}

// The kernel's checks (fs/fuse/iomode.c), for all orders in which files are opened and closed.
TEST(OpenModes, TheKernelsRulesHoldWhateverIsOpened) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    OpenModes m;
    std::vector<OpenedAs> open;
    uint64_t version = 1;
    int32_t next = 1;
    for (int step = 0; step < 200; ++step) {
      if (random.Below(8) == 0) ++version;
      if (random.Below(2) == 0 && !open.empty()) {
        const size_t i = random.Below(open.size());
        const OpenedAs gone = open[i];
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        const auto unused = m.Leave(kIno, gone.mode);
        EXPECT_EQ(unused.has_value(), open.empty() && gone.backing != 0);
        continue;
      }
      const bool writes = random.Below(3) == 0;
      if (!writes && m.MayBegin(kIno) && random.Below(2) == 0) {
        EXPECT_TRUE(open.empty());
        m.Begin(kIno, next++, version);
      }
      const OpenedAs as = m.Enter(kIno, writes, version);
      if (as.mode == OpenMode::kBusy) {
        EXPECT_TRUE(writes);
        continue;
      }
      for (const OpenedAs& other : open) EXPECT_EQ(other.backing, as.backing);  // all the same one, or all none
      EXPECT_EQ(as.backing != 0, as.mode != OpenMode::kOrdinary);
      if (as.backing != 0) EXPECT_FALSE(writes);
      open.push_back(as);
    }
  }
}

}  // namespace
}  // namespace stria
