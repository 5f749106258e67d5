// The log of a replicated store: which batches it has taken, in order (api/replica_api.h). Pure: records and how two logs
// compare. Formats on disk: docs/formats.md.
//
// Two families beside those of the metadata (meta/model/families.h), which only a replicated store has. They are about this copy
// alone: nothing of them is shipped, copied, archived or looked at by fsck, and two copies that are equal differ in them.
//   log    sequence -> term, chain, bytes so far, the batch as it is shipped
//   state  "base", "history", "marker", "opened", "reviving"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/replica_api.h"
#include "common/error.h"
#include "common/kv/kv.h"
#include "meta/model/families.h"

namespace stria {

inline constexpr KvFamily kReplicaLogFamily = static_cast<KvFamily>(kFamilies);
inline constexpr KvFamily kReplicaStateFamily = static_cast<KvFamily>(kFamilies + 1);
inline constexpr size_t kReplicatedFamilies = kFamilies + 2;

// Names of these two, in their order.
std::vector<std::string> ReplicaFamilyNames();

std::string LogRowKey(CommitSeq seq);
inline std::string LogBaseKey() { return "base"; }
inline std::string LogHistoryKey() { return "history"; }
inline std::string LogMarkerKey() { return "marker"; }
inline std::string LogRevivingKey() { return "reviving"; }  // beside a marker: the store is being revived (revival.h), not copied
// The last term that this copy was opened in by a primary, as Key64: not of the log, and kept by rewinds and copies.
inline std::string LogOpenedKey() { return "opened"; }

struct LogRowRecord {
  uint64_t term = 0;
  uint64_t chain = 0;
  uint64_t total_bytes = 0;  // of all batches since the base, this one included
  std::string encoded;       // EncodeArchivedBatch
  std::string Encode() const;
  static Result<LogRowRecord> Decode(CommitSeq seq, std::string_view value);
};

// Where the log begins: the store was at this point when it began to be replicated, or to be copied.
struct LogBaseRecord {
  LogPoint point;
  uint64_t incarnation = 0;  // of the cluster's store
  std::string Encode() const;
  static Result<LogBaseRecord> Decode(std::string_view value);
};

// It is there while the store is not what its log says: values were fetched that are newer. The store is whole again when its log
// has reached `fetched`. If no primary has that point any more, what was fetched is of a history that has ended.
struct LogMarkerRecord {
  bool all = false;             // every key may be newer (copy); else those of `keys`
  LogPoint fetched;             // seq 0: a copy is under way, and nothing can be said yet
  std::vector<FetchKey> keys;   // in order, each once
  std::string Encode() const;
  static Result<LogMarkerRecord> Decode(std::string_view value);
};

std::string EncodeHistory(const std::vector<TermRun>& history);
Result<std::vector<TermRun>> DecodeHistory(std::string_view value);

// The chain at a batch that follows a point with chain `prev`.
uint64_t ChainAfter(uint64_t prev, uint64_t term, std::string_view encoded);

// The last sequence that both logs have under the same term, and the term; batches of the same sequence and term are the same.
// nullopt: not known to have anything in common. The histories are of logs that end at `last_a`, `last_b`.
struct CommonEnd {
  CommitSeq seq;
  uint64_t term = 0;
};
std::optional<CommonEnd> FindCommonEnd(const std::vector<TermRun>& a, CommitSeq last_a, const std::vector<TermRun>& b,
                                       CommitSeq last_b);
// `history` up to `last`: later runs are left out.
std::vector<TermRun> HistoryUpTo(std::vector<TermRun> history, CommitSeq last);
// Terms and sequences grow.
bool IsHistory(const std::vector<TermRun>& history);

}  // namespace stria
