#include "proto/stubs.h"

#include <algorithm>

#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/replica_stubs.h"
#include "proto/trust_stubs.h"

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

// A role may be let in with a session only, or without one only.
Result<void> CheckSession(const Peer& peer, const OpHeader& header, const Cover& cover) {
  if ((header.session ? cover.in_session : cover.alone).Has(peer.role)) return Ok();
  return Error::Denial(peer.ToString() + (header.session ? " may not ask this in a session" : " may not ask this without a session"));
}
Result<void> CheckSession(const Peer&, const DataHeader&, const Cover&) { return Ok(); }

// For the line about a slow one.
void Name(const OpHeader& header, CallTimes* times) {
  times->session = header.session;
  times->trace_id = header.trace_id;
}
void Name(const DataHeader& header, CallTimes* times) {
  times->trace_id = header.trace_id;
  times->may_wait = header.background;
}

template <class Service, class Request, class Reply, Task<Result<Reply>> (Service::*kMethod)(Request)>
Task<Result<WireMessage>> HandleMethod(Service* service, std::shared_ptr<const Peer> peer, Cover cover, WireMessage bytes, CallTimes* times) {
  Result<Request> request = Decode<Request>(bytes);
  if (!request.ok()) co_return std::move(request).error();
  auto& header = request.value().header;
  CO_RETURN_IF_ERROR(AgreeOnProtocol(&header));
  if (peer) CO_RETURN_IF_ERROR(CheckSession(*peer, header, cover));
  Name(header, times);
  times->may_wait = times->may_wait || std::is_same_v<Request, PollRequest> || std::is_same_v<Request, ReadEventsRequest> ||
                    std::is_same_v<Request, LocateRequest>;
  header.peer = std::move(peer);
  bytes = WireMessage();
  Result<Reply> reply = co_await (service->*kMethod)(std::move(request).value());
  times->ran_ns = Executor::Current().NowNs();
  if constexpr (requires(const Reply& r) { r.disk; }) {
    if (reply.ok()) times->disk_ns = reply->disk.ns;
  }
  if (!reply.ok()) co_return std::move(reply).error();
  WireMessage out = Encode(reply.value());
  CO_RETURN_IF_ERROR(CheckSize(out));
  co_return out;
}

Error UnknownMethod(const std::string& method) {
  return Error(FsError::kVersion, "method " + method + " is not known here; is the peer newer?");
}

std::string ForWhom(const Cover& cover) {
  RoleSet both;
  for (const Role r : kAllRoles) {
    if (cover.in_session.Has(r) || cover.alone.Has(r)) both.Add(r);
  }
  const std::string roles = both.ToString();
  return roles.empty() ? "nobody" : roles;
}

constexpr char kMetaPrefix[] = "/stria.v1.Meta/";
constexpr char kDataPrefix[] = "/stria.v1.Data/";
constexpr char kAdminPrefix[] = "/stria.v1.Admin/";
constexpr char kBackupPrefix[] = "/stria.v1.Backup/";
constexpr char kReplicaPrefix[] = "/stria.v1.Replica/";
constexpr char kBeatsPrefix[] = "/stria.v1.Beats/";
constexpr char kMembersPrefix[] = "/stria.v1.Members/";
constexpr char kTrustPrefix[] = "/stria.v1.Trust/";

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

#define X(Name, Request, Reply)                                                                  \
  Task<Result<Reply>> ReplicaStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kReplicaPrefix) + #Name, std::move(request)); \
  }
STRIA_REPLICA_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                                \
  Task<Result<Reply>> BeatStub::Name(Request request) {                                        \
    return CallMethod<Reply>(transport_, std::string(kBeatsPrefix) + #Name, std::move(request)); \
  }
STRIA_BEAT_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                                  \
  Task<Result<Reply>> MemberStub::Name(Request request) {                                        \
    return CallMethod<Reply>(transport_, std::string(kMembersPrefix) + #Name, std::move(request)); \
  }
STRIA_MEMBER_METHODS(X)
#undef X

#define X(Name, Request, Reply)                                                                \
  Task<Result<Reply>> TrustStub::Name(Request request) {                                       \
    return CallMethod<Reply>(transport_, std::string(kTrustPrefix) + #Name, std::move(request)); \
  }
STRIA_TRUST_METHODS(X)
#undef X

Task<Result<std::string>> AskForRenewal(TrustConnector* connector, std::vector<std::string> addresses, std::string request) {
  Error last(FsError::kUnavailable, "no metadata server is named");
  for (const std::string& address : addresses) {
    RenewCertificateRequest r;
    r.header.timeout_ns = kDefaultCallNs;
    r.request = request;
    const std::shared_ptr<TrustService> service = connector->ConnectTrust(address);
    Result<RenewCertificateReply> reply = co_await service->RenewCertificate(std::move(r));
    if (reply.ok()) co_return std::move(reply->certificate);
    last = std::move(reply).error();
    if (!IsRetryable(last.code)) break;
  }
  co_return last;
}

template <class Service>
using Methods = std::map<std::string, ServiceMethod<Service>>;
template <class Service>
Methods<Service> MethodsOf();

#define X(Name, Request, Reply)                                  \
  methods[std::string(kMetaPrefix) + #Name] = {                     \
      &HandleMethod<MetaService, Request, Reply, &MetaService::Name>, \
      kCoverOf<&MetaService::Name>};
template <>
Methods<MetaService> MethodsOf<MetaService>() {
  Methods<MetaService> methods;
  STRIA_META_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kDataPrefix) + #Name] = {                     \
      &HandleMethod<DataService, Request, Reply, &DataService::Name>, \
      kCoverOf<&DataService::Name>};
template <>
Methods<DataService> MethodsOf<DataService>() {
  Methods<DataService> methods;
  STRIA_DATA_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kAdminPrefix) + #Name] = {                     \
      &HandleMethod<AdminService, Request, Reply, &AdminService::Name>, \
      kCoverOf<&AdminService::Name>};
template <>
Methods<AdminService> MethodsOf<AdminService>() {
  Methods<AdminService> methods;
  STRIA_ADMIN_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kBackupPrefix) + #Name] = {                     \
      &HandleMethod<BackupService, Request, Reply, &BackupService::Name>, \
      kCoverOf<&BackupService::Name>};
template <>
Methods<BackupService> MethodsOf<BackupService>() {
  Methods<BackupService> methods;
  STRIA_BACKUP_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kReplicaPrefix) + #Name] = {                     \
      &HandleMethod<ReplicaService, Request, Reply, &ReplicaService::Name>, \
      kCoverOf<&ReplicaService::Name>};
template <>
Methods<ReplicaService> MethodsOf<ReplicaService>() {
  Methods<ReplicaService> methods;
  STRIA_REPLICA_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kBeatsPrefix) + #Name] = {                    \
      &HandleMethod<BeatService, Request, Reply, &BeatService::Name>, \
      kCoverOf<&BeatService::Name>};
template <>
Methods<BeatService> MethodsOf<BeatService>() {
  Methods<BeatService> methods;
  STRIA_BEAT_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                     \
  methods[std::string(kMembersPrefix) + #Name] = {                     \
      &HandleMethod<MemberService, Request, Reply, &MemberService::Name>, \
      kCoverOf<&MemberService::Name>};
template <>
Methods<MemberService> MethodsOf<MemberService>() {
  Methods<MemberService> methods;
  STRIA_MEMBER_METHODS(X)
  return methods;
}
#undef X

#define X(Name, Request, Reply)                                  \
  methods[std::string(kTrustPrefix) + #Name] = {                     \
      &HandleMethod<TrustService, Request, Reply, &TrustService::Name>, \
      kCoverOf<&TrustService::Name>};
template <>
Methods<TrustService> MethodsOf<TrustService>() {
  Methods<TrustService> methods;
  STRIA_TRUST_METHODS(X)
  return methods;
}
#undef X

template <class Service>
ServiceDispatcher<Service>::ServiceDispatcher(Service* service, DispatchOptions options)
    : service_(service), options_(std::move(options)), methods_(MethodsOf<Service>()) {}

template <class Service>
Result<void> ServiceDispatcher<Service>::Admit(const Peer* peer, const std::string& method, const Cover& cover) const {
  if (peer == nullptr) {
    if (!options_.proved) return Ok();
    return Error::Denial("who asks for " + method + " has not proved who it is");
  }
  if (cover.in_session.Has(peer->role) || cover.alone.Has(peer->role)) return Ok();
  return Error::Denial(peer->ToString() + " may not ask for " + method + ": it is for " + ForWhom(cover));
}

template <class Service>
void ServiceDispatcher<Service>::EachMethod(const std::function<void(const std::string&, const MethodStats&)>& fn) const {
  for (const auto& [name, method] : methods_) fn(name, method.stats);
}

template <class Service>
void ServiceDispatcher<Service>::Note(const Peer* peer, const std::string& method, MethodStats* stats, CallTimes* times,
                                      const Error& outcome) const {
  times->ended_ns = Executor::Current().NowNs();
  const int64_t took_ns = times->ended_ns - times->arrived_ns;
  stats->took.Add(took_ns);
  if (!outcome.ok()) ++stats->failed;
  if (options_.slow_ns <= 0 || took_ns <= options_.slow_ns || times->may_wait) return;
  ++stats->slow;
  if (options_.slow) options_.slow(SlowCallLine(method, peer, *times, outcome));
}

template <class Service>
Task<Result<WireMessage>> ServiceDispatcher<Service>::Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) {
  const auto it = methods_.find(method);
  if (it == methods_.end()) co_return UnknownMethod(method);
  CallTimes times;
  times.began_ns = Executor::Current().NowNs();
  times.arrived_ns = request.arrived_ns == 0 ? times.began_ns : request.arrived_ns;
  const std::shared_ptr<const Peer> asks = peer;
  Result<WireMessage> reply = Error(FsError::kAccess);
  const Result<void> admitted = Admit(asks.get(), method, it->second.cover);
  if (!admitted.ok()) {
    reply = admitted.error();
  } else {
    reply = co_await it->second.handle(service_, std::move(peer), it->second.cover, std::move(request), &times);
  }
  Note(asks.get(), method, &it->second.stats, &times, reply.error());
  if (reply.ok() || (admitted.ok() && !asks)) co_return reply;
  if (const Error why = reply.error(); why.denies && options_.refused) options_.refused(asks.get(), method, why);
  co_return reply;
}

template class ServiceDispatcher<MetaService>;
template class ServiceDispatcher<DataService>;
template class ServiceDispatcher<AdminService>;
template class ServiceDispatcher<BackupService>;
template class ServiceDispatcher<ReplicaService>;
template class ServiceDispatcher<BeatService>;
template class ServiceDispatcher<MemberService>;
template class ServiceDispatcher<TrustService>;

}  // namespace stria
