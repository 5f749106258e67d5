// What happens to the members of ReplicaModel, and what must hold in the end.
#include <algorithm>

#include "meta/replica/register_text.h"
#include "test/sim/replica/replica_member.h"

namespace stria {
namespace {
constexpr double kTotalS = 60, kHealS = 35;
}  // namespace

Register ReplicaModel::InForce() const { return DecodeRegister(*etcd_.value(), mac_).value(); }

void ReplicaModel::Fault() {
  if (!faults_) return;
  Member* m = members_[ex_.rng().Below(members_.size())].get();
  const double x = Unit(0, 1);
  if (x < 0.2) {
    Crash(m, Chance(0.6));
    At(std::vector<double>{0.05, 0.3, 2, 8}[ex_.rng().Below(4)] * Unit(0, 1), [this, m] { Start(m); });
  } else if (x < 0.3) {
    for (auto& o : members_) {
      Crash(o.get(), true);
      At(3 * Unit(0, 1), [this, p = o.get()] { Start(p); });
    }
  } else if (x < 0.5) {
    if (m->up) m->paused_until_ns = ex_.NowNs() + ModelNs(std::vector<double>{0.5, 2, 4, 10}[ex_.rng().Below(4)] * Unit(0, 1));
  } else if (x < 0.62) {
    etcd_.SetUp(false);
    At(6 * Unit(0, 1), [this] { etcd_.SetUp(true); });
  } else {
    const size_t etcd = members_.size();
    std::vector<std::pair<size_t, size_t>> pairs;
    if (Chance(0.3)) {
      for (size_t e = 0; e <= etcd; ++e) pairs.insert(pairs.end(), {{m->i, e}, {e, m->i}});
    } else {
      const size_t a = ex_.rng().Below(etcd + 1);
      const size_t b = (a + 1 + ex_.rng().Below(etcd)) % (etcd + 1);
      pairs.emplace_back(a, b);
      if (Chance(0.7)) pairs.emplace_back(b, a);
    }
    const auto set = [this, etcd, pairs](bool cut) {
      for (const auto& [from, to] : pairs) {
        if (to == etcd && from != etcd) etcd_.CutTo(members_[from]->name, cut);
        if (from == etcd && to != etcd) etcd_.CutFrom(members_[to]->name, cut);
        cut ? static_cast<void>(cut_.insert({from, to})) : static_cast<void>(cut_.erase({from, to}));
      }
    };
    set(true);
    At(8 * Unit(0, 1), [set] { set(false); });
  }
  At(4 * Unit(0, 1), [this] { Fault(); });
}

void ReplicaModel::Heal() {
  quiet_ = true;
  faults_ = false;
  cut_.clear();
  lost_ = straggle_ = 0;
  etcd_.SetUp(true);
  etcd_.SetOptions({});
  for (auto& m : members_) {
    etcd_.CutTo(m->name, false);
    etcd_.CutFrom(m->name, false);
    m->paused_until_ns = 0;
    Start(m.get());
  }
}

void ReplicaModel::CheckEnd(uint64_t acks_before) {
  Member* primary = nullptr;
  for (auto& m : members_) {
    if (!m->set) continue;
    if (primary != nullptr) return Bad("in the end " + primary->name + " and " + m->name + " serve");
    primary = m.get();
  }
  const Register r = InForce();
  if (primary == nullptr || r.in_sync.size() != members_.size()) {
    std::string roles;
    for (auto& m : members_) roles += " " + m->name + (m->up ? std::string(MetaRoleName(m->election->role())) : "down") + (m->store.marker() ? "(not whole)" : "");
    return Bad("it did not recover: " + EncodeRegister(r, mac_) + roles);
  }
  if (stats_.acks == acks_before) return Bad("nothing is acknowledged in the end");
  for (auto& m : members_) {
    const size_t common = std::min(m->store.log().size(), primary->store.log().size());
    if (!std::equal(m->store.log().begin(), m->store.log().begin() + static_cast<ptrdiff_t>(common), primary->store.log().begin())) {
      return Bad("the logs of " + m->name + " and " + primary->name + " differ in the end");
    }
    if (m->store.Replayed() != m->store.values()) return Bad("the store of " + m->name + " is not what its log says");
  }
}

std::string ReplicaModel::Run() {
  // Founded by a person on the first member.
  RegisterClient founder(members_[0]->coordinator.get(), &mac_);
  Founding f{members_[0]->name, {members_[0]->uuid, "m1:7424", "1", 0}, 0, 1};
  Register first = Found(f, {3, 1}).value();
  for (auto& m : members_) first.members[m->name] = {m->uuid, m->name + ":7424", "1", 0};
  first.min_in_sync = members_.size() == 3 && Chance(0.4) ? 2 : 1;
  bool founded = false;
  scope_.Spawn([](RegisterClient* c, Register r, bool* done) -> Task<void> {
    *done = (co_await c->Create(std::move(r))).ok();
  }(&founder, first, &founded));
  ex_.RunUntil([&] { return founded; }, ex_.NowNs() + kSecond);
  CHECK(founded, "the register cannot be founded");
  FakeCoordinatorOptions faulty;
  faulty.lost_percent = static_cast<uint64_t>(lost_ * 100);
  faulty.doubled_percent = 2;
  faulty.late_percent = Chance(0.4) ? 30 : 0;
  faulty.refused_percent = Chance(0.3) ? 5 : 0;
  etcd_.SetOptions(faulty);
  etcd_.OnChange([this](const CoordinatorValue& old, const std::string& now) {
    const Register a = DecodeRegister(*old, mac_).value(), b = DecodeRegister(now, mac_).value();
    if (a.term == b.term || quiet_ || Chance(0.4)) return;
    for (auto& m : members_) {
      if (m->name == a.primary || m->name == b.primary) Strike(m.get());
    }
  });
  for (auto& m : members_) Start(m.get());
  scope_.Spawn([](ReplicaModel* self) -> Task<void> {
    for (;;) {
      co_await Sleep(ModelNs(self->Unit(0.005, 0.06)));
      for (auto& m : self->members_) self->Client(m.get());
    }
  }(this));
  At(3, [this] { Fault(); });
  const auto bad = [this] { return !bad_.empty(); };
  if (!ex_.RunUntil(bad, ModelNs(kHealS))) {
    Heal();
    const uint64_t acks = stats_.acks;
    if (!ex_.RunUntil(bad, ModelNs(kTotalS))) CheckEnd(acks);
  }
  etcd_.OnChange(nullptr);
  return bad_;
}

}  // namespace stria
