#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "common/exec/pool.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_connection.h"
#include "proto/bulk_transport.h"
#include "proto/socket_address.h"

namespace stria {
namespace {
constexpr int64_t kSentPollNs = 2 * kMillisecond;
constexpr int64_t kDoorLookNs = 250 * kMillisecond;
constexpr int kHandshakeThreads = 1;  // a handshake takes less than a millisecond; what is left of the machine is for those who are known
constexpr size_t kHandshakePiece = 4 * kKiB;

// "10.0.0.7:40112", "[fd00::7]:40112"; of a Unix socket "a local process".
std::string AddressOf(const sockaddr_storage& a) {
  char text[INET6_ADDRSTRLEN] = "";
  if (a.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(a);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (a.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(a);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return "a local process";
}
}  // namespace

class BulkServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options)
      : executor_(executor), dispatcher_(dispatcher), options_(std::move(options)), door_(options_.door) {}

  Result<std::string> Start(const std::string& address) {
    CHECK(loops_.empty(), "a server starts once");
    std::string bound;
    ASSIGN_OR_RETURN(const int fd, ListenOn(address, &bound));
    for (int i = 0; i < options_.loops; ++i) {
      loops_.push_back(std::make_unique<BulkLoop>("bulk-server" + std::to_string(i)));
    }
    if (options_.tls) {
      handshakes_ = std::make_unique<ThreadPool>(kHandshakeThreads, "handshake");
      watch_.Spawn(WatchDoor(this));
    }
    auto listener = std::make_shared<Listener>(this, fd);
    loops_[0]->Run([loop = loops_[0].get(), fd, listener] { loop->Watch(fd, listener); });
    if (address.starts_with("unix:")) socket_path_ = address.substr(strlen("unix:"));
    return bound;
  }

  void Drain() {
    std::lock_guard<std::mutex> lock(mu_);
    draining_ = true;
  }

  void Stop() {
    Drain();
    scope_.CancelAll();
    watch_.CancelAll();
    for (auto& loop : loops_) loop->Stop();
    handshakes_.reset();  // what it does is told to loops, which take no more
    std::set<std::shared_ptr<BulkConnection>> connections;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopped_ = true;
      inbox_.clear();
      connections.swap(connections_);
      shakers_.clear();
    }
    connections.clear();
    loops_.clear();
    if (!socket_path_.empty()) (void)unlink(std::exchange(socket_path_, "").c_str());
  }

  // Bytes of requests, and of replies on their way.
  bool busy() {
    std::lock_guard<std::mutex> lock(mu_);
    return requests_ > 0;
  }
  TaskScope& scope() { return scope_; }

  void CloseUnless(const std::function<Result<void>(const Peer&)>& judge) {
    std::set<std::shared_ptr<BulkConnection>> all;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stopped_) return;
      all = connections_;
    }
    for (const std::shared_ptr<BulkConnection>& c : all) {
      if (!c->peer()) continue;
      const Result<void> good = judge(*c->peer());
      if (!good.ok()) c->loop()->Run([c, why = good.error()] { c->Close(why); });
    }
  }

 private:
  // Accepts connections.
  class Listener final : public BulkLoop::Watcher {
   public:
    Listener(State* state, int fd) : state_(state), fd_(fd) {}
    ~Listener() override {
      close(fd_);
      if (spare_ >= 0) close(spare_);
    }
    void OnReady(bool, bool, bool) override {
      while (true) {
        sockaddr_storage from = {};
        socklen_t size = sizeof from;
        const int fd = accept4(fd_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
          state_->Accepted(fd, from);
        } else if (errno == EMFILE || errno == ENFILE) {
          if (!Refuse()) return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
          return;
        }
      }
    }

   private:
    static int Spare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
    // No descriptor is left: the new connection is closed at once, so that its client need not wait. False if that was not
    // possible either.
    bool Refuse() {
      if (spare_ < 0) return false;
      close(spare_);
      const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) close(fd);
      spare_ = Spare();
      return fd >= 0;
    }

    State* const state_;  // outlives the loops
    const int fd_;
    int spare_ = Spare();  // for Refuse
  };

  // Looks at a connection's first bytes, without taking them.
  class Greeter final : public BulkLoop::Watcher {
   public:
    Greeter(State* state, BulkLoop* loop, int fd) : state_(state), loop_(loop), fd_(fd) {}
    ~Greeter() override {
      if (fd_ < 0) return;
      close(fd_);
      --state_->open_connections_;
    }
    void OnReady(bool, bool, bool ended) override {
      char bytes[kBulkPrefaceBytes];
      const ssize_t n = recv(fd_, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
      const bool ours = n > 0 && memcmp(bytes, kBulkPreface, static_cast<size_t>(n)) == 0;
      const bool torn = ours && static_cast<size_t>(n) < sizeof bytes;
      if (torn && !ended) return;  // the rest is to come
      loop_->Forget(fd_);
      if (n <= 0 || torn) return;
      if (ours) {
        (void)!read(fd_, bytes, sizeof bytes);
        state_->Greeted(loop_, std::exchange(fd_, -1));
      } else if (state_->options_.other) {
        --state_->open_connections_;
        state_->options_.other(std::exchange(fd_, -1));
      }
    }

   private:
    State* const state_;
    BulkLoop* const loop_;
    int fd_;
  };

  // Shakes hands with one who came. All on its loop's thread but for the handshake itself, which has the session meanwhile.
  class Shaker final : public BulkLoop::Watcher, public std::enable_shared_from_this<Shaker> {
   public:
    Shaker(State* state, BulkLoop* loop, int fd, uint64_t id, std::string address)
        : state_(state), loop_(loop), fd_(fd), id_(id), address_(std::move(address)) {}
    ~Shaker() override {
      if (fd_ < 0) return;
      close(fd_);
      --state_->open_connections_;
    }
    void Start() {
      if (!over_) loop_->Watch(fd_, shared_from_this());
      watched_ = !over_;
    }
    void OnReady(bool, bool, bool) override { Read(); }
    BulkLoop* loop() const { return loop_; }
    const std::string& address() const { return address_; }
    // It has to go.
    void End(const Error& why) {
      if (std::exchange(over_, true)) return;
      if (watched_) loop_->Forget(fd_);
      // What was sent last, the reason, is to arrive: closing with something unread would reset the connection.
      char rest[kHandshakePiece];
      while (recv(fd_, rest, sizeof rest, MSG_DONTWAIT) > 0 && (drained_ += sizeof rest) < kMaxDrained) {
      }
      shutdown(fd_, SHUT_RDWR);
      state_->Left(id_);
      if (state_->options_.refused && !why.ok()) state_->options_.refused(why);
    }

   private:
    static constexpr size_t kMaxDrained = 64 * kKiB;

    void Read() {
      if (busy_ || over_) return;
      std::string in(kHandshakePiece, '\0');
      ssize_t n;
      do {
        n = recv(fd_, in.data(), in.size(), MSG_DONTWAIT);
      } while (n < 0 && errno == EINTR);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return End(Error(FsError::kUnavailable, "the peer at " + address_ + " went away before it had said who it is"));
      in.resize(static_cast<size_t>(n));
      const Result<void> admitted = state_->Sent(id_, in.size());
      if (!admitted.ok()) return End(Error(FsError::kAccess, "the peer at " + address_ + " was refused: " + admitted.error().message));
      busy_ = true;
      state_->handshakes_->Submit([self = shared_from_this(), in = std::move(in)] {
        // Made here: the context of now, and nothing is spent on who says nothing.
        if (!self->session_) self->session_ = std::make_unique<TlsSession>(self->state_->options_.tls->Get(), self->address_);
        std::string out;
        const TlsSession::Step step = self->session_->Handshake(in, &out);
        self->loop_->Run([self, step, out = std::move(out)] { self->Went(step, out); });
      });
    }

    void Went(TlsSession::Step step, const std::string& out) {
      busy_ = false;
      if (over_) return;
      // A few KiB, into an empty socket.
      const bool sent = out.empty() || send(fd_, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(out.size());
      if (step == TlsSession::Step::kFailed) return End(session_->error());
      if (!sent) return End(Error(FsError::kUnavailable, "the peer at " + address_ + " went away in its handshake"));
      if (step == TlsSession::Step::kMore) return Read();
      if (session_->joining()) return End(Error(FsError::kAccess, "the peer at " + address_ + " was refused: nobody joins here"));
      over_ = true;
      loop_->Forget(fd_);
      state_->Left(id_);
      const int fd = std::exchange(fd_, -1);
      state_->Opened(loop_, fd, Protect(fd, std::move(session_)));
    }

    State* const state_;  // outlives it
    BulkLoop* const loop_;
    int fd_;
    const uint64_t id_;
    const std::string address_;
    std::unique_ptr<TlsSession> session_;  // of the pool while busy_
    bool busy_ = false, over_ = false, watched_ = false;
    size_t drained_ = 0;
  };

  // On the first loop's thread.
  void Accepted(int fd, const sockaddr_storage& from) {
    if (++open_connections_ > options_.max_connections) {
      --open_connections_;
      close(fd);
      return;
    }
    TuneSocket(fd);
    BulkLoop* loop = loops_[next_loop_++ % loops_.size()].get();
    if (options_.tls) return AtTheDoor(loop, fd, AddressOf(from));
    auto greeter = std::make_shared<Greeter>(this, loop, fd);
    loop->Run([loop, fd, greeter] { loop->Watch(fd, greeter); });
  }

  void AtTheDoor(BulkLoop* loop, int fd, const std::string& address) {
    std::shared_ptr<Shaker> shaker, sent_away;
    Error refusal;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const Result<Doorman::Arrival> arrival = door_.Arrive(address, executor_->NowNs());
      if (arrival.ok()) {
        shaker = std::make_shared<Shaker>(this, loop, fd, arrival->id, address);
        shakers_.emplace(arrival->id, shaker);
        if (arrival->sent_away) sent_away = TakeShaker(*arrival->sent_away);
      } else {
        refusal = arrival.error();
      }
    }
    if (sent_away) SendAway(sent_away, "others wait that have fewer connections");
    if (!shaker) {
      --open_connections_;
      close(fd);
      if (options_.refused) options_.refused(Error(refusal.code, "the peer at " + address + " was refused: " + refusal.message));
      return;
    }
    loop->Run([shaker] { shaker->Start(); });
  }

  // With mu_ held.
  std::shared_ptr<Shaker> TakeShaker(uint64_t id) {
    const auto it = shakers_.find(id);
    if (it == shakers_.end()) return nullptr;
    std::shared_ptr<Shaker> out = std::move(it->second);
    shakers_.erase(it);
    return out;
  }

  static void SendAway(const std::shared_ptr<Shaker>& shaker, const std::string& why) {
    shaker->loop()->Run([shaker, why] { shaker->End(Error(FsError::kDeadline, "the peer at " + shaker->address() + " was sent away: " + why)); });
  }

  Result<void> Sent(uint64_t id, size_t bytes) {
    std::lock_guard<std::mutex> lock(mu_);
    return door_.Sent(id, bytes);
  }
  void Left(uint64_t id) {
    std::shared_ptr<Shaker> gone;  // after the lock
    std::lock_guard<std::mutex> lock(mu_);
    door_.Leave(id);
    gone = TakeShaker(id);
  }

  // Executor's thread; ends with watch_.
  static Task<void> WatchDoor(State* state) {
    while (true) {
      co_await Sleep(kDoorLookNs);
      std::vector<std::shared_ptr<Shaker>> late;
      {
        std::lock_guard<std::mutex> lock(state->mu_);
        for (const uint64_t id : state->door_.TakeOverdue(state->executor_->NowNs())) late.push_back(state->TakeShaker(id));
      }
      for (const std::shared_ptr<Shaker>& shaker : late) {
        if (shaker) SendAway(shaker, "it took too long to say who it is");
      }
    }
  }

  void Greeted(BulkLoop* loop, int fd) { Opened(loop, fd, Unprotected(fd)); }

  void Opened(BulkLoop* loop, int fd, BulkProtection protection) {
    BulkCallbacks callbacks;
    auto self = std::make_shared<std::weak_ptr<BulkConnection>>();
    callbacks.admit = [this](uint64_t bytes) { return Admit(bytes); };
    callbacks.on_frame = [this, self](BulkFrame frame) { Take(self->lock(), std::move(frame)); };
    callbacks.on_closed = [this, self](const Error&) {
      --open_connections_;
      const std::shared_ptr<BulkConnection> closed = self->lock();  // goes after the lock
      std::lock_guard<std::mutex> lock(mu_);
      connections_.erase(closed);
    };
    const std::string who = protection.peer ? protection.peer->ToString() : "a client";
    auto connection = std::make_shared<BulkConnection>(loop, fd, who, std::move(protection), std::move(callbacks));
    *self = connection;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stopped_) return;
      connections_.insert(connection);
    }
    connection->Start();
  }

  // The memory that a request or reply takes while it lives.
  class Share {
   public:
    Share(std::shared_ptr<State> state, size_t requests, uint64_t bytes)
        : state_(std::move(state)), requests_(requests), bytes_(bytes) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() {
      std::lock_guard<std::mutex> lock(state_->mu_);
      state_->requests_ -= requests_;
      state_->bytes_ -= bytes_;
    }

   private:
    std::shared_ptr<State> state_;
    const size_t requests_;
    const uint64_t bytes_;
  };

  std::shared_ptr<void> Admit(uint64_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (requests_ >= options_.max_requests || bytes_ + bytes > options_.max_request_bytes) return nullptr;
      ++requests_;
      bytes_ += bytes;
    }
    return std::make_shared<Share>(shared_from_this(), 1, bytes);
  }

  struct Waiting {
    std::shared_ptr<BulkConnection> connection;
    BulkFrame frame;
  };

  static void Reply(BulkConnection* connection, uint64_t id, WireMessage message, std::shared_ptr<void> keep) {
    BulkFrame reply;
    reply.kind = BulkKind::kReply;
    reply.id = id;
    reply.message = std::move(message);
    connection->Send(std::move(reply), std::move(keep));
  }

  // On a loop's thread.
  void Take(std::shared_ptr<BulkConnection> connection, BulkFrame frame) {
    if (!connection || frame.kind != BulkKind::kRequest) return;
    if (options_.wake) options_.wake->Note(executor_->NowNs());
    if (frame.refused) {
      return Reply(connection.get(), frame.id,
                   EncodeError(Error(FsError::kRetryLater, "the server has too much to do")), nullptr);
    }
    bool post = false;
    bool stopping;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopping = draining_;
      if (!stopping) {
        inbox_.push_back({connection, std::move(frame)});
        post = !std::exchange(posted_, true);
      }
    }
    if (stopping) {
      Reply(connection.get(), frame.id, EncodeError(Error(FsError::kUnavailable, "the server is stopping")), nullptr);
    } else if (post) {
      executor_->PostOrRun([self = shared_from_this()] { self->TakeInbox(); });
    }
  }

  void TakeInbox() {
    std::vector<Waiting> calls;
    {
      std::lock_guard<std::mutex> lock(mu_);
      calls.swap(inbox_);
      posted_ = false;
      if (stopped_) return;
    }
    for (Waiting& call : calls) scope_.Spawn(Serve(this, std::move(call)));
  }

  // In scope_, so `state` lives longer.
  static Task<void> Serve(State* state, Waiting call) {
    const uint64_t id = call.frame.id;
    const std::shared_ptr<void> admission = std::move(call.frame.admission);
    Result<WireMessage> reply =
        co_await state->dispatcher_->Handle(call.connection->peer(), std::move(call.frame.method), std::move(call.frame.message));
    WireMessage message = reply.ok() ? std::move(*reply) : EncodeError(reply.error());
    Reply(call.connection.get(), id, std::move(message), state->Occupy(message.size(), admission));
  }

  // The reply's bytes, and with them the request, until they are sent.
  std::shared_ptr<void> Occupy(uint64_t bytes, std::shared_ptr<void> admission) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      bytes_ += bytes;
    }
    auto share = std::make_shared<Share>(shared_from_this(), 0, bytes);
    return std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(std::move(share),
                                                                                     std::move(admission));
  }

  Executor* const executor_;
  Dispatcher* const dispatcher_;
  const BulkServerOptions options_;
  std::string socket_path_;
  std::vector<std::unique_ptr<BulkLoop>> loops_;
  size_t next_loop_ = 0;  // the first loop's thread
  std::atomic<size_t> open_connections_{0};
  std::mutex mu_;
  std::set<std::shared_ptr<BulkConnection>> connections_;  // guarded by mu_
  std::vector<Waiting> inbox_;                             // guarded by mu_
  bool posted_ = false;                                    // guarded by mu_
  bool draining_ = false;                                  // guarded by mu_
  bool stopped_ = false;                                   // guarded by mu_
  size_t requests_ = 0;                                    // guarded by mu_
  uint64_t bytes_ = 0;                                     // guarded by mu_
  Doorman door_;                                           // guarded by mu_
  std::map<uint64_t, std::shared_ptr<Shaker>> shakers_;    // guarded by mu_
  std::unique_ptr<ThreadPool> handshakes_;
  TaskScope scope_, watch_;
};

BulkServer::BulkServer(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options)
    : state_(std::make_shared<State>(executor, dispatcher, std::move(options))) {}

BulkServer::~BulkServer() { state_->Stop(); }

Result<std::string> BulkServer::Start(const std::string& address) { return state_->Start(address); }

Task<void> BulkServer::Shutdown(int64_t grace_ns) {
  state_->Drain();
  const int64_t until_ns = Executor::Current().NowNs() + grace_ns;
  (void)co_await WithTimeout(grace_ns, [](TaskScope& scope) -> Task<bool> {
    co_await scope.Join();
    co_return true;
  }(state_->scope()));
  while (state_->busy() && Executor::Current().NowNs() < until_ns) co_await Sleep(kSentPollNs);
  Executor::Current().EndHelp();  // the loops' threads are waited for
  while (!Executor::Current().OnOwnThread()) co_await Yield();
  state_->Stop();
}

void BulkServer::Stop() { state_->Stop(); }
size_t BulkServer::running() const { return state_->scope().running(); }
void BulkServer::CloseUnless(const std::function<Result<void>(const Peer&)>& judge) { state_->CloseUnless(judge); }

}  // namespace stria
