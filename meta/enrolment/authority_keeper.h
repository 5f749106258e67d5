// Where the files of the cluster's authority are: the room that decides about it waits for them through this.
#pragma once

#include <memory>

#include "common/error.h"
#include "common/exec/task.h"
#include "trust/authority.h"

namespace stria {

class AuthorityKeeper {
 public:
  virtual ~AuthorityKeeper() = default;
  // What they are given is durable when they return. An error says which file, and why; the files are then as before, or as asked for.
  virtual Task<Result<void>> StoreNext(std::shared_ptr<const Authority> next) = 0;       // beside the present one
  virtual Task<Result<void>> StoreOnly(std::shared_ptr<const Authority> authority) = 0;  // in place of what there is
  virtual Task<Result<void>> StoreRevoked(Revoked revoked) = 0;                          // all of them
};

}  // namespace stria
