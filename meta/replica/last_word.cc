#include "meta/replica/last_word.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace stria {
namespace {

constexpr int64_t kLastWordTryNs = 200 * kMillisecond;
constexpr int64_t kLastWordLookNs = 20 * kMillisecond;

Task<void> TellLastWord(std::shared_ptr<ReplicaService> other, AppendRequest over) {
  while (true) {
    const std::optional<Result<AppendReply>> told = co_await WithTimeout(kLastWordTryNs, other->Append(over));
    if (told && told->ok()) co_return;
    co_await Sleep(kLastWordLookNs);
  }
}

}  // namespace

std::string WhoGoesOn(const Register& known, const std::string& self, const CommitRule& rule, CommitSeq last) {
  std::string best;
  CommitSeq has;
  for (const std::string& name : known.in_sync) {
    if (name == self) continue;
    const CommitSeq durable = std::min(rule.durable(name), last);
    if (best.empty() || durable > has) best = name, has = durable;
  }
  if (best.empty()) return "no other one is in sync: nobody serves until it is back";
  if (has == last) return best + " has everything, and can take over";
  return best + " has everything that was acknowledged as durable, and can take over; of what came after that it lacks up to " + std::to_string(last.v - has.v) + " changes";
}

Task<void> SayOver(ReplicaConnector* replicas, Uuid cluster, MetaLife life, std::map<std::string, MetaMember> members) {
  TaskScope calls;
  for (const auto& [name, member] : members) {
    if (name == life.member) continue;
    AppendRequest over;
    over.header.cluster = cluster;
    over.header.timeout_ns = kLastWordNs;
    over.term = life.term;
    over.primary = life.member;
    over.to = name;
    over.over = true;
    calls.Spawn(TellLastWord(replicas->ConnectReplica(member.address), std::move(over)));
  }
  const int64_t until = Executor::Current().NowNs() + kLastWordNs;
  while (calls.running() > 0 && Executor::Current().NowNs() < until) co_await Sleep(kLastWordLookNs);
  calls.CancelAll();
}

}  // namespace stria
