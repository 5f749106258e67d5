// Who waits at the door: connections whose peer is not known yet, and what they may cost until it is.
//
// Who has never been heard of gets 4 KiB of what it sends kept, and 5 s; there are 64 of them, and 8 from one address. Beyond that the
// oldest of the address that has most gives way to a newcomer whose address has fewer, so that one machine with
// 10,000 half handshakes keeps nobody out, nor do eight. Among those of one address, or if nobody has more than the newcomer, the oldest gives
// way after a second, in which an honest handshake is done: eight silent connections keep nobody out who comes from the same machine.
// An IPv6 network of 64 bits is one address: who has one, has all of it.
//
// Time is given by the caller. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/error.h"
#include "common/units.h"

namespace stria {

struct DoormanLimits {
  size_t unknown = 64;
  size_t per_address = 8;
  size_t bytes = 4 * kKiB;
  int64_t patience_ns = 5 * kSecond;
  int64_t grace_ns = 1 * kSecond;  // nobody gives way earlier to a newcomer whose address has as many
};

class Doorman {
 public:
  explicit Doorman(const DoormanLimits& limits = {}) : limits_(limits) {}

  struct Arrival {
    uint64_t id = 0;                   // of the one who came
    std::optional<uint64_t> sent_away;  // one who waits no more, to be closed: Leave was done
  };
  // Somebody came from `address` ("10.0.0.7:40112"; of a Unix socket "uid 1000", one place for each user). kRetryLater with a sentence: it has to go again.
  Result<Arrival> Arrive(std::string_view address, int64_t now_ns);
  // It sent so many bytes more. kBadRequest: too many for a handshake. Of one who is not here kDeadline.
  Result<void> Sent(uint64_t id, size_t bytes);
  // Its peer is known now, or it is gone.
  void Leave(uint64_t id);
  // Those whose time is over; they have left.
  std::vector<uint64_t> TakeOverdue(int64_t now_ns);
  // When there may be one; INT64_MAX if nobody is here.
  int64_t NextOverdue() const;
  size_t waiting() const { return by_id_.size(); }
  uint64_t refused() const { return refused_; }      // since the beginning
  uint64_t sent_away() const { return sent_away_; }  // to make room

 private:
  struct Visitor {
    uint64_t id = 0;
    std::string from;
    size_t bytes = 0;
    int64_t since_ns = 0;
  };
  using Visitors = std::list<Visitor>;  // the first has been here longest
  static std::string PlaceOf(std::string_view address);
  void MakeRoom(Visitors::iterator who, Arrival* arrival);

  const DoormanLimits limits_;
  Visitors visitors_;
  std::unordered_map<uint64_t, Visitors::iterator> by_id_;
  std::map<std::string, size_t> per_address_;
  uint64_t next_id_ = 1;
  uint64_t refused_ = 0, sent_away_ = 0;
};

}  // namespace stria
