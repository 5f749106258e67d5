#include "client/fuse/mount_config.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "common/quantity.h"

namespace stria {
namespace {

constexpr int kUsageExit = 2;

// Of mount(8) and its helpers; nothing for a filesystem to do.
constexpr std::array<std::string_view, 13> kNotOurs = {"defaults", "auto", "noauto",  "user",  "nouser", "users", "owner",
                                                       "group",    "_netdev", "nofail", "async", "rw",     "silent"};

std::vector<std::string> SplitComma(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = text.find(',');
    if (end != 0) out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

bool IsAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size()) return false;
  const std::string_view port = text.substr(colon + 1);
  if (!std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  const std::string_view host = text.substr(0, colon);
  // A colon in the host without brackets could be anything.
  return host.find(':') == std::string_view::npos || (host.front() == '[' && host.back() == ']');
}

Result<void> SetAddresses(std::string_view text, MountConfig* config) {
  std::vector<std::string> all = SplitComma(text);
  for (const std::string& a : all) {
    if (!IsAddress(a)) return Error(FsError::kInval, "'" + a + "' is not an address: write host:port");
  }
  if (all.empty()) return Error(FsError::kInval, "no metadata server is named: write host:port");
  config->addresses = std::move(all);
  return Ok();
}

Result<void> SetTimeout(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->timeout_ns, ParseDuration(text));
  if (config->timeout_ns < kSecond) return Error(FsError::kInval, "the timeout is at least 1s");
  return Ok();
}

Result<void> SetMemory(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->memory_bytes, ParseSize(text));
  if (config->memory_bytes < kMinMountMemoryBytes) {
    return Error(FsError::kInval, "memory is at least " + FormatSize(kMinMountMemoryBytes));
  }
  return Ok();
}

Result<void> SetLogLevel(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->log_level, ParseLogLevel(text));
  return Ok();
}

}  // namespace

Result<void> ParseSource(std::string_view text, MountConfig* config) {
  const size_t slash = text.find(":/");
  if (slash != std::string_view::npos) {
    config->path = std::string(text.substr(slash + 1));
    text = text.substr(0, slash);
  }
  return SetAddresses(text, config);
}

Result<void> ParseMountOptions(std::string_view text, MountConfig* config) {
  for (const std::string& option : SplitComma(text)) {
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
    if (key == "meta") {
      RETURN_IF_ERROR(SetAddresses(value, config));  // one: commas part options
    } else if (key == "timeout") {
      RETURN_IF_ERROR(SetTimeout(value, config));
    } else if (key == "memory") {
      RETURN_IF_ERROR(SetMemory(value, config));
    } else if (key == "loglevel") {
      RETURN_IF_ERROR(SetLogLevel(value, config));
    } else if (key == "node") {
      config->node = value;
    } else if (key == "log") {
      config->log_file = value;
    } else if (option == "async_close") {
      config->async_close = true;
    } else if (option == "sync_close") {
      config->async_close = false;
    } else if (key.starts_with("x-") || key == "comment" ||
               std::find(kNotOurs.begin(), kNotOurs.end(), option) != kNotOurs.end()) {
      if (option == "rw") config->read_only = false;
    } else {
      if (option == "ro") config->read_only = true;
      config->fuse_options.push_back(option);
    }
  }
  return Ok();
}

Result<void> CompleteConfig(bool is_root, MountConfig* config) {
  if (config->addresses.empty()) return Error(FsError::kInval, "no metadata server is named: use --meta host:port");
  if (config->mountpoint.empty()) return Error(FsError::kInval, "no mount point is named");
  std::vector<std::string>& o = config->fuse_options;
  auto has = [&o](std::string_view name) { return std::find(o.begin(), o.end(), name) != o.end(); };
  // Permission checks of the kernel cost nothing; without them a mount that others may use is open to all.
  if (!has("default_permissions")) o.push_back("default_permissions");
  if (is_root && !has("allow_other") && !has("allow_root")) o.push_back("allow_other");
  if (!config->read_only) std::erase(o, "ro");
  return Ok();
}

ParsedCommand ParseCommandLine(int argc, const char* const* argv, bool is_root) {
  ParsedCommand out;
  MountConfig& config = out.config;
  CLI::App app("Mounts a Stria filesystem.\n\n"
               "  stria-mount --meta pc1:7000 /data\n"
               "  stria-mount pc1:7000,pc2:7000:/atlas /data -o ro");
  app.name("stria-mount");
  std::vector<std::string> positional, options;
  std::string meta, timeout, memory, level;
  app.add_option("where", positional, "[HOST:PORT[,HOST:PORT...][:/PATH]] MOUNTPOINT")->expected(1, 2)->required();
  app.add_option("--meta", meta, "metadata servers: HOST:PORT[,HOST:PORT...]");
  app.add_option("--node", config.node, "name of the node that this machine is");
  app.add_option("--timeout", timeout, "how long a call waits for servers before it fails (60s)");
  app.add_option("-o", options, "mount options: ro, allow_other, async_close, ...")->allow_extra_args(false);
  app.add_option("--memory", memory, "for bytes to be written and stripes read (288MiB)");
  app.add_option("--log", config.log_file, "write the log to this file");
  app.add_option("--log-level", level, "debug, info, warning, error, off");
  app.add_flag("-f,--foreground", config.foreground, "stay in the foreground, log to stderr");
  app.add_flag("--async-close", config.async_close, "close(2) does not wait for the disks; fsync(2) does");
  // What mount(8) passes to its helpers.
  bool ignored = false;
  std::string ignored_text;
  app.add_flag("-n,-s,-v", ignored, "")->group("");
  app.add_option("-N,-t", ignored_text, "")->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream text;
    out.exit_now = true;
    out.exit_code = app.exit(e, text, text) == 0 ? 0 : kUsageExit;
    out.text = text.str();
    return out;
  }
  auto apply = [&]() -> Result<void> {
    config.mountpoint = positional.back();
    if (positional.size() == 2) RETURN_IF_ERROR(ParseSource(positional[0], &config));
    if (!meta.empty()) RETURN_IF_ERROR(SetAddresses(meta, &config));
    for (const std::string& o : options) RETURN_IF_ERROR(ParseMountOptions(o, &config));
    if (!timeout.empty()) RETURN_IF_ERROR(SetTimeout(timeout, &config));
    if (!memory.empty()) RETURN_IF_ERROR(SetMemory(memory, &config));
    if (!level.empty()) RETURN_IF_ERROR(SetLogLevel(level, &config));
    return CompleteConfig(is_root, &config);
  };
  if (auto r = apply(); !r.ok()) {
    out.exit_now = true;
    out.exit_code = kUsageExit;
    out.text = "stria-mount: " + r.error().message + "\n";
  }
  return out;
}

}  // namespace stria
