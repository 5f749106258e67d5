// Which requests are counted for which job. A request costs one look into a hash table; what /proc says is read elsewhere, and what
// was counted until then goes to the job that it tells.
//
// A thread is asked about again: a job's after kValidNs, as its number may be another's by then; one of no job within its first second
// more often, as a program may touch the mount (its working directory) just before it becomes what the batch system starts. What it did
// in that second is not given to anybody before.
//
// Bounds: kMaxThreads threads, kMaxAsking of which are being asked about, kMaxJobs jobs; of more, the one that was idle for longest
// is counted as kNoJob from then on, with what it had. Its next request lists it again, from zero.
//
// Executor's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/jobs/job_finder.h"
#include "common/units.h"
#include "locality/job_io.h"

namespace stria {

// What was counted for a job.
struct JobRecord {
  std::string name;
  uint64_t number = 0;  // no two records have the same
  JobIo io;
  int64_t used_ns = 0;  // of its last request
  std::shared_ptr<JobRecord> now;  // which counts in its place, when it is not listed any more
};

// What requests of one thread have used, and its job has not been given yet. Requests under way keep it; what is counted when the
// thread is forgotten goes to its job with the last of them.
class JobUse {
 public:
  explicit JobUse(std::shared_ptr<JobRecord> job) : job_(std::move(job)) {}
  JobUse(const JobUse&) = delete;
  JobUse& operator=(const JobUse&) = delete;
  ~JobUse() { Give(); }
  void Is(std::shared_ptr<JobRecord> job) { job_ = std::move(job); }
  void Give();
  const JobRecord& job() const { return *job_; }
  const std::shared_ptr<JobRecord>& shared_job() const { return job_; }

  JobIo io;
  int64_t used_ns = 0;

 private:
  std::shared_ptr<JobRecord> job_;
};

class JobTable {
 public:
  static constexpr size_t kMaxThreads = 4096;
  static constexpr size_t kMaxAsking = 256;
  static constexpr size_t kMaxJobs = 128;
  static constexpr int64_t kValidNs = 10 * kSecond;
  static constexpr int64_t kYoungNs = 1 * kSecond;
  static constexpr int64_t kFirstPauseNs = 1 * kMillisecond;  // between two questions about a thread of no job; doubled each time

  // `ask`: find out about that thread, and call Found. `folded`: a record is not listed any more, and had that.
  JobTable(std::function<void(uint32_t)> ask, std::function<void(const JobRecord&)> folded);
  JobTable(const JobTable&) = delete;
  JobTable& operator=(const JobTable&) = delete;

  // A request of that thread (0: of nobody) begins, which opens a file or not. Counts itself there.
  std::shared_ptr<JobUse> Begin(uint32_t thread, bool opens, int64_t now_ns);
  // The answer to `ask`; one that is not waited for any more is ignored.
  void Found(uint32_t thread, const JobFound& found, int64_t now_ns);

  struct Listed {
    uint64_t number = 0;
    JobShare share;
  };
  // All jobs, those last active first; then kNoJob, with what folded jobs had.
  std::vector<Listed> List(int64_t now_ns);
  // Of kNoJob: what folded jobs had when they were folded.
  const JobIo& folded() const { return folded_io_; }

  size_t threads() const { return threads_.size(); }

 private:
  struct Thread {
    std::shared_ptr<JobUse> use;
    uint64_t start = 0;
    int64_t first_ns = 0;  // its first request
    int64_t asked_ns = 0, found_ns = 0;
    int64_t pause_ns = kFirstPauseNs;
    bool asking = false, told = false;  // told: something was found
  };
  bool HasJob(const Thread& t) const { return &t.use->job() != other_.get(); }
  bool IsYoung(const Thread& t, int64_t now_ns) const { return now_ns - t.first_ns < kYoungNs; }
  bool IsDue(const Thread& t, bool opens, int64_t now_ns) const;
  void Ask(uint32_t thread, Thread* t, int64_t now_ns);
  void MakeRoom(int64_t now_ns);
  void Settle(int64_t now_ns);  // gives what may be given
  std::shared_ptr<JobRecord> RecordOf(const std::string& job, int64_t now_ns);
  void Fold(std::map<std::string, std::shared_ptr<JobRecord>>::iterator job);

  const std::function<void(uint32_t)> ask_;
  const std::function<void(const JobRecord&)> folded_;
  const std::shared_ptr<JobRecord> other_;
  const std::shared_ptr<JobUse> nobody_;  // requests of no thread
  JobIo folded_io_;
  std::map<std::string, std::shared_ptr<JobRecord>> jobs_;
  std::unordered_map<uint32_t, Thread> threads_;
  size_t asking_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace stria
