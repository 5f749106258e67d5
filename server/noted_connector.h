// A DataConnector that notes which servers could not be reached lately. The node tells the metadata server, because perhaps no
// other node sees it. For the executor's thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/data_api.h"
#include "common/exec/executor.h"
#include "common/units.h"

namespace stria {

inline constexpr int64_t kNotedNs = 30 * kSecond;

class NotedConnector final : public DataConnector {
 public:
  // `inner` outlives it.
  explicit NotedConnector(DataConnector* inner) : inner_(inner) {}
  std::shared_ptr<DataService> Connect(const std::string& address) override {
    std::shared_ptr<DataService> service = inner_->Connect(address);
    if (!service) return nullptr;
    return std::make_shared<Service>(std::move(service), address, failed_);
  }
  // Addresses that did not answer the last call, within kNotedNs.
  std::vector<std::string> Failed() const {
    std::vector<std::string> out;
    for (const auto& [address, at_ns] : *failed_) {
      if (Executor::Current().NowNs() - at_ns <= kNotedNs) out.push_back(address);
    }
    return out;
  }

 private:
  using FailedAt = std::map<std::string, int64_t>;
  class Service final : public DataService {
   public:
    Service(std::shared_ptr<DataService> service, std::string address, std::shared_ptr<FailedAt> failed)
        : service_(std::move(service)), address_(std::move(address)), failed_(std::move(failed)) {}
    Task<Result<WriteReply>> Write(WriteRequest r) override { return Noted(service_, address_, failed_, &DataService::Write, std::move(r)); }
    Task<Result<SealReply>> Seal(SealRequest r) override { return Noted(service_, address_, failed_, &DataService::Seal, std::move(r)); }
    Task<Result<ReadReply>> Read(ReadRequest r) override { return Noted(service_, address_, failed_, &DataService::Read, std::move(r)); }
    Task<Result<DeleteReply>> Delete(DeleteRequest r) override { return Noted(service_, address_, failed_, &DataService::Delete, std::move(r)); }
    Task<Result<InventoryReply>> Inventory(InventoryRequest r) override {
      return Noted(service_, address_, failed_, &DataService::Inventory, std::move(r));
    }

   private:
    template <class Rep, class Req>
    static Task<Result<Rep>> Noted(std::shared_ptr<DataService> service, std::string address, std::shared_ptr<FailedAt> failed,
                                   Task<Result<Rep>> (DataService::*method)(Req), Req request) {
      Result<Rep> reply = co_await (service.get()->*method)(std::move(request));
      if (reply.code() == FsError::kUnavailable || reply.code() == FsError::kDeadline) {
        (*failed)[address] = Executor::Current().NowNs();
      } else {
        failed->erase(address);
      }
      co_return reply;
    }
    const std::shared_ptr<DataService> service_;
    const std::string address_;
    const std::shared_ptr<FailedAt> failed_;
  };

  DataConnector* const inner_;
  const std::shared_ptr<FailedAt> failed_ = std::make_shared<FailedAt>();
};

}  // namespace stria
