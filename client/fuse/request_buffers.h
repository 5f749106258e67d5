// The memory that kernel requests are read into. The payload of a write stays where it was read: the
// buffer becomes the owner of the Buffer that Vfs keeps until it is committed, and comes back here when
// the last share of it ends. Thread-safe; buffers may outlive the pool.
//
// A kept payload holds its whole buffer, so only a payload that fills most of it is kept (WorthKeeping); others are copied.
// (Writes of 64 KiB that each held 1 MiB used up all buffers after a few MiB, and then each request waited kMaxWaitMs.)
//
// Bounds: `max_idle` free buffers are kept. With `max_out` in use, Take waits kMaxWaitMs for one to come back (write-back is
// slower than the writers) and then makes another: a reader that waited for ever could hold up the very request that frees one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/compiler.h"

namespace stria {

class RequestBuffers {
 public:
  static constexpr int kMaxWaitMs = 100;

  // Whether a payload of `bytes` may stay in a buffer for one of `payload_bytes`; otherwise it is copied.
  static constexpr bool WorthKeeping(size_t bytes, size_t payload_bytes) { return bytes >= LeastKept(payload_bytes); }
  // How many buffers can be held at once by kept payloads that are `held_bytes` together at most.
  static constexpr size_t HoldingAtMost(uint64_t held_bytes, size_t payload_bytes) {
    return held_bytes / LeastKept(payload_bytes) + 1;
  }

  // A request of `header_bytes` and then `payload_bytes` fits; payload is page-aligned.
  RequestBuffers(size_t header_bytes, size_t payload_bytes, size_t max_idle, size_t max_out);
  ~RequestBuffers();
  RequestBuffers(const RequestBuffers&) = delete;
  RequestBuffers& operator=(const RequestBuffers&) = delete;

  // The place to read a request to; capacity_bytes() long.
  std::shared_ptr<uint8_t> Take();
  size_t capacity_bytes() const;

 private:
  static constexpr size_t LeastKept(size_t payload_bytes) { return payload_bytes - payload_bytes / 4; }

  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace stria
