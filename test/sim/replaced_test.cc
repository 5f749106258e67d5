// Files whose names others replace all the time (write new, rename over old): who opens one has the old or the new one, as on a
// local filesystem, and does not wait for longer than that takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "common/sanitized.h"
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

class Replaced : public SmallFiles {
 public:
  explicit Replaced(SimClusterOptions options = Options()) : SmallFiles(options) {}
};

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

struct Reading {
  const bool* stop;
  int reads = 0, stale = 0;
  std::string wrong;
};

// As a kernel opens: after ESTALE it looks up once more, whatever it knows.
Task<Result<Vfs::Opened>> OpenByName(Vfs* vfs, InodeId dir, Random* rng, Reading* r) {
  for (bool again = false;; again = true) {
    CO_ASSIGN_OR_RETURN(const EntryOut found, co_await vfs->Lookup(kRoot, dir, "f"));
    if (rng->OneIn(3)) co_await Sleep(static_cast<int64_t>(rng->Between(1, 3'000'000)));
    VfsHandle flags;
    flags.read = true;
    flags.noatime = rng->OneIn(2);
    auto opened = co_await vfs->Open(kRoot, found.attr.ino, false, flags);
    if (opened.code() != FsError::kStale) co_return opened;
    ++r->stale;
    if (again) co_return opened;
  }
}

Task<Result<void>> ReadOnce(Vfs* vfs, InodeId dir, Random* rng, Reading* r) {
  const auto opened = co_await OpenByName(vfs, dir, rng, r);
  if (opened.code() == FsError::kStale) co_return Ok();
  CO_RETURN_IF_ERROR(opened);
  for (int i = static_cast<int>(rng->Between(1, 3)); i > 0; --i) {
    if (rng->OneIn(2)) co_await Sleep(static_cast<int64_t>(rng->Between(1, 2'000'000)));
    CO_RETURN_IF_ERROR(co_await vfs->GetAttr(kRoot, opened->entry.attr.ino));
    const auto text = co_await vfs->Read(kRoot, opened->handle, 0, kMiB);
    if (SmallFiles::Text(text) != "text") r->wrong = "read of what is open: " + SmallFiles::Text(text);
  }
  ++r->reads;
  co_return co_await vfs->Release(kRoot, opened->handle);
}

Task<void> ReadOn(Vfs* vfs, InodeId dir, Random rng, Reading* r) {
  while (!*r->stop && r->wrong.empty()) {
    if (const auto done = co_await ReadOnce(vfs, dir, &rng, r); !done.ok()) r->wrong = done.error().ToString();
    co_await Sleep(static_cast<int64_t>(rng.Between(1, 300'000)));
  }
}

// What was opened stays, whatever becomes of its name. STRIA_REPLACED_SECONDS=600: of virtual time.
class ReplacedSlowly : public Replaced, public testing::WithParamInterface<int64_t> {
 public:
  ReplacedSlowly() : Replaced(WithKernel(GetParam())) {}
  static SimClusterOptions WithKernel(int64_t ns) {
    SimClusterOptions o = Options();
    o.kernel_ns = ns;
    return o;
  }
};

TEST_P(ReplacedSlowly, WhatIsOpenStays) {
  const char* wanted = std::getenv("STRIA_REPLACED_SECONDS");
  const InodeId dir = MakeDir(0, "d");
  Create(0, dir, "f", "text");
  Replacing replacing;
  Reading readings[4] = {{&replacing.stop}, {&replacing.stop}, {&replacing.stop}, {&replacing.stop}};
  cluster_.scope(0).Spawn(Replace(&vfs(0), dir, &replacing));
  for (size_t i = 0; i < 4; ++i) cluster_.scope(i / 2).Spawn(ReadOn(&vfs(i / 2), dir, Random(i + 1), &readings[i]));
  SimExecutor& ex = cluster_.executor();
  std::string unknown;
  const auto look = [&] {
    unknown = cluster_.UnknownLease();
    return !unknown.empty();
  };
  EXPECT_FALSE(ex.RunUntil(look, ex.NowNs() + (wanted ? std::atoi(wanted) : kSanitized ? 4 : 10) * kSecond)) << unknown;
  replacing.stop = true;
  ex.RunFor(10 * kSecond);
  EXPECT_EQ(replacing.error, FsError::kOk);
  EXPECT_GT(replacing.replaced, 100);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(readings[i].wrong, "") << i;
    EXPECT_GT(readings[i].reads, 100) << i;
    if (i >= 2) EXPECT_EQ(readings[i].stale, 0) << "of another client";
  }
  EXPECT_EQ(Do(vfs(0).StatFs(kRoot))->files, 3u);
}
INSTANTIATE_TEST_SUITE_P(Kernels, ReplacedSlowly, testing::Values(0, 3 * kMillisecond, 20 * kMillisecond));

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
