#include "meta/replica/replica_joiner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meta/backup/archive.h"

namespace stria {
namespace {

// No batch is taken while it lives.
class Joining {
 public:
  explicit Joining(Follower* follower) : follower_(follower) { follower_->SetJoining(true); }
  ~Joining() { follower_->SetJoining(false); }
  Joining(const Joining&) = delete;
  Joining& operator=(const Joining&) = delete;

 private:
  Follower* const follower_;
};

bool MayRepeat(FsError e) { return e == FsError::kUnavailable || e == FsError::kDeadline; }

Result<KvBatch> DecodeValues(const BufferChain& payload) {
  ASSIGN_OR_RETURN(ArchivedBatch batch, DecodeArchivedBatch(payload.Flatten().view()));
  return std::move(batch.batch);
}

}  // namespace

Task<void> ReplicaJoiner::Run() {
  while (true) {
    const uint64_t term = co_await follower_->WaitJoin();
    const uint64_t before = rewinds_ + copies_;
    const Result<void> done = co_await JoinOnce(term);
    problem_ = done.ok() ? "" : done.error().message;
    // So that it looks at once where this log is now.
    if (rewinds_ + copies_ == before || !StillOf(term).ok()) continue;
    if (const std::shared_ptr<ReplicaService> primary = connect_(follower_->primary())) (void)co_await Ask(primary, term, false);
  }
}

DataHeader ReplicaJoiner::Header() const {
  DataHeader h;
  h.cluster = options_.cluster;
  h.incarnation = store_->incarnation();
  h.timeout_ns = options_.call_timeout_ns;
  return h;
}

Result<void> ReplicaJoiner::StillOf(uint64_t term) const {
  if (follower_->candidate()) return Error(FsError::kNotReady, "this metadata server asks to be the primary itself");
  if (follower_->term() == term) return Ok();
  return Error(FsError::kNotLeader, "another metadata server has become primary meanwhile");
}

Task<Result<ReplicaJoinReply>> ReplicaJoiner::Ask(std::shared_ptr<ReplicaService> primary, uint64_t term, bool copy) {
  ReplicaJoinRequest request;
  request.header = Header();
  request.term = term;
  request.member = options_.member;
  request.last = store_->last();
  request.history = store_->history();
  request.whole = store_->whole();
  if (store_->marker()) request.fetched = store_->marker()->fetched;
  request.copy = copy;
  std::optional<Result<ReplicaJoinReply>> reply =
      co_await WithTimeout(options_.call_timeout_ns, primary->Join(std::move(request)));
  if (!reply) co_return Error(FsError::kDeadline, "the primary does not answer");
  if (reply->ok() && (*reply)->term != term) co_return Error(FsError::kNotLeader, "the primary is of another term");
  co_return std::move(*reply);
}

Task<Result<void>> ReplicaJoiner::JoinOnce(uint64_t term) {
  CO_RETURN_IF_ERROR(StillOf(term));
  const std::shared_ptr<ReplicaService> primary = connect_(follower_->primary());
  if (!primary) co_return Error(FsError::kUnavailable, "where the primary " + follower_->primary() + " is, is not known");
  const Joining joining(follower_);
  CO_ASSIGN_OR_RETURN(ReplicaJoinReply reply, co_await Ask(primary, term, false));
  CO_RETURN_IF_ERROR(StillOf(term));
  if (reply.verdict == JoinVerdict::kRewind) {
    const LogPoint to = reply.common;
    // Nothing says which keys of a copy are of a history that has ended.
    const bool all = store_->marker() && store_->marker()->all;
    const bool same = store_->Has(to);
    Result<std::vector<FetchKey>> keys = Error(FsError::kTooBig, "nothing less than a copy will do");
    if (!all && same) keys = store_->KeysBeyond(to.seq);
    Result<void> rewound;
    if (keys.ok()) rewound = co_await Rewind(primary, term, to, std::move(keys).value());
    else rewound = keys.error();
    if (rewound.code() != FsError::kTooBig && rewound.code() != FsError::kNoEnt) co_return rewound;
    CO_RETURN_IF_ERROR(StillOf(term));
    CO_ASSIGN_OR_RETURN(reply, co_await Ask(primary, term, true));
    CO_RETURN_IF_ERROR(StillOf(term));
  }
  if (reply.verdict == JoinVerdict::kCopy) co_return co_await Copy(primary, term, std::move(reply));
  if (reply.verdict == JoinVerdict::kWait) co_return Error(FsError::kRetryLater, "this member first has to leave the set");
  co_return Ok();
}

Task<Result<void>> ReplicaJoiner::Rewind(std::shared_ptr<ReplicaService> primary, uint64_t term, LogPoint to,
                                         std::vector<FetchKey> keys) {
  if (to.seq < follower_->committed()) {
    // All of the set had it durable, so each later primary has it, unless disks have lost what they had synced.
    co_return Error(FsError::kCorrupt, "refused to go back to batch " + std::to_string(to.seq.v) + ": batch " +
                                           std::to_string(follower_->committed().v) +
                                           " was committed, and the primary does not have it; see docs/operations.md");
  }
  KvBatch values;
  LogPoint at;
  size_t next = 0;
  do {
    FetchKeysRequest request;
    request.header = Header();
    request.term = term;
    const size_t n = std::min(keys.size() - next, kMaxFetchKeys / 4);
    request.keys.assign(keys.begin() + static_cast<ptrdiff_t>(next), keys.begin() + static_cast<ptrdiff_t>(next + n));
    std::optional<Result<FetchKeysReply>> reply =
        co_await WithTimeout(options_.call_timeout_ns, primary->FetchKeys(std::move(request)));
    if (!reply) co_return Error(FsError::kDeadline, "the primary does not answer");
    if (!reply->ok()) co_return reply->error();
    const FetchKeysReply& got = reply->value();
    CO_ASSIGN_OR_RETURN(KvBatch some, DecodeValues(got.payload));
    if (got.answered > n || some.ops.size() != got.answered || (n > 0 && got.answered == 0) || got.at.seq < at.seq) {
      co_return Error(FsError::kBadRequest, "the primary's values are not of the keys that were asked for");
    }
    for (size_t i = 0; i < some.ops.size(); ++i) {
      if (some.ops[i].family != keys[next + i].family || some.ops[i].key != keys[next + i].key) {
        co_return Error(FsError::kBadRequest, "the primary's values are not of the keys that were asked for");
      }
      values.bytes += some.ops[i].key.size() + (some.ops[i].value ? some.ops[i].value->size() : 0);
      values.ops.push_back(std::move(some.ops[i]));
    }
    if (values.bytes > options_.max_rewind_bytes) {
      co_return Error(FsError::kTooBig, "the values that a rewind needs are more than a copy in pieces");
    }
    at = got.at;
    next += got.answered;
    CO_RETURN_IF_ERROR(StillOf(term));
  } while (next < keys.size());
  if (at.seq < to.seq) co_return Error(FsError::kBadRequest, "the primary's log is shorter than what it shares with this one");
  CO_RETURN_IF_ERROR(store_->Rewind(to, values, at, std::move(keys)));
  ++rewinds_;
  co_return Ok();
}

Task<Result<FetchPageReply>> ReplicaJoiner::Page(std::shared_ptr<ReplicaService> primary, FetchPageRequest request) {
  for (int tries = 1;; ++tries) {
    std::optional<Result<FetchPageReply>> reply = co_await WithTimeout(options_.call_timeout_ns, primary->FetchPage(request));
    const FsError code = reply ? reply->code() : FsError::kDeadline;
    if (reply && (!MayRepeat(code) || tries >= options_.tries)) co_return std::move(*reply);
    if (tries >= options_.tries) co_return Error(FsError::kDeadline, "the primary does not answer");
    co_await Sleep(options_.retry_ns);
  }
}

Task<Result<void>> ReplicaJoiner::Copy(std::shared_ptr<ReplicaService> primary, uint64_t term, ReplicaJoinReply from) {
  copied_bytes_ = 0;
  CO_RETURN_IF_ERROR(store_->BeginCopy());
  while (true) {
    CO_ASSIGN_OR_RETURN(const bool empty, store_->WipeStep());
    if (empty) break;
    co_await Yield();
  }
  FetchPageRequest request;
  request.header = Header();
  request.term = term;
  LogPoint fetched;
  for (bool end = false; !end;) {
    CO_ASSIGN_OR_RETURN(FetchPageReply page, co_await Page(primary, request));
    CO_RETURN_IF_ERROR(StillOf(term));
    CO_ASSIGN_OR_RETURN(const KvBatch puts, DecodeValues(page.payload));
    const bool forward =
        page.next_family > request.family || (page.next_family == request.family && page.next_from > request.from);
    if (page.at.seq < fetched.seq || (!page.end && !forward)) {
      co_return Error(FsError::kBadRequest, "the primary's pages are not in order");
    }
    CO_RETURN_IF_ERROR(store_->TakePage(puts));
    copied_bytes_ += puts.bytes;
    fetched = page.at;
    end = page.end;
    request.family = page.next_family;
    request.from = std::move(page.next_from);
    if (options_.copy_bytes_per_s > 0) {
      const double seconds = static_cast<double>(puts.bytes) / static_cast<double>(options_.copy_bytes_per_s);
      co_await Sleep(static_cast<int64_t>(seconds * static_cast<double>(kSecond)));
    }
  }
  CO_RETURN_IF_ERROR(StillOf(term));
  CO_RETURN_IF_ERROR(store_->EndCopy(from.common, from.incarnation, std::move(from.history), fetched));
  ++copies_;
  co_return Ok();
}

}  // namespace stria
