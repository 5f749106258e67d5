// The metadata server as what MetaNode serves clients with (meta/replica/serving_house.h): a MetaServer for each life as primary, on
// the replicated store and in the term of the register, behind one dispatcher that stays.
//
// What else a server needs and who else holds it is the program's: it says so when a server is made, when it serves, and before it
// goes. A server that goes is not stopped in an orderly way: its store is the next primary's, and what was not committed is nobody's.
//
// For the executor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/exec/task.h"
#include "common/token.h"
#include "meta/exports/confined_front.h"
#include "meta/gated_dispatcher.h"
#include "meta/replica/serving_house.h"
#include "meta/service/meta_server.h"
#include "proto/admin_stubs.h"
#include "proto/stubs.h"
#include "proto/transport.h"
#include "proto/trust_stubs.h"

namespace stria {

struct MetaHouseEnv {
  std::function<MetaServerOptions()> options;  // as the settings are now; the life is filled in
  std::vector<ClusterKey> keys;
  std::function<DispatchOptions()> admission;
  Confinement::Denied denied;
  std::function<std::string()> where;          // MetaNode::WhereSentence
  std::function<void(MetaServer*)> made;       // before its Start: gives it rooms, backups, trust
  std::function<void(MetaServer*)> serves;     // after its Start
  std::function<void()> goes;                  // whoever holds the server lets go of it; also if it never served
};

class MetaHouse final : public ServingHouse {
 public:
  explicit MetaHouse(MetaHouseEnv env);
  ~MetaHouse() override;

  // For Meta, Admin and Trust: of every life, and while there is none.
  Dispatcher* dispatcher() { return &gated_; }
  MetaServer* server() { return served_ ? served_->server.get() : nullptr; }  // null: it does not serve, or not yet
  void SetSlow(int64_t slow_ns);
  // Of the life of now: for metrics. Empty: there is none.
  std::vector<const MethodStatsSource*> Stats() const;

  // ---- ServingHouse
  Task<Result<void>> Open(HouseOpening opening) override;
  Task<Error> WaitFatal() override { return served_->server->WaitFatal(); }
  Task<void> Close(std::string where) override;
  int64_t TokenTimeNs() const override;

 private:
  // Those below are made of those above.
  struct Served {
    std::unique_ptr<MetaServer> server;
    std::unique_ptr<ConfinedFront> confined;
    std::unique_ptr<MetaDispatcher> meta;
    std::unique_ptr<AdminDispatcher> admin;
    std::unique_ptr<TrustDispatcher> trust;
    Router router;
  };
  void Let();

  const MetaHouseEnv env_;
  GatedDispatcher gated_;
  std::unique_ptr<Served> opening_;  // it has not started yet
  std::unique_ptr<Served> served_;
};

}  // namespace stria
