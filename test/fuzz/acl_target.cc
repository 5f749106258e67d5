// Input: the caller's uid and gid, the owner's and the group's of a file, in a byte each, two bytes of a mode, and a list as
// setxattr(2) gets it.
#include <cstdint>
#include <string>

#include "meta/ops/acl.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

constexpr size_t kHeadBytes = 6;
constexpr uint32_t kAllRights = kMayRead | kMayWrite | kMayExec;

uint32_t ClassBits(const OpCtx& ctx, const Attr& attr, uint32_t mode) {
  const int shift = ctx.uid == attr.uid ? 6 : ctx.InGroup(attr.gid) ? 3 : 0;
  return mode >> shift & 7;
}

void AsAcl(const OpCtx& ctx, const Attr& attr, uint32_t mode, const std::string& value) {
  // The list of a mode says what the mode says.
  const Acl plain = Acl::FromMode(mode);
  Must(plain.IsMinimal() && plain.Mode() == (mode & 0777));
  for (uint32_t want = 0; want <= kAllRights; ++want) {
    Must(plain.Allows(ctx, attr, want) == ((ClassBits(ctx, attr, mode) & want) == want));
  }

  const auto parsed = Acl::Parse(value);
  if (!parsed.ok() || !*parsed) return;
  ++fuzz_taken;
  const Acl acl = **parsed;
  // One spelling, and no other list is spelled so.
  const std::string encoded = acl.Encode();
  const auto again = Acl::Parse(encoded);
  Must(encoded.size() == value.size() && again.ok() && *again && **again == acl && (*again)->Encode() == encoded);
  Must(acl.Mode() <= 0777);
  for (const AclEntry& e : acl.entries()) Must(e.rights <= kAllRights);

  // Who may do two things may do each.
  for (uint32_t want = 0; want <= kAllRights; ++want) {
    if (!acl.Allows(ctx, attr, want)) continue;
    for (uint32_t part = 0; part <= want; ++part) Must((part & want) != part || acl.Allows(ctx, attr, part));
  }
  Must(acl.Allows(ctx, attr, 0));
  if (acl.IsMinimal() && acl.Mode() == plain.Mode()) Must(acl == plain);

  Acl changed = acl;
  changed.SetMode(mode);
  Must(changed.Mode() == (mode & 0777) && changed.entries().size() == acl.entries().size());
  // A new inode gets no more than both say.
  Acl inherited = acl;
  const uint32_t got = inherited.Restrict(mode);
  Must((got & ~mode) == 0 && (got & 0777) == (acl.Mode() & mode & 0777) && inherited.Mode() == (got & 0777));
  for (uint32_t want = 1; want <= kAllRights; ++want) Must(!inherited.Allows(ctx, attr, want) || acl.Allows(ctx, attr, want));
  // chmod 0 shuts out everybody, whoever the list names.
  changed.SetMode(0);
  for (uint32_t want = 1; want <= kAllRights; ++want) Must(!changed.Allows(ctx, attr, want));
}

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stria;
  if (size < kHeadBytes) return 0;
  OpCtx ctx;
  ctx.uid = data[0], ctx.gid = data[1];
  ctx.groups = {static_cast<uint32_t>(data[1] ^ data[3])};
  Attr attr;
  attr.uid = data[2], attr.gid = data[3];
  const uint32_t mode = (uint32_t{data[4]} << 8 | data[5]) & 07777;
  AsAcl(ctx, attr, mode, std::string(reinterpret_cast<const char*>(data) + kHeadBytes, size - kHeadBytes));
  return 0;
}
