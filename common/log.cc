#include "common/log.h"

#include "common/log_control.h"
#include "common/printable.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "common/log_file.h"
#include "common/log_repeats.h"

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

int64_t SteadyNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Whether stderr is what systemd gave the program: $JOURNAL_STREAM is DEVICE:INODE of that.
bool StderrIsJournal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat st;
  if (stream == nullptr || fstat(STDERR_FILENO, &st) != 0) return false;
  return std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino) == stream;
}

// As sd-daemon(3) has them, before the text.
const char* JournalPriority(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return SD_ERR;
  if (level == spdlog::level::warn) return SD_WARNING;
  return level == spdlog::level::info ? SD_INFO : SD_DEBUG;
}

// A file or stderr. Lines that repeat are counted.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(std::unique_ptr<LogFile> file) : file_(std::move(file)), to_journal_(!file_ && StderrIsJournal()) {}
  void Reopen() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (file_) file_->Reopen();
  }
  // Also lines that are counted and not due yet.
  void End() {
    std::lock_guard<std::mutex> lock(mutex_);
    Say(repeats_.Due(SteadyNs(), true));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& msg) override {
    const std::string_view text(msg.payload.data(), msg.payload.size());
    if (msg.level == spdlog::level::debug || repeats_.Pass(msg.level, text, SteadyNs())) Write(msg);
  }
  // Once a second, too.
  void flush_() override { Say(repeats_.Due(SteadyNs())); }

 private:
  void Say(const std::vector<LogRepeats::Counted>& counted) {
    for (const LogRepeats::Counted& c : counted) {
      Write({name_, static_cast<spdlog::level::level_enum>(c.level), spdlog::string_view_t(c.line.data(), c.line.size())});
    }
  }
  void Write(const spdlog::details::log_msg& msg) {
    if (name_.empty()) name_.assign(msg.logger_name.data(), msg.logger_name.size());
    if (to_journal_) {  // it has the time and the program by itself
      std::fprintf(stderr, "%s%.*s\n", JournalPriority(msg.level), static_cast<int>(msg.payload.size()), msg.payload.data());
      return;
    }
    spdlog::memory_buf_t text;
    formatter_->format(msg, text);
    if (file_) file_->Write({text.data(), text.size()});
    else std::fwrite(text.data(), 1, text.size(), stderr);
  }

  const std::unique_ptr<LogFile> file_;
  const bool to_journal_;
  std::string name_;
  LogRepeats repeats_;
};
std::shared_ptr<Sink> g_file;  // of the logger; changed by InitLog only

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
  try {  // spdlog reports faults with exceptions
    std::unique_ptr<LogFile> opened;
    if (!file.empty()) {
      opened = std::make_unique<LogFile>(file, kLogFileBytes, kLogFiles);
      RETURN_IF_ERROR(opened->Open());
    }
    auto sink = std::make_shared<Sink>(std::move(opened));
    auto logger = std::make_shared<spdlog::logger>(program, sink);
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %n[%P] %L %v");
    logger->set_level(spdlog::level::debug);  // LogEnabled has filtered
    logger->flush_on(spdlog::level::warn);
    spdlog::drop(program);
    spdlog::register_logger(logger);  // keeps it, and flush_every reaches it
    spdlog::flush_every(std::chrono::seconds(1));
    g_file = std::move(sink);
    g_logger.store(logger.get(), std::memory_order_release);
  } catch (const spdlog::spdlog_ex& e) {
    return Error(FsError::kIo, "cannot log to '" + file + "': " + e.what());
  }
  SetLogLevel(level);
  return Ok();
}

void SetLogLevel(LogLevel level) { log_internal::lowest.store(level, std::memory_order_relaxed); }

void FlushLog() {
  if (spdlog::logger* logger = g_logger.load(std::memory_order_acquire)) {
    g_file->End();
    logger->flush();
  }
}

void ReopenLog() {
  if (g_logger.load(std::memory_order_acquire) != nullptr) g_file->Reopen();
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
