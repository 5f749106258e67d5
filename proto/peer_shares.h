// How much of a server one peer may have: connections, requests under way, and the memory of requests and replies. So a peer that asks
// without end, or asks and does not read, harms itself only.
//
// A peer is who its certificate (or the kernel, on a Unix socket) says it is: role and name, from wherever it comes and over however many
// connections. Where nothing was proved it is the address. Pure. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/error.h"
#include "common/units.h"
#include "trust/identity.h"

namespace stria {

struct PeerLimits {
  size_t connections = 64;
  size_t requests = 1024;         // under way: until their replies are sent
  uint64_t bytes = 64 * kMiB;     // of requests and replies, until these are sent
  size_t refusals = 4096;         // replies "try later" that are not sent yet; beyond that the connection ends
  int64_t frame_ns = 60 * kSecond;   // in so long 64 KiB of a frame that has begun must come, or its end
  int64_t unread_ns = 300 * kSecond;  // so long nothing may come from a peer, or go to it, that has replies to take
};

// "client wn7"; "10.0.0.7", "fd00:1:2:3::" (an IPv6 network of 64 bits is one) where nothing was proved. Empty: the peer is one of many at this
// machine that cannot be told apart; for these the server's own limits are all there is.
std::string PeerShareKey(const Peer* peer, std::string_view address);

class PeerShares {
 public:
  explicit PeerShares(const PeerLimits& limits = {}) : limits_(limits) {}
  PeerShares(const PeerShares&) = delete;
  PeerShares& operator=(const PeerShares&) = delete;

  struct Opened {
    uint64_t id = 0;                    // of the connection
    std::optional<uint64_t> to_close;   // another one of the same peer, the oldest idle one, which makes room; it counts no more
  };
  // A connection of `peer` (PeerShareKey). kRetryLater with a sentence: it has as many as it may, and all are busy.
  Result<Opened> Open(const std::string& peer);
  // It is closed. What is under way on it counts on until it ends. Again is nothing.
  void Close(uint64_t id);

  // A request of at least so many bytes comes. kRetryLater with a sentence: it is too much, or the connection is closed.
  Result<void> Begin(uint64_t id, uint64_t bytes);
  // REQUIRES of these: of a request that has begun, or a reply that was counted.
  // More of it comes. kRetryLater: too much; then nothing is added.
  Result<void> Grow(uint64_t id, uint64_t bytes);
  // Before it is done. kRetryLater: those that were done since it began have brought more than the peer takes.
  Result<void> MayBeServed(uint64_t id);
  // Its reply, which is there already, so it is not refused.
  void Reply(uint64_t id, uint64_t bytes);
  // So many requests have ended, so many bytes of memory are free again.
  void End(uint64_t id, size_t requests, uint64_t bytes);
  // A refusal waits to be sent. False: too many do, or the connection is closed.
  bool Refuse(uint64_t id);
  void EndRefusal(uint64_t id);

  struct Usage {
    size_t connections = 0, requests = 0, refusals = 0;
    uint64_t bytes = 0;
    bool operator==(const Usage&) const = default;
  };
  Usage Of(const std::string& peer) const;
  size_t peers() const { return peers_.size(); }  // that have anything

 private:
  struct Account {
    Usage used;
    std::set<uint64_t> open;  // connections, the oldest first
  };
  using Accounts = std::map<std::string, Account>;
  struct Connection {
    Accounts::iterator account;
    bool open = true;
    Usage used;  // without `connections`
    bool idle() const { return used == Usage(); }
  };
  Connection& At(uint64_t id);
  // Forgets what has nothing any more.
  void Tidy(uint64_t id);
  Result<void> Room(const Connection& c, uint64_t bytes) const;
  bool Bounded(const Connection& c) const { return !c.account->first.empty(); }

  const PeerLimits limits_;
  Accounts peers_;
  std::unordered_map<uint64_t, Connection> by_id_;
  uint64_t next_id_ = 1;
};

}  // namespace stria
