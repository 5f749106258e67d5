#include "common/log_repeats.h"

#include <cctype>
#include <utility>

namespace stria {
namespace {

std::string WithoutNumbers(std::string_view line) {
  std::string out;
  for (const char c : line) {
    if (!std::isdigit(static_cast<unsigned char>(c))) out += c;
    else if (out.empty() || out.back() != '0') out += '0';
  }
  return out;
}

LogRepeats::Counted Said(int level, const std::string& last, uint64_t counted) {
  return {level, last + " (" + std::to_string(counted) + " more like this in the last minute)"};
}

}  // namespace

bool LogRepeats::Pass(int level, std::string_view line, int64_t now_ns) {
  std::string key = WithoutNumbers(line);
  auto it = kinds_.find(key);
  if (it == kinds_.end()) {
    if (kinds_.size() >= kMaxKinds) {
      for (Counted& c : Due(now_ns, true)) dropped_.push_back(std::move(c));
    }
    it = kinds_.emplace(std::move(key), Kind{level, now_ns, 0, 0, {}, {}}).first;
  }
  Kind& k = it->second;
  if (k.written < kMaxAlike && k.lines.emplace(line, now_ns).second) {
    ++k.written;
    return true;
  }
  ++k.counted;
  k.level = level;
  k.last = line;
  return false;
}

std::vector<LogRepeats::Counted> LogRepeats::Due(int64_t now_ns, bool all) {
  std::vector<Counted> out = std::exchange(dropped_, {});
  for (auto it = kinds_.begin(); it != kinds_.end();) {
    const Kind& k = it->second;
    if (!all && now_ns - k.begin_ns < kPeriodNs) {
      ++it;
      continue;
    }
    if (k.counted > 0) out.push_back(Said(k.level, k.last, k.counted));
    it = kinds_.erase(it);
  }
  return out;
}

}  // namespace stria
