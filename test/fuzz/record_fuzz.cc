#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/superblock.h"
#include "meta/model/families.h"
#include "meta/model/records.h"
#include "meta/session/session_table.h"
#include "test/fuzz/mutate.h"
#include "trust/exports.h"

namespace stria {
namespace {

std::string Sample(int record, const std::string& key, const std::string& value) {
  return std::string{static_cast<char>(record), static_cast<char>(key.size())} + key + value;
}

InodeRecord File() {
  InodeRecord r;
  r.attr = {InodeId(7), FileType::kFile, 0644, 1, 10, 20, 0, 5000, 4096, 1, 2, 3, 9, 8};
  r.inline_bytes = 4, r.extent_count = 5, r.xattr_count = 1, r.xattr_bytes = 6;
  r.masks = {{100, 200}, {300, 400}};
  return r;
}
InodeRecord Symlink() {
  InodeRecord r;
  r.attr.ino = InodeId(8), r.attr.type = FileType::kSymlink, r.attr.nlink = 1;
  r.symlink_target = "../elsewhere";
  return r;
}
StripeRecord Stripe() {
  StripeRecord r;
  r.info.id = StripeId(9);
  r.info.shape = {.k = 1, .m = 1, .codec = Codec::kCopy, .unit_bytes = 4096, .payload_bytes = 10};
  r.info.columns = {{ShardId(1), TargetId(2), 10, 3}, {ShardId(4), TargetId(5), 10, 3}};
  r.state = StripeState::kLive;
  r.ino = InodeId(7);
  return r;
}
ExtentRecord Inline() {
  ExtentRecord r;
  r.extent.length = 4, r.extent.inline_bytes = "abcd";
  return r;
}
ExtentRecord Striped() {
  ExtentRecord r;
  r.extent.length = 4096, r.extent.stripe = StripeId(9), r.extent.stripe_offset = 8192;
  return r;
}

// In the order of the target's records.
std::vector<std::string> Samples() {
  GarbageRecord garbage;
  garbage.stripe = StripeId(1), garbage.seq = CommitSeq(2), garbage.allocated = CommitSeq(3);
  XattrRecord xattr;
  xattr.value = "value";
  RefBytesRecord bytes;
  bytes.bytes = 5;
  TargetStripeRecord target;
  target.stripe = StripeId(3), target.column = 2;
  ReplyRecord reply;
  reply.kind = 3, reply.code = FsError::kNoEnt, reply.message = "it is not there", reply.bytes = "bytes", reply.seq = CommitSeq(4);
  SuperRecord super;
  super.cluster = Uuid{1, 2}, super.store = Uuid{3, 4};
  StateRecord state;
  state.id_limits.fill(5);
  SessionRecord session;
  session.id = SessionId(1), session.epoch = Epoch(2), session.client = "mount /data", session.lapsed = true;
  SessionRecord owned = session;
  owned.owner.name = "wn7.example", owned.owner.key.fill(7);
  owned.grant.by = ParseExport("path=/a clients=wn*.example,10.3.0.0/16 access=ro squash=root uids=1000-59999").value();
  owned.grant.path = "/a/b", owned.grant.address = "10.3.0.7:40000", owned.grant.root = InodeId(77);
  Superblock block;
  block.cluster = Uuid{1, 2}, block.label = "d1";
  DentryRecord dentry;
  dentry.ino = InodeId(7);
  return {
      Sample(0, InodeKey(InodeId(7)), File().Encode()),
      Sample(0, InodeKey(InodeId(8)), Symlink().Encode()),
      Sample(1, DentryKey(InodeId(1), "name"), dentry.Encode()),
      Sample(2, ExtentKey(InodeId(7), 0), Inline().Encode()),
      Sample(2, ExtentKey(InodeId(7), 1 << 20), Striped().Encode()),
      Sample(3, StripeKey(StripeId(9)), Stripe().Encode()),
      Sample(4, StripeKey(StripeId(9)), bytes.Encode()),
      Sample(5, TargetShardKey(TargetId(1), ShardId(2)), target.Encode()),
      Sample(6, TargetShardKey(TargetId(1), ShardId(2)), garbage.Encode()),
      Sample(7, XattrKey(InodeId(7), "user.x"), xattr.Encode()),
      Sample(8, ParentKey(InodeId(7), InodeId(1), "name"), ParentRecord().Encode()),
      Sample(9, ReplyKey(SessionId(1), OpSeq(2)), reply.Encode()),
      Sample(10, SuperKey(), super.Encode()),
      Sample(11, StateKey(), state.Encode()),
      Sample(12, SessionKey(SessionId(1)), EncodeSessionRecord(session)),
      Sample(12, SessionKey(SessionId(1)), EncodeSessionRecord(owned)),
      Sample(13, "", EncodeSuperblock(block)),
      Sample(14, DentryKey(InodeId(1), "name"), ""),
  };
}

TEST(RecordFuzz, BoundedRun) { FuzzBounded(20'261'127, 40'000, 2, Samples()); }

}  // namespace
}  // namespace stria
