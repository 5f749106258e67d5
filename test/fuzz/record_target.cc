// Input: one byte that names the record, one that says how long its key is, the key, the value. What decodes is encoded again and
// decodes to the same; what does not says which record it is.
#include <cstdint>
#include <string>
#include <string_view>

#include "common/superblock.h"
#include "meta/model/families.h"
#include "meta/model/records.h"
#include "meta/session/session_table.h"
#include "stripe/layout.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

using Text = const std::string&;

// What the rest of the server takes for granted of a record.
template <class R>
void Promised(const R&) {}
void Promised(const InodeRecord& r) {
  Must(r.attr.ino && r.attr.mode <= 07777 && r.attr.size <= kMaxFileBytes && r.masks.size() <= kMaxMasks);
  Must(r.is_dir() == static_cast<bool>(r.parent));
  for (size_t i = 0; i < r.masks.size(); ++i) Must(r.masks[i].begin < r.masks[i].end && (i == 0 || r.masks[i - 1].end <= r.masks[i].begin));
}
void Promised(const ExtentRecord& r) {
  const Extent& e = r.extent;
  Must(e.length > 0 && e.end() > e.file_offset && e.end() <= kMaxFileBytes);
  Must(e.is_inline() ? e.inline_bytes.size() == e.length : e.stripe_offset + e.length <= kMaxStripeBytes);
}
void Promised(const StripeRecord& r) {
  Must(r.info.id && r.info.columns.size() == r.info.shape.columns() && r.info.columns.size() <= kMaxColumns);
  if (r.state == StripeState::kLive) Must(ValidateStripe(r.info).ok());
}
void Promised(const XattrRecord& r) { Must(r.value.size() <= kMaxXattrValueBytes); }
void Promised(const RefBytesRecord& r) { Must(r.bytes > 0); }
void Promised(const TargetStripeRecord& r) { Must(r.stripe && r.column < kMaxColumns); }
void Promised(const ReplyRecord& r) { Must(IsKnownFsError(static_cast<uint16_t>(r.code))); }

template <class R>
void As(Text key, Text value) {
  const Result<R> r = R::Decode(key, value);
  if (!r.ok()) {
    Must(r.code() == FsError::kCorrupt && r.error().message.find(FamilyName(R::kFamily)) != std::string::npos);
    return;
  }
  ++fuzz_taken;
  Promised(*r);
  const std::string encoded = r->Encode();
  const Result<R> again = R::Decode(key, encoded);
  Must(again.ok() && *again == *r && again->Encode() == encoded);
}

void AsSession(Text, Text value) {
  const auto r = DecodeSessionRecord(value);
  if (!r.ok()) return Must(r.code() == FsError::kCorrupt && !r.error().message.empty());
  ++fuzz_taken;
  const std::string encoded = EncodeSessionRecord(*r);
  const auto again = DecodeSessionRecord(encoded);
  Must(again.ok() && *again == *r && r->id && EncodeSessionRecord(*again) == encoded);
}

void CheckSuper(const std::string& block) {
  const auto sb = DecodeSuperblock(block, "d1");
  if (!sb.ok()) {
    Must((sb.code() == FsError::kCorrupt || sb.code() == FsError::kVersion) && sb.error().message.find("d1") != std::string::npos);
    return;
  }
  ++fuzz_taken;
  Must(sb->label.size() <= kMaxSuperblockLabelBytes && (sb->incompat & ~kKnownIncompat) == 0);
  const std::string encoded = EncodeSuperblock(*sb);
  const auto again = DecodeSuperblock(encoded, "d1");
  Must(encoded.size() == kSuperblockBytes && again.ok() && *again == *sb);
  Must(CheckSuperblock(*sb, sb->kind, sb->cluster, "d1").ok());
  Must(!CheckSuperblock(*sb, sb->kind, {sb->cluster.hi, sb->cluster.lo + 1}, "d1").ok());
}
void AsSuperblock(Text, Text value) {
  std::string block = value;
  CheckSuper(block);
  block.resize(kSuperblockBytes);
  CheckSuper(block);
}

// Keys that are read back are those that are made of what they say.
void AsKey(Text key, Text) {
  DentryKeyParts d;
  if (ParseDentryKey(key, &d)) {
    ++fuzz_taken;
    Must(DentryHashKey(d.parent, d.hash) + d.name == key);
  }
  ParentKeyParts p;
  if (ParseParentKey(key, &p)) Must(ParentKey(p.ino, p.parent, p.name) == key);
  StripeRefKeyParts s;
  if (ParseStripeRefKey(key, &s)) Must(StripeRefKey(s.stripe, s.ino, s.file_offset) == key);
  TargetShardKeyParts t;
  if (ParseTargetShardKey(key, &t)) Must(TargetShardKey(t.target, t.shard) == key);
  uint64_t first = 0, second = 0;
  if (ParseKey64(key, &first)) Must(InodeKey(InodeId(first)) == key);
  if (ParseKey64x2(key, &first, &second)) Must(ExtentKey(InodeId(first), second) == key);
  InodeId ino;
  std::string name;
  if (ParseXattrKey(key, &ino, &name)) Must(XattrKey(ino, name) == key);
  for (size_t f = 0; f < kFamilies; ++f) (void)KeyToString(static_cast<Family>(f), key);
  const std::string end = PrefixEnd(key);
  Must(end.empty() || end > key);
}

constexpr void (*kRecords[])(Text, Text) = {
    &As<InodeRecord>,  &As<DentryRecord>, &As<ExtentRecord>, &As<StripeRecord>, &As<RefBytesRecord>, &As<TargetStripeRecord>,
    &As<GarbageRecord>, &As<XattrRecord>, &As<ParentRecord>, &As<ReplyRecord>,  &As<SuperRecord>,    &As<StateRecord>,
    &AsSession,        &AsSuperblock,     &AsKey};

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t key_bytes = data[1] < size - 2 ? data[1] : size - 2;
  const char* at = reinterpret_cast<const char*>(data) + 2;
  const std::string key(at, key_bytes), value(at + key_bytes, size - 2 - key_bytes);
  stria::kRecords[data[0] % std::size(stria::kRecords)](key, value);
  return 0;
}
