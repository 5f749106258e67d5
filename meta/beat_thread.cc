#include "meta/beat_thread.h"

#include <pthread.h>

#include <string>
#include <utility>

#include "common/log.h"
#include "meta/replica/beats/beat_sender.h"
#include "proto/replica_stubs.h"

namespace stria {
namespace {
constexpr size_t kMaxBeatConnections = 64;
constexpr size_t kMaxBeatRequests = 1024;
constexpr uint64_t kMaxBeatBytes = 8 * kMiB;
}  // namespace

// What lives on the thread.
struct BeatThread::Inside {
  explicit Inside(BeatThread* t)
      : client(&t->executor_, t->client_),
        connector(&client),
        sender(t->params_.desk, &connector, [](const std::string& text) { LogError("{}", text); }),
        answerer(t->params_.desk),
        dispatcher(&answerer, t->params_.admission),
        server(&t->executor_, &dispatcher, t->server_) {
    server.StartWithoutAddress();
    scope.Spawn(sender.Run());
  }

  BulkClient client;
  TransportBeatConnector connector;
  BeatSender sender;
  BeatAnswerer answerer;
  BeatDispatcher dispatcher;
  BulkServer server;
  TaskScope scope;  // last
};

BeatThread::BeatThread(BeatThreadParams params) : params_(std::move(params)) {
  client_.connections_per_peer = 1;
  client_.loops = 1;
  client_.aside = true;
  server_.loops = 1;
  server_.max_connections = kMaxBeatConnections;
  server_.max_requests = kMaxBeatRequests;
  server_.max_request_bytes = kMaxBeatBytes;
  server_.refused = [](const Error& why) { LogWarning("{}", why.message); };
  if (const SecuredEnds* const ends = params_.ends) {
    ends->Secure(&client_);
    server_.judge = [ends](const Peer& peer) -> Result<void> {
      if (peer.role == Role::kMeta) return ends->StillGood(peer);
      return Error(FsError::kAccess, peer.ToString() + " is no metadata server, and their beats are nobody else's");
    };
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "beats");
}

BeatThread::~BeatThread() {
  executor_.Stop();
  thread_.join();
}

void BeatThread::Run() {
  executor_.MakeCurrent();
  {
    Inside inside(this);
    {
      std::lock_guard<std::mutex> lock(mu_);
      inside_ = &inside;
    }
    executor_.Run();
    std::lock_guard<std::mutex> lock(mu_);
    inside_ = nullptr;
  }
  Executor::ClearCurrent();
}

void BeatThread::Take(std::shared_ptr<BulkHandedOn> arrival) {
  std::lock_guard<std::mutex> lock(mu_);
  if (inside_ != nullptr) inside_->server.Adopt(std::move(arrival));
}

void BeatThread::Judge() {
  if (params_.ends == nullptr) return;
  executor_.Post([this] {
    inside_->server.CloseUnless(server_.judge);
    inside_->client.CloseUnless(client_.judge);
  });
}

}  // namespace stria
