// The audit as text, and how much of it is written: pure. Time is given by the caller. Not thread-safe.
//
// One entry is one line, a JSON object:
//
//   {"time_s":1700000000,"time":"2023-11-14T22:13:20Z","kind":"verb","peer":"admin pc1","address":"10.0.0.7:40112",
//    "verb":"node drain","arguments":"n3","outcome":"done: n3 is emptied"}
//
// Its strings are printable: what peers sent as control bytes, or is not UTF-8, is \ooo in them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/units.h"
#include "trust/audit/audit_sink.h"

namespace stria {

inline constexpr size_t kMaxAuditFieldBytes = 1024;  // of what was told; the rest is left out

std::string_view AuditKindName(AuditEntry::Kind kind);
// With its newline. `now_ns`: the wall clock, for an entry that does not say.
std::string FormatAudit(const AuditEntry& entry, int64_t now_ns);
// When it was, in seconds; none if it is no such line.
std::optional<int64_t> TimeOfAudit(std::string_view line);

// The last lines of `text` that are not earlier than since_s, oldest first: so many, and so many bytes, at most. What comes before
// the first newline is left out if `cut`: the text begins anywhere.
struct AuditTail {
  std::vector<std::string> lines;  // without newlines
  bool more = false;               // there are earlier ones since then in the text
};
AuditTail TailOfAudit(std::string_view text, bool cut, int64_t since_s, size_t max_lines, size_t max_bytes);

// Whether a file of that size becomes an old one before so many bytes are added.
inline bool MustRotate(uint64_t size, size_t more, uint64_t max_bytes) { return size > 0 && size + more > max_bytes; }

// How many denials are written: whoever asks again and again for what is not for him does not fill the disk, nor push what
// matters out of it.
struct DenialLimits {
  int64_t window_ns = 60 * kSecond;
  size_t per_place = 10;    // in a window
  size_t in_all = 300;
  size_t max_places = 1024;  // that are told apart; the rest counts as one
};
class DenialBudget {
 public:
  explicit DenialBudget(const DenialLimits& limits = {}) : limits_(limits) {}
  // Of an address with or without port. IPv6: its network of 64 bits, as who has one has all of it.
  static std::string PlaceOf(std::string_view address);
  // Whether this one is written. `now_ns` never jumps.
  bool Admit(std::string_view address, int64_t now_ns);
  // Of windows that have ended: how many were not.
  struct KeptBack {
    std::string place;
    uint64_t count = 0;
  };
  std::vector<KeptBack> TakeEnded(int64_t now_ns);
  bool keeps_back() const { return kept_back_ > 0; }
  size_t places() const { return places_.size(); }

 private:
  struct Place {
    int64_t since_ns = 0;
    size_t written = 0;
    uint64_t kept_back = 0;
  };
  const DenialLimits limits_;
  std::map<std::string, Place, std::less<>> places_;
  uint64_t kept_back_ = 0;  // in all places
  int64_t since_ns_ = INT64_MIN;
  size_t written_ = 0;
};

// What is written of those that were kept back.
AuditEntry KeptBackEntry(AuditEntry::Kind kind, const DenialBudget::KeptBack& k);

}  // namespace stria
