// Records of family cluster that are one number.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/codec.h"
#include "meta/store/txn.h"

namespace stria {

inline std::string EncodeNumber(uint64_t number) {
  ByteWriter w;
  w.U64(number);
  return SealRecord(1, w.str());
}

// 0 if there is no such record.
inline Result<uint64_t> DecodeNumber(const std::string& key, const std::optional<std::string>& value) {
  if (!value) return uint64_t{0};
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(*value, 1, &version, &body) || body.size() < 8) {
    return CorruptRecord(Family::kCluster, key, "it does not decode");
  }
  return ByteReader(body).U64();
}
inline Result<uint64_t> ReadNumber(Txn& txn, const std::string& key) {
  ASSIGN_OR_RETURN(const auto value, txn.Get(Family::kCluster, key));
  return DecodeNumber(key, value);
}

}  // namespace stria
