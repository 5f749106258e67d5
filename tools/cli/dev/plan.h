// A cluster on this machine, as `stria dev` keeps it: the content of D/cluster.json, and the decisions (names, layouts, command
// lines) as pure functions.
//
//     D/cluster.json            what is here; rewritten atomically with every change
//     D/cluster.key             the cluster key, for the owner's eyes only
//     D/meta/                   the metadata server's data, and with it the cluster's authority (dev_trust.h); or D/meta1/ .. (dev_metas.h)
//     D/trust/n1/ ..            certificates of nodes and mounts
//     D/n1/d1/ ..               the disks of node n1
//     D/etcd1/ ..               the members of etcd that several metadata servers agree through
//     D/log/meta.log ..         one log per process
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace stria::cli {

inline constexpr int kMaxDevNodes = 64;
inline constexpr int kMaxDevDisks = 32;  // per node

struct DevProcess {
  enum class Kind : uint8_t { kMeta, kNode, kMount, kEtcd };
  Kind kind = Kind::kMeta;
  std::string name;         // "meta" or "meta1", "n3", "mount", "mount2", "etcd1"
  pid_t pid = 0;            // 0: stopped
  uint64_t start_time = 0;  // of the pid, as in /proc/PID/stat: a pid used again has another
  std::string address;      // 127.0.0.1:PORT; a mount has its mount point here
  std::string log;
  std::string node;  // mounts: the node they live on
  int disks = 0;     // nodes
  std::string options;  // mounts: as after -o
  std::string peer;     // etcd: 127.0.0.1:PORT for the other members
  bool operator==(const DevProcess&) const = default;
};

struct DevCluster {
  std::string dir;                    // absolute
  std::string layout;                 // of the root directory
  int disks = 2;                      // of nodes that are added
  bool secured = false;               // its programs prove who they are, and encrypt
  std::string data_security;          // of nodes and mounts; "": as usual
  std::string cluster;                // its uuid, where several metadata servers must be told; else ""
  std::vector<DevProcess> processes;  // in the order of starting: etcd, meta, nodes, mounts
  bool operator==(const DevCluster&) const = default;

  DevProcess* Find(const std::string& name);
  std::vector<const DevProcess*> Metas() const;
  std::vector<std::string> MetaAddresses() const;
  std::string MetaAddress() const;  // of all of them, as commands take it; "": there is none
  int Nodes() const;
  std::string MetaTrust() const;  // the first one's, which has made it
  std::string AdminTrust() const { return MetaTrust() + "/admin"; }
  std::string TrustOf(const DevProcess& p) const { return dir + "/trust/" + p.name; }  // a node's or a mount's
};

std::string EncodeDevCluster(const DevCluster& c);
// kCorrupt with the file's name and the fault.
Result<DevCluster> DecodeDevCluster(std::string_view text, const std::string& file);

// The layout of a new cluster unless another is asked for: raid5:4+1 on five nodes or more; on fewer the widest that fits
// (raid5:3+1, raid5:2+1, raid1:2), with domain=disk on a single node.
std::string DefaultDevLayout(int nodes, int disks);
// kTooFewDomains with the remedy, if so many nodes and disks cannot hold `layout`; kInval if it is not one.
Result<void> CheckDevLayout(const std::string& layout, int nodes, int disks);

// "n1".."n64".
bool IsNodeName(const std::string& name);
// "mount", "mount2", ..: the first one that is free.
std::string FreeMountName(const DevCluster& c);

// Program and arguments of a process; `binary` is its path.
std::vector<std::string> CommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary);

// The last error that a log tells of, else its last line; "" if it is empty.
std::string LastError(std::string_view log_tail);

}  // namespace stria::cli
