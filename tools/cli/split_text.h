// A dataset's work lists in the languages of batch systems: pure.
#pragma once

#include <string>
#include <vector>

#include "locality/split.h"
#include "tools/cli/json.h"

namespace stria::cli {

// A node that is not up.
struct AwayNode {
  std::string name;
  std::string state;
};

struct SplitPlan {
  std::vector<std::string> paths;  // of SplitPiece::file
  bool entries = false;            // pieces are entries of trees, else bytes
  std::vector<HostWork> work;
  std::vector<AwayNode> away;  // that would have had work, too
  uint64_t bytes() const;
  uint64_t local_bytes() const;
  uint64_t remote_bytes() const;
  uint64_t decoded_bytes() const;
};

// The promise of the lists, in a sentence: "80 % of 1.2 GiB is local, 15 % remote, 5 % decoded; no work for n3 (down)".
std::string Promise(const SplitPlan& plan);

// {"unit": "bytes"|"entries", "bytes", "local_percent", "local_bytes", "remote_bytes", "decoded_bytes", "away":
// [{"node", "state"}..], "hosts": [{"host", "bytes", "local_bytes", "remote_bytes", "decoded_bytes", "work": [ITEM..]}]};
// an ITEM is {"path", "offset", "length"} or {"path", "entry_start", "entry_stop"}.
Json SplitJson(const SplitPlan& plan);
// One host's part of it.
Json HostWorkJson(const SplitPlan& plan, const HostWork& work);

enum class SplitFormat { kJson, kSlurm, kCondor, kDask, kParallel };
// kInval with the list of formats.
Result<SplitFormat> ParseSplitFormat(const std::string& name);
// All but json and dask refer to a file LIST_DIR/HOST.json for each host that has work: HostWorkJson. json and dask have the
// promise in fields, the others in a comment (and in the lists).
std::string RenderSplit(const SplitPlan& plan, SplitFormat format, const std::string& list_dir);

}  // namespace stria::cli
