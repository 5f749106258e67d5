// Bytes of records: little-endian fixed-width fields and length-prefixed strings, read with bounds
// checks so that hostile bytes give an error and never a crash. Keys use big-endian so that they sort.
//
// Every stored value starts with {u8 version, u32 body length} (BeginRecord/OpenRecord). A reader
// takes any body at least as long as it knows and ignores the rest; unknown versions are refused.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "common/check.h"
#include "common/compiler.h"

namespace stria {

class ByteWriter {
 public:
  void U8(uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void U16(uint16_t v) { Fixed(v); }
  void U32(uint32_t v) { Fixed(v); }
  void U64(uint64_t v) { Fixed(v); }
  void I64(int64_t v) { Fixed(static_cast<uint64_t>(v)); }
  void Bool(bool v) { U8(v ? 1 : 0); }
  void Str(std::string_view s) {
    CHECK(s.size() <= UINT32_MAX);
    U32(static_cast<uint32_t>(s.size()));
    out_.append(s);
  }
  void Raw(std::string_view s) { out_.append(s); }
  // Big-endian, for keys.
  void Key8(uint8_t v) { U8(v); }
  void Key32(uint32_t v) {
    for (int i = 3; i >= 0; --i) U8(static_cast<uint8_t>(v >> (8 * i)));
  }
  void Key64(uint64_t v) {
    for (int i = 7; i >= 0; --i) U8(static_cast<uint8_t>(v >> (8 * i)));
  }
  size_t size() const { return out_.size(); }
  std::string Take() { return std::move(out_); }
  const std::string& str() const { return out_; }

 private:
  template <class T>
  void Fixed(T v) {
    char b[sizeof(T)];
    std::memcpy(b, &v, sizeof v);  // all supported machines are little-endian
    out_.append(b, sizeof v);
  }
  std::string out_;
};

// After any read beyond the end ok() is false and reads give zeros.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}
  uint8_t U8() { return Fixed<uint8_t>(); }
  uint16_t U16() { return Fixed<uint16_t>(); }
  uint32_t U32() { return Fixed<uint32_t>(); }
  uint64_t U64() { return Fixed<uint64_t>(); }
  int64_t I64() { return static_cast<int64_t>(Fixed<uint64_t>()); }
  bool Bool() {
    const uint8_t b = U8();
    if (b > 1) ok_ = false;
    return b == 1;
  }
  std::string_view Raw(size_t n) {
    if (!ok_ || n > in_.size()) {
      ok_ = false;
      return {};
    }
    std::string_view s = in_.substr(0, n);
    in_.remove_prefix(n);
    return s;
  }
  std::string_view Str() { return Raw(U32()); }
  uint32_t Key32() { return static_cast<uint32_t>(BigEndian(4)); }
  uint64_t Key64() { return BigEndian(8); }
  // For a count of items that take at least `min_bytes` each: false (and !ok) if they cannot fit.
  bool Count(uint32_t* n, size_t min_bytes) {
    *n = U32();
    if (ok_ && static_cast<uint64_t>(*n) * min_bytes > in_.size()) ok_ = false;
    if (!ok_) *n = 0;
    return ok_;
  }
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  size_t left() const { return in_.size(); }
  std::string_view rest() const { return in_; }

 private:
  template <class T>
  T Fixed() {
    T v{};
    std::string_view s = Raw(sizeof(T));
    if (ok_) std::memcpy(&v, s.data(), sizeof v);
    return v;
  }
  uint64_t BigEndian(size_t n) {
    uint64_t v = 0;
    for (size_t i = 0; i < n; ++i) v = v << 8 | U8();
    return v;
  }
  std::string_view in_;
  bool ok_ = true;
};

// {version, length, body}
inline std::string SealRecord(uint8_t version, std::string_view body) {
  ByteWriter w;
  w.U8(version);
  w.Str(body);
  return w.Take();
}
// The body; false if malformed or the version is not in [1, newest].
inline bool OpenRecord(std::string_view record, uint8_t newest, uint8_t* version, std::string_view* body) {
  ByteReader r(record);
  *version = r.U8();
  *body = r.Str();
  return r.ok() && *version >= 1 && *version <= newest;
}

}  // namespace stria
