#include "client/fuse/mount_config.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "common/metrics_server.h"
#include "common/printable.h"
#include "common/program.h"
#include "common/quantity.h"
#include "common/quick_wake.h"

namespace stria {
namespace {

constexpr int kUsageExit = 2;

// Options of mount(8) that no filesystem, or none of the network, has anything to do for.
constexpr std::string_view kNotOurs[] = {
    // of mount(8) and its helpers
    "defaults", "auto", "noauto", "user", "nouser", "users", "nousers", "owner", "noowner", "group", "nogroup", "_netdev", "_rnetdev",
    "nofail", "fail", "remount", "silent", "loud",
    // options that are the default anyway
    "rw", "nomand", "noiversion", "nolazytime",
    // when times of access move is decided here (docs/posix.md); others' names for it change nothing, as with NFS
    "atime", "relatime", "norelatime", "strictatime", "nostrictatime", "diratime", "nodiratime", "lazytime",
    // of filesystems with a disk of their own
    "mand", "iversion"};
// The same with a value.
constexpr std::string_view kNotOursWithValue[] = {"comment", "user", "helper", "uhelper"};

// Options that undo others: the last one counts.
constexpr std::pair<std::string_view, std::string_view> kUndo[] = {
    {"atime", "noatime"}, {"strictatime", "noatime"}, {"diratime", "nodiratime"}, {"suid", "nosuid"},  {"nosuid", "suid"},
    {"dev", "nodev"},     {"nodev", "dev"},           {"exec", "noexec"},         {"noexec", "exec"}};

bool IsNotOurs(const std::string& option, const std::string& key) {
  return key.starts_with("x-") || key.starts_with("X-") || std::ranges::count(kNotOurs, option) > 0 ||
         std::ranges::count(kNotOursWithValue, key) > 0;
}

// A value in double quotes may have commas (context="..").
std::vector<std::string> SplitComma(std::string_view text) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) out.emplace_back();
    else out.back() += c;
  }
  std::erase(out, "");
  return out;
}

Result<void> SetAddresses(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(std::vector<std::string> all, WithPorts({std::string(text)}, kDefaultMetaPort));
  if (all.empty()) return Error(FsError::kInval, "no metadata server is named: write host:port");
  config->addresses = std::move(all);
  return Ok();
}

Result<void> SetTimeout(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->timeout_ns, ParseDuration(text));
  if (config->timeout_ns < kSecond) return Error(FsError::kInval, "the timeout is at least 1s");
  return Ok();
}

Result<void> SetWait(std::string_view text, MountConfig* config) {
  if (text == "forever") {
    config->wait_ns = INT64_MAX;
    return Ok();
  }
  ASSIGN_OR_RETURN(config->wait_ns, ParseDuration(text));
  return Ok();
}

Result<void> SetMemory(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->memory_bytes, ParseSize(text));
  if (config->memory_bytes < kMinMountMemoryBytes) {
    return Error(FsError::kInval, "memory is at least " + FormatSize(kMinMountMemoryBytes));
  }
  return Ok();
}

Result<void> SetId(std::string_view name, std::string_view text, std::optional<uint32_t>* id) {
  uint32_t value = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (err != std::errc() || end != text.data() + text.size() || value == UINT32_MAX) {
    return Error(FsError::kInval, std::string(name) + "= needs a number, not '" + std::string(text) + "'");
  }
  *id = value;
  return Ok();
}

Result<void> SetWakeLatency(std::string_view text, MountConfig* config) {
  RETURN_IF_ERROR(ParseWakeLatency(text, ""));
  config->wake_latency = std::string(text);
  return Ok();
}

Result<void> SetTrust(std::string_view text, MountConfig* config) {
  if (text.empty()) return Error(FsError::kInval, "trust= needs the directory of the mount's credentials, or off");
  config->trust = std::string(text);
  return Ok();
}

Result<void> SetDataSecurity(std::string_view text, MountConfig* config) {
  const std::optional<WireMode> mode = ParseWireMode(text);
  if (!mode) return Error(FsError::kInval, "data_security= is privacy, integrity or auth, not '" + std::string(text) + "'");
  config->data_security = *mode;
  return Ok();
}

Result<void> SetMetrics(std::string_view text, MountConfig* config) {
  config->metrics = std::string(text);
  return CheckMetricsAddress(config->metrics);
}

Result<void> SetMetricsFile(std::string_view text, MountConfig* config) {
  config->metrics_file = std::string(text);
  return CheckMetricsFile(config->metrics_file);
}

Result<void> SetLogLevel(std::string_view text, MountConfig* config) {
  ASSIGN_OR_RETURN(config->log_level, ParseLogLevel(text));
  return Ok();
}

}  // namespace

Result<void> ParseSource(std::string_view text, MountConfig* config) {
  config->source = std::string(text);
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
    for (const auto& [now, before] : kUndo) {
      if (option == now) std::erase(config->fuse_options, before);
    }
    if (key == "meta") {
      RETURN_IF_ERROR(SetAddresses(value, config));  // one: commas part options
    } else if (key == "timeout") {
      RETURN_IF_ERROR(SetTimeout(value, config));
    } else if (key == "wait") {
      RETURN_IF_ERROR(SetWait(value, config));
    } else if (key == "memory") {
      RETURN_IF_ERROR(SetMemory(value, config));
    } else if (key == "trust") {
      RETURN_IF_ERROR(SetTrust(value, config));
    } else if (key == "data_security") {
      RETURN_IF_ERROR(SetDataSecurity(value, config));
    } else if (key == "metrics") {
      RETURN_IF_ERROR(SetMetrics(value, config));
    } else if (key == "metrics_file") {
      RETURN_IF_ERROR(SetMetricsFile(value, config));
    } else if (key == "wake_latency") {
      RETURN_IF_ERROR(SetWakeLatency(value, config));
    } else if (key == "log_level" || key == "loglevel") {
      RETURN_IF_ERROR(SetLogLevel(value, config));
    } else if (key == "uid") {
      RETURN_IF_ERROR(SetId(key, value, &config->uid));
    } else if (key == "gid") {
      RETURN_IF_ERROR(SetId(key, value, &config->gid));
    } else if (key == "node") {
      config->node = value;
    } else if (key == "log_file" || key == "log") {
      config->log_file = value;
    } else if (option == "passthrough" || option == "nopassthrough") {
      config->passthrough = option == "passthrough";
    } else if (option == "sync" || option == "async") {
      config->sync = option == "sync";
    } else if (option == "async_close") {
      config->async_close = true;
    } else if (option == "sync_close") {
      config->async_close = false;
    } else if (option == "nosymfollow" || option == "symfollow") {
      config->no_symlinks = option == "nosymfollow";
    } else if (IsNotOurs(option, key)) {
      if (option == "rw") config->read_only = false;
      if (option == "remount") config->verb = MountVerb::kRemount;
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
  if (config->sync) o.push_back("sync");  // the kernel shows it, and leaves it to the mount
  // mount(8) does not pass "dev" and "suid", because they are its defaults: helpers see them by the absence of their opposites
  // (as mount.fuse(8) does). libfuse's defaults are the opposites.
  if (config->by_mount8 && is_root) {
    for (const char* allowed : {"dev", "suid"}) {
      if (!has(std::string("no") + allowed) && !has(allowed)) o.push_back(allowed);
    }
  }
  if (config->passthrough && config->node.empty()) {
    return Error(FsError::kInval, "passthrough needs node=NAME: only files on a disk of this machine can be read past the mount");
  }
  if (config->passthrough && !is_root) {
    return Error(FsError::kInval, "passthrough needs root: the kernel takes no files to read from anybody else");
  }
  return Ok();
}

namespace {

constexpr char kAbout[] =
    "Mounts a Stria filesystem.\n\n"
    "  stria-mount pc1:/ /data                              port 7424 unless another is named\n"
    "  stria-mount pc1:7424,pc2:7424:/atlas /data -o ro     one directory of it, to be read\n"
    "  stria-mount --meta pc1 --node pc7 /data              on the node pc7: its own data is read from disk\n"
    "  mount -t fuse.stria pc1:/atlas /data -o ro,timeout=2m\n"
    "  umount /data                                         returns when all bytes are written\n\n"
    "In /etc/fstab:\n"
    "  pc1:/  /data  fuse.stria  _netdev,nofail,nosuid,nodev,wait=forever,x-systemd.mount-timeout=infinity  0  0";

constexpr char kOptions[] =
    "mount options: ro, timeout=60s, wait=DURATION|forever (for a metadata server, at the start; the timeout, if it is not set), "
    "memory=1GiB, node=NAME (found by itself on a machine that is one node), async_close (close(2) does not wait for the disks), "
    "sync (each write(2) does), "
    "uid=N and gid=N (all files seem to have this owner, and a caller with uid N acts as the user who mounted), log_file=FILE, log_level=debug, "
    "metrics=IP:PORT (served to Prometheus, to whoever can connect), metrics_file=PATH.prom (for node_exporter, every 15 s), "
    "passthrough (files that lie whole on a disk of this node are read by the kernel, without checks, and not to be changed "
    "meanwhile), trust=DIR|off (the mount's credentials, default /etc/stria/trust), data_security=privacy|integrity|auth (of data on the wire, "
    "default privacy), wake_latency=auto|off|N (processors wake up within N us while there are many requests), "
    "allow_other (root's default), default_permissions (always on), noatime, nosuid, nodev, noexec, nosymfollow, dirsync; all "
    "others of mount(8) are taken and change nothing";

std::string BaseName(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

// umount.fuse.stria DIR [-lfvnr] [-N NS] [-t TYPE]
void UmountForm(CLI::App& app, MountConfig& config, std::vector<std::string>& positional) {
  app.add_option("where", positional, "MOUNTPOINT")->expected(1)->required();
  app.add_flag("-l,--lazy", config.lazy, "detach it now, even if files are open; do not wait");
  app.add_flag("-f,--force", config.force, "also if the servers do not answer: calls under way fail");
}

}  // namespace

ParsedCommand ParseCommandLine(int argc, const char* const* argv, bool is_root) {
  ParsedCommand out;
  MountConfig& config = out.config;
  const std::string name = argc > 0 ? BaseName(argv[0]) : "stria-mount";
  const bool umount = name.starts_with("umount.");
  config.by_mount8 = umount || name.starts_with("mount.");
  CLI::App app(umount ? "Unmounts a Stria filesystem, and returns when all its bytes are written." : kAbout);
  app.name(config.by_mount8 ? name : "stria-mount");
  std::vector<std::string> positional, options;
  std::string meta, timeout, wait, memory, level, trust, data_security;
  bool fake = false, insecure = false;
  if (umount) {
    config.verb = MountVerb::kUnmount;
    UmountForm(app, config, positional);
  } else {
    app.add_option("where", positional, "[HOST[:PORT][,HOST...][:/PATH]] MOUNTPOINT")->expected(1, 2)->required();
    app.add_option("--meta", meta, "metadata servers: HOST[:PORT][,HOST...]");
    app.add_option("--node", config.node, "name of the node that this machine is (found by itself, if it is one)");
    app.add_option("--timeout", timeout, "how long a call waits for servers before it fails (60s)");
    app.add_option("--wait", wait, "how long it waits for a metadata server at the start: a time, or forever (as --timeout)");
    app.add_option("-o", options, kOptions)->allow_extra_args(false);
    app.add_option("--memory", memory, "for bytes to be written and stripes read (224MiB)");
    app.add_option("--trust", trust, "directory of the mount's credentials (" + std::string(kTrustDirectory) + "), or off");
    app.add_option("--data-security", data_security, "of data on the wire: privacy, integrity or auth (privacy)");
    app.add_flag("--insecure", insecure, "as trust=off: prove nothing and encrypt nothing");
    app.add_option("--log-file,--log", config.log_file, "write the log to this file");
    app.add_option("--log-level", level, "debug, info, warning, error, off");
    app.add_flag("--async-close", config.async_close, "close(2) does not wait for the disks; fsync(2) does");
    if (config.by_mount8) {
      app.add_flag("-f", fake, "do nothing");
    } else {
      app.add_flag("-f,--foreground", config.foreground, "stay in the foreground, log to stderr");
    }
  }
  // Options that mount(8) and umount(8) pass to their helpers.
  bool ignored = false;
  std::string ignored_text;
  app.add_flag("-n,-s,-v,-r", ignored, "")->group("");
  app.add_option("-N,-t", ignored_text, "")->group("");
  AddSelfDescription(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream text;
    out.exit_now = true;
    out.exit_code = SayParsed(app, e, text, text) == 0 ? 0 : kUsageExit;
    out.text = text.str();
    return out;
  }
  auto apply = [&]() -> Result<void> {
    config.mountpoint = positional.back();
    if (umount) return Ok();
    for (const std::string& o : options) RETURN_IF_ERROR(ParseMountOptions(o, &config));
    if (config.verb == MountVerb::kRemount) return Ok();  // the source may be as the mount table shows it
    if (positional.size() == 2) RETURN_IF_ERROR(ParseSource(positional[0], &config));
    if (!meta.empty()) {
      RETURN_IF_ERROR(SetAddresses(meta, &config));
      config.source.clear();  // it does not say where this mount comes from
    }
    if (!timeout.empty()) RETURN_IF_ERROR(SetTimeout(timeout, &config));
    if (!wait.empty()) RETURN_IF_ERROR(SetWait(wait, &config));
    if (!memory.empty()) RETURN_IF_ERROR(SetMemory(memory, &config));
    if (!level.empty()) RETURN_IF_ERROR(SetLogLevel(level, &config));
    if (!trust.empty()) RETURN_IF_ERROR(SetTrust(trust, &config));
    if (insecure) config.trust = kTrustOff;
    if (!data_security.empty()) RETURN_IF_ERROR(SetDataSecurity(data_security, &config));
    RETURN_IF_ERROR(CompleteConfig(is_root, &config));
    if (fake) config.verb = MountVerb::kNothing;
    return Ok();
  };
  if (auto r = apply(); !r.ok()) {
    out.exit_now = true;
    out.exit_code = kUsageExit;
    out.text = "stria-mount: " + Printable(r.error().message) + "\n";
  }
  return out;
}

}  // namespace stria
