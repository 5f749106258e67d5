#include "peers/meta_locator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stria {
namespace {

constexpr int64_t kSlackNs = 500 * kMillisecond;  // of an answer, after the wait

Task<bool> Until(Event* event) {
  co_await event->Wait();
  co_return true;
}

}  // namespace

MetaLocator::MetaLocator(MemberConnector* connector, MetaPeers* peers, std::function<Uuid()> cluster, const MetaLocatorOptions& options)
    : connector_(connector), peers_(peers), cluster_(std::move(cluster)), options_(options), rng_(options.seed) {}

MetaLocator::~MetaLocator() {
  scope_.CancelAll();
  following_.clear();
}

void MetaLocator::Start() {
  scope_.Spawn(Look());
  scope_.Spawn(Keep());
}

void MetaLocator::Hurry() {
  hurried_ = true;
  hurry_.Pulse();
}

// Looks before it waits: it starts later than it was made.
Task<bool> MetaLocator::Hurried() {
  while (!hurried_) co_await hurry_.Wait();
  co_return true;
}

void MetaLocator::Take(const LocateReply& said) {
  if (peers_->Heard(said)) moved_();
}

Task<Result<LocateReply>> MetaLocator::Ask(std::string address, int64_t wait_ns) {
  const auto alone = alone_.find(address);
  if (alone != alone_.end() && Executor::Current().NowNs() < alone->second.until_ns && peers_->proved() == alone->second.term) {
    co_return Error(FsError::kVersion, "it is alone");
  }
  const std::shared_ptr<MemberService> member = connector_->ConnectMember(address);
  LocateRequest request;
  request.header.cluster = cluster_();
  request.header.timeout_ns = wait_ns + options_.ask_ns;
  request.known_term = peers_->known();
  request.wait_ns = wait_ns;
  std::optional<Result<LocateReply>> reply = co_await WithTimeout(wait_ns + options_.ask_ns + kSlackNs, member->Locate(std::move(request)));
  Result<LocateReply> r = reply ? std::move(*reply) : Result<LocateReply>(Error(FsError::kDeadline, "no answer in time"));
  if (r.code() == FsError::kVersion || r.code() == FsError::kNoSys) {
    alone_[address] = {Executor::Current().NowNs() + options_.alone_ns, peers_->proved()};
  } else {
    alone_.erase(address);
  }
  if (r.ok()) Take(*r);
  co_return r;
}

Task<void> MetaLocator::AskAll() {
  ++rounds_;
  std::vector<Task<Result<LocateReply>>> asked;
  for (const std::string& a : peers_->asked()) asked.push_back(Ask(a, 0));
  // Each answer counts when it comes (Take): nobody waits for a PC that is off.
  co_await WhenAll(std::move(asked));
}

// At the start, now and then, and when calls find nobody.
Task<void> MetaLocator::Look() {
  while (true) {
    hurried_ = false;
    {
      // A round that hangs at one of them does not keep the next from being asked for.
      TaskScope round;
      bool done = false;
      Event over;
      round.Spawn([](MetaLocator* self, bool* flag, Event* event) -> Task<void> {
        co_await self->AskAll();
        *flag = true;
        event->Set();
      }(this, &done, &over));
      co_await Sleep(options_.hurry_ns);
      if (!done && !hurried_) co_await FirstOf(Until(&over), Hurried());
    }
    const int64_t rest_ns = peers_->addresses().size() > 1 ? options_.look_ns : options_.look_for_others_ns;
    if (!hurried_) co_await WithTimeout(rest_ns, Hurried());
  }
}

// One task for each address that calls do not go to.
Task<void> MetaLocator::Keep() {
  while (true) {
    std::vector<std::string> others = peers_->addresses();
    std::erase(others, peers_->current());
    std::erase_if(following_, [&](const auto& f) { return std::find(others.begin(), others.end(), f.first) == others.end(); });
    std::erase_if(alone_, [asked = peers_->asked()](const auto& a) { return std::find(asked.begin(), asked.end(), a.first) == asked.end(); });
    for (const std::string& a : others) {
      std::unique_ptr<TaskScope>& task = following_[a];
      if (task) continue;
      task = std::make_unique<TaskScope>();
      task->Spawn(Follow(a));
    }
    co_await peers_->changed().Wait();
  }
}

Task<void> MetaLocator::Follow(std::string address) {
  while (true) {
    const int64_t began_ns = Executor::Current().NowNs();
    const Result<LocateReply> said = co_await Ask(address, options_.wait_ns);
    // What is answered at once, again and again, is held back.
    if (said.ok() && Executor::Current().NowNs() - began_ns >= options_.again_ns) continue;
    const int64_t most_ns = said.code() == FsError::kVersion || said.code() == FsError::kNoSys ? options_.alone_ns : options_.again_ns;
    co_await Sleep(most_ns / 2 + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(most_ns / 2 + 1))));
  }
}

}  // namespace stria
