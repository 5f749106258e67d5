#include "meta/meta_house.h"

#include <utility>

#include "meta/plain_changes.h"

namespace stria {

MetaHouse::MetaHouse(MetaHouseEnv env) : env_(std::move(env)), gated_(env_.away) {}

MetaHouse::~MetaHouse() {
  gated_.Abandon();
  Let();
}

void MetaHouse::Let() {
  gated_.Close();
  if (!served_ && !opening_) return;
  env_.goes();
  router_.reset();
  served_.reset();
  opening_.reset();
}

Task<Result<void>> MetaHouse::Open(HouseOpening opening) {
  ReplicaPrimary* const primary = opening.primary;
  ServedMetaParams params = env_.params();
  params.server.life.term = opening.life.term;
  params.server.life.token_time_ns = opening.token_time_ns;
  params.server.life.overtaken = std::move(opening.saw_term);
  opening_ = std::make_unique<ServedMeta>(std::move(params), std::move(opening.store));
  CO_RETURN_IF_ERROR(co_await opening_->Start());
  served_ = std::move(opening_);
  router_ = std::make_unique<Router>();
  served_->AddTo(router_.get());
  env_.serves(served_.get());
  gated_.Open(router_.get(), std::move(opening.gate), std::make_unique<ShippedChanges>(primary, env_.plain_received));
  co_return Ok();
}

Task<void> MetaHouse::Close(std::string) {
  Let();
  co_return;
}

int64_t MetaHouse::TokenTimeNs() const {
  const ServedMeta* const s = served_ ? served_.get() : opening_.get();
  return s != nullptr ? s->server()->token_time_ns() : 0;
}

}  // namespace stria
