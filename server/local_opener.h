// Gives readers on the same machine the files of sealed raw shards (api/local_api.h). Tokens are checked as for a read. The
// server sees that they read, but not which bytes. For the executor's thread.
#pragma once

#include <map>
#include <string>

#include "api/local_api.h"
#include "common/io/disk.h"
#include "server/data_server.h"
#include "server/token_gate.h"

namespace stria {

class LocalOpener final : public LocalShards {
 public:
  // `disks`: the files' disk of each store of the server. All outlive it.
  LocalOpener(const TokenGate* gate, DataServer* server, std::map<const ShardStore*, Disk*> disks)
      : tokens_(gate), server_(server), disks_(std::move(disks)) {}

  // A store that came later.
  void Add(const ShardStore* store, Disk* disk) { disks_[store] = disk; }

  void Remove(const ShardStore* store) { disks_.erase(store); }

  Task<Result<LocalShard>> OpenLocal(ShardId shard, TargetId target, std::string token) override;

 private:
  const TokenGate* const tokens_;
  DataServer* const server_;
  std::map<const ShardStore*, Disk*> disks_;
};

}  // namespace stria
