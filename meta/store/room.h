// Room on the metadata's own disk: when it gets scarce, and what may be written then. Pure.
//
// A file, the reserve, keeps part of the disk. When little else is free, the reserve is given back, and only operations that
// free space run (deleting writes, too, before it frees anything): `kFull`. When even that is used up nothing is written at
// all: `kNone`. It goes on by itself when there is room for the reserve again, and some more. Reading goes on throughout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "common/units.h"

namespace stria {

enum class RoomLevel : uint8_t { kPlenty, kScarce, kFull, kNone };

struct RoomSample {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t total_files = 0;  // 0: as many as one likes
  uint64_t free_files = 0;
  bool read_only = false;
  bool over_quota = false;  // more cannot be had, however much is free
};

inline constexpr uint64_t kScarcePercent = 80;
inline constexpr uint64_t kReserveFiles = 64;

// The log of the store may be this long: its content is written once more before it goes.
inline uint64_t ReserveBytes(uint64_t total) { return std::clamp<uint64_t>(total / 8, 4 * kMiB, 256 * kMiB); }
inline uint64_t MarginBytes(uint64_t total) { return std::clamp<uint64_t>(total / 64, 2 * kMiB, 64 * kMiB); }

struct RoomStep {
  RoomLevel level = RoomLevel::kPlenty;
  bool hold = true;  // the reserve is to be there
};
RoomStep NextRoom(const RoomSample& s, bool held);

// Percent of the space beyond the reserve.
uint64_t UsedPercent(const RoomSample& s, bool held);
// The sentence for status; `where` names the directory.
std::vector<Advice> RoomAdviceOf(const RoomSample& s, RoomLevel level, bool held, const std::string& where);

// The disk of the store of a running server. For the executor's thread.
class MetaRoom {
 public:
  virtual ~MetaRoom() = default;
  virtual RoomLevel Level() = 0;
  virtual std::vector<Advice> Told() = 0;
};

}  // namespace stria
