// Which versions of the protocol two programs have in common. Every request says what its caller speaks (OpHeader, DataHeader); who
// is asked answers by the newest that both speak, or refuses before it looks at anything else. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/error.h"

namespace stria {

// The newest version that this program speaks, and the oldest: that of the last release that it may run beside (docs/operations.md,
// "Versions").
inline constexpr uint32_t kProtocolVersion = 3;
inline constexpr uint32_t kOldestProtocol = 3;

struct ProtocolRange {
  uint32_t oldest = kOldestProtocol;
  uint32_t newest = kProtocolVersion;
  bool operator==(const ProtocolRange&) const = default;
};

// As a header has it: callers of before say one version only, and 0 for the oldest.
inline ProtocolRange ProtocolsOf(uint32_t oldest, uint32_t newest) { return {oldest == 0 ? newest : oldest, newest}; }

inline std::string ProtocolNames(const ProtocolRange& range) {
  if (range.oldest == range.newest) return "protocol " + std::to_string(range.newest);
  return "protocols " + std::to_string(range.oldest) + " to " + std::to_string(range.newest);
}

// The newest that both speak. kVersion with a sentence that says whose program has to be upgraded.
inline Result<uint32_t> CommonProtocol(const ProtocolRange& here, const ProtocolRange& caller) {
  const uint32_t newest = std::min(here.newest, caller.newest);
  if (caller.oldest <= caller.newest && newest >= here.oldest && newest >= caller.oldest) return newest;
  const std::string older = caller.newest < here.oldest ? "the caller's program is too old"
                            : caller.oldest > here.newest ? "this program is too old for its caller"
                                                          : "that is no range";
  return Error(FsError::kVersion, "this program speaks " + ProtocolNames(here) + ", and its caller " + ProtocolNames(caller) + ": " + older +
                                      "; upgrade the older one of the two");
}

// Of a request's header, which afterwards names the one version that both go by.
template <class Header>
Result<void> AgreeOnProtocol(Header* header) {
  const Result<uint32_t> common = CommonProtocol({}, ProtocolsOf(header->oldest_protocol, header->protocol));
  if (!common.ok()) return common.error();
  header->protocol = header->oldest_protocol = *common;
  return Ok();
}
// An error unless this program speaks a version that the header names.
template <class Header>
Result<void> CheckProtocol(const Header& header) {
  const Result<uint32_t> common = CommonProtocol({}, ProtocolsOf(header.oldest_protocol, header.protocol));
  return common.ok() ? Ok() : Result<void>(common.error());
}

}  // namespace stria
