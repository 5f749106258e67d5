#include "meta/replica/shipper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/exec/passed.h"
#include "common/sabotage.h"

namespace stria {
namespace {

constexpr size_t kMaxOwed = 1024;
constexpr int64_t kOwedStepNs = 10 * kMillisecond;

std::string Seconds(int64_t ns) {
  const int64_t tenths = ns / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

Shipper::Shipper(ShipperEnv env, std::shared_ptr<ReplicaService> peer, const ShipperOptions& options)
    : env_(std::move(env)), peer_(std::move(peer)), options_(options), heard_ns_(Executor::Current().NowNs()) {}

Task<void> Shipper::Run() {
  while (!stopped_) {
    wake_.Reset();
    const int64_t now = Now();
    Fill(now);
    Watch(now);
    const int64_t wait = NextNs(now) - now;
    (void)co_await WithTimeout(wait, Passed(&wake_));
  }
}

void Shipper::Written() {
  if (due_ns_ != INT64_MAX) return;
  due_ns_ = Now() + options_.linger_ns;
  wake_.Set();
}

void Shipper::Want(CommitSeq seq) {
  if (seq <= wanted_) return;
  wanted_ = seq;
  const int64_t now = Now();
  due_ns_ = std::min(due_ns_, now);
  if (seq > durable_ && (owed_.empty() || (owed_.size() < kMaxOwed && now - owed_.back().since_ns >= kOwedStepNs))) {
    owed_.push_back({seq, now});
  }
  wake_.Set();
}

void Shipper::Probe() {
  Lost();
  needs_join_ = false;
  not_before_ns_ = INT64_MIN / 2;
  sent_ns_ = INT64_MIN / 2;
  wake_.Set();
}

// Everything that can be sent now.
void Shipper::Fill(int64_t now) {
  if (now < not_before_ns_) return;
  const CommitSeq last = env_.store->last().seq;
  if (known_ && next_ < last && now >= due_ns_) {
    while (known_ && next_ < last && in_flight_ < options_.max_in_flight && bytes_ < options_.window_bytes) {
      Result<std::vector<LogRow>> rows = env_.store->Read(next_, options_.append_bytes, kMaxShippedBatches);
      if (!rows.ok() || rows->empty()) {
        // It lacks more than the log keeps.
        NeedJoin();
        break;
      }
      SendSome(std::move(rows).value());
    }
  }
  if (known_ && next_ >= last) due_ns_ = INT64_MAX;
  // A sync is sent behind the batches that it is about. If it overtakes them, its answer says less, and another follows.
  const CommitSeq can = std::min(wanted_, next_);
  if (known_ && whole_ && can > durable_ && can > sync_sent_ && syncs_ < options_.max_syncs) SendEmpty(true);
  if (now - sent_ns_ >= options_.beat_ns) SendEmpty(known_ && durable_ < next_ && syncs_ < options_.max_syncs);
}

void Shipper::SendSome(std::vector<LogRow> rows) {
  AppendRequest request = env_.header();
  Sent sent;
  const Result<std::optional<LogPoint>> prev = env_.store->At(next_);
  if (!prev.ok() || !prev.value()) {
    NeedJoin();
    return;
  }
  request.follows = true;
  request.prev = **prev;
  for (LogRow& row : rows) {
    request.batches.push_back({row.point.term, row.encoded.size()});
    sent.bytes += row.encoded.size();
    sent.upto = row.point.seq;
    request.payload.Append(std::move(row.encoded));
  }
  sent.batches = true;
  next_ = sent.upto;
  Send(std::move(request), sent);
}

void Shipper::SendEmpty(bool sync) {
  AppendRequest request = env_.header();
  request.sync = sync;
  request.join = needs_join_;
  Sent sent;
  sent.sync = sync;
  sent.upto = next_;
  if (sync) sync_sent_ = next_;
  Send(std::move(request), sent);
}

void Shipper::Send(AppendRequest request, Sent sent) {
  request.header.timeout_ns = options_.call_timeout_ns;
  sent.at_ns = sent_ns_ = Now();
  sent.round = round_;
  if (sent.batches) ++in_flight_;
  if (sent.sync) ++syncs_;
  bytes_ += sent.bytes;
  calls_.Spawn(Call(std::move(request), sent));
}

Task<void> Shipper::Call(AppendRequest request, Sent sent) {
  // A transport has deadlines of its own; this one holds whatever it does.
  std::optional<Result<AppendReply>> reply = co_await WithTimeout(options_.call_timeout_ns, peer_->Append(std::move(request)));
  if (sent.batches && sent.round == round_) --in_flight_;
  if (sent.sync && sent.round == round_) --syncs_;
  bytes_ -= sent.bytes;
  if (!stopped_) Answered(sent, reply ? std::move(*reply) : Result<AppendReply>(Error(FsError::kDeadline, "no answer in time")));
  wake_.Set();
}

void Shipper::Answered(const Sent& sent, const Result<AppendReply>& reply) {
  if (!reply.ok()) {
    if (sent.round != round_) return;
    if (sent.sync) sync_sent_ = durable_;
    if (reply.code() == FsError::kRetryLater) return;
    Lost();
    not_before_ns_ = Now() + options_.retry_ns;
    sent_ns_ = std::min(sent_ns_, not_before_ns_ - options_.beat_ns);
    return;
  }
  const AppendReply& r = reply.value();
  if (r.term > env_.term) {
    stopped_ = true;
    env_.deposed(r.term);
    return;
  }
  if (r.result == AppendResult::kOldTerm) return;  // of no term that is higher: nobody says that in earnest, and it promises nothing
  heard_ns_ = Now();
  env_.heard(sent.at_ns);
  if (sent.round != round_) return;
  whole_ = r.whole;
  if (sent.sync && r.whole && r.durable.seq.v != 0 && env_.store->Has(r.durable)) {
    durable_ = std::max(durable_, r.durable.seq);
    while (!owed_.empty() && owed_.front().seq <= durable_) owed_.pop_front();
    env_.durable(durable_);
  }
  if (sent.sync && durable_ < sync_sent_ && syncs_ == 0) sync_sent_ = durable_;
  // Also a member that has lost its newest batches in a power cut, and that nothing is sent to.
  if (r.result == AppendResult::kMismatch || (known_ && r.last.seq < received_)) Lost();
  if (known_ && sent.batches) received_ = std::max(received_, sent.upto);
  if (!known_) Place(r);
  const CommitSeq last = env_.store->last().seq;
  if (known_ && r.whole && durable_.v != 0 && durable_.v + options_.near_batches >= last.v) env_.near();
}

// Where its log is, by what it says of it: ours goes on from there, or it has to join.
void Shipper::Place(const AppendReply& r) {
  const bool believed = r.whole || (r.fetched.seq.v != 0 && env_.store->Has(r.fetched)) || Sabotaged(Sabotage::kIgnoreFetched);
  if (!believed || !env_.store->Has(r.last)) return NeedJoin();
  needs_join_ = false;
  known_ = true;
  next_ = received_ = r.last.seq;
  if (next_ < durable_) {
    durable_ = CommitSeq();
    env_.went_back();
  }
  sync_sent_ = durable_;
  due_ns_ = std::min(due_ns_, Now());
}

void Shipper::Lost() {
  ++round_;
  in_flight_ = syncs_ = 0;  // those of before still count as bytes
  known_ = false;
  sync_sent_ = durable_;
}

// It will go back, or begin anew: what it had durable is nothing to rely on.
void Shipper::NeedJoin() {
  Lost();
  needs_join_ = true;
  if (durable_.v == 0) return;
  durable_ = sync_sent_ = CommitSeq();
  env_.went_back();
}

void Shipper::Watch(int64_t now) {
  if (now - asked_ns_ < options_.beat_ns) return;
  asked_ns_ = now;
  if (now - heard_ns_ > options_.suspect_ns) {
    env_.ask_drop("it has not answered for " + Seconds(now - heard_ns_));
  } else if (!owed_.empty() && now - owed_.front().since_ns > options_.ack_timeout_ns) {
    env_.ask_drop("its disk, or its network, is " + Seconds(now - owed_.front().since_ns) + " behind");
  } else if (needs_join_) {
    env_.ask_drop("its log is not the beginning of the primary's");
  }
}

int64_t Shipper::NextNs(int64_t now) const {
  int64_t next = std::max(sent_ns_ + options_.beat_ns, not_before_ns_);
  if (known_ && next_ < env_.store->last().seq && in_flight_ < options_.max_in_flight && bytes_ < options_.window_bytes) {
    next = std::min(next, std::max(due_ns_, not_before_ns_));
  }
  return std::max(next, now + 1);
}

}  // namespace stria
