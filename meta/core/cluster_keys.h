// Keys of the families that are this layer's own: cluster and repairs. One letter, then big-endian
// numbers. On disk (docs/formats.md).
#pragma once

#include <string>
#include <string_view>

#include "common/codec.h"
#include "common/ids.h"

namespace stria {

// Family cluster.
inline std::string NodeRecordPrefix() { return "N"; }
inline std::string NodeRecordKey(NodeId id) {
  ByteWriter w;
  w.Raw("N");
  w.Key32(id.v);
  return w.Take();
}
// Nodes that were removed, and may not register by themselves.
inline std::string RemovedNodePrefix() { return "X"; }
inline std::string RemovedNodeKey(NodeId id) {
  ByteWriter w;
  w.Raw("X");
  w.Key32(id.v);
  return w.Take();
}
inline std::string TargetRecordPrefix() { return "T"; }
inline std::string TargetRecordKey(TargetId id) {
  ByteWriter w;
  w.Raw("T");
  w.Key32(id.v);
  return w.Take();
}
inline std::string MapVersionKey() { return "V"; }
inline std::string TermRecordKey() { return "E"; }
// In a copy of the store that is not the cluster's any more: the later life that was heard of.
inline std::string OvertakenKey() { return "O"; }
// After a restore: until when (wall clock, ns) shards that the metadata does not know are kept.
inline std::string UnknownHoldKey() { return "H"; }
// Exports, in order. The prefix itself: the list was changed once, and is what the records say, even if there is none.
inline std::string ExportRecordPrefix() { return "P"; }
inline std::string ExportsChangedKey() { return ExportRecordPrefix(); }
inline std::string ExportRecordKey(uint32_t number) {
  ByteWriter w;
  w.Raw("P");
  w.Key32(number);
  return w.Take();
}
inline bool ParseExportRecordKey(std::string_view key, uint32_t* number) {
  ByteReader r(key);
  const bool letter = r.U8() == 'P';
  *number = r.Key32();
  return letter && r.ok() && r.left() == 0;
}
// Tokens to join with, by their verifier; certificates that were given, and that are revoked, by their serial numbers in hex.
inline std::string JoinGrantPrefix() { return "G"; }
inline std::string JoinGrantKey(std::string_view verifier) { return JoinGrantPrefix() + std::string(verifier); }
inline std::string GivenPrefix() { return "C"; }
inline std::string GivenKey(std::string_view serial) { return GivenPrefix() + std::string(serial); }
inline std::string RevokedPrefix() { return "R"; }
inline std::string RevokedKey(std::string_view serial) { return RevokedPrefix() + std::string(serial); }

// What happened (meta/events): events by number; what was told last of each subject; the next number.
inline std::string EventPrefix() { return "L"; }
inline std::string EventRecordKey(uint64_t seq) {
  ByteWriter w;
  w.Raw("L");
  w.Key64(seq);
  return w.Take();
}
inline bool ParseEventRecordKey(std::string_view key, uint64_t* seq) {
  ByteReader r(key);
  const bool letter = r.U8() == 'L';
  *seq = r.Key64();
  return letter && r.ok() && r.left() == 0;
}
inline std::string ToldPrefix() { return "J"; }
inline std::string ToldKey(uint8_t track, std::string_view subject) {
  ByteWriter w;
  w.Raw("J");
  w.Key8(track);
  w.Raw(subject);
  return w.Take();
}
inline std::string EventNumbersKey() { return "Q"; }

// Family repairs.
inline std::string RepairTaskPrefix() { return "T"; }
inline std::string RepairTaskKey(uint64_t task) {
  ByteWriter w;
  w.Raw("T");
  w.Key64(task);
  return w.Take();
}
inline std::string BadShardPrefix() { return "B"; }
inline std::string BadShardKey(StripeId stripe, uint16_t column) {
  ByteWriter w;
  w.Raw("B");
  w.Key64(stripe.v);
  w.Key32(column);
  return w.Take();
}
inline std::string WidenPrefix() { return "W"; }
inline std::string WidenKey(uint64_t task) {
  ByteWriter w;
  w.Raw("W");
  w.Key64(task);
  return w.Take();
}
inline std::string FoldPrefix() { return "F"; }
inline std::string FoldKey(uint64_t task) {
  ByteWriter w;
  w.Raw("F");
  w.Key64(task);
  return w.Take();
}
inline std::string RepairSettingsKey() { return "S"; }
inline std::string ScrubOrdersKey() { return "C"; }
inline std::string RepairDonePrefix() { return "D"; }
inline std::string RepairDoneKey(TargetId target) {
  ByteWriter w;
  w.Raw("D");
  w.Key32(target.v);
  return w.Take();
}
inline std::string MovedTargetPrefix() { return "M"; }
inline std::string MovedTargetKey(TargetId target) {
  ByteWriter w;
  w.Raw("M");
  w.Key32(target.v);
  return w.Take();
}
inline bool ParseTargetLetterKey(std::string_view key, char letter, uint32_t* target) {
  if (key.size() != 5 || key[0] != letter) return false;
  *target = 0;
  for (size_t i = 1; i < 5; ++i) *target = *target << 8 | static_cast<uint8_t>(key[i]);
  return true;
}
inline bool ParseRepairDoneKey(std::string_view key, uint32_t* target) { return ParseTargetLetterKey(key, 'D', target); }

}  // namespace stria
