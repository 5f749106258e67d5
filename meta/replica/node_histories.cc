// What happens to the members of NodeWorld by its seed, and what must hold in the end.
#include <algorithm>

#include "meta/replica/node_world.h"
#include "meta/replica/register_text.h"
#include "meta/replica/world_faults.h"

namespace stria {
namespace {

constexpr int64_t kActiveNs = 8 * kSecond;
constexpr int64_t kHealNs = 60 * kSecond;

}  // namespace

// At most one member may answer, and stores are what they should be.
Task<void> NodeWorld::Watch() {
  while (true) {
    co_await Sleep(5 * kMillisecond);
    std::string answers;
    for (const auto& m : members_) {
      if (!m->serves()) continue;
      if (m->node->life()->gate()->MayLeave().ok()) {
        if (!answers.empty()) Fail(answers + " and " + m->name + " may answer at a time");
        answers = m->name;
      }
    }
    Member& m = *members_[rng_.Below(members_.size())];
    if (m.up && rng_.OneIn(40)) CheckWhole(m);
  }
}

Task<void> NodeWorld::Faults() {
  while (true) {
    co_await Sleep(static_cast<int64_t>(rng_.Below(1200 * kMillisecond)));
    Member& m = *members_[rng_.Below(members_.size())];
    Member& other = *members_[rng_.Below(members_.size())];
    const uint64_t which = rng_.Below(kMemberFaults + 9);
    if (!FailMember(this, &rng_, which, m, [&other]() -> Member& { return other; })) FailAround(which - kMemberFaults, m, other);
    StartSomeMembers(this, &rng_);
  }
}

void NodeWorld::FailAround(uint64_t which, Member& m, Member& other) {
  switch (which) {
    case 0:
      coordinator_.CutTo(m.name, true);
      if (rng_.OneIn(2)) coordinator_.CutFrom(other.name, true);
      break;
    case 1:
      coordinator_.SetUp(false);
      break;
    case 2:
      if (!m.up) break;
      ++counts_.stops;
      Stop(m, static_cast<int64_t>(rng_.Below(2500 * kMillisecond)));
      break;
    case 3:
      if (Member* p = Primary(); p != nullptr) {
        ++counts_.offers;
        p->answering->Spawn([](MetaNode* node) -> Task<void> { (void)co_await node->HandOver(""); }(p->node.get()));
      }
      break;
    case 4:
      LoseADisk();
      break;
    case 5:
      if (!m.up) break;
      ++counts_.hangs;
      Hang(m, static_cast<int64_t>(rng_.Below(5 * kSecond)));
      break;
    default:  // mends all cuts
      cut_.clear();
      coordinator_.SetUp(true);
      for (const auto& each : members_) {
        coordinator_.CutTo(each->name, false);
        coordinator_.CutFrom(each->name, false);
      }
      break;
  }
}

// Not the primary's, nor while another member is not in the set: then one disk may have all that there is. Nor where a swap of what was
// there may be carried out later.
void NodeWorld::LoseADisk() {
  Member* const primary = Primary();
  if (late_ || primary == nullptr || !AllIn()) return;
  Member* m = members_[rng_.Below(members_.size())].get();
  if (m == primary || !m->up || m->node->role() != MetaRole::kStandby) return;
  Crash(*m, true);
  Wipe(*m);
  Start(*m);
  ++counts_.wipes;
  scope_.Spawn(Replace(m));
}

// By people: the former one is no member any more, and the new one is.
Task<void> NodeWorld::Replace(Member* m) {
  while (true) {
    co_await Sleep(200 * kMillisecond);
    const auto listed = in_force().members.find(m->name);
    if (listed != in_force().members.end() && listed->second.uuid == m->uuid) co_return;
    Member* const primary = Primary();
    if (primary == nullptr || !primary->up) continue;
    ChangeMembersRequest change;
    change.change = listed == in_force().members.end() ? MemberChange::kAdd : MemberChange::kRemove;
    change.name = m->name;
    change.uuid = m->uuid;
    change.address = AddressOf(m->name);
    change.release = "1";
    primary->answering->Spawn([](MemberDesk* desk, ChangeMembersRequest r) -> Task<void> {
      (void)co_await desk->ChangeMembers(std::move(r));
    }(primary->desk.get(), std::move(change)));
  }
}

void NodeWorld::Heal() {
  quiet_ = true;
  cut_.clear();
  const bool slow = settings_.max_sync_ns > 10 * kMillisecond;  // such disks are replaced
  settings_ = Settings();
  coordinator_.SetUp(true);
  coordinator_.SetOptions({});
  for (const auto& m : members_) {
    coordinator_.CutTo(m->name, false);
    coordinator_.CutFrom(m->name, false);
    m->stopped_until_ns = m->hangs_until_ns = 0;
    if (slow || rng_.OneIn(2)) Crash(*m, false);
    Start(*m);
  }
}

bool NodeWorld::Settled() {
  if (!problem_.empty()) return true;
  if (!AllIn()) return false;
  const LogPoint last = Primary()->node->store().last();
  return std::all_of(members_.begin(), members_.end(), [&](const auto& m) {
    const ReplicaStore& store = m->node->store();
    return store.whole() && store.last() == last;
  });
}

std::string NodeWorld::Run() {
  settings_.loss_percent = rng_.OneIn(2) ? 0 : rng_.Below(5);
  settings_.double_percent = rng_.Below(3);
  settings_.straggle_ns = rng_.OneIn(2) ? 0 : 1200 * kMillisecond;
  settings_.max_sync_ns = rng_.OneIn(3) ? 300 * kMillisecond : 3 * kMillisecond;
  FakeCoordinatorOptions faulty;
  faulty.lost_percent = settings_.loss_percent;
  faulty.doubled_percent = 2;
  faulty.late_percent = rng_.OneIn(2) ? 20 : 0;
  faulty.late_ns = 2 * kSecond;
  late_ = faulty.late_percent > 0;
  faulty.refused_percent = rng_.OneIn(3) ? 5 : 0;
  faulty.deadline_ns = 500 * kMillisecond;
  coordinator_.SetOptions(faulty);
  uint64_t in_sync = 1;
  coordinator_.OnChange([this, &in_sync](const CoordinatorValue&, const std::string& now) {
    const uint64_t n = DecodeRegister(now, mac_).value().in_sync.size();
    counts_.joins += n > in_sync;
    in_sync = n;
  });
  StartAll();
  scope_.Spawn(Watch());
  {
    TaskScope faults;
    faults.Spawn(Faults());
    ex_.RunUntil([&] { return !problem_.empty(); }, ex_.NowNs() + kActiveNs);
  }
  if (problem_.empty()) {
    Heal();
    const uint64_t acked = counts_.acked;
    if (!ex_.RunUntil([&] { return !problem_.empty() || (counts_.acked > acked + 5 && AllIn()); }, ex_.NowNs() + kHealNs)) {
      Fail(counts_.acked > acked + 5 ? "not all are in the set although all is healed" : "nothing is acknowledged although all is healed");
    }
  }
  if (problem_.empty()) {
    writing_ = false;
    if (!ex_.RunUntil([&] { return Settled(); }, ex_.NowNs() + kHealNs)) Fail("the stores do not become the same");
  }
  coordinator_.OnChange(nullptr);
  if (!problem_.empty()) {
    for (const auto& m : members_) {
      problem_ += "; " + m->name + " ";
      if (!m->up) {
        problem_ += "down";
        continue;
      }
      const MemberState state = m->node->OwnState();
      problem_ += std::string(MemberRoleName(state.role)) + " of term " + std::to_string(state.term) + " at " +
                  std::to_string(state.last.v) + " " + state.problem;
    }
    return problem_ + "; the register: " + EncodeRegister(in_force(), mac_);
  }
  const Content want = ContentAt(Primary()->node->store().last());
  for (const auto& m : members_) {
    MemKv kv(m->media);
    if (ContentOf(kv) != want) Fail("the store of " + m->name + " differs in the end");
  }
  const std::set<uint64_t> path = PathTo(Primary()->node->store().last());
  for (const auto& [seq, point] : acked_) {
    if (!path.contains(point.chain)) Fail("batch " + std::to_string(seq.v) + " was acknowledged and is gone");
  }
  return problem_;
}

}  // namespace stria
