#include "meta/files/request_digest.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(RequestDigest, TellsRequestsApart) {
  NameRequest name;
  name.parent = InodeId(3);
  name.name = "a";
  NameRequest other = name;
  EXPECT_EQ(RequestDigest(name), RequestDigest(other));
  other.name = "b";
  EXPECT_NE(RequestDigest(name), RequestDigest(other));
  SetAttrRequest mode, uid;
  mode.mode = 5;
  uid.uid = 5;
  EXPECT_NE(RequestDigest(mode), RequestDigest(uid));
  CommitRequest commit;
  commit.ino = InodeId(3);
  commit.extents = {{.file_offset = 0, .length = 1, .inline_bytes = "x"}};
  CommitRequest changed = commit;
  changed.extents[0].inline_bytes = "y";
  EXPECT_NE(RequestDigest(commit), RequestDigest(changed));
  RenameRequest rename, swapped;
  rename.name = swapped.new_name = "ab";
  rename.new_name = swapped.name = "";
  EXPECT_NE(RequestDigest(rename), RequestDigest(swapped));
}

// What a client changes when it asks again: in another term, as a replay, or after it has lapsed.
TEST(RequestDigest, IsTheSameOverAllTries) {
  MakeNodeRequest make;
  make.name = "f";
  make.ahead = true;
  make.numbers = 7;
  MakeNodeRequest replay = make;
  replay.ahead = false;
  replay.numbers = 0;
  replay.former = InodeId(9);
  replay.header.opened = "proof";
  replay.header.term = 4;
  EXPECT_EQ(RequestDigest(make), RequestDigest(replay));
  NameRequest unlink;
  unlink.release = InodeId(4);
  EXPECT_EQ(RequestDigest(unlink), RequestDigest(NameRequest()));
  CommitRequest commit;
  commit.known_version = 3;
  commit.only_known = true;
  EXPECT_EQ(RequestDigest(commit), RequestDigest(CommitRequest()));
}

}  // namespace
}  // namespace stria
