// Keys and tokens that the target of tokens and its test share.
#pragma once

#include <string>
#include <vector>

#include "common/bound_token.h"
#include "common/token.h"

namespace stria::token_samples {

inline constexpr int64_t kNowS = 1'800'000'000;
inline constexpr Uuid kNode{1, 2};
inline constexpr uint64_t kIncarnation = 5;
inline constexpr SessionId kSession{7};

// Key 1 signs; key 2 is known, and signs nothing.
inline ClusterKey Key(uint32_t id) {
  ClusterKey key;
  key.id = id;
  key.secret.fill(static_cast<uint8_t>(0x50 + id));
  return key;
}
inline ClusterKey NodeKeyOfToday() { return DeriveNodeKey(Key(1), kNode, KeyGeneration(kNowS)); }

// All that were ever made.
inline std::vector<OpenProof> OpenProofs() {
  return {{kSession, InodeId(100), 3, kOpenRead | kOpenWrite}, {kSession, InodeId(5), 1, kOpenRead}, {kSession, InodeId(200), 256, kOpenNumber}};
}

}  // namespace stria::token_samples
