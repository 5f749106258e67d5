// Exactly-once runs of operations that change something.
//
// How one runs (Mutate):
//   1. check header and session, and that it may change anything; a repeated op gets the stored reply, or joins the one that runs
//   2. `run`: waits until nothing conflicts (reclaims after a restart, leases of others), runs the operation in a transaction
//      together with its stored reply (Apply), pushes invalidations and waits until they are acknowledged
//   3. `after` it: what a repeated one gets anew, too (leases, tokens), and waits for what is to be durable
// Steps 2 and 3 run in a task of the server's own: a caller that goes away changes nothing. Nothing is locked while waiting.
//
// Owns: the operations that run; it marks in the session table (OnceOps) which are begun, done and refused.
//
// Invariant: of an op_seq one run at most is under way, and its effect is committed once, together with its reply.
//
// Called by Files. Sees coherence, the core and its cleaner.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exec/task.h"
#include "common/sabotage.h"
#include "meta/coherence/coherence.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"
#include "meta/files/reply_codec.h"
#include "meta/files/request_digest.h"
#include "meta/files/room_gate.h"
#include "meta/ops/op_ctx.h"

namespace stria {

inline constexpr int kMaxTxnTries = 64;           // of an operation that must trim or sync first
inline constexpr size_t kReplyDeletesPerTxn = 8;  // acknowledged replies that go with a batch
inline constexpr size_t kMaxRunningOps = 16384;   // more: kRetryLater

// Whether the request changes anything that a read-only export keeps as it is.
template <class Req>
constexpr bool Changes(const Req&) {
  return true;
}
inline bool Changes(const OpenRequest& r) { return r.for_write || r.truncate; }
inline bool Changes(const LockRequest&) { return false; }  // also one that excludes readers

class OpRuns {
 public:
  template <class Self, class Req, class Rep>
  using RunFn = Task<Result<Rep>> (Self::*)(Req);
  template <class Self, class Req, class Rep>
  using AfterFn = Task<Result<Rep>> (Self::*)(Req, Rep);

  OpRuns(MetaCore* core, Cleaner* cleaner, Coherence* coherence)
      : core_(core), cleaner_(cleaner), coherence_(coherence), sessions_(&coherence->sessions()) {}
  // The tasks are the core's (CancelTasks); when they have ended.
  void Forget() { running_.clear(); }

  // `self` outlives the core's tasks; `after` may be null.
  template <class Req, class Rep, class Self>
  Task<Result<Rep>> Mutate(OpKind kind, Req r, Self* self, RunFn<std::type_identity_t<Self>, Req, Rep> run,
                           AfterFn<std::type_identity_t<Self>, Req, Rep> after);
  // `f(txn, ctx)` gives a Result<Rep>. Runs it until it needs no more room; commits with the stored reply.
  template <class Rep, class F>
  Task<Result<Rep>> Apply(OpKind kind, const OpHeader& h, Touched* touched, F f);

 private:
  struct RunBase {
    RunBase(OpKind k, uint64_t d) : kind(k), digest(d) {}
    virtual ~RunBase() = default;
    const OpKind kind;
    const uint64_t digest;  // of the request
    Event changed;
  };
  template <class Rep>
  struct OpRun final : RunBase {
    using RunBase::RunBase;
    std::optional<Result<Rep>> result;
  };
  template <class Req, class Rep, class Self>
  Task<void> RunOp(std::shared_ptr<OpRun<Rep>> op, Req r, Self* self, RunFn<Self, Req, Rep> run,
                   AfterFn<Self, Req, Rep> after, std::optional<Rep> stored, bool begun);
  template <class Rep>
  Task<Result<Rep>> AwaitRun(std::shared_ptr<OpRun<Rep>> op, int64_t deadline_ns);

  MetaCore* const core_;
  Cleaner* const cleaner_;
  Coherence* const coherence_;
  Sessions* const sessions_;
  std::map<std::pair<SessionId, OpSeq>, std::shared_ptr<RunBase>> running_;
  size_t running_count_ = 0;
};

template <class Rep>
Task<Result<Rep>> OpRuns::AwaitRun(std::shared_ptr<OpRun<Rep>> op, int64_t deadline_ns) {
  Timer timer;
  core_->executor()->StartTimer(&timer, deadline_ns, [op] { op->changed.Pulse(); });
  while (!op->result) {
    if (core_->Now() >= deadline_ns) co_return Error(FsError::kDeadline, "the request did not finish in time");
    co_await op->changed.Wait();
  }
  co_return *op->result;
}

template <class Req, class Rep, class Self>
Task<void> OpRuns::RunOp(std::shared_ptr<OpRun<Rep>> op, Req r, Self* self, RunFn<Self, Req, Rep> run,
                         AfterFn<Self, Req, Rep> after, std::optional<Rep> stored, bool begun) {
  const SessionId session = r.header.session;
  const OpSeq seq = r.header.op_seq;
  std::optional<Result<Rep>> result;
  if (stored) result.emplace(std::move(*stored));
  else result.emplace(co_await (self->*run)(r));
  // What is left, leases and attributes, others' replays do not wait for: it may wait for them.
  if (result->ok() || !IsRetryable(result->code())) sessions_->ReplayIsAt(r.header, r.header.replay_next);
  if (result->ok() && after != nullptr) {
    Rep reply = std::move(**result);
    result.emplace(co_await (self->*after)(r, std::move(reply)));
  }
  // What it waited for, to be made durable or known to others, has not happened: it is asked for again.
  if (core_->HasFailed()) result.emplace(core_->Failure());
  if (OnceOps* const ops = begun ? sessions_->FindOps(session) : nullptr) {  // null: the session is gone
    if (!result->ok() && !IsRetryable(result->code())) ops->Refuse(seq, result->error());
    ops->Finish(seq);
  }
  if (seq) running_.erase({session, seq});
  --running_count_;
  op->result = std::move(result);
  op->changed.Pulse();
}

template <class Req, class Rep, class Self>
Task<Result<Rep>> OpRuns::Mutate(OpKind kind, Req r, Self* self, RunFn<std::type_identity_t<Self>, Req, Rep> run,
                                 AfterFn<std::type_identity_t<Self>, Req, Rep> after) {
  CO_RETURN_IF_ERROR(kind == OpKind::kSetLayout ? sessions_->CheckCaller(r.header) : sessions_->CheckSession(r.header));
  if (Changes(r) && sessions_->IsReadOnly(r.header.session)) {
    co_return Error(FsError::kRoFs, "session " + std::to_string(r.header.session.v) + " was opened by an export that is read-only");
  }
  if (!r.header.session && r.header.op_seq) co_return Error(FsError::kBadRequest, "an op_seq needs a session");
  if (Sabotaged(Sabotage::kRetryTwice)) r.header.op_seq = OpSeq();
  const int64_t deadline_ns = core_->DeadlineOf(r.header);
  const SessionId session = r.header.session;
  const OpSeq seq = r.header.op_seq;
  const uint64_t digest = seq ? RequestDigest(r) : 0;
  const auto other = [] { return Error(FsError::kBadRequest, "an op_seq was used for two different requests"); };
  std::optional<Rep> stored;
  bool begun = false;
  if (seq) {
    if (auto it = running_.find({session, seq}); it != running_.end()) {
      auto same = std::dynamic_pointer_cast<OpRun<Rep>>(it->second);
      if (!same || it->second->kind != kind || it->second->digest != digest) co_return other();
      co_return co_await AwaitRun<Rep>(std::move(same), deadline_ns);
    }
    switch (sessions_->ops(session).Lookup(seq)) {
      case OpState::kForgotten:
        co_return Error(FsError::kBadRequest, "the reply to this op_seq was acknowledged already");
      case OpState::kRunning:  // its task is gone only if the server is stopping
      case OpState::kTooMany:
        co_return Error(FsError::kRetryLater, "too many unacknowledged operations of this session");
      case OpState::kDone: {
        CO_ASSIGN_OR_RETURN(const ReplyRecord record, ReplyRecord::Decode(ReplyKey(session, seq),
                                                                          sessions_->ops(session).Reply(seq)));
        if (record.kind != static_cast<uint16_t>(kind)) co_return other();
        if (record.digest != 0 && record.digest != digest) co_return other();
        CO_RETURN_IF_ERROR(DecodeReply(record.bytes, &stored.emplace()));
        break;
      }
      case OpState::kNew:
        if (!r.header.settle) break;
        sessions_->ops(session).Refuse(seq, Error(FsError::kTimedOut, "its client has given it up before it was begun"));
        [[fallthrough]];
      case OpState::kRefused:
        sessions_->ReplayIsAt(r.header, r.header.replay_next);
        co_return Error(sessions_->ops(session).Refusal(seq));
    }
  }
  if (running_count_ >= kMaxRunningOps) co_return Error(FsError::kRetryLater, "the metadata server is overloaded");
  if (seq && !stored) {
    sessions_->ops(session).Begin(seq);
    begun = true;
  }
  auto op = std::make_shared<OpRun<Rep>>(kind, digest);
  if (seq) running_[{session, seq}] = op;
  ++running_count_;
  core_->Spawn(RunOp<Req, Rep, Self>(op, std::move(r), self, run, after, std::move(stored), begun));
  co_return co_await AwaitRun<Rep>(std::move(op), deadline_ns);
}

template <class Rep, class F>
Task<Result<Rep>> OpRuns::Apply(OpKind kind, const OpHeader& h, Touched* touched, F f) {
  for (int i = 0;; ++i) {
    CO_RETURN_IF_ERROR(kind == OpKind::kSetLayout ? sessions_->CheckCaller(h) : sessions_->CheckSession(h));
    if (Error full = CheckRoom(core_->room(), kind); !full.ok() && !sessions_->Repeats(h)) co_return full;
    *touched = Touched();
    std::optional<Error> failed;
    {
      Txn txn(core_->store());
      const OpCtx ctx = coherence_->Ctx(h, touched);
      Result<Rep> reply = f(txn, ctx);
      if (reply.ok()) {
        std::string record;
        std::vector<OpSeq> forgotten;
        if (h.op_seq) {
          ReplyRecord stored;
          stored.kind = static_cast<uint16_t>(kind);
          stored.bytes = EncodeReply(*reply);
          stored.seq = txn.seq();
          if (const auto run = running_.find({h.session, h.op_seq}); run != running_.end()) stored.digest = run->second->digest;
          record = stored.Encode();
          txn.Put(Family::kReplies, ReplyKey(h.session, h.op_seq), record);
          forgotten = sessions_->ops(h.session).Forgotten(kReplyDeletesPerTxn);
          for (OpSeq seq : forgotten) txn.Delete(Family::kReplies, ReplyKey(h.session, seq));
        }
        Result<CommitSeq> seq = txn.Commit();
        if (!seq.ok()) {
          if (seq.code() != FsError::kTooBig) core_->Fail(seq.error());
          co_return seq.error();
        }
        if (h.op_seq) {
          OnceOps& ops = sessions_->ops(h.session);
          ops.Commit(h.op_seq, std::move(record));
          ops.Deleted(forgotten);
        }
        cleaner_->NoteCommit(*touched);
        co_return std::move(reply);
      }
      failed = reply.error();
    }
    if (failed->code != FsError::kRetryLater || i >= kMaxTxnTries) co_return *failed;
    CO_RETURN_IF_ERROR(co_await cleaner_->MakeRoomFor(*touched));
  }
}

}  // namespace stria
