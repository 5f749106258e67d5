#include "client/session/meta_session.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/sabotage.h"

namespace stria {

namespace {

// Not more of the lease than this is given up to the margin.
constexpr int64_t kMarginPart = 4;
constexpr int64_t kRenewParts = 3;  // renewals per lease
constexpr int64_t kEndCallsNs = 2 * kSecond;
constexpr int64_t kEndCallsPollNs = 2 * kMillisecond;

Task<bool> Until(Event& event) {
  co_await event.Wait();
  co_return true;
}

}  // namespace

MetaSession::MetaSession(MetaConnector& connector, MetaSessionOptions options)
    : connector_(connector), options_(std::move(options)), rng_(options_.seed), peers_(options_.addresses) {
  if (options_.members == nullptr) return;
  peers_.OnAddresses(options_.on_addresses);
  MetaLocatorOptions locate;
  locate.seed = options_.seed;
  locator_ = std::make_unique<MetaLocator>(options_.members, &peers_, [this] { return map_->cluster; }, locate);
  locator_->OnMoved([this] { Moved(); });
}

MetaSession::~MetaSession() = default;

void MetaSession::Start() {
  CHECK(scope_.running() == 0, "started twice");
  scope_.Spawn(KeepOpen());
  scope_.Spawn(KeepRenewed());
  scope_.Spawn(KeepPolling());
  scope_.Spawn(KeepMap());
  if (locator_) locator_->Start();
}

Task<Result<void>> MetaSession::WaitReady(std::optional<int64_t> within_ns) {
  return WaitOpen(generation_, Executor::Current().NowNs() + within_ns.value_or(options_.timeout_ns), false);
}

Task<Result<void>> MetaSession::WaitNext() {
  const Executor& ex = Executor::Current();
  const int64_t deadline_ns = ex.NowNs() + options_.timeout_ns;
  while (state_ == State::kFenced) {
    const int64_t left_ns = deadline_ns - ex.NowNs();
    if (Refused() && last_error_.code != FsError::kFenced) co_return last_error_;  // kFenced: of the session before
    if (left_ns <= 0) co_return GiveUp(last_error_);
    co_await WithTimeout(left_ns, Until(changed_));
  }
  co_return Ok();
}

Task<void> MetaSession::Close() {
  if (state_ == State::kClosed) co_return;
  const bool live = Live();
  scope_.CancelAll();
  locator_.reset();
  events_.CancelAll();
  SetState(State::kClosed);
  if (live) {
    const Try t = BeginTry();
    InodeRequest request;
    request.header = Header(Caller{}, OpSeq());
    request.header.timeout_ns = options_.try_timeout_ns;
    co_await WithTimeout(options_.try_timeout_ns, t.service->CloseSession(request));
  }
  lease_until_ns_ = 0;
}

int64_t MetaSession::LeaseLeftNs() const {
  return state_ == State::kReady ? lease_until_ns_ - Executor::Current().NowNs() : 0;
}

// ---- One try ----------------------------------------------------------------------------------------

MetaSession::Try MetaSession::BeginTry() {
  const std::string& address = peers_.current();
  std::shared_ptr<MetaService>& service = services_[address];
  if (!service) service = connector_.Connect(address);
  return Try{service, address, term_, epoch_, session_};
}

OpHeader MetaSession::Header(const Caller& caller, OpSeq op_seq) const {
  OpHeader h;
  h.cluster = map_->cluster;
  h.session = session_;
  h.epoch = epoch_;
  h.op_seq = op_seq;
  h.acked_below = ops_.AckedBelow();
  h.uid = caller.uid;
  h.gid = caller.gid;
  h.groups = caller.groups;
  h.seen_term = seen_.term;
  h.seen_proof = seen_.proof;
  return h;
}

bool MetaSession::Retry(const Error& error, const Try& t) {
  switch (error.code) {
    case FsError::kFenced:
      // An answer to a call from before a reclaim says nothing of the session as it is now.
      if (t.session == session_ && t.epoch == epoch_) Fence();
      return t.session == session_;
    case FsError::kLapsed:
      if (t.session == session_ && t.epoch == epoch_) Lapsed();
      return true;
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kNotLeader:
      peers_.Failed(t.address);
      if (locator_) locator_->Hurry();
      return true;
    case FsError::kNotReady:
    case FsError::kRetryLater:
      renew_now_.Pulse();  // it may have restarted: its term tells
      if (locator_) locator_->Hurry();
      return true;
    default:
      return false;
  }
}

Error MetaSession::FencedError() {
  return Error(FsError::kFenced,
               "the session with the metadata server was lost, and its open files with it");
}

Error MetaSession::GiveUp(const Error& last) const {
  std::string where;
  for (const std::string& a : peers_.addresses()) where += (where.empty() ? "" : ", ") + a;
  const FsError code = last.code == FsError::kDeadline ? FsError::kTimedOut : FsError::kUnavailable;
  return Error(code, "no metadata server served the call within " +
                         std::to_string(options_.timeout_ns / kSecond) + " s (" + where +
                         "): " + last.message);
}

Task<Result<void>> MetaSession::WaitOpen(uint64_t generation, int64_t deadline_ns, bool begun) {
  while (true) {
    if (state_ == State::kClosed) co_return Error(FsError::kCancelled, "the session is closed");
    if (state_ == State::kFenced || generation != generation_) co_return FencedError();
    if (Open(begun)) co_return Ok();
    if (state_ == State::kOpening && Refused()) co_return last_error_;
    const int64_t left_ns = deadline_ns - Executor::Current().NowNs();
    if (left_ns <= 0) {
      if (Refused()) co_return last_error_;
      co_return GiveUp(last_error_.ok() ? Error(FsError::kDeadline, "no answer in time") : last_error_);
    }
    co_await WithTimeout(left_ns, NotWaiting(generation, begun));
  }
}

// Looks before it waits: it starts later than it was made.
Task<bool> MetaSession::NotWaiting(uint64_t generation, bool begun) {
  while (generation == generation_ && !Open(begun) && state_ != State::kFenced &&
         state_ != State::kClosed && !(state_ == State::kOpening && Refused())) {
    co_await changed_.Wait();
  }
  co_return true;
}

Task<bool> MetaSession::PastOf(Try t) {
  while (!IsPast(t)) co_await changed_.Wait();
  co_return true;
}

// ---- Open, reclaim, fenced ------------------------------------------------------------------------------

void MetaSession::SetState(State s) {
  state_ = s;
  changed_.Pulse();
}

void MetaSession::Fence() {
  if (!Live() && state_ != State::kReclaiming) return;
  ++generation_;
  session_ = SessionId();
  epoch_ = Epoch();
  lease_until_ns_ = 0;
  durable_seq_ = CommitSeq();
  attempt_ = 0;
  for (const auto& [order, op] : ops_.kept()) op.lost ? lost_changes_.Lose(op.changed) : lost_changes_.Doubt(op.changed);
  ops_.Reset();
  ResetEvents(1);
  SetState(State::kFenced);
}

void MetaSession::Lapsed() {
  if (Live()) SetState(State::kReclaiming);
}

void MetaSession::SawTerm(uint64_t term) {
  if (term == term_ || !Live()) return;
  if (term > seen_.term) seen_ = SaidTerm{term, 0};
  SetState(State::kReclaiming);
}

Error MetaSession::CheckTerm(uint64_t term) const {
  if (term >= seen_.term || Sabotaged(Sabotage::kIgnoreTerms)) return Error();
  return Error(FsError::kNotLeader, "an old copy of the metadata (life " + std::to_string(term) + " of its server) is served at " +
                                        peers_.current() + ": life " + std::to_string(seen_.term) + " has answered before");
}

Task<void> MetaSession::KeepOpen() {
  Backoff backoff(&rng_);
  while (state_ != State::kClosed) {
    if (Live()) {
      backoff = Backoff(&rng_);
      co_await changed_.Wait();
      continue;
    }
    const Result<void> r = state_ == State::kReclaiming ? co_await Reclaim() : co_await OpenFresh();
    last_error_ = r.error();
    if (r.ok()) continue;
    changed_.Pulse();
    co_await PauseOpening(backoff.NextNs());
  }
}

void MetaSession::Moved() {
  // What hangs at the former one is asked again there, once the session is.
  if (Live() && peers_.known() > term_) SetState(State::kReclaiming);
}

Task<void> MetaSession::PauseOpening(int64_t ns) {
  if (locator_) co_await WithTimeout(ns, LeftFor(&peers_, peers_.current()));
  else co_await Sleep(ns);
}

Task<std::optional<Result<OpenSessionReply>>> MetaSession::OpenAt(Try t, OpenSessionRequest request) {
  if (!locator_) co_return co_await WithTimeout(options_.try_timeout_ns, t.service->OpenSession(std::move(request)));
  auto [reply, left] = co_await FirstOf(WithTimeout(options_.try_timeout_ns, t.service->OpenSession(std::move(request))), LeftFor(&peers_, t.address));
  if (!reply) co_return Result<OpenSessionReply>(Error(FsError::kUnavailable, "another metadata server is primary by now"));
  co_return std::move(*reply);
}

Task<Result<OpenSessionReply>> MetaSession::SendOpen(OpenSessionRequest request) {
  const Try t = BeginTry();
  request.header.timeout_ns = options_.try_timeout_ns;
  request.client = options_.client_name;
  request.client_uuid = options_.client_uuid;
  request.comes_back = true;
  request.node_name = options_.node_name;
  request.path = options_.path;
  std::optional<Result<OpenSessionReply>> reply = co_await OpenAt(t, std::move(request));
  Result<OpenSessionReply> r =
      reply ? std::move(*reply)
            : Result<OpenSessionReply>(Error(FsError::kDeadline, "the metadata server does not answer"));
  if (r.ok()) {
    if (Error former = CheckTerm(r->term); !former.ok()) r = std::move(former);
  }
  if (r.ok()) peers_.Answered(t.address, r->term);
  if (r.ok()) seals_.LearnRoot(*r);
  if (!r.ok() && r.code() != FsError::kFenced) Retry(r.error(), t);
  co_return r;
}

Task<Result<void>> MetaSession::OpenFresh() {
  const bool lost = state_ == State::kFenced;
  OpenSessionRequest request;
  request.header.cluster = map_->cluster;
  request.header.seen_term = seen_.term;
  request.header.seen_proof = seen_.proof;
  // One number per open with all its tries: a try that comes late or twice opens no second session. The
  // lease may run since the first of them.
  if (open_nonce_ == 0) {
    open_nonce_ = rng_.Next() | 1;
    open_sent_ns_ = Executor::Current().NowNs();
  }
  request.header.trace_id = open_nonce_;
  CO_ASSIGN_OR_RETURN(const OpenSessionReply reply, co_await SendOpen(std::move(request)));
  open_nonce_ = 0;
  Adopt(reply, open_sent_ns_);
  co_await Settle(lost);
  co_return Ok();
}

Task<Result<void>> MetaSession::Reclaim() {
  if (handlers_.on_restart) {
    co_await handlers_.on_restart();
    if (state_ != State::kReclaiming) co_return FencedError();
  }
  OpenSessionRequest request;
  request.header = Header(Caller{}, OpSeq());
  request.header.replay_next = ops_.FirstOrder();
  // Time for an attempt to come back with all its tries, as in OpenFresh.
  if (attempt_ == 0) attempt_ = rng_.Next() | 1;
  request.header.trace_id = attempt_;
  if (handlers_.held) request.held = handlers_.held();
  if (handlers_.locks) request.locks = handlers_.locks();
  const int64_t sent_ns = Executor::Current().NowNs();
  Result<OpenSessionReply> reply = co_await SendOpen(std::move(request));
  if (reply.code() == FsError::kFenced) Fence();
  CO_RETURN_IF_ERROR(reply);
  attempt_ = 0;
  if (reply->reclaimed && reply->lapsed) co_return co_await GoOn(std::move(*reply), sent_ns);
  const bool lost = !reply->reclaimed;
  if (lost) Fence();
  Adopt(*reply, sent_ns);
  if (!lost) {
    Result<void> replayed = co_await Replay();
    if (replayed.ok()) replayed = co_await EndCalls();
    if (replayed.ok()) replayed = co_await EndReplay();
    if (!replayed.ok() && state_ == State::kSettling) SetState(State::kReclaiming);
    CO_RETURN_IF_ERROR(replayed);
  }
  co_await Settle(lost);
  co_return Ok();
}

Task<Result<void>> MetaSession::GoOn(OpenSessionReply reply, int64_t sent_ns) {
  if (reply.term != term_ || ops_.HasLost()) {
    // The server has restarted meanwhile, or before a replay that this lapse cut short. Others have gone on without the changes that
    // the restart lost.
    if (reply.term == term_ + 1) KnownDurable(reply.survived);
    if (ops_.undurable() > 0) {
      Fence();
      co_return FencedError();
    }
  }
  ++lapses_;
  Adopt(reply, sent_ns);
  if (handlers_.on_came_back) co_await handlers_.on_came_back(std::move(reply.not_taken));
  if (state_ == State::kSettling) CO_RETURN_IF_ERROR(co_await EndCalls());
  if (state_ == State::kSettling) SetState(State::kReady);
  co_return Ok();
}

void MetaSession::Adopt(const OpenSessionReply& reply, int64_t sent_ns) {
  session_ = reply.session;
  epoch_ = reply.epoch;
  if (!opened_before_) root_ = reply.root;  // what is shown hangs on it, also when the path leads elsewhere by now
  read_only_ = reply.read_only;
  believed_ = reply.believed;
  if (const size_t lost = lost_changes_.Next(reply.term == term_); lost > 0) {
    LogWarning("{} changes that the metadata server had answered may be gone: this mount was cut off from it, and others went on "
               "without them after its restart; a sync of each file and directory that they changed fails once", lost);
  }
  if (reply.term != term_) durable_seq_ = CommitSeq();  // the former life may have counted further
  term_ = reply.term;
  seen_ = SaidTerm{term_, reply.map.term == term_ ? reply.map.term_proof : 0};
  lease_ns_ = reply.lease_ns;
  lease_until_ns_ = sent_ns + lease_ns_ - std::min(options_.lease_margin_ns, lease_ns_ / kMarginPart);
  ResetEvents(reply.first_event);
  SetState(State::kSettling);
  SetMap(reply.map);
}

Task<void> MetaSession::Settle(bool lost) {
  const bool first = !std::exchange(opened_before_, true);
  if (!first && handlers_.on_reclaimed) co_await handlers_.on_reclaimed(lost);
  if (state_ == State::kSettling) SetState(State::kReady);
}

Task<Result<void>> MetaSession::Replay() {
  std::vector<OpLog::Undurable> ops = ops_.TakeAll();
  Backoff backoff(&rng_);
  const uint64_t term = term_;
  Error failed;
  for (size_t i = 0; i < ops.size();) {
    Result<CommitSeq> r = co_await ops[i].resend({ops[i].order(), i + 1 < ops.size() ? ops[i + 1].order() : 0});
    if (state_ == State::kFenced) {
      for (; i < ops.size(); ++i) lost_changes_.Lose(ops[i].changed);
      co_return FencedError();
    }
    if (r.ok()) {
      ops[i].seq = *r;
      ops[i].lost = false;
      ops_.Keep(std::move(ops[i++]));
      continue;
    }
    if (!IsRetryable(r.code())) {
      lost_changes_.Lose(ops[i++].changed);  // the change before it is gone; the server's answer stands
      continue;
    }
    if (state_ != State::kSettling || term != term_) {
      for (; i < ops.size(); ++i) {
        ops[i].lost = true;
        ops_.Keep(std::move(ops[i]));
      }
      co_return r.error();
    }
    co_await Sleep(backoff.NextNs());
  }
  co_return Ok();
}

Task<Result<void>> MetaSession::EndCalls() {
  const Executor& ex = Executor::Current();
  // One may wait for another client's lease; not all others are to wait for that.
  const int64_t until_ns = ex.NowNs() + kEndCallsNs;
  const uint64_t term = term_;
  recovering_ = true;
  changed_.Pulse();
  while (ops_.unanswered() > 0 && ex.NowNs() < until_ns && state_ == State::kSettling && term == term_) {
    co_await Sleep(kEndCallsPollNs);
  }
  recovering_ = false;
  if (state_ == State::kFenced) co_return FencedError();
  if (state_ != State::kSettling || term != term_) co_return Error(FsError::kUnavailable, "the server restarted");
  co_return Ok();
}

Task<Result<void>> MetaSession::EndReplay() {
  const Try t = BeginTry();
  InodeRequest request;
  request.header = Header(Caller{}, OpSeq());
  request.header.term = t.term;
  request.header.timeout_ns = options_.try_timeout_ns;
  std::optional<Result<Empty>> reply =
      co_await WithTimeout(options_.try_timeout_ns + kTrySlackNs, t.service->Sync(std::move(request)));
  if (state_ == State::kFenced) co_return FencedError();
  if (reply && reply->ok()) co_return Ok();
  const Error error = reply ? reply->error() : Error(FsError::kDeadline, "no answer in time");
  Retry(error, t);
  co_return error;
}

// ---- Lease ----------------------------------------------------------------------------------------------

void MetaSession::KnownDurable(CommitSeq seq) {
  if (seq <= durable_seq_) return;
  durable_seq_ = seq;
  ops_.Durable(seq);
  durable_grew_.Pulse();
}

Task<Error> MetaSession::RenewOnce() {
  const Try t = BeginTry();
  const uint64_t generation = generation_;
  const uint64_t term = term_;
  RenewRequest request;
  request.header = Header(Caller{}, OpSeq());
  request.header.timeout_ns =
      std::min(options_.try_timeout_ns, std::max(lease_ns_ / kRenewParts, kMillisecond));
  request.seen_seq = reads_.Seen();
  if (handlers_.unreachable) request.unreachable = handlers_.unreachable();
  if (handlers_.io) request.io = handlers_.io();
  const int64_t timeout_ns = request.header.timeout_ns;
  const int64_t sent_ns = Executor::Current().NowNs();
  std::optional<Result<RenewReply>> reply =
      co_await WithTimeout(timeout_ns, t.service->Renew(std::move(request)));
  if (generation != generation_ || !Live() || term != term_) co_return Error();  // old news
  if (!reply || !reply->ok()) {
    const Error e = reply ? reply->error() : Error(FsError::kDeadline, "no answer to a renewal");
    Retry(e, t);
    co_return e;
  }
  const RenewReply& r = **reply;
  if (Error former = CheckTerm(r.term); !former.ok()) {
    Retry(former, t);
    co_return former;
  }
  peers_.Answered(t.address, r.term);
  if (r.term != term_) {
    SawTerm(r.term);
    co_return Error();
  }
  lease_ns_ = r.lease_ns;
  const int64_t until = sent_ns + lease_ns_ - std::min(options_.lease_margin_ns, lease_ns_ / kMarginPart);
  lease_until_ns_ = std::max(lease_until_ns_, until);
  reads_.Advance(r.current_seq);
  KnownDurable(r.durable_seq);
  if (r.map_version != map_->version) {
    map_stale_ = true;
    map_wanted_.Pulse();
  }
  co_return Error();
}

Task<void> MetaSession::KeepRenewed() {
  Backoff backoff(&rng_);
  while (true) {
    if (!Live()) {
      co_await changed_.Wait();
      continue;
    }
    const Error e = co_await RenewOnce();
    if (!e.ok()) {
      co_await Sleep(std::min(backoff.NextNs(), std::max(lease_ns_ / kRenewParts, kMillisecond)));
      continue;
    }
    backoff = Backoff(&rng_);
    co_await WithTimeout(lease_ns_ / kRenewParts, Until(renew_now_));
  }
}

// Renewals tell which changes are durable: ask for one early, and wait only if there is no room at all.
Task<Result<void>> MetaSession::MakeRoom(int64_t deadline_ns) {
  renew_now_.Pulse();
  const uint64_t generation = generation_;
  while (ops_.Full()) {
    const int64_t left_ns = deadline_ns - Executor::Current().NowNs();
    if (left_ns <= 0) co_return Error(FsError::kTimedOut, "the metadata server makes nothing durable");
    co_await WithTimeout(std::min(left_ns, kBackoffMinNs), Until(durable_grew_));
    if (generation != generation_) co_return FencedError();
    renew_now_.Pulse();
  }
  if (state_ != State::kReady) co_return co_await WaitOpen(generation, deadline_ns, false);
  co_return Ok();
}

}  // namespace stria
