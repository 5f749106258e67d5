// What sequential readers fetch of files that were written in one go, and of files that were written here and there.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/vfs/inode.h"
#include "common/random.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr int64_t kLimitNs = 1000 * kSecond;
constexpr uint64_t kSize = 16 * kMiB;
const Caller kRoot;

class Scattered : public testing::Test {
 protected:
  Scattered() : cluster_(7, Options()) {
    const Result<void> booted = cluster_.Boot();
    EXPECT_TRUE(booted.ok()) << booted.error();
  }
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    o.clients = 3;
    return o;
  }
  template <class T>
  T Do(Task<T> task) {
    return cluster_.Do(std::move(task), kLimitNs);
  }
  // Pieces of the file, in any order; flushed after so many.
  InodeId Write(const std::vector<uint64_t>& offsets, uint64_t piece, size_t flush_each) {
    VfsHandle flags;
    flags.read = flags.write = true;
    auto made = Do(cluster_.vfs(0).Create(kRoot, kRootInode, "f", 0644, false, false, flags));
    EXPECT_TRUE(made.ok()) << made.error();
    size_t n = 0;
    for (const uint64_t offset : offsets) {
      std::string text(piece, static_cast<char>('a' + rng_.Below(26)));
      content_.replace(offset, piece, text);
      EXPECT_TRUE(Do(cluster_.vfs(0).Write(kRoot, made->handle, offset, Buffer::FromString(std::move(text)))).ok());
      if (++n % flush_each == 0) EXPECT_TRUE(Do(cluster_.vfs(0).Fsync(kRoot, made->handle)).ok());
    }
    EXPECT_TRUE(Do(cluster_.vfs(0).Flush(kRoot, made->handle)).ok());
    EXPECT_TRUE(Do(cluster_.vfs(0).Release(kRoot, made->handle)).ok());
    return made->entry.attr.ino;
  }
  // Bytes fetched by a reader that asks for `length`, each `step`.
  uint64_t ReadAll(size_t client, InodeId ino, uint64_t step) { return ReadEach(client, ino, step, step); }
  uint64_t ReadEach(size_t client, InodeId ino, uint64_t step, uint64_t length) {
    Vfs& vfs = cluster_.vfs(client);
    VfsHandle flags;
    flags.read = true;
    auto opened = Do(vfs.Open(kRoot, ino, false, flags));
    EXPECT_TRUE(opened.ok()) << opened.error();
    const uint64_t before = vfs.report().counters().fetched_bytes;
    for (uint64_t at = 0; at < kSize; at += step) {
      const auto got = Do(vfs.Read(kRoot, opened->handle, at, length));
      EXPECT_TRUE(got.ok()) << got.error();
      if (!got.ok()) break;
      EXPECT_TRUE(got->Flatten().view() == std::string_view(content_).substr(at, length)) << "at " << at;
    }
    EXPECT_TRUE(Do(vfs.Release(kRoot, opened->handle)).ok());
    return vfs.report().counters().fetched_bytes - before;
  }
  static std::vector<uint64_t> InOrder(uint64_t piece) {
    std::vector<uint64_t> out;
    for (uint64_t at = 0; at < kSize; at += piece) out.push_back(at);
    return out;
  }

  SimCluster cluster_;
  Random rng_{3};
  std::string content_ = std::string(kSize, '\0');
};

TEST_F(Scattered, WhatWasWrittenInOneGoIsFetchedOnce) {
  const InodeId ino = Write(InOrder(kMiB), kMiB, SIZE_MAX);
  EXPECT_EQ(ReadAll(1, ino, kMiB), kSize);
  EXPECT_EQ(ReadAll(2, ino, 128 * kKiB), kSize);  // small requests share what was fetched ahead of them
}

TEST_F(Scattered, OfShortPiecesIsFetchedWhatIsRead) {
  (void)Write(InOrder(kMiB), kMiB, SIZE_MAX);
  constexpr uint64_t kPiece = 64 * kKiB;
  std::vector<uint64_t> offsets = InOrder(kPiece);
  for (size_t i = offsets.size(); i > 1; --i) std::swap(offsets[i - 1], offsets[rng_.Below(i)]);
  const InodeId ino = Write(offsets, kPiece, 32);  // stripes of 32 pieces from anywhere
  EXPECT_LE(ReadAll(1, ino, kMiB), kSize + kSize / 4);
  EXPECT_LE(ReadAll(2, ino, 128 * kKiB), kSize + kSize / 4);
}

// As one column of many is read.
TEST_F(Scattered, OfAStreamThatLeavesOutMostIsFetchedWhatIsRead) {
  const InodeId ino = Write(InOrder(kMiB), kMiB, SIZE_MAX);
  const uint64_t at_first = 5 * kMiB;  // until it is clear what it is
  EXPECT_LE(ReadEach(1, ino, 512 * kKiB, 32 * kKiB), kSize / 16 + at_first);
  EXPECT_LE(ReadEach(2, ino, 128 * kKiB, 32 * kKiB), kSize) << "what is passed would cost more if it was asked for alone";
}

}  // namespace
}  // namespace stria
