#include "client/io/stripe_reader.h"

#include <algorithm>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "client/io/backoff.h"
#include "client/io/read_job.h"
#include "stripe/layout.h"
#include "stripe/read_plan.h"

namespace stria {

using namespace read_job;

namespace {

constexpr int64_t kFirstWaitNs = 100 * kMillisecond;  // for servers to come back
constexpr int64_t kMaxBusyWaitNs = 160 * kMillisecond;

// A partial read must save this much to be worth the server's second look at the rest.
constexpr uint64_t kTrimBytes = 16 * kKiB;

}  // namespace

// All that belongs to one ReadMany. Fetches run in `scope`; the main coroutine plans and assembles.
class ReadOp {
 public:
  ReadOp(StripeIo io, const std::function<void(const BadShard&)>& on_bad, StripeReaderStats* stats,
         std::vector<const StripeRange*> ranges)
      : io_(io), on_bad_(on_bad), stats_(stats), jobs_(ranges.size()) {
    for (size_t i = 0; i < ranges.size(); ++i) jobs_[i].range = ranges[i];
  }
  // For a range that could not be read: its servers may be back soon.
  bool WorthWaiting(size_t range) const { return jobs_[range].worth_waiting; }

  Task<std::vector<Result<void>>> Run() {
    for (Job& job : jobs_) Start(job);
    while (true) {
      SendMissing();
      bool all = true;
      for (Job& job : jobs_) {
        if (!job.finished && Complete(job)) co_await Finish(job);
        all = all && job.finished;
      }
      if (all) break;
      if (!std::exchange(news_, false)) co_await Wait();
      news_ = false;
    }
    std::vector<Result<void>> out;
    for (Job& job : jobs_) out.push_back(std::move(job.result));
    co_return out;
  }

 private:
  // A request that is on its way.
  struct Flight {
    Batch batch;
    int64_t hedge_at_ns = 0;
    bool hedged = false;
    bool done = false;
  };

  void Start(Job& job) {
    stats_->read_bytes += job.range->bytes();
    const Error valid = ValidateStripe(job.info());
    if (!valid.ok() || job.range->stripe->tokens.size() != job.info().columns.size()) {
      End(job, valid.ok() ? Error(FsError::kCorrupt, "a stripe came with too few tokens") : valid);
      return;
    }
    for (uint16_t c = 0; c < job.info().columns.size(); ++c) {
      const Column& column = job.info().columns[c];
      if (!column.shard) continue;
      job.doubt[c] = DoubtOf(io_.peers.ReadinessOf(column.target));
      // A disk that the map does not know yet: the map is old.
      if (!io_.peers.NodeOf(column.target)) job.failure[c] = FsError::kUnavailable;
    }
    Plan(job);
  }

  static void End(Job& job, Result<void> result) {
    job.finished = true;
    job.result = std::move(result);
  }

  // Plans around as many doubtful columns as possible: those in most doubt go first.
  void Plan(Job& job) {
    for (Doubt worst : {Doubt::kSlow, Doubt::kAvoided, Doubt::kDown, Doubt::kBad}) {
      ReadOptions options;
      options.cost = Costs(job);
      for (uint16_t c = 0; c < job.info().columns.size(); ++c) {
        if (job.doubt[c] >= worst) options.unavailable.push_back(ColumnIndex(c));
      }
      Result<ReadPlan> plan = PlanRead(job.info(), job.range->payload_offset, job.range->bytes(), options);
      if (!plan.ok()) return End(job, plan.error());
      if (plan->lost.empty()) {
        job.plan = std::move(*plan);
        return;
      }
      if (worst == Doubt::kBad) return End(job, WhyLost(job, *plan));
    }
  }

  // Disks of this client's own node first, where there is a choice.
  std::vector<uint32_t> Costs(const Job& job) const {
    std::vector<uint32_t> costs;
    if (!io_.peers.local_node()) return costs;
    for (const Column& c : job.info().columns) {
      costs.push_back(io_.peers.NodeOf(c.target) == io_.peers.local_node() ? 0 : 1);
    }
    return costs;
  }

  // If a column said so, the caller refetches extents; otherwise the error names the lost range.
  Error WhyLost(Job& job, const ReadPlan& plan) const {
    FsError code = FsError::kIo;
    std::string columns;
    for (uint16_t c = 0; c < job.info().columns.size(); ++c) {
      const FsError failure = job.failure[c];
      if (job.doubt[c] != Doubt::kBad) continue;
      columns += (columns.empty() ? "" : ", ") + io_.peers.TargetName(job.info().columns[c].target) + " (" +
                 std::string(failure == FsError::kOk ? "gone" : FsErrorName(failure)) + ")";
      if (failure == FsError::kNoSuchShard) {
        code = failure;
      } else if (TokenTrouble(failure) && code != FsError::kNoSuchShard) {
        code = FsError::kTokenExpired;
      } else if (code == FsError::kIo && (IsRetryable(failure) || failure == FsError::kFenced)) {
        code = FsError::kUnavailable;
      }
      const TargetId target = job.info().columns[c].target;
      if (IsRetryable(failure) && !io_.peers.DownByMap(target)) job.worth_waiting = true;
    }
    job.worth_waiting = job.worth_waiting && code == FsError::kUnavailable;
    return Error(code, LostBytes(plan).message + "; without " + columns);
  }

  void MarkBad(Job& job, ColumnIndex c, FsError failure) {
    if (job.doubt[c.v] == Doubt::kBad) return;
    job.doubt[c.v] = Doubt::kBad;
    job.failure[c.v] = failure;
    std::erase_if(job.asked, [c](const FetchRange& r) { return r.column == c; });
    const Column& column = job.column(c);
    if (failure == FsError::kDiskFailed || failure == FsError::kIo) io_.peers.TargetFailed(column.target);
    if (!TokenTrouble(failure) && on_bad_) {
      on_bad_(BadShard{job.info().id, c, column.shard, column.target, Blame(failure), job.range->stripe->tokens[c.v]});
    }
    if (!job.finished) Replan(job);
  }

  void Replan(Job& job) {
    Plan(job);
    // Where nothing can take the place of a slow column, the plan is the same again.
    if (!job.trimming || job.finished || (job.plan->decode.empty() && job.plan->direct == job.trimmed->direct)) return;
    job.trimming = false;
    job.asked.clear();
  }

  // The one run of a column that a plan without decoding wants lies in this range of it.
  static Item Trim(const ReadPlan& plan, Item item) {
    uint64_t begin = item.range.end(), end = item.range.shard_offset;
    for (const DirectRange& d : plan.direct) {
      if (d.column != item.range.column) continue;
      begin = std::min(begin, d.shard_offset);
      end = std::max(end, d.shard_offset + d.length);
    }
    item.trimmed = true;
    item.omit_head = begin - item.range.shard_offset;
    item.omit_tail = item.range.end() - end;
    return item;
  }

  // Decides whether a job begins with nothing but the bytes wanted.
  void BeginTrimming(Job& job, size_t number) {
    const ReadPlan& plan = *job.plan;
    if (job.trimmed || !job.asked.empty() || !job.pieces.empty() || !plan.decode.empty()) return;
    uint64_t saved = 0;
    for (const FetchRange& r : plan.fetch) {
      if (r.length > kMaxPayloadBytes) return;
      saved += r.length - Trim(plan, {number, r}).wanted_bytes();
    }
    if (saved < kTrimBytes || saved < plan.fetch_bytes() / 4) return;
    job.trimmed = plan;
    job.trimming = true;
  }

  // Sends the requests that the plans need and that are not under way: one per node and kMaxPayloadBytes.
  void SendMissing() {
    std::map<NodeId, std::vector<Item>> by_node;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      Job& job = jobs_[j];
      if (job.finished) continue;
      BeginTrimming(job, j);
      for (FetchRange r : MissingRanges(job.plan->fetch, job.asked)) {
        job.asked.push_back(r);
        for (; r.length > 0;) {
          FetchRange part = r;
          part.length = std::min<uint64_t>(r.length, kMaxPayloadBytes);
          const Item item{j, part};
          by_node[io_.peers.NodeOf(job.column(r.column).target)].push_back(job.trimming ? Trim(*job.plan, item) : item);
          r.shard_offset += part.length;
          r.length -= part.length;
        }
      }
    }
    for (auto& [node, items] : by_node) {
      Batch batch{node, {}, 0};
      for (Item& item : items) {
        // Counts the bytes that the server reads, not only those that it sends.
        if (batch.bytes + item.range.length > kMaxPayloadBytes || batch.items.size() == kMaxDataItems) {
          Launch(std::exchange(batch, Batch{node, {}, 0}));
        }
        batch.bytes += item.range.length;
        batch.items.push_back(item);
      }
      Launch(std::move(batch));
    }
  }

  void Launch(Batch batch) {
    Flight& flight = flights_.emplace_back();
    flight.hedge_at_ns = Executor::Current().NowNs() + io_.peers.HedgeAfterNs(batch.node, batch.bytes);
    flight.batch = std::move(batch);
    scope_.Spawn(Fetch(&flight));
  }

  Task<void> Fetch(Flight* flight) {
    ReadRequest request;
    for (const Item& item : flight->batch.items) {
      const Job& job = jobs_[item.job];
      const Column& column = job.column(item.range.column);
      request.items.push_back(ShardRead{column.shard, column.target,
                                        job.range->stripe->tokens[item.range.column.v],
                                        item.range.shard_offset, item.range.length, item.omit_head,
                                        item.omit_tail});
    }
    // A busy server is given some time: reading around it would only make others busy.
    Result<ReadReply> reply = co_await io_.peers.Read(flight->batch.node, request);
    for (int64_t wait_ns = kBackoffMinNs; reply.code() == FsError::kRetryLater && wait_ns <= kMaxBusyWaitNs;
         wait_ns *= 2) {
      co_await Sleep(wait_ns);
      reply = co_await io_.peers.Read(flight->batch.node, request);
    }
    if (reply.ok()) {
      co_await Take(*flight, std::move(*reply));
    } else {
      for (const Item& item : flight->batch.items) MarkBad(jobs_[item.job], item.range.column, reply.code());
    }
    flight->done = true;
    News();
  }

  // Checks every item; verified bytes become pieces, the rest bad columns.
  Task<void> Take(const Flight& flight, ReadReply reply) {
    const std::vector<Item>& items = flight.batch.items;
    const bool local = flight.batch.node && flight.batch.node == io_.peers.local_node();
    std::vector<FsError> outcomes(items.size(), FsError::kChecksum);
    std::vector<BufferChain> bytes(items.size());
    uint64_t at = 0;
    for (size_t i = 0; i < items.size() && i < reply.items.size(); ++i) {
      const ReadItem& r = reply.items[i];
      outcomes[i] = r.result.code;
      if (r.result.code != FsError::kOk) continue;
      Count(jobs_[items[i].job], local ? ReadTally{.local_bytes = r.length} : ReadTally{.network_bytes = r.length});
      const bool sound = r.length == items[i].wanted_bytes() && r.left_out.head_bytes == items[i].omit_head &&
                         r.left_out.tail_bytes == items[i].omit_tail && r.length <= reply.payload.size() - at;
      if (!sound) {
        std::fill(outcomes.begin() + static_cast<std::ptrdiff_t>(i), outcomes.end(), FsError::kChecksum);
        break;
      }
      bytes[i] = reply.payload.Slice(at, r.length);
      at += r.length;
    }
    std::vector<ShardId> shards;
    for (const Item& item : items) shards.push_back(jobs_[item.job].column(item.range.column).shard);
    // Owns all it reads: it may run on after this coroutine is gone.
    auto verify = [items = std::vector<Item>(items), shards = std::move(shards), bytes, outcomes,
                   replies = std::move(reply.items)] {
      std::vector<FsError> checked = outcomes;
      for (size_t i = 0; i < items.size(); ++i) {
        if (checked[i] != FsError::kOk) continue;
        if (!Verified(shards[i], items[i].range.shard_offset, bytes[i], replies[i])) {
          checked[i] = FsError::kChecksum;
        }
      }
      return checked;
    };
    if (at <= kInlineComputeBytes) {
      outcomes = verify();
    } else {
      outcomes = co_await RunOn(io_.pool, std::move(verify));
    }
    for (size_t i = 0; i < items.size(); ++i) {
      Job& job = jobs_[items[i].job];
      if (outcomes[i] != FsError::kOk) {
        // The server answers, and the disk does not.
        if (outcomes[i] == FsError::kUnavailable) io_.peers.TargetFailed(job.column(items[i].range.column).target);
        MarkBad(job, items[i].range.column, outcomes[i]);
      } else if (!job.finished) {
        std::vector<Piece>& to = items[i].trimmed ? job.trimmed_pieces : job.pieces;
        to.push_back({items[i].range.column, items[i].range.shard_offset + items[i].omit_head, std::move(bytes[i])});
        if (job.doubt[items[i].range.column.v] != Doubt::kBad) Trust(job, items[i].range.column);
      }
    }
  }

  void Count(const Job& job, const ReadTally& more) {
    stats_->tally += more;
    job.range->tally.Add(more);
  }

  // It answered after all.
  void Trust(Job& job, ColumnIndex c) {
    io_.peers.TargetServed(job.column(c).target);
    job.doubt[c.v] = Doubt::kNone;
  }

  static std::vector<FetchRange> Have(const std::vector<Piece>& pieces) {
    std::vector<FetchRange> have;
    for (const Piece& p : pieces) have.push_back({p.column, p.shard_offset, p.bytes.size()});
    return have;
  }

  // True if the fetched bytes serve the plan, or another plan: a racer may have won.
  bool Complete(Job& job) {
    if (job.trimmed) {
      std::vector<FetchRange> want;
      for (const DirectRange& d : job.trimmed->direct) want.push_back({d.column, d.shard_offset, d.length});
      if (MissingRanges(std::move(want), Have(job.trimmed_pieces)).empty()) {
        job.plan = job.trimmed;
        job.pieces = std::move(job.trimmed_pieces);
        return true;
      }
      if (job.trimming) return false;
    }
    const std::vector<FetchRange> have = Have(job.pieces);
    if (MissingRanges(job.plan->fetch, have).empty()) return true;
    if (!racing_) return false;
    ReadOptions options;
    for (uint16_t c = 0; c < job.info().columns.size(); ++c) {
      const bool some = std::any_of(have.begin(), have.end(), [c](const auto& h) { return h.column.v == c; });
      if (!some) options.unavailable.push_back(ColumnIndex(c));
    }
    Result<ReadPlan> plan = PlanRead(job.info(), job.range->payload_offset, job.range->bytes(), options);
    if (!plan.ok() || !plan->lost.empty() || !MissingRanges(plan->fetch, have).empty()) return false;
    job.plan = std::move(*plan);
    return true;
  }

  Task<void> Finish(Job& job) {
    const StripeRange& range = *job.range;
    if (range.chain && job.plan->decode.empty()) {
      End(job, Share(job));
      co_return;
    }
    std::vector<FetchedBytes> fetched;
    for (const Piece& p : job.pieces) {
      uint64_t at = p.shard_offset;
      for (const Buffer& b : p.bytes.parts()) {
        fetched.push_back({p.column, at, b.span()});
        at += b.size();
      }
    }
    uint64_t decoded = 0;
    for (const DecodeGroup& d : job.plan->decode) decoded += d.length * d.wanted.size();
    Count(job, ReadTally{.reconstructed_bytes = decoded});
    if (!range.chain && decoded <= kInlineComputeBytes) {
      const Error e = AssembleRead(*job.plan, fetched, range.out, &io_.codecs);
      End(job, e.ok() ? Result<void>() : Result<void>(e));
      co_return;
    }
    // The pool may outlive this read, and with it the caller's span: decode into bytes of the read's own.
    auto out = std::make_shared<MutableBuffer>(range.bytes());
    auto pieces = std::make_shared<std::vector<Piece>>(job.pieces);
    auto plan = std::make_shared<ReadPlan>(*job.plan);
    CodecSet* codecs = &io_.codecs;
    const Error e = co_await RunOn(io_.pool, [out, pieces, plan, fetched, codecs] {
      return AssembleRead(*plan, fetched, out->span(), codecs);
    });
    if (e.ok() && range.chain) {
      *range.chain = BufferChain(std::move(*out).Freeze());
    } else if (e.ok()) {
      std::copy_n(out->data(), range.out.size(), range.out.data());
    }
    End(job, e.ok() ? Result<void>() : Result<void>(e));
  }

  // The pieces in the order of the payload. REQUIRES: no byte needs decoding.
  static Result<void> Share(const Job& job) {
    BufferChain all;
    for (DirectRange range : job.plan->direct) {
      while (range.length > 0) {
        const Piece* best = nullptr;
        for (const Piece& p : job.pieces) {
          const bool has = p.column == range.column && p.shard_offset <= range.shard_offset &&
                           range.shard_offset < p.shard_offset + p.bytes.size();
          if (has) best = &p;
        }
        if (!best) return Error(FsError::kIo, "a stripe's plan was not fetched");
        const uint64_t in_piece = range.shard_offset - best->shard_offset;
        const uint64_t n = std::min<uint64_t>(range.length, best->bytes.size() - in_piece);
        all.Append(best->bytes.Slice(in_piece, n));
        range.shard_offset += n;
        range.length -= n;
      }
    }
    CHECK(all.size() == job.range->length, "a plan's direct ranges are the payload's");
    *job.range->chain = std::move(all);
    return Ok();
  }

  void News() {
    news_ = true;
    wake_.Pulse();
  }

  Task<bool> AwaitNews() {
    while (!news_) co_await wake_.Wait();
    co_return true;
  }

  // Until something comes in, or a request has taken so long that racing it is worth while.
  Task<void> Wait() {
    int64_t next_ns = INT64_MAX;
    for (const Flight& f : flights_) {
      if (!f.done && !f.hedged) next_ns = std::min(next_ns, f.hedge_at_ns);
    }
    const int64_t now_ns = Executor::Current().NowNs();
    if (next_ns > now_ns) {
      if (next_ns == INT64_MAX) {
        co_await wake_.Wait();
        co_return;
      }
      if (co_await WithTimeout(next_ns - now_ns, AwaitNews())) co_return;
    }
    Hedge(Executor::Current().NowNs());
  }

  void Hedge(int64_t now_ns) {
    for (Flight& f : flights_) {
      if (f.done || f.hedged || f.hedge_at_ns > now_ns) continue;
      f.hedged = true;
      if (!io_.peers.MayHedge()) continue;
      for (const Item& item : f.batch.items) {
        Job& job = jobs_[item.job];
        Doubt& doubt = job.doubt[item.range.column.v];
        if (job.finished || doubt != Doubt::kNone) continue;
        doubt = Doubt::kSlow;
        racing_ = true;
        ++stats_->hedged;
        Replan(job);
      }
    }
  }

  StripeIo io_;
  const std::function<void(const BadShard&)>& on_bad_;
  StripeReaderStats* stats_;
  std::vector<Job> jobs_;
  std::list<Flight> flights_;
  bool racing_ = false;  // some plan leaves out a column that may yet answer
  bool news_ = false;
  Event wake_;
  TaskScope scope_;
};

Task<Result<void>> StripeReader::Read(SharedGrant stripe, uint64_t payload_offset, std::span<uint8_t> out,
                                      Tallies tally) {
  std::vector<StripeRange> ranges;
  ranges.push_back({std::move(stripe), payload_offset, out, nullptr, 0, std::move(tally)});
  std::vector<Result<void>> results = co_await ReadMany(std::move(ranges));
  co_return std::move(results[0]);
}

Task<Result<BufferChain>> StripeReader::ReadShared(SharedGrant stripe, uint64_t payload_offset, uint64_t length,
                                                     Tallies tally, bool patient) {
  BufferChain chain;
  std::vector<StripeRange> ranges;
  ranges.push_back({std::move(stripe), payload_offset, {}, &chain, length, std::move(tally), patient});
  std::vector<Result<void>> results = co_await ReadMany(std::move(ranges));
  if (!results[0].ok()) co_return results[0].error();
  co_return chain;
}

Task<std::vector<Result<void>>> StripeReader::ReadMany(std::vector<StripeRange> ranges) {
  const int64_t give_up_ns = Executor::Current().NowNs() + options_.patience_ns;
  std::vector<Result<void>> results(ranges.size());
  std::vector<size_t> left(ranges.size());
  std::iota(left.begin(), left.end(), size_t{0});
  for (int64_t wait_ns = kFirstWaitNs;; wait_ns = std::min(2 * wait_ns, kBackoffMaxNs)) {
    std::vector<const StripeRange*> todo;
    for (const size_t i : left) todo.push_back(&ranges[i]);
    std::vector<size_t> again;
    {
      ReadOp op(io_, on_bad_, &stats_, std::move(todo));
      std::vector<Result<void>> got = co_await op.Run();
      for (size_t i = 0; i < left.size(); ++i) {
        if (ranges[left[i]].patient && op.WorthWaiting(i) && !got[i].ok()) again.push_back(left[i]);
        results[left[i]] = std::move(got[i]);
      }
    }
    if (again.empty() || Executor::Current().NowNs() + wait_ns >= give_up_ns) co_return results;
    left = std::move(again);
    co_await Sleep(wait_ns);
  }
}

}  // namespace stria
