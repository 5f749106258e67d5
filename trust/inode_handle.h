// How a session that is confined to an export names inodes: number and MAC. It gets such handles with every name that it is shown, and only such are
// taken from it; so it can name what it was shown, and nothing else of the tree. SipHash-2-4 (Aumasson, Bernstein 2012) under a key
// of the export: 64 bits, which one guesses at the rate of the server's answers, each of which is counted as a denial.
//
// A handle says what was shown once, as one of NFS does. Whether the inode still lies within the export (it may have been moved out) is for
// who follows paths.
#pragma once

#include <cstdint>
#include <span>

#include "common/ids.h"

namespace stria {

struct SipKey {
  uint64_t k0 = 0, k1 = 0;
};
uint64_t SipHash24(const SipKey& key, std::span<const uint8_t> bytes);

struct InodeHandle {
  InodeId ino;
  uint64_t mac = 0;
  bool operator==(const InodeHandle&) const = default;
};
InodeHandle SealInode(const SipKey& export_key, InodeId ino);
// False if it was not sealed with this key.
bool IsSealed(const SipKey& export_key, const InodeHandle& handle);

// What `..` of `dir` is to who is confined to `root`: the parent, or of the root itself.
constexpr InodeId ParentWithin(InodeId root, InodeId dir, InodeId parent) { return dir == root ? root : parent; }

}  // namespace stria
