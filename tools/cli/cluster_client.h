// Blocking calls to the metadata service, for a program that does one thing at a time. The executor and the connections live on
// a thread of their own. After two seconds a line on `progress` says what the call waits for.
//
// One caller at a time. Calls are made without a session (admin calls).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "api/replica_api.h"
#include "api/trust_api.h"
#include "common/exec/loop_executor.h"

namespace stria::cli {

// To all services of the metadata servers.
class ClusterConnector : public MetaConnector, public AdminConnector, public TrustConnector, public MemberConnector {};
// Called once, on the executor's thread, which also destroys the result.
using ConnectorFactory = std::function<std::unique_ptr<ClusterConnector>()>;

// How to reach a cluster with the credentials that a command has.
struct Reach {
  ConnectorFactory connector;
  std::string note;  // why a server may refuse it: what is wrong with the credentials; "" if nothing
};

struct ClientOptions {
  std::vector<std::string> addresses;  // at least one
  int64_t timeout_ns = 30 * kSecond;   // of a call, all addresses and retries together
  std::ostream* progress = nullptr;    // nullptr: silent
  std::string note;                    // Reach::note, said where no server answers
  bool tty = false;                    // progress is a terminal: one line that is overwritten
};

class ClusterClient {
 public:
  ClusterClient(ClientOptions options, ConnectorFactory make_connector);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  // Asks one address after the other until one answers; asks a starting server again until the time is over. If none of them is
  // primary they say where the others are, and these are asked, too. Errors: the service's, kUnavailable or kDeadline with the addresses.
  template <class Reply>
  Result<Reply> Call(const std::string& what,
                     std::function<Task<Result<Reply>>(MetaService&, OpHeader)> call) {
    return CallOf<Reply, MetaService>(what, &services_, std::move(call));
  }
  template <class Reply>
  Result<Reply> CallAdmin(const std::string& what,
                          std::function<Task<Result<Reply>>(AdminService&, OpHeader)> call) {
    return CallOf<Reply, AdminService>(what, &admin_services_, std::move(call));
  }
  template <class Reply>
  Result<Reply> CallTrust(const std::string& what,
                          std::function<Task<Result<Reply>>(TrustService&, OpHeader)> call) {
    return CallOf<Reply, TrustService>(what, &trust_services_, std::move(call));
  }
  template <class Reply>
  Result<Reply> CallMembers(const std::string& what,
                            std::function<Task<Result<Reply>>(MemberService&, OpHeader)> call) {
    return CallOf<Reply, MemberService>(what, &member_services_, std::move(call));
  }

  std::string AddressList() const;
  const std::vector<std::string>& addresses() const { return options_.addresses; }
  void set_timeout_ns(int64_t ns) { options_.timeout_ns = ns; }
  // nullptr: silent.
  void set_progress(std::ostream* progress) { options_.progress = progress; }

 private:
  template <class Reply>
  struct Shared {
    std::optional<Result<Reply>> reply;
  };
  template <class Service>
  using Services = std::vector<std::shared_ptr<Service>>;
  template <class Reply, class Service>
  Result<Reply> CallOf(const std::string& what, const Services<Service>* services,
                       std::function<Task<Result<Reply>>(Service&, OpHeader)> call) {
    auto shared = std::make_shared<Shared<Reply>>();
    const uint64_t ticket = ++ticket_;
    executor_.Post([this, shared, services, call, ticket] {
      scope_->Spawn(RunCall<Reply, Service>(call, services, shared, ticket));
    });
    if (!AwaitDone(ticket, what)) return Error(FsError::kDeadline, "no answer from " + AddressList());
    return std::move(*shared->reply);
  }
  template <class Reply, class Service>
  Task<void> RunCall(std::function<Task<Result<Reply>>(Service&, OpHeader)> call, const Services<Service>* services,
                     std::shared_ptr<Shared<Reply>> shared, uint64_t ticket) {
    const int64_t end_ns = executor_.NowNs() + options_.timeout_ns;
    std::optional<Result<Reply>> last;
    while (!last || (AskAgain(last->code()) && executor_.NowNs() + kRetryNs < end_ns)) {
      if (last) co_await Sleep(kRetryNs);
      bool not_leader = false;
      for (size_t i = 0; i < services->size(); ++i) {
        const std::shared_ptr<Service> service = (*services)[i];
        last.reset();
        last.emplace(co_await call(*service, Header(end_ns - executor_.NowNs())));
        if (!AskNext(last->code())) break;
        not_leader = not_leader || last->code() == FsError::kNotLeader;
        if (not_leader && i + 1 == services->size()) co_await LearnAddresses();
      }
    }
    if (AskNext(last->code())) last = Explained(std::move(*last).error());
    shared->reply = std::move(last);
    Finish(ticket);
  }

  static constexpr int64_t kRetryNs = 200 * kMillisecond;
  static bool AskNext(FsError e) { return e != FsError::kOk && IsRetryable(e); }
  static bool AskAgain(FsError e) { return e == FsError::kNotReady || e == FsError::kRetryLater; }
  OpHeader Header(int64_t timeout_ns) const;
  Error Explained(Error e) const;
  void RunThread(ConnectorFactory make_connector);
  void AddServices(const std::string& address);
  Task<void> LearnAddresses();
  void Finish(uint64_t ticket);
  bool AwaitDone(uint64_t ticket, const std::string& what);  // false: the time is over

  ClientOptions options_;
  LoopExecutor executor_;
  uint64_t ticket_ = 0;
  // Executor's thread only.
  std::unique_ptr<ClusterConnector> connector_;
  Services<MetaService> services_;
  Services<AdminService> admin_services_;
  Services<TrustService> trust_services_;
  Services<MemberService> member_services_;
  std::vector<std::string> asked_;  // the addresses of these services: the given ones, then those that members told of
  std::optional<TaskScope> scope_;

  std::mutex mu_;
  std::condition_variable cv_;
  uint64_t done_ = 0;  // guarded by mu_: the last ticket that has its reply
  std::thread thread_;
};

}  // namespace stria::cli
