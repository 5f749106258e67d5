#include "meta/audit/audit_log.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace stria {
namespace {

constexpr size_t kReadBytes = 2 << 20;  // of lines in an answer

}  // namespace

AuditLog::AuditLog(Pool* pool, std::string path, const AuditLogOptions& options)
    : pool_(pool),
      path_(std::move(path)),
      options_(options),
      file_(std::make_shared<AuditFile>(path_, options.max_file_bytes, options.files)),
      denials_(options.denials),
      sessions_(options.sessions) {}

void AuditLog::Start() { scope_.Spawn(Write()); }

void AuditLog::Note(AuditEntry entry) {
  if (DenialBudget* const budget = BudgetOf(entry.kind); budget != nullptr && !budget->Admit(entry.address, Executor::Current().NowNs())) {
    if (!std::exchange(wakes_later_, true)) scope_.Spawn(WakeLater());
    return;
  }
  Add(entry);
}

DenialBudget* AuditLog::BudgetOf(AuditEntry::Kind kind) {
  if (kind == AuditEntry::Kind::kDenial) return &denials_;
  return kind == AuditEntry::Kind::kSession ? &sessions_ : nullptr;
}

void AuditLog::Add(const AuditEntry& entry) {
  std::string line = FormatAudit(entry, Executor::Current().WallNs());
  LogInfo("audit: {}", std::string_view(line).substr(0, line.size() - 1));
  if (waiting_.size() >= options_.max_waiting) {
    ++dropped_;
  } else {
    waiting_.push_back(std::move(line));
  }
  wake_.Set();
}

void AuditLog::AddKeptBack(DenialBudget* budget, AuditEntry::Kind kind) {
  for (const DenialBudget::KeptBack& k : budget->TakeEnded(Executor::Current().NowNs())) {
    Add(KeptBackEntry(kind, k));
  }
}

// Counts are told even if nothing else happens.
Task<void> AuditLog::WakeLater() {
  while (denials_.keeps_back() || sessions_.keeps_back()) {
    co_await Sleep(std::min(options_.denials.window_ns, options_.sessions.window_ns));
    AddKeptBack(&denials_, AuditEntry::Kind::kDenial);
    AddKeptBack(&sessions_, AuditEntry::Kind::kSession);
  }
  wakes_later_ = false;
}

Task<Result<void>> AuditLog::Flush() {
  const SemaphoreHold held = co_await mu_.Lock();
  wake_.Reset();
  const size_t count = waiting_.size();
  const uint64_t dropped = dropped_;
  if (count == 0 && dropped == 0) co_return Ok();
  std::string lines;
  for (const std::string& line : waiting_) lines += line;
  if (dropped > 0) {
    AuditEntry e;
    e.verb = "(several)";
    e.outcome = std::to_string(dropped) + " lines are missing here: more was noted than could be written to " + path_;
    lines += FormatAudit(e, Executor::Current().WallNs());
  }
  Result<void> written = co_await RunOn(*pool_, [file = file_, lines = std::move(lines)] { return file->Append(lines); });
  if (written.ok()) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(count));
    dropped_ -= dropped;
  }
  if (!written.ok() && !std::exchange(fails_, true)) LogError("the audit is not written: {}; what is noted meanwhile is kept, up to a limit", written.error());
  if (written.ok() && std::exchange(fails_, false)) LogInfo("the audit is written again");
  co_return written;
}

Task<void> AuditLog::Write() {
  for (;;) {
    co_await wake_.Wait();
    if ((co_await Flush()).ok()) continue;
    co_await Sleep(options_.again_ns);
    wake_.Set();
  }
}

Task<Result<AuditTail>> AuditLog::Read(int64_t since_s, size_t limit) {
  (void)co_await Flush();  // what is in the file can be read, though nothing more can be written
  const SemaphoreHold held = co_await mu_.Lock();
  co_return co_await RunOn(*pool_, [file = file_, since_s, limit] { return file->Tail(since_s, limit, kReadBytes); });
}

}  // namespace stria
