#include "trust/inode_handle.h"

#include <bit>
#include <cstring>

namespace stria {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1, v1 = std::rotl(v1, 13), v1 ^= v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16), v3 ^= v2;
    v0 += v3, v3 = std::rotl(v3, 21), v3 ^= v0;
    v2 += v1, v1 = std::rotl(v1, 17), v1 ^= v2, v2 = std::rotl(v2, 32);
  }
  void Word(uint64_t m) {
    v3 ^= m;
    Round(), Round();
    v0 ^= m;
  }
};

}  // namespace

uint64_t SipHash24(const SipKey& key, std::span<const uint8_t> bytes) {
  SipState s{key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d, key.k0 ^ 0x6c7967656e657261, key.k1 ^ 0x7465646279746573};
  size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    uint64_t m;
    std::memcpy(&m, bytes.data() + at, 8);
    s.Word(m);
  }
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (size_t i = 0; at + i < bytes.size(); ++i) last |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  s.Word(last);
  s.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) s.Round();
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

InodeHandle SealInode(const SipKey& export_key, InodeId ino) {
  uint8_t bytes[8];
  std::memcpy(bytes, &ino.v, sizeof bytes);
  return {ino, SipHash24(export_key, bytes)};
}

bool IsSealed(const SipKey& export_key, const InodeHandle& handle) { return (SealInode(export_key, handle.ino).mac ^ handle.mac) == 0; }

}  // namespace stria
