// Records of events in the store (family cluster, docs/formats.md). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"
#include "meta/events/judge.h"

namespace stria {

inline constexpr size_t kMaxEventTextBytes = 2048;  // of each of its strings; the rest is left out

// Without the number, which is in the key.
std::string EncodeEvent(const ClusterEvent& e);
Result<ClusterEvent> DecodeEvent(uint64_t seq, std::string_view record);

std::string EncodeTold(const ToldState& t);
// kCorrupt: also if the key is none of ToldKey.
Result<ToldState> DecodeTold(std::string_view key, std::string_view record, EventKey* of);

// The next event's number, and the incarnation of the store that it was taken in.
struct EventNumbers {
  uint64_t next_seq = 1;
  uint64_t incarnation = 0;
};
std::string EncodeEventNumbers(const EventNumbers& n);
Result<EventNumbers> DecodeEventNumbers(std::string_view record);

}  // namespace stria
