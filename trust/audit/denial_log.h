// Denials of a server that keeps no audit of its own, as lines of its log: the same lines, and as few of them, as in the audit.
//
// Invariant: what is kept back is counted, and told within a window. Executor's thread.
#pragma once

#include <functional>
#include <string_view>

#include "common/exec/task.h"
#include "trust/audit/audit_lines.h"
#include "trust/audit/audit_sink.h"

namespace stria {

class DenialLog final : public AuditSink {
 public:
  // `write` takes a line without its newline.
  using Write = std::function<void(std::string_view line)>;
  explicit DenialLog(Write write, const DenialLimits& limits = {}) : write_(std::move(write)), limits_(limits), budget_(limits) {}

  void Note(AuditEntry entry) override;

 private:
  void Add(const AuditEntry& entry);
  void TellKeptBack();
  Task<void> WakeLater();

  const Write write_;
  const DenialLimits limits_;
  DenialBudget budget_;
  bool wakes_later_ = false;
  TaskScope scope_;  // last
};

}  // namespace stria
