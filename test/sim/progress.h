// Whether all that programs asked for goes on: who waits too long, and who waits for whom, in a circle or not.
#pragma once

#include <cstdint>
#include <string>

#include "test/sim/sim_cluster.h"
#include "test/sim/wait_graph.h"

namespace stria {

// What waits for what in clients, their kernels and the metadata server, as far as both sides say so: a message that is on its
// way is an end. The edges are those of docs/waits.md, and those that it forbids.
WaitGraph WaitsIn(SimCluster& cluster);
// All calls that wait, what waits for what, and what all say of it; a line each.
std::string WhatWaits(SimCluster& cluster);

// Looks for circles. One that is there in two looks, with nothing of it changed in between, will stay.
class CircleWatch {
 public:
  // Looks, while any call waits, when `apart_ns` have passed since the last time: longer than a message may need, as what one
  // side says may be out of date for as long.
  CircleWatch(SimCluster* cluster, int64_t apart_ns) : cluster_(cluster), apart_ns_(apart_ns) {}
  // "" or the circle.
  std::string Look();

 private:
  SimCluster* const cluster_;
  const int64_t apart_ns_;
  int64_t looked_ns_ = 0;
  std::string seen_;  // in the last look
};

// Calls that go on when nothing fails.
class Progress {
 public:
  Progress(SimCluster* cluster, int64_t longest_ns);
  // To be asked often. "" if no call of any client has been under way for longer than this and none waits for itself; else
  // what waits for what.
  std::string Stalled();

 private:
  SimCluster* const cluster_;
  const int64_t longest_ns_;
  CircleWatch circles_;
};

}  // namespace stria
