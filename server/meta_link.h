// A service of the metadata servers: a call goes to the one that serves, as MetaPeers knows, and to the others when that one is not
// there, is not the leader, or serves an old copy of the metadata. For the executor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "peers/meta_locator.h"
#include "peers/meta_peers.h"
#include "server/heard_terms.h"

namespace stria {

template <class Service>
class ServiceLink {
 public:
  using ConnectFn = std::function<std::shared_ptr<Service>(const std::string& address)>;
  // `peers`: may be shared with other links.
  ServiceLink(ConnectFn connect, std::shared_ptr<MetaPeers> peers) : connect_(std::move(connect)), peers_(std::move(peers)) {}

  // Requests say what was heard, and answers count as it says (HeardTerms::Answered). It outlives the link's calls.
  void UseTerms(HeardTerms* terms) { terms_ = terms; }
  // Asked when nobody serves where calls go; what hangs there is dropped when it finds the primary elsewhere. It outlives the link's calls.
  void UseLocator(MetaLocator* locator) { locator_ = locator; }

  // Each address is tried once; the last error otherwise. A request may have been carried out although
  // an error comes back.
  template <class Reply, class Request>
  Task<Result<Reply>> Call(Task<Result<Reply>> (Service::*method)(Request), Request request) {
    Result<Reply> last = Error(FsError::kUnavailable);
    std::string address;
    for (size_t tries = 0; tries < peers_->addresses().size(); ++tries) {  // there may be more by then
      address = peers_->current();
      const std::shared_ptr<Service> service = connect_(address);
      HeardTerms::Asked said;
      if (terms_ != nullptr) said = terms_->ToAsk();
      request.header.seen_term = said.said.term;
      request.header.seen_proof = said.said.proof;
      last = co_await Try(service, method, request, address);
      if (last.ok() && terms_ != nullptr) {
        if (Error old = terms_->Answered(said, TermIn(*last)); !old.ok()) last = std::move(old);
      }
      if (last.ok() && TermIn(*last) != 0) peers_->Answered(address, TermIn(*last));
      if (last.ok() || !IsElsewhere(last.code())) co_return last;
      peers_->Failed(address);
      if (locator_ != nullptr) locator_->Hurry();
    }
    co_return last.error().WithContext("metadata server " + address);
  }

 private:
  static bool IsElsewhere(FsError code) {
    return code == FsError::kUnavailable || code == FsError::kDeadline || code == FsError::kNotLeader;
  }
  // 0: it does not say.
  template <class Reply>
  static uint64_t TermIn(const Reply& r) {
    if constexpr (requires { r.term; }) return r.term;
    else if constexpr (requires { r.map.term; }) return r.map.term;
    else return 0;
  }
  template <class Reply, class Request>
  Task<Result<Reply>> Try(std::shared_ptr<Service> service, Task<Result<Reply>> (Service::*method)(Request), Request request, std::string address) {
    if (locator_ == nullptr) co_return co_await (service.get()->*method)(std::move(request));
    auto [reply, left] = co_await FirstOf((service.get()->*method)(std::move(request)), LeftFor(peers_.get(), address));
    if (!reply) co_return Error(FsError::kUnavailable, "another metadata server is primary by now");
    co_return std::move(*reply);
  }

  const ConnectFn connect_;
  const std::shared_ptr<MetaPeers> peers_;
  HeardTerms* terms_ = nullptr;
  MetaLocator* locator_ = nullptr;
};

class MetaLink : public ServiceLink<MetaService> {
 public:
  // `connector` outlives the link.
  MetaLink(MetaConnector* connector, std::vector<std::string> addresses)
      : MetaLink(connector, std::make_shared<MetaPeers>(std::move(addresses))) {}
  MetaLink(MetaConnector* connector, std::shared_ptr<MetaPeers> peers)
      : ServiceLink([connector](const std::string& a) { return connector->Connect(a); }, std::move(peers)) {}
};

class AdminLink : public ServiceLink<AdminService> {
 public:
  AdminLink(AdminConnector* connector, std::vector<std::string> addresses)
      : AdminLink(connector, std::make_shared<MetaPeers>(std::move(addresses))) {}
  AdminLink(AdminConnector* connector, std::shared_ptr<MetaPeers> peers)
      : ServiceLink([connector](const std::string& a) { return connector->ConnectAdmin(a); }, std::move(peers)) {}
};

}  // namespace stria
