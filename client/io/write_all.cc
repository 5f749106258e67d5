#include "client/io/write_all.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "client/io/backoff.h"
#include "common/random.h"

namespace stria {

namespace {

class WriteAllOp {
 public:
  WriteAllOp(StripeIo io, GrantSource& source, const Layout& layout, BufferChain payload,
             const WriteAllOptions& options)
      : io_(io),
        source_(source),
        layout_(layout),
        payload_(std::move(payload)),
        options_(options),
        rng_(options.writer.seed),
        deadline_ns_(Executor::Current().NowNs() + options.timeout_ns),
        place_deadline_ns_(Executor::Current().NowNs() + std::min(options.timeout_ns, options.place_timeout_ns)) {
    todo_.push_back({0, payload_.size()});
  }

  Task<Result<std::vector<WrittenPiece>>> Run() {
    // A worker may put back a piece that another one must take: go round until nothing is left.
    while (error_.ok() && !todo_.empty()) {
      std::vector<Task<void>> workers;
      for (size_t i = 0; i < std::max<size_t>(1, options_.stripes_at_once); ++i) workers.push_back(Work());
      co_await WhenAll(std::move(workers));
    }
    if (!error_.ok()) {
      for (const WrittenPiece& p : pieces_) source_.GiveBack(p.info.id);
      if (error_.code == FsError::kNoSpace) source_.HurryGiveBack();
      co_return error_;
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const auto& a, const auto& b) { return a.payload_offset < b.payload_offset; });
    co_return std::move(pieces_);
  }

 private:
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
  };

  // At most a full stripe's worth, from the front.
  Range TakeRange() {
    Range& front = todo_.front();
    const Range r{front.offset, std::min(front.length, layout_.stripe_bytes)};
    front.offset += r.length;
    front.length -= r.length;
    if (front.length == 0) todo_.pop_front();
    return r;
  }

  Task<void> Work() {
    Backoff backoff(&rng_);
    while (error_.ok() && !todo_.empty()) {
      Range r = TakeRange();
      const Error e = co_await WriteOne(r);
      if (e.ok()) {
        backoff = Backoff(&rng_);
        continue;
      }
      todo_.push_front(r);
      const int64_t wait_ns = backoff.NextNs();
      const int64_t until_ns = e.code == FsError::kTooFewDomains ? place_deadline_ns_ : deadline_ns_;
      if (Executor::Current().NowNs() + wait_ns >= until_ns) {
        const FsError code =
            IsRetryable(e.code) || e.code == FsError::kTokenExpired ? FsError::kTimedOut : e.code;
        Stop(Error(code, "the data could not be written in time; last: " + e.message));
        co_return;
      }
      co_await Sleep(wait_ns);
    }
  }

  // Writes (the first part of) the range as one stripe. An error is worth another try, unless error_ is set.
  Task<Error> WriteOne(Range r) {
    Result<StripeGrant> grant =
        co_await source_.Take(r.length, std::vector<TargetId>(avoid_.begin(), avoid_.end()));
    if (!grant.ok()) {
      const bool forgive = !avoid_.empty();  // there may be no place without them
      avoid_.clear();
      // Disks that are too few may be back soon.
      if (!forgive && !IsRetryable(grant.code()) && grant.code() != FsError::kTooFewDomains) Stop(grant.error());
      co_return grant.error();
    }
    const StripeId id = grant->info.id;
    const uint64_t n = std::min(r.length, StripeCapacity(layout_, *grant));
    StripeWriterOptions options = options_.writer;
    options.seed = rng_.Next();
    StripeWritten w =
        co_await WriteWholeStripe(io_, std::move(*grant), layout_, payload_.Slice(r.offset, n), options);
    if (!w.error.ok()) {
      source_.GiveBack(id);
      if (w.error.code == FsError::kNoSpace) source_.HurryGiveBack();
      for (TargetId t : w.failed) Avoid(t);
      const bool hopeless = w.failed.empty() && w.error.code != FsError::kTokenExpired &&
                            w.error.code != FsError::kBadToken && !IsRetryable(w.error.code);
      if (hopeless) Stop(w.error);
      co_return w.error;
    }
    pieces_.push_back({r.offset, std::move(w.info)});
    if (n < r.length) todo_.push_front({r.offset + n, r.length - n});
    co_return Error();
  }

  void Avoid(TargetId t) {
    std::erase(avoid_, t);
    avoid_.push_back(t);
    if (avoid_.size() > options_.max_avoid) avoid_.pop_front();
  }

  void Stop(Error e) {
    if (error_.ok()) error_ = std::move(e);
  }

  StripeIo io_;
  GrantSource& source_;
  const Layout layout_;
  const BufferChain payload_;
  const WriteAllOptions options_;
  Random rng_;
  const int64_t deadline_ns_;
  const int64_t place_deadline_ns_;
  std::deque<Range> todo_;
  std::deque<TargetId> avoid_;
  std::vector<WrittenPiece> pieces_;
  Error error_;
};

}  // namespace

Task<Result<std::vector<WrittenPiece>>> WriteAll(StripeIo io, GrantSource& source, Layout layout,
                                                 BufferChain payload, WriteAllOptions options) {
  if (payload.empty()) co_return std::vector<WrittenPiece>();
  WriteAllOp op(io, source, layout, std::move(payload), options);
  co_return co_await op.Run();
}

}  // namespace stria
