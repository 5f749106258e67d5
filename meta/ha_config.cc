#include "meta/ha_config.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "common/address.h"
#include "meta/replica/beats/beat_desk.h"
#include "meta/replica/election.h"
#include "meta/replica/register.h"

namespace stria {
namespace {

constexpr int64_t kMinute = 60 * kSecond;
constexpr uint16_t kEtcdPort = 2379;  // as etcd's own default

uint16_t PortOf(const std::string& address, uint16_t otherwise) {
  uint16_t port = otherwise;
  const std::string text = PortOfAddress(address);
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

bool IsOfThisMachine(const std::string& address) {
  const std::string host = HostOfAddress(address);
  return host == "localhost" || host.starts_with("127.") || host == "[::1]" || host == "::1";
}

}  // namespace

std::optional<HaConfig> HaConfigFrom(Config& file) {
  if (!file.Has("ha")) return std::nullopt;
  HaConfig ha;
  ha.member = file.RequiredString("ha.member");
  ha.address = file.String("ha.address", "");
  ha.etcd = file.Strings("ha.etcd");
  ha.ca = file.String("ha.ca", "");
  ha.cert = file.String("ha.cert", "");
  ha.key = file.String("ha.key", "");
  ha.beat_ns = file.Duration("ha.beat", ha.beat_ns, 10 * kMillisecond, kMinute);
  ha.suspect_ns = file.Duration("ha.suspect", ha.suspect_ns, 40 * kMillisecond, 10 * kMinute);
  ha.promise_ns = file.Duration("ha.promise", ha.promise_ns, 40 * kMillisecond, 10 * kMinute);
  ha.grace_ns = file.Duration("ha.grace", ha.grace_ns, 60 * kMillisecond, 15 * kMinute);
  ha.ack_timeout_ns = file.Duration("ha.ack_timeout", ha.ack_timeout_ns, 100 * kMillisecond, 10 * kMinute);
  ha.watchdog_ns = file.Duration("ha.watchdog", std::max(ha.watchdog_ns, 3 * ha.grace_ns), 60 * kMillisecond, 60 * kMinute);
  const std::string least = file.OneOf("ha.min_in_sync", "auto", {"auto", "1", "2", "3", "4", "5"});
  if (least != "auto") ha.min_in_sync = static_cast<uint32_t>(least.front() - '0');
  ha.plain_received = file.OneOf("ha.plain", "local", {"local", "received"}) == "received";
  if (!ha.member.empty() && !IsMemberName(ha.member)) {
    file.Reject("ha.member", "must be 1 to " + std::to_string(kMaxMemberNameBytes) + " letters, digits, '-', '_' and '.'");
  }
  if (const Result<void> fit = CheckElectionTimes(ha.beat_ns, ha.suspect_ns, ha.promise_ns, ha.grace_ns); !fit.ok()) {
    file.Reject("ha", fit.error().message);
  } else if (const Result<void> sensible = CheckWatchdog(ha.grace_ns, ha.watchdog_ns); !sensible.ok()) {
    file.Reject("ha", sensible.error().message);
  }
  return ha;
}

Result<void> CompleteHaConfig(HaConfig* ha, const std::string& listen, const std::string& address) {
  const auto no = [](std::string why) { return Error(FsError::kInval, std::move(why)); };
  if (ha->address.empty()) ha->address = address;
  if (ha->address.empty()) return no("ha.address is not set: name HOST[:PORT] at which the other metadata servers reach this one");
  Result<std::string> own = WithPort(ha->address, PortOf(listen, kDefaultMetaPort));
  if (!own.ok()) return own.error().WithContext("ha.address");
  if (!IsHostPort(*own)) return no("ha.address is " + ha->address + ": name a host that others know, HOST[:PORT]");
  ha->address = std::move(*own);

  Result<std::vector<std::string>> etcd = WithPorts(ha->etcd, kEtcdPort);
  if (!etcd.ok()) return etcd.error().WithContext("ha.etcd");
  ha->etcd = std::move(*etcd);
  for (const std::string& e : ha->etcd) {
    if (!IsHostPort(e)) return no("ha.etcd has " + e + ": name each member of etcd as HOST[:PORT]");
  }
  const size_t members = std::set<std::string>(ha->etcd.begin(), ha->etcd.end()).size();
  if (members != ha->etcd.size()) return no("ha.etcd names a member twice: name each once");
  if (members == 2) {
    return no("ha.etcd has two members: if either PC is lost the other may decide nothing, which is worse than one metadata server alone. Add a "
              "third voter, an etcd on any third PC, NAS or Raspberry Pi (no stria-meta is needed there), or leave out [ha] and keep the backup");
  }
  if (members < kMinEtcdMembers) {
    return no("ha.etcd has " + std::string(members == 0 ? "no member" : "one member") +
              ": name three members of etcd on three PCs, so that one of them may be lost");
  }
  if (members > kMaxEtcdMembers) return no("ha.etcd has " + std::to_string(members) + " members: three are enough, five are plenty");
  if (ha->cert.empty() != ha->key.empty()) return no("ha.cert and ha.key belong together: set both, or neither");
  if (ha->ca.empty() && !ha->cert.empty()) return no("ha.cert is set, and ha.ca is not: name the file of the authority that etcd's own certificates are of");
  return Ok();
}

std::string EtcdWarning(const HaConfig& ha) {
  if (!ha.ca.empty() || std::all_of(ha.etcd.begin(), ha.etcd.end(), IsOfThisMachine)) return "";
  return "etcd is asked without TLS: whoever reaches it over the network can keep the metadata servers from changing roles. Set ha.ca, ha.cert and "
         "ha.key, or let only the metadata servers reach its port";
}

}  // namespace stria
