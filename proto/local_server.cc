#include "proto/local_server.h"

#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "proto/bulk_loop.h"
#include "proto/local_wire.h"

namespace stria {

class LocalServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, LocalShards* shards) : executor_(executor), shards_(shards) {}

  bool Start(const std::string& address) {
    const int fd = ListenLocal(address);
    if (fd < 0) return false;
    loop_ = std::make_unique<BulkLoop>("local-server");
    auto listener = std::make_shared<Listener>(this, fd);
    loop_->Run([loop = loop_.get(), fd, listener] { loop->Watch(fd, listener); });
    return true;
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopped_ = true;
      inbox_.clear();
    }
    scope_.CancelAll();
    if (loop_) loop_->Stop();
    loop_ = nullptr;
  }

 private:
  // One reader.
  class Connection final : public BulkLoop::Watcher, public std::enable_shared_from_this<Connection> {
   public:
    Connection(State* state, UniqueFd fd) : state_(state), fd_(std::move(fd)) { ++state_->connections_; }
    ~Connection() override { --state_->connections_; }
    int fd() const { return fd_.get(); }
    void OnReady(bool, bool, bool) override {
      while (true) {
        std::string packet;
        UniqueFd passed;  // not wanted
        const Got got = ReceivePacket(fd_.get(), &packet, &passed);
        if (got == Got::kNothingYet) return;
        std::optional<LocalAsk> ask = got == Got::kPacket ? DecodeLocalAsk(packet) : std::nullopt;
        if (!ask) return state_->loop_->Forget(fd_.get());
        state_->Take(shared_from_this(), std::move(*ask));
      }
    }
    void Answer(const LocalAnswer& answer, int file) {
      // A reader that does not take its answers is of no interest: its end makes the loop forget it.
      if (!SendPacket(fd_.get(), EncodeLocal(answer), file)) shutdown(fd_.get(), SHUT_RDWR);
    }

   private:
    State* const state_;  // its loop, and the tasks in its scope, end before it
    const UniqueFd fd_;
  };

  class Listener final : public BulkLoop::Watcher {
   public:
    Listener(State* state, int fd) : state_(state), fd_(fd) {}
    void OnReady(bool, bool, bool) override {
      while (true) {
        UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!fd.ok()) return;
        if (state_->connections_ >= kMaxLocalConnections || !IsTrustedPeer(fd.get())) continue;
        auto connection = std::make_shared<Connection>(state_, std::move(fd));
        state_->loop_->Watch(connection->fd(), connection);
      }
    }

   private:
    State* const state_;
    const UniqueFd fd_;
  };

  struct Waiting {
    std::shared_ptr<Connection> connection;
    LocalAsk ask;
  };

  // On the loop's thread.
  void Take(std::shared_ptr<Connection> connection, LocalAsk ask) {
    bool post;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stopped_) return;
      inbox_.push_back({std::move(connection), std::move(ask)});
      post = !std::exchange(posted_, true);
    }
    if (post) executor_->Post([self = shared_from_this()] { self->TakeInbox(); });
  }

  void TakeInbox() {
    std::vector<Waiting> asks;
    {
      std::lock_guard<std::mutex> lock(mu_);
      asks.swap(inbox_);
      posted_ = false;
      if (stopped_) return;
    }
    for (Waiting& w : asks) {
      if (scope_.running() < kMaxLocalAsks) {
        scope_.Spawn(Serve(this, std::move(w)));
      } else {
        w.connection->Answer({w.ask.id, FsError::kRetryLater, 0, {}}, -1);
      }
    }
  }

  static Task<void> Serve(State* state, Waiting w) {
    Result<LocalShard> shard = co_await state->shards_->OpenLocal(w.ask.shard, w.ask.target, std::move(w.ask.token));
    if (shard.ok()) {
      w.connection->Answer({w.ask.id, FsError::kOk, shard->length, shard->crcs}, shard->file->get());
    } else {
      w.connection->Answer({w.ask.id, shard.code(), 0, {}}, -1);
    }
  }

  Executor* const executor_;
  LocalShards* const shards_;
  std::atomic<size_t> connections_{0};
  std::unique_ptr<BulkLoop> loop_;
  std::mutex mu_;
  std::vector<Waiting> inbox_;  // guarded by mu_
  bool posted_ = false;         // guarded by mu_
  bool stopped_ = false;        // guarded by mu_
  TaskScope scope_;
};

LocalServer::LocalServer(Executor* executor, LocalShards* shards)
    : state_(std::make_shared<State>(executor, shards)) {}
LocalServer::~LocalServer() { state_->Stop(); }
bool LocalServer::Start(const std::string& address) { return state_->Start(address); }
void LocalServer::Stop() { state_->Stop(); }

}  // namespace stria
