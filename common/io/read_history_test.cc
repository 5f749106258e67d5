#include "common/io/read_history.h"

#include <gtest/gtest.h>

#include <set>

#include "common/random.h"

namespace stria {
namespace {

constexpr uint64_t kPiece = kHistoryPieceBytes;

TEST(ReadHistory, TheSecondTime) {
  ReadHistory h(10);
  EXPECT_FALSE(h.Note(1, 0, 4 * kPiece));
  EXPECT_FALSE(h.Note(1, 4 * kPiece, 4 * kPiece)) << "further on";
  EXPECT_TRUE(h.Note(1, 0, 4 * kPiece));
  EXPECT_TRUE(h.Note(1, 5 * kPiece, kPiece));
  EXPECT_FALSE(h.Note(2, 0, 4 * kPiece)) << "of another file";
  EXPECT_FALSE(h.Note(1, 6 * kPiece, 4 * kPiece)) << "half of it is new";
  EXPECT_TRUE(h.Note(1, 6 * kPiece, 5 * kPiece)) << "one of five is new";
  EXPECT_FALSE(h.Note(1, 0, 0));
}

// Reads of any length and place: each piece is new for one of them, except the one that two of them share.
TEST(ReadHistory, AScanIsNew) {
  for (const uint64_t step : {kPiece, kPiece + 64 * kKiB, 3 * kPiece, kMiB}) {
    for (const uint64_t from : {uint64_t{0}, uint64_t{64 * kKiB}}) {
      ReadHistory h(10);
      for (uint64_t at = from; at < 64 * kMiB; at += step) EXPECT_FALSE(h.Note(1, at, step)) << at << " " << step;
    }
  }
}

TEST(ReadHistory, ForgetsTheOldest) {
  ReadHistory h(3);
  for (uint64_t f = 1; f <= 3; ++f) EXPECT_FALSE(h.Note(f, 0, kMiB));
  EXPECT_TRUE(h.Note(1, 0, kMiB));
  EXPECT_FALSE(h.Note(4, 0, kMiB));
  EXPECT_EQ(h.files(), 3u);
  EXPECT_TRUE(h.Note(1, 0, kMiB));
  EXPECT_FALSE(h.Note(2, 0, kMiB)) << "it had to go";
  h.Forget(1);
  h.Forget(99);
  EXPECT_FALSE(h.Note(1, 0, kMiB));
}

TEST(ReadHistory, IsBounded) {
  ReadHistory h(3);
  const uint64_t end = kMaxHistoryPieces * kPiece;
  EXPECT_FALSE(h.Note(1, end - kPiece, kPiece));
  EXPECT_TRUE(h.Note(1, end, kMiB)) << "not known: as if it had been";
  EXPECT_TRUE(h.Note(1, UINT64_MAX - kMiB, kMiB));
}

}  // namespace
}  // namespace stria
