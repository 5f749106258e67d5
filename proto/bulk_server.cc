#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "proto/bulk_connection.h"
#include "proto/bulk_door.h"
#include "proto/bulk_transport.h"

namespace stria {
namespace {
constexpr int64_t kSentPollNs = 2 * kMillisecond;
}  // namespace

class BulkServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options)
      : executor_(executor), dispatcher_(dispatcher), options_(std::move(options)),
        door_(std::make_shared<BulkDoor>(executor, options_, [this](BulkArrival arrival) { Opened(std::move(arrival)); })) {}

  Result<std::string> Start(const std::string& address) {
    CHECK(loops_.empty(), "a server starts once");
    std::vector<BulkLoop*> loops;
    for (int i = 0; i < options_.loops; ++i) {
      loops_.push_back(std::make_unique<BulkLoop>("bulk-server" + std::to_string(i)));
      loops.push_back(loops_.back().get());
    }
    Result<std::string> bound = door_->Open(address, std::move(loops));
    if (!bound.ok()) loops_.clear();
    return bound;
  }

  void Drain() {
    std::lock_guard<std::mutex> lock(mu_);
    draining_ = true;
  }

  void Stop() {
    Drain();
    scope_.CancelAll();
    door_->EndTasks();
    for (auto& loop : loops_) loop->Stop();
    door_->Close();
    std::set<std::shared_ptr<BulkConnection>> connections;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopped_ = true;
      inbox_.clear();
      connections.swap(connections_);
    }
    connections.clear();
    loops_.clear();
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
  void Opened(BulkArrival arrival) {
    BulkCallbacks callbacks;
    auto self = std::make_shared<std::weak_ptr<BulkConnection>>();
    callbacks.admit = [this](uint64_t bytes) { return Admit(bytes); };
    callbacks.on_frame = [this, self](BulkFrame frame) { Take(self->lock(), std::move(frame)); };
    callbacks.on_closed = [this, self](const Error&) {
      door_->Gone();
      const std::shared_ptr<BulkConnection> closed = self->lock();  // goes after the lock
      std::lock_guard<std::mutex> lock(mu_);
      connections_.erase(closed);
    };
    const std::string who = arrival.protection.peer ? arrival.protection.peer->ToString() : "a client";
    auto connection = std::make_shared<BulkConnection>(arrival.loop, arrival.fd, who, std::move(arrival.protection), std::move(callbacks));
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
  const std::shared_ptr<BulkDoor> door_;
  std::vector<std::unique_ptr<BulkLoop>> loops_;
  std::mutex mu_;
  std::set<std::shared_ptr<BulkConnection>> connections_;  // guarded by mu_
  std::vector<Waiting> inbox_;                             // guarded by mu_
  bool posted_ = false;                                    // guarded by mu_
  bool draining_ = false;                                  // guarded by mu_
  bool stopped_ = false;                                   // guarded by mu_
  size_t requests_ = 0;                                    // guarded by mu_
  uint64_t bytes_ = 0;                                     // guarded by mu_
  TaskScope scope_;
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
