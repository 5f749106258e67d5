#include "trust/audit/denial_log.h"

#include <string>
#include <utility>

namespace stria {

void DenialLog::Note(AuditEntry entry) {
  TellKeptBack();
  if (budget_.Admit(entry.address, Executor::Current().NowNs())) return Add(entry);
  if (!std::exchange(wakes_later_, true)) scope_.Spawn(WakeLater());
}

void DenialLog::Add(const AuditEntry& entry) {
  const std::string line = FormatAudit(entry, Executor::Current().WallNs());
  write_(std::string_view(line).substr(0, line.size() - 1));
}

void DenialLog::TellKeptBack() {
  for (const DenialBudget::KeptBack& k : budget_.TakeEnded(Executor::Current().NowNs())) Add(KeptBackEntry(AuditEntry::Kind::kDenial, k));
}

// Counts are told even if nothing else happens.
Task<void> DenialLog::WakeLater() {
  while (budget_.keeps_back()) {
    co_await Sleep(limits_.window_ns);
    TellKeptBack();
  }
  wakes_later_ = false;
}

}  // namespace stria
