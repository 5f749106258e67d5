#include "meta/member_view.h"

#include <algorithm>
#include <utility>

namespace stria {
namespace {

constexpr int64_t kAskNs = 3 * kSecond;
constexpr int64_t kFreshNs = 15 * kSecond;

}  // namespace

Task<void> MemberView::Keep() {
  while (true) {
    MemberStatusRequest request;
    request.header.cluster = node_->options().cluster;
    Result<MemberStatusReply> said = co_await desk_->MemberStatus(std::move(request));
    if (said.ok()) {
      said_ = std::move(*said);
      said_ns_ = Executor::Current().NowNs();
      asked_ = true;
    }
    co_await Sleep(kAskNs);
  }
}

const MemberState* MemberView::Said(const std::string& member) const {
  if (!asked_ || Executor::Current().NowNs() - said_ns_ > kFreshNs) return nullptr;
  const auto it = std::ranges::find(said_.members, member, &MemberState::name);
  return it == said_.members.end() ? nullptr : &*it;
}

MemberState MemberView::StateOf(const std::string& member) const {
  const MemberState* const said = Said(member);
  MemberState state = member == node_->options().self ? node_->OwnState() : node_->StateOf(member);
  if (said == nullptr) return state;
  // How far each is the primary knows best; another one has it of who answered.
  if (!node_->serving()) state.lag = said->lag;
  if (member == node_->options().self) return state;
  state.role = said->role;
  state.term = said->term;
  state.last = said->last;
  state.durable = std::max(state.durable, said->durable);
  state.coordinator = said->coordinator;
  state.coordinator_problem = said->coordinator_problem;
  if (state.problem.empty() && !state.in_sync) state.problem = said->problem;
  return state;
}

MemberStatusReply MemberView::Now() const {
  MemberStatusReply reply;
  const MetaNode::Place place = node_->FindPrimary();
  reply.self = node_->options().self;
  reply.term = place.term;
  reply.primary = place.primary;
  bool listed = false;
  if (const auto& known = node_->known()) {
    reply.version = known->version;
    reply.incarnation = known->incarnation;
    reply.min_in_sync = known->min_in_sync;
    for (const auto& [name, member] : known->members) {
      reply.members.push_back(StateOf(name));
      listed = listed || name == reply.self;
    }
  }
  if (!listed) reply.members.push_back(StateOf(reply.self));
  std::ranges::sort(reply.members, {}, &MemberState::name);
  return reply;
}

}  // namespace stria
