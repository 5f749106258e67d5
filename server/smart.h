// What disks say of themselves (SMART). This server runs nothing as root: a timer of the system, stria-smart, leaves the output of
// `smartctl --json -a` for each block device in a directory, as DEVICE.json, and this reads it. Finding the devices below a directory
// needs no rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "common/error.h"
#include "common/units.h"

namespace stria {

// Pure: the output of smartctl, of any kind of disk. kBadRequest: it is none. A disk without SMART has its health unknown.
Result<DiskSmart> ParseSmart(const std::string& device, std::string_view json);

// The worst of those that a disk lies on (a mirror of two): one that is failing, else the first one that says something.
DiskSmart WorstOf(const std::vector<DiskSmart>& all);

// Whole disks below a device number: "sda" of a partition, of what LVM, LUKS or MD make of it, of the filesystem that a loop device's file
// is in. Empty: it is on none (tmpfs, the network, btrfs). Blocks. `sys`: "/sys", or a test's.
std::vector<std::string> DevicesBelow(dev_t number, const std::string& sys);

struct SmartOptions {
  std::string directory = "/run/stria-smart";  // "": nothing is read
  std::string sys = "/sys";
  int64_t period_ns = 60 * kSecond;
  int64_t old_ns = 24 * 3600 * kSecond;  // what is older says nothing
};

// Looks again and again, on a thread of its own, which nobody waits for: a disk that hangs keeps only that. Any thread may ask.
class SmartWatch {
 public:
  SmartWatch(std::vector<std::string> paths, SmartOptions options);
  ~SmartWatch();
  // One more path; it is looked at soon.
  void Add(std::string path);
  // Of the i-th path, as last read; without a device if nothing is known.
  DiskSmart Of(size_t i) const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// One look at what lies below `path`. Blocks.
DiskSmart LookAtSmart(const std::string& path, const SmartOptions& options);

}  // namespace stria
