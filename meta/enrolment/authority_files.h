// The files of the cluster's authority, in the trust directory of the metadata server.
//
//   authority.pem       0600  key and certificate of the authority
//   authority-next.pem  0600  while it is changed for another: that other one, which signs
//   revoked             0644  as trust/credentials.h has it
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/exec/pool.h"
#include "meta/enrolment/authority_keeper.h"
#include "trust/place.h"

namespace stria {

// Blocks. Null: there is none. What ReadSecretFile says, kBadRequest with the file.
Result<std::shared_ptr<const Authority>> LoadNextAuthority(const std::string& directory);

class AuthorityFiles final : public AuthorityKeeper {
 public:
  // The pool outlives it; whoever waits is on an executor that outlives the pool's work.
  AuthorityFiles(Pool* pool, std::string directory) : pool_(pool), directory_(std::move(directory)) {}
  Task<Result<void>> StoreNext(std::shared_ptr<const Authority> next) override;
  Task<Result<void>> StoreOnly(std::shared_ptr<const Authority> authority) override;
  Task<Result<void>> StoreRevoked(Revoked revoked) override;

 private:
  Pool* const pool_;
  const std::string directory_;
};

}  // namespace stria
