// SimDisk: a Disk in virtual time with seeded faults. Its content lives in a SimDiskMedia, which outlives it: destroy the
// process's frames, call media->Crash(), make another SimDisk.
//
// A crash may do what POSIX and real disks allow, not what they usually do:
//   - of the pages (4 KiB) changed since the last SyncFiles each may hold any state it had since, or
//     a mix of two of them in 512-byte steps; the size may be old, new or in between;
//   - a file whose name was not synced may be gone; one that was removed may be back;
//   - a change whose coroutine was destroyed before it was done happens later, or (crash) never.
// Everything is decided by the seeds: the same calls give the same results.
//
// For the executor's thread only.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/io/disk.h"
#include "common/random.h"
#include "common/units.h"

namespace stria {

struct SimDiskOptions {
  std::string name = "sim";  // in error messages
  uint64_t capacity_bytes = kTiB;
  int64_t op_latency_ns = 80 * kMicrosecond;     // each operation takes 0.5 to 1.5 times this ...
  int64_t sync_latency_ns = 250 * kMicrosecond;  // ... each sync this ...
  uint64_t bytes_per_s = 1'000'000'000;          // ... and then its share of the transfer rate
  // The kernel writes back unsynced changes: after this a removal no longer comes back.
  int64_t writeback_ns = 30 * kSecond;
};

// Knobs; change them at any time. The countdowns: 0 = off, 1 = the next one, 2 = the one after.
struct SimDiskFaults {
  uint32_t read_error_percent = 0;   // kDiskFailed
  uint32_t write_error_percent = 0;  // also of Truncate, Remove, ReplaceFile
  uint32_t sync_error_percent = 0;
  uint32_t lost_write_percent = 0;         // reports success, the pages keep their old bytes
  uint32_t misdirected_write_percent = 0;  // reports success, the bytes land in other pages
  uint32_t fail_read_in = 0;
  uint32_t fail_write_in = 0;
  uint32_t fail_sync_in = 0;
  uint32_t lose_write_in = 0;
  uint32_t misdirect_write_in = 0;
  bool dead = false;       // everything is kDiskFailed
  bool hung = false;       // nothing finishes until this is cleared
  double slow_factor = 1;  // of all latencies
};

class SimDiskMedia {
 public:
  explicit SimDiskMedia(uint64_t seed, SimDiskOptions options = {});

  // The content after the process ends. REQUIRES: its tasks are destroyed. `power_cut` = false is a kill -9: only calls under
  // way are uncertain.
  void Crash(Random& rng, bool power_cut = true);

  SimDiskFaults faults;

  // Bit rot. False if the file has no such byte.
  bool FlipBit(const std::string& name, uint64_t offset, int bit);
  // Flips a bit of a random byte of a random file whose name starts with `prefix`; nullopt if there is none.
  std::optional<DiskFile> FlipRandomBit(Random& rng, const std::string& prefix = "");

  // The content as the running process would see it, without time or faults; tests' additions are durable.
  std::optional<std::string> Content(const std::string& name) const;
  void SetContent(const std::string& name, const std::string& bytes);
  void EraseFile(const std::string& name);
  std::vector<DiskFile> Files(const std::string& prefix = "") const;
  uint64_t used_bytes() const { return used_pages_ * kPage; }
  void set_capacity_bytes(uint64_t bytes) { options_.capacity_bytes = bytes; }
  // Changes with every name and byte: for comparing runs of one seed.
  uint64_t Digest() const;

 private:
  friend class SimDisk;
  static constexpr uint64_t kPage = 4096;
  static constexpr size_t kMaxVersions = 4;  // of one page that a crash chooses from
  using PageBytes = std::array<uint8_t, kPage>;
  using Page = std::shared_ptr<const PageBytes>;  // null: zeros
  struct Inode {
    uint64_t size = 0;
    uint64_t durable_size = 0;
    std::map<uint64_t, Page> pages;
    std::map<uint64_t, std::vector<Page>> dirty;  // earlier states since the last sync, oldest first
    bool poisoned = false;                        // a sync failed: later ones must not succeed
  };
  using InodePtr = std::shared_ptr<Inode>;

  Error Failed(const char* what, const std::string& name) const;
  bool Hits(uint32_t percent, uint32_t* countdown);
  // When an operation that starts now is done.
  int64_t DoneNs(int64_t now_ns, int64_t latency_ns, uint64_t bytes);
  void RunOrphans(int64_t now_ns);  // those that are due, and old removals
  class InFlight;
  template <class T>
  static Task<Result<T>> Run(std::shared_ptr<SimDiskMedia> media, int64_t latency_ns, uint64_t bytes,
                             bool change, std::function<Result<T>()> apply);

  Result<InodePtr> Find(const std::string& name) const;
  Result<InodePtr> FindOrCreate(const std::string& name);
  void SetPage(Inode& inode, uint64_t index, Page page);
  void Store(Inode& inode, uint64_t offset, const BufferChain& data);
  void Shrink(Inode& inode, uint64_t size);
  Buffer Load(const Inode& inode, uint64_t offset, uint64_t length) const;
  static void MakeDurable(Inode& inode);
  static void CrashInode(Random& rng, Inode& inode);
  void CountPages();

  Result<Buffer> DoRead(const std::string& name, uint64_t offset, uint64_t length);
  Result<void> DoWrite(const std::string& name, uint64_t offset, const BufferChain& data);
  Result<void> DoSync(const std::vector<std::string>& names);
  Result<void> DoRemove(const std::string& name, int64_t now_ns);
  Result<void> DoTruncate(const std::string& name, uint64_t size);
  Result<void> DoReplace(const std::string& name, const Buffer& content);
  void Misdirect(uint64_t offset, const BufferChain& data);

  SimDiskOptions options_;
  Random rng_;
  std::map<std::string, InodePtr> names_;
  std::map<std::string, InodePtr> durable_names_;
  std::deque<std::pair<int64_t, std::string>> removals_;  // time, name
  // Changes whose coroutine is destroyed, by (due, order).
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> orphans_;
  uint64_t orphan_seq_ = 0;
  uint64_t used_pages_ = 0;
  int64_t transfer_until_ns_ = 0;
};

class SimDisk final : public Disk {
 public:
  explicit SimDisk(std::shared_ptr<SimDiskMedia> media) : media_(std::move(media)) {}

  Task<Result<Buffer>> Read(std::string name, uint64_t offset, uint64_t length) override;
  Task<Result<Buffer>> ReadOnce(std::string name, uint64_t offset, uint64_t length) override {
    return Read(std::move(name), offset, length);
  }
  Task<Result<Buffer>> ReadStored(std::string name, uint64_t offset, uint64_t length) override {
    return Read(std::move(name), offset, length);  // has no caches
  }
  Task<Result<void>> Write(std::string name, uint64_t offset, BufferChain data) override;
  Task<Result<void>> Reserve(std::string name, uint64_t size) override;
  Task<Result<void>> SyncFiles(std::vector<std::string> names) override;
  Task<Result<void>> Remove(std::string name) override;
  Task<Result<void>> Truncate(std::string name, uint64_t size) override;
  Task<Result<void>> ReplaceFile(std::string name, Buffer content) override;
  Task<Result<std::vector<DiskFile>>> List(std::string directory) override;
  Task<Result<DiskSpace>> Space() override;
  Result<int> OpenForRead(const std::string& name) override;

 private:
  const std::shared_ptr<SimDiskMedia> media_;
};

}  // namespace stria
