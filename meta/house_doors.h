// Between what listens and who serves: calls go to the house that is open behind these doors, and are answered with a reason
// while none is. What listens lives as long as the program; a house (meta_house.h) may be torn down and another be built.
//
// Owns: the calls that are inside. Shutting ends them where they stand, without a step of anything else in between: for the house
// that is as if the process had ended. Their callers are told why, and do not know whether they were carried out.
//
// Executor's thread. Errors: those of the house; the reason while it is shut.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "common/exec/task.h"
#include "proto/transport.h"

namespace stria {

// All outlive the time that the doors are open.
struct HouseInside {
  Dispatcher* meta = nullptr;
  Dispatcher* admin = nullptr;
  Dispatcher* trust = nullptr;
};

class HouseDoors {
 public:
  // `may_shut`: else calls go straight through, and the doors stay open from Open on.
  explicit HouseDoors(bool may_shut);
  HouseDoors(const HouseDoors&) = delete;
  HouseDoors& operator=(const HouseDoors&) = delete;

  // The services, for a Router that these outlive.
  void AddTo(Router* router);
  // REQUIRES: they are shut.
  void Open(HouseInside inside);
  // Calls from now on, and those that are inside, are answered with `why`. REQUIRES: may_shut; not called from a call inside.
  void Shut(Error why);
  bool is_open() const { return inside_.meta != nullptr; }
  size_t inside() const { return calls_.size(); }  // 0 unless it may shut

 private:
  class Door final : public Dispatcher {
   public:
    Door(HouseDoors* doors, Dispatcher* HouseInside::*to) : doors_(doors), to_(to) {}
    Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override;

   private:
    HouseDoors* const doors_;
    Dispatcher* HouseInside::*const to_;
  };
  // Lies in the frame of its caller: who is gone leaves nothing inside.
  struct Call {
    explicit Call(std::set<Call*>* all) : among(all) { among->insert(this); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { among->erase(this); }
    std::set<Call*>* const among;
    OneShot<Result<WireMessage>> answer;
    TaskScope work;  // last: it tells `answer`
  };

  const bool may_shut_;
  HouseInside inside_;
  Error why_;
  std::set<Call*> calls_;
  Door meta_{this, &HouseInside::meta};
  Door admin_{this, &HouseInside::admin};
  Door trust_{this, &HouseInside::trust};
};

}  // namespace stria
