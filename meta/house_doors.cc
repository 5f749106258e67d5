#include "meta/house_doors.h"

#include <utility>

#include "common/check.h"
#include "proto/admin_stubs.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"

namespace stria {

HouseDoors::HouseDoors(bool may_shut)
    : may_shut_(may_shut), why_(FsError::kNotReady, "this metadata server has just started, and does not serve yet") {}

void HouseDoors::AddTo(Router* router) {
  router->Add(kMetaServiceName, &meta_);
  router->Add(kAdminServiceName, &admin_);
  router->Add(kTrustServiceName, &trust_);
}

void HouseDoors::Open(HouseInside inside) {
  CHECK(!is_open(), "a house is behind these doors already");
  CHECK(inside.meta != nullptr && inside.admin != nullptr && inside.trust != nullptr, "a house with a service missing");
  inside_ = inside;
}

void HouseDoors::Shut(Error why) {
  CHECK(may_shut_, "these doors stay open");
  CHECK(!why.ok(), "no reason is given");
  inside_ = HouseInside();
  why_ = std::move(why);
  // Callers go on later, when none is inside any more.
  for (Call* call : calls_) call->work.CancelAll();
  for (Call* call : calls_) call->answer.Set(why_);
}

Task<Result<WireMessage>> HouseDoors::Door::Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) {
  Dispatcher* const to = doors_->inside_.*to_;
  if (to == nullptr) co_return doors_->why_;
  if (!doors_->may_shut_) co_return co_await to->Handle(std::move(peer), std::move(method), std::move(request));
  Call call(&doors_->calls_);
  call.work.Spawn(to->Handle(std::move(peer), std::move(method), std::move(request)),
                  [answer = call.answer](Result<WireMessage> r) { answer.Set(std::move(r)); });
  co_return co_await call.answer.Take();
}

}  // namespace stria
