#include "trust/audit/audit_lines.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <charconv>

#include "common/printable.h"
#include "trust/network.h"

namespace stria {
namespace {

constexpr std::string_view kBegin = "{\"time_s\":";
constexpr char kElsewhere[] = "other addresses";
constexpr char kLocal[] = "this machine";

// Any bytes as a string of JSON that every reader takes.
std::string Field(std::string_view text) {
  const bool cut = text.size() > kMaxAuditFieldBytes;
  return JsonQuoted(Printable(text.substr(0, kMaxAuditFieldBytes)) + (cut ? " .." : ""));
}

std::string TimeText(int64_t time_s) {
  const time_t t = static_cast<time_t>(time_s);
  struct tm parts;
  char text[32];
  if (gmtime_r(&t, &parts) == nullptr || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) return "";
  return text;
}

}  // namespace

std::string_view AuditKindName(AuditEntry::Kind kind) {
  switch (kind) {
    case AuditEntry::Kind::kVerb: return "verb";
    case AuditEntry::Kind::kDenial: return "denial";
    case AuditEntry::Kind::kEnrolment: return "enrolment";
    case AuditEntry::Kind::kEviction: return "eviction";
    case AuditEntry::Kind::kSession: return "session";
  }
  return "";
}

std::string FormatAudit(const AuditEntry& e, int64_t now_ns) {
  const int64_t time_s = (e.time_ns != 0 ? e.time_ns : now_ns) / kSecond;
  return fmt::format("{}{},\"time\":\"{}\",\"kind\":\"{}\",\"peer\":{},\"address\":{},\"verb\":{},\"arguments\":{},\"outcome\":{}}}\n", kBegin, time_s,
                     TimeText(time_s), AuditKindName(e.kind), Field(e.peer), Field(e.address), Field(e.verb), Field(e.arguments), Field(e.outcome));
}

std::optional<int64_t> TimeOfAudit(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  int64_t time_s = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), time_s);
  if (error != std::errc() || end == line.data() + line.size() || *end != ',' || line.back() != '}') return std::nullopt;
  return time_s;
}

AuditTail TailOfAudit(std::string_view text, bool cut, int64_t since_s, size_t max_lines, size_t max_bytes) {
  AuditTail tail;
  size_t bytes = 0;
  // A line without an end was not written as a whole.
  text = text.substr(0, text.rfind('\n') + 1);
  while (!text.empty()) {
    text.remove_suffix(1);
    const size_t newline = text.rfind('\n');
    if (newline == text.npos && cut) break;
    const std::string_view line = newline == text.npos ? text : text.substr(newline + 1);
    text = newline == text.npos ? std::string_view() : text.substr(0, newline + 1);
    const std::optional<int64_t> time_s = TimeOfAudit(line);
    if (!time_s || *time_s < since_s) continue;
    if (tail.lines.size() >= max_lines || bytes + line.size() > max_bytes) {
      tail.more = true;
      break;
    }
    bytes += line.size();
    tail.lines.emplace_back(line);
  }
  std::reverse(tail.lines.begin(), tail.lines.end());
  return tail;
}

std::string DenialBudget::PlaceOf(std::string_view address) {
  std::optional<IpAddress> ip = IpOfAddress(address);
  if (!ip) return kLocal;
  if (!ip->is_v4()) std::fill(ip->bytes.begin() + 8, ip->bytes.end(), uint8_t{0});
  return ip->ToString();
}

bool DenialBudget::Admit(std::string_view address, int64_t now_ns) {
  if (since_ns_ == INT64_MIN || now_ns - since_ns_ >= limits_.window_ns) {
    since_ns_ = now_ns;
    written_ = 0;
    // Those that have nothing to tell any more.
    std::erase_if(places_, [&](const auto& p) { return p.second.kept_back == 0 && now_ns - p.second.since_ns >= limits_.window_ns; });
  }
  std::string name = PlaceOf(address);
  if (!places_.contains(name) && places_.size() >= limits_.max_places) name = kElsewhere;
  Place& place = places_.try_emplace(std::move(name), Place{now_ns, 0, 0}).first->second;
  if (now_ns - place.since_ns >= limits_.window_ns && place.kept_back == 0) place = {now_ns, 0, 0};
  if (place.written < limits_.per_place && written_ < limits_.in_all) {
    ++place.written;
    ++written_;
    return true;
  }
  ++place.kept_back;
  ++kept_back_;
  return false;
}

std::vector<DenialBudget::KeptBack> DenialBudget::TakeEnded(int64_t now_ns) {
  std::vector<KeptBack> out;
  for (auto it = places_.begin(); it != places_.end();) {
    if (now_ns - it->second.since_ns < limits_.window_ns) {
      ++it;
      continue;
    }
    if (it->second.kept_back > 0) out.push_back({it->first, it->second.kept_back});
    kept_back_ -= it->second.kept_back;
    it = places_.erase(it);
  }
  return out;
}

AuditEntry KeptBackEntry(AuditEntry::Kind kind, const DenialBudget::KeptBack& k) {
  AuditEntry e;
  e.kind = kind;
  e.address = k.place;
  e.verb = "(several)";
  e.outcome = (kind == AuditEntry::Kind::kDenial ? "refused: " : "done: ") + std::to_string(k.count) + " more within a minute, which are not written one by one";
  return e;
}

}  // namespace stria
