#include "meta/calls/trust_calls.h"

#include <algorithm>

#include "common/printable.h"
#include "meta/calls/admin_peer.h"
#include "meta/calls/call_audit.h"
#include "trust/exports.h"

namespace stria {

Result<void> TrustCalls::MayChange(const OpHeader& h) const { return CheckAdminCall(sessions_, h, "says who is of the cluster, and what they may"); }
Result<void> TrustCalls::MayRead(const OpHeader& h) const { return CheckAdminCall(sessions_, h, "is told who is of the cluster, and what they may"); }

// ---- Tokens ---------------------------------------------------------------------------------------

Task<Result<MakeTokenReply>> TrustCalls::MakeToken(MakeTokenRequest r) {
  const OpHeader header = r.header;
  AuditedCall call;
  call.verb = "token make";
  call.arguments = "--role " + std::string(RoleName(r.role)) + (r.name.empty() ? "" : " --name " + r.name) + " --uses " + std::to_string(r.uses) +
                   " --ttl " + std::to_string(r.ttl_s) + "s";
  if (!r.names.empty()) call.arguments += " --names " + r.names;
  for (const std::string& n : r.networks) call.arguments += " --network " + n;
  if (r.trusted_root) call.arguments += " --trusted-root";
  Result<MakeTokenReply> reply = Error(FsError::kAccess);
  if (const Result<void> may = MayChange(header); !may.ok()) {
    reply = may.error();
  } else {
    reply = co_await enrolment_->MakeToken(std::move(r));
  }
  if (reply.ok()) reply->address = address_;
  NoteCall(audit_, header, std::move(call), reply.error(), reply.ok() ? "the token " + reply->token.id + " is made" : "");
  co_return reply;
}

Task<Result<ListTokensReply>> TrustCalls::ListTokens(TrustListRequest r) {
  CO_RETURN_IF_ERROR(MayRead(r.header));
  co_return enrolment_->ListTokens();
}

Task<Result<TrustReply>> TrustCalls::RevokeToken(RevokeTokenRequest r) {
  Result<TrustReply> reply = Error(FsError::kAccess);
  if (const Result<void> may = MayChange(r.header); !may.ok()) {
    reply = may.error();
  } else {
    reply = co_await enrolment_->RevokeToken(r.id, r.dry_run);
  }
  NoteCall(audit_, r.header, {AuditEntry::Kind::kVerb, "token revoke", r.id, r.dry_run}, reply.error(), reply.ok() ? reply->message : "");
  co_return reply;
}

// ---- Certificates ---------------------------------------------------------------------------------

Task<Result<ListCertificatesReply>> TrustCalls::ListCertificates(TrustListRequest r) {
  CO_RETURN_IF_ERROR(MayRead(r.header));
  co_return enrolment_->ListCertificates(r.after);
}

Task<Result<TrustReply>> TrustCalls::RevokeCertificate(RevokeCertificateRequest r) {
  Result<TrustReply> reply = Error(FsError::kAccess);
  if (const Result<void> may = MayChange(r.header); !may.ok()) {
    reply = may.error();
  } else {
    reply = co_await enrolment_->RevokeCertificates(r.which, r.dry_run);
  }
  NoteCall(audit_, r.header, {AuditEntry::Kind::kEnrolment, "cert revoke", r.which, r.dry_run}, reply.error(), reply.ok() ? reply->message : "");
  co_return reply;
}

// Of everybody, for himself.
Task<Result<RenewCertificateReply>> TrustCalls::RenewCertificate(RenewCertificateRequest r) {
  Result<RenewCertificateReply> reply = Error::Denial("a certificate is renewed for who has proved by it who he is");
  if (const Result<void> right = core_->CheckHeader(r.header); !right.ok()) {
    reply = right.error();
  } else if (r.header.peer) {
    if (r.of.empty()) reply = co_await enrolment_->Renew(*r.header.peer, std::move(r.request));
    else reply = co_await enrolment_->RenewOf(*r.header.peer, std::move(r.of), std::move(r.request));
  }
  NoteCall(audit_, r.header, {AuditEntry::Kind::kEnrolment, "renew", "", false}, reply.error(), "another certificate");
  co_return reply;
}

// ---- Exports --------------------------------------------------------------------------------------

Task<Result<ListExportsReply>> TrustCalls::ListExports(TrustListRequest r) {
  CO_RETURN_IF_ERROR(MayRead(r.header));
  ListExportsReply reply;
  for (const Export& e : exports_->List()) reply.lines.push_back(FormatExport(e));
  co_return std::move(reply);
}

Task<Result<TrustReply>> TrustCalls::DoSetExport(const SetExportRequest& r) {
  CO_RETURN_IF_ERROR(MayChange(r.header));
  CO_ASSIGN_OR_RETURN(Export e, ParseExport(r.line));
  const std::vector<Export> all = exports_->List();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Export& o) { return o.path == e.path && o.clients == e.clients; });
  TrustReply reply{std::string(known ? "the export is changed: " : "the export is new: ") + FormatExport(e)};
  if (!enrolment_->secured()) reply.message += "; this cluster is insecure, and nobody is held to it";
  if (!r.dry_run) CO_RETURN_IF_ERROR(co_await exports_->Set(std::move(e)));
  co_return std::move(reply);
}

Task<Result<TrustReply>> TrustCalls::SetExport(SetExportRequest r) {
  Result<TrustReply> reply = co_await DoSetExport(r);
  NoteCall(audit_, r.header, {AuditEntry::Kind::kVerb, "export set", r.line, r.dry_run}, reply.error(), reply.ok() ? reply->message : "");
  co_return reply;
}

Task<Result<TrustReply>> TrustCalls::DoRemoveExport(const RemoveExportRequest& r) {
  CO_RETURN_IF_ERROR(MayChange(r.header));
  // The clients as a line has them; they are read as those are.
  std::vector<ClientPattern> clients;
  if (!r.clients.empty()) {
    if (r.clients.find_first_of(" \t\n") != r.clients.npos) co_return Error(FsError::kInval, "clients are names and networks with commas between, without spaces");
    CO_ASSIGN_OR_RETURN(const Export like, ParseExport("path=/ clients=" + r.clients));
    clients = like.clients;
  }
  if (r.dry_run) {
    const std::vector<Export> all = exports_->List();
    const auto meant = std::count_if(all.begin(), all.end(), [&](const Export& e) { return e.path == r.path && (clients.empty() || e.clients == clients); });
    if (meant == 0) co_return Error(FsError::kNoEnt, "there is no such export of " + Printable(r.path));
    if (meant > 1) co_return Error(FsError::kInval, "there are several exports of " + Printable(r.path) + ": say --clients too");
  } else {
    CO_RETURN_IF_ERROR(co_await exports_->Remove(r.path, std::move(clients)));
  }
  co_return TrustReply{"the export of " + r.path + " is removed; clients that have it mounted by that alone are ended"};
}

Task<Result<TrustReply>> TrustCalls::RemoveExport(RemoveExportRequest r) {
  Result<TrustReply> reply = co_await DoRemoveExport(r);
  NoteCall(audit_, r.header, {AuditEntry::Kind::kVerb, "export remove", r.path + (r.clients.empty() ? "" : " --clients " + r.clients), r.dry_run},
           reply.error(), reply.ok() ? reply->message : "");
  co_return reply;
}

// ---- Clients --------------------------------------------------------------------------------------

Task<Result<ListClientsReply>> TrustCalls::ListClients(TrustListRequest r) {
  CO_RETURN_IF_ERROR(MayRead(r.header));
  ListClientsReply reply;
  for (const SessionId id : sessions_->table().All()) {
    const SessionRecord& record = *sessions_->table().Find(id);
    reply.clients.push_back({id, record.client, record.owner.name, record.node_name, sessions_->table().LeaseLeftNs(id, core_->Now())});
  }
  co_return std::move(reply);
}

Task<Result<TrustReply>> TrustCalls::DoEvict(const EvictClientRequest& r) {
  CO_RETURN_IF_ERROR(MayChange(r.header));
  const SessionRecord* record = sessions_->table().Find(r.session);
  if (record == nullptr) {
    co_return Error(FsError::kNoEnt, "there is no session " + std::to_string(r.session.v) + "; 'stria client ls' lists them");
  }
  TrustReply reply{"the session " + std::to_string(r.session.v) + " of " + record->client +
                   " is ended: what it had not committed is lost, and it may open another one"};
  if (r.dry_run) co_return std::move(reply);
  CO_RETURN_IF_ERROR(coherence_->EvictClient(r.session));
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  co_return std::move(reply);
}

Task<Result<TrustReply>> TrustCalls::EvictClient(EvictClientRequest r) {
  Result<TrustReply> reply = co_await DoEvict(r);
  NoteCall(audit_, r.header, {AuditEntry::Kind::kEviction, "client evict", std::to_string(r.session.v), r.dry_run}, reply.error(),
           reply.ok() ? reply->message : "");
  co_return reply;
}

// ---- Audit and authority --------------------------------------------------------------------------

Task<Result<ReadAuditReply>> TrustCalls::ReadAudit(ReadAuditRequest r) {
  CO_RETURN_IF_ERROR(MayRead(r.header));
  if (audit_ == nullptr) co_return Error(FsError::kNotSupported, "this server keeps no audit");
  CO_ASSIGN_OR_RETURN(AuditTail tail, co_await audit_->Read(r.since_s, std::min<size_t>(r.limit, kMaxAuditLines)));
  co_return ReadAuditReply{std::move(tail.lines), tail.more};
}

Task<Result<ChangeAuthorityReply>> TrustCalls::ChangeAuthority(ChangeAuthorityRequest r) {
  if (r.verb == AuthorityVerb::kShow) {
    CO_RETURN_IF_ERROR(MayRead(r.header));
    co_return co_await enrolment_->ChangeAuthority(r.verb, true, false);
  }
  Result<ChangeAuthorityReply> reply = Error(FsError::kAccess);
  if (const Result<void> may = MayChange(r.header); !may.ok()) {
    reply = may.error();
  } else {
    reply = co_await enrolment_->ChangeAuthority(r.verb, r.dry_run, r.force);
  }
  NoteCall(audit_, r.header, {AuditEntry::Kind::kVerb, r.verb == AuthorityVerb::kRotate ? "ca rotate" : "ca finish", r.force ? "--force" : "", r.dry_run},
           reply.error(), reply.ok() ? reply->message : "");
  co_return reply;
}

// Of metadata servers. Each asks all the time: what is noted is that a key was given, or refused.
Task<Result<FollowAuthorityReply>> TrustCalls::FollowAuthority(FollowAuthorityRequest r) {
  const OpHeader header = r.header;
  const std::string member = Printable(r.member);
  Result<FollowAuthorityReply> reply = Error::Denial("the cluster's authority goes to who has proved to be one of its metadata servers");
  if (const Result<void> right = core_->CheckHeader(header); !right.ok()) {
    reply = right.error();
  } else if (header.peer) {
    reply = co_await enrolment_->Follow(*header.peer, std::move(r));
  }
  if (!reply.ok() || !reply->authority.empty()) {
    NoteCall(audit_, header, {AuditEntry::Kind::kEnrolment, "ca follow", member, false}, reply.error(), "the metadata server " + member + " is given the authority");
  }
  co_return reply;
}

}  // namespace stria
