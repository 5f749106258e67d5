// The metadata server as what MetaNode serves clients with (meta/replica/serving_house.h): a ServedMeta for each life as primary, on
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

#include "common/exec/task.h"
#include "meta/gated_dispatcher.h"
#include "meta/replica/serving_house.h"
#include "meta/served_meta.h"
#include "proto/transport.h"

namespace stria {

struct MetaHouseEnv {
  bool plain_received = false;                // HaConfig's
  std::function<ServedMetaParams()> params;   // as things are now; the life is filled in
  std::function<Error()> away;                // MetaNode::WhyAway
  std::function<void(ServedMeta*)> serves;    // after its Start, before it answers anybody
  std::function<void()> goes;                 // whoever holds the server lets go of it; also if it never served
};

class MetaHouse final : public ServingHouse {
 public:
  explicit MetaHouse(MetaHouseEnv env);
  ~MetaHouse() override;

  // For Meta, Admin and Trust: of every life, and while there is none.
  Dispatcher* dispatcher() { return &gated_; }
  ServedMeta* served() { return served_.get(); }  // null: it does not serve, or not yet
  MetaServer* server() { return served_ ? served_->server() : nullptr; }

  // ---- ServingHouse
  Task<Result<void>> Open(HouseOpening opening) override;
  Task<Error> WaitFatal() override { return served_->WaitFatal(); }
  Task<void> Close(std::string where) override;
  int64_t TokenTimeNs() const override;

 private:
  void Let();

  const MetaHouseEnv env_;
  GatedDispatcher gated_;
  std::unique_ptr<ServedMeta> opening_;  // it has not started yet
  std::unique_ptr<ServedMeta> served_;
  std::unique_ptr<Router> router_;  // of served_
};

}  // namespace stria
