// Brings a member that follows back to where the primary's batches go on from: by nothing (its log is the beginning of the
// primary's), by a rewind, or by a copy. The primary says which (ReplicaSource).
//
// A rewind is one batch: what the keys that its unknown batches touched are at the primary now, and the log cut back. A copy is
// not: until its end the store has no log, so a crash begins it anew.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/units.h"
#include "meta/replica/follower.h"
#include "meta/replica/replica_store.h"

namespace stria {

struct JoinerOptions {
  std::string member;  // this one's name
  Uuid cluster;
  uint64_t copy_bytes_per_s = 50 * kMiB;  // 0: no bound
  size_t max_rewind_bytes = 64 * kMiB;    // of values, in memory and in one batch; beyond that it copies
  int64_t call_timeout_ns = 10 * kSecond;
  int64_t retry_ns = 200 * kMillisecond;
  int tries = 5;                          // of a call that was not answered
};

class ReplicaJoiner {
 public:
  // Where a primary is, by its member name; null: not known.
  using Connect = std::function<std::shared_ptr<ReplicaService>(const std::string& member)>;

  // All outlive the joiner.
  ReplicaJoiner(ReplicaStore* store, Follower* follower, Connect connect, JoinerOptions options)
      : store_(store), follower_(follower), connect_(std::move(connect)), options_(std::move(options)) {}

  // Until it is destroyed, which it may be at any point.
  Task<void> Run();

  uint64_t rewinds() const { return rewinds_; }
  uint64_t copies() const { return copies_; }
  uint64_t copied_bytes() const { return copied_bytes_; }  // of the copy under way, or of the last
  // Why the last attempt did not succeed, a sentence; "" if it did. One that begins with "refused" does not go away by itself.
  const std::string& problem() const { return problem_; }

 private:
  Task<Result<void>> JoinOnce(uint64_t term);
  Task<Result<void>> Rewind(std::shared_ptr<ReplicaService> primary, uint64_t term, LogPoint to, std::vector<FetchKey> keys);
  Task<Result<void>> Copy(std::shared_ptr<ReplicaService> primary, uint64_t term, ReplicaJoinReply from);
  Task<Result<ReplicaJoinReply>> Ask(std::shared_ptr<ReplicaService> primary, uint64_t term, bool copy);
  Task<Result<FetchPageReply>> Page(std::shared_ptr<ReplicaService> primary, FetchPageRequest request);
  Result<void> StillOf(uint64_t term) const;
  DataHeader Header() const;

  ReplicaStore* const store_;
  Follower* const follower_;
  const Connect connect_;
  const JoinerOptions options_;
  uint64_t rewinds_ = 0;
  uint64_t copies_ = 0;
  uint64_t copied_bytes_ = 0;
  std::string problem_;
};

}  // namespace stria
