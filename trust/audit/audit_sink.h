// Who did what, and what became of it: what those that do it tell to whoever writes it down (audit_log.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/error.h"
#include "trust/identity.h"

namespace stria {

struct AuditEntry {
  enum class Kind : uint8_t {
    kVerb = 1,       // of an admin; also one that was only tried (dry run), or failed
    kDenial = 2,     // somebody asked for what is not for him
    kEnrolment = 3,  // a certificate was given, renewed or revoked
    kEviction = 4,   // a client's session was ended
    kSession = 5,    // one was opened: a mount
  };
  Kind kind = Kind::kVerb;
  int64_t time_ns = 0;    // wall clock; 0: when it is told
  std::string peer;       // "admin pc1"; of who has proved nothing what it says of itself, "uid 0"
  std::string address;    // "10.0.0.7:40112"
  std::string verb;       // "node drain"
  std::string arguments;  // "n3 --force"
  std::string outcome;    // "done: n3 is emptied", "refused: .."
};

// Any bytes may be in the strings: who writes them escapes them, and bounds them.
class AuditSink {
 public:
  virtual ~AuditSink() = default;
  // Never waits. Executor's thread.
  virtual void Note(AuditEntry entry) = 0;
};

// Of a peer; null: of nobody who has proved anything.
inline AuditEntry AuditOf(AuditEntry::Kind kind, const Peer* peer, std::string verb, std::string arguments, std::string outcome) {
  AuditEntry e;
  e.kind = kind;
  if (peer != nullptr) {
    e.peer = std::string(RoleName(peer->role)) + " " + peer->name;
    e.address = peer->address;
  }
  e.verb = std::move(verb);
  e.arguments = std::move(arguments);
  e.outcome = std::move(outcome);
  return e;
}

// A call was refused for who asks: a hook for dispatchers (proto/stubs.h). `peer` may be null.
inline void NoteDenial(AuditSink* audit, const Peer* peer, const std::string& method, const Error& why) {
  audit->Note(AuditOf(AuditEntry::Kind::kDenial, peer, method, "", "refused: " + why.message));
}

}  // namespace stria
