// What this member answers to the others, in the role that it has now. The role's objects come and go; this stays, as long as the
// process serves (proto/replica_stubs.h).
//
// For the executor's thread.
#pragma once

#include <string>
#include <utility>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "meta/replica/follower.h"
#include "meta/replica/replica_primary.h"
#include "meta/replica/replica_source.h"

namespace stria {

class ReplicaRoles final : public ReplicaService {
 public:
  // One of the two, or none: then everything is kNotReady. An Append that waits for a disk is answered before its follower
  // goes: by whoever destroys the follower, who first destroys the tasks of this service or waits until answering() is 0.
  void BeFollower(Follower* follower) {
    follower_ = follower;
    primary_ = nullptr;
    source_ = nullptr;
  }
  void BePrimary(ReplicaPrimary* primary, ReplicaSource* source) {
    follower_ = nullptr;
    primary_ = primary;
    source_ = source;
  }
  void BeNothing() { BeFollower(nullptr); }
  // Appends that are meant for another member are refused: an address that leads to the wrong one would have it acknowledge twice.
  void SetSelf(std::string member) { self_ = std::move(member); }
  size_t answering() const { return answering_; }

  Task<Result<AppendReply>> Append(AppendRequest request) override {
    if (!self_.empty() && !request.to.empty() && request.to != self_) {
      co_return Error(FsError::kStale, "this is the metadata server " + self_ + ", not " + request.to + ": the address of " +
                                           request.to + " is wrong");
    }
    if (primary_ != nullptr) co_return primary_->AnswerAppend(request);
    if (follower_ == nullptr) co_return NotReady();
    const Count count(&answering_);
    co_return co_await follower_->Append(std::move(request));
  }
  Task<Result<ReplicaJoinReply>> Join(ReplicaJoinRequest request) override {
    if (source_ == nullptr) co_return NotPrimary();
    co_return source_->Join(request);
  }
  Task<Result<FetchKeysReply>> FetchKeys(FetchKeysRequest request) override {
    if (source_ == nullptr) co_return NotPrimary();
    co_return source_->FetchKeys(request);
  }
  Task<Result<FetchPageReply>> FetchPage(FetchPageRequest request) override {
    if (source_ == nullptr) co_return NotPrimary();
    co_return source_->FetchPage(request);
  }

 private:
  class Count {
   public:
    explicit Count(size_t* n) : n_(n) { ++*n_; }
    ~Count() { --*n_; }
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;

   private:
    size_t* n_;
  };
  static Error NotReady() { return Error(FsError::kNotReady, "this metadata server has no role yet"); }
  static Error NotPrimary() { return Error(FsError::kNotLeader, "this metadata server is not the primary"); }

  std::string self_;
  Follower* follower_ = nullptr;
  ReplicaPrimary* primary_ = nullptr;
  ReplicaSource* source_ = nullptr;
  size_t answering_ = 0;
};

}  // namespace stria
