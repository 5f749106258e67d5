// The KvStore under a metadata store that may be replicated. Solo, which is what it is without a primary, it is the local store
// and nothing else: the same bytes, no log, nothing waited for. Under a primary each batch gets a place in the log, goes to the
// other members, and is durable (Sync) when all of the set have made it so.
//
// Thread-safety as KvStore's; with a primary, Write and Sync are for its executor's thread, as MetaStore calls them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kv/kv.h"
#include "meta/replica/replica_primary.h"

namespace stria {

class ReplicatedKv final : public KvStore {
 public:
  // Solo.
  explicit ReplicatedKv(std::shared_ptr<KvStore> local) : local_(std::move(local)) {}
  // `primary` outlives this; `local` is its store's.
  ReplicatedKv(std::shared_ptr<KvStore> local, ReplicaPrimary* primary) : local_(std::move(local)), primary_(primary) {}

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override { return local_->Get(family, key); }
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override {
    return local_->GetIfCached(family, key);
  }
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end, size_t limit) override {
    return local_->Scan(family, begin, end, limit);
  }
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override {
    return local_->Last(family, begin, at);
  }
  // Besides the local store's errors: kNotLeader, and then nothing was written.
  Result<void> Write(const KvBatch& batch) override {
    return primary_ == nullptr ? local_->Write(batch) : primary_->Write(batch);
  }
  // Besides the local store's errors: kNotLeader, and then what was written may be lost.
  Task<Result<void>> Sync() override { return primary_ == nullptr ? local_->Sync() : primary_->Sync(); }
  std::unique_ptr<KvStore> Snapshot() override { return local_->Snapshot(); }
  std::string Damage() const override { return local_->Damage(); }

 private:
  const std::shared_ptr<KvStore> local_;
  ReplicaPrimary* const primary_ = nullptr;
};

}  // namespace stria
