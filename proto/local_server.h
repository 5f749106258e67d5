// Gives readers of the same machine descriptors of shards (api/local_api.h), over an abstract Unix socket named after the data
// server's address. Only to processes of root or of the server's user, and only for a token that allows the read. Members are
// for the executor's thread, which outlives the server.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "api/local_api.h"
#include "common/exec/executor.h"

namespace stria {

inline constexpr size_t kMaxLocalConnections = 64;
inline constexpr size_t kMaxLocalAsks = 1024;  // being answered; more are kRetryLater

class LocalServer {
 public:
  LocalServer(Executor* executor, LocalShards* shards);  // both outlive it
  // As Stop().
  ~LocalServer();
  // `address`: as others reach the data server. False if the name is taken or too long.
  bool Start(const std::string& address);
  void Stop();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace stria
