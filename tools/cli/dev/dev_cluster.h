// The verbs of `stria dev` on one directory. Every change is in D/cluster.json before the next step, so
// that an interrupted command leaves nothing that `stria dev down` does not find. One command at a time
// per directory (a lock on D/.lock).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/cli/context.h"
#include "tools/cli/dev/plan.h"

namespace stria::cli {

struct DevUpArgs {
  std::string dir;
  int nodes = 5;
  int disks = 2;
  std::string mount;   // "": no mount, or where it was
  std::string layout;  // "": the default, or what it was
  int port_base = 0;   // 0: free ports are found
  bool insecure = false;  // of a new cluster: no certificates, nothing is encrypted
  std::string data_security;  // of a new, secured cluster: its nodes' and mounts'; "": as usual
  int metas = 1;              // of a new cluster
  bool only_etcd = false;     // of a new cluster: the members of etcd, and nothing else (for tests of them)
};

class DevDir {
 public:
  // Locks D. `create`: it may be new. kNoEnt with the remedy if there is no cluster.
  static Result<std::unique_ptr<DevDir>> Open(const Context& ctx, const std::string& dir, bool create);
  // Without the lock, for looking only.
  static Result<DevCluster> Peek(const std::string& dir);
  ~DevDir();
  DevDir(const DevDir&) = delete;
  DevDir& operator=(const DevDir&) = delete;

  const DevCluster& cluster() const { return cluster_; }

  // Makes the cluster if there is none, starts processes that do not run, and returns when the mount works. On failure it stops
  // the processes that it started.
  Result<void> Up(const DevUpArgs& args);
  Result<void> Kill(const std::string& name);   // SIGKILL
  Result<void> Start(const std::string& name);  // returns when it is in service
  Result<void> Add(const std::string& name, int disks);
  Result<void> AddMount(const std::string& path, const std::string& node, const std::string& options);
  // Unmounts, then stops every process: TERM, and KILL after a while.
  Result<void> Down();

 private:
  DevDir(const Context& ctx, int lock_fd) : ctx_(ctx), lock_fd_(lock_fd) {}
  Result<void> Create(const DevUpArgs& args);
  Result<void> Extend(const DevUpArgs& args);
  Result<void> AddEtcdEntries();
  Result<void> AddMetaEntries(int metas, int port_base);
  Result<void> AddNodeEntry(const std::string& name, int disks, int port_base);
  Result<void> AddMountEntry(const std::string& path, const std::string& node, const std::string& options);
  Result<std::string> PickAddress(int wanted_port) const;
  Result<void> Save() const;
  bool Running(const DevProcess& p) const;

  Result<void> Enrol(const std::vector<std::string>& names);  // those that need it and do not run
  Result<void> Launch(const std::string& name);  // starts, does not wait
  Result<void> StopAfterFailure(const std::vector<std::string>& started, Error why);
  Result<void> StartAll(std::vector<std::string>* started);
  Result<void> AwaitEtcd(const std::vector<std::string>& names);
  Result<void> StartMetas(const std::function<Result<void>(const std::string&)>& launch);
  Result<void> AwaitMeta();
  Result<void> AwaitMembers(const std::vector<std::string>& names);  // of several metadata servers
  Result<void> AwaitNodes(const std::vector<std::string>& names);
  Result<void> AwaitMount(const std::string& name);
  Result<void> ApplyLayout();
  Result<void> PrepareMountPoint(const std::string& path) const;
  // Polls `ready` until it is true; reports the wait. Fails when one of `watched` dies.
  Result<void> Await(const std::string& what, const std::vector<std::string>& watched,
                     const std::function<bool(std::string* detail)>& ready);
  Error Died(const DevProcess& p) const;
  Result<ClusterClient*> Client();
  Result<ClusterMap> AskForMap();
  void Say(const std::string& line) const;

  const Context& ctx_;
  int lock_fd_;
  DevCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
};

// SIGINT and SIGTERM end waits with kIntr, so that started processes are stopped.
void CatchInterrupts();
bool Interrupted();

}  // namespace stria::cli
