#include "client/jobs/caller_jobs.h"

namespace stria {

CallerJobs::CallerJobs()
    : finder_(std::make_shared<JobFinder>()),
      table_([this](uint32_t thread) { asking_.Spawn(Find(this, thread)); }, [this](const JobRecord& r) { labels_.Folded(r); }), looks_(1, "jobs") {}

Task<void> CallerJobs::Find(CallerJobs* self, uint32_t thread) {
  const JobFound found = co_await RunOn(self->looks_, [finder = self->finder_, thread] { return finder->Find(thread); });
  self->table_.Found(thread, found, Executor::Current().NowNs());
}

std::string CallerJobs::Text(int64_t now_ns) {
  std::vector<JobShare> shares;
  for (JobTable::Listed& l : table_.List(now_ns)) shares.push_back(std::move(l.share));
  return JobsText(shares);
}

}  // namespace stria
