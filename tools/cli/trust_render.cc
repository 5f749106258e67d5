#include "tools/cli/trust_render.h"

#include <absl/strings/str_join.h>

#include <algorithm>

#include "common/printable.h"

namespace stria::cli {
namespace {

std::string Role1(Role role) { return std::string(RoleName(role)); }

std::string OrDash(const std::string& text) { return text.empty() ? "-" : Printable(text); }

std::string State(const CertificateInfo& c) { return c.revoked ? "revoked" : c.trusted_root ? "trusted root" : "-"; }

// A string of a JSON object; "" if it has none.
std::string Text(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

Json Parsed(const std::string& line) { return Json::parse(line, nullptr, false); }

}  // namespace

std::string UntilText(int64_t at_s, int64_t now_s) { return at_s < now_s ? "over" : "in " + HumanDuration(at_s - now_s); }

std::string RenderTokens(const std::vector<JoinTokenInfo>& tokens, int64_t now_s) {
  if (tokens.empty()) return "no token lets anybody join\n";
  Table t;
  t.header = {"TOKEN", "ROLE", "NAME", "USED", "ENDS", "FROM", "ROOT"};
  t.right = {false, false, false, true};
  for (const JoinTokenInfo& i : tokens) {
    t.rows.push_back({i.id, Role1(i.role), OrDash(i.name.empty() ? i.names : i.name), std::to_string(i.used) + " of " + std::to_string(i.uses), UntilText(i.expires_s, now_s),
                      OrDash(absl::StrJoin(i.networks, ", ")), i.trusted_root ? "trusted" : "-"});
  }
  return RenderTable(t, 0);
}

Json TokenJson(const JoinTokenInfo& t) {
  return {{"id", t.id},           {"role", Role1(t.role)},      {"name", t.name},           {"uses", t.uses},
          {"used", t.used},       {"networks", t.networks},     {"expires_s", t.expires_s}, {"trusted_root", t.trusted_root},
          {"names", t.names}};
}

std::string DescribeToken(const JoinTokenInfo& t, int64_t now_s) {
  std::string out = "lets ";
  if (!t.name.empty()) out += "the machine " + Printable(t.name) + " join as " + Role1(t.role) + ", once";
  else out += Count(t.uses, "machine", "machines") + " join as " + Role1(t.role) + ", each under its own name";
  if (!t.names.empty()) out += " of the form " + Printable(t.names);
  if (!t.networks.empty()) out += ", from " + PrintableList(t.networks);
  if (t.trusted_root) out += "; their root counts as root";
  if (t.role == Role::kMeta) out += ", and be the cluster's authority, as all metadata servers are";
  return out + "; for " + HumanDuration(std::max<int64_t>(0, t.expires_s - now_s));
}

std::string RenderCertificates(const std::vector<CertificateInfo>& certificates, int64_t now_s) {
  if (certificates.empty()) return "no certificate is known\n";
  Table t;
  t.header = {"ROLE", "NAME", "STATE", "ENDS", "FROM", "SERIAL"};
  for (const CertificateInfo& c : certificates) {
    t.rows.push_back({Role1(c.role), OrDash(c.name), State(c), UntilText(c.not_after_s, now_s), OrDash(c.address), OrDash(c.serial)});
  }
  std::stable_sort(t.rows.begin(), t.rows.end());
  return RenderTable(t, 0);
}

std::string RenderCertificate(const CertificateInfo& c, int64_t now_s) {
  return "serial:    " + Printable(c.serial) + "\nis:        " + Role1(c.role) + " " + Printable(c.name) + (c.revoked ? "  (REVOKED)" : "") +
         "\nends:      " + UntilText(c.not_after_s, now_s) + "\ngiven:     " + HumanDuration(std::max<int64_t>(0, now_s - c.given_s)) + " ago" +
         (c.address.empty() ? "" : ", to " + Printable(c.address)) + (c.token.empty() ? "" : ", for the token " + Printable(c.token)) +
         "\nroot:      " + (c.trusted_root ? "trusted" : "as the export says") + "\nkey:       sha256=" + Printable(c.key) +
         "\nauthority: sha256=" + Printable(c.issuer) + "\n";
}

Json CertificateJson(const CertificateInfo& c) {
  return {{"serial", c.serial},   {"role", Role1(c.role)},   {"name", c.name},       {"key_sha256", c.key},
          {"issuer_sha256", c.issuer}, {"token", c.token},   {"address", c.address}, {"given_s", c.given_s},
          {"not_after_s", c.not_after_s}, {"trusted_root", c.trusted_root}, {"revoked", c.revoked}};
}

std::string RenderClients(const std::vector<ClientInfo>& clients) {
  if (clients.empty()) return "no client is connected\n";
  Table t;
  t.header = {"SESSION", "OWNER", "NODE", "LEASE", "CLIENT"};
  t.right = {true, false, false, true};
  for (const ClientInfo& c : clients) {
    t.rows.push_back({std::to_string(c.session.v), OrDash(c.owner), OrDash(c.node), c.lease_left_ns > 0 ? HumanDuration(c.lease_left_ns / kSecond) : "lapsed",
                      OrDash(c.client)});
  }
  return RenderTable(t, 0);
}

Json ClientsJson(const std::vector<ClientInfo>& clients) {
  Json out = Json::array();
  for (const ClientInfo& c : clients) {
    out.push_back({{"session", c.session.v}, {"client", c.client}, {"owner", c.owner}, {"node", c.node}, {"lease_left_ns", c.lease_left_ns}});
  }
  return out;
}

std::string RenderAuthorities(const ChangeAuthorityReply& r, int64_t now_s) {
  std::string out;
  for (const AuthorityInfo& a : r.authorities) {
    out += "sha256=" + Printable(a.hash) + "\n  ends " + UntilText(a.not_after_s, now_s) + (a.signs ? "; signs" : "; is believed") + "; " +
           Count(a.in_force, "certificate", "certificates") + " in use";
    if (!a.whose.empty()) out += ": " + PrintableList(a.whose) + (a.in_force > a.whose.size() ? ", .." : "");
    out += "\n";
    if (!a.lacking.empty()) out += "  metadata servers: " + Printable(absl::StrJoin(a.lacking, ", ")) + "\n";
  }
  return out;
}

Json AuthoritiesJson(const ChangeAuthorityReply& r) {
  Json all = Json::array();
  for (const AuthorityInfo& a : r.authorities) {
    all.push_back({{"sha256", a.hash}, {"not_after_s", a.not_after_s}, {"signs", a.signs}, {"in_force", a.in_force}, {"whose", a.whose},
                   {"lacking", a.lacking}});
  }
  return {{"message", r.message}, {"authorities", all}};
}

std::string RenderAudit(const ReadAuditReply& r) {
  if (r.lines.empty()) return "nothing was noted\n";
  std::string out = r.more ? "(there are earlier lines; ask for fewer with --since, or for more with --limit)\n" : "";
  for (const std::string& line : r.lines) {
    const Json j = Parsed(line);
    if (!j.is_object()) {
      out += Printable(line) + "\n";
      continue;
    }
    const std::string address = Text(j, "address"), arguments = Text(j, "arguments"), peer = Text(j, "peer");
    out += Printable(Text(j, "time") + "  " + (peer.empty() ? "somebody" : peer) + (address.empty() ? "" : " at " + address) + "  " + Text(j, "verb") +
                     (arguments.empty() ? "" : " " + arguments) + "  " + Text(j, "outcome")) +
           "\n";
  }
  return out;
}

Json AuditJson(const ReadAuditReply& r) {
  Json lines = Json::array();
  for (const std::string& line : r.lines) {
    Json j = Parsed(line);
    lines.push_back(j.is_object() ? std::move(j) : Json(line));
  }
  return {{"lines", lines}, {"more", r.more}};
}

}  // namespace stria::cli
