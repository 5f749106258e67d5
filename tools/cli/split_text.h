// A dataset's work lists in the languages of batch systems: pure.
#pragma once

#include <string>
#include <vector>

#include "locality/split.h"
#include "tools/cli/json.h"

namespace stria::cli {

struct SplitPlan {
  std::vector<std::string> paths;  // of SplitPiece::file
  bool entries = false;            // pieces are entries of trees, else bytes
  std::vector<HostWork> work;
  uint64_t bytes() const;
  uint64_t local_bytes() const;
};

// {"unit": "bytes"|"entries", "bytes", "local_percent", "hosts": [{"host", "bytes", "local_bytes", "work": [ITEM..]}]};
// an ITEM is {"path", "offset", "length"} or {"path", "entry_start", "entry_stop"}.
Json SplitJson(const SplitPlan& plan);
// One host's part of it.
Json HostWorkJson(const SplitPlan& plan, const HostWork& work);

enum class SplitFormat { kJson, kSlurm, kCondor, kDask, kParallel };
// kInval with what there is.
Result<SplitFormat> ParseSplitFormat(const std::string& name);
// All but json and dask refer to a file LIST_DIR/HOST.json for each host that has work: HostWorkJson.
std::string RenderSplit(const SplitPlan& plan, SplitFormat format, const std::string& list_dir);

}  // namespace stria::cli
