// The audit: one line for each verb of an admin, each denial, enrolment, eviction and mount, in the log of the server and in a file
// that only its user reads.
//
// Owns: the lines that are not written yet, how many denials and mounts of each address were, and the file.
//
// Invariants: noting never waits and never fails. What waits to be written is bounded; what is dropped, and the denials and mounts
// beyond the limits, are counted in a line of their own. Lines are in the file in the order in which they were noted.
//
// Called by the calls of admins, EnrolmentRoom, Coherence and the dispatchers' hosts. Sees no room. Executor's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "meta/audit/audit_file.h"
#include "trust/audit/audit_lines.h"
#include "trust/audit/audit_sink.h"

namespace stria {

struct AuditLogOptions {
  size_t max_waiting = 4096;            // lines
  uint64_t max_file_bytes = 64 << 20;   // then it becomes an old one
  size_t files = 8;
  DenialLimits denials;
  // Of mounts: a client may open sessions as fast as it likes.
  DenialLimits sessions = {.per_place = 60, .in_all = 3000, .max_places = 8192};
  int64_t again_ns = 10 * kSecond;      // after the file could not be written
};

class AuditLog final : public AuditSink {
 public:
  // `pool` outlives it and its work.
  AuditLog(Pool* pool, std::string path, const AuditLogOptions& options = {});
  ~AuditLog() override { Stop(); }
  // Lines are written from now on.
  void Start();
  void Stop() { scope_.CancelAll(); }

  void Note(AuditEntry entry) override;
  // What was noted is in the file when it returns, or why not.
  Task<Result<void>> Flush();
  // Lines since then, the last `limit` of them; what was noted is written first.
  Task<Result<AuditTail>> Read(int64_t since_s, size_t limit);

 private:
  void Add(const AuditEntry& entry);
  DenialBudget* BudgetOf(AuditEntry::Kind kind);  // null: of these each is written
  void AddKeptBack(DenialBudget* budget, AuditEntry::Kind kind);
  Task<void> Write();
  Task<void> WakeLater();

  Pool* const pool_;
  const std::string path_;
  const AuditLogOptions options_;
  const std::shared_ptr<AuditFile> file_;
  DenialBudget denials_, sessions_;
  std::deque<std::string> waiting_;
  uint64_t dropped_ = 0;  // since the last line that says so
  bool fails_ = false;
  bool wakes_later_ = false;
  Event wake_;
  AsyncMutex mu_;  // the file
  TaskScope scope_;
};

}  // namespace stria
