// Both ends of api/admin_api.h on a transport. As stubs.h says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/admin_api.h"
#include "proto/stubs.h"
#include "proto/transport.h"

namespace stria {

inline constexpr char kAdminServiceName[] = "stria.v1.Admin";

#define STRIA_ADMIN_METHODS(X)                                \
  X(Upkeep, UpkeepRequest, UpkeepReply)                       \
  X(CanRemove, CanRemoveRequest, CanRemoveReply)              \
  X(ReportScrub, ReportScrubRequest, ScrubOrder)              \
  X(CompareShards, CompareShardsRequest, CompareShardsReply)  \
  X(ListParity, ListParityRequest, ListParityReply)           \
  X(FsckRepair, FsckRepairRequest, FsckRepairReply)           \
  X(Names, NamesRequest, NamesReply)                          \
  X(Files, FilesRequest, FilesReply)                          \
  X(ReadEvents, ReadEventsRequest, ReadEventsReply)

class AdminStub final : public AdminService {
 public:
  explicit AdminStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_ADMIN_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

using AdminDispatcher = ServiceDispatcher<AdminService>;
extern template class ServiceDispatcher<AdminService>;

class TransportAdminConnector final : public AdminConnector {
 public:
  explicit TransportAdminConnector(TransportFactory* factory) : factory_(factory) {}
  std::shared_ptr<AdminService> ConnectAdmin(const std::string& address) override {
    std::shared_ptr<AdminService>& stub = stubs_[address];
    if (!stub) stub = std::make_shared<AdminStub>(factory_->Make(address));
    return stub;
  }

 private:
  TransportFactory* factory_;
  std::map<std::string, std::shared_ptr<AdminService>> stubs_;  // of the few metadata servers
};

}  // namespace stria
