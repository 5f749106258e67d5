#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "proto/bulk_connection.h"
#include "proto/bulk_door.h"
#include "proto/bulk_transport.h"
#include "proto/peer_shares.h"

namespace stria {
namespace {
constexpr int64_t kSentPollNs = 2 * kMillisecond;
constexpr int64_t kMinPaceLookNs = 10 * kMillisecond, kMaxPaceLookNs = 5 * kSecond;
}  // namespace

class BulkServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options)
      : executor_(executor), dispatcher_(dispatcher), options_(std::move(options)),
        shares_(options_.per_peer),
        door_(std::make_shared<BulkDoor>(executor, options_, [this](BulkArrival arrival) { Opened(std::move(arrival)); })) {}

  Result<std::string> Start(const std::string& address) {
    CHECK(loops_.empty(), "a server starts once");
    std::vector<BulkLoop*> loops;
    for (int i = 0; i < options_.loops; ++i) {
      loops_.push_back(std::make_unique<BulkLoop>("bulk-server" + std::to_string(i)));
      loops.push_back(loops_.back().get());
    }
    // Who asks to be answered aside does not wait at the door either.
    if (options_.aside) loops_.push_back(std::make_unique<BulkLoop>("bulk-door"));
    Result<std::string> bound = door_->Open(address, std::move(loops), options_.aside ? loops_.back().get() : nullptr);
    if (bound.ok()) {
      watch_.Spawn(WatchPace(this));
    } else {
      loops_.clear();
    }
    return bound;
  }

  void StartWithoutAddress() {
    CHECK(loops_.empty(), "a server starts once");
    {
      std::lock_guard<std::mutex> lock(mu_);
      for (int i = 0; i < options_.loops; ++i) loops_.push_back(std::make_unique<BulkLoop>("bulk-aside" + std::to_string(i)));
    }
    watch_.Spawn(WatchPace(this));
  }

  void Adopt(std::shared_ptr<BulkHandedOn> arrival) {
    // The loops live at least as long as this is held and nobody has stopped.
    std::lock_guard<std::mutex> lock(mu_);
    if (stopped_ || loops_.empty()) return;
    BulkLoop* const loop = loops_[adopted_++ % loops_.size()].get();
    loop->Run([self = shared_from_this(), loop, arrival = std::move(arrival)] {
      if (self->door_->Comes()) self->Opened(arrival->Take(loop));
    });
  }

  void Drain() {
    std::lock_guard<std::mutex> lock(mu_);
    draining_ = true;
  }

  void Stop() {
    Drain();
    scope_.CancelAll();
    watch_.CancelAll();
    door_->EndTasks();
    for (auto& loop : loops_) loop->Stop();
    door_->Close();
    // After the lock, which what they hold takes.
    std::map<uint64_t, std::shared_ptr<BulkConnection>> connections;
    std::vector<Waiting> inbox;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopped_ = true;
      inbox.swap(inbox_);
      connections.swap(connections_);
    }
    inbox.clear();
    connections.clear();
    loops_.clear();
  }

  // Bytes of requests, and of replies on their way.
  bool busy() {
    std::lock_guard<std::mutex> lock(mu_);
    return requests_ > 0;
  }
  TaskScope& scope() { return scope_; }

  size_t waiting() { return door_->waiting(); }

  void CloseUnless(const std::function<Result<void>(const Peer&)>& judge) {
    for (const std::shared_ptr<BulkConnection>& c : Connections()) {
      if (!c->secured()) continue;
      const Result<void> good = judge(*c->peer());
      if (!good.ok()) CloseSoon(c, good.error());
    }
  }

 private:
  // What is known of a connection beside its bytes.
  struct Guest {
    uint64_t id = 0;  // in shares_
    std::weak_ptr<BulkConnection> connection;
    Error refusal;  // of its last request that was not admitted; the loop's thread
  };

  std::vector<std::shared_ptr<BulkConnection>> Connections() {
    std::vector<std::shared_ptr<BulkConnection>> all;
    std::lock_guard<std::mutex> lock(mu_);
    if (stopped_) return all;
    for (const auto& [id, c] : connections_) all.push_back(c);
    return all;
  }

  static void CloseSoon(const std::shared_ptr<BulkConnection>& c, const Error& why) {
    c->loop()->Run([c, why] { c->Close(why); });
  }

  // Executor's thread; ends with watch_.
  static Task<void> WatchPace(State* state) {
    const PeerLimits& limits = state->options_.per_peer;
    const BulkPace pace = {limits.frame_ns, limits.unread_ns};
    const int64_t look_ns = std::clamp(std::min(pace.frame_ns, pace.unread_ns) / 4, kMinPaceLookNs, kMaxPaceLookNs);
    while (true) {
      co_await Sleep(look_ns);
      std::map<BulkLoop*, std::vector<std::shared_ptr<BulkConnection>>> by_loop;
      for (std::shared_ptr<BulkConnection>& c : state->Connections()) by_loop[c->loop()].push_back(std::move(c));
      const int64_t now_ns = state->executor_->NowNs();
      for (auto& [loop, mine] : by_loop) {
        loop->Run([mine = std::move(mine), now_ns, pace] {
          for (const std::shared_ptr<BulkConnection>& c : mine) c->KeepPace(now_ns, pace);
        });
      }
    }
  }

  void Tell(const std::string& who, const Error& why) {
    door_->Gone();
    if (options_.refused) options_.refused(Error(why.code, who + " was refused: " + why.message));
  }

  // On its loop's thread.
  void Opened(BulkArrival arrival) {
    const std::shared_ptr<const Peer> peer = arrival.protection.peer;
    const std::string who = peer ? peer->ToString() : "a client";
    const auto guest = std::make_shared<Guest>();
    BulkCallbacks callbacks;
    callbacks.admit = [this, guest](uint64_t bytes) { return Admit(guest, bytes); };
    callbacks.on_frame = [this, guest](BulkFrame frame) { Take(guest, std::move(frame)); };
    callbacks.on_closed = [this, guest](const Error&) {
      door_->Gone();
      std::shared_ptr<BulkConnection> closed;  // goes after the lock
      std::lock_guard<std::mutex> lock(mu_);
      shares_.Close(guest->id);
      if (auto node = connections_.extract(guest->id)) closed = std::move(node.mapped());
    };
    auto connection = std::make_shared<BulkConnection>(arrival.loop, arrival.fd, who, std::move(arrival.protection), std::move(callbacks));
    std::shared_ptr<BulkConnection> makes_room;
    Error refusal;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (stopped_) return;
      const Result<PeerShares::Opened> opened = shares_.Open(PeerShareKey(peer.get(), arrival.address));
      refusal = opened.error();
      if (opened.ok()) {
        guest->id = opened->id;
        guest->connection = connection;
        connections_.emplace(opened->id, connection);
        if (opened->to_close) {
          const auto it = connections_.find(*opened->to_close);
          if (it != connections_.end()) makes_room = it->second;
        }
      }
    }
    if (!refusal.ok()) return Tell(who, refusal);
    if (makes_room) CloseSoon(makes_room, Error(FsError::kRetryLater, who + " has too many connections"));
    // It may have been put out since its handshake was judged. From now on CloseUnless finds it, so nobody slips through between the two.
    const Result<void> good = connection->secured() && options_.judge ? options_.judge(*peer) : Ok();
    if (!good.ok()) {
      connection->Close(good.error());
      if (options_.refused) options_.refused(Error(FsError::kAccess, who + " was refused: " + good.error().message));
      return;
    }
    connection->Start();
  }

  // The memory that a request or reply takes while it lives, of the server's and of its peer's.
  class Share final : public BulkAdmission {
   public:
    Share(std::shared_ptr<State> state, std::shared_ptr<Guest> guest, size_t requests, uint64_t bytes)
        : state_(std::move(state)), guest_(std::move(guest)), requests_(requests), bytes_(bytes) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() override {
      std::lock_guard<std::mutex> lock(state_->mu_);
      state_->requests_ -= requests_;
      state_->bytes_ -= bytes_;
      state_->shares_.End(guest_->id, requests_, bytes_);
    }
    bool Grow(uint64_t bytes) override {
      std::lock_guard<std::mutex> lock(state_->mu_);
      Result<void> room = state_->RoomFor(bytes);
      if (room.ok()) room = state_->shares_.Grow(guest_->id, bytes);
      guest_->refusal = room.error();
      if (!room.ok()) return false;
      state_->bytes_ += bytes;
      bytes_ += bytes;
      return true;
    }

   private:
    const std::shared_ptr<State> state_;
    const std::shared_ptr<Guest> guest_;
    const size_t requests_;
    uint64_t bytes_;
  };
  friend class Share;

  // With mu_ held.
  Result<void> RoomFor(uint64_t bytes) const {
    if (bytes_ <= options_.max_request_bytes && bytes <= options_.max_request_bytes - bytes_) return Ok();
    return Error(FsError::kRetryLater, "the server has too much to do");
  }

  std::shared_ptr<BulkAdmission> Admit(const std::shared_ptr<Guest>& guest, uint64_t bytes) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      Result<void> room = RoomFor(bytes);
      if (requests_ >= options_.max_requests) room = Error(FsError::kRetryLater, "the server has too much to do");
      if (room.ok()) room = shares_.Begin(guest->id, bytes);
      if (!room.ok()) {
        guest->refusal = room.error();
        return nullptr;
      }
      ++requests_;
      bytes_ += bytes;
    }
    return std::make_shared<Share>(shared_from_this(), guest, 1, bytes);
  }

  // A reply to a request that was not admitted is small, but nothing else bounds how many of them wait for a peer that does not read.
  class Refusal {
   public:
    Refusal(std::shared_ptr<State> state, uint64_t id) : state_(std::move(state)), id_(id) {}
    Refusal(const Refusal&) = delete;
    Refusal& operator=(const Refusal&) = delete;
    ~Refusal() {
      std::lock_guard<std::mutex> lock(state_->mu_);
      state_->shares_.EndRefusal(id_);
    }

   private:
    const std::shared_ptr<State> state_;
    const uint64_t id_;
  };

  void Refuse(const std::shared_ptr<BulkConnection>& connection, uint64_t guest, uint64_t call, const Error& why) {
    bool counted;
    {
      std::lock_guard<std::mutex> lock(mu_);
      counted = shares_.Refuse(guest);
    }
    if (!counted) return CloseSoon(connection, Error(FsError::kRetryLater, "it asks for more than it takes"));
    Reply(connection.get(), call, EncodeError(why), std::make_shared<Refusal>(shared_from_this(), guest));
  }

  struct Waiting {
    std::shared_ptr<Guest> guest;
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
  void Take(const std::shared_ptr<Guest>& guest, BulkFrame frame) {
    std::shared_ptr<BulkConnection> connection = guest->connection.lock();
    if (!connection || frame.kind != BulkKind::kRequest) return;
    frame.message.arrived_ns = executor_->NowNs();
    if (options_.wake) options_.wake->Note(frame.message.arrived_ns);
    if (frame.refused) return Refuse(connection, guest->id, frame.id, guest->refusal);
    bool post = false;
    bool stopping;
    {
      std::lock_guard<std::mutex> lock(mu_);
      stopping = draining_;
      if (!stopping) {
        inbox_.push_back({guest, connection, std::move(frame)});
        post = !std::exchange(posted_, true);
      }
    }
    if (stopping) {
      Refuse(connection, guest->id, frame.id, Error(FsError::kUnavailable, "the server is stopping"));
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
    // What came with it may have brought replies that nobody takes.
    const Result<void> good = state->MayBeServed(*call.guest);
    Result<WireMessage> reply = WireMessage();
    if (!good.ok()) {
      reply = good.error();
    } else {
      reply = co_await state->dispatcher_->Handle(call.connection->peer(), std::move(call.frame.method), std::move(call.frame.message));
    }
    WireMessage message = reply.ok() ? std::move(*reply) : EncodeError(reply.error());
    Reply(call.connection.get(), id, std::move(message), state->Occupy(call.guest, message.size(), admission));
  }

  Result<void> MayBeServed(const Guest& guest) {
    std::lock_guard<std::mutex> lock(mu_);
    return shares_.MayBeServed(guest.id);
  }

  // The reply's bytes, and with them the request, until they are sent.
  std::shared_ptr<void> Occupy(const std::shared_ptr<Guest>& guest, uint64_t bytes, std::shared_ptr<void> admission) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      bytes_ += bytes;
      shares_.Reply(guest->id, bytes);
    }
    auto share = std::make_shared<Share>(shared_from_this(), guest, 0, bytes);
    return std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(std::move(share),
                                                                                     std::move(admission));
  }

  Executor* const executor_;
  Dispatcher* const dispatcher_;
  const BulkServerOptions options_;
  std::mutex mu_;
  PeerShares shares_;  // guarded by mu_
  const std::shared_ptr<BulkDoor> door_;
  std::vector<std::unique_ptr<BulkLoop>> loops_;
  std::map<uint64_t, std::shared_ptr<BulkConnection>> connections_;  // guarded by mu_; by their ids in shares_
  size_t adopted_ = 0;                                     // guarded by mu_
  std::vector<Waiting> inbox_;                             // guarded by mu_
  bool posted_ = false;                                    // guarded by mu_
  bool draining_ = false;                                  // guarded by mu_
  bool stopped_ = false;                                   // guarded by mu_
  size_t requests_ = 0;                                    // guarded by mu_
  uint64_t bytes_ = 0;                                     // guarded by mu_
  TaskScope scope_, watch_;
};

BulkServer::BulkServer(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options)
    : state_(std::make_shared<State>(executor, dispatcher, std::move(options))) {}

BulkServer::~BulkServer() { state_->Stop(); }

Result<std::string> BulkServer::Start(const std::string& address) { return state_->Start(address); }

void BulkServer::StartWithoutAddress() { state_->StartWithoutAddress(); }
void BulkServer::Adopt(std::shared_ptr<BulkHandedOn> arrival) { state_->Adopt(std::move(arrival)); }

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
size_t BulkServer::waiting() const { return state_->waiting(); }
size_t BulkServer::running() const { return state_->scope().running(); }
void BulkServer::CloseUnless(const std::function<Result<void>(const Peer&)>& judge) { state_->CloseUnless(judge); }

}  // namespace stria
