#include "tools/cli/events.h"

#include <algorithm>
#include <ctime>

#include "common/printable.h"
#include "common/units.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxSubjectBytes = 160;
constexpr int kMaxTries = 10;
constexpr int64_t kFirstRetryNs = 5 * kSecond, kLastRetryNs = 300 * kSecond;

ClusterEvent OfMetadata(const char* kind, EventSeverity severity, std::string text, std::string action, int64_t wall_ns) {
  ClusterEvent e;
  e.kind = kind;
  e.severity = severity;
  e.subject = "metadata";
  e.text = std::move(text);
  e.action = std::move(action);
  e.time_ns = e.last_ns = wall_ns;
  return e;
}

}  // namespace

const char* SeverityName(EventSeverity s) {
  switch (s) {
    case EventSeverity::kNote: return "note";
    case EventSeverity::kWarning: return "warning";
    case EventSeverity::kCritical: return "critical";
  }
  return "?";
}

std::optional<EventSeverity> SeverityOf(const std::string& name) {
  for (const EventSeverity s : {EventSeverity::kNote, EventSeverity::kWarning, EventSeverity::kCritical}) {
    if (name == SeverityName(s)) return s;
  }
  return std::nullopt;
}

std::string UtcTime(int64_t ns) {
  const time_t s = static_cast<time_t>(ns / kSecond);
  tm parts{};
  char text[32] = "?";
  if (gmtime_r(&s, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string RenderEvents(const std::vector<ClusterEvent>& events) {
  std::string out;
  for (const ClusterEvent& e : events) {
    std::string severity = SeverityName(e.severity);
    severity.resize(std::max<size_t>(severity.size(), 8), ' ');
    out += UtcTime(e.time_ns) + "  " + severity + "  " + Printable(e.text);
    if (e.count > 1) out += " (" + Count(e.count, "time", "times") + ", the last at " + UtcTime(e.last_ns) + ")";
    out += "\n";
    if (!e.action.empty()) out += std::string(32, ' ') + Printable(e.action) + "\n";
  }
  return out;
}

Json EventJson(const ClusterEvent& e) {
  return {{"seq", e.seq},
          {"time_ns", e.time_ns},
          {"time", UtcTime(e.time_ns)},
          {"kind", e.kind},
          {"severity", SeverityName(e.severity)},
          {"subject", e.subject},
          {"text", e.text},
          {"action", e.action},
          {"count", e.count},
          {"last_ns", e.last_ns}};
}

std::vector<std::pair<std::string, std::string>> EventEnvironment(const ClusterEvent& e) {
  return {{"STRIA_EVENT_KIND", Printable(e.kind)},       {"STRIA_EVENT_SEVERITY", SeverityName(e.severity)},
          {"STRIA_EVENT_SUBJECT", Printable(e.subject)}, {"STRIA_EVENT_TEXT", Printable(e.text)},
          {"STRIA_EVENT_ACTION", Printable(e.action)},   {"STRIA_EVENT_TIME", UtcTime(e.time_ns)},
          {"STRIA_EVENT_SEQ", std::to_string(e.seq)}};
}

std::string EventSubject(const ClusterEvent& e) {
  std::string subject = std::string("[stria] ") + SeverityName(e.severity) + ": " + Printable(e.text);
  if (subject.size() > kMaxSubjectBytes) {
    size_t end = kMaxSubjectBytes;
    while (end > 0 && (static_cast<unsigned char>(subject[end]) & 0xc0) == 0x80) --end;  // not within a character
    subject = subject.substr(0, end) + "..";
  }
  return subject;
}

std::string EventMail(const ClusterEvent& e, const std::string& to, const std::string& host) {
  std::string out = "To: " + to + "\nSubject: " + EventSubject(e) +
                    "\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
                    "Content-Transfer-Encoding: 8bit\n\n";
  out += Printable(e.text) + "\n";
  if (!e.action.empty()) out += "\nTo do: " + Printable(e.action) + "\n";
  out += "\n" + UtcTime(e.time_ns) + ", " + Printable(e.kind) + " of " + Printable(e.subject);
  if (e.seq != 0) out += ", event " + std::to_string(e.seq);
  return out + "; told by stria watch on " + Printable(host) + ". More:  stria status\n";
}

Result<void> CheckMailAddress(const std::string& to) {
  const bool ok = !to.empty() && to.size() <= 254 && to[0] != '-' &&
                  std::ranges::all_of(to, [](unsigned char c) { return c > ' ' && c < 0x7f && c != ',' && c != ';' && c != '<' && c != '>'; });
  if (!ok) return Error(FsError::kInval, "'" + Printable(to) + "' is no mail address: give one, as root or admin@example.org");
  return Ok();
}

std::string EncodeWatchState(const WatchState& s) { return DumpLine({{"next", s.next}, {"away_told", s.away_told}}); }

Result<WatchState> DecodeWatchState(const std::string& text) {
  const Json j = Json::parse(text, nullptr, false);
  if (!j.is_object() || !j.contains("next") || !j["next"].is_number_unsigned() || !j.contains("away_told") || !j["away_told"].is_boolean()) {
    return Error(FsError::kCorrupt, "it is no state of stria watch: remove it, and it begins with what happens from then on");
  }
  return WatchState{j["next"].get<uint64_t>(), j["away_told"].get<bool>()};
}

std::optional<ClusterEvent> AwayWatch::OnAnswer(int64_t now_ns, int64_t wall_ns) {
  heard_ns_ = now_ns;
  if (!std::exchange(told_, false)) return std::nullopt;
  return OfMetadata("metadata-back", EventSeverity::kNote, "The metadata server answers again.", "", wall_ns);
}

std::optional<ClusterEvent> AwayWatch::OnFailure(const std::string& why, int64_t now_ns, int64_t wall_ns) {
  if (told_ || now_ns - heard_ns_ < kAwayNs) return std::nullopt;
  told_ = true;
  return OfMetadata("metadata-away", EventSeverity::kCritical,
                    "The metadata server has not answered for " + HumanDuration((now_ns - heard_ns_) / kSecond) + ": " + Printable(why) + ".",
                    "Start stria-meta again, and see to its machine, disk and network.", wall_ns);
}

std::optional<int64_t> RetryAfterNs(int failures) {
  if (failures >= kMaxTries) return std::nullopt;
  return std::min(kFirstRetryNs << (failures - 1), kLastRetryNs);
}

}  // namespace stria::cli
