#include "meta/membership.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/os_random.h"
#include "common/purpose_mac.h"
#include "common/sentence.h"
#include "meta/data_dir.h"
#include "meta/replica/founding.h"
#include "meta/replica/register_client.h"
#include "meta/replica/register_text.h"
#include "meta/replica/replica_store.h"

namespace stria {
namespace {

constexpr int64_t kAgainNs = 2 * kSecond;

bool MayAnswerLater(FsError code) { return code == FsError::kUnavailable || code == FsError::kDeadline; }

std::vector<PurposeMac> OtherMacs(const Membership& m) {
  std::vector<PurposeMac> out;
  for (const ClusterKey& key : m.other_keys) out.emplace_back(key, kRegisterPurpose);
  return out;
}

std::vector<const PurposeMac*> PointersTo(const std::vector<PurposeMac>& macs) {
  std::vector<const PurposeMac*> out;
  for (const PurposeMac& mac : macs) out.push_back(&mac);
  return out;
}

Error OthersAreThere(const Register& now) {
  return Error(FsError::kExist, "the coordinator has metadata servers of this cluster already, with " + now.primary + " as the primary: join those instead (--join), "
                                "with an empty directory; if all of them are lost and this store is what is left, start it once with --ha-init --adopt "
                                "(docs/operations.md)");
}

// All that the register names are lost, a person says (--adopt), and this store, restored from a backup, was none of them. Also when it
// was stopped in the middle of that: its log has begun then, above what the register knows.
bool TakesTheirPlace(const Membership& m, const ReplicaStore& store, const Register& now) {
  if (!m.adopt) return false;
  return !IsOneOfSeveral(m.super) || (HasJustBegun(store) && store.incarnation() > now.incarnation);
}

Task<Result<void>> TryToFound(const Membership& m, ReplicaStore* store, RegisterClient* client) {
  CO_ASSIGN_OR_RETURN(const std::optional<Register> now, co_await client->Read());
  const auto self = now ? now->members.find(m.ha.member) : decltype(now->members.end())();
  const bool others = now && (self == now->members.end() || self->second.uuid != m.super.own);
  if (others && !TakesTheirPlace(m, *store, *now)) co_return OthersAreThere(*now);
  // The flag has stayed in its start: it is one of them, and what its store has of the log now is for its life as a member.
  if (now && !others && IsOneOfSeveral(m.super) && (now->members.size() > 1 || store->marker())) co_return Ok();
  FoundingStore founding;
  CO_RETURN_IF_ERROR(LookAtStore(store->kv(), &founding));
  if (!IsOneOfSeveral(m.super) && store->begun() && founding.last != store->last().seq) {
    co_return Error(FsError::kConflict, "the store in " + m.data + " was changed without its log: it cannot be one of several metadata servers");
  }
  // There was a register. Who was in the set nobody knows: acknowledged operations may be in another member's store only.
  if (!now && !m.adopt && IsOneOfSeveral(m.super) && store->begun() && !HasJustBegun(*store)) {
    co_return Error(FsError::kConflict,
                    "the coordinator has lost what it had of the metadata servers. The store in " + m.data + " is of term " + std::to_string(store->last().term) +
                        ", batch " + std::to_string(store->last().seq.v) + ": stop all of them, and if no other one's is of a later term, or of the same with a later "
                        "batch, start this one once with --ha-init --adopt (docs/operations.md)");
  }
  // Before there is a log: what is served alone from now on would not be in it.
  CO_RETURN_IF_ERROR(NoteOneOfSeveral(m.data, true));
  founding.name = m.ha.member;
  founding.member = {m.super.own, m.ha.address, m.release, 0};
  founding.chain = OsRandom64();
  if (now) founding.incarnation = others ? now->incarnation + 1 : now->incarnation;
  founding.others_are_lost = others;
  CO_ASSIGN_OR_RETURN(const Register founded, co_await FoundMembers(store, client, founding, NewUuid()));
  LogInfo("{} is one of several metadata servers now, {} of them; the primary is {}, term {}", m.ha.member, founded.members.size(), founded.primary, founded.term);
  co_return Ok();
}

}  // namespace

Task<Result<void>> BecomeFirst(Membership m, std::shared_ptr<KvStore> kv) {
  const PurposeMac mac(m.key, kRegisterPurpose);
  const std::vector<PurposeMac> others = OtherMacs(m);
  RegisterClient client(m.coordinator, &mac, PointersTo(others));
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<ReplicaStore> store, ReplicaStore::Open(std::move(kv)));
  std::string said;
  while (true) {
    const Result<void> done = co_await TryToFound(m, store.get(), &client);
    if (done.ok() || !MayAnswerLater(done.code())) co_return done;
    if (std::exchange(said, done.error().message) != done.error().message) {
      LogWarning("the coordinator does not answer, and is asked again: {}", SentenceOf(done.error()));
    }
    co_await Sleep(kAgainNs);
  }
}

Task<Result<void>> BecomeAlone(Membership m, std::shared_ptr<KvStore> kv) {
  const PurposeMac mac(m.key, kRegisterPurpose);
  const std::vector<PurposeMac> others = OtherMacs(m);
  RegisterClient client(m.coordinator, &mac, PointersTo(others));
  const Result<void> left = co_await LeaveMembers(std::move(kv), &client, m.ha.member, m.super.own);
  if (!left.ok()) co_return left.error().WithContext(m.data);
  CO_RETURN_IF_ERROR(NoteOneOfSeveral(m.data, false));
  LogInfo("the store in {} is served alone from now on: take [ha] out of the settings", m.data);
  co_return Ok();
}

}  // namespace stria
