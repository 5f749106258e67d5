#include "meta/disk_room.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "common/exec/executor.h"
#include "common/io/unique_fd.h"
#include "common/io/usable_space.h"
#include "common/log.h"
#include "common/quantity.h"

namespace stria {
namespace {

constexpr int64_t kLookNs = 20 * kMillisecond;
constexpr int64_t kTryNs = 10 * kSecond;
constexpr uint64_t kTryBytes = 1 * kMiB;

// As errno says.
int MakeFile(const std::string& path, uint64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) return errno;
  return bytes == 0 ? 0 : ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
}

}  // namespace

int DiskRoom::TryToHave(uint64_t bytes) const {
  const std::string path = dir_ + "/reserve.try";
  const int err = MakeFile(path, bytes);
  ::unlink(path.c_str());
  return err;
}

void DiskRoom::Look() {
  looked_ns_ = Executor::Current().NowNs();
  struct statvfs st;
  if (::statvfs(dir_.c_str(), &st) != 0) return;  // the store itself reports what is wrong
  sample_.total_bytes = UsableBytes(st);
  sample_.free_bytes = FreeBytes(st);
  sample_.total_files = st.f_files;
  sample_.free_files = st.f_favail;
  sample_.read_only = (st.f_flag & ST_RDONLY) != 0;
}

bool DiskRoom::Take() {
  std::error_code ec;
  std::filesystem::create_directory(dir_ + "/reserve", ec);
  int err = ec ? ec.value() : MakeFile(dir_ + "/reserve/bytes", ReserveBytes(sample_.total_bytes));
  for (uint64_t i = 1; err == 0 && i < kReserveFiles; ++i) err = MakeFile(dir_ + "/reserve/inode" + std::to_string(i), 0);
  held_ = err == 0;
  if (!held_) Release();
  return held_;
}

void DiskRoom::Release() {
  std::error_code ec;
  std::filesystem::remove_all(dir_ + "/reserve", ec);
  held_ = false;
}

// After a failure it is not tried with every call.
void DiskRoom::Step(bool may_take) {
  const RoomLevel before = level_;
  RoomStep step = NextRoom(sample_, held_);
  if (step.hold && !held_ && !(may_take && Take())) step.level = RoomLevel::kFull;
  if (!step.hold && held_) Release();
  level_ = step.level;
  if (level_ == before) return;
  const std::vector<Advice> told = Told();
  if (told.empty()) LogInfo("there is room on the metadata's disk again: {} free", FormatSize(sample_.free_bytes));
  else LogWarning("{} {}", told[0].what, told[0].action);
}

RoomLevel DiskRoom::Level() {
  if (Executor::Current().NowNs() - looked_ns_ >= kLookNs) {
    Look();
    Step(false);
  }
  return level_;
}

void DiskRoom::Follow() {
  Look();
  if (!sample_.read_only && looked_ns_ - tried_ns_ >= kTryNs) {
    tried_ns_ = looked_ns_;
    sample_.over_quota = TryToHave(kTryBytes) == EDQUOT;
  }
  Step(true);
}

std::vector<Advice> DiskRoom::Told() { return RoomAdviceOf(sample_, level_, held_, dir_); }

Result<void> DiskRoom::Open() {
  Look();
  if (sample_.read_only) {
    return Error(FsError::kRoFs, dir_ + " is on a file system that can only be read: mount it for writing, and start again");
  }
  const uint64_t margin = MarginBytes(sample_.total_bytes);
  std::error_code ec;
  held_ = std::filesystem::exists(dir_ + "/reserve/bytes", ec);
  int err = TryToHave(margin);
  if (err != 0 && held_) {
    Release();
    LogWarning("the metadata's disk is full: its reserve is given back, and only what frees space is done");
    Look();
    err = TryToHave(margin);
  }
  if (err == ENOSPC || err == EDQUOT || err == EROFS) {
    return ErrnoError(err, "have " + FormatSize(margin) + " in " + dir_ + ", which the store needs to start: make room there");
  }
  Step(true);
  return Ok();
}

}  // namespace stria
