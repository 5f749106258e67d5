// Which jobs have a label of their own in the metrics: few, as each is a series that Prometheus keeps. What the others do is counted
// as kNoJob. A job keeps its label while it is listed, and gives it up only if it was idle for kIdleNs and another wants it. No
// counter ever falls, and no byte is counted under two labels. Pure; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/jobs/job_table.h"
#include "common/units.h"
#include "locality/job_io.h"

namespace stria {

class JobLabels {
 public:
  static constexpr size_t kMaxLabels = 20;
  static constexpr int64_t kIdleNs = 3600 * kSecond;

  // `listed` of JobTable::List, `folded` of JobTable::folded: the labels and their counters, kNoJob last.
  std::vector<std::pair<std::string, JobIo>> Tell(const std::vector<JobTable::Listed>& listed, const JobIo& folded);
  // It is not listed any more, and had that.
  void Folded(const JobRecord& record);

 private:
  struct Job {
    JobIo told;        // what is counted already, under whatever label
    JobIo before;      // of it, what was counted before it had a label
    bool label = false;
    int64_t idle_ns = 0;
  };
  void GiveLabels(const std::vector<JobTable::Listed>& listed);

  std::map<uint64_t, Job> jobs_;  // by the number of the record
  JobIo rest_;                    // of jobs without a label
};

}  // namespace stria
