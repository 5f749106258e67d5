// Types on both ends of a transport: stubs implement the services of api/ by calling a peer;
// dispatchers answer a peer's calls from a service.
//
// No call is without a deadline: header.timeout_ns, kDefaultCallNs if that is 0, at most kMaxRpcNs. A
// Poll's timeout_ns is how long the server may wait, so its deadline is kPollSlackNs later.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/data_api.h"
#include "api/meta_api.h"
#include "proto/covers.h"
#include "proto/method_stats.h"
#include "proto/methods.h"
#include "proto/transport.h"

namespace stria {

inline constexpr int64_t kDefaultCallNs = 30 * kSecond;
inline constexpr int64_t kMaxRpcNs = 300 * kSecond;
inline constexpr int64_t kPollSlackNs = 5 * kSecond;
inline constexpr size_t kMaxCachedPeers = 4096;

inline constexpr char kMetaServiceName[] = "stria.v1.Meta";
inline constexpr char kDataServiceName[] = "stria.v1.Data";

// Tasks of a stub keep its transport; the stub itself may be destroyed while they run. Errors besides the service's own: those
// of Transport::Call, and kBadRequest for a reply that does not decode or does not fit the request.
class MetaStub final : public MetaService {
 public:
  explicit MetaStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_META_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

class DataStub final : public DataService {
 public:
  explicit DataStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_DATA_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

// Who is served.
struct DispatchOptions {
  // Callers who have proved nothing are refused. Otherwise all that they say is believed, and they are served as before there
  // was any proof: on transports without TLS.
  bool proved = false;
  // Is told of each call that was refused for who asks (Error::denies), and of no other: not of what a file's permissions do not
  // allow. `peer` may be null. Whoever writes that down bounds it.
  std::function<void(const Peer* peer, const std::string& method, const Error& why)> refused = {};
  // Is told, in a sentence, of each call that took longer than slow_ns (0: of none) and was not to wait. Whoever writes that down bounds it.
  int64_t slow_ns = 0;
  std::function<void(const std::string& line)> slow = {};
};

template <class Service>
struct ServiceMethod {
  Task<Result<WireMessage>> (*handle)(Service*, std::shared_ptr<const Peer>, Cover, WireMessage, CallTimes*);
  Cover cover;
  MethodStats stats = {};
};

// Answers calls of one service. Refuses, in this order: unknown methods with kVersion; callers whom the method's row does not
// name (covers.h) with kAccess, before their request is decoded; other protocol versions with kVersion, malformed requests with
// kBadRequest; calls without a session where their caller needs one with kAccess.
template <class Service>
class ServiceDispatcher : public Dispatcher, public MethodStatsSource {
 public:
  // `service` outlives this.
  explicit ServiceDispatcher(Service* service, DispatchOptions options = {});
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer> peer, std::string method, WireMessage request) override;
  void EachMethod(const std::function<void(const std::string&, const MethodStats&)>& fn) const override;
  void SetSlow(int64_t slow_ns) { options_.slow_ns = slow_ns; }

 private:
  Result<void> Admit(const Peer* peer, const std::string& method, const Cover& cover) const;
  void Note(const Peer* peer, const std::string& method, MethodStats* stats, CallTimes* times, const Error& outcome) const;

  Service* const service_;
  DispatchOptions options_;
  std::map<std::string, ServiceMethod<Service>> methods_;
};

using MetaDispatcher = ServiceDispatcher<MetaService>;
using DataDispatcher = ServiceDispatcher<DataService>;
extern template class ServiceDispatcher<MetaService>;
extern template class ServiceDispatcher<DataService>;

// One stub per address; beyond kMaxCachedPeers the least recently used are dropped (their holders keep them). The factory must
// outlive the cache.
template <class Service, class Stub>
class PeerCache {
 public:
  explicit PeerCache(TransportFactory* factory) : factory_(factory) {}
  std::shared_ptr<Service> Get(const std::string& address) {
    if (const auto it = by_address_.find(address); it != by_address_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second);
      return it->second->second;
    }
    recent_.emplace_front(address, std::make_shared<Stub>(factory_->Make(address)));
    by_address_[address] = recent_.begin();
    if (recent_.size() > kMaxCachedPeers) {
      by_address_.erase(recent_.back().first);
      recent_.pop_back();
    }
    return recent_.front().second;
  }

 private:
  using Entries = std::list<std::pair<std::string, std::shared_ptr<Service>>>;
  TransportFactory* factory_;
  Entries recent_;  // most recently used first
  std::map<std::string, typename Entries::iterator> by_address_;
};

class TransportMetaConnector final : public MetaConnector {
 public:
  explicit TransportMetaConnector(TransportFactory* factory) : cache_(factory) {}
  std::shared_ptr<MetaService> Connect(const std::string& address) override { return cache_.Get(address); }

 private:
  PeerCache<MetaService, MetaStub> cache_;
};

class TransportDataConnector final : public DataConnector {
 public:
  explicit TransportDataConnector(TransportFactory* factory) : cache_(factory) {}
  std::shared_ptr<DataService> Connect(const std::string& address) override { return cache_.Get(address); }

 private:
  PeerCache<DataService, DataStub> cache_;
};

}  // namespace stria
