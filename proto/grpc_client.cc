#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "proto/grpc_bytes.h"
#include "proto/grpc_tuning.h"
#include "proto/grpc_transport.h"

namespace stria {
namespace {

struct ClientCall {
  explicit ClientCall(std::string peer_address) : address(std::move(peer_address)) {}
  const std::string address;
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer reply;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  std::optional<Result<WireMessage>> outcome;  // set by the poller, before it hands over
  OneShot<Result<WireMessage>> result;         // executor's thread
};

// Ends the call if the coroutine that awaits it is destroyed.
class CancelGuard {
 public:
  explicit CancelGuard(std::shared_ptr<ClientCall> call) : call_(std::move(call)) {}
  CancelGuard(const CancelGuard&) = delete;
  CancelGuard& operator=(const CancelGuard&) = delete;
  ~CancelGuard() {
    if (call_) call_->context.TryCancel();
  }
  void Done() { call_ = nullptr; }

 private:
  std::shared_ptr<ClientCall> call_;
};

grpc::ChannelArguments ChannelArgs() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxGrpcMessageBytes);
  args.SetMaxSendMessageSize(kMaxGrpcMessageBytes);
  // Channels to one address would share a connection otherwise.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  args.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kReconnectMaxMs);  // else a server that moved is looked for after 30 s
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // no limit
  // Retries, service configs and proxies are not for a cluster's inside.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttp2FrameBytes);
  args.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kHttp2LookaheadBytes);
  args.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  args.SetInt(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, kMinReadChunkBytes);
  args.SetInt(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadChunkBytes);
  return args;
}

}  // namespace

// Shared by the client, its transports, and calls under way.
class GrpcClient::State : public std::enable_shared_from_this<State> {
 public:
  explicit State(Executor* executor) : executor_(executor) {}

  void StartPollers(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { PollLoop(); });
  }

  // False if the client is gone.
  bool Begin(const std::shared_ptr<ClientCall>& call, grpc::GenericStub* stub, const std::string& method) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (closed_) return false;
      under_way_[call.get()] = call;
    }
    // Only ~GrpcClient shuts the queue down, on this thread.
    call->reader = stub->PrepareUnaryCall(&call->context, method, call->request, &queue_);
    call->request.Clear();
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call.get());
    return true;
  }

  void Close() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      closed_ = true;
      for (auto& [raw, call] : under_way_) call->context.TryCancel();
    }
    queue_.Shutdown();  // then the pollers take the rest and end
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    Deliver();
  }

 private:
  void PollLoop() {
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) Complete(static_cast<ClientCall*>(tag));
  }

  void Complete(ClientCall* call) {
    if (call->status.ok()) {
      call->outcome.emplace(FromByteBuffer(call->reply));
    } else {
      call->outcome.emplace(FromGrpcStatus(call->status, call->address));
    }
    call->reply.Clear();
    bool post;
    {
      std::lock_guard<std::mutex> lock(mu_);
      const auto it = under_way_.find(call);
      done_.push_back(std::move(it->second));
      under_way_.erase(it);
      post = !closed_ && !std::exchange(posted_, true);
    }
    if (post) executor_->Post([self = shared_from_this()] { self->Deliver(); });
  }

  void Deliver() {
    std::vector<std::shared_ptr<ClientCall>> done;
    {
      std::lock_guard<std::mutex> lock(mu_);
      done.swap(done_);
      posted_ = false;
    }
    for (const auto& call : done) call->result.Set(std::move(*call->outcome));
  }

  Executor* executor_;
  grpc::CompletionQueue queue_;
  std::vector<std::thread> threads_;
  std::mutex mu_;
  std::map<ClientCall*, std::shared_ptr<ClientCall>> under_way_;  // guarded by mu_
  std::vector<std::shared_ptr<ClientCall>> done_;                 // guarded by mu_
  bool posted_ = false;                                           // guarded by mu_
  bool closed_ = false;                                           // guarded by mu_
};

class GrpcClient::Peer final : public Transport {
 public:
  Peer(std::shared_ptr<State> state, std::string address, int connections)
      : state_(std::move(state)), address_(std::move(address)) {
    for (int i = 0; i < connections; ++i) {
      grpc::ChannelArguments args = ChannelArgs();
      args.SetInt("stria.connection", i);  // channels with equal arguments could be merged
      stubs_.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), args)));
    }
  }

  Task<Result<WireMessage>> Call(std::string method, WireMessage request, int64_t timeout_ns) override {
    auto call = std::make_shared<ClientCall>(address_);
    call->context.set_deadline(GrpcDeadline(timeout_ns));
    call->request = ToByteBuffer(request);
    request = WireMessage();
    if (!state_->Begin(call, stubs_[next_++ % stubs_.size()].get(), method)) {
      co_return Error(FsError::kUnavailable, "the client of " + address_ + " is closed");
    }
    CancelGuard guard(call);
    Result<WireMessage> result = co_await call->result.Take();
    guard.Done();
    co_return result;
  }

 private:
  std::shared_ptr<State> state_;
  const std::string address_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  size_t next_ = 0;
};

GrpcClient::GrpcClient(Executor* executor, const GrpcClientOptions& options)
    : state_(std::make_shared<State>(executor)), connections_(options.connections_per_peer) {
  CHECK(options.connections_per_peer >= 1 && options.connections_per_peer <= kMaxConnectionsPerPeer);
  CHECK(options.pollers >= 1);
  state_->StartPollers(options.pollers);
}

GrpcClient::~GrpcClient() { state_->Close(); }

std::shared_ptr<Transport> GrpcClient::Make(const std::string& address) {
  return std::make_shared<Peer>(state_, address, connections_);
}

}  // namespace stria
