// A service of the metadata servers over a list of addresses: a call goes to the one that answered last, and to
// the others when that one is not there, is not the leader, or serves an old copy of the metadata. For the executor's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "server/heard_terms.h"

namespace stria {

template <class Service>
class ServiceLink {
 public:
  using ConnectFn = std::function<std::shared_ptr<Service>(const std::string& address)>;
  // REQUIRES: at least one address.
  ServiceLink(ConnectFn connect, std::vector<std::string> addresses)
      : connect_(std::move(connect)), addresses_(std::move(addresses)) {
    CHECK(!addresses_.empty(), "no metadata address");
  }

  // Requests say what was heard, and answers count as it says (HeardTerms::Answered). It outlives the link's calls.
  void UseTerms(HeardTerms* terms) { terms_ = terms; }

  // Each address is tried once; the last error otherwise. A request may have been carried out although
  // an error comes back.
  template <class Reply, class Request>
  Task<Result<Reply>> Call(Task<Result<Reply>> (Service::*method)(Request), Request request) {
    Result<Reply> last = Error(FsError::kUnavailable);
    std::string address;
    for (size_t tries = 0; tries < addresses_.size(); ++tries) {
      const size_t asked = current_;
      address = addresses_[asked];
      const std::shared_ptr<Service> service = connect_(address);
      HeardTerms::Asked said;
      if (terms_ != nullptr) said = terms_->ToAsk();
      request.header.seen_term = said.said.term;
      request.header.seen_proof = said.said.proof;
      last = co_await (service.get()->*method)(request);
      if (last.ok() && terms_ != nullptr) {
        if (Error old = terms_->Answered(said, TermIn(*last)); !old.ok()) last = std::move(old);
      }
      if (last.ok() || !IsElsewhere(last.code())) co_return last;
      if (current_ == asked) current_ = (current_ + 1) % addresses_.size();
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
  const ConnectFn connect_;
  const std::vector<std::string> addresses_;
  size_t current_ = 0;
  HeardTerms* terms_ = nullptr;
};

class MetaLink : public ServiceLink<MetaService> {
 public:
  // `connector` outlives the link.
  MetaLink(MetaConnector* connector, std::vector<std::string> addresses)
      : ServiceLink([connector](const std::string& a) { return connector->Connect(a); }, std::move(addresses)) {}
};

class AdminLink : public ServiceLink<AdminService> {
 public:
  AdminLink(AdminConnector* connector, std::vector<std::string> addresses)
      : ServiceLink([connector](const std::string& a) { return connector->ConnectAdmin(a); }, std::move(addresses)) {}
};

}  // namespace stria
