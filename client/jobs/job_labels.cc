#include "client/jobs/job_labels.h"

#include <algorithm>
#include <functional>
#include <string>

namespace stria {
namespace {

// By which those that have no label yet are compared.
std::pair<uint64_t, uint64_t> Weight(const JobIo& io) { return {io.read_bytes + io.written_bytes + io.fetched.fetched_bytes(), io.operations}; }

}  // namespace

void JobLabels::GiveLabels(const std::vector<JobTable::Listed>& listed) {
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, uint64_t>> wanting;  // weight, number
  for (const JobTable::Listed& l : listed) {
    if (l.number == 0) continue;
    Job& job = jobs_[l.number];
    job.idle_ns = l.share.idle_ns;
    const auto weight = Weight(l.share.io.Since(job.told));
    if (!job.label && weight > std::pair<uint64_t, uint64_t>()) wanting.emplace_back(weight, l.number);
  }
  std::ranges::sort(wanting, std::greater<>());
  std::vector<std::pair<int64_t, uint64_t>> idle;  // for how long, number
  size_t labels = 0;
  for (const auto& [number, job] : jobs_) {
    if (!job.label) continue;
    ++labels;
    if (job.idle_ns >= kIdleNs) idle.emplace_back(job.idle_ns, number);
  }
  std::ranges::sort(idle);
  for (const auto& [weight, number] : wanting) {
    if (labels >= kMaxLabels) {
      if (idle.empty()) break;
      jobs_[idle.back().second].label = false;
      idle.pop_back();
      --labels;
    }
    Job& job = jobs_[number];
    job.label = true;
    job.before = job.told;
    ++labels;
  }
}

std::vector<std::pair<std::string, JobIo>> JobLabels::Tell(const std::vector<JobTable::Listed>& listed, const JobIo& folded) {
  GiveLabels(listed);
  std::vector<std::pair<std::string, JobIo>> out;
  JobIo nobody;
  for (const JobTable::Listed& l : listed) {
    if (l.number == 0) {
      nobody = l.share.io.Since(folded);
      continue;
    }
    Job& job = jobs_[l.number];
    if (job.label) out.emplace_back(l.share.job, l.share.io.Since(job.before));
    else rest_ += l.share.io.Since(job.told);
    job.told = l.share.io;
  }
  nobody += rest_;
  out.emplace_back(kNoJob, nobody);
  return out;
}

void JobLabels::Folded(const JobRecord& record) {
  const auto it = jobs_.find(record.number);
  rest_ += record.io.Since(it == jobs_.end() ? JobIo() : it->second.told);
  if (it != jobs_.end()) jobs_.erase(it);
}

}  // namespace stria
