#include "common/log_repeats.h"

#include <cctype>
#include <utility>

namespace stria {
namespace {

constexpr size_t kMaxPortDigits = 5;

std::string WithoutNumbers(std::string_view line) {
  std::string out;
  for (const char c : line) {
    if (!std::isdigit(static_cast<unsigned char>(c))) out += c;
    else if (out.empty() || out.back() != '0') out += '0';
  }
  return out;
}

// Each connection of a client comes from another port.
std::string WithoutClientPorts(std::string_view line) {
  const auto digit = [&](size_t at) { return at < line.size() && std::isdigit(static_cast<unsigned char>(line[at])) != 0; };
  std::string out;
  for (size_t at = 0; at < line.size();) {
    out += line[at++];
    const bool behind_host = at >= 2 && line[at - 1] == ':' && (std::isalnum(static_cast<unsigned char>(line[at - 2])) != 0 || line[at - 2] == ']');
    if (!behind_host) continue;
    size_t end = at;
    uint32_t port = 0;
    for (; digit(end) && end - at < kMaxPortDigits; ++end) port = port * 10 + static_cast<uint32_t>(line[end] - '0');
    const bool whole = end == line.size() || (std::isalnum(static_cast<unsigned char>(line[end])) == 0 && line[end] != ':');
    if (whole && port >= LogRepeats::kFirstClientPort && port <= UINT16_MAX) at = end;
  }
  return out;
}

}  // namespace

void LogRepeats::Count::Add(int a_level, std::string_view line) {
  ++counted;
  level = a_level;
  last = line;
}

bool LogRepeats::Pass(int level, std::string_view line, int64_t now_ns) {
  const std::string same = WithoutClientPorts(line);
  std::string key = WithoutNumbers(same);
  auto it = kinds_.find(key);
  if (it == kinds_.end()) {
    if (kinds_.size() >= kMaxKinds) {
      for (Counted& c : Due(now_ns, true)) dropped_.push_back(std::move(c));
    }
    it = kinds_.emplace(std::move(key), Kind{now_ns, {}, {}}).first;
  }
  Kind& k = it->second;
  if (const auto known = k.lines.find(same); known != k.lines.end()) {
    known->second.Add(level, line);
    return false;
  }
  if (k.lines.size() < kMaxAlike) {
    k.lines.emplace(same, Count());
    return true;
  }
  k.others.Add(level, line);
  return false;
}

std::vector<LogRepeats::Counted> LogRepeats::Due(int64_t now_ns, bool all) {
  std::vector<Counted> out = std::exchange(dropped_, {});
  const auto say = [&out](const Count& c) {
    if (c.counted > 0) out.push_back({c.level, c.last + " (" + std::to_string(c.counted) + " more like this in the last minute)"});
  };
  for (auto it = kinds_.begin(); it != kinds_.end();) {
    Kind& k = it->second;
    if (!all && now_ns - k.begin_ns < kPeriodNs) {
      ++it;
      continue;
    }
    // What has come again is likely to go on, and its next minute begins; the rest is new when it comes.
    for (auto line = k.lines.begin(); line != k.lines.end();) {
      say(line->second);
      if (std::exchange(line->second, Count()).counted > 0) ++line;
      else line = k.lines.erase(line);
    }
    say(std::exchange(k.others, Count()));
    k.begin_ns = now_ns;
    if (all || k.lines.empty()) it = kinds_.erase(it);
    else ++it;
  }
  return out;
}

}  // namespace stria
