// The shape of a log as its history says it: what the election compares (log_shape.h), from what a store keeps (replica_log.h). Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "api/replica_api.h"
#include "meta/replica/log_shape.h"

namespace stria {

// Everything up to where a log begins counts as of the term in which it began. Logs of one cluster begin alike.
inline LogShape ShapeOf(const std::vector<TermRun>& history, CommitSeq last) {
  LogShape shape;
  if (last.v == 0) return shape;
  for (const TermRun& run : history) {
    const uint64_t first = shape.rows.empty() ? 1 : std::max<uint64_t>(run.first.v, 1);
    if (run.first > last) break;
    if (run.term == 0) continue;  // a log that began with nothing
    if (!shape.rows.empty() && shape.rows.back().first == first) shape.rows.pop_back();
    shape.rows.push_back({run.term, first});
  }
  if (!shape.rows.empty()) shape.last = last.v;
  return shape;
}

}  // namespace stria
