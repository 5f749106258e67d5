// MetaRoom of a real directory: how much room its file system has, and the reserve, files in DIR/reserve that are
// removed when it gets full. Something else may take what they had. So files in DIR/reserve.start stay until a start finds no
// room, and come back, a bit smaller, when the store is open: it can be read again and again.
// Blocking calls of the operating system, all short; for the executor's thread.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "meta/store/room.h"

namespace stria {

class DiskRoom final : public MetaRoom {
 public:
  explicit DiskRoom(std::string dir) : dir_(std::move(dir)) {}
  // Before the store is opened, which writes: on a full disk the reserve makes place for that. kNoSpace, kRoFs if there is
  // none to be had.
  Result<void> Open();
  // After the store has been opened, and now and then: what a start on a quite full disk needs is kept for the next one.
  void KeepForStart();
  // Now and then: also tries whether more could be had, which only then shows if there is a quota, or if the kernel has found
  // the file system damaged and takes nothing more.
  void Follow();

  // Looks again if it is some time since.
  RoomLevel Level() override;
  std::vector<Advice> Told() override;
  uint64_t total_bytes() const { return sample_.total_bytes; }
  uint64_t free_bytes() const { return sample_.free_bytes; }  // when it looked last
  bool held() const { return held_; }

 private:
  void Look();
  void Step(bool may_take);
  bool Take();
  void Release();
  std::string ReserveDir() const { return dir_ + "/reserve"; }
  std::string StartDir() const { return dir_ + "/reserve.start"; }
  int TryToHave(uint64_t bytes, uint64_t files) const;  // errno

  const std::string dir_;
  RoomSample sample_;
  RoomLevel level_ = RoomLevel::kPlenty;
  bool refuses_ = false;  // read-only, although the file system does not say so
  bool held_ = false;
  uint64_t start_bytes_ = 0;      // kept for a start
  uint64_t given_for_start_ = 0;  // had been kept, and this start has needed it
  int64_t looked_ns_ = 0;
  int64_t tried_ns_ = 0;
};

}  // namespace stria
