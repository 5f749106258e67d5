// The register at the coordinator, decoded. Remembers the exact bytes of what it has read: a swap compares bytes, and a member of
// another release may write the same register in other ones.
// Executor's thread. A call may be cancelled (api/coordinator.h says what that leaves open).
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "api/coordinator.h"
#include "common/exec/task.h"
#include "common/purpose_mac.h"
#include "meta/replica/register.h"

namespace stria {

class RegisterClient {
 public:
  // Both outlive it.
  RegisterClient(Coordinator* coordinator, const PurposeMac* mac) : coordinator_(coordinator), mac_(mac) {}

  // Nullopt: nobody has founded it. Errors: those of Coordinator and of DecodeRegister.
  Task<Result<std::optional<Register>>> Read();
  // What is there afterwards. Any error: it is not known whether the swap was or will be carried out.
  Task<Result<Register>> Swap(RegisterSwap swap);
  // T1, where there is none. What is there afterwards, which may be somebody else's.
  Task<Result<Register>> Create(Register first);

 private:
  Result<std::optional<Register>> Take(const CoordinatorValue& value);
  Task<Result<Register>> SwapText(CoordinatorValue old, std::string value);

  Coordinator* const coordinator_;
  const PurposeMac* const mac_;
  std::deque<std::pair<Uuid, std::string>> texts_;  // by nonce, the last few
};

}  // namespace stria
