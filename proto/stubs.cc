#include "proto/stubs.h"

#include <algorithm>

#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"

namespace stria {
namespace {

Error Misfit(const char* what) {
  return Error(FsError::kBadRequest, std::string("the peer's reply does not fit the request: ") + what);
}

// A check that Decode cannot make: does the reply answer this request?
template <class Request, class Reply>
Result<void> CheckReply(const Request&, const Reply&) {
  return Ok();
}
Result<void> CheckReply(const WriteRequest& request, const WriteReply& reply) {
  return reply.items.size() == request.items.size() ? Ok() : Misfit("number of items");
}
Result<void> CheckReply(const SealRequest& request, const SealReply& reply) {
  return reply.items.size() == request.items.size() ? Ok() : Misfit("number of items");
}
Result<void> CheckReply(const DeleteRequest& request, const DeleteReply& reply) {
  return reply.items.size() == request.items.size() ? Ok() : Misfit("number of items");
}
Result<void> CheckReply(const ReadRequest& request, const ReadReply& reply) {
  if (reply.items.size() != request.items.size()) return Misfit("number of items");
  for (size_t i = 0; i < reply.items.size(); ++i) {
    if (reply.items[i].length > request.items[i].length) return Misfit("more bytes than asked for");
  }
  return Ok();
}
Result<void> CheckReply(const RegisterNodeRequest& request, const RegisterNodeReply& reply) {
  return reply.targets.size() == request.disks.size() ? Ok() : Misfit("number of targets");
}

template <class Request>
int64_t CallNs(const Request& request) {
  const int64_t asked = request.header.timeout_ns;
  const int64_t bounded = std::min(asked > 0 ? asked : kDefaultCallNs, kMaxRpcNs);
  return std::is_same_v<Request, PollRequest> ? bounded + kPollSlackNs : bounded;
}

Result<void> CheckSize(const WireMessage& message) {
  if (message.size() <= kMaxMessageBytes) return Ok();
  return Error(FsError::kBadRequest,
               "a message of " + std::to_string(message.size()) + " bytes is over the limit of 8 MiB");
}

template <class Reply, class Request>
Task<Result<Reply>> CallMethod(std::shared_ptr<Transport> transport, std::string method, Request request) {
  WireMessage bytes = Encode(request);
  CO_RETURN_IF_ERROR(CheckSize(bytes));
  Result<WireMessage> got =
      co_await transport->Call(std::move(method), std::move(bytes), CallNs(request));
  if (!got.ok()) co_return std::move(got).error();
  Result<Reply> reply = Decode<Reply>(got.value());
  if (reply.ok()) CO_RETURN_IF_ERROR(CheckReply(request, reply.value()));
  co_return reply;
}

template <class Service, class Request, class Reply, Task<Result<Reply>> (Service::*kMethod)(Request)>
Task<Result<WireMessage>> HandleMethod(Service* service, WireMessage bytes) {
  Result<Request> request = Decode<Request>(bytes);
  if (!request.ok()) co_return std::move(request).error();
  if (const uint32_t protocol = request.value().header.protocol; protocol != kProtocolVersion) {
    co_return Error(FsError::kVersion, "protocol version " + std::to_string(protocol) +
                                           " is not spoken here, version " +
                                           std::to_string(kProtocolVersion) + " is");
  }
  bytes = WireMessage();
  Result<Reply> reply = co_await (service->*kMethod)(std::move(request).value());
  if (!reply.ok()) co_return std::move(reply).error();
  WireMessage out = Encode(reply.value());
  CO_RETURN_IF_ERROR(CheckSize(out));
  co_return out;
}

Error UnknownMethod(const std::string& method) {
  return Error(FsError::kVersion, "method " + method + " is not known here; is the peer newer?");
}

constexpr char kMetaPrefix[] = "/stria.v1.Meta/";
constexpr char kDataPrefix[] = "/stria.v1.Data/";
constexpr char kAdminPrefix[] = "/stria.v1.Admin/";
constexpr char kBackupPrefix[] = "/stria.v1.Backup/";

}  // namespace

#define X(Name, Request, Reply)                                                               \
  Task<Result<Reply>> MetaStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kMetaPrefix) + #Name, std::move(request)); \
  }
STRIA_META_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                               \
  Task<Result<Reply>> DataStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kDataPrefix) + #Name, std::move(request)); \
  }
STRIA_DATA_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                                \
  Task<Result<Reply>> AdminStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kAdminPrefix) + #Name, std::move(request)); \
  }
STRIA_ADMIN_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                                 \
  Task<Result<Reply>> BackupStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kBackupPrefix) + #Name, std::move(request)); \
  }
STRIA_BACKUP_METHODS(X)
#undef X

MetaDispatcher::MetaDispatcher(MetaService* service) : service_(service) {
#define X(Name, Request, Reply) \
  handlers_[std::string(kMetaPrefix) + #Name] = \
      &HandleMethod<MetaService, Request, Reply, &MetaService::Name>;
  STRIA_META_METHODS(X)
#undef X
}

Task<Result<WireMessage>> MetaDispatcher::Handle(std::string method, WireMessage request) {
  const auto it = handlers_.find(method);
  if (it == handlers_.end()) co_return UnknownMethod(method);
  co_return co_await it->second(service_, std::move(request));
}

DataDispatcher::DataDispatcher(DataService* service) : service_(service) {
#define X(Name, Request, Reply) \
  handlers_[std::string(kDataPrefix) + #Name] = \
      &HandleMethod<DataService, Request, Reply, &DataService::Name>;
  STRIA_DATA_METHODS(X)
#undef X
}

Task<Result<WireMessage>> DataDispatcher::Handle(std::string method, WireMessage request) {
  const auto it = handlers_.find(method);
  if (it == handlers_.end()) co_return UnknownMethod(method);
  co_return co_await it->second(service_, std::move(request));
}

AdminDispatcher::AdminDispatcher(AdminService* service) : service_(service) {
#define X(Name, Request, Reply) \
  handlers_[std::string(kAdminPrefix) + #Name] = \
      &HandleMethod<AdminService, Request, Reply, &AdminService::Name>;
  STRIA_ADMIN_METHODS(X)
#undef X
}

Task<Result<WireMessage>> AdminDispatcher::Handle(std::string method, WireMessage request) {
  const auto it = handlers_.find(method);
  if (it == handlers_.end()) co_return UnknownMethod(method);
  co_return co_await it->second(service_, std::move(request));
}

BackupDispatcher::BackupDispatcher(BackupService* service) : service_(service) {
#define X(Name, Request, Reply) \
  handlers_[std::string(kBackupPrefix) + #Name] = \
      &HandleMethod<BackupService, Request, Reply, &BackupService::Name>;
  STRIA_BACKUP_METHODS(X)
#undef X
}

Task<Result<WireMessage>> BackupDispatcher::Handle(std::string method, WireMessage request) {
  const auto it = handlers_.find(method);
  if (it == handlers_.end()) co_return UnknownMethod(method);
  co_return co_await it->second(service_, std::move(request));
}

}  // namespace stria
