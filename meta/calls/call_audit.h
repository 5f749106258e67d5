// The line of the audit for a call of an admin, whatever became of it.
#pragma once

#include <string>
#include <utility>

#include "api/types.h"
#include "trust/audit/audit_sink.h"

namespace stria {

struct AuditedCall {
  AuditEntry::Kind kind = AuditEntry::Kind::kVerb;
  std::string verb;       // as the command line has it: "node drain"
  std::string arguments;  // for people
  bool dry_run = false;
};

// `audit` may be null: nobody is told. A proved peer's denial is told by the dispatcher (DispatchOptions::refused), not once more here.
// What fails of a proved peer that is no admin counts among the denials, so that nobody fills the audit with calls that fail.
inline void NoteCall(AuditSink* audit, const OpHeader& header, AuditedCall call, const Error& error, const std::string& message) {
  if (audit == nullptr || (header.peer && error.denies)) return;
  const bool denied = error.denies || (!header.peer && (error.code == FsError::kAccess || error.code == FsError::kPerm));
  const bool bounded = denied || (!error.ok() && header.peer && header.peer->role != Role::kAdmin);
  std::string outcome = denied        ? "refused: " + error.message
                        : !error.ok() ? "failed: " + error.message
                                      : std::string(call.dry_run ? "would: " : "done: ") + message;
  AuditEntry e = AuditOf(bounded ? AuditEntry::Kind::kDenial : call.kind, header.peer.get(), std::move(call.verb), std::move(call.arguments),
                         std::move(outcome));
  if (!header.peer) e.peer = "uid " + std::to_string(header.uid);
  audit->Note(std::move(e));
}

}  // namespace stria
