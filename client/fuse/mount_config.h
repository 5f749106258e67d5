// The command line of stria-mount. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/address.h"
#include "common/error.h"
#include "common/log.h"
#include "common/units.h"
#include "trust/place.h"
#include "trust/tls/wire_mode.h"

namespace stria {

inline constexpr uint64_t kMinMountMemoryBytes = 128 * kMiB;

// The settings of the command line. As mount.stria or mount.fuse.stria the program is a helper of mount(8), as
// umount.fuse.stria one of umount(8).
enum class MountVerb : uint8_t { kMount, kRemount, kUnmount, kNothing };

struct MountConfig {
  MountVerb verb = MountVerb::kMount;
  bool by_mount8 = false;
  bool lazy = false, force = false;    // of kUnmount
  std::optional<uint32_t> uid, gid;    // the owner that all files seem to have
  std::vector<std::string> addresses;  // host:port of metadata servers
  std::string path = "/";              // of the directory that is mounted
  std::string source;                  // as it was given; "": it was not, or says less than the two above
  std::string mountpoint;
  std::string node;                    // the node this machine is; "": it is found (find_node.h), if it is one
  int64_t timeout_ns = 60 * kSecond;
  std::optional<int64_t> wait_ns;      // for a metadata server at the start; not set: the timeout
  uint64_t memory_bytes = 224 * kMiB;  // dirty bytes, and the cache of stripes
  bool async_close = false;
  bool sync = false;                   // each write is durable when it returns
  bool passthrough = false;            // client/fuse/passthrough.h
  bool read_only = false;
  bool no_symlinks = false;            // nosymfollow
  bool foreground = false;
  std::string log_file;
  LogLevel log_level = LogLevel::kInfo;
  std::string metrics;                 // IP:PORT to serve metrics on; "": nowhere
  std::string metrics_file;            // that they are written to, *.prom; "": none
  std::string wake_latency = "auto";   // common/quick_wake.h
  std::string trust = kTrustDirectory;  // directory of the mount's credentials, or "off"
  WireMode data_security = WireMode::kPrivacy;  // that it wants for data; a server may want more
  std::vector<std::string> fuse_options;  // for libfuse and the kernel

  uint64_t dirty_limit_bytes() const { return memory_bytes / 3 * 2; }
  uint64_t block_cache_bytes() const { return memory_bytes - dirty_limit_bytes(); }
  uint64_t mapping_bytes() const { return memory_bytes / 6; }  // besides
};

// "h1:7424,h2:/sub/dir": addresses (without a port, the default one), and the path if there is one. IPv6 hosts
// stand in brackets.
Result<void> ParseSource(std::string_view text, MountConfig* config);
// The comma-separated text after -o. Knows the long options too (timeout=60s, node=n3, ...), so that they can stand in fstab;
// passes over options that mount(8) keeps for itself; the rest is for libfuse.
Result<void> ParseMountOptions(std::string_view text, MountConfig* config);
// Adds defaults and checks that nothing is missing.
Result<void> CompleteConfig(bool is_root, MountConfig* config);

struct ParsedCommand {
  MountConfig config;
  bool exit_now = false;  // --help, --version, or a mistake:
  int exit_code = 0;
  std::string text;       // to be printed
};
ParsedCommand ParseCommandLine(int argc, const char* const* argv, bool is_root);

}  // namespace stria
