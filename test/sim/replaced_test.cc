// Files whose names others replace all the time (write new, rename over old): who opens one has the old or the new one, as on a
// local filesystem, and does not wait for longer than that takes.
#include <gtest/gtest.h>

#include <algorithm>

#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

const Caller kRoot;

struct Replacing {
  bool stop = false;
  int replaced = 0;
  FsError error = FsError::kOk;
};

Task<Result<void>> ReplaceOnce(Vfs* vfs, InodeId dir) {
  VfsHandle flags;
  flags.write = true;
  (void)co_await vfs->Lookup(kRoot, dir, "new");
  CO_ASSIGN_OR_RETURN(const Vfs::Opened made, co_await vfs->Create(kRoot, dir, "new", 0644, false, true, flags));
  CO_RETURN_IF_ERROR(co_await vfs->Write(kRoot, made.handle, 0, Buffer::FromString("text")));
  CO_RETURN_IF_ERROR(co_await vfs->Flush(kRoot, made.handle));
  CO_RETURN_IF_ERROR(co_await vfs->Release(kRoot, made.handle));
  (void)co_await vfs->Lookup(kRoot, dir, "f");
  CO_RETURN_IF_ERROR(co_await vfs->Rename(kRoot, dir, "new", dir, "f", false, false));
  co_return Ok();
}

Task<void> Replace(Vfs* vfs, InodeId dir, Replacing* r) {
  while (!r->stop) {
    if (const auto done = co_await ReplaceOnce(vfs, dir); !done.ok()) r->error = done.code();
    ++r->replaced;
  }
}

class Replaced : public SmallFiles {};

TEST_F(Replaced, OpensFindWhatWasLookedUp) {
  const InodeId dir = MakeDir(0, "d");
  Create(0, dir, "f", "text");
  Replacing replacing;
  cluster_.scope(0).Spawn(Replace(&vfs(0), dir, &replacing));
  SimExecutor& ex = cluster_.executor();
  ex.RunFor(kSecond);
  EXPECT_GT(replacing.replaced, 100);
  int64_t slowest_ns = 0;
  for (int i = 0; i < 200; ++i) {
    if (i % 10 == 0) ex.RunFor(100 * kMillisecond);
    const int64_t begun_ns = ex.NowNs();
    const auto found = Do(vfs(1).Lookup(kRoot, dir, "f"));
    ASSERT_TRUE(found.ok()) << found.error();
    EXPECT_EQ(Read(1, found->attr.ino), "text");
    slowest_ns = std::max(slowest_ns, ex.NowNs() - begun_ns);
  }
  EXPECT_LT(slowest_ns, 100 * kMillisecond) << "readers do not starve";
  replacing.stop = true;
  ex.RunFor(5 * kSecond);
  EXPECT_EQ(replacing.error, FsError::kOk);
  const auto left = Do(vfs(0).StatFs(kRoot));
  EXPECT_EQ(left->files, 3u) << "two directories and a file: all that was replaced is freed";
}

// By a client that has the directory to itself: what is replaced is given back with the rename.
TEST_F(Replaced, CostsTwoCalls) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"f", "b"}) Create(0, dir, name, "text");
  for (int i = 0; i < 3; ++i) {
    Calls();
    Create(0, dir, "new", "text");
    ASSERT_TRUE(Rename(0, dir, "new", "f").ok());
    cluster_.executor().RunFor(kSecond);
    EXPECT_EQ(Calls(), "Commit 1, Rename 1") << i;
  }
}

// What is open is not.
TEST_F(Replaced, StaysForWhoHasItOpen) {
  const InodeId dir = MakeDir(0, "d");
  const InodeId ino = Create(0, dir, "f", "text");
  VfsHandle flags;
  flags.read = true;
  for (const size_t c : {0, 1}) {
    const InodeId old = Do(vfs(c).Lookup(kRoot, dir, "f"))->attr.ino;
    const auto opened = Do(vfs(c).Open(kRoot, old, false, flags));
    ASSERT_TRUE(opened.ok()) << opened.error();
    Create(0, dir, "new", "next");
    ASSERT_TRUE(Rename(0, dir, "new", "f").ok());
    cluster_.executor().RunFor(5 * kSecond);
    EXPECT_EQ(Text(Do(vfs(c).Read(kRoot, opened->handle, 0, kMiB))), old == ino ? "text" : "next");
    EXPECT_EQ(Do(vfs(c).GetAttr(kRoot, old))->attr.nlink, 0u);
    ASSERT_TRUE(Do(vfs(c).Release(kRoot, opened->handle)).ok());
    cluster_.executor().RunFor(5 * kSecond);
    EXPECT_EQ(Do(vfs(1 - c).GetAttr(kRoot, old)).code(), FsError::kStale);
  }
}

}  // namespace
}  // namespace stria
