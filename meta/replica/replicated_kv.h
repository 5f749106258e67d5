// The KvStore under a metadata store that may be replicated. Solo, which is what it is without a primary, it is the local store
// and nothing else: the same bytes, no log, nothing waited for. Under a primary each batch gets a place in the log, goes to the
// other members, and is durable (Sync) when all of the set have made it so.
//
// Thread-safety as KvStore's; with a primary, Write and Sync are for its executor's thread, as MetaStore calls them.
#pragma once

#include <memory>
#include <utility>

#include "common/kv/forwarding_kv.h"
#include "meta/replica/replica_primary.h"

namespace stria {

class ReplicatedKv final : public ForwardingKv {
 public:
  // Solo.
  explicit ReplicatedKv(std::shared_ptr<KvStore> local) : ForwardingKv(std::move(local)) {}
  // `primary` outlives this; `local` is its store's.
  ReplicatedKv(std::shared_ptr<KvStore> local, ReplicaPrimary* primary) : ForwardingKv(std::move(local)), primary_(primary) {}

  // Besides the local store's errors: kNotLeader, and then nothing was written.
  Result<void> Write(const KvBatch& batch) override {
    return primary_ == nullptr ? below().Write(batch) : primary_->Write(batch);
  }
  // Besides the local store's errors: kNotLeader, and then what was written may be lost.
  Task<Result<void>> Sync() override { return primary_ == nullptr ? below().Sync() : primary_->Sync(); }

 private:
  ReplicaPrimary* const primary_ = nullptr;
};

}  // namespace stria
