// What each job reads and writes through a mount: the table of jobs (job_table.h), a thread that looks at /proc for it, and what is told
// of it all. Executor's thread only, except the constructor.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/jobs/job_finder.h"
#include "client/jobs/job_labels.h"
#include "client/jobs/job_table.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "locality/job_io.h"

namespace stria {

class CallerJobs {
 public:
  CallerJobs();
  CallerJobs(const CallerJobs&) = delete;
  CallerJobs& operator=(const CallerJobs&) = delete;

  // As JobTable::Begin. What it gives may outlive this.
  std::shared_ptr<JobUse> Begin(uint32_t thread, bool opens, int64_t now_ns) { return table_.Begin(thread, opens, now_ns); }
  // The value of user.stria.jobs.
  std::string Text(int64_t now_ns);
  // As JobLabels::Tell.
  std::vector<std::pair<std::string, JobIo>> Labels(int64_t now_ns) { return labels_.Tell(table_.List(now_ns), table_.folded()); }

 private:
  static Task<void> Find(CallerJobs* self, uint32_t thread);

  const std::shared_ptr<const JobFinder> finder_;
  JobLabels labels_;
  JobTable table_;
  ThreadPool looks_;
  TaskScope asking_;  // last
};

}  // namespace stria
