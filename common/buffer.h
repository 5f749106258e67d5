// Shared immutable bytes. A Buffer is a view plus a share in the owner of the bytes: slicing and passing on copy no payload.
// Thread-safe in the way shared_ptr<const T> is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"

#include "common/check.h"
#include "common/units.h"

namespace stria {

class Buffer {
 public:
  Buffer() = default;
  // `owner` keeps [data, data+size) alive and unchanged.
  Buffer(std::shared_ptr<const void> owner, const uint8_t* data, size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}

  static Buffer Copy(std::span<const uint8_t> bytes) {
    auto s = std::make_shared<std::vector<uint8_t>>(bytes.begin(), bytes.end());
    const uint8_t* p = s->data();
    const size_t n = s->size();
    return Buffer(std::move(s), p, n);
  }
  static Buffer FromString(std::string text) {
    auto s = std::make_shared<std::string>(std::move(text));
    const auto* p = reinterpret_cast<const uint8_t*>(s->data());
    const size_t n = s->size();
    return Buffer(std::move(s), p, n);
  }

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const uint8_t> span() const { return {data_, size_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }
  Buffer Slice(size_t offset, size_t length) const {
    CHECK(offset <= size_ && length <= size_ - offset);
    return Buffer(owner_, data_ + offset, length);
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Bytes being filled, 4 KiB aligned (fit for O_DIRECT and ISA-L). Movable; Freeze() makes a Buffer of
// the first `size` bytes without copying.
class MutableBuffer {
 public:
  MutableBuffer() = default;
  explicit MutableBuffer(size_t size) : data_(Pages(AlignUp(size ? size : 1, kAlignment))), size_(size) {}
  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<uint8_t> span() { return {data_.get(), size_}; }
  Buffer Freeze(size_t size) && {
    CHECK(size <= size_);
    const uint8_t* p = data_.get();
    size_ = 0;
    return Buffer(std::move(data_), p, size);
  }
  Buffer Freeze() && {
    const size_t n = size_;
    return std::move(*this).Freeze(n);
  }

 private:
  static constexpr size_t kAlignment = 4096;
  // jemalloc keeps freed memory of up to this many bytes (alignment included) at hand for each thread (common/allocator.h). But
  // an aligned request of more than a few pages bypasses that and goes to the arenas.
  static constexpr size_t kMinByHand = 4 * kAlignment, kMaxByHand = 64 * kKiB;
  static std::shared_ptr<uint8_t> Pages(size_t bytes) {
    const bool by_hand = bytes >= kMinByHand && bytes <= kMaxByHand;
    void* p = by_hand ? std::malloc(bytes + kAlignment) : std::aligned_alloc(kAlignment, bytes);
    CHECK(p != nullptr, "out of memory");
    const std::shared_ptr<void> all(p, &std::free);
    size_t skip = AlignUp(reinterpret_cast<uintptr_t>(p), kAlignment) - reinterpret_cast<uintptr_t>(p);
    return std::shared_ptr<uint8_t>(all, static_cast<uint8_t*>(p) + skip);
  }
  std::shared_ptr<uint8_t> data_;
  size_t size_ = 0;
};

// A byte string in pieces, e.g. the payload of a message.
class BufferChain {
 public:
  BufferChain() = default;
  explicit BufferChain(Buffer b) { Append(std::move(b)); }
  void Append(Buffer b) {
    if (b.empty()) return;
    size_ += b.size();
    parts_.push_back(std::move(b));
  }
  void Append(const BufferChain& other) {
    for (const Buffer& b : other.parts_) Append(b);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::span<const Buffer> parts() const { return parts_; }  // until the chain is changed or moved
  // REQUIRES: offset + length <= size().
  BufferChain Slice(size_t offset, size_t length) const {
    CHECK(offset <= size_ && length <= size_ - offset);
    BufferChain out;
    for (const Buffer& b : parts_) {
      if (length == 0) break;
      if (offset >= b.size()) {
        offset -= b.size();
        continue;
      }
      const size_t n = std::min(length, b.size() - offset);
      out.Append(b.Slice(offset, n));
      length -= n;
      offset = 0;
    }
    return out;
  }
  // REQUIRES: offset + length <= size(). Copies into `to`.
  void CopyTo(size_t offset, size_t length, uint8_t* to) const {
    const BufferChain part = Slice(offset, length);  // a temporary would not outlive the loop's header
    for (const Buffer& b : part.parts()) {
      std::memcpy(to, b.data(), b.size());
      to += b.size();
    }
  }
  // One contiguous Buffer; copies only if there is more than one part.
  Buffer Flatten() const {
    if (parts_.empty()) return Buffer();
    if (parts_.size() == 1) return parts_[0];
    MutableBuffer out(size_);
    CopyTo(0, size_, out.data());
    return std::move(out).Freeze();
  }

 private:
  absl::InlinedVector<Buffer, 2> parts_;  // nearly all have one
  size_t size_ = 0;
};

}  // namespace stria
