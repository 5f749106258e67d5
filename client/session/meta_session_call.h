// The templates of meta_session.h: one call with its retries. Include that instead.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "client/session/meta_session.h"

namespace stria {

namespace session_internal {

// Answers later than this after the time limit that the request carries are not waited for.
inline constexpr int64_t kTrySlackNs = 500 * kMillisecond;

// The commit to be replayed if the server loses it; 0 for replies that are durable or need no replay.
// Allocations are not replayed: other stripes would come out of it (on_reclaimed tells the pool).
inline CommitSeq SeqOf(const NodeReply& r) { return r.seq; }
inline CommitSeq SeqOf(const OpenReply& r) { return r.node.seq; }
inline CommitSeq SeqOf(const XattrReply& r) { return r.seq; }
inline CommitSeq SeqOf(const CommitReply& r) { return r.seq; }
template <class Rep>
CommitSeq SeqOf(const Rep&) {
  return {};
}

// What a request costs to keep.
inline uint64_t BytesOf(const CommitRequest& r) {
  uint64_t n = 512 + r.stripes.size() * 1024;
  for (const Extent& e : r.extents) n += sizeof(Extent) + e.inline_bytes.size();
  return n;
}
inline uint64_t BytesOf(const XattrRequest& r) { return 512 + r.value.size(); }
template <class Req>
uint64_t BytesOf(const Req&) {
  return 1024;
}

// A commit that was answered after its own sync: everything before it is durable too.
inline bool AnsweredDurable(const CommitRequest& r) { return r.durable; }
template <class Req>
bool AnsweredDurable(const Req&) {
  return false;
}

}  // namespace session_internal

template <class Req, class Rep>
Task<Result<Rep>> MetaSession::Run(Task<Result<Rep>> (MetaService::*method)(Req), Req request, Caller caller,
                                   bool mutation) {
  const Executor& ex = Executor::Current();
  const uint64_t generation = generation_;
  const int64_t deadline_ns = ex.NowNs() + options_.timeout_ns;
  if (state_ != State::kReady) CO_RETURN_IF_ERROR(co_await WaitOpen(generation, deadline_ns));
  if (mutation && ops_.HalfFull()) CO_RETURN_IF_ERROR(co_await MakeRoom(deadline_ns));
  if (generation != generation_) co_return FencedError();
  OpTicket ticket;
  if (mutation) ticket = ops_.Begin();
  Backoff backoff(&rng_);
  while (true) {
    const Try t = BeginTry();
    const int64_t left_ns = std::max<int64_t>(deadline_ns - ex.NowNs(), kMillisecond);
    request.header = Header(caller, ticket.seq());
    if constexpr (requires { request.term; }) request.term = t.term;
    request.header.timeout_ns = std::min(options_.try_timeout_ns, left_ns);
    std::optional<Result<Rep>> reply = co_await WithTimeout(
        request.header.timeout_ns + session_internal::kTrySlackNs, (t.service.get()->*method)(request));
    if (generation != generation_) co_return FencedError();
    // What a server said before its restart may be forgotten there by now: ask again.
    const bool current = t.term == term_ && state_ == State::kReady;
    if (reply && reply->ok() && current) {
      if (mutation) Done(method, std::move(request), session_internal::SeqOf(**reply), std::move(ticket));
      co_return std::move(*reply);
    }
    Error error(FsError::kDeadline, "no answer in time");
    if (reply) error = reply->ok() ? Error(FsError::kUnavailable, "the server restarted") : reply->error();
    if (current || !reply || !reply->ok()) {
      if (!Retry(error, t)) co_return generation == generation_ ? error : FencedError();
    }
    const int64_t wait_ns = backoff.NextNs();
    if (ex.NowNs() + wait_ns >= deadline_ns) co_return GiveUp(error);
    co_await Sleep(wait_ns);
    if (state_ != State::kReady || generation != generation_) {
      CO_RETURN_IF_ERROR(co_await WaitOpen(generation, deadline_ns));
    }
  }
}

template <class Req, class Rep>
void MetaSession::Done(Task<Result<Rep>> (MetaService::*method)(Req), Req request, CommitSeq seq,
                       OpTicket ticket) {
  if (session_internal::AnsweredDurable(request)) {
    KnownDurable(seq);
    return;
  }
  if (!seq || seq <= durable_seq_) return;
  const uint64_t bytes = session_internal::BytesOf(request);
  ops_.Keep(std::move(ticket), seq, bytes,
            [this, method, request = std::move(request)] { return Resend(method, request); });
}

template <class Req, class Rep>
Task<Result<CommitSeq>> MetaSession::Resend(Task<Result<Rep>> (MetaService::*method)(Req), Req request) {
  const Try t = BeginTry();
  request.header.session = session_;
  request.header.epoch = epoch_;
  request.header.acked_below = ops_.AckedBelow();
  request.header.timeout_ns = options_.try_timeout_ns;
  std::optional<Result<Rep>> reply = co_await WithTimeout(
      request.header.timeout_ns + session_internal::kTrySlackNs, (t.service.get()->*method)(request));
  if (reply && reply->ok()) co_return session_internal::SeqOf(**reply);
  const Error error = reply ? reply->error() : Error(FsError::kDeadline, "no answer in time");
  Retry(error, t);
  co_return error;
}

}  // namespace stria
