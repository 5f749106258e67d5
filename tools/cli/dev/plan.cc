#include "tools/cli/dev/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stripe/layout_spec.h"
#include "tools/cli/dev/dev_etcd.h"
#include "tools/cli/dev/dev_metas.h"

namespace stria::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* KindName(DevProcess::Kind k) {
  switch (k) {
    case DevProcess::Kind::kMeta: return "meta";
    case DevProcess::Kind::kNode: return "node";
    case DevProcess::Kind::kMount: return "mount";
    case DevProcess::Kind::kEtcd: return "etcd";
  }
  return "?";
}

Result<DevProcess> DecodeProcess(const Json& j) {
  DevProcess p;
  const std::string kind = j.value("kind", "");
  if (kind == "meta") {
    p.kind = DevProcess::Kind::kMeta;
  } else if (kind == "node") {
    p.kind = DevProcess::Kind::kNode;
  } else if (kind == "mount") {
    p.kind = DevProcess::Kind::kMount;
  } else if (kind == "etcd") {
    p.kind = DevProcess::Kind::kEtcd;
  } else {
    return Error(FsError::kCorrupt, "a process has the kind '" + kind + "'");
  }
  p.name = j.value("name", "");
  p.pid = j.value("pid", 0);
  p.start_time = j.value("start_time", uint64_t{0});
  p.address = j.value("address", "");
  p.log = j.value("log", "");
  p.node = j.value("node", "");
  p.options = j.value("options", "");
  p.peer = j.value("peer", "");
  p.disks = j.value("disks", 0);
  if (p.name.empty() || p.name.find('/') != std::string::npos || p.address.empty() || p.log.empty() ||
      p.pid < 0 || p.pid == 1 || p.disks < 0 || p.disks > kMaxDevDisks) {
    return Error(FsError::kCorrupt,
                 "the process '" + p.name + "' has a wrong pid, address, log or number of disks");
  }
  return p;
}

}  // namespace

DevProcess* DevCluster::Find(const std::string& name) {
  for (DevProcess& p : processes) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

std::vector<const DevProcess*> DevCluster::Metas() const {
  std::vector<const DevProcess*> metas;
  for (const DevProcess& p : processes) {
    if (p.kind == DevProcess::Kind::kMeta) metas.push_back(&p);
  }
  return metas;
}

std::vector<std::string> DevCluster::MetaAddresses() const {
  std::vector<std::string> addresses;
  for (const DevProcess* p : Metas()) addresses.push_back(p->address);
  return addresses;
}

std::string DevCluster::MetaAddress() const {
  std::string all;
  for (const std::string& a : MetaAddresses()) all += (all.empty() ? "" : ",") + a;
  return all;
}

std::string DevCluster::MetaTrust() const {
  const std::vector<const DevProcess*> metas = Metas();
  return dir + "/" + (metas.empty() ? "meta" : metas.front()->name) + "/trust";
}

int DevCluster::Nodes() const {
  return static_cast<int>(std::count_if(processes.begin(), processes.end(), [](const DevProcess& p) {
    return p.kind == DevProcess::Kind::kNode;
  }));
}

std::string EncodeDevCluster(const DevCluster& c) {
  Json processes = Json::array();
  for (const DevProcess& p : c.processes) {
    Json j = {
        {"name", p.name}, {"kind", KindName(p.kind)}, {"pid", p.pid}, {"address", p.address}, {"log", p.log}};
    j["start_time"] = p.start_time;
    if (p.kind == DevProcess::Kind::kMount) j["node"] = p.node;
    if (!p.options.empty()) j["options"] = p.options;
    if (!p.peer.empty()) j["peer"] = p.peer;
    if (p.kind == DevProcess::Kind::kNode) j["disks"] = p.disks;
    processes.push_back(std::move(j));
  }
  Json all = {{"version", 1},
              {"dir", c.dir},
              {"meta", c.MetaAddress()},
              {"layout", c.layout},
              {"disks_per_node", c.disks},
              {"processes", processes}};
  if (!c.cluster.empty()) all["cluster"] = c.cluster;
  if (!c.data_security.empty()) all["data_security"] = c.data_security;
  if (c.secured) all["trust"] = c.AdminTrust();  // what commands use; without it the cluster is insecure
  return all.dump(2) + "\n";
}

Result<DevCluster> DecodeDevCluster(std::string_view text, const std::string& file) {
  const auto corrupt = [&](const std::string& why) { return Error(FsError::kCorrupt, file + ": " + why); };
  DevCluster c;
  try {  // nlohmann tells of wrong types with exceptions
    const Json j = Json::parse(text);
    if (j.value("version", 0) != 1) return corrupt("its version is not 1");
    c.dir = j.value("dir", "");
    c.layout = j.value("layout", "");
    c.disks = j.value("disks_per_node", 0);
    c.secured = !j.value("trust", "").empty();
    c.data_security = j.value("data_security", "");
    c.cluster = j.value("cluster", "");
    for (const Json& p : j.at("processes")) {
      auto process = DecodeProcess(p);
      if (!process.ok()) return corrupt(process.error().message);
      if (c.Find(process->name)) return corrupt("two processes are called '" + process->name + "'");
      c.processes.push_back(std::move(*process));
    }
  } catch (const Json::exception& e) {
    return corrupt(e.what());
  }
  const bool serves = !c.MetaAddress().empty() || (!c.processes.empty() && c.processes[0].kind == DevProcess::Kind::kEtcd);
  if (c.dir.empty() || !serves || c.disks < 1 || c.disks > kMaxDevDisks) {
    return corrupt("dir, disks_per_node or the process 'meta' is missing");
  }
  return c;
}

std::string DefaultDevLayout(int nodes, int disks) {
  if (nodes >= 5) return "raid5:4+1";
  if (nodes >= 3) return "raid5:" + std::to_string(nodes - 1) + "+1";
  if (nodes == 2) return "raid1:2";
  if (disks >= 3) return "raid5:" + std::to_string(std::min(disks, 5) - 1) + "+1,domain=disk";
  return disks == 2 ? "raid1:2,domain=disk" : "linear";
}

Result<void> CheckDevLayout(const std::string& layout, int nodes, int disks) {
  ASSIGN_OR_RETURN(const Layout l, ParseLayout(layout));
  const int have = l.domain == Domain::kNode ? nodes : nodes * disks;
  const int need = static_cast<int>(l.columns());
  if (have >= need) return {};
  const std::string what = l.domain == Domain::kNode ? "nodes" : "disks";
  return Error(FsError::kTooFewDomains,
               "the layout " + layout + " needs " + std::to_string(need) + " " + what + " and there are " +
                   std::to_string(have) + ": give --nodes " +
                   std::to_string(l.domain == Domain::kNode ? need : (need + disks - 1) / disks) +
                   (l.domain == Domain::kNode ? ", a smaller layout, or add ,domain=disk"
                                              : ", more --disks, or a smaller layout"));
}

bool IsNodeName(const std::string& name) {
  if (name.size() < 2 || name.size() > 3 || name[0] != 'n' || name[1] == '0') return false;
  int number = 0;
  for (const char c : name.substr(1)) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + (c - '0');
  }
  return number <= kMaxDevNodes;
}

std::string FreeMountName(const DevCluster& c) {
  const auto taken = [&](const std::string& name) {
    return std::any_of(c.processes.begin(), c.processes.end(),
                       [&](const DevProcess& p) { return p.name == name; });
  };
  if (!taken("mount")) return "mount";
  for (int i = 2;; ++i) {
    if (std::string name = "mount" + std::to_string(i); !taken(name)) return name;
  }
}

std::vector<std::string> CommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary) {
  const std::string key = c.dir + "/cluster.key";
  std::vector<std::string> trust = c.secured ? std::vector<std::string>{"--trust", c.TrustOf(p)} : std::vector<std::string>{"--insecure"};
  if (!c.data_security.empty()) trust.insert(trust.end(), {"--data-security", c.data_security});
  switch (p.kind) {
    case DevProcess::Kind::kMeta: return MetaCommandLine(c, p, binary);
    case DevProcess::Kind::kNode: {
      std::vector<std::string> args = {binary,   "--node-name",   p.name,          "--listen", p.address,
                                       "--meta", c.MetaAddress()};
      if (!c.secured) args.insert(args.end(), {"--cluster-key", key});
      args.insert(args.end(), trust.begin(), trust.end());
      for (int d = 1; d <= p.disks; ++d) {
        const std::string label = "d" + std::to_string(d);
        args.insert(args.end(), {"--disk", c.dir + "/" + p.name + "/" + label + ",label=" + label});
      }
      return args;
    }
    case DevProcess::Kind::kMount: {
      std::vector<std::string> args = {binary, "--meta", c.MetaAddress(), "--node", p.node, "--foreground"};
      args.insert(args.end(), trust.begin(), trust.end());
      if (!p.options.empty()) args.insert(args.end(), {"-o", p.options});
      args.push_back(p.address);
      return args;
    }
    case DevProcess::Kind::kEtcd: return EtcdCommandLine(c, p, binary);
  }
  return {};
}

std::string LastError(std::string_view tail) {
  std::string last, error;
  while (!tail.empty()) {
    const size_t end = tail.find('\n');
    const std::string line(tail.substr(0, end));
    tail = end == std::string_view::npos ? "" : tail.substr(end + 1);
    if (line.empty()) continue;
    last = line;
    const size_t mark = line.find("] E ");  // common/log.cc: "TIME PROGRAM[PID] LEVEL TEXT"
    if (mark != std::string::npos) error = line.substr(mark + 4);
    if (line.starts_with("stria-") && line.find(": ") != std::string::npos) error = line;  // refused to start
  }
  return error.empty() ? last : error;
}

}  // namespace stria::cli
