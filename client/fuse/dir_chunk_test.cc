#include "client/fuse/dir_chunk.h"

#include <gtest/gtest.h>

#include <string>

namespace stria {
namespace {

ReadDirReply Listed(const std::vector<std::pair<std::string, uint64_t>>& names, bool end) {
  ReadDirReply reply;
  for (const auto& [name, cookie] : names) {
    DirEntry e;
    e.name = name;
    e.cookie = cookie;
    reply.entries.push_back(e);
  }
  reply.end = end;
  return reply;
}

std::string At(const DirChunk& chunk) { return chunk.Next() == nullptr ? "" : chunk.Next()->name; }

TEST(DirChunk, HoldsNothingBeforeTheFirst) {
  DirChunk chunk;
  for (const uint64_t offset : {0, 1, 2, 70}) EXPECT_FALSE(chunk.Seek(offset)) << offset;
  EXPECT_EQ(chunk.Next(), nullptr);
}

TEST(DirChunk, GoesToEachPositionThatItHolds) {
  DirChunk chunk;
  chunk.Take(0, Listed({{"a", 70}, {"b", 50}, {"c", 90}}, false));
  EXPECT_EQ(At(chunk), "a");
  chunk.PassDots(DirChunk::kAfterDotDot);
  chunk.Pass();
  EXPECT_EQ(chunk.offset(), 70u);
  EXPECT_EQ(At(chunk), "b");
  EXPECT_TRUE(chunk.Seek(90));
  EXPECT_EQ(At(chunk), "");
  EXPECT_TRUE(chunk.Seek(50));
  EXPECT_EQ(At(chunk), "c");
  for (const uint64_t offset : {1, 2}) {
    EXPECT_TRUE(chunk.Seek(offset));
    EXPECT_EQ(At(chunk), "a");
    EXPECT_EQ(chunk.offset(), offset) << "dots are still to come";
  }
  EXPECT_FALSE(chunk.Seek(60)) << "an entry that has gone, or is in another part";
  EXPECT_EQ(chunk.offset(), 2u);
}

TEST(DirChunk, APartFromTheMiddleDoesNotHoldTheBeginning) {
  DirChunk chunk;
  chunk.Take(90, Listed({{"d", 100}}, true));
  EXPECT_TRUE(chunk.Seek(90));
  EXPECT_EQ(At(chunk), "d");
  for (const uint64_t offset : {0, 1, 2, 70}) EXPECT_FALSE(chunk.Seek(offset)) << offset;
  EXPECT_TRUE(chunk.Seek(100));
  EXPECT_TRUE(chunk.end());
}

}  // namespace
}  // namespace stria
