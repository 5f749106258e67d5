// A store that is another one, but for what a subclass does differently. Thread-safe as the one below it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/kv/kv.h"

namespace stria {

class ForwardingKv : public KvStore {
 public:
  explicit ForwardingKv(std::shared_ptr<KvStore> below) : below_(std::move(below)) {}

  Result<std::optional<std::string>> Get(KvFamily family, std::string_view key) override { return below_->Get(family, key); }
  std::optional<Result<std::optional<std::string>>> GetIfCached(KvFamily family, std::string_view key) override {
    return below_->GetIfCached(family, key);
  }
  Result<std::vector<KvEntry>> Scan(KvFamily family, std::string_view begin, std::string_view end, size_t limit) override {
    return below_->Scan(family, begin, end, limit);
  }
  Result<std::optional<KvEntry>> Last(KvFamily family, std::string_view begin, std::string_view at) override {
    return below_->Last(family, begin, at);
  }
  Result<void> Write(const KvBatch& batch) override { return below_->Write(batch); }
  Task<Result<void>> Sync() override { return below_->Sync(); }
  std::unique_ptr<KvStore> Snapshot() override { return below_->Snapshot(); }
  std::string Damage() const override { return below_->Damage(); }

 protected:
  KvStore& below() { return *below_; }

 private:
  const std::shared_ptr<KvStore> below_;
};

}  // namespace stria
