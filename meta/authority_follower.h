// A metadata server that another one serves in place of, as one of those that are the cluster's authority: what it says of its files of
// that, and how it makes them as the primary's are. The files: meta/trust_dir.h, meta/enrolment/authority_files.h.
//
//   Ask -> what is here: the keys that are durable, those that are believed, by which it proves itself -> FollowAuthority of the primary
//   Take <- what is to be here: the authority, and the one of a change
//
// Nothing that may be the only copy of a key is dropped: neither the authority for an earlier one, nor the one of a change unless the
// primary has another. It holds no secret between two calls.
//
// Executor's thread. What blocks is done by the pool.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/trust_api.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "meta/enrolment/authority_files.h"
#include "trust/credentials.h"

namespace stria {

class AuthorityFollower {
 public:
  // `own`: what it proves itself with now. The pool outlives it; whoever waits is on an executor that outlives the pool's work.
  AuthorityFollower(Pool* pool, std::string directory, std::function<std::shared_ptr<const Credentials>()> own)
      : pool_(pool), directory_(std::move(directory)), own_(std::move(own)), files_(pool, directory_) {}

  // Header, member and store are the caller's. An error is of a file.
  Task<Result<FollowAuthorityRequest>> Ask();
  // For the request that Ask gave last. True: the files have changed, durably. kBadRequest: what came is not taken, with the reason.
  Task<Result<bool>> Take(FollowAuthorityReply reply);
  // The primary does not know the call: it is of a former release, and those renewed at once.
  void PrimaryIsOld() { keep_ = false; }
  // It is to go on with a certificate of the former authority. At first, and as the primary said last.
  bool keeps_former() const { return keep_; }
  // Those that the primary believes (PEM); "": not heard.
  const std::string& bundle() const { return bundle_; }

 private:
  Pool* const pool_;
  const std::string directory_;
  const std::function<std::shared_ptr<const Credentials>()> own_;
  AuthorityFiles files_;
  bool wants_ = false;  // the primary does, to be offered the one of a change
  bool keep_ = true;
  std::string bundle_;
};

}  // namespace stria
