#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/fuzz/mutate.h"

namespace stria {
namespace {

std::string Number(uint64_t v, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(v >> (8 * i)));
  return out;
}

// As proto/bulk_connection.h says.
std::string Frame(uint8_t kind, uint64_t id, const std::string& method, const std::string& fields, const std::string& payload) {
  return "SBK1" + Number(kind, 1) + Number(0, 1) + Number(method.size(), 2) + Number(id, 8) + Number(fields.size(), 4) +
         Number(payload.size(), 4) + method + fields + payload;
}

std::vector<std::string> Samples() {
  const std::string frames = Frame(1, 7, "/stria.v1.Data/Write", "fields", std::string(100, 'p')) + Frame(2, 8, "", "f", "") +
                             Frame(1, 9, "m", "", std::string(9000, 'q')) + Frame(2, 10, "", "", "");
  std::vector<std::string> out;
  for (const int piece : {0, 1, 7, 24, 255}) {
    out.push_back(std::string{0, static_cast<char>(piece), 0} + frames);
    out.push_back(std::string{0, static_cast<char>(piece), 4} + frames);  // admits 64 bytes: not all
    // As it was sent, and with a change at its end.
    out.push_back(std::string{1, static_cast<char>(piece), 0});
    out.push_back(std::string{2, static_cast<char>(piece), 0} + std::string{0, 0x20, 0, 1});
  }
  // Sizes: the second and the fourth are more than 80 kB, which is refused while they come.
  const auto sized = [](int method, int fields, int payload) {
    return Number(1, 1) + Number(static_cast<uint64_t>(method), 1) + Number(static_cast<uint64_t>(fields), 2) + Number(static_cast<uint64_t>(payload), 2);
  };
  const std::string sizes = sized(20, 100, 5000) + sized(9, 50'000, 40'000) + sized(0, 0, 60'000) + sized(200, 59'999, 60'000) + sized(1, 1, 1);
  for (const char mode : {3, 4, 5}) {
    for (const char piece : {0, 1, 101}) {
      for (const int admits : {0, 120, 160, 10}) out.push_back(std::string{mode, piece, static_cast<char>(admits)} + sizes);
    }
  }
  return out;
}

TEST(FramingFuzz, BoundedRun) { FuzzBounded(20'261'127, 5'000, 2, Samples()); }

}  // namespace
}  // namespace stria
