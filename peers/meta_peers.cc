#include "peers/meta_peers.h"

#include <algorithm>

#include "common/check.h"

namespace stria {
namespace {

constexpr size_t kMaxFailedHints = 64;

std::vector<std::string> EachOnce(std::vector<std::string> all) {
  std::vector<std::string> out;
  for (std::string& a : all) {
    if (!a.empty() && std::find(out.begin(), out.end(), a) == out.end()) out.push_back(std::move(a));
  }
  return out;
}

}  // namespace

MetaPeers::MetaPeers(std::vector<std::string> given) : given_(EachOnce(std::move(given))), all_(given_) {
  CHECK(!given_.empty(), "no address of a metadata server");
  current_ = given_.front();
}

std::vector<std::string> MetaPeers::asked() const {
  std::vector<std::string> asked = all_;
  asked.insert(asked.end(), former_.begin(), former_.end());
  return asked;
}

uint64_t MetaPeers::known() const { return hint_ ? std::max(proved_, hint_->term) : proved_; }

void MetaPeers::GoTo(const std::string& address) {
  if (address == current_) return;
  current_ = address;
  changed_.Pulse();
}

void MetaPeers::Answered(const std::string& address, uint64_t term) {
  if (term < proved_) return;
  if (term > proved_) failed_.clear();
  proved_ = term;
  proved_at_ = address;
}

void MetaPeers::NoteFailed(const Hint& hint) {
  if (failed_.size() >= kMaxFailedHints) failed_.clear();
  failed_[hint] = Executor::Current().NowNs();
}

// While somebody serves that counts: else one member's mistake would send calls to and fro. While nobody does, it may be that the place was only
// hard to reach.
bool MetaPeers::LedNowhere(const Hint& hint) const {
  const auto failed = failed_.find(hint);
  if (failed == failed_.end()) return false;
  return current_ == proved_at_ || Executor::Current().NowNs() < failed->second + kTryHintAgainNs;
}

void MetaPeers::Failed(const std::string& address) {
  if (address != current_) return;
  // Others may go on to name it for a while.
  if (hint_ && hint_->address == address) NoteFailed(*hint_);
  if (proved_at_ == address) NoteFailed({proved_, address});
  hint_.reset();
  const auto at = std::find(all_.begin(), all_.end(), address);
  const size_t next = at == all_.end() ? 0 : static_cast<size_t>(at - all_.begin() + 1) % all_.size();
  GoTo(std::string(all_[next]));
}

bool MetaPeers::TakeMembers(const std::vector<MemberAddress>& members) {
  std::vector<std::string> all = given_;
  for (size_t i = 0; i < std::min(members.size(), kMaxListedMembers); ++i) all.push_back(members[i].address);
  all = EachOnce(std::move(all));
  if (all == all_) return false;
  std::vector<std::string> former = std::move(all_);
  former.insert(former.end(), former_.begin(), former_.end());
  former = EachOnce(std::move(former));
  std::erase_if(former, [&](const std::string& a) { return std::find(all.begin(), all.end(), a) != all.end(); });
  if (former.size() > kMaxFormer) former.resize(kMaxFormer);
  former_ = std::move(former);
  all_ = std::move(all);
  return true;
}

bool MetaPeers::Heard(const LocateReply& said) {
  if (said.term == 0 || said.term < known()) return false;  // it knows less
  const Hint hint{said.term, said.address};
  // Who has answered in that term is its primary, by whichever of its names.
  const bool is_there = said.term == proved_ && current_ == proved_at_;
  const bool follow = !said.address.empty() && !is_there && !LedNowhere(hint);
  const bool moves = follow && said.address != current_;
  bool others = !said.members.empty() && TakeMembers(said.members);
  if (follow && std::find(all_.begin(), all_.end(), said.address) == all_.end()) {
    all_.push_back(said.address);
    std::erase(former_, said.address);
    others = true;
  }
  if (others && told_) told_(asked());
  if (follow) {
    hint_ = hint;
    GoTo(said.address);
  }
  if (others && !moves) changed_.Pulse();
  return moves;
}

Task<bool> LeftFor(MetaPeers* peers, std::string address) {
  while (peers->current() == address) co_await peers->changed().Wait();
  co_return true;
}

}  // namespace stria
