// Looks after the disks of a running data server. A disk that goes away (unmounted, pulled out, replaced in its own directory,
// taken out by an admin) is released within a heartbeat. A disk in its place is used as soon as it may be: the same disk again,
// or a new one when the cluster knows no other there. Lost indexes are made again.
//
// Looks each second: while it has a disk, for the disk; otherwise, at its place. What is new in the settings is one more place; the disk of
// a place that is in them no more is let go, whatever is waited for there: a disk that hangs, or an index that is being made again. For
// the executor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "common/exec/task.h"
#include "server/data_node.h"
#include "server/disk_changes.h"
#include "server/disk_open.h"
#include "server/local_opener.h"

namespace stria {

inline constexpr int64_t kAwaitRegistrationNs = 100 * kMillisecond;

struct DiskWatchTimes {
  int64_t look_for_disk_ns = 1 * kSecond;      // between two looks
  int64_t look_at_place_ns = 2 * kSecond;
  int64_t try_refused_again_ns = 10 * kSecond;
};

class DiskWatch {
 public:
  // All outlive it; `disks` are the node's, by the same numbers. It adds to them, and changes none but by its number: references stay good.
  DiskWatch(DataNode* node, LocalOpener* local, std::deque<OpenDisk>* disks, DiskEnv env, const DiskWatchTimes& times = {})
      : node_(node), local_(local), disks_(disks), env_(std::move(env)), times_(times) {}
  // After the node's start.
  void Start();
  // After Start. The settings have these disks now: others are let go within seconds, new ones are looked for. Gives what that changes; the
  // numbers of those that are added follow upon the last one. A place that nothing is said of any more has an empty `spec`, in the end.
  DiskChanges TakeSettings(const std::vector<DiskSpec>& wanted);
  // Call before the node's end. It keeps parts of gone disks until its own end.
  void Stop() { scope_.CancelAll(); }

 private:
  Task<void> Follow(size_t i);
  Task<void> Keep(size_t i);
  Task<void> MakeIndexAgain(size_t i);
  void Drop(size_t i);
  Task<void> AwaitEnd(size_t i);
  Task<void> TakeWhatIsThere(size_t i);
  Task<Result<bool>> TryPlace(size_t i);
  Error TakenOut(const Uuid& disk) const;  // by an admin; ok(): it was not
  void LetGo(size_t i, const Error& why);
  Task<void> KeepOut(size_t i, Error why);
  Task<void> Refuse(size_t i, Error why);
  static Task<bool> Close(OpenDisk d, Error why);

  DataNode* const node_;
  LocalOpener* const local_;
  std::deque<OpenDisk>* const disks_;
  const DiskEnv env_;
  const DiskWatchTimes times_;
  std::deque<Event> leaves_;    // by number: set when it is not in the settings any more
  std::vector<OpenDisk> gone_;  // closed; calls that still run may know them
  struct Refused {
    Uuid disk;
    Error why;
    int64_t until_ns = 0;
  };
  std::map<size_t, Refused> refused_;  // by number: the disk that lies there may not be used, and is not opened for a while
  TaskScope scope_;
};

}  // namespace stria
