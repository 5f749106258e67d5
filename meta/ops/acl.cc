#include "meta/ops/acl.h"

#include <algorithm>

namespace stria {
namespace {

using Tag = AclEntry::Tag;

constexpr uint32_t kVersion = 2;
constexpr size_t kHeaderBytes = 4;
constexpr size_t kEntryBytes = 8;
constexpr uint32_t kNoId = UINT32_MAX;

uint32_t Number(std::string_view bytes, size_t at, size_t n) {
  uint32_t v = 0;
  for (size_t i = 0; i < n; ++i) v |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return v;
}
void Append(uint32_t v, size_t n, std::string* out) {
  for (size_t i = 0; i < n; ++i) out->push_back(static_cast<char>(v >> (8 * i)));
}

bool HasId(Tag t) { return t == Tag::kUser || t == Tag::kGroup; }
bool IsTag(uint32_t t) { return t == 1 || t == 2 || t == 4 || t == 8 || t == 0x10 || t == 0x20; }

}  // namespace

Acl Acl::FromMode(uint32_t mode) {
  Acl a;
  a.entries_ = {{Tag::kOwner, static_cast<uint16_t>((mode >> 6) & 7), 0},
                {Tag::kGroupOwner, static_cast<uint16_t>((mode >> 3) & 7), 0},
                {Tag::kOther, static_cast<uint16_t>(mode & 7), 0}};
  return a;
}

Result<std::optional<Acl>> Acl::Parse(std::string_view value) {
  if (value.empty()) return std::optional<Acl>();
  if (value.size() < kHeaderBytes || (value.size() - kHeaderBytes) % kEntryBytes != 0) {
    return Error(FsError::kInval, "an access control list does not decode");
  }
  if (Number(value, 0, 4) != kVersion) {
    return Error(FsError::kNotSupported, "an access control list has an unknown version");
  }
  if (value.size() == kHeaderBytes) return std::optional<Acl>();
  Acl a;
  for (size_t at = kHeaderBytes; at < value.size(); at += kEntryBytes) {
    const uint32_t tag = Number(value, at, 2);
    AclEntry e;
    if (!IsTag(tag)) return Error(FsError::kInval, "an access control list has an unknown tag");
    e.tag = static_cast<Tag>(tag);
    e.rights = static_cast<uint16_t>(Number(value, at + 2, 2));
    if (HasId(e.tag)) e.id = Number(value, at + 4, 4);
    a.entries_.push_back(e);
  }
  if (!a.IsValid()) return Error(FsError::kInval, "an access control list lacks entries, or has one twice");
  return std::optional<Acl>(std::move(a));
}

std::string Acl::Encode() const {
  std::string out;
  Append(kVersion, 4, &out);
  for (const AclEntry& e : entries_) {
    Append(static_cast<uint32_t>(e.tag), 2, &out);
    Append(e.rights, 2, &out);
    Append(HasId(e.tag) ? e.id : kNoId, 4, &out);
  }
  return out;
}

// Owner, group and others once each; a mask if a user or group is named, at most one; in order, no name twice.
bool Acl::IsValid() const {
  size_t named = 0, masks = 0, bases = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const AclEntry& e = entries_[i];
    if (e.rights > 7) return false;
    if (HasId(e.tag) && e.id == kNoId) return false;
    named += HasId(e.tag);
    masks += e.tag == Tag::kMask;
    bases += !HasId(e.tag) && e.tag != Tag::kMask;
    if (i == 0) continue;
    const AclEntry& before = entries_[i - 1];
    if (e.tag < before.tag || (e.tag == before.tag && (!HasId(e.tag) || e.id == before.id))) return false;
  }
  return bases == 3 && masks <= 1 && (named == 0 || masks == 1);
}

AclEntry* Acl::Find(Tag tag) {
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const AclEntry& e) { return e.tag == tag; });
  return it == entries_.end() ? nullptr : &*it;
}

uint32_t Acl::Mode() const {
  const AclEntry* mask = Find(Tag::kMask);
  const uint32_t group = (mask ? mask : Find(Tag::kGroupOwner))->rights;
  return static_cast<uint32_t>(Find(Tag::kOwner)->rights) << 6 | group << 3 | Find(Tag::kOther)->rights;
}

void Acl::SetMode(uint32_t mode) {
  AclEntry* mask = Find(Tag::kMask);
  Find(Tag::kOwner)->rights = (mode >> 6) & 7;
  (mask ? mask : Find(Tag::kGroupOwner))->rights = (mode >> 3) & 7;
  Find(Tag::kOther)->rights = mode & 7;
}

uint32_t Acl::Restrict(uint32_t mode) {
  SetMode(Mode() & mode);
  return (mode & ~0777U) | Mode();
}

bool Acl::Allows(const OpCtx& ctx, const Attr& attr, uint32_t want) const {
  const AclEntry* mask = Find(Tag::kMask);
  const uint32_t most = mask ? mask->rights : 7U;
  const auto has = [&](uint32_t rights) { return (rights & want) == want; };
  if (ctx.uid == attr.uid) return has(Find(Tag::kOwner)->rights);
  for (const AclEntry& e : entries_) {
    if (e.tag == Tag::kUser && e.id == ctx.uid) return has(e.rights & most);
  }
  // Any one group that gives all of it is enough; being in a group that does not is not "others".
  bool in_some = false;
  for (const AclEntry& e : entries_) {
    const bool mine = (e.tag == Tag::kGroupOwner && ctx.InGroup(attr.gid)) || (e.tag == Tag::kGroup && ctx.InGroup(e.id));
    if (!mine) continue;
    if (has(e.rights & most)) return true;
    in_some = true;
  }
  return !in_some && has(Find(Tag::kOther)->rights);
}

}  // namespace stria
