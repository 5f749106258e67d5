// The output of the verbs about trust: pure, as render.h. What peers call themselves is shown printable. Times are wall clock, in seconds.
#pragma once

#include <string>
#include <vector>

#include "api/trust_api.h"
#include "tools/cli/json.h"
#include "tools/cli/render.h"

namespace stria::cli {

// "in 59 min 58 s", "over"
std::string UntilText(int64_t at_s, int64_t now_s);

std::string RenderTokens(const std::vector<JoinTokenInfo>& tokens, int64_t now_s);
Json TokenJson(const JoinTokenInfo& t);
// "lets the machine n6 join as data, once, within 1 h"
std::string DescribeToken(const JoinTokenInfo& t, int64_t now_s);

std::string RenderCertificates(const std::vector<CertificateInfo>& certificates, int64_t now_s);
// All that is known of one.
std::string RenderCertificate(const CertificateInfo& c, int64_t now_s);
Json CertificateJson(const CertificateInfo& c);

std::string RenderClients(const std::vector<ClientInfo>& clients);
Json ClientsJson(const std::vector<ClientInfo>& clients);

std::string RenderAuthorities(const ChangeAuthorityReply& r, int64_t now_s);
Json AuthoritiesJson(const ChangeAuthorityReply& r);

// Lines that are none of the audit are shown as they are.
std::string RenderAudit(const ReadAuditReply& r);
Json AuditJson(const ReadAuditReply& r);

}  // namespace stria::cli
