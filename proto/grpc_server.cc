#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/server_posix.h>

#include "proto/grpc_bytes.h"
#include "proto/grpc_transport.h"
#include "proto/grpc_tuning.h"

namespace stria {
namespace {

// Calls that gRPC may hand over before the server has asked for the next one.
constexpr int kAcceptAhead = 64;
constexpr int64_t kStopNs = 200 * kMillisecond;  // for the last replies to leave
constexpr int64_t kJoinStepNs = 5 * kMillisecond;
// A certificate that was judged is not judged again for so long: a signature costs more than a small call.
constexpr int64_t kJudgedNs = 30 * kSecond;
constexpr size_t kMaxJudged = 256;

// One call. It belongs to one party at a time: to gRPC while an operation with its address as tag is
// under way, to the inbox, or to the Responder of its handler.
struct ServerCall {
  enum class Step { kAccept, kRead, kFinish };
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer bytes;
  uint64_t size = 0;  // of the request, while it counts
  Step step = Step::kAccept;

  void Read() {
    step = Step::kRead;
    stream.Read(&bytes, this);
  }
  void Reply(const WireMessage& message) {
    step = Step::kFinish;
    bytes = ToByteBuffer(message);
    stream.WriteAndFinish(bytes, grpc::WriteOptions(), grpc::Status::OK, this);
  }
  void Refuse(grpc::StatusCode code, const char* why) {
    step = Step::kFinish;
    stream.Finish(grpc::Status(code, why), this);
  }
};

std::shared_ptr<grpc::ServerCredentials> ListenWith(const std::shared_ptr<const Credentials>& own) {
  if (!own) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = own->bundle.ToPem();
  options.pem_key_cert_pairs.push_back({own->key.ToPem(), own->certificate.ToPem()});
  return grpc::SslServerCredentials(options);
}

// "ipv4:10.0.0.7:40112" -> "10.0.0.7:40112", "ipv6:%5Bfd00::7%5D:40112" -> "[fd00::7]:40112"
std::string AddressOf(const std::string& peer) {
  const size_t colon = peer.find(':');
  std::string out = peer.starts_with("ipv") && colon != peer.npos ? peer.substr(colon + 1) : peer;
  for (const auto& [from, to] : {std::pair("%5B", "["), std::pair("%5D", "]")}) {
    if (const size_t at = out.find(from); at != out.npos) out.replace(at, 3, to);
  }
  return out;
}

// Owns the call while its handler runs; a destroyed handler leaves an answer too.
class Responder {
 public:
  explicit Responder(ServerCall* call) : call_(call) {}
  Responder(Responder&& o) noexcept : call_(std::exchange(o.call_, nullptr)) {}
  Responder& operator=(Responder&&) = delete;
  ~Responder() {
    if (call_) call_->Refuse(grpc::StatusCode::UNAVAILABLE, "the server has stopped");
  }
  ServerCall* call() { return call_; }
  void Reply(const WireMessage& message) { std::exchange(call_, nullptr)->Reply(message); }

 private:
  ServerCall* call_;
};

}  // namespace

class GrpcServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, Dispatcher* dispatcher, const GrpcServerOptions& options)
      : executor_(executor), dispatcher_(dispatcher), options_(options) {}

  // An empty address: adopted connections only.
  Result<std::string> Start(const std::string& address) {
    CHECK(!server_ && threads_.empty(), "a server starts once");
    grpc::ServerBuilder builder;
    int port = 0;
    if (!address.empty()) builder.AddListeningPort(address, ListenWith(options_.credentials), &port);
    // A few bytes must not become a message of a hundred MiB.
    builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
    for (const grpc_compression_algorithm a : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) builder.SetCompressionAlgorithmSupportStatus(a, false);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxGrpcStreams);
    builder.SetMaxReceiveMessageSize(kMaxGrpcMessageBytes);
    builder.SetMaxSendMessageSize(kMaxGrpcMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two servers on a port are a mistake
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kHttp2FrameBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kHttp2LookaheadBytes);
    builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
    builder.AddChannelArgument(GRPC_ARG_TCP_MIN_READ_CHUNK_SIZE, kMinReadChunkBytes);
    builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadChunkBytes);
    builder.RegisterAsyncGenericService(&service_);
    for (int i = 0; i < options_.pollers; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    const bool has_port = !address.empty() && !address.starts_with("unix:");
    if (!server_ || (port == 0 && has_port)) {
      Stop();
      return Error(FsError::kUnavailable,
                   "cannot listen on " + address + "; is the port in use or the address not of this host?");
    }
    for (auto& queue : queues_) {
      for (int i = 0; i < kAcceptAhead; ++i) Accept(queue.get());
      threads_.emplace_back([this, q = queue.get()] { PollLoop(q); });
    }
    return has_port ? address.substr(0, address.rfind(':') + 1) + std::to_string(port) : address;
  }

  void Adopt(int fd) { grpc::AddInsecureChannelFromFd(server_.get(), fd); }

  void Drain() {
    std::lock_guard<std::mutex> lock(mu_);
    draining_ = true;
  }

  void Stop() {
    std::vector<ServerCall*> unserved;
    {
      std::lock_guard<std::mutex> lock(mu_);
      draining_ = stopped_ = true;
      unserved.swap(inbox_);
    }
    for (ServerCall* call : unserved) Responder{call};
    scope_.CancelAll();
    if (server_) {
      server_->Shutdown(GrpcDeadline(kStopNs));
      // Pollers may still be between an event of a call and the next operation on it.
      while (accepted_.load() > 0) gpr_sleep_until(GrpcDeadline(kJoinStepNs));
    }
    for (auto& queue : queues_) queue->Shutdown();
    for (std::thread& t : threads_) t.join();
    if (threads_.empty()) {  // never started: the queues are not empty
      void* tag;
      bool ok;
      for (auto& queue : queues_) while (queue->Next(&tag, &ok)) {}
    }
    threads_.clear();
    server_.reset();
    queues_.clear();
  }

  TaskScope& scope() { return scope_; }

 private:
  void Accept(grpc::ServerCompletionQueue* queue) {
    auto* call = new ServerCall;
    service_.RequestCall(&call->context, &call->stream, queue, queue, call);
  }

  void PollLoop(grpc::ServerCompletionQueue* queue) {
    void* tag;
    bool ok;
    while (queue->Next(&tag, &ok)) {
      auto* call = static_cast<ServerCall*>(tag);
      switch (call->step) {
        case ServerCall::Step::kAccept:
          OnAccepted(call, queue, ok);
          break;
        case ServerCall::Step::kRead:
          OnRead(call, ok);
          break;
        case ServerCall::Step::kFinish:
          delete call;
          accepted_.fetch_sub(1);
          break;
      }
    }
  }

  void OnAccepted(ServerCall* call, grpc::ServerCompletionQueue* queue, bool ok) {
    if (!ok) {  // shutting down
      delete call;
      return;
    }
    accepted_.fetch_add(1);
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (!stopped_) Accept(queue);
    }
    call->Read();
  }

  void OnRead(ServerCall* call, bool ok) {
    if (!ok) return call->Refuse(grpc::StatusCode::INVALID_ARGUMENT, "a call without a request");
    call->size = call->bytes.Length();
    bool post = false;
    enum { kServe, kBusy, kStopping } what = kServe;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (draining_) {
        what = kStopping;
      } else if (requests_ >= options_.max_requests ||
                 request_bytes_ + call->size > options_.max_request_bytes) {
        what = kBusy;
      } else {
        ++requests_;
        request_bytes_ += call->size;
        inbox_.push_back(call);
        post = !std::exchange(posted_, true);
      }
    }
    if (what == kStopping) return call->Refuse(grpc::StatusCode::UNAVAILABLE, "the server is stopping");
    if (what == kBusy) {
      return call->Reply(EncodeError(Error(FsError::kRetryLater, "the server has too much to do")));
    }
    if (post) executor_->Post([self = shared_from_this()] { self->TakeInbox(); });
  }

  void TakeInbox() {
    std::vector<ServerCall*> calls;
    {
      std::lock_guard<std::mutex> lock(mu_);
      calls.swap(inbox_);
      posted_ = false;
    }
    for (ServerCall* call : calls) scope_.Spawn(Serve(this, Responder(call)));
  }

  // In scope_, so `state` lives longer.
  static Task<void> Serve(State* state, Responder responder) {
    struct Count {
      State* state;
      uint64_t bytes;
      ~Count() { state->Uncount(bytes); }
    } count{state, responder.call()->size};
    WireMessage request = FromByteBuffer(responder.call()->bytes);
    responder.call()->bytes.Clear();
    Result<std::shared_ptr<const Peer>> peer = state->PeerOf(responder.call()->context);
    if (!peer.ok()) {
      if (state->options_.refused) state->options_.refused(AddressOf(responder.call()->context.peer()), peer.error());
      responder.Reply(EncodeError(peer.error()));
      co_return;
    }
    Result<WireMessage> reply =
        co_await state->dispatcher_->Handle(std::move(*peer), responder.call()->context.method(), std::move(request));
    responder.Reply(reply.ok() ? reply.value() : EncodeError(reply.error()));
  }

  // Null: nothing is proved here.
  Result<std::shared_ptr<const Peer>> PeerOf(const grpc::GenericServerContext& context) {
    if (!options_.credentials) return std::shared_ptr<const Peer>();
    const std::vector<grpc::string_ref> shown = context.auth_context()->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const std::string address = AddressOf(context.peer());
    if (shown.size() != 1 || shown[0].size() > kMaxPemBytes) {
      return Error(FsError::kAccess, "the peer at " + address + " was refused: it shows no certificate");
    }
    const std::string pem(shown[0].data(), shown[0].size()), key = pem + address;
    const int64_t now_ns = executor_->NowNs();
    if (const auto known = judged_.find(key); known != judged_.end() && now_ns < known->second.second) return known->second.first;
    ASSIGN_OR_RETURN(const Certificate certificate, Certificate::FromPem(pem));
    ASSIGN_OR_RETURN(Peer peer, options_.judge(certificate, address));
    if (judged_.size() >= kMaxJudged) judged_.clear();
    auto who = std::make_shared<const Peer>(std::move(peer));
    judged_[key] = {who, now_ns + kJudgedNs};
    return std::shared_ptr<const Peer>(std::move(who));
  }

  void Uncount(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mu_);
    --requests_;
    request_bytes_ -= bytes;
  }

  Executor* const executor_;
  Dispatcher* const dispatcher_;
  const GrpcServerOptions options_;
  grpc::AsyncGenericService service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::atomic<int64_t> accepted_{0};  // calls that are not finished
  std::mutex mu_;
  std::vector<ServerCall*> inbox_;  // guarded by mu_
  bool posted_ = false;             // guarded by mu_
  bool draining_ = false;           // guarded by mu_
  bool stopped_ = false;            // guarded by mu_
  size_t requests_ = 0;             // guarded by mu_
  uint64_t request_bytes_ = 0;      // guarded by mu_
  std::map<std::string, std::pair<std::shared_ptr<const Peer>, int64_t>> judged_;  // by certificate and address; executor's thread
  TaskScope scope_;
};

GrpcServer::GrpcServer(Executor* executor, Dispatcher* dispatcher, const GrpcServerOptions& options)
    : state_(std::make_shared<State>(executor, dispatcher, options)) {
  CHECK(options.pollers >= 1);
  CHECK(!options.credentials == !options.judge);
}

GrpcServer::~GrpcServer() { state_->Stop(); }

Result<std::string> GrpcServer::Start(const std::string& address) { return state_->Start(address); }

Result<void> GrpcServer::StartWithoutAddress() {
  RETURN_IF_ERROR(state_->Start(""));
  return Ok();
}

void GrpcServer::Adopt(int fd) { state_->Adopt(fd); }

Task<void> GrpcServer::Shutdown(int64_t grace_ns) {
  state_->Drain();
  (void)co_await WithTimeout(grace_ns, [](TaskScope& scope) -> Task<bool> {
    co_await scope.Join();
    co_return true;
  }(state_->scope()));
  state_->Stop();
}

void GrpcServer::Stop() { state_->Stop(); }
size_t GrpcServer::running() const { return state_->scope().running(); }

}  // namespace stria
