#include "common/os_random.h"

#include <errno.h>
#include <sys/random.h>

#include "common/check.h"

namespace stria {

void OsRandomBytes(std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    CHECK(n > 0, "getrandom does not work");
    out = out.subspan(static_cast<size_t>(n));
  }
}

uint64_t OsRandom64() {
  uint64_t v;
  OsRandomBytes({reinterpret_cast<uint8_t*>(&v), sizeof v});
  return v;
}

Uuid NewUuid() {
  Uuid u{OsRandom64(), OsRandom64()};
  u.hi = (u.hi & ~0xf000ULL) | 0x4000;         // version 4
  u.lo = (u.lo & ~(3ULL << 62)) | 1ULL << 63;  // variant of RFC 4122
  return u;
}

}  // namespace stria
