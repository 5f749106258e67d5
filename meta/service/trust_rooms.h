// The part of the metadata server that is about who is of the cluster: the room of enrolment, the calls about trust, the audit, and
// what the cluster's map says of certificates.
//
// Owns these rooms. Invariant: an answer that lets a machine in, or out, is given when that is durable.
//
// Called by MetaServer (its life and its clock) and by the main program, before Start.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "meta/audit/audit_log.h"
#include "meta/calls/admin_calls.h"
#include "meta/calls/trust_calls.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/coherence/coherence.h"
#include "meta/core/meta_core.h"
#include "meta/enrolment/authority_keeper.h"
#include "meta/enrolment/enrolment_room.h"
#include "meta/enrolment/member_authorities.h"
#include "meta/exports/export_room.h"
#include "trust/authority.h"
#include "trust/enrolment.h"

namespace stria {

// What a server knows of the cluster's certificates at its start.
struct MetaTrust {
  std::shared_ptr<const Authority> authority;
  std::shared_ptr<const Authority> next;  // of a change under way; null: there is none
  AuthorityKeeper* keeper = nullptr;      // outlives the server
  Revoked revoked;                        // of the file
  std::vector<Certificate> given;         // the server's own, the first admin's
  int64_t life_s = kCertificateDays * kDayS;  // of certificates that are given from now on
  std::function<Result<MemberSecrets>()> member;  // EnrolmentRoom::UseMembers
  ListedMembers others;                           // EnrolmentRoom::UseOthers; null: it serves alone
};

class TrustRooms {
 public:
  // All outlive it.
  TrustRooms(MetaCore* core, Coherence* coherence, ExportRoom* exports, ClusterKeeper* cluster, AdminCalls* admins);

  // ---- Before the server's start ----
  // Without it the cluster is insecure. What was asked for below is gone.
  void Use(MetaTrust trust);
  void UseAudit(AuditLog* audit);  // null: there is none. Outlives the server
  // Of this server, as others reach it, for tokens to join with: host:port. At any time.
  void UseAddress(const std::string& address);

  TrustService* service() { return calls_.get(); }
  EnrolmentRoom* enrolment() { return enrolment_.get(); }
  const EnrolmentRoom* enrolment() const { return enrolment_.get(); }

  // ---- Of MetaServer ----
  Result<void> Load(Txn& txn) { return enrolment_->Load(txn); }
  // When all rooms are loaded; durable with the next sync.
  Result<void> Begin();
  void Tick() { enrolment_->Tick(); }
  void NoteSession(const OpHeader& header, const std::string& what, SessionId session);

 private:
  void UseOthers();
  void Tell();
  void EndRevoked();

  MetaCore* const core_;
  Coherence* const coherence_;
  ExportRoom* const exports_;
  ClusterKeeper* const cluster_;
  AdminCalls* const admins_;
  MetaTrust trust_;
  AuditLog* audit_ = nullptr;
  std::string address_;
  std::unique_ptr<EnrolmentRoom> enrolment_;
  std::unique_ptr<TrustCalls> calls_;
};

}  // namespace stria
