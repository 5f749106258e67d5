#include "client/jobs/job_table.h"

#include <algorithm>

namespace stria {

void JobUse::Give() {
  JobRecord& to = job_->now ? *job_->now : *job_;
  to.io += io;
  io = JobIo();
  to.used_ns = std::max(to.used_ns, used_ns);
}

JobTable::JobTable(std::function<void(uint32_t)> ask, std::function<void(const JobRecord&)> folded)
    : ask_(std::move(ask)), folded_(std::move(folded)), other_(std::make_shared<JobRecord>()), nobody_(std::make_shared<JobUse>(other_)) {
  other_->name = kNoJob;
}

std::shared_ptr<JobUse> JobTable::Begin(uint32_t thread, bool opens, int64_t now_ns) {
  if (thread == 0) {
    nobody_->used_ns = now_ns;
    return nobody_;
  }
  auto it = threads_.find(thread);
  if (it == threads_.end()) {
    MakeRoom(now_ns);
    it = threads_.emplace(thread, Thread()).first;
    it->second.use = std::make_shared<JobUse>(other_);
    it->second.first_ns = now_ns;
  }
  Thread& t = it->second;
  if (IsDue(t, opens, now_ns)) {
    // What was counted up to here stays with what it was known to be.
    if (t.told && (HasJob(t) || !IsYoung(t, now_ns))) t.use = std::make_shared<JobUse>(t.use->shared_job());
    Ask(thread, &t, now_ns);
  }
  t.use->used_ns = now_ns;
  return t.use;
}

bool JobTable::IsDue(const Thread& t, bool opens, int64_t now_ns) const {
  if (t.asking || asking_ >= kMaxAsking) return false;
  if (!t.told) return true;
  if (!HasJob(t) && opens && IsYoung(t, now_ns)) return true;
  return now_ns - t.found_ns >= (HasJob(t) ? kValidNs : t.pause_ns);
}

void JobTable::Ask(uint32_t thread, Thread* t, int64_t now_ns) {
  t->asking = true;
  t->asked_ns = now_ns;
  ++asking_;
  ask_(thread);
}

void JobTable::Found(uint32_t thread, const JobFound& found, int64_t now_ns) {
  const auto it = threads_.find(thread);
  if (it == threads_.end() || !it->second.asking) return;
  Thread& t = it->second;
  t.told = true;
  t.found_ns = now_ns;
  if (!found.gone) {  // else it ended after its request, and was what it had been
    if (t.start != found.start) {  // a process of which nothing is known yet
      t.start = found.start;
      t.first_ns = t.asked_ns;
      t.pause_ns = kFirstPauseNs;
    }
    if (found.job == kNoJob) {
      t.use->Is(other_);
      t.pause_ns = std::min(2 * t.pause_ns, kValidNs);
    } else {
      t.use->Is(RecordOf(found.job, now_ns));
    }
  }
  t.asking = false;  // not before: a thread that is being asked about is not forgotten
  --asking_;
}

// Those that were idle for long; if all are busy, all but those that are being asked about.
void JobTable::MakeRoom(int64_t now_ns) {
  if (threads_.size() < kMaxThreads) return;
  std::erase_if(threads_, [&](const auto& t) { return !t.second.asking && now_ns - t.second.use->used_ns >= kValidNs; });
  if (threads_.size() >= kMaxThreads) std::erase_if(threads_, [](const auto& t) { return !t.second.asking; });
}

void JobTable::Settle(int64_t now_ns) {
  nobody_->Give();
  for (auto& [thread, t] : threads_) {
    // Who is asked about for long is not waited for.
    const bool known = t.asking ? now_ns - t.asked_ns >= kValidNs : HasJob(t) || !IsYoung(t, now_ns);
    if (known) t.use->Give();
  }
}

std::shared_ptr<JobRecord> JobTable::RecordOf(const std::string& job, int64_t now_ns) {
  if (const auto it = jobs_.find(job); it != jobs_.end()) return it->second;
  if (jobs_.size() >= kMaxJobs) {
    Settle(now_ns);
    Fold(std::min_element(jobs_.begin(), jobs_.end(), [](const auto& a, const auto& b) { return a.second->used_ns < b.second->used_ns; }));
  }
  auto made = std::make_shared<JobRecord>();
  made->name = job;
  made->number = next_number_++;
  made->used_ns = now_ns;
  return jobs_[job] = made;
}

void JobTable::Fold(std::map<std::string, std::shared_ptr<JobRecord>>::iterator job) {
  const std::shared_ptr<JobRecord> record = job->second;
  jobs_.erase(job);
  folded_(*record);
  folded_io_ += record->io;
  other_->io += record->io;
  record->io = JobIo();
  record->now = other_;
  std::erase_if(threads_, [&](const auto& t) { return !t.second.asking && &t.second.use->job() == record.get(); });
}

std::vector<JobTable::Listed> JobTable::List(int64_t now_ns) {
  Settle(now_ns);
  std::vector<Listed> out;
  const auto add = [&](const JobRecord& r) {
    out.push_back({r.number, {r.name, r.io, std::max<int64_t>(now_ns - r.used_ns, 0)}});
  };
  for (const auto& [name, record] : jobs_) add(*record);
  std::ranges::stable_sort(out, {}, [](const Listed& l) { return l.share.idle_ns; });
  add(*other_);
  return out;
}

}  // namespace stria
