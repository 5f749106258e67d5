// Strong types for the numbers that name things. Two ids of different kinds never compare or convert;
// `.v` is the raw number, for codecs and printing only.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

#include "common/compiler.h"

namespace stria {

template <class Tag, class Rep>
struct StrongId {
  using rep = Rep;
  Rep v{};

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : v(value) {}
  constexpr auto operator<=>(const StrongId&) const = default;
  constexpr explicit operator bool() const { return v != Rep{}; }

  template <class H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.v);
  }
  friend std::ostream& operator<<(std::ostream& os, const StrongId& id) { return os << +id.v; }
};

// 0 is "none" for every id. Stripe, shard and inode numbers are allocated from persisted ranges and
// never used twice.
using InodeId = StrongId<struct InodeTag, uint64_t>;
using StripeId = StrongId<struct StripeTag, uint64_t>;
using ShardId = StrongId<struct ShardTag, uint64_t>;
using NodeId = StrongId<struct NodeTag, uint32_t>;      // a PC; printed "n3"
using TargetId = StrongId<struct TargetTag, uint32_t>;  // one disk of one node; printed "n3:d2"
using SessionId = StrongId<struct SessionTag, uint64_t>;
using OpSeq = StrongId<struct OpSeqTag, uint64_t>;        // dense per session, from 1
using CommitSeq = StrongId<struct CommitSeqTag, uint64_t>;  // dense per metadata store, from 1
using Epoch = StrongId<struct EpochTag, uint64_t>;
using ColumnIndex = StrongId<struct ColumnTag, uint16_t>;

inline constexpr InodeId kRootInode{1};

// 128-bit identity of a cluster, a node, a disk or a store.
struct Uuid {
  uint64_t hi = 0;
  uint64_t lo = 0;
  constexpr auto operator<=>(const Uuid&) const = default;
  constexpr explicit operator bool() const { return hi != 0 || lo != 0; }
  // 8-4-4-4-12 lower-case hex.
  std::string ToString() const;
  // False if `text` is not in that form.
  static bool Parse(const std::string& text, Uuid* out);
  template <class H>
  friend H AbslHashValue(H h, const Uuid& u) {
    return H::combine(std::move(h), u.hi, u.lo);
  }
};

}  // namespace stria

template <class Tag, class Rep>
struct std::hash<stria::StrongId<Tag, Rep>> {
  size_t operator()(const stria::StrongId<Tag, Rep>& id) const { return std::hash<Rep>()(id.v); }
};
