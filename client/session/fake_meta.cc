#include "client/session/fake_meta.h"

#include <utility>

namespace stria {

#define STRIA_FAKE_NOSYS(Name, Req, Rep) \
  Task<Result<Rep>> Name(Req) override { co_return Error(FsError::kNoSys, "fake"); }

class FakeMeta::Service final : public MetaService {
 public:
  Service(FakeMeta* m, std::string address) : m_(m), address_(std::move(address)) {}

  Task<Result<OpenSessionReply>> OpenSession(OpenSessionRequest r) override {
    if (address_ == "former") {
      OpenSessionReply old = Former<OpenSessionReply>();
      old.session = SessionId(4711);
      old.epoch = Epoch(1);
      old.first_event = 1;
      co_return std::move(old);
    }
    CO_RETURN_IF_ERROR(co_await Arrive());
    if (!r.header.session && !m_->refuses_opens.ok()) co_return m_->refuses_opens;
    m_->path = r.path;
    OpenSessionReply reply;
    reply.root = m_->root;
    reply.read_only = m_->read_only;
    reply.map = m_->Map();
    reply.term = m_->term_;
    reply.lease_ns = m_->lease_ns;
    reply.seals = m_->root_seals;
    if (!reply.seals.empty()) reply.root = reply.seals[0].ino;
    if (r.header.session) {
      const bool missed = r.header.epoch.v + 1 == m_->epoch_;  // the answer by which it was taken back
      if (r.header.session == m_->session_ && (m_->lapsed_ || missed)) {
        CHECK(r.comes_back && r.header.trace_id != 0);
        if (m_->lapsed_) m_->epoch_ = r.header.epoch.v + 1;
        m_->lapsed_ = m_->unclaimed_ = false;
        reply.reclaimed = reply.lapsed = true;
        reply.not_taken = m_->not_taken;
        reply.survived = CommitSeq(m_->survived_);
        m_->reclaimed_ = r.held;
      } else if (r.header.session == m_->session_) {
        reply.reclaimed = true;
        m_->unclaimed_ = false;
        m_->reclaimed_ = r.held;
      }
    }
    const bool repeated = !r.header.session && m_->session_ && m_->open_nonce_ == r.header.trace_id;
    if (!reply.reclaimed && !repeated) {
      m_->session_ = SessionId(m_->next_session_++);
      m_->open_nonce_ = r.header.trace_id;
      m_->results_.clear();
      m_->refused_.clear();
      m_->acked_below_ = OpSeq();
      m_->events_.clear();
      m_->unclaimed_ = m_->lapsed_ = false;
      m_->epoch_ = 1;
    }
    reply.epoch = Epoch(m_->epoch_);
    reply.session = m_->session_;
    reply.first_event = m_->events_.empty() ? m_->next_event_ : m_->events_.front().seq;
    m_->acked_ = reply.first_event - 1;
    co_return co_await Answer(std::move(reply));
  }
  Task<Result<RenewReply>> Renew(RenewRequest r) override {
    if (address_ == "former") co_return Former<RenewReply>();
    CO_RETURN_IF_ERROR(co_await Arrive());
    m_->heard_ = {r.header.seen_term, r.header.seen_proof};
    RenewReply reply;
    reply.term = m_->term_;
    if (!m_->unclaimed_) CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    ++m_->renewals_;
    m_->seen_ = r.seen_seq;
    if (m_->auto_sync_) m_->durable_ = m_->seq_;
    reply.lease_ns = m_->lease_ns;
    reply.current_seq = CommitSeq(m_->seq_);
    reply.durable_seq = CommitSeq(m_->durable_);
    reply.map_version = m_->map_.version;
    co_return co_await Answer(std::move(reply));
  }
  Task<Result<Empty>> Sync(InodeRequest r) override {
    CO_RETURN_IF_ERROR(co_await Arrive());
    if (m_->unclaimed_) co_return Error(FsError::kNotReady, "fake");
    CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    m_->Sync();
    co_return co_await Answer(Empty());
  }
  Task<Result<PollReply>> Poll(PollRequest r) override {
    if (address_ == "former") co_return Former<PollReply>();
    ++m_->polls_;
    CO_RETURN_IF_ERROR(co_await Arrive());
    PollReply reply;
    reply.term = m_->term_;
    if (m_->unclaimed_) co_return co_await Answer(std::move(reply));
    CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    CHECK(r.acked_event < m_->next_event_, "an event was acknowledged that never was");
    m_->acked_ = std::max(m_->acked_, r.acked_event);
    while (!m_->events_.empty() && m_->events_.front().seq <= m_->acked_) m_->events_.pop_front();
    if (m_->events_.empty()) co_await WithTimeout(r.header.timeout_ns, Events(m_->term_));
    reply.term = m_->term_;
    for (const SessionEvent& e : m_->events_) reply.events.push_back(e);
    co_return co_await Answer(std::move(reply));
  }
  Task<Result<Empty>> CloseSession(InodeRequest r) override {
    CO_RETURN_IF_ERROR(co_await Arrive());
    CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    m_->session_ = SessionId();
    co_return Empty();
  }
  Task<Result<NodeReply>> Unlink(NameRequest r) override { return Change(r.header, r.name, r.release); }
  Task<Result<NodeReply>> Rename(RenameRequest r) override { return Change(r.header, r.new_name, r.release); }
  Task<Result<Empty>> Release(InodeRequest r) override {
    CO_RETURN_IF_ERROR(co_await Arrive());
    if (m_->unclaimed_) co_return Error(FsError::kNotReady, "fake");
    CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    m_->released_.push_back(r.ino);
    co_return co_await Answer(Empty());
  }
  Task<Result<NodeReply>> Lookup(NameRequest r) override {
    CO_RETURN_IF_ERROR(co_await Arrive());
    if (m_->unclaimed_) co_return Error(FsError::kNotReady, "fake");
    CO_RETURN_IF_ERROR(Void(m_->Check(r.header)));
    m_->got_seals = r.header.seals;
    co_return Error(FsError::kNoEnt, r.name);
  }
  Task<Result<ClusterMap>> GetMap(InodeRequest) override {
    CO_RETURN_IF_ERROR(co_await Arrive());
    co_return co_await Answer(m_->Map());
  }

  STRIA_FAKE_NOSYS(GetAttr, InodeRequest, NodeReply)
  STRIA_FAKE_NOSYS(SetAttr, SetAttrRequest, NodeReply)
  STRIA_FAKE_NOSYS(MakeNode, MakeNodeRequest, OpenReply)
  STRIA_FAKE_NOSYS(Open, OpenRequest, OpenReply)
  STRIA_FAKE_NOSYS(LeaseDone, LeaseDoneRequest, Empty)
  STRIA_FAKE_NOSYS(Rmdir, NameRequest, NodeReply)
  STRIA_FAKE_NOSYS(Link, LinkRequest, NodeReply)
  STRIA_FAKE_NOSYS(ReadLink, InodeRequest, ReadLinkReply)
  STRIA_FAKE_NOSYS(ReadDir, ReadDirRequest, ReadDirReply)
  STRIA_FAKE_NOSYS(GetXattr, XattrRequest, XattrReply)
  STRIA_FAKE_NOSYS(ListXattr, XattrRequest, XattrReply)
  STRIA_FAKE_NOSYS(SetXattr, XattrRequest, XattrReply)
  STRIA_FAKE_NOSYS(RemoveXattr, XattrRequest, XattrReply)
  STRIA_FAKE_NOSYS(StatFs, InodeRequest, StatFsReply)
  STRIA_FAKE_NOSYS(GetLayout, LayoutRequest, LayoutReply)
  STRIA_FAKE_NOSYS(SetLayout, LayoutRequest, LayoutReply)
  STRIA_FAKE_NOSYS(Paths, InodeRequest, PathsReply)
  STRIA_FAKE_NOSYS(GetExtents, GetExtentsRequest, GetExtentsReply)
  STRIA_FAKE_NOSYS(Allocate, AllocateRequest, AllocateReply)
  STRIA_FAKE_NOSYS(Commit, CommitRequest, CommitReply)
  STRIA_FAKE_NOSYS(Clone, CloneRequest, CloneReply)
  STRIA_FAKE_NOSYS(Lock, LockRequest, LockReply)
  STRIA_FAKE_NOSYS(ReportShard, ReportShardRequest, Empty)
  STRIA_FAKE_NOSYS(RegisterNode, RegisterNodeRequest, RegisterNodeReply)
  STRIA_FAKE_NOSYS(Heartbeat, HeartbeatRequest, HeartbeatReply)
  STRIA_FAKE_NOSYS(ReportWork, ReportWorkRequest, Empty)
  STRIA_FAKE_NOSYS(CheckShards, CheckShardsRequest, CheckShardsReply)
  STRIA_FAKE_NOSYS(Status, InodeRequest, StatusReply)
  STRIA_FAKE_NOSYS(Admin, AdminRequest, AdminReply)
  STRIA_FAKE_NOSYS(Fsck, InodeRequest, FsckReply)

 private:
  Task<Result<NodeReply>> Change(OpHeader h, std::string name, InodeId release) {
    CO_RETURN_IF_ERROR(co_await Arrive());
    if (m_->unclaimed_) co_return Error(FsError::kNotReady, "fake");
    CO_RETURN_IF_ERROR(Void(m_->Check(h)));
    if (m_->on_change) CO_RETURN_IF_ERROR(Void(m_->on_change(name)));
    CHECK(h.op_seq.v > 0, "a mutation without op_seq");
    m_->acked_below_ = std::max(m_->acked_below_, h.acked_below);
    std::erase_if(m_->results_, [&](const auto& kv) { return kv.first < m_->acked_below_; });
    m_->released_.push_back(release);
    m_->got_seals = h.seals;
    NodeReply reply;
    for (int times = m_->rng_.Percent(m_->faults.duplicate_percent) ? 2 : 1; times > 0; --times) {
      auto it = m_->results_.find(h.op_seq);
      if (it == m_->results_.end()) {
        if (h.op_seq < m_->acked_below_) co_return Error(FsError::kBadRequest, "forgotten");
        if (h.settle) m_->refused_.insert(h.op_seq);
        if (m_->refused_.contains(h.op_seq)) co_return Error(FsError::kTimedOut, "given up");
        m_->applied_[++m_->seq_] = name;
        it = m_->results_.emplace(h.op_seq, std::make_pair(m_->seq_, name)).first;
      }
      CHECK(it->second.second == name, "an op_seq was used twice");
      reply.seq = CommitSeq(it->second.first);
    }
    if (m_->seals_changes) reply.seals = {{InodeId(reply.seq.v), reply.seq.v + 5}};
    co_return co_await Answer(std::move(reply));
  }
  static Result<void> Void(Error e) { return e.ok() ? Result<void>() : Result<void>(std::move(e)); }
  Task<Result<void>> Arrive() {
    if (m_->dead.contains(address_)) co_await Sleep(365 * 24 * 3600 * kSecond);
    if (address_ == "standby") co_return Error(FsError::kNotLeader, "fake");
    if (address_ != m_->leader || m_->faults.down) co_return Error(FsError::kUnavailable, "fake");
    co_await Sleep(static_cast<int64_t>(m_->rng_.Below(300)) * kMicrosecond);
    if (m_->faults.hung) co_await Sleep(365 * 24 * 3600 * kSecond);
    if (m_->rng_.Percent(m_->faults.lost_request_percent)) co_return Error(FsError::kUnavailable, "fake");
    co_return Ok();
  }
  // By a server of the first life.
  template <class Rep>
  Rep Former() {
    ++m_->former_answers_;
    Rep reply;
    reply.term = 1;
    if constexpr (requires { reply.lease_ns; }) reply.lease_ns = m_->lease_ns;
    return reply;
  }
  Task<bool> Events(uint64_t term) {
    while (m_->events_.empty() && m_->term_ == term && m_->session_ && !m_->lapsed_) co_await m_->wake_.Wait();
    co_return true;
  }
  template <class Rep>
  Task<Result<Rep>> Answer(Rep reply) {
    co_await Sleep(static_cast<int64_t>(m_->rng_.Below(300)) * kMicrosecond);
    if (m_->dead.contains(address_)) co_await Sleep(365 * 24 * 3600 * kSecond);
    if (m_->rng_.Percent(m_->faults.lost_reply_percent)) co_return Error(FsError::kUnavailable, "fake");
    co_return std::move(reply);
  }

  FakeMeta* m_;
  const std::string address_;
};

#undef STRIA_FAKE_NOSYS

std::shared_ptr<MetaService> FakeMeta::Connect(const std::string& address) {
  return std::make_shared<Service>(this, address);
}

ClusterMap FakeMeta::Map() const {
  ClusterMap map = map_;
  map.term = term_;
  map.term_proof = 1000 + term_;
  return map;
}

Error FakeMeta::Check(const OpHeader& h) const {
  if (!session_ || h.session != session_) return Error(FsError::kFenced, "fake");
  if (h.epoch.v < epoch_) return Error(FsError::kRetryLater, "fake");
  return lapsed_ ? Error(FsError::kLapsed, "fake") : Error();
}

void FakeMeta::Restart(bool forget_sessions) {
  ++term_;
  applied_.erase(applied_.upper_bound(durable_), applied_.end());
  std::erase_if(results_, [&](const auto& kv) { return kv.second.first > durable_; });
  seq_ = survived_ = durable_;
  events_.clear();
  unclaimed_ = static_cast<bool>(session_);
  if (forget_sessions) Fence();
  wake_.Pulse();
}

void FakeMeta::Lapse() {
  lapsed_ = static_cast<bool>(session_);
  unclaimed_ = false;
  events_.clear();
  wake_.Pulse();
}

void FakeMeta::Fence() {
  session_ = SessionId();
  unclaimed_ = false;
  events_.clear();
  wake_.Pulse();
}

uint64_t FakeMeta::Push(SessionEvent::Kind kind, InodeId ino) {
  SessionEvent e;
  e.seq = next_event_++;
  e.kind = kind;
  e.ino = ino;
  events_.push_back(e);
  wake_.Pulse();
  return e.seq;
}

std::vector<std::string> FakeMeta::log() const {
  std::vector<std::string> names;
  for (const auto& [seq, name] : applied_) names.push_back(name);
  return names;
}

}  // namespace stria
