#include "meta/replica/register_client.h"

#include <algorithm>

#include "meta/replica/register_text.h"

namespace stria {
namespace {
constexpr size_t kTexts = 16;  // more than are ever undecided at a time
}  // namespace

Result<std::optional<Register>> RegisterClient::Take(const CoordinatorValue& value) {
  if (!value) return std::optional<Register>();
  Result<Register> decoded = DecodeRegister(*value, *mac_);
  bool by_other = false;
  for (size_t i = 0; i < others_.size() && decoded.code() == FsError::kBadToken; ++i) {
    Result<Register> other = DecodeRegister(*value, *others_[i]);
    by_other = other.code() != FsError::kBadToken;
    if (by_other) decoded = std::move(other);
  }
  if (!decoded.ok()) return decoded.error();
  by_other_ = by_other;
  Register r = std::move(decoded).value();
  const auto known = [&](const auto& text) { return text.first == r.nonce; };
  if (std::none_of(texts_.begin(), texts_.end(), known)) {
    texts_.emplace_back(r.nonce, *value);
    if (texts_.size() > kTexts) texts_.pop_front();
  }
  return std::optional<Register>(std::move(r));
}

Task<Result<std::optional<Register>>> RegisterClient::Read() {
  CO_ASSIGN_OR_RETURN(const CoordinatorValue value, co_await coordinator_->Read());
  co_return Take(value);
}

Task<Result<Register>> RegisterClient::SwapText(CoordinatorValue old, std::string value) {
  CO_ASSIGN_OR_RETURN(const CoordinatorValue there, co_await coordinator_->Swap(std::move(old), std::move(value)));
  CO_ASSIGN_OR_RETURN(std::optional<Register> r, Take(there));
  if (!r) co_return Error(FsError::kNoEnt, "the coordinator has lost what it had of the metadata servers; docs/operations.md says how to give it back");
  co_return std::move(*r);
}

Task<Result<Register>> RegisterClient::Swap(RegisterSwap swap) {
  const auto known = std::find_if(texts_.begin(), texts_.end(), [&](const auto& text) { return text.first == swap.old.nonce; });
  std::string old = known != texts_.end() ? known->second : EncodeRegister(swap.old, *mac_);
  return SwapText(std::move(old), EncodeRegister(swap.value, *mac_));
}

Task<Result<Register>> RegisterClient::Create(Register first) { return SwapText(std::nullopt, EncodeRegister(first, *mac_)); }

}  // namespace stria
