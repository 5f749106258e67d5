#include "client/fuse/request_buffers.h"

#include <chrono>
#include <cstdlib>
#include <utility>

#include "common/check.h"
#include "common/units.h"

namespace stria {
namespace {
constexpr size_t kPageBytes = 4096;
}  // namespace

struct RequestBuffers::State {
  size_t header_bytes = 0;
  size_t payload_bytes = 0;
  size_t max_idle = 0;
  size_t max_out = 0;

  std::mutex mu;
  std::condition_variable came_back;
  std::vector<void*> idle;  // guarded by mu; the last used is the warmest
  size_t out = 0;           // guarded by mu
  bool closed = false;      // guarded by mu

  ~State() {
    for (void* p : idle) std::free(p);
  }
  void GiveBack(void* p) {
    {
      std::lock_guard<std::mutex> lock(mu);
      --out;
      if (!closed && idle.size() < max_idle) {
        idle.push_back(p);
        p = nullptr;
      }
    }
    came_back.notify_one();
    std::free(p);
  }
};

RequestBuffers::RequestBuffers(size_t header_bytes, size_t payload_bytes, size_t max_idle, size_t max_out)
    : state_(std::make_shared<State>()) {
  CHECK(header_bytes > 0 && header_bytes <= kPageBytes);
  state_->header_bytes = header_bytes;
  state_->payload_bytes = AlignUp(payload_bytes, kPageBytes);
  state_->max_idle = max_idle;
  state_->max_out = max_out;
}

RequestBuffers::~RequestBuffers() {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->closed = true;
}

size_t RequestBuffers::capacity_bytes() const { return state_->header_bytes + state_->payload_bytes; }

std::shared_ptr<uint8_t> RequestBuffers::Take() {
  State& s = *state_;
  void* p = nullptr;
  {
    std::unique_lock<std::mutex> lock(s.mu);
    if (s.out >= s.max_out) {
      s.came_back.wait_for(lock, std::chrono::milliseconds(kMaxWaitMs), [&s] { return s.out < s.max_out; });
    }
    ++s.out;
    if (!s.idle.empty()) {
      p = s.idle.back();
      s.idle.pop_back();
    }
  }
  if (!p) p = std::aligned_alloc(kPageBytes, kPageBytes + s.payload_bytes);
  CHECK(p != nullptr, "out of memory");
  // The header ends where the page ends, so that the payload starts with a page.
  auto* start = static_cast<uint8_t*>(p) + (kPageBytes - s.header_bytes);
  return std::shared_ptr<uint8_t>(start, [state = state_, p](uint8_t*) { state->GiveBack(p); });
}

}  // namespace stria
