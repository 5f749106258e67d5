#include "meta/replica/replica_primary.h"

#include <algorithm>
#include <utility>

namespace stria {

ReplicaPrimary::ReplicaPrimary(ReplicaStore* store, PrimaryHost* host, ReplicaPrimaryOptions options)
    : store_(store), host_(host), options_(std::move(options)), opened_at_(store->last().seq), rule_(options_.self) {
  CHECK(store_->whole() && store_->last().term < options_.term, "a primary whose store is not whole, or of its own term");
}

// ---- Members --------------------------------------------------------------------------------------

AppendRequest ReplicaPrimary::Header() const {
  AppendRequest r;
  r.header.cluster = options_.cluster;
  r.header.incarnation = store_->incarnation();
  r.term = options_.term;
  r.primary = options_.self;
  r.version = host_->RegisterVersion();
  r.token_time_ns = host_->TokenTimeNs();
  r.commit = rule_.committed();
  return r;
}

ShipperEnv ReplicaPrimary::EnvOf(const std::string& member) {
  ShipperEnv env;
  env.store = store_;
  env.term = options_.term;
  env.header = [this, member] {
    AppendRequest request = Header();
    request.to = member;
    return request;
  };
  env.durable = [this, member](CommitSeq seq) {
    rule_.Durable(member, seq);
    Advanced();
  };
  env.went_back = [this, member] { rule_.Forget(member); };
  env.heard = [this, member](int64_t sent_ns) {
    host_->Heard(member, sent_ns);
    Advanced();
  };
  env.ask_drop = [this, member](const std::string& why) {
    if (rule_.required(member) || rule_.in_sync(member)) host_->AskDrop(member, why);
  };
  env.near = [this, member] {
    if (!rule_.required(member)) host_->CaughtUp(member);
  };
  env.deposed = [this](uint64_t term) { Depose(term); };
  return env;
}

void ReplicaPrimary::Connect(const std::string& member, std::shared_ptr<ReplicaService> peer) {
  CHECK(member != options_.self, "a primary ships nothing to itself");
  Disconnect(member);
  if (deposed()) return;
  Member& m = members_[member];
  m.shipper = std::make_unique<Shipper>(EnvOf(member), std::move(peer), options_.shipper);
  m.scope = std::make_unique<TaskScope>();
  m.scope->Spawn(m.shipper->Run());
}

void ReplicaPrimary::Disconnect(const std::string& member) {
  members_.erase(member);
  rule_.Forget(member);
}

void ReplicaPrimary::Require(MemberSet in_sync, MemberSet required, size_t min_in_sync) {
  rule_.Require(std::move(in_sync), std::move(required), min_in_sync);
  DropReceived();
  Advanced();
}

const Shipper* ReplicaPrimary::shipper(const std::string& member) const {
  const auto it = members_.find(member);
  return it == members_.end() ? nullptr : it->second.shipper.get();
}

void ReplicaPrimary::Probe(const std::string& member) {
  if (const auto it = members_.find(member); it != members_.end()) it->second.shipper->Probe();
}

// ---- The store ------------------------------------------------------------------------------------

Result<void> ReplicaPrimary::Write(const KvBatch& batch) {
  if (deposed()) return ended_;
  ASSIGN_OR_RETURN(const LogRow row, store_->Add(options_.term, Executor::Current().WallNs(), batch));
  bytes_ += row.encoded.size();
  DropReceived();
  unreceived_.push_back({row.point.seq, Executor::Current().NowNs(), bytes_});
  for (auto& [name, m] : members_) m.shipper->Written();
  if (tap_) tap_(row.point.seq, row.encoded);
  return Ok();
}

Task<Result<void>> ReplicaPrimary::Sync() {
  if (deposed()) co_return ended_;
  const CommitSeq want = store_->last().seq;
  // The others' disks work at the same time as this one.
  for (auto& [name, m] : members_) m.shipper->Want(want);
  CO_ASSIGN_OR_RETURN(const LogPoint mine, co_await store_->Sync());
  rule_.Durable(options_.self, mine.seq);
  Advanced();
  while (committed() < want) {
    if (deposed()) co_return ended_;
    co_await progress_.Wait();
  }
  co_return Ok();
}

CommitSeq ReplicaPrimary::ReceivedByAll() const {
  CommitSeq least = store_->last().seq;
  for (const std::string& member : rule_.required()) {
    if (member == options_.self) continue;
    const Shipper* s = shipper(member);
    least = std::min(least, s == nullptr ? CommitSeq() : s->received());
  }
  return least;
}

void ReplicaPrimary::DropReceived() {
  const CommitSeq received = ReceivedByAll();
  while (!unreceived_.empty() && unreceived_.front().seq <= received) {
    bytes_received_ = unreceived_.front().bytes;
    unreceived_.pop_front();
  }
}

int64_t ReplicaPrimary::unreceived_ns() const {
  const CommitSeq received = ReceivedByAll();
  for (const Unreceived& u : unreceived_) {
    if (u.seq > received) return Executor::Current().NowNs() - u.written_ns;
  }
  return 0;
}

uint64_t ReplicaPrimary::unreceived_bytes() const {
  const CommitSeq received = ReceivedByAll();
  uint64_t there = bytes_received_;
  for (const Unreceived& u : unreceived_) {
    if (u.seq > received) break;
    there = u.bytes;
  }
  return bytes_ - there;
}

// ---- Its end --------------------------------------------------------------------------------------

void ReplicaPrimary::Depose(uint64_t term) {
  if (deposed()) return;
  ended_ = Error(FsError::kNotLeader, "this metadata server is primary no more: there is a term " + std::to_string(term));
  Advanced();
  host_->Deposed(term);
}

Result<AppendReply> ReplicaPrimary::AnswerAppend(const AppendRequest& request) {
  if (request.term > options_.term) {
    Depose(request.term);
    return Error(FsError::kNotReady, "this metadata server was primary and is not ready to follow");
  }
  if (request.term == options_.term) {
    return Error(FsError::kBadRequest, "two metadata servers believe to be the primary of term " + std::to_string(options_.term));
  }
  AppendReply r;
  r.result = AppendResult::kOldTerm;
  r.term = options_.term;
  r.last = store_->last();
  return r;
}

}  // namespace stria
