// The register at the coordinator, decoded. Remembers the exact bytes of what it has read: a swap compares bytes, and a member of
// another release may write the same register in other ones.
// Executor's thread. A call may be cancelled (api/coordinator.h says what that leaves open).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/coordinator.h"
#include "common/exec/task.h"
#include "common/purpose_mac.h"
#include "meta/replica/register.h"

namespace stria {

class RegisterClient {
 public:
  // All outlive it. `mac` seals; values that are sealed by one of `others` (of the cluster's other keys) are read as well.
  RegisterClient(Coordinator* coordinator, const PurposeMac* mac, std::vector<const PurposeMac*> others = {})
      : coordinator_(coordinator), mac_(mac), others_(std::move(others)) {}

  // Nullopt: nobody has founded it. Errors: those of Coordinator and of DecodeRegister.
  Task<Result<std::optional<Register>>> Read();
  // What is there afterwards. Any error: it is not known whether the swap was or will be carried out.
  Task<Result<Register>> Swap(RegisterSwap swap);
  // T1, where there is none. What is there afterwards, which may be somebody else's.
  Task<Result<Register>> Create(Register first);
  // The value that was seen last is sealed by another key than `mac`: who has only the new key could not read it.
  bool IsToBeSealedAnew() const { return by_other_; }

 private:
  Result<std::optional<Register>> Take(const CoordinatorValue& value);
  Task<Result<Register>> SwapText(CoordinatorValue old, std::string value);

  Coordinator* const coordinator_;
  const PurposeMac* const mac_;
  const std::vector<const PurposeMac*> others_;
  bool by_other_ = false;
  std::deque<std::pair<Uuid, std::string>> texts_;  // by nonce, the last few
};

}  // namespace stria
