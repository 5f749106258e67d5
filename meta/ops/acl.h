// POSIX access control lists, in the form that Linux keeps in system.posix_acl_access and _default: version 2, then
// entries of tag, rights and id, little-endian. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "meta/ops/access.h"

namespace stria {

inline constexpr std::string_view kAccessAclXattr = "system.posix_acl_access";
inline constexpr std::string_view kDefaultAclXattr = "system.posix_acl_default";

struct AclEntry {
  enum class Tag : uint16_t { kOwner = 1, kUser = 2, kGroupOwner = 4, kGroup = 8, kMask = 0x10, kOther = 0x20 };
  Tag tag = Tag::kOwner;
  uint16_t rights = 0;  // kMay.. bits
  uint32_t id = 0;      // of kUser and kGroup
  bool operator==(const AclEntry&) const = default;
};

class Acl {
 public:
  // The list that a mode stands for.
  static Acl FromMode(uint32_t mode);
  // As setxattr(2) gets it; nullopt: no entries, which means no list. kInval; kNotSupported (version).
  static Result<std::optional<Acl>> Parse(std::string_view value);
  std::string Encode() const;

  // The permission bits that stand for the list: the mask, if there is one, in place of the group's.
  uint32_t Mode() const;
  // It says no more than Mode().
  bool IsMinimal() const { return entries_.size() == 3; }
  // chmod(2).
  void SetMode(uint32_t mode);
  // Returns the bits of `mode` that a new inode gets under this default list, which becomes its access list.
  uint32_t Restrict(uint32_t mode);
  // For callers other than root.
  bool Allows(const OpCtx& ctx, const Attr& attr, uint32_t want) const;

  const std::vector<AclEntry>& entries() const { return entries_; }
  bool operator==(const Acl&) const = default;

 private:
  AclEntry* Find(AclEntry::Tag tag);
  const AclEntry* Find(AclEntry::Tag tag) const { return const_cast<Acl*>(this)->Find(tag); }
  bool IsValid() const;

  std::vector<AclEntry> entries_;  // by tag, then id
};

}  // namespace stria
