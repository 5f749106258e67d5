// The settings of one of several metadata servers: the table [ha] (docs/settings.md). Without it a metadata server is alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/error.h"
#include "common/units.h"

namespace stria {

// Fewer cannot lose one and still decide.
inline constexpr size_t kMinEtcdMembers = 3;
inline constexpr size_t kMaxEtcdMembers = 9;

struct HaConfig {
  std::string member;             // its name among the metadata servers
  std::string address;            // host:port at which the others reach it
  std::vector<std::string> etcd;  // host:port of each, all of one etcd cluster
  std::string ca, cert, key;      // PEM files for etcd: whom to believe, what to show; "": none
  int64_t beat_ns = 250 * kMillisecond;
  int64_t suspect_ns = 1500 * kMillisecond;  // a member that is silent for so long leaves the set
  int64_t promise_ns = 3 * kSecond;          // for which a primary counts on a member's promise
  int64_t grace_ns = 5 * kSecond;            // for which a member keeps it
  int64_t ack_timeout_ns = 2 * kSecond;      // a member that owes "durable" for so long leaves the set
  int64_t watchdog_ns = 15 * kSecond;        // a server whose logic has done nothing for so long counts as gone
  std::optional<uint32_t> min_in_sync;       // none: by the number of members (AutoMinInSync)
  bool plain_received = false;  // plain changes are answered when the others have received them, too
  bool operator==(const HaConfig&) const = default;
};

// Nullopt: there is no such table. Faults are the file's (Config::Finish).
std::optional<HaConfig> HaConfigFrom(Config& file);
// Ports, and what does not fit together; an error is a sentence that names the key. `listen` and `address` are the server's own
// settings, complete: where [ha] has no address, it is that.
Result<void> CompleteHaConfig(HaConfig* ha, const std::string& listen, const std::string& address);
// A sentence for the log if whoever reaches etcd over the network can write there; "" if not.
std::string EtcdWarning(const HaConfig& ha);

}  // namespace stria
