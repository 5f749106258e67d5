#include "meta/meta_house.h"

#include <utility>

#include "common/os_random.h"

namespace stria {

MetaHouse::MetaHouse(MetaHouseEnv env) : env_(std::move(env)), gated_(env_.where) {}

MetaHouse::~MetaHouse() {
  gated_.Abandon();
  Let();
}

void MetaHouse::Let() {
  gated_.Close();
  if (!served_ && !opening_) return;
  env_.goes();
  served_.reset();
  opening_.reset();
}

Task<Result<void>> MetaHouse::Open(HouseOpening opening) {
  MetaServerOptions options = env_.options();
  options.life.term = opening.life.term;
  options.life.token_time_ns = opening.token_time_ns;
  options.life.overtaken = std::move(opening.saw_term);
  opening_ = std::make_unique<Served>();
  Served& s = *opening_;
  s.server = std::make_unique<MetaServer>(std::move(options), std::move(opening.store), Random(OsRandom64()), env_.keys);
  MetaServer* const server = s.server.get();
  env_.made(server);
  CO_RETURN_IF_ERROR(co_await server->Start());
  s.confined = std::make_unique<ConfinedFront>(server, server, server->confined(), [server] { return server->store(); }, env_.denied);
  s.meta = std::make_unique<MetaDispatcher>(s.confined->meta(), env_.admission());
  s.admin = std::make_unique<AdminDispatcher>(s.confined->admin(), env_.admission());
  s.trust = std::make_unique<TrustDispatcher>(server->trust().service(), env_.admission());
  s.router.Add(kMetaServiceName, s.meta.get());
  s.router.Add(kAdminServiceName, s.admin.get());
  s.router.Add(kTrustServiceName, s.trust.get());
  served_ = std::move(opening_);
  gated_.Open(&served_->router, std::move(opening.gate));
  env_.serves(server);
  co_return Ok();
}

Task<void> MetaHouse::Close(std::string) {
  Let();
  co_return;
}

int64_t MetaHouse::TokenTimeNs() const {
  const Served* const s = served_ ? served_.get() : opening_.get();
  return s != nullptr ? s->server->token_time_ns() : 0;
}

void MetaHouse::SetSlow(int64_t slow_ns) {
  if (!served_) return;
  served_->meta->SetSlow(slow_ns);
  served_->admin->SetSlow(slow_ns);
  served_->trust->SetSlow(slow_ns);
}

std::vector<const MethodStatsSource*> MetaHouse::Stats() const {
  if (!served_) return {};
  return {served_->meta.get(), served_->admin.get(), served_->trust.get()};
}

}  // namespace stria
