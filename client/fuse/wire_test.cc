#include "client/fuse/wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstring>

namespace stria {
namespace {

TEST(FuseWire, AttrAndTimesBefore1970) {
  EntryOut e;
  e.attr.ino = InodeId(77);
  e.attr.mode = 04755;
  e.attr.size = 5000;
  e.attr.allocated_bytes = 513;
  e.attr.mtime_ns = -1;
  e.attr.rdev = makedev(259, 300);
  e.attr_valid_ns = 2 * kSecond + 5;
  const fuse_attr_out out = MakeAttrOut(e);
  EXPECT_EQ(out.attr.mode, S_IFREG | 04755u);
  EXPECT_EQ(out.attr.blocks, 2u);
  EXPECT_EQ(static_cast<int64_t>(out.attr.mtime), -1);
  EXPECT_EQ(out.attr.mtimensec, 999'999'999u);
  EXPECT_EQ(out.attr_valid, 2u);
  EXPECT_EQ(out.attr_valid_nsec, 5u);
  EXPECT_EQ(out.attr.rdev, (300u & 0xff) | (259u << 8) | ((300u & ~0xffu) << 12));
}

TEST(FuseWire, NamesAreAskedForAgainAndAMountedDirectoryIsNumberOne) {
  EntryOut e;
  e.attr.ino = InodeId(77);
  e.attr.type = FileType::kDirectory;
  e.attr_valid_ns = 3 * kSecond / 2;
  EXPECT_EQ(MakeEntryOut(e, RootMap()).nodeid, 77u);
  EXPECT_EQ(MakeEntryOut(e, RootMap{InodeId(77)}).nodeid, 1u);
  EXPECT_EQ(MakeEntryOut(e, RootMap()).entry_valid, 0u);
  EXPECT_EQ(MakeEntryOut(e, RootMap()).entry_valid_nsec, 0u);
  EXPECT_EQ(MakeEntryOut(e, RootMap()).attr_valid, 1u);
  EXPECT_EQ(MakeEntryOut(e, RootMap()).attr_valid_nsec, 500'000'000u);
  EXPECT_EQ(MakeEntryOut(e, RootMap(), 20 * kMillisecond).entry_valid_nsec, 20'000'000u);
  e.attr_valid_ns = -5;
  EXPECT_EQ(MakeEntryOut(e, RootMap()).attr_valid, 0u);
  EXPECT_EQ(RootMap{InodeId(77)}.FromNode(1), InodeId(77));
  EXPECT_EQ(RootMap{InodeId(77)}.FromNode(5), InodeId(5));
}

TEST(FuseWire, SpaceAndFiles) {
  struct statvfs v = MakeStatVfs({uint64_t{100} << 20, uint64_t{40} << 20, 7});
  EXPECT_EQ(v.f_blocks * v.f_frsize, uint64_t{100} << 20);
  EXPECT_EQ(v.f_bavail * v.f_frsize, uint64_t{40} << 20);
  EXPECT_EQ(v.f_files - v.f_ffree, 7u);
  EXPECT_EQ(v.f_ffree, v.f_bfree);
  v = MakeStatVfs({uint64_t{100} << 20, uint64_t{40} << 20, 0});
  EXPECT_EQ(v.f_blocks * v.f_frsize, uint64_t{100} << 20);
  EXPECT_EQ(v.f_files, 0u) << "not told";
  EXPECT_EQ(v.f_ffree, 0u);
  EXPECT_EQ(v.f_favail, 0u);
  EXPECT_GT(v.f_namemax, 0u);
}

TEST(FuseWire, TypesRoundTrip) {
  for (int t = 1; t <= 7; ++t) EXPECT_EQ(TypeOf(TypeBits(static_cast<FileType>(t))), static_cast<FileType>(t));
  EXPECT_EQ(TypeOf(0644), FileType::kFile);
}

TEST(FuseWire, HandlesOfOpenFlags) {
  EXPECT_TRUE(HandleFor(O_RDONLY).read);
  EXPECT_FALSE(HandleFor(O_RDONLY).write);
  EXPECT_FALSE(HandleFor(O_WRONLY).read);
  EXPECT_TRUE(HandleFor(O_RDWR).read && HandleFor(O_RDWR).write);
  EXPECT_TRUE(HandleFor(O_WRONLY | O_APPEND).append);
  EXPECT_TRUE(HandleFor(O_WRONLY | O_SYNC).sync);
  EXPECT_TRUE(HandleFor(O_WRONLY | O_DSYNC).sync);
}

TEST(FuseWire, CacheModeOfOpenFiles) {
  const FuseFeatures none, all{true, true, true};
  VfsHandle h;
  h.read = true;
  EXPECT_EQ(OpenReplyFlags(h, OpenMode::kOrdinary, all), uint32_t{FOPEN_DIRECT_IO});  // shared for writing
  h.page_cache = true;
  EXPECT_EQ(OpenReplyFlags(h, OpenMode::kOrdinary, all), uint32_t{0});
  h.keep_cache = true;
  EXPECT_EQ(OpenReplyFlags(h, OpenMode::kOrdinary, all), uint32_t{FOPEN_KEEP_CACHE});
  EXPECT_EQ(OpenReplyFlags(h, OpenMode::kThrough, all), kOpenPassthrough);
  EXPECT_EQ(OpenReplyFlags(h, OpenMode::kBeside, all), kOpenPassthrough | FOPEN_DIRECT_IO);
  VfsHandle rw;
  rw.read = rw.write = true;
  EXPECT_EQ(OpenReplyFlags(rw, OpenMode::kOrdinary, none), 0u);
  EXPECT_EQ(OpenReplyFlags(rw, OpenMode::kOrdinary, all), uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
  VfsHandle w;
  w.write = true;
  EXPECT_EQ(OpenReplyFlags(w, OpenMode::kOrdinary, none), uint32_t{FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES});
}

TEST(FuseWire, InitReplyIsExtendedByWhatTheKernelOffers) {
  fuse_init_in in = {};
  fuse_init_out out = {};
  out.flags = FUSE_HANDLE_KILLPRIV;
  FuseFeatures f = ExtendInitReply(in, false, &out, sizeof(out));
  EXPECT_FALSE(f.direct_io_mmap || f.kill_priv);
  EXPECT_EQ(out.flags, uint32_t{FUSE_HANDLE_KILLPRIV});
  in.flags = FUSE_INIT_EXT | FUSE_HANDLE_KILLPRIV_V2;
  in.flags2 = 1u << 4;
  f = ExtendInitReply(in, false, &out, sizeof(out));
  EXPECT_TRUE(f.direct_io_mmap && f.kill_priv);
  EXPECT_EQ(out.flags, uint32_t{FUSE_INIT_EXT | FUSE_HANDLE_KILLPRIV_V2});
  EXPECT_EQ(out.flags2, 1u << 4);
  EXPECT_FALSE(ExtendInitReply(in, false, &out, FUSE_COMPAT_22_INIT_OUT_SIZE).direct_io_mmap);
  EXPECT_FALSE(ExtendInitReply(in, true, &out, sizeof(out)).passthrough);  // not offered
  in.flags2 |= 1u << 5;
  EXPECT_FALSE(ExtendInitReply(in, false, &out, sizeof(out)).passthrough);  // not asked for
  EXPECT_TRUE(ExtendInitReply(in, true, &out, sizeof(out)).passthrough);
  EXPECT_EQ(out.flags2, (1u << 4) | (1u << 5));
  uint32_t depth = 0;
  std::memcpy(&depth, reinterpret_cast<const char*>(&out) + 36, sizeof(depth));  // max_stack_depth of Linux 6.9
  EXPECT_EQ(depth, 1u);
}

}  // namespace
}  // namespace stria
