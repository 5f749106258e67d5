#include "meta/store/room.h"

#include "common/quantity.h"

namespace stria {

RoomStep NextRoom(const RoomSample& s, bool held) {
  if (s.read_only) return {RoomLevel::kNone, held};
  const uint64_t margin = MarginBytes(s.total_bytes), reserve = ReserveBytes(s.total_bytes);
  const auto at_least = [&](uint64_t bytes, uint64_t files) {
    return !s.over_quota && s.free_bytes >= bytes && (s.total_files == 0 || s.free_files >= files);
  };
  if (held ? at_least(margin, kReserveFiles) : at_least(reserve + 2 * margin, 3 * kReserveFiles)) {
    return {UsedPercent(s, held) >= kScarcePercent ? RoomLevel::kScarce : RoomLevel::kPlenty, true};
  }
  // The reserve is free after this.
  const bool some = held || (s.free_bytes >= margin && (s.total_files == 0 || s.free_files >= kReserveFiles / 2));
  return {some ? RoomLevel::kFull : RoomLevel::kNone, false};
}

uint64_t UsedPercent(const RoomSample& s, bool held) {
  const uint64_t reserve = ReserveBytes(s.total_bytes);
  if (s.total_bytes <= reserve) return 100;
  const uint64_t total = s.total_bytes - reserve;
  const uint64_t free = held ? s.free_bytes : s.free_bytes - std::min(s.free_bytes, reserve);
  const uint64_t bytes = 100 - std::min(free, total) * 100 / total;
  const uint64_t files = s.total_files == 0 ? 0 : 100 - std::min(s.free_files, s.total_files) * 100 / s.total_files;
  return std::max(bytes, files);
}

std::vector<Advice> RoomAdviceOf(const RoomSample& s, RoomLevel level, bool held, const std::string& where) {
  if (level == RoomLevel::kPlenty) return {};
  const std::string disk = "The metadata's disk (" + where + ")";
  const std::string room = "Make room there, or move the store to a larger disk while stria-meta is stopped.";
  if (s.read_only) return {{1, disk + " can only be read: nothing can be changed.", "See to the disk (dmesg), and mount it for writing again."}};
  if (level == RoomLevel::kScarce) {
    const bool files = s.total_files != 0 && s.free_files * 100 / s.total_files <= 100 - kScarcePercent;
    return {{1, disk + " is " + std::to_string(UsedPercent(s, held)) + " % full: " + FormatSize(s.free_bytes) +
                    (files ? " and " + std::to_string(s.free_files) + " inodes" : "") + " are left.", room}};
  }
  const std::string why = s.over_quota ? " is at its quota" : " is full";
  if (level == RoomLevel::kFull) {
    return {{1, disk + why + ": nothing can be created or written; reading and deleting go on.", room + " It goes on by itself then."}};
  }
  return {{1, disk + why + ", and the reserve for deleting is used up: nothing can be changed; reading goes on.",
           room + " It goes on by itself then."}};
}

}  // namespace stria
