#include "trust/tls/frame_mac.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stria {
namespace {

std::span<const uint8_t> Bytes(const std::string& s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

FrameKey Key(uint8_t seed) {
  FrameKey k;
  k.key.fill(seed);
  k.salt.fill(static_cast<uint8_t>(seed + 1));
  return k;
}

TEST(FrameMac, PiecesDoNotMatter) {
  FrameMac a(Key(1)), b(Key(1));
  const std::string text(100'000, 'x');
  for (const size_t piece : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{65536}}) {
    a.Add(Bytes(text));
    for (size_t at = 0; at < text.size(); at += piece) b.Add(Bytes(text.substr(at, piece)));
    EXPECT_TRUE(b.EndsWith(a.End())) << piece;
  }
}

TEST(FrameMac, FramesInTheirOrderOnly) {
  FrameMac sender(Key(1));
  std::vector<FrameMac::Tag> tags;
  for (int i = 0; i < 3; ++i) {
    sender.Add(Bytes("the same"));
    tags.push_back(sender.End());
  }
  EXPECT_NE(tags[0], tags[1]);
  EXPECT_NE(tags[1], tags[2]);
  const auto takes = [&](std::initializer_list<size_t> order, uint8_t key = 1) {
    FrameMac r(Key(key));
    bool all = true;
    for (const size_t i : order) {
      r.Add(Bytes("the same"));
      all = all && r.EndsWith(tags[i]);
    }
    return all;
  };
  EXPECT_TRUE(takes({0, 1, 2}));
  EXPECT_FALSE(takes({0, 2}));
  EXPECT_FALSE(takes({0, 0}));
  EXPECT_FALSE(takes({1, 0}));
  EXPECT_FALSE(takes({0}, 2));
}

TEST(FrameMac, AnyBitCounts) {
  const std::string text = "head and fields and payload, some of it";
  FrameMac sender(Key(1));
  sender.Add(Bytes(text));
  const FrameMac::Tag tag = sender.End();
  for (size_t i = 0; i < 8 * text.size(); ++i) {
    std::string bad = text;
    bad[i / 8] ^= static_cast<char>(1 << (i % 8));
    FrameMac r(Key(1));
    r.Add(Bytes(bad));
    EXPECT_FALSE(r.EndsWith(tag));
  }
  for (size_t i = 0; i < 8 * tag.size(); ++i) {
    FrameMac::Tag bad = tag;
    bad[i / 8] ^= static_cast<uint8_t>(1 << (i % 8));
    FrameMac r(Key(1));
    r.Add(Bytes(text));
    EXPECT_FALSE(r.EndsWith(bad));
  }
  FrameMac r(Key(1));
  r.Add(Bytes(text + '\0'));
  EXPECT_FALSE(r.EndsWith(tag)) << "GHASH pads with zeros, and counts";
}

// The test of SP 800-38D's authors: key and nonce of zeros, nothing to authenticate.
TEST(FrameMac, IsGmac) {
  FrameMac m(FrameKey{});
  const FrameMac::Tag want = {0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61, 0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a};
  EXPECT_EQ(m.End(), want);
}

}  // namespace
}  // namespace stria
