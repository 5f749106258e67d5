#include "meta/model/families.h"

#include "common/check.h"
#include "common/codec.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stria {
namespace {

std::string Key64(uint64_t a) {
  ByteWriter w;
  w.Key64(a);
  return w.Take();
}

std::string Key64x2(uint64_t a, uint64_t b) {
  ByteWriter w;
  w.Key64(a);
  w.Key64(b);
  return w.Take();
}

}  // namespace

std::string_view FamilyName(Family f) {
  switch (f) {
    case Family::kState: return "state";
    case Family::kInodes: return "inodes";
    case Family::kDentries: return "dentries";
    case Family::kParents: return "parents";
    case Family::kExtents: return "extents";
    case Family::kStripes: return "stripes";
    case Family::kStripeRefs: return "stripe_refs";
    case Family::kRefBytes: return "ref_bytes";
    case Family::kTargetStripes: return "target_stripes";
    case Family::kCluster: return "cluster";
    case Family::kSessions: return "sessions";
    case Family::kReplies: return "replies";
    case Family::kLocks: return "locks";
    case Family::kRepairs: return "repairs";
    case Family::kGarbage: return "garbage";
    case Family::kOrphans: return "orphans";
    case Family::kXattrs: return "xattrs";
    case Family::kIntents: return "intents";
    case Family::kSessionStripes: return "session_stripes";
  }
  CHECK(false, "no such family");
}

std::vector<std::string> FamilyNames() {
  std::vector<std::string> names;
  for (size_t f = 0; f < kFamilies; ++f) names.emplace_back(FamilyName(static_cast<Family>(f)));
  return names;
}

std::vector<size_t> FamilyPrefixBytes() {
  std::vector<size_t> bytes(kFamilies, 0);
  for (Family f : {Family::kDentries, Family::kParents, Family::kExtents, Family::kStripeRefs,
                   Family::kXattrs, Family::kSessionStripes, Family::kReplies}) {
    bytes[static_cast<size_t>(f)] = 8;
  }
  for (Family f : {Family::kTargetStripes, Family::kGarbage}) bytes[static_cast<size_t>(f)] = 4;
  return bytes;
}

uint64_t NameHash(std::string_view name) {
  const uint64_t hash = (XXH3_64bits(name.data(), name.size()) >> 1) & ~uint64_t{0xff};
  return hash == 0 ? 0x100 : hash;
}

std::string InodeKey(InodeId ino) { return Key64(ino.v); }
std::string DentryHashKey(InodeId parent, uint64_t hash) { return Key64x2(parent.v, hash); }
std::string DentryKey(InodeId parent, std::string_view name) {
  return DentryHashKey(parent, NameHash(name)).append(name);
}
std::string ParentKey(InodeId ino, InodeId parent, std::string_view name) {
  return Key64x2(ino.v, parent.v).append(name);
}
std::string ExtentKey(InodeId ino, uint64_t file_offset) { return Key64x2(ino.v, file_offset); }
std::string StripeKey(StripeId stripe) { return Key64(stripe.v); }
std::string StripeRefKey(StripeId stripe, InodeId ino, uint64_t file_offset) {
  ByteWriter w;
  w.Key64(stripe.v);
  w.Key64(ino.v);
  w.Key64(file_offset);
  return w.Take();
}
std::string TargetShardKey(TargetId target, ShardId shard) {
  ByteWriter w;
  w.Key32(target.v);
  w.Key64(shard.v);
  return w.Take();
}
std::string TargetKey(TargetId target) {
  ByteWriter w;
  w.Key32(target.v);
  return w.Take();
}
std::string NodeKey(NodeId node) {
  ByteWriter w;
  w.Key32(node.v);
  return w.Take();
}
std::string SessionKey(SessionId session) { return Key64(session.v); }
std::string SessionStripeKey(SessionId session, StripeId stripe) { return Key64x2(session.v, stripe.v); }
std::string ReplyKey(SessionId session, OpSeq seq) { return Key64x2(session.v, seq.v); }
std::string XattrKey(InodeId ino, std::string_view name) { return Key64(ino.v).append(name); }
std::string SuperKey() { return "super"; }
std::string StateKey() { return "state"; }

std::string PrefixEnd(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<uint8_t>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<uint8_t>(end.back()) + 1);
  return end;
}

bool ParseDentryKey(std::string_view key, DentryKeyParts* out) {
  ByteReader r(key);
  out->parent = InodeId(r.Key64());
  out->hash = r.Key64();
  out->name = r.rest();
  return r.ok() && !out->name.empty();
}

bool ParseParentKey(std::string_view key, ParentKeyParts* out) {
  ByteReader r(key);
  out->ino = InodeId(r.Key64());
  out->parent = InodeId(r.Key64());
  out->name = r.rest();
  return r.ok() && !out->name.empty();
}

bool ParseStripeRefKey(std::string_view key, StripeRefKeyParts* out) {
  ByteReader r(key);
  out->stripe = StripeId(r.Key64());
  out->ino = InodeId(r.Key64());
  out->file_offset = r.Key64();
  return r.ok() && r.left() == 0;
}

bool ParseTargetShardKey(std::string_view key, TargetShardKeyParts* out) {
  ByteReader r(key);
  out->target = TargetId(r.Key32());
  out->shard = ShardId(r.Key64());
  return r.ok() && r.left() == 0;
}

bool ParseKey64(std::string_view key, uint64_t* out) {
  ByteReader r(key);
  *out = r.Key64();
  return r.ok() && r.left() == 0;
}

bool ParseKey64x2(std::string_view key, uint64_t* first, uint64_t* second) {
  ByteReader r(key);
  *first = r.Key64();
  *second = r.Key64();
  return r.ok() && r.left() == 0;
}

bool ParseXattrKey(std::string_view key, InodeId* ino, std::string* name) {
  ByteReader r(key);
  *ino = InodeId(r.Key64());
  *name = r.rest();
  return r.ok() && !name->empty();
}

std::string KeyToString(Family f, std::string_view key) {
  if (f == Family::kState) return std::string(key);
  size_t numbers = key.size();  // bytes that are not a name
  if (f == Family::kDentries || f == Family::kParents) numbers = 16;
  if (f == Family::kXattrs) numbers = 8;
  std::string out;
  for (size_t i = 0; i < key.size() && i < numbers; ++i) {
    static constexpr char kHex[] = "0123456789abcdef";
    const uint8_t b = static_cast<uint8_t>(key[i]);
    if (i > 0 && i % 8 == 0) out += '.';
    out += kHex[b >> 4];
    out += kHex[b & 15];
  }
  if (key.size() > numbers) {
    out.append(" '").append(key.substr(numbers)).append("'");
  }
  return out;
}

}  // namespace stria
