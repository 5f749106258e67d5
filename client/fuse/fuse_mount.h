// A mounted filesystem: the connection to the kernel and the threads that read requests from it.
//
// 1. Mount: libfuse makes the mount; INIT is answered by the first reader.
// 2. Readers hand each request to libfuse, which calls the adapter's operations. The payload of a large
//    write is not copied: its request's buffer goes with it, and the reader takes another.
// 3. libfuse 3.14 cannot answer the newest INIT flags, so its answer is completed on its way out
//    (ExtendInitReply).
// 4. When the mount ends (Stop, umount(8), an aborted connection) the readers end, and `on_gone` is called.
//
// Not for the executor's thread: every method blocks.
#pragma once

#include <fuse3/fuse_lowlevel.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/fuse/fuse_adapter.h"
#include "client/fuse/kernel_cache.h"
#include "client/fuse/mount_table.h"
#include "client/fuse/request_buffers.h"
#include "common/error.h"
#include "common/quick_wake.h"

namespace stria {

struct FuseMountOptions {
  std::string mountpoint;            // from PrepareMountpoint
  std::string fsname = "stria";      // the source that df(1) and mount(8) show
  bool no_symlinks = false;  // none that lies on it is followed
  std::vector<std::string> options;  // as after -o: "ro", "allow_other", ...
  int readers = 2;
  uint32_t max_background = 128;     // of the kernel's asynchronous requests
  uint64_t read_ahead_bytes = 4 * kMiB;  // of the kernel; needs root
  size_t max_idle_buffers = 8;           // 1 MiB each; more go back to the allocator, whose memory is missing afterwards
  size_t max_buffers = 512;
  QuickWake* wake = nullptr;             // hears of each request; outlives the mount
};

class FuseMount {
 public:
  static constexpr uint32_t kMaxWriteBytes = 1 * kMiB;
  static constexpr int64_t kInitTimeoutMs = 10'000;
  static constexpr int64_t kStopTimeoutMs = 1'000;
  static constexpr int64_t kKickPeriodMs = 20;

  // `on_gone` is called once, by the last reader. Adapter and kernel cache outlive the mount. When this
  // returns, the mount answers.
  static Result<std::unique_ptr<FuseMount>> Mount(FuseAdapter& adapter, FuseKernelCache& kernel,
                                                  FuseMountOptions options, std::function<void()> on_gone);
  // REQUIRES: Stop was called, and nothing of the adapter runs any more (Drain).
  ~FuseMount();
  FuseMount(const FuseMount&) = delete;
  FuseMount& operator=(const FuseMount&) = delete;

  // Unmounts, even if files are open, and ends the readers and the connection. No request begins after it, and open files fail,
  // except those that the kernel reads by itself (passthrough.h). Uses SIGUSR2.
  void Stop();

 private:
  FuseMount(FuseAdapter& adapter, FuseKernelCache& kernel, FuseMountOptions options, std::function<void()> on_gone);
  Result<void> Start();
  void ChooseFeatures(fuse_conn_info* conn) const;
  void Disconnect();
  bool WaitReadersEnd(int64_t timeout_ms);
  void ReadLoop();
  void Process(const uint8_t* request, size_t bytes);
  ssize_t Send(int fd, iovec* parts, int count);

  FuseAdapter& adapter_;
  FuseKernelCache& kernel_;
  const FuseMountOptions options_;
  std::function<void()> on_gone_;
  RequestBuffers buffers_;
  fuse_session* session_ = nullptr;
  int fd_ = -1;
  std::optional<MountEntry> entry_;  // as the system knows it
  bool stopped_ = false;

  std::atomic<bool> init_done_ = false;
  fuse_init_in init_in_ = {};      // written before the answer is made, on the same thread
  uint64_t init_unique_ = 0;

  std::mutex mu_;
  std::condition_variable changed_;
  int reading_ = 0;        // guarded by mu_: readers whose connection has not ended
  int readers_ = 0;        // guarded by mu_: those that run
  bool answered_ = false;  // guarded by mu_: INIT
  bool gone_ = false;      // guarded by mu_: the kernel ended the connection
  std::vector<std::thread> threads_;
};

}  // namespace stria
