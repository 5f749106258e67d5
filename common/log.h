// Logging of daemons: LogInfo("disk {} is full", name). One line, one event, words for an administrator.
//
// Nothing is logged until InitLog (daemons) or SetLogSink (tests, simulator). Any thread.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kOff = 4 };

// "debug", "info", "warning", "error", "off"; kInval otherwise.
Result<LogLevel> ParseLogLevel(std::string_view text);

// Logs to `file` (rotated: kLogFiles of kLogFileBytes), or to stderr if it is empty.
Result<void> InitLog(const std::string& program, const std::string& file, LogLevel level);
inline constexpr size_t kLogFileBytes = 64 << 20;
inline constexpr size_t kLogFiles = 4;
void SetLogLevel(LogLevel level);
void FlushLog();

// Sends lines of `level` and above to `sink` instead, one at a time; it may not log. Null: none. The old
// sink is not called any more when this returns.
using LogSink = void (*)(void* context, LogLevel level, std::string_view line);
void SetLogSink(LogSink sink, void* context, LogLevel level = LogLevel::kDebug);

namespace log_internal {
extern std::atomic<LogLevel> lowest;
void Line(LogLevel level, std::string_view line);
}  // namespace log_internal

inline bool LogEnabled(LogLevel level) {
  return level >= log_internal::lowest.load(std::memory_order_relaxed);
}

template <class... A>
void LogAt(LogLevel level, fmt::format_string<A...> format, A&&... args) {
  if (LogEnabled(level)) log_internal::Line(level, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void LogDebug(fmt::format_string<A...> format, A&&... args) {
  LogAt(LogLevel::kDebug, format, std::forward<A>(args)...);
}
template <class... A>
void LogInfo(fmt::format_string<A...> format, A&&... args) {
  LogAt(LogLevel::kInfo, format, std::forward<A>(args)...);
}
template <class... A>
void LogWarning(fmt::format_string<A...> format, A&&... args) {
  LogAt(LogLevel::kWarning, format, std::forward<A>(args)...);
}
template <class... A>
void LogError(fmt::format_string<A...> format, A&&... args) {
  LogAt(LogLevel::kError, format, std::forward<A>(args)...);
}

// Rate limit of one kind of line. Any thread.
//   if (auto more = limit.Pass(now_ns)) LogWarning("...{}", *more);
class LogEvery {
 public:
  explicit LogEvery(int64_t period_ns) : period_ns_(period_ns) {}
  // Passes at most once per period, with a text about the calls that did not pass since, if any.
  std::optional<std::string> Pass(int64_t now_ns) {
    int64_t next = next_ns_.load(std::memory_order_relaxed);
    if (now_ns < next || !next_ns_.compare_exchange_strong(next, now_ns + period_ns_)) {
      skipped_.fetch_add(1, std::memory_order_relaxed);
      return std::nullopt;
    }
    const uint64_t skipped = skipped_.exchange(0, std::memory_order_relaxed);
    return skipped == 0 ? std::string() : fmt::format(" ({} more like this)", skipped);
  }

 private:
  const int64_t period_ns_;
  std::atomic<int64_t> next_ns_{INT64_MIN};
  std::atomic<uint64_t> skipped_{0};
};

}  // namespace stria

template <class Tag, class Rep>
struct fmt::formatter<stria::StrongId<Tag, Rep>> : fmt::formatter<Rep> {
  template <class Context>
  auto format(const stria::StrongId<Tag, Rep>& id, Context& ctx) const {
    return fmt::formatter<Rep>::format(id.v, ctx);
  }
};
template <>
struct fmt::formatter<stria::Error> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const stria::Error& e, Context& ctx) const {
    return fmt::formatter<std::string_view>::format(e.ToString(), ctx);
  }
};
template <>
struct fmt::formatter<stria::FsError> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(stria::FsError e, Context& ctx) const {
    return fmt::formatter<std::string_view>::format(stria::FsErrorName(e), ctx);
  }
};
template <>
struct fmt::formatter<stria::Uuid> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const stria::Uuid& u, Context& ctx) const {
    return fmt::formatter<std::string_view>::format(u.ToString(), ctx);
  }
};
