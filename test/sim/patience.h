// How long a call may be under way while things fail, judged from the true state of the cluster. A client that can reach what
// it needs, and waits for nobody who cannot, is served within a bound; that begins anew whenever this was not so:
//
//  1. the metadata server is down, failing, or cut off from the client in either direction, or does not believe its certificate;
//  2. more nodes than parity makes up for are down, cut off from the client, or have disks in trouble (up to that many are no
//     excuse: reads decode, and writes go elsewhere);
//  3. a session that counts at the metadata server has nobody who could answer for it, as its client is dead, or is in trouble
//     as in 1 or 2. Of what it holds others wait for: until its lease ends, or, where it renews that and cannot answer (its
//     answers or its bytes do not come through), until the server takes it for silent;
//  4. the metadata server has restarted, and sessions of before claim what they held and repeat what was lost: at most a
//     lease for each of the two.
//
// 3 and 4 excuse no longer than what the server promises there, so a server that waits for the dead for ever is found.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "test/sim/progress.h"
#include "test/sim/sim_cluster.h"

namespace stria {

class Patience {
 public:
  // What cannot be seen from outside.
  struct Troubles {
    bool meta_failing = false;      // its store fails; it will be started again
    bool disks_full = false;        // somewhere
    std::set<size_t> nodes;         // have disk faults, or are cut off, or gone and not removed
    std::set<size_t> removed;       // nothing is needed of them
  };
  struct Bounds {
    int64_t longest_ns = 0;  // of a call
    int64_t message_ns = 0;  // longer than a message is on its way
  };
  // `parity`: nodes that may be in trouble.
  Patience(SimCluster* cluster, size_t parity, Bounds bounds);
  // To be asked every few milliseconds: "" or which call waits too long, or in a circle, and what waits for what.
  std::string Look(const Troubles& troubles);
  // From now on, and for what is under way.
  void SetBounds(Bounds bounds);
  int64_t longest_ns() const { return longest_seen_ns_; }  // that any call has waited without excuse

 private:
  // Of a client, now.
  struct Reach {
    bool up = false;
    bool asks = false;     // its requests come to the metadata server
    bool hears = false;    // and the answers to it
    bool bytes = false;    // enough nodes
    bool all() const { return asks && hears && bytes; }
  };
  Reach ReachOf(size_t c, const Troubles& troubles) const;
  bool OthersMayHold(const std::vector<Reach>& reach);
  bool Recovers();

  SimCluster* const cluster_;
  const size_t parity_;
  Bounds bounds_;
  CircleWatch circles_;
  std::vector<int64_t> quiet_ns_;  // by client: when it was excused last
  std::map<SessionId, int64_t> unanswering_ns_;  // sessions as in 3, since when
  uint64_t term_ = 0;
  int64_t started_ns_ = 0;  // when the metadata server was first seen in that term
  int64_t longest_seen_ns_ = 0;
};

}  // namespace stria
