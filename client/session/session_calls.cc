// MetaSession: one call with its retries. All its forms are made here, once: they take long to compile.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "client/session/meta_session.h"

namespace stria {

namespace {

// The commit to be replayed if the server loses it; 0 for replies that are durable or need no replay. Each type of reply has its
// own line: with a default, a new change would silently not be replayed.
CommitSeq SeqOf(const NodeReply& r) { return r.seq; }
CommitSeq SeqOf(const OpenReply& r) { return r.node.seq; }
CommitSeq SeqOf(const XattrReply& r) { return r.seq; }
CommitSeq SeqOf(const CommitReply& r) { return r.seq; }
CommitSeq SeqOf(const CloneReply&) { return {}; }     // durable before it is answered
CommitSeq SeqOf(const LayoutReply&) { return {}; }    // the same
CommitSeq SeqOf(const AllocateReply&) { return {}; }  // other stripes would come out of it (on_reclaimed tells the pool)
CommitSeq SeqOf(const LockReply&) { return {}; }      // locks are claimed again
CommitSeq SeqOf(const Empty&) { return {}; }          // a restart loses nothing of it: the session claims its open files again
// These only read.
CommitSeq SeqOf(const ReadLinkReply&) { return {}; }
CommitSeq SeqOf(const PathsReply&) { return {}; }
CommitSeq SeqOf(const ReadDirReply&) { return {}; }
CommitSeq SeqOf(const StatFsReply&) { return {}; }
CommitSeq SeqOf(const GetExtentsReply&) { return {}; }
CommitSeq SeqOf(const ClusterMap&) { return {}; }

// Of the file or directory that was changed; nullptr: the reply does not say.
const Attr* AttrIn(const NodeReply& r) { return &r.attr; }
const Attr* AttrIn(const OpenReply& r) { return &r.node.attr; }
const Attr* AttrIn(const CommitReply& r) { return &r.attr; }
template <class Rep>
const Attr* AttrIn(const Rep&) {
  return nullptr;
}

// The memory that a kept request takes.
uint64_t BytesOf(const CommitRequest& r) {
  uint64_t n = 512 + r.stripes.size() * 1024;
  for (const Extent& e : r.extents) n += sizeof(Extent) + e.inline_bytes.size();
  return n;
}
uint64_t BytesOf(const XattrRequest& r) { return 512 + r.value.size(); }
template <class Req>
uint64_t BytesOf(const Req&) {
  return 1024;
}

// OpHeader::replay_order of unanswered requests: after all answered ones.
constexpr uint64_t kAfterReplays = UINT64_MAX;

// So that the replay makes the inode that the reply named.
void PrepareReplay(MakeNodeRequest* r, const OpenReply& reply) {
  if (reply.created) r->former = reply.node.attr.ino;
  if (reply.created) r->header.opened = reply.proof;
  r->ahead = false;
  r->numbers = 0;
}
// After a restart the session has claimed what it holds; there is nothing else to give back.
void PrepareReplay(NameRequest* r, const NodeReply&) { r->release = InodeId(); }
void PrepareReplay(RenameRequest* r, const NodeReply&) { r->release = InodeId(); }
template <class Req, class Rep>
void PrepareReplay(Req*, const Rep&) {}

void PrepareReplay(CommitRequest* r, const CommitReply&) { r->known_version = 0, r->only_known = false; }

// The same for one that goes to the server under another term than the one in which it was made, or after the session
// has lapsed since.
void PrepareForTerm(NameRequest* r) { r->release = InodeId(); }
void PrepareForTerm(RenameRequest* r) { r->release = InodeId(); }
void PrepareForTerm(InodeRequest* r) { r->ino = InodeId(); }  // a Release: of nothing
template <class Req>
void PrepareForTerm(Req*) {}

// Requests made under leases that have run out since. Bytes buffered under a lease go only over the version known then.
void PrepareForEra(CommitRequest* r) { r->only_known = r->known_version != 0; }
void PrepareForEra(LeaseDoneRequest* r) { r->ino = InodeId(); }
template <class Req>
void PrepareForEra(Req*) {}

SessionCallNames NamedBy(const NameRequest& r) { return {r.parent, r.release}; }
SessionCallNames NamedBy(const MakeNodeRequest& r) { return {r.parent, InodeId()}; }
SessionCallNames NamedBy(const RenameRequest& r) { return {r.parent, r.new_parent}; }
SessionCallNames NamedBy(const LinkRequest& r) { return {r.ino, r.new_parent}; }
SessionCallNames NamedBy(const LockRequest& r) { return {r.lock.ino, InodeId()}; }
SessionCallNames NamedBy(const CloneRequest& r) { return {r.from, r.to}; }
SessionCallNames NamedBy(const CommitRequest& r) { return {r.make ? InodeId() : r.ino, InodeId()}; }
SessionCallNames NamedBy(const ReportShardRequest&) { return {}; }
SessionCallNames NamedBy(const LeaseDoneRequest&) { return {}; }  // a client that gives up a lease has told its changes before
template <class Req>
SessionCallNames NamedBy(const Req& r) {
  return {r.ino, InodeId()};
}

// The inodes that the request changes.
SessionCallNames ChangedBy(const CommitRequest& r) { return {r.ino, r.make ? r.make->parent : InodeId()}; }
template <class Req>
SessionCallNames ChangedBy(const Req& r) {
  return NamedBy(r);
}

// The inodes whose next sync fails if the change is lost. The file in the answer is one of them: a rename moves it, an open cuts it.
LostChanges::Changed LostWith(const SetAttrRequest& r, const Attr*) { return {r.read_ns ? InodeId() : r.ino}; }
template <class Req>
LostChanges::Changed LostWith(const Req& r, const Attr* answered) {
  const SessionCallNames names = ChangedBy(r);
  return {names[0], names[1], answered == nullptr ? InodeId() : answered->ino};
}

// A commit that was answered after its own sync: everything before it is durable too.
bool AnsweredDurable(const CommitRequest& r) { return r.durable; }
template <class Req>
bool AnsweredDurable(const Req&) {
  return false;
}

// Changes of names, or of attributes of existing inodes. The file's inode itself remembers changes of bytes, and that it was
// made.
bool IsChange(const CommitRequest&) { return false; }
bool IsChange(const CloneRequest&) { return false; }
bool IsChange(const MakeNodeRequest&) { return false; }
bool IsChange(const SetAttrRequest& r) { return !r.read_ns; }
template <class Req>
bool IsChange(const Req&) {
  return true;
}

}  // namespace

template <class Req, class Rep>
Task<Result<Rep>> MetaSession::Run(Task<Result<Rep>> (MetaService::*method)(Req), Req request, Caller caller,
                                   bool mutation) {
  const Executor& ex = Executor::Current();
  const uint64_t generation = generation_;
  const uint64_t era = this->era();
  const int64_t deadline_ns = ex.NowNs() + options_.timeout_ns;
  if (handlers_.before_call) {
    if (auto first = handlers_.before_call(NamedBy(request))) {
      CO_RETURN_IF_ERROR(co_await std::move(*first));
      if (generation != generation_) co_return FencedError();
    }
  }
  if (state_ != State::kReady) CO_RETURN_IF_ERROR(co_await WaitOpen(generation, deadline_ns, false));
  if (mutation && ops_.HalfFull()) CO_RETURN_IF_ERROR(co_await MakeRoom(deadline_ns));
  if (generation != generation_) co_return FencedError();
  OpTicket ticket;
  if (mutation) ticket = ops_.Begin();
  const uint64_t number = request.header.trace_id != 0 ? request.header.trace_id : NumberCall();
  const uint64_t made_in = request.header.term;  // 0: in whichever
  const std::string opened = std::move(request.header.opened);
  Backoff backoff(&rng_);
  // Others may see a change that may have been done, and this client's caches must not contradict it. So from its deadline on
  // the session asks for its outcome (OpHeader::settle), until that is known or the session is lost.
  bool in_doubt = false;
  std::optional<Overdue> overdue;
  Error late;
  const SessionCallNames changed = ChangedBy(request);
  const auto settle = [&](Error error) {
    late = std::move(error);
    overdue.emplace(this, changed);
  };
  const auto reopened = [&]() -> Task<Result<void>> {
    if (!overdue) {
      Result<void> open = co_await WaitOpen(generation, deadline_ns, mutation);
      if (open.ok() || !in_doubt || ex.NowNs() < deadline_ns || generation != generation_) co_return open;
      settle(open.error());
    }
    co_return co_await WaitOpen(generation, std::numeric_limits<int64_t>::max(), mutation);
  };
  while (true) {
    const Try t = BeginTry();
    const int64_t left_ns =
        overdue ? options_.timeout_ns : std::max<int64_t>(deadline_ns - ex.NowNs(), kMillisecond);
    if (made_in != 0 && (made_in != t.term || era != this->era())) PrepareForTerm(&request);
    if (era != this->era()) PrepareForEra(&request);
    request.header = Header(caller, ticket.seq());
    seals_.AddTo(&request);  // a replay has them, too
    request.header.opened = opened;
    request.header.trace_id = number;
    request.header.term = t.term;
    if (mutation && recovering_) request.header.replay_order = kAfterReplays;
    request.header.timeout_ns = std::min(options_.try_timeout_ns, left_ns);
    request.header.settle = overdue.has_value();
    auto [answer, restarted] = co_await FirstOf(
        WithTimeout(request.header.timeout_ns + kTrySlackNs, (t.service.get()->*method)(request)), PastOf(t));
    if (generation != generation_) co_return FencedError();
    std::optional<Result<Rep>> reply;
    if (answer) reply = std::move(*answer);
    if (reply && reply->ok()) seals_.Learn(**reply);
    // The server may have lost what it said before its restart: ask again.
    const bool current = !IsPast(t) && Open(mutation);
    if (reply && reply->ok() && current) {
      if (mutation) PrepareReplay(&request, **reply);
      if (mutation) Done(method, std::move(request), **reply, std::move(ticket));
      co_return std::move(*reply);
    }
    Error error(FsError::kDeadline, "no answer in time");
    if (reply) error = reply->ok() ? Error(FsError::kUnavailable, "the server restarted") : reply->error();
    const bool perhaps = error.code == FsError::kDeadline || error.code == FsError::kUnavailable;
    in_doubt = in_doubt || (mutation && perhaps);
    if (!answer) {  // repeated at once, before new calls
      CO_RETURN_IF_ERROR(co_await reopened());
      continue;
    }
    if (overdue && error.code == FsError::kTimedOut) co_return late;  // now it will not be done
    if (current || !reply || !reply->ok()) {
      if (!Retry(error, t)) co_return generation == generation_ ? error : FencedError();
    }
    const int64_t wait_ns = backoff.NextNs();
    if (!overdue && ex.NowNs() + wait_ns >= deadline_ns) {
      if (!in_doubt) co_return GiveUp(error);
      settle(GiveUp(error));
    }
    co_await Sleep(wait_ns);
    if (!Open(mutation) || generation != generation_) CO_RETURN_IF_ERROR(co_await reopened());
  }
}

template <class Req, class Rep>
void MetaSession::Done(Task<Result<Rep>> (MetaService::*method)(Req), Req request, const Rep& reply,
                       OpTicket ticket) {
  const CommitSeq seq = SeqOf(reply);
  if (AnsweredDurable(request)) {
    KnownDurable(seq);
    return;
  }
  if (!seq || seq <= durable_seq_) return;
  if (IsChange(request)) ticket.IsChange();
  const uint64_t bytes = BytesOf(request);
  const Attr* attr = AttrIn(reply);
  const auto made = std::make_shared<uint64_t>(attr == nullptr ? 0 : attr->data_version);
  const LostChanges::Changed changed = LostWith(request, attr);
  auto resend = [this, method, request = std::move(request), made](OpLog::Place place) {
    return Resend(method, request, place, made);
  };
  ops_.Keep(std::move(ticket), seq, bytes, std::move(resend), changed);
}

Task<Result<void>> MetaSession::MakeDurable(InodeId ino, Caller caller) {
  const uint64_t answered = ops_.Answered();
  const uint64_t generation = generation_;
  InodeRequest r;
  r.ino = ino;
  CO_RETURN_IF_ERROR(co_await Call(&MetaService::Sync, std::move(r), std::move(caller)));
  if (generation == generation_) ops_.DurableOf(answered);
  durable_grew_.Pulse();
  co_return Ok();
}

template <class Req, class Rep>
Task<Result<CommitSeq>> MetaSession::Resend(Task<Result<Rep>> (MetaService::*method)(Req), Req request,
                                            OpLog::Place place, std::shared_ptr<uint64_t> made) {
  const Try t = BeginTry();
  request.header.term = t.term;
  request.header.replay_order = place.order;
  request.header.replay_next = place.next;
  request.header.settle = false;
  request.header.session = session_;
  request.header.epoch = epoch_;
  request.header.acked_below = ops_.AckedBelow();
  request.header.seen_term = seen_.term;
  request.header.seen_proof = seen_.proof;
  request.header.timeout_ns = options_.try_timeout_ns;
  std::optional<Result<Rep>> reply = co_await WithTimeout(
      request.header.timeout_ns + kTrySlackNs, (t.service.get()->*method)(request));
  if (reply && reply->ok()) {
    seals_.Learn(**reply);
    if (const Attr* attr = AttrIn(**reply); attr != nullptr && attr->data_version != *made) {
      const uint64_t former = std::exchange(*made, attr->data_version);
      if (handlers_.on_repeated) handlers_.on_repeated(attr->ino, former, *made);
    }
    co_return SeqOf(**reply);
  }
  const Error error = reply ? reply->error() : Error(FsError::kDeadline, "no answer in time");
  Retry(error, t);
  co_return error;
}

// Every kind of call that a client makes.
#define STRIA_SESSION_CALL(Rep, Req) \
  template Task<Result<Rep>> MetaSession::Run(Task<Result<Rep>> (MetaService::*)(Req), Req, Caller, bool)
STRIA_SESSION_CALL(NodeReply, NameRequest);
STRIA_SESSION_CALL(NodeReply, InodeRequest);
STRIA_SESSION_CALL(NodeReply, SetAttrRequest);
STRIA_SESSION_CALL(OpenReply, MakeNodeRequest);
STRIA_SESSION_CALL(OpenReply, OpenRequest);
STRIA_SESSION_CALL(Empty, InodeRequest);
STRIA_SESSION_CALL(Empty, LeaseDoneRequest);
STRIA_SESSION_CALL(LockReply, LockRequest);
STRIA_SESSION_CALL(NodeReply, RenameRequest);
STRIA_SESSION_CALL(NodeReply, LinkRequest);
STRIA_SESSION_CALL(ReadLinkReply, InodeRequest);
STRIA_SESSION_CALL(PathsReply, InodeRequest);
STRIA_SESSION_CALL(ReadDirReply, ReadDirRequest);
STRIA_SESSION_CALL(XattrReply, XattrRequest);
STRIA_SESSION_CALL(StatFsReply, InodeRequest);
STRIA_SESSION_CALL(LayoutReply, LayoutRequest);
STRIA_SESSION_CALL(GetExtentsReply, GetExtentsRequest);
STRIA_SESSION_CALL(AllocateReply, AllocateRequest);
STRIA_SESSION_CALL(CommitReply, CommitRequest);
STRIA_SESSION_CALL(CloneReply, CloneRequest);
STRIA_SESSION_CALL(Empty, ReportShardRequest);
STRIA_SESSION_CALL(ClusterMap, InodeRequest);
#undef STRIA_SESSION_CALL

}  // namespace stria
