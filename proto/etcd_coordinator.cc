#include "proto/etcd_coordinator.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include "proto/etcd.pb.h"
#include "proto/grpc_tuning.h"

namespace stria {
namespace {

constexpr char kRange[] = "/etcdserverpb.KV/Range";
constexpr char kTxn[] = "/etcdserverpb.KV/Txn";
constexpr int kMaxAnswerBytes = static_cast<int>(4 * kMaxCoordinatorValueBytes);
constexpr int64_t kLeastTryNs = 300 * kMillisecond;

struct EtcdCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request, reply;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  OneShot<bool> ended;  // executor's thread
};

class CancelUnlessDone {
 public:
  explicit CancelUnlessDone(std::shared_ptr<EtcdCall> call) : call_(std::move(call)) {}
  CancelUnlessDone(const CancelUnlessDone&) = delete;
  CancelUnlessDone& operator=(const CancelUnlessDone&) = delete;
  ~CancelUnlessDone() {
    if (call_) call_->context.TryCancel();
  }
  void Done() { call_ = nullptr; }

 private:
  std::shared_ptr<EtcdCall> call_;
};

grpc::ChannelArguments EtcdChannelArgs() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return args;
}

Error EtcdError(const grpc::Status& status, const std::string& endpoint) {
  const std::string text = "etcd at " + endpoint + ": " + status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Error(FsError::kDeadline, "etcd at " + endpoint + " did not answer in time; it may have no majority");
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return Error(FsError::kAccess, text);
    default:
      return Error(FsError::kUnavailable, text);
  }
}

Error NoAnswer(const std::string& endpoint) { return Error(FsError::kCorrupt, "what etcd at " + endpoint + " answers is no answer"); }

CoordinatorValue ValueOf(const etcdserverpb::RangeResponse& range) {
  if (range.kvs_size() == 0) return std::nullopt;
  return range.kvs(0).value();
}

}  // namespace

// Shared with calls under way.
class EtcdCoordinator::State : public std::enable_shared_from_this<State> {
 public:
  State(Executor* executor, const EtcdOptions& options) : executor_(executor), options_(options) {
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
    if (options_.tls) {
      grpc::SslCredentialsOptions tls;
      tls.pem_root_certs = options_.tls->ca;
      tls.pem_cert_chain = options_.tls->certificate;
      tls.pem_private_key = options_.tls->private_key;
      credentials = grpc::SslCredentials(tls);
    }
    for (const std::string& endpoint : options_.endpoints) {
      stubs_.push_back(std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(endpoint, credentials, EtcdChannelArgs())));
    }
    thread_ = std::thread([this] { PollLoop(); });
  }

  void Close() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      closed_ = true;
      for (auto& [raw, call] : under_way_) call->context.TryCancel();
    }
    queue_.Shutdown();  // the thread takes what is left, and ends
    thread_.join();
    Deliver();
  }

  const EtcdOptions& options() const { return options_; }

  // The answer's message, of whichever endpoint answers first.
  template <class Reply, class Request>
  static Task<Result<Reply>> Ask(std::shared_ptr<State> self, const char* method, Request request) {
    const std::string bytes = request.SerializeAsString();
    const int64_t end_ns = Executor::Current().NowNs() + self->options_.call_ns;
    const size_t count = self->stubs_.size();
    // One that hangs leaves time for the others.
    const int64_t share_ns = std::max(kLeastTryNs, self->options_.call_ns / static_cast<int64_t>(count));
    Error last(FsError::kUnavailable, "etcd was not asked");
    for (size_t tried = 0; tried < count; ++tried) {
      const int64_t left_ns = end_ns - Executor::Current().NowNs();
      if (left_ns <= 0) break;
      const size_t at = self->good_;
      const int64_t try_ns = tried + 1 == count ? left_ns : std::min(left_ns, share_ns);
      Result<Reply> reply = co_await Try<Reply>(self, at, method, bytes, try_ns);
      if (reply.ok()) co_return reply;
      last = reply.error();
      if (self->good_ == at) self->good_ = (at + 1) % count;
    }
    co_return last;
  }

 private:
  template <class Reply>
  static Task<Result<Reply>> Try(std::shared_ptr<State> self, size_t at, const char* method, std::string bytes, int64_t timeout_ns) {
    const std::string& endpoint = self->options_.endpoints[at];
    auto call = std::make_shared<EtcdCall>();
    call->context.set_deadline(GrpcDeadline(timeout_ns));
    const grpc::Slice slice(bytes);
    call->request = grpc::ByteBuffer(&slice, 1);
    if (!self->Begin(call, self->stubs_[at].get(), method)) co_return Error(FsError::kUnavailable, "the client of etcd is closed");
    CancelUnlessDone guard(call);
    co_await call->ended.Take();
    guard.Done();
    if (!call->status.ok()) co_return EtcdError(call->status, endpoint);
    std::vector<grpc::Slice> slices;
    std::string answer;
    if (!call->reply.Valid() || !call->reply.Dump(&slices).ok()) co_return NoAnswer(endpoint);
    for (const grpc::Slice& s : slices) answer.append(reinterpret_cast<const char*>(s.begin()), s.size());
    Reply reply;
    if (!reply.ParseFromString(answer)) co_return NoAnswer(endpoint);
    const uint64_t cluster = reply.header().cluster_id();
    if (self->cluster_ == 0) self->cluster_ = cluster;
    if (cluster != self->cluster_) {
      co_return Error(FsError::kAccess, "etcd at " + endpoint + " is of another etcd cluster than the other endpoints; name those of one");
    }
    co_return reply;
  }

  // False if it is closed.
  bool Begin(const std::shared_ptr<EtcdCall>& call, grpc::GenericStub* stub, const char* method) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (closed_) return false;
      under_way_[call.get()] = call;
    }
    call->reader = stub->PrepareUnaryCall(&call->context, method, call->request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call.get());
    return true;
  }

  void PollLoop() {
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
      bool post;
      {
        std::lock_guard<std::mutex> lock(mu_);
        const auto it = under_way_.find(static_cast<EtcdCall*>(tag));
        done_.push_back(std::move(it->second));
        under_way_.erase(it);
        post = !closed_;
      }
      if (post) executor_->Post([self = shared_from_this()] { self->Deliver(); });
    }
  }

  void Deliver() {
    std::vector<std::shared_ptr<EtcdCall>> done;
    {
      std::lock_guard<std::mutex> lock(mu_);
      done.swap(done_);
    }
    for (const auto& call : done) call->ended.Set(true);
  }

  Executor* const executor_;
  const EtcdOptions options_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  size_t good_ = 0;       // the endpoint to ask first
  uint64_t cluster_ = 0;  // etcd's id of its cluster, as the first answer has it
  grpc::CompletionQueue queue_;
  std::thread thread_;
  std::mutex mu_;
  std::map<EtcdCall*, std::shared_ptr<EtcdCall>> under_way_;  // guarded by mu_
  std::vector<std::shared_ptr<EtcdCall>> done_;               // guarded by mu_
  bool closed_ = false;                                       // guarded by mu_
};

EtcdCoordinator::EtcdCoordinator(Executor* executor, const EtcdOptions& options) : state_(std::make_shared<State>(executor, options)) {
  CHECK(!options.endpoints.empty() && !options.key.empty());
}

EtcdCoordinator::~EtcdCoordinator() { state_->Close(); }

Task<Result<CoordinatorValue>> EtcdCoordinator::Read() {
  etcdserverpb::RangeRequest request;
  request.set_key(state_->options().key);
  CO_ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse reply,
                      co_await State::Ask<etcdserverpb::RangeResponse>(state_, kRange, std::move(request)));
  co_return ValueOf(reply);
}

Task<Result<CoordinatorValue>> EtcdCoordinator::Swap(CoordinatorValue old, std::string value) {
  if (value.size() > kMaxCoordinatorValueBytes) co_return Error(FsError::kBadRequest, "the value for etcd is too large");
  const std::string& key = state_->options().key;
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* compare = request.add_compare();
  compare->set_result(etcdserverpb::Compare::EQUAL);
  compare->set_key(key);
  if (old) {
    compare->set_target(etcdserverpb::Compare::VALUE);
    compare->set_value(*old);
  } else {
    compare->set_target(etcdserverpb::Compare::CREATE);
    compare->set_create_revision(0);
  }
  etcdserverpb::PutRequest* put = request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  request.add_failure()->mutable_request_range()->set_key(key);
  CO_ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse reply,
                      co_await State::Ask<etcdserverpb::TxnResponse>(state_, kTxn, std::move(request)));
  if (reply.succeeded()) co_return CoordinatorValue(std::move(value));
  if (reply.responses_size() != 1 || !reply.responses(0).has_response_range()) co_return NoAnswer("one of its endpoints");
  co_return ValueOf(reply.responses(0).response_range());
}

}  // namespace stria
