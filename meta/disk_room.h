// MetaRoom of a real directory: how much room its file system has, and the reserve, files in DIR/reserve that are
// removed when it gets full. Blocking calls of the operating system, all short; for the executor's thread.
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
  // Now and then: also tries whether more could be had, which only then shows if there is a quota.
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
  int TryToHave(uint64_t bytes) const;  // errno

  const std::string dir_;
  RoomSample sample_;
  RoomLevel level_ = RoomLevel::kPlenty;
  bool held_ = false;
  int64_t looked_ns_ = 0;
  int64_t tried_ns_ = 0;
};

}  // namespace stria
