#include "meta/replica/member_desk.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace stria {
namespace {

constexpr int64_t kMaxLocateNs = 60 * kSecond;
constexpr int64_t kStatusNs = 1 * kSecond;    // that another member's own answer is waited for
constexpr int64_t kHandOnNs = 15 * kSecond;   // that the primary's is

Task<bool> Changed(MetaNode* node) {
  co_await node->WaitChange();
  co_return true;
}

MetaMember MemberOf(const ChangeMembersRequest& r) { return {r.uuid, r.address, r.release, r.features}; }

// As the command line has it.
std::string VerbOf(const ChangeMembersRequest& r) {
  switch (r.change) {
    case MemberChange::kPromote: return "meta promote";
    case MemberChange::kPromoteLosing: return "meta promote --lose";
    case MemberChange::kAdd: return "meta join";
    case MemberChange::kRemove: return "meta remove";
    case MemberChange::kUpdate: return "meta update";
    case MemberChange::kMinInSync: return "meta min-in-sync";
  }
  return "meta change " + std::to_string(static_cast<int>(r.change));
}

std::string ArgumentsOf(const ChangeMembersRequest& r) {
  std::string out = r.change == MemberChange::kMinInSync ? std::to_string(r.min_in_sync) : r.name;
  if (!r.address.empty()) out += " --address " + r.address;
  if (!r.name_again.empty()) out += " " + r.name_again;
  return out;
}

}  // namespace

// Callers that have no store yet do not know the cluster.
Result<void> MemberDesk::CheckCluster(const DataHeader& header) const {
  if (!header.cluster || header.cluster == node_->options().cluster) return Ok();
  return Error(FsError::kWrongCluster, "this is a metadata server of another cluster");
}

LocateReply MemberDesk::Located() const {
  LocateReply reply;
  const MetaNode::Place place = node_->FindPrimary();
  reply.term = place.term;
  reply.primary = place.primary;
  reply.address = place.address;
  if (node_->known()) {
    for (const auto& [name, member] : node_->known()->members) reply.members.push_back({name, member.address});
  }
  return reply;
}

Task<Result<LocateReply>> MemberDesk::Locate(LocateRequest request) {
  CO_RETURN_IF_ERROR(CheckCluster(request.header));
  const int64_t until = Executor::Current().NowNs() + std::clamp<int64_t>(request.wait_ns, 0, kMaxLocateNs);
  while (true) {
    LocateReply reply = Located();
    const int64_t left = until - Executor::Current().NowNs();
    if ((reply.term > request.known_term && !reply.address.empty()) || left <= 0) co_return reply;
    (void)co_await WithTimeout(left, Changed(node_));
  }
}

Task<Result<AskReply>> MemberDesk::Ask(AskRequest request) {
  CO_RETURN_IF_ERROR(CheckCluster(request.header));
  co_return node_->AnswerAsk();
}

// ---- Status ---------------------------------------------------------------------------------------

// As it says itself, with what only the primary knows.
Task<MemberState> MemberDesk::StateOf(std::string member, std::string address) {
  MemberStatusRequest request;
  request.header.cluster = node_->options().cluster;
  request.header.timeout_ns = kStatusNs;
  request.alone = true;
  const std::shared_ptr<MemberService> other = members_->ConnectMember(address);
  const std::optional<Result<MemberStatusReply>> reply = co_await WithTimeout(kStatusNs, other->MemberStatus(std::move(request)));
  MemberState state = node_->StateOf(member);
  if (!reply || !reply->ok()) co_return state;
  for (const MemberState& own : reply->value().members) {
    if (own.name != member) continue;
    state.role = own.role;
    state.term = own.term;
    state.last = own.last;
    state.durable = std::max(state.durable, own.durable);
    state.coordinator = own.coordinator;
    state.coordinator_problem = own.coordinator_problem;
    if (!own.problem.empty()) state.problem = own.problem;
  }
  co_return state;
}

Task<Result<MemberStatusReply>> MemberDesk::MemberStatus(MemberStatusRequest request) {
  CO_RETURN_IF_ERROR(CheckCluster(request.header));
  MemberStatusReply reply;
  std::vector<Task<MemberState>> others;
  if (!request.alone && node_->known()) {
    for (const auto& [name, member] : node_->known()->members) {
      if (name != node_->options().self) others.push_back(StateOf(name, member.address));
    }
  }
  if (!others.empty()) reply.members = co_await WhenAll(std::move(others));
  reply.members.push_back(node_->OwnState());
  std::sort(reply.members.begin(), reply.members.end(), [](const MemberState& a, const MemberState& b) { return a.name < b.name; });
  const MetaNode::Place place = node_->FindPrimary();
  reply.self = node_->options().self;
  reply.term = place.term;
  reply.primary = place.primary;
  if (node_->known()) {
    reply.version = node_->known()->version;
    reply.incarnation = node_->known()->incarnation;
    reply.min_in_sync = node_->known()->min_in_sync;
  }
  // Where another member is the primary, only that one knows how far each is: its row says what it has.
  const auto primary = std::find_if(reply.members.begin(), reply.members.end(),
                                    [&](const MemberState& m) { return m.name == reply.primary; });
  if (primary != reply.members.end() && !node_->serving()) {
    for (MemberState& m : reply.members) {
      if (m.name != reply.primary && m.last < primary->last) m.lag = primary->last.v - m.last.v;
    }
  }
  co_return reply;
}

// ---- Changes --------------------------------------------------------------------------------------

Task<Result<ChangeMembersReply>> MemberDesk::HandOn(ChangeMembersRequest request) {
  const MetaNode::Place place = node_->FindPrimary();
  if (request.handed_on || place.address.empty() || place.primary == node_->options().self) {
    co_return Error(FsError::kNotLeader, node_->WhereSentence());
  }
  co_return co_await HandTo(place.primary, place.address, std::move(request));
}

Task<Result<ChangeMembersReply>> MemberDesk::HandTo(std::string member, std::string address, ChangeMembersRequest request) {
  request.handed_on = true;
  request.header = DataHeader();
  request.header.cluster = node_->options().cluster;
  request.header.timeout_ns = kHandOnNs;
  const std::shared_ptr<MemberService> other = members_->ConnectMember(address);
  std::optional<Result<ChangeMembersReply>> reply = co_await WithTimeout(kHandOnNs, other->ChangeMembers(std::move(request)));
  if (!reply) {
    co_return Error(FsError::kRetryLater, member + " has not answered: whether the change was made is not known");
  }
  co_return std::move(*reply);
}

// By the one that is named: its store is changed first.
Task<Result<ChangeMembersReply>> MemberDesk::PromoteLosing(ChangeMembersRequest request) {
  const std::string& self = node_->options().self;
  if (request.name != self) {
    if (request.handed_on || !node_->known()) co_return Error(FsError::kNotReady, "this is " + self + ", and not " + request.name);
    const auto it = node_->known()->members.find(request.name);
    if (it == node_->known()->members.end()) co_return Error(FsError::kNoEnt, request.name + " is no member; 'stria meta status' lists them");
    co_return co_await HandTo(request.name, it->second.address, std::move(request));
  }
  CO_ASSIGN_OR_RETURN(const MemberStatusReply status, co_await MemberStatus({}));
  std::set<std::string> answered;
  for (const MemberState& m : status.members) {
    if (m.name != self && m.role != MemberRole::kUnreachable) answered.insert(m.name);
  }
  CO_ASSIGN_OR_RETURN(const Register after, co_await node_->PromoteLosing(request.name_again, std::move(answered)));
  co_return ChangeMembersReply{after.version, after.term, after.primary};
}

Task<Result<ChangeMembersReply>> MemberDesk::ChangeMembers(ChangeMembersRequest request) {
  // What a metadata server hands on, or asks for itself, is known to who asked it. Who has proved that he is none says so in vain.
  const std::shared_ptr<const Peer> peer = request.header.peer;
  const bool of_member = peer ? peer->role == Role::kMeta : request.handed_on;
  if (audit_ == nullptr || of_member) co_return co_await Change(std::move(request));
  AuditEntry entry = AuditOf(AuditEntry::Kind::kVerb, peer.get(), VerbOf(request), ArgumentsOf(request), "");
  Result<ChangeMembersReply> reply = co_await Change(std::move(request));
  entry.outcome = !reply.ok() ? "failed: " + reply.error().message
                              : "done: version " + std::to_string(reply->version) + " of the members" +
                                    (reply->primary.empty() ? "" : ", " + reply->primary + " is primary");
  audit_->Note(std::move(entry));
  co_return reply;
}

Task<Result<ChangeMembersReply>> MemberDesk::Change(ChangeMembersRequest request) {
  CO_RETURN_IF_ERROR(CheckCluster(request.header));
  if (request.change == MemberChange::kPromoteLosing) co_return co_await PromoteLosing(std::move(request));
  if (!node_->leads()) co_return co_await HandOn(std::move(request));
  const std::string name = request.name;
  const MetaMember member = MemberOf(request);
  const uint32_t least = request.min_in_sync;
  Result<Register> after = Error(FsError::kInval, "no such change");
  switch (request.change) {
    case MemberChange::kPromote: {
      CO_RETURN_IF_ERROR(co_await node_->HandOver(name));
      if (node_->known()) after = *node_->known();
      break;
    }
    case MemberChange::kAdd:
      after = co_await node_->Change(
          [=](const Register& now, const MetaLife& self, const Uuid& nonce) { return AddMember(now, self, name, member, nonce); },
          [=](const Register& r) { return r.members.contains(name) && r.members.at(name).uuid == member.uuid; });
      break;
    case MemberChange::kRemove:
      after = co_await node_->Change(
          [=](const Register& now, const MetaLife& self, const Uuid& nonce) { return RemoveMember(now, self, name, nonce); },
          [=](const Register& r) { return !r.members.contains(name); });
      break;
    case MemberChange::kUpdate:
      after = co_await node_->Change(
          [=](const Register& now, const MetaLife& self, const Uuid& nonce) { return UpdateMember(now, self, name, member, nonce); },
          [=](const Register& r) { return r.members.contains(name) && r.members.at(name) == member; });
      break;
    case MemberChange::kMinInSync:
      after = co_await node_->Change(
          [=](const Register& now, const MetaLife& self, const Uuid& nonce) { return SetMinInSync(now, self, least, nonce); },
          [=](const Register& r) { return r.min_in_sync == least; });
      break;
    case MemberChange::kPromoteLosing:  // above
      break;
  }
  if (!after.ok()) co_return after.error();
  ChangeMembersReply reply;
  reply.version = after->version;
  reply.term = after->term;
  reply.primary = after->primary;
  co_return reply;
}

}  // namespace stria
