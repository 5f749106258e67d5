#include "meta/disk_room.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

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
constexpr uint64_t kStartNeedsFiles = 6, kStartFiles = 24;

// For a start, which needs the margin, and for several after it: of what each leaves, something else may take some.
uint64_t StartBytes(uint64_t total) { return 4 * MarginBytes(total); }
// What a server that only reads writes nevertheless (sessions), and the log that is prepared for that (common/kv/prepared_log.h): what
// it writes there finds its place also when something else has taken the rest.
constexpr uint64_t kIdleBytes = 2 * kMiB;

// As errno says.
int MakeFile(const std::string& path, uint64_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) return errno;
  return bytes == 0 ? 0 : ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
}

// One file of that size, and empty ones. As errno says.
int MakeReserve(const std::string& dir, uint64_t bytes, uint64_t files) {
  std::error_code ec;
  std::filesystem::create_directory(dir, ec);
  int err = ec ? ec.value() : MakeFile(dir + "/bytes", bytes);
  for (uint64_t i = 1; err == 0 && i < files; ++i) err = MakeFile(dir + "/inode" + std::to_string(i), 0);
  return err;
}

void RemoveReserve(const std::string& dir) {
  std::error_code ec;
  std::filesystem::remove_all(dir, ec);
}

}  // namespace

int DiskRoom::TryToHave(uint64_t bytes, uint64_t files) const {
  const std::string dir = dir_ + "/reserve.try";
  const int err = MakeReserve(dir, bytes, files);
  RemoveReserve(dir);
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
  sample_.read_only = refuses_ || (st.f_flag & ST_RDONLY) != 0;
}

bool DiskRoom::Take() {
  held_ = MakeReserve(ReserveDir(), ReserveBytes(sample_.total_bytes), kReserveFiles) == 0;
  if (!held_) Release();
  return held_;
}

void DiskRoom::Release() {
  RemoveReserve(ReserveDir());
  held_ = false;
}

void DiskRoom::KeepForStart() {
  const uint64_t total = sample_.total_bytes, margin = MarginBytes(total), whole = StartBytes(total);
  if (total == 0 || sample_.read_only || start_bytes_ >= whole) return;
  Look();
  uint64_t files = kStartFiles;
  if (given_for_start_ == 0) {
    // Taking it is no reason to be full.
    if (sample_.free_bytes + start_bytes_ < whole + 2 * margin) return;
    start_bytes_ = MakeReserve(StartDir(), whole, files) == 0 ? whole : 0;
  } else {
    // How much is left of it nobody says: root may use more than what counts as free.
    if (sample_.total_files != 0) files = std::min(files, sample_.free_files / 2);
    for (uint64_t bytes = std::min(given_for_start_, whole); start_bytes_ == 0 && bytes >= margin + kIdleBytes;) {
      bytes -= kIdleBytes;
      if (MakeReserve(StartDir(), bytes, files) == 0) start_bytes_ = bytes;
      else RemoveReserve(StartDir());
    }
  }
  if (start_bytes_ == 0) RemoveReserve(StartDir());
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
  const int64_t now_ns = Executor::Current().NowNs();
  if (now_ns - tried_ns_ >= kTryNs) {
    tried_ns_ = now_ns;
    const int err = TryToHave(kTryBytes, 1);
    sample_.over_quota = err == EDQUOT;
    refuses_ = err == EROFS;
  }
  Look();
  Step(true);
  if (level_ < RoomLevel::kFull) {
    given_for_start_ = 0;
    KeepForStart();
  }
}

std::vector<Advice> DiskRoom::Told() { return RoomAdviceOf(sample_, level_, held_, dir_); }

Result<void> DiskRoom::Open() {
  Look();
  const uint64_t margin = MarginBytes(sample_.total_bytes);
  std::error_code ec;
  held_ = std::filesystem::exists(ReserveDir() + "/bytes", ec);
  start_bytes_ = std::filesystem::file_size(StartDir() + "/bytes", ec);
  if (ec) start_bytes_ = 0;
  int err = TryToHave(margin, kStartNeedsFiles);
  const bool full = err == ENOSPC || err == EDQUOT;
  if (full && held_) {
    Release();
    LogWarning("the metadata's disk is full: its reserve is given back, and only what frees space is done");
    Look();
    err = TryToHave(margin, kStartNeedsFiles);
  }
  if (full && err != 0 && start_bytes_ > 0) {
    RemoveReserve(StartDir());
    given_for_start_ = std::exchange(start_bytes_, 0);
    LogWarning("the metadata's disk is full to the last byte: what is kept for a start is given back, and nothing can be changed");
    Look();
    err = TryToHave(margin, kStartNeedsFiles);
  }
  if (sample_.read_only || err == EROFS) {
    return Error(FsError::kRoFs, dir_ + " is on a file system that can only be read: mount it for writing, and start again");
  }
  if (err == ENOSPC || err == EDQUOT) {
    return ErrnoError(err, "have " + FormatSize(margin) + " in " + dir_ + ", which the store needs to start: make room there");
  }
  Step(true);
  if (given_for_start_ == 0) KeepForStart();
  return Ok();
}

}  // namespace stria
