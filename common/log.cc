#include "common/log.h"

#include "common/printable.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <mutex>

namespace stria {
namespace log_internal {
std::atomic<LogLevel> lowest{LogLevel::kOff};
}  // namespace log_internal

namespace {

// A process has one log, as it has one stderr.
std::atomic<spdlog::logger*> g_logger{nullptr};
std::mutex g_sink_mu;
LogSink g_sink = nullptr;        // guarded by g_sink_mu
void* g_sink_context = nullptr;  // guarded by g_sink_mu
std::atomic<bool> g_has_sink{false};

spdlog::level::level_enum ToSpd(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

}  // namespace

namespace log_internal {
void Line(LogLevel level, std::string_view text) {
  // A name in it may have line breaks, and would be lines of its own choice.
  const std::string line = Printable(text);
  if (g_has_sink.load(std::memory_order_acquire)) {
    std::lock_guard<std::mutex> lock(g_sink_mu);
    if (g_sink) g_sink(g_sink_context, level, line);
  } else if (spdlog::logger* logger = g_logger.load(std::memory_order_acquire)) {
    logger->log(ToSpd(level), spdlog::string_view_t(line.data(), line.size()));
  }
}
}  // namespace log_internal

Result<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return Error(FsError::kInval,
               "'" + std::string(text) + "' is not a log level: debug, info, warning, error or off");
}

Result<void> InitLog(const std::string& program, const std::string& file, LogLevel level) {
  try {  // spdlog tells with exceptions that it cannot open a file
    spdlog::sink_ptr sink;
    if (file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kLogFileBytes, kLogFiles);
    }
    auto logger = std::make_shared<spdlog::logger>(program, std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %n[%P] %L %v");
    logger->set_level(spdlog::level::debug);  // LogEnabled has filtered
    logger->flush_on(spdlog::level::warn);
    spdlog::drop(program);
    spdlog::register_logger(logger);  // keeps it, and flush_every reaches it
    spdlog::flush_every(std::chrono::seconds(1));
    g_logger.store(logger.get(), std::memory_order_release);
  } catch (const spdlog::spdlog_ex& e) {
    return Error(FsError::kIo, "cannot log to '" + file + "': " + e.what());
  }
  SetLogLevel(level);
  return Ok();
}

void SetLogLevel(LogLevel level) { log_internal::lowest.store(level, std::memory_order_relaxed); }

void FlushLog() {
  if (spdlog::logger* logger = g_logger.load(std::memory_order_acquire)) logger->flush();
}

void SetLogSink(LogSink sink, void* context, LogLevel level) {
  {
    std::lock_guard<std::mutex> lock(g_sink_mu);
    g_sink = sink;
    g_sink_context = context;
    g_has_sink.store(sink != nullptr, std::memory_order_release);
  }
  SetLogLevel(sink || g_logger.load() ? level : LogLevel::kOff);
}

}  // namespace stria
