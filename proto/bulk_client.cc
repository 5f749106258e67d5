#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/exec/pool.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_connection.h"
#include "proto/bulk_transport.h"
#include "proto/socket_address.h"

namespace stria {
namespace {

constexpr size_t kFailedBurden = 4;  // so many calls wait rather for a connection that works than for one that has failed
constexpr int64_t kReconnectFirstNs = 100 * kMillisecond;
constexpr int64_t kReconnectMaxNs = 1 * kSecond;
constexpr int kConnectTimeoutMs = 2000;
constexpr int kHandshakeTimeoutMs = 5000;
constexpr int kConnectThreads = 8;  // a dead host holds one up for kConnectTimeoutMs
constexpr uint64_t kMaxSendBytes = kMaxMessageBytes + kMiB;

// Closes the socket unless it was taken.
class NewFd {
 public:
  explicit NewFd(int fd) : fd_(fd) {}
  NewFd(const NewFd&) = delete;
  NewFd& operator=(const NewFd&) = delete;
  ~NewFd() {
    if (fd_ >= 0) close(fd_);
  }
  int Take() { return std::exchange(fd_, -1); }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct NewConnection {
  explicit NewConnection(int fd) : socket(fd) {}
  NewFd socket;
  std::unique_ptr<TlsSession> session;  // that has done its handshake; none: no TLS
};

}  // namespace

// Threads, shared by the client, its links and calls under way.
class BulkClient::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* ex, const BulkClientOptions& opts)
      : executor(ex), options(opts), connectors_(std::make_unique<ThreadPool>(kConnectThreads, "connect")) {
    for (int i = 0; i < options.loops; ++i) {
      loops_.push_back(std::make_unique<BulkLoop>("bulk-client" + std::to_string(i)));
    }
  }
  // Any thread: `news` on the executor's thread, unless the client is gone by then.
  void Tell(std::function<void()> news) {
    bool post;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (closed_) return;
      news_.push_back(std::move(news));
      post = !std::exchange(posted_, true);
    }
    if (post) executor->PostOrRun([self = shared_from_this()] { self->Deliver(); });
  }
  // The rest: executor's thread.
  bool closed() const { return closed_; }
  // Where the first connection of the next peer, and the others after it, belong.
  size_t NextPlace() { return next_place_++; }
  BulkLoop* Loop(size_t place) { return loops_[place % loops_.size()].get(); }
  void Connect(std::function<void()> blocking) { connectors_->Submit(std::move(blocking)); }
  void Add(Link* link) { links_.insert(link); }
  void Remove(Link* link) { links_.erase(link); }
  void Close();
  void CloseUnless(const std::function<Result<void>(const stria::Peer&)>& judge);

  Executor* const executor;
  const BulkClientOptions options;

 private:
  void Deliver() {
    std::vector<std::function<void()>> news;
    {
      std::lock_guard<std::mutex> lock(mu_);
      news.swap(news_);
      posted_ = false;
      if (closed_) return;
    }
    for (auto& each : news) each();
  }

  std::unique_ptr<ThreadPool> connectors_;
  std::vector<std::unique_ptr<BulkLoop>> loops_;
  size_t next_place_ = 0;
  std::set<Link*> links_;
  std::mutex mu_;
  std::vector<std::function<void()>> news_;  // guarded by mu_
  bool posted_ = false;                      // guarded by mu_
  bool closed_ = false;                      // written under mu_ by the executor's thread
};

// One connection to a peer, made when it is needed. Executor's thread.
class BulkClient::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<State> state, std::string address, size_t place)
      : state_(std::move(state)), address_(std::move(address)), loop_(state_->Loop(place)) {
    state_->Add(this);
  }
  ~Link() {
    state_->Remove(this);
    Drop();
  }

  static Task<Result<WireMessage>> Call(std::shared_ptr<Link> link, std::string method, WireMessage request,
                                        int64_t timeout_ns) {
    const uint64_t id = link->next_id_++;
    OneShot<Result<WireMessage>> result;
    const Registered registered(link.get(), id, result);
    BulkFrame frame;
    frame.id = id;
    frame.method = std::move(method);
    frame.message = std::move(request);
    CO_RETURN_IF_ERROR(link->Send(std::move(frame)));
    std::optional<Result<WireMessage>> reply = co_await WithTimeout(timeout_ns, result.Take());
    if (!reply) co_return Error(FsError::kDeadline, link->address_ + " did not answer in time");
    co_return std::move(*reply);
  }

  // The cost of a call on this link, lower is better: infinite while the connection rests after a failure; otherwise the calls
  // under way, and a failure that no call has retried since.
  std::pair<bool, size_t> Burden() const {
    const bool rests = phase_ == Phase::kIdle && state_->executor->NowNs() < not_before_ns_;
    const bool failed = phase_ != Phase::kUp && not_before_ns_ != INT64_MIN;
    return {rests, pending_.size() + (failed ? kFailedBurden : 0)};
  }

  void Close() {
    Drop();
    FailAll(Error(FsError::kUnavailable, "the client of " + address_ + " is closed"));
  }

  void CloseUnless(const std::function<Result<void>(const stria::Peer&)>& judge) {
    if (phase_ != Phase::kUp || !connection_->secured()) return;
    const Result<void> good = judge(*connection_->peer());
    if (!good.ok()) Lost(Unbelieved(good.error()));
  }

 private:
  enum class Phase { kIdle, kConnecting, kUp };
  // Waits for the reply to one call while it lives.
  class Registered {
   public:
    Registered(Link* link, uint64_t id, OneShot<Result<WireMessage>> result) : link_(link), id_(id) {
      link_->pending_.emplace(id, std::move(result));
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    ~Registered() { link_->pending_.erase(id_); }

   private:
    Link* link_;
    uint64_t id_;
  };

  Result<void> Send(BulkFrame frame) {
    if (state_->closed()) return Error(FsError::kUnavailable, "the client of " + address_ + " is closed");
    if (phase_ == Phase::kUp) {
      connection_->Send(std::move(frame));
      return Ok();
    }
    if (phase_ == Phase::kIdle) {
      if (state_->executor->NowNs() < not_before_ns_) return last_error_;
      Connect();
    }
    waiting_.push_back(std::move(frame));
    return Ok();
  }

  void Connect() {
    phase_ = Phase::kConnecting;
    const uint64_t generation = ++generation_;
    state_->Connect([state = state_, weak = weak_from_this(), address = address_, generation] {
      const Result<int> fd = ConnectTo(address, kConnectTimeoutMs);
      auto made = std::make_shared<NewConnection>(fd.ok() ? *fd : -1);
      Error error = fd.error();
      if (fd.ok() && state->options.aside) error = AskAside(address, made->socket.get());
      if (fd.ok() && error.ok() && state->options.tls) error = Secure(state->options, address, made.get());
      state->Tell([weak, generation, made, error] {
        const std::shared_ptr<Link> link = weak.lock();
        if (link && link->generation_ == generation) link->Connected(made.get(), error);
      });
    });
  }

  // Into an empty socket.
  static Error AskAside(const std::string& address, int fd) {
    if (send(fd, kBulkAsidePreface, kBulkPrefaceBytes, MSG_NOSIGNAL) == static_cast<ssize_t>(kBulkPrefaceBytes)) return Error();
    return Error(FsError::kUnavailable, "the connection to " + address + " broke at its beginning");
  }

  // On a thread that may wait.
  static Error Secure(const BulkClientOptions& options, const std::string& address, NewConnection* made) {
    std::optional<ExpectedPeer> expected = options.expected ? options.expected(address) : std::nullopt;
    Result<std::unique_ptr<TlsSession>> session =
        ShakeHands(made->socket.get(), options.tls->Get(), address, std::move(expected), kHandshakeTimeoutMs);
    // For the caller it is one thing: the server cannot be reached. The sentence says why.
    if (!session.ok()) return Error(FsError::kUnavailable, session.error().message);
    made->session = std::move(*session);
    return Error();
  }

  // For its callers it is one that cannot be reached.
  static Error Unbelieved(const Error& why) { return Error(FsError::kUnavailable, why.message); }

  void Connected(NewConnection* made, const Error& error) {
    if (!error.ok()) return Lost(error);
    if (made->session && state_->options.judge) {
      // From now on CloseUnless finds it, so nobody slips through between the two.
      const Result<void> good = state_->options.judge(made->session->peer());
      if (!good.ok()) return Lost(Unbelieved(good.error()));
    }
    const int fd = made->socket.Take();
    const bool secured = made->session != nullptr;
    BulkProtection protection = secured ? Protect(fd, std::move(made->session)) : Unprotected(fd);
    BulkCallbacks callbacks;
    const auto tell = [state = state_, weak = weak_from_this(), generation = generation_](auto what) {
      state->Tell([weak, generation, what = std::move(what)] {
        const std::shared_ptr<Link> link = weak.lock();
        if (link && link->generation_ == generation) what(link.get());
      });
    };
    callbacks.on_frame = [tell](BulkFrame frame) {
      tell([frame = std::move(frame)](Link* link) { link->Answered(frame); });
    };
    callbacks.on_closed = [tell](Error why) {
      tell([why = std::move(why)](Link* link) { link->Lost(why); });
    };
    connection_ = std::make_shared<BulkConnection>(loop_, fd, address_, std::move(protection), std::move(callbacks));
    loop_->Run([connection = connection_] { connection->Start(); });
    if (!secured && !state_->options.aside) connection_->SendPreface();
    phase_ = Phase::kUp;
    for (BulkFrame& frame : std::exchange(waiting_, {})) {
      // The caller waits no more: unsent bytes are not sent.
      if (pending_.contains(frame.id)) connection_->Send(std::move(frame));
    }
  }

  void Answered(const BulkFrame& frame) {
    backoff_ns_ = kReconnectFirstNs;
    const auto it = pending_.find(frame.id);
    if (it != pending_.end()) it->second.Set(frame.message);
  }

  void Lost(const Error& why) {
    Drop();
    last_error_ = why;
    not_before_ns_ = state_->executor->NowNs() + backoff_ns_;
    backoff_ns_ = std::min(2 * backoff_ns_, kReconnectMaxNs);
    FailAll(why);
  }

  void Drop() {
    ++generation_;
    phase_ = Phase::kIdle;
    waiting_.clear();
    if (!connection_) return;
    if (!state_->closed()) {
      loop_->Run([connection = connection_] { connection->Close(Error(FsError::kUnavailable, "it is not needed")); });
    }
    connection_ = nullptr;
  }

  void FailAll(const Error& why) {
    for (const auto& [id, result] : pending_) result.Set(why);
  }

  const std::shared_ptr<State> state_;
  const std::string address_;
  BulkLoop* const loop_;
  Phase phase_ = Phase::kIdle;
  uint64_t generation_ = 0;  // news of an older connection is ignored
  std::shared_ptr<BulkConnection> connection_;
  std::vector<BulkFrame> waiting_;  // for the connection
  std::map<uint64_t, OneShot<Result<WireMessage>>> pending_;
  uint64_t next_id_ = 1;
  Error last_error_;
  int64_t not_before_ns_ = INT64_MIN;
  int64_t backoff_ns_ = kReconnectFirstNs;
};

class BulkClient::Peer final : public Transport {
 public:
  Peer(const std::shared_ptr<State>& state, const std::string& address, int connections) {
    const size_t first = state->NextPlace();
    for (size_t i = 0; i < static_cast<size_t>(connections); ++i) {
      links_.push_back(std::make_shared<Link>(state, address, first + i));
    }
  }
  Task<Result<WireMessage>> Call(std::string method, WireMessage request, int64_t timeout_ns) override {
    if (request.size() > kMaxSendBytes || method.size() > kMaxBulkMethodBytes) {
      co_return Error(FsError::kBadRequest, "a message of " + std::to_string(request.size()) + " bytes is too large");
    }
    co_return co_await Link::Call(LeastBusy(), std::move(method), std::move(request), timeout_ns);
  }

 private:
  // Among idle links always the same one: threads and memory that have just been used are quicker.
  std::shared_ptr<Link> LeastBusy() const {
    return *std::min_element(links_.begin(), links_.end(), [](const auto& a, const auto& b) { return a->Burden() < b->Burden(); });
  }

  std::vector<std::shared_ptr<Link>> links_;
};

void BulkClient::State::Close() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
    news_.clear();
  }
  connectors_.reset();
  for (auto& loop : loops_) loop->Stop();
  for (Link* link : std::set<Link*>(links_)) link->Close();
}

void BulkClient::State::CloseUnless(const std::function<Result<void>(const stria::Peer&)>& judge) {
  std::vector<std::weak_ptr<Link>> links;  // who is told of the end of a call may let go of others
  for (Link* link : links_) links.push_back(link->weak_from_this());
  for (const std::weak_ptr<Link>& each : links) {
    if (const std::shared_ptr<Link> link = each.lock()) link->CloseUnless(judge);
  }
}

BulkClient::BulkClient(Executor* executor, const BulkClientOptions& options)
    : state_(std::make_shared<State>(executor, options)), connections_(options.connections_per_peer) {
  CHECK(options.connections_per_peer >= 1 && options.loops >= 1);
}

BulkClient::~BulkClient() { state_->Close(); }

void BulkClient::CloseUnless(const std::function<Result<void>(const stria::Peer&)>& judge) { state_->CloseUnless(judge); }

std::shared_ptr<Transport> BulkClient::Make(const std::string& address) {
  return std::make_shared<Peer>(state_, address, connections_);
}

}  // namespace stria
