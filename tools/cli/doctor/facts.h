// What `stria doctor` has seen of this machine and its way to the cluster. Values only: gather.h fills them, rules.h judges them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/replica_api.h"

namespace stria::cli::doctor {

struct NameFact {
  std::string whose;                   // "this machine", "the metadata server", "node n3"
  std::string name;
  std::string error;                   // why it was not found; "" if it was
  std::vector<std::string> addresses;  // numeric, of the name
  std::vector<std::string> back;       // the names of these addresses, as far as they have one
  bool own = false;                    // this machine's
};

struct ClockFact {
  bool known = false;        // the metadata server has told its time
  int64_t offset_ns = 0;     // this machine's clock less the server's
  int64_t round_trip_ns = 0;
  bool synchronized = false;  // the kernel's clock is led by a time service
};

enum class MtuIs : uint8_t {
  kUnknown,  // nothing answers
  kPasses,   // packets of the interface's size arrive
  kLost,     // small ones arrive, large ones do not
};

struct PeerFact {
  std::string whose, address;
  bool meta = false;
  bool up = true;     // as the metadata server sees it
  bool reached = false;
  std::string error;  // why not
  MtuIs mtu = MtuIs::kUnknown;
  int mtu_bytes = 0;  // of the interface towards it, IP header included; 0: not known
};

struct DiskFact {
  std::string label, path;
  bool is_dir = false;
  bool on_root = false;         // in the filesystem of /
  bool superblock = false;
  bool of_server = true;        // belongs to the user that runs the server
  std::string filesystem;       // "ext4"; "": not known
  std::string mount_point;
  std::vector<std::string> options;  // as it is mounted
  std::optional<bool> xattrs;        // user.* can be set
  bool direct = true;                // O_DIRECT works
  bool in_fstab = false;
  std::vector<std::string> fstab_options;
  uint64_t total_bytes = 0, free_bytes = 0, total_inodes = 0, free_inodes = 0;  // inodes 0: the filesystem makes them as it needs them
};

struct KernelFact {
  std::string release;  // "6.1.0-13-amd64"
  bool fuse = false;    // /dev/fuse is there
  std::optional<bool> fuse_passthrough;  // built with it; none: not known
  bool io_uring = false;
  bool user_allow_other = false;
};

struct CertificateFact {
  std::string directory;
  std::string error;    // what is wrong with it; the rest is empty then
  std::string role, name, cluster;
  int64_t not_before_s = 0, not_after_s = 0;
};

// This machine's metadata server is one of several.
struct HaFact {
  bool there = false;               // meta.toml has [ha]
  std::string member;
  std::string error;                // what is wrong with its settings; "" nothing
  bool tls = false;                 // etcd is asked over TLS
  std::vector<PeerFact> etcd;       // its members, as tried from here
  std::optional<MemberStatusReply> members;  // what the metadata servers say of each other; none: nobody has
};

struct Facts {
  int64_t now_s = 0;  // wall clock
  bool root = false;
  bool data_node = false;           // data.toml has disks
  bool data_address_set = false;    // data.toml has an address
  bool client = false;              // stria-mount is installed
  std::string no_cluster;           // why nothing is known of the cluster; "" if it was reached
  std::string cluster;              // its uuid
  std::string cluster_by;           // what tells of it where nobody names it: "the mount /data"; "": somebody did
  std::vector<std::string> other_clusters;  // "the mount /old, of pc9:7424": what tells of others, at which it has not looked
  std::vector<NameFact> names;
  ClockFact clock;
  std::vector<PeerFact> peers;
  std::vector<DiskFact> disks;
  std::string settings_error;       // data.toml cannot be read
  HaFact ha;
  KernelFact kernel;
  uint64_t open_files_hard = 0;     // of a process that is started here
  std::string own_version, server_version;  // "" not known
  std::vector<CertificateFact> certificates;
};

}  // namespace stria::cli::doctor
