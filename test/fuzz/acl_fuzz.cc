#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/fuzz/mutate.h"

namespace stria {
namespace {

struct Entry {
  uint16_t tag, rights;
  uint32_t id;
};

// As docs/posix.md has them, not as the code under test writes them.
std::string List(const std::vector<Entry>& entries) {
  std::string out("\x02\0\0\0", 4);
  for (const Entry& e : entries) {
    for (const uint16_t v : {e.tag, e.rights}) out += {static_cast<char>(v), static_cast<char>(v >> 8)};
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(e.id >> (8 * i)));
  }
  return out;
}

std::vector<std::string> Samples() {
  constexpr uint32_t kNone = UINT32_MAX;
  const std::string head = {10, 20, 10, 20, 01, static_cast<char>(0xed)};
  const std::string other = {11, 21, 10, 20, 01, static_cast<char>(0xa4)};
  return {
      head + List({{1, 7, kNone}, {4, 5, kNone}, {0x20, 4, kNone}}),
      other + List({{1, 7, kNone}, {2, 6, 11}, {2, 4, 12}, {4, 5, kNone}, {8, 7, 21}, {0x10, 5, kNone}, {0x20, 0, kNone}}),
      other + List({{1, 6, kNone}, {4, 7, kNone}, {8, 1, 1}, {8, 6, 2}, {0x10, 7, kNone}, {0x20, 7, kNone}}),
      head + List({{1, 0, kNone}, {4, 0, kNone}, {0x10, 7, kNone}, {0x20, 7, kNone}}),
  };
}

TEST(AclFuzz, BoundedRun) { FuzzBounded(20'261'127, 40'000, 0, Samples()); }

}  // namespace
}  // namespace stria
