#include "meta/replica/replica_log.h"

#include <algorithm>
#include <utility>

#include "common/codec.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stria {
namespace {

constexpr uint8_t kVersion1 = 1;
constexpr size_t kMinRunBytes = 8 + 8;
constexpr size_t kMinKeyBytes = 1 + 4;

Error Corrupt(std::string_view what) {
  return Error(FsError::kCorrupt, "the replica's " + std::string(what) + " does not decode");
}

void PutPoint(ByteWriter& w, const LogPoint& p) {
  w.U64(p.seq.v);
  w.U64(p.term);
  w.U64(p.chain);
}
LogPoint TakePoint(ByteReader& r) {
  LogPoint p;
  p.seq.v = r.U64();
  p.term = r.U64();
  p.chain = r.U64();
  return p;
}

}  // namespace

std::vector<std::string> ReplicaFamilyNames() { return {"replica_log", "replica_state"}; }

std::string LogRowKey(CommitSeq seq) {
  ByteWriter w;
  w.Key64(seq.v);
  return w.Take();
}

std::string LogRowRecord::Encode() const {
  ByteWriter w;
  w.U64(term);
  w.U64(chain);
  w.U64(total_bytes);
  w.Str(encoded);
  return SealRecord(kVersion1, w.str());
}

Result<LogRowRecord> LogRowRecord::Decode(CommitSeq seq, std::string_view value) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kVersion1, &version, &body)) return Corrupt("log row " + std::to_string(seq.v));
  ByteReader r(body);
  LogRowRecord out;
  out.term = r.U64();
  out.chain = r.U64();
  out.total_bytes = r.U64();
  out.encoded = std::string(r.Str());
  if (!r.ok()) return Corrupt("log row " + std::to_string(seq.v));
  return out;
}

std::string LogBaseRecord::Encode() const {
  ByteWriter w;
  PutPoint(w, point);
  w.U64(incarnation);
  return SealRecord(kVersion1, w.str());
}

Result<LogBaseRecord> LogBaseRecord::Decode(std::string_view value) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kVersion1, &version, &body)) return Corrupt("record of where its log begins");
  ByteReader r(body);
  LogBaseRecord out;
  out.point = TakePoint(r);
  out.incarnation = r.U64();
  if (!r.ok()) return Corrupt("record of where its log begins");
  return out;
}

std::string LogMarkerRecord::Encode() const {
  ByteWriter w;
  w.Bool(all);
  PutPoint(w, fetched);
  w.U32(static_cast<uint32_t>(keys.size()));
  for (const FetchKey& k : keys) {
    w.U8(k.family);
    w.Str(k.key);
  }
  return SealRecord(kVersion1, w.str());
}

Result<LogMarkerRecord> LogMarkerRecord::Decode(std::string_view value) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kVersion1, &version, &body)) return Corrupt("marker");
  ByteReader r(body);
  LogMarkerRecord out;
  out.all = r.Bool();
  out.fetched = TakePoint(r);
  uint32_t keys = 0;
  r.Count(&keys, kMinKeyBytes);
  for (uint32_t i = 0; i < keys && r.ok(); ++i) {
    FetchKey& k = out.keys.emplace_back();
    k.family = r.U8();
    k.key = std::string(r.Str());
  }
  if (!r.ok()) return Corrupt("marker");
  return out;
}

std::string EncodeHistory(const std::vector<TermRun>& history) {
  ByteWriter w;
  w.U32(static_cast<uint32_t>(history.size()));
  for (const TermRun& run : history) {
    w.U64(run.term);
    w.U64(run.first.v);
  }
  return SealRecord(kVersion1, w.str());
}

Result<std::vector<TermRun>> DecodeHistory(std::string_view value) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kVersion1, &version, &body)) return Corrupt("history of terms");
  ByteReader r(body);
  uint32_t runs = 0;
  r.Count(&runs, kMinRunBytes);
  std::vector<TermRun> out(runs);
  for (TermRun& run : out) {
    run.term = r.U64();
    run.first.v = r.U64();
  }
  if (!r.ok() || !IsHistory(out)) return Corrupt("history of terms");
  return out;
}

uint64_t ChainAfter(uint64_t prev, uint64_t term, std::string_view encoded) {
  ByteWriter w;
  w.U64(prev);
  w.U64(term);
  const uint64_t seed = XXH3_64bits(w.str().data(), w.size());
  return XXH3_64bits_withSeed(encoded.data(), encoded.size(), seed);
}

std::optional<CommonEnd> FindCommonEnd(const std::vector<TermRun>& a, CommitSeq last_a, const std::vector<TermRun>& b,
                                       CommitSeq last_b) {
  CommitSeq at = std::min(last_a, last_b);
  size_t i = a.size(), j = b.size();
  while (true) {
    // The runs that have `at`.
    while (i > 0 && a[i - 1].first > at) --i;
    while (j > 0 && b[j - 1].first > at) --j;
    if (i == 0 || j == 0) return std::nullopt;
    if (a[i - 1].term == b[j - 1].term) return CommonEnd{at, a[i - 1].term};
    const CommitSeq first = std::max(a[i - 1].first, b[j - 1].first);
    if (first.v == 0) return std::nullopt;
    at = CommitSeq(first.v - 1);
  }
}

std::vector<TermRun> HistoryUpTo(std::vector<TermRun> history, CommitSeq last) {
  while (!history.empty() && history.back().first > last) history.pop_back();
  return history;
}

bool IsHistory(const std::vector<TermRun>& history) {
  for (size_t i = 1; i < history.size(); ++i) {
    if (history[i].term <= history[i - 1].term || history[i].first <= history[i - 1].first) return false;
  }
  return true;
}

}  // namespace stria
