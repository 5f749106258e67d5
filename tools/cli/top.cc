#include "tools/cli/top.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "common/printable.h"
#include "common/units.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxNameBytes = 60;

double PerSecond(uint64_t now, uint64_t then, double seconds) { return now > then ? static_cast<double>(now - then) / seconds : 0; }

bool HasFallen(const TopCounters& now, const TopCounters& then) {
  return now.local_bytes < then.local_bytes || now.network_bytes < then.network_bytes || now.decoded_bytes < then.decoded_bytes ||
         now.written_bytes < then.written_bytes || now.operations < then.operations || now.read_bytes < then.read_bytes || now.waited_ns < then.waited_ns;
}

bool HasToldNothing(const TopCounters& c) {
  return c.local_bytes == 0 && c.network_bytes == 0 && c.decoded_bytes == 0 && c.written_bytes == 0 && c.operations == 0;
}

std::string Rate(double bytes) { return HumanBytes(static_cast<uint64_t>(std::llround(bytes))) + "/s"; }
// "0", "0.4", "12", "1234"
std::string Number(double n) {
  const int64_t tenths = std::llround(n * 10);
  if (tenths >= 100 || tenths % 10 == 0) return std::to_string(std::llround(n));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Name(const std::string& name) {
  const std::string shown = Printable(name);
  return shown.size() <= kMaxNameBytes ? shown : shown.substr(0, kMaxNameBytes - 2) + "..";
}

Json Rounded(double n) { return std::llround(n); }

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace

std::string RenderJobs(const std::vector<JobShare>& jobs) {
  Table t;
  t.header = {"JOB", "LOCAL", "REMOTE", "DECODED", "READ", "WRITTEN", "OPERATIONS", "WAITED", "LAST"};
  t.right = {false, true, true, true, true, true, true, true, true};
  for (const JobShare& j : jobs) {
    t.rows.push_back({Name(j.job), HumanBytes(j.io.fetched.local_bytes), HumanBytes(j.io.fetched.network_bytes),
                      HumanBytes(j.io.fetched.reconstructed_bytes), HumanBytes(j.io.read_bytes), HumanBytes(j.io.written_bytes),
                      std::to_string(j.io.operations), HumanDuration(j.io.waited_ns / kSecond), HumanDuration(j.idle_ns / kSecond) + " ago"});
  }
  return RenderTable(t, 0);
}

Json JobsJson(const std::vector<JobShare>& jobs) {
  Json out = Json::array();
  for (const JobShare& j : jobs) {
    out.push_back({{"job", j.job},
                   {"local_bytes", j.io.fetched.local_bytes},
                   {"network_bytes", j.io.fetched.network_bytes},
                   {"reconstructed_bytes", j.io.fetched.reconstructed_bytes},
                   {"read_bytes", j.io.read_bytes},
                   {"written_bytes", j.io.written_bytes},
                   {"operations", j.io.operations},
                   {"waited_ns", j.io.waited_ns},
                   {"idle_ns", j.idle_ns}});
  }
  return out;
}

TopSample SampleOfClients(const StatusReply& s, int64_t at_ns) {
  TopSample sample;
  sample.at_ns = at_ns;
  for (const SessionInfo& c : s.sessions) {
    TopCounters& to = sample.counters[std::to_string(c.id.v)];
    to.name = c.client;
    to.place = c.node_name;
    to.local_bytes = c.io.local_bytes;
    to.network_bytes = c.io.network_bytes;
    to.decoded_bytes = c.io.reconstructed_bytes;
    to.written_bytes = c.io.written_bytes;
    to.operations = c.io.operations;
  }
  return sample;
}

void AddJobs(const std::string& mount, const std::vector<JobShare>& jobs, TopSample* to) {
  for (const JobShare& j : jobs) {
    TopCounters& c = to->counters[mount + " " + j.job];
    c.name = j.job;
    c.place = mount;
    c.began_here = true;
    c.local_bytes = j.io.fetched.local_bytes;
    c.network_bytes = j.io.fetched.network_bytes;
    c.decoded_bytes = j.io.fetched.reconstructed_bytes;
    c.written_bytes = j.io.written_bytes;
    c.operations = j.io.operations;
    c.read_bytes = j.io.read_bytes;
    c.waited_ns = j.io.waited_ns;
  }
}

void TopWindow::Add(TopSample sample) {
  samples_.push_back(std::move(sample));
  // The oldest one that stays is as old as the window, or a little older.
  while (samples_.size() > 2 && samples_[1].at_ns <= samples_.back().at_ns - window_ns_) samples_.pop_front();
}

TopRates TopWindow::Rates() const {
  TopRates out;
  if (samples_.empty()) return out;
  const TopSample& now = samples_.back();
  out.seconds = static_cast<double>(now.at_ns - samples_.front().at_ns) / static_cast<double>(kSecond);
  for (const auto& [key, c] : now.counters) {
    TopRow row;
    row.name = c.name;
    row.place = c.place;
    if (c.read_bytes) row.read = 0;
    if (c.waited_ns) row.waiting = 0;
    // The oldest sample that it can be compared with.
    TopCounters then;
    int64_t then_ns = now.at_ns;
    for (const TopSample& s : samples_) {
      if (s.at_ns >= now.at_ns) break;
      const auto it = s.counters.find(key);
      if (it != s.counters.end() && (c.began_here || !HasToldNothing(it->second)) && !HasFallen(c, it->second)) {
        then = it->second;
        then_ns = s.at_ns;
        break;
      }
      if (it == s.counters.end() && c.began_here) {
        then_ns = s.at_ns;
        if (c.read_bytes) then.read_bytes = 0;
        if (c.waited_ns) then.waited_ns = 0;
        break;
      }
    }
    if (then_ns < now.at_ns) {
      const double seconds = static_cast<double>(now.at_ns - then_ns) / static_cast<double>(kSecond);
      row.local = PerSecond(c.local_bytes, then.local_bytes, seconds);
      row.network = PerSecond(c.network_bytes, then.network_bytes, seconds);
      row.decoded = PerSecond(c.decoded_bytes, then.decoded_bytes, seconds);
      row.written = PerSecond(c.written_bytes, then.written_bytes, seconds);
      row.operations = PerSecond(c.operations, then.operations, seconds);
      if (c.read_bytes) row.read = PerSecond(*c.read_bytes, then.read_bytes.value_or(0), seconds);
      if (c.waited_ns) row.waiting = static_cast<double>(*c.waited_ns - then.waited_ns.value_or(0)) / static_cast<double>(kSecond) / seconds;
    }
    out.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(out.rows, std::greater<>(), [](const TopRow& r) {
    return std::make_tuple(r.local + r.network + r.written, r.read.value_or(0), r.operations);
  });
  return out;
}

std::string RenderTop(const TopRates& rates, const std::string& name, const std::string& place, size_t most) {
  TopRow all;
  const bool jobs = std::ranges::any_of(rates.rows, [](const TopRow& r) { return r.read.has_value(); });
  Table t;
  t.header = {name, place, "LOCAL", "REMOTE", "DECODED"};
  if (jobs) t.header.emplace_back("READ");
  t.header.insert(t.header.end(), {"WRITTEN", "OPS/S"});
  if (jobs) t.header.emplace_back("WAITING");
  t.right.assign(t.header.size(), true);
  t.right[0] = t.right[1] = false;
  for (const TopRow& r : rates.rows) {
    all.local += r.local, all.network += r.network, all.decoded += r.decoded, all.written += r.written, all.operations += r.operations;
    if (most > 0 && t.rows.size() == most) continue;
    std::vector<std::string> cells = {Name(r.name), r.place.empty() ? "-" : Name(r.place), Rate(r.local), Rate(r.network), Rate(r.decoded)};
    if (jobs) cells.push_back(Rate(r.read.value_or(0)));
    cells.insert(cells.end(), {Rate(r.written), Number(r.operations)});
    if (jobs) cells.push_back(Number(r.waiting.value_or(0)));
    t.rows.push_back(std::move(cells));
  }
  std::string out = "fetched " + Rate(all.local + all.network) + " (local " + Rate(all.local) + ", remote " + Rate(all.network) + ", decoded " +
                    Rate(all.decoded) + "), written " + Rate(all.written) + ", " + Number(all.operations) + " operations/s; of the last " +
                    Number(rates.seconds) + " s\n";
  if (rates.rows.empty()) return out + "nobody reads or writes\n";
  out += "\n" + RenderTable(t, 0);
  if (t.rows.size() < rates.rows.size()) out += "and " + std::to_string(rates.rows.size() - t.rows.size()) + " more\n";
  return out;
}

Json TopJson(const TopRates& rates, const std::string& name, const std::string& place) {
  Json rows = Json::array();
  for (const TopRow& r : rates.rows) {
    Json row = {{Lower(name), r.name},
                {Lower(place), r.place},
                {"local_bytes_per_s", Rounded(r.local)},
                {"network_bytes_per_s", Rounded(r.network)},
                {"reconstructed_bytes_per_s", Rounded(r.decoded)}};
    if (r.read) row["read_bytes_per_s"] = Rounded(*r.read);
    row["written_bytes_per_s"] = Rounded(r.written);
    row["operations_per_s"] = std::round(r.operations * 10) / 10;
    if (r.waiting) row["waiting"] = std::round(*r.waiting * 100) / 100;
    rows.push_back(std::move(row));
  }
  return {{"seconds", std::round(rates.seconds * 10) / 10}, {Lower(name) + "s", rows}};
}

}  // namespace stria::cli
