#include "proto/method_stats.h"

#include <cstdio>

#include "common/units.h"

namespace stria {
namespace {

std::string Seconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", static_cast<double>(ns) / static_cast<double>(kSecond));
  return text;
}

}  // namespace

std::string SlowCallLine(const std::string& method, const Peer* peer, const CallTimes& times, const Error& outcome) {
  const size_t slash = method.rfind('/');
  std::string line = "slow request: " + (slash == std::string::npos ? method : method.substr(slash + 1)) + " of " +
                     (peer ? peer->ToString() : "a caller who has proved nothing");
  if (times.session) line += ", session " + std::to_string(times.session.v);
  if (times.trace_id != 0) line += ", call " + std::to_string(times.trace_id);
  line += ", took " + Seconds(times.ended_ns - times.arrived_ns) + ": " + Seconds(times.began_ns - times.arrived_ns) + " queued, ";
  const int64_t ran_ns = times.ran_ns == 0 ? times.ended_ns : times.ran_ns;
  line += Seconds(ran_ns - times.began_ns) + " run";
  if (times.disk_ns != 0) line += " (" + Seconds(times.disk_ns) + " with disks)";
  line += ", " + Seconds(times.ended_ns - ran_ns) + " reply";
  if (!outcome.ok()) line += "; it failed: " + outcome.message;
  return line;
}

}  // namespace stria
