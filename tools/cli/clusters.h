// Where the events of ROOT files lie, as a Python helper (tools/python, stria.clusters) reads it with uproot.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"

namespace stria::cli {

// Entries that are stored together, and the bytes (offset, length) of the file that hold them.
struct EventCluster {
  uint64_t begin = 0, end = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
};

// For each path the clusters of its tree (`tree`, or if that is "" the one with most entries), in order. Runs $STRIA_PYTHON, or
// python3. kNotSupported if that fails, with what to install; stderr has more.
Result<std::vector<std::vector<EventCluster>>> AskClusters(const std::vector<std::string>& paths,
                                                           const std::string& tree);

// For AskClusters: "[{"clusters": [[begin, end, [[offset, length]..]]..]}..]", one object per path.
Result<std::vector<std::vector<EventCluster>>> ParseClusters(const std::string& json, size_t paths);

}  // namespace stria::cli
