#include "meta/events/event_record.h"

#include "common/codec.h"

namespace stria {
namespace {

Error Malformed(const char* what) { return Error(FsError::kCorrupt, std::string("a record of ") + what + " does not decode"); }

}  // namespace

std::string EncodeEvent(const ClusterEvent& e) {
  ByteWriter w;
  w.I64(e.time_ns);
  w.U8(static_cast<uint8_t>(e.severity));
  w.U32(e.count);
  w.I64(e.last_ns);
  for (const std::string* s : {&e.kind, &e.subject, &e.text, &e.action}) w.Str(std::string_view(*s).substr(0, kMaxEventTextBytes));
  return SealRecord(1, w.str());
}

Result<ClusterEvent> DecodeEvent(uint64_t seq, std::string_view record) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(record, 1, &version, &body)) return Malformed("an event");
  ByteReader r(body);
  ClusterEvent e;
  e.seq = seq;
  e.time_ns = r.I64();
  const uint8_t severity = r.U8();
  e.count = r.U32();
  e.last_ns = r.I64();
  for (std::string* s : {&e.kind, &e.subject, &e.text, &e.action}) *s = r.Str();
  if (!r.ok() || severity > static_cast<uint8_t>(EventSeverity::kCritical)) return Malformed("an event");
  e.severity = static_cast<EventSeverity>(severity);
  return e;
}

std::string EncodeTold(const ToldState& t) {
  ByteWriter w;
  w.U8(t.level);
  w.U64(t.seq);
  return SealRecord(1, w.str());
}

Result<ToldState> DecodeTold(std::string_view key, std::string_view record, EventKey* of) {
  ByteReader k(key);
  const uint8_t letter = k.U8(), track = k.U8();
  uint8_t version = 0;
  std::string_view body;
  if (letter != 'J' || !k.ok() || track < 1 || track > kEventTracks || !OpenRecord(record, 1, &version, &body)) return Malformed("what was told");
  of->track = static_cast<EventTrack>(track);
  of->subject = std::string(k.rest());
  ByteReader r(body);
  ToldState t;
  t.level = r.U8();
  t.seq = r.U64();
  if (!r.ok()) return Malformed("what was told");
  return t;
}

std::string EncodeEventNumbers(const EventNumbers& n) {
  ByteWriter w;
  w.U64(n.next_seq);
  w.U64(n.incarnation);
  return SealRecord(1, w.str());
}

Result<EventNumbers> DecodeEventNumbers(std::string_view record) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(record, 1, &version, &body)) return Malformed("the numbers of events");
  ByteReader r(body);
  EventNumbers n;
  n.next_seq = r.U64();
  n.incarnation = r.U64();
  if (!r.ok() || n.next_seq == 0) return Malformed("the numbers of events");
  return n;
}

}  // namespace stria
