#include "tools/cli/member_render.h"

#include <algorithm>

#include "common/printable.h"

namespace stria::cli {
namespace {

std::vector<std::string> InSync(const MemberStatusReply& r) {
  std::vector<std::string> names;
  for (const MemberState& m : r.members) {
    if (m.in_sync) names.push_back(m.name);
  }
  return names;
}

std::string NumberOrDash(uint64_t n) { return n == 0 ? "-" : std::to_string(n); }

bool Follows(const MemberState& m) { return m.role == MemberRole::kStandby || m.role == MemberRole::kJoining || m.role == MemberRole::kPrimary; }

}  // namespace

const MemberState* FindMember(const MemberStatusReply& r, const std::string& name) {
  const auto m = std::find_if(r.members.begin(), r.members.end(), [&](const MemberState& one) { return one.name == name; });
  return m == r.members.end() ? nullptr : &*m;
}

const MemberState* Successor(const MemberStatusReply& r) {
  const MemberState* best = nullptr;
  for (const MemberState& m : r.members) {
    if (m.name == r.primary || !m.in_sync || m.role != MemberRole::kStandby) continue;
    if (best == nullptr || m.lag < best->lag) best = &m;
  }
  return best;
}

std::vector<Finding> DiagnoseMembers(const MemberStatusReply& r) {
  std::vector<Finding> out;
  const auto find = [&](Health severity, std::string what, std::string action = "") {
    out.push_back({severity, std::move(what), std::move(action)});
  };
  const std::vector<std::string> in_sync = InSync(r);
  const MemberState* const primary = FindMember(r, r.primary);
  if (r.version == 0) {
    find(Health::kAtRisk, "This metadata server has not read from the coordinator who is primary.", "Look whether etcd runs on its PCs:  systemctl status etcd");
  } else if (primary == nullptr || primary->role != MemberRole::kPrimary) {
    const std::string is = primary == nullptr ? "not known" : std::string("is ") + MemberRoleName(primary->role);
    find(Health::kAtRisk, "Of the metadata servers nobody serves: the primary " + (primary == nullptr ? "is " : Printable(primary->name) + " ") + is + ".",
         "Another takes over within seconds, if it is in sync and etcd has a majority; if none does, start " + PrintableList(in_sync) + ".");
  }
  if (r.version != 0 && in_sync.size() < r.min_in_sync) {
    find(Health::kAtRisk, "Of the metadata, syncs wait: " + Count(in_sync.size(), "server is", "servers are") + " in sync, and " +
                              std::to_string(r.min_in_sync) + " are needed.", "Start the metadata servers that do not run; they catch up by themselves.");
  } else if (r.version != 0 && r.members.size() > 1 && in_sync.size() == 1) {
    find(Health::kDegraded, "Of the metadata only one copy is left of what is done now: that of " + PrintableList(in_sync) + ".",
         "Start the other metadata servers; they catch up by themselves.");
  }
  for (const MemberState& m : r.members) {
    const std::string name = "Metadata server " + Printable(m.name);
    if (m.role == MemberRole::kUnreachable) {
      find(Health::kDegraded, name + " does not answer at " + Printable(m.address) + ".",
           "Start it:  systemctl start stria-meta  there. If it does not come back:  stria meta remove " + Printable(m.name));
    } else if (!m.problem.empty()) {
      find(Health::kDegraded, name + ": " + Printable(m.problem) + ".");
    }
    if (m.role != MemberRole::kUnreachable && !m.coordinator) {
      find(Health::kDegraded, name + " does not reach the coordinator" + (m.coordinator_problem.empty() ? "" : ": " + Printable(m.coordinator_problem)) + ".",
           "Look whether etcd runs on its PCs:  systemctl status etcd   Nothing stops, but nobody could take over.");
    }
    if (Follows(m) && !m.in_sync && m.name != r.primary) find(Health::kHealthy, name + " is catching up.");
  }
  std::stable_sort(out.begin(), out.end(), [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return out;
}

std::string RenderMembersLine(const MemberStatusReply& r) {
  std::string out = "  metas: " + (r.primary.empty() ? "no primary is known" : Printable(r.primary) + " serves in term " + NumberOrDash(r.term));
  size_t asked = 0, reach = 0;
  for (const MemberState& m : r.members) {
    asked += m.role != MemberRole::kUnreachable;
    reach += m.coordinator;
    if (m.name == r.primary) continue;
    out += ", " + Printable(m.name) + " is " + (m.role == MemberRole::kStandby && m.in_sync ? "in sync" : MemberRoleName(m.role));
    if (m.lag > 0) out += " (" + std::to_string(m.lag) + " behind)";
  }
  return out + "; etcd is " + (reach == 0 ? "not reached" : reach < asked ? "reached by " + std::to_string(reach) + " of " + std::to_string(asked) : "reached") + "\n";
}

std::string RenderMembers(const MemberStatusReply& r) {
  std::string out = r.primary.empty() ? "no primary is known" : "primary " + Printable(r.primary);
  out += ", term " + NumberOrDash(r.term) + "; in sync: " + (InSync(r).empty() ? "none" : PrintableList(InSync(r)));
  if (r.min_in_sync > 0) out += " (a sync is answered when " + std::to_string(r.min_in_sync) + (r.min_in_sync == 1 ? " has it)" : " have it)");
  out += "\n";
  Table t;
  t.header = {"NAME", "ROLE", "IN SYNC", "TERM", "LAST", "BEHIND", "ETCD", "ADDRESS"};
  t.right = {false, false, false, true, true, true};
  for (const MemberState& m : r.members) {
    const bool answers = m.role != MemberRole::kUnreachable;
    t.rows.push_back({Printable(m.name), MemberRoleName(m.role), m.in_sync ? "yes" : "no", NumberOrDash(m.term), NumberOrDash(m.last.v),
                      m.name == r.primary ? "-" : std::to_string(m.lag), !answers ? "?" : m.coordinator ? "reached" : "not reached",
                      Printable(m.address)});
  }
  out += RenderTable(t, 0);
  for (const Finding& f : DiagnoseMembers(r)) {
    out += std::string(f.severity == Health::kAtRisk ? "AT RISK: " : f.severity == Health::kDegraded ? "DEGRADED: " : "note: ") + f.what + "\n";
    if (!f.action.empty()) out += "  " + f.action + "\n";
  }
  return out;
}

Json MembersJson(const MemberStatusReply& r) {
  Json members = Json::array();
  for (const MemberState& m : r.members) {
    members.push_back({{"name", m.name},
                       {"uuid", m.uuid.ToString()},
                       {"address", m.address},
                       {"role", MemberRoleName(m.role)},
                       {"in_sync", m.in_sync},
                       {"term", m.term},
                       {"last", m.last.v},
                       {"durable", m.durable.v},
                       {"lag", m.lag},
                       {"coordinator", m.coordinator},
                       {"coordinator_problem", m.coordinator_problem},
                       {"problem", m.problem}});
  }
  Json findings = Json::array();
  for (const Finding& f : DiagnoseMembers(r)) {
    findings.push_back({{"severity", HealthName(f.severity)}, {"what", f.what}, {"action", f.action}});
  }
  return {{"primary", r.primary.empty() ? Json(nullptr) : Json(r.primary)},
          {"in_sync", InSync(r)},
          {"min_in_sync", r.min_in_sync},
          {"term", r.term},
          {"incarnation", r.incarnation},
          {"version", r.version},
          {"asked", r.self},
          {"members", std::move(members)},
          {"findings", std::move(findings)}};
}

}  // namespace stria::cli
