#include "trust/exports.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "trust/inode_handle.h"

namespace stria {
namespace {

Peer Client(const std::string& name, const std::string& address = "10.3.0.7:5") {
  Peer p;
  p.name = name;
  p.address = address;
  return p;
}

TEST(Exports, TextThereAndBack) {
  const std::string line = "path=/atlas clients=wn*.example,10.3.0.0/16 access=ro squash=root uids=1000-59999";
  const Export e = ParseExport(line).value();
  EXPECT_EQ(e.path, "/atlas");
  EXPECT_TRUE(e.read_only);
  EXPECT_EQ(e.clients.size(), 2u);
  EXPECT_EQ(e.clients[0].glob, "wn*.example");
  EXPECT_EQ(e.uids, (IdRanges{{1000, 59999}}));
  EXPECT_EQ(FormatExport(e), line);
  for (const char* text : {"path=/ clients=* access=rw squash=root", "path=/a/b\\040c clients=fd00::/8,a?c access=rw squash=all uids=5,7-9 gids=100",
                           "path=/a clients=10.0.0.1 access=rw squash=none"}) {
    EXPECT_EQ(FormatExport(ParseExport(text).value()), text);
  }
  EXPECT_EQ(ParseExport("path=/").value(), Export()) << "what a new cluster has";
  EXPECT_EQ(ParseExport("  path=/\t squash=all ").value().squash, Export::Squash::kAll);
}

TEST(Exports, AnyPathThereAndBack) {
  Random rng(1);
  for (int i = 0; i < 2000; ++i) {
    Export e;
    e.path = "/";
    for (uint64_t n = rng.Between(1, 20); n > 0; --n) e.path += static_cast<char>(rng.Between(1, 255));
    if (!IsExportPath(e.path)) continue;
    EXPECT_EQ(ParseExport(FormatExport(e)).value(), e);
  }
}

TEST(Exports, MistakesAreSaid) {
  for (const char* bad : {"", "clients=*", "path=", "path=atlas", "path=/a/", "path=/a/../b", "path=/./a", "path=//a", "path=/a\\04", "path=/a\\000", "path=/a\\400", "path=/a path=/b",
                          "path=/a access=", "path=/a access=wr", "path=/a squash=no", "path=/a uids=", "path=/a uids=5-4", "path=/a uids=1-5,5-9", "path=/a uids=-5",
                          "path=/a uids=4294967295", "path=/a uids=99999999999", "path=/a uids=1,,2", "path=/a clients=", "path=/a clients=a,,b", "path=/a clients=10.3.1.0/16",
                          "path=/a clients=10.3.0", "path=/a clients=10.3.0.256", "path=/a clients=a/b", "path=/a clients=a b", "path=/a rw", "path=/a sqash=root", "/a *(ro)"}) {
    const Result<Export> e = ParseExport(bad);
    EXPECT_EQ(e.code(), FsError::kInval) << bad;
    EXPECT_EQ(e.error().message.find("the export is not understood: "), 0u);
  }
  EXPECT_EQ(ParseExport("path=/a sqash=root").error().message, "the export is not understood: 'sqash=root' is none of path=, clients=, access=, squash=, uids=, gids=");
}

TEST(Exports, Globs) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("wn*.example", "wn7.example"));
  EXPECT_TRUE(GlobMatches("wn*.example", "wn7.example.example"));
  EXPECT_FALSE(GlobMatches("wn*.example", "wn7.example.org"));
  EXPECT_FALSE(GlobMatches("wn*", "own7"));
  EXPECT_TRUE(GlobMatches("w?7", "wn7"));
  EXPECT_FALSE(GlobMatches("w?7", "w7"));
  EXPECT_FALSE(GlobMatches("WN7", "wn7"));
  EXPECT_TRUE(GlobMatches("a*b*c", "aXbYbZc"));
  // No time that grows beyond the product.
  EXPECT_FALSE(GlobMatches(std::string(120, '*') + "b", std::string(120, 'a')));
}

TEST(Exports, TheNearestIsTaken) {
  std::vector<Export> all;
  for (const char* line : {"path=/ clients=admin*", "path=/atlas clients=wn*", "path=/atlas/raw clients=wn1 access=ro", "path=/atlas clients=10.3.0.0/16 access=ro"}) {
    all.push_back(ParseExport(line).value());
  }
  const auto find = [&](const char* path, const Peer& peer) {
    const Export* e = FindExport(all, path, peer);
    return e ? FormatExport(*e).substr(0, 40) : "";
  };
  EXPECT_EQ(FindExport(all, "/atlas", Client("wn1")), &all[1]);
  EXPECT_EQ(FindExport(all, "/atlas/raw", Client("wn1")), &all[2]);
  EXPECT_EQ(FindExport(all, "/atlas/raw/x", Client("wn1")), &all[2]);
  EXPECT_EQ(FindExport(all, "/atlas/rawer", Client("wn1")), &all[1]);
  EXPECT_EQ(FindExport(all, "/atlas/raw", Client("wn2")), &all[1]);
  EXPECT_EQ(FindExport(all, "/atlas", Client("pc")), &all[3]) << "by its address";
  EXPECT_EQ(find("/atlas", Client("pc", "10.4.0.1:5")), "");
  EXPECT_EQ(find("/", Client("wn1")), "");
  EXPECT_EQ(find("/atlasx", Client("wn1")), "");
  EXPECT_EQ(FindExport(all, "/x", Client("admin1")), &all[0]);
}

TEST(Exports, Squashing) {
  const CallerIds root{0, 0, {0, 4}}, user{1000, 100, {100, 0, 6, 2000}};
  const Export plain = ParseExport("path=/").value();
  EXPECT_EQ(SquashCaller(plain, root, false), CallerIds());
  EXPECT_EQ(SquashCaller(plain, root, true), root);
  EXPECT_EQ(SquashCaller(plain, user, false), (CallerIds{1000, 100, {100, 6, 2000}})) << "root's group is root's";
  EXPECT_EQ(SquashCaller(plain, {1000, 0, {}}, false), (CallerIds{1000, kNobody, {}}));
  EXPECT_EQ(SquashCaller(ParseExport("path=/ squash=none").value(), root, false), root);
  EXPECT_EQ(SquashCaller(ParseExport("path=/ squash=all").value(), root, true), CallerIds());
  EXPECT_EQ(SquashCaller(ParseExport("path=/ squash=all").value(), user, false), CallerIds());
  const Export ranged = ParseExport("path=/ uids=1000-1999 gids=100,2000-2999").value();
  EXPECT_EQ(SquashCaller(ranged, user, false), (CallerIds{1000, 100, {100, 2000}}));
  EXPECT_EQ(SquashCaller(ranged, {999, 100, {100}}, false), CallerIds());
  EXPECT_EQ(SquashCaller(ranged, {2000, 100, {100}}, false), CallerIds());
  EXPECT_EQ(SquashCaller(ranged, {1999, 50, {50}}, false), (CallerIds{1999, kNobody, {}}));
  EXPECT_EQ(SquashCaller(ranged, root, false), CallerIds());
}

TEST(InodeHandle, SipHashIsTheOneOfItsAuthors) {
  // Their first vectors: key 00 01 .. 0f, messages of 0, 1, .. bytes 00 01 ..
  SipKey key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  const uint64_t want[] = {0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a};
  const uint8_t bytes[15] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  for (size_t n = 0; n < 3; ++n) EXPECT_EQ(SipHash24(key, {bytes, n}), want[n]);
  EXPECT_EQ(SipHash24(key, bytes), 0xa129ca6149be45e5) << "the example of the paper";
}

TEST(InodeHandle, OnlyWhatWasShown) {
  const SipKey key{1, 2}, other{1, 3};
  const InodeHandle h = SealInode(key, InodeId(77));
  EXPECT_TRUE(IsSealed(key, h));
  EXPECT_FALSE(IsSealed(other, h));
  EXPECT_FALSE(IsSealed(key, {InodeId(78), h.mac}));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(IsSealed(key, {h.ino, h.mac ^ uint64_t{1} << bit}));
  EXPECT_EQ(ParentWithin(InodeId(5), InodeId(5), InodeId(1)), InodeId(5));
  EXPECT_EQ(ParentWithin(InodeId(5), InodeId(6), InodeId(5)), InodeId(5));
}

}  // namespace
}  // namespace stria
