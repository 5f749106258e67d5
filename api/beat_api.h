// Beats between metadata servers of one cluster that their logic has no part in. (An Append, api/replica_api.h, is a beat, too.)
// Implemented by meta/replica/beats and by proto/ (a client stub over a transport).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/data_api.h"
#include "common/exec/task.h"

namespace stria {

// From a primary, by its beat thread. Whoever answers with `promised` does not open as primary for the grace G, from when the beat has
// arrived.
struct BeatRequest {
  DataHeader header;
  uint64_t term = 0;
  std::string primary;  // its member name
  std::string to;       // the member's that is meant
};
struct BeatReply {
  uint64_t term = 0;      // promised: that of the beat; else a higher one, and the caller is primary no more
  bool promised = false;
};

class BeatService {
 public:
  virtual ~BeatService() = default;
  // kNotReady: it promises nothing now (it has not read the register yet, asks for the place itself, or hangs). kStale: the address leads to
  // another member, or to another directory of it.
  virtual Task<Result<BeatReply>> Beat(BeatRequest request) = 0;
};

// As DataConnector.
class BeatConnector {
 public:
  virtual ~BeatConnector() = default;
  virtual std::shared_ptr<BeatService> ConnectBeats(const std::string& address) = 0;
};

}  // namespace stria
