// Reads shards of the own node from its disks: a DataConnector whose service for the own node's data server asks that server
// for descriptors (local_wire.h) and preads them. All other calls, and reads that fail that way, go over the network. The
// reader checks the bytes as always: the checksums come with the descriptor.
//
// At most kMaxLocalShards descriptors are kept, each for kKeepLocalNs at most, a deleted shard's for kSweepLocalNs
// (its space is free only when all have closed it), and none once the data server has gone. Executor's thread; the
// executor outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/data_api.h"
#include "api/local_api.h"
#include "common/exec/executor.h"
#include "common/exec/pool.h"

namespace stria {

inline constexpr size_t kMaxLocalShards = 1024;
inline constexpr int64_t kKeepLocalNs = 30 * kSecond;
inline constexpr int64_t kSweepLocalNs = 1 * kSecond;

struct LocalStats {
  uint64_t opened = 0;       // descriptors that came
  uint64_t local_bytes = 0;  // read from them
};

class LocalDataConnector final : public DataConnector {
 public:
  // Whether the data server at this address is of the own node.
  using IsLocal = std::function<bool(const std::string& address)>;
  // `network` and `pool` (for blocking reads) outlive it.
  LocalDataConnector(Executor* executor, DataConnector* network, Pool* pool, IsLocal is_local);
  ~LocalDataConnector() override;
  std::shared_ptr<DataService> Connect(const std::string& address) override;
  // The file of a shard of the own node's data server, for another reader (the kernel): null if it has none, or not of exactly
  // `shard.length` bytes. Only shard, target, token and length of `shard` count.
  Task<std::shared_ptr<const UniqueFd>> OpenWhole(std::string address, ShardRead shard);
  const LocalStats& stats() const;

 private:
  class State;
  class Link;
  class Service;
  std::shared_ptr<Link> LinkTo(const std::string& address);

  DataConnector* const network_;
  const IsLocal is_local_;
  std::shared_ptr<State> state_;
  std::map<std::string, std::weak_ptr<Link>> links_;  // by address, of those in use
  std::shared_ptr<Link> asked_last_;                  // by OpenWhole
};

}  // namespace stria
