#include "client/client.h"

namespace stria {
namespace {
constexpr int64_t kReportAgainNs = 60 * kSecond;
constexpr size_t kMaxReported = 4096;
constexpr size_t kMaxReportsUnderWay = 16;

// The data servers of the session's node are local.
DataPeersOptions PeersOf(const ClientOptions& options) {
  DataPeersOptions peers = options.peers;
  if (peers.local_node.empty()) peers.local_node = options.session.node_name;
  return peers;
}
}  // namespace

Client::Client(ClientOptions options, MetaConnector& meta, DataConnector& data, Pool& pool, KernelCache& kernel)
    : session_(meta, options.session),
      peers_(data, PeersOf(options)),
      stripes_(
          peers_, [this](AllocateRequest r) { return Allocate(std::move(r)); },
          [this](std::vector<StripeId> s) { return GiveBack(std::move(s)); }, options.stripes),
      reader_(StripeIo{peers_, codecs_, pool}, [this](const BadShard& bad) { Report(bad); }),
      vfs_(options.vfs, session_, StripeIo{peers_, codecs_, pool}, stripes_, reader_, kernel) {
  session_.SetHandlers(Handlers());
}

Client::~Client() { scope_.CancelAll(); }

SessionHandlers Client::Handlers() {
  SessionHandlers h;
  SessionSide* const vfs = &vfs_.session_side();
  h.on_event_came = [vfs](const SessionEvent& e) { vfs->EventCame(e); };
  h.on_event = [vfs](SessionEvent e) { return vfs->OnEvent(std::move(e)); };
  h.before_call = [vfs](const SessionCallNames& named) { return vfs->TellBefore(named); };
  h.held = [vfs] { return vfs->Held(); };
  h.locks = [vfs] { return vfs->HeldLocks(); };
  h.on_restart = [vfs] { return vfs->OnRestart(); };
  h.on_reclaimed = [this, vfs](bool lost) {
    stripes_.Drop(lost);
    return vfs->OnReclaimed(lost);
  };
  h.on_came_back = [this, vfs](std::vector<NotTaken> not_taken) {
    stripes_.Drop(false);  // the server may have restarted meanwhile, and lost them
    return vfs->OnCameBack(std::move(not_taken));
  };
  h.on_repeated = [vfs](InodeId ino, uint64_t former, uint64_t now) { vfs->OnRepeated(ino, former, now); };
  h.in_use = [vfs](InodeId ino) { return vfs->MayName(ino); };
  h.unreachable = [this] { return peers_.LostNodes(); };
  h.io = [this] {
    const auto& reads = reader_.stats().tally;
    const VfsReport& report = vfs_.report();
    return ClientIo{reads.local_bytes, reads.network_bytes, reads.reconstructed_bytes, report.counters().write_bytes, report.calls().begun()};
  };
  h.on_map = [this](const std::shared_ptr<const ClusterMap>& map) {
    peers_.SetMap(map);
    stripes_.OnMapChanged();
  };
  return h;
}

void Client::Start() {
  session_.Start();
  vfs_.Start();
}

Task<Result<void>> Client::Shutdown() {
  auto flushed = co_await vfs_.FlushAll();
  co_await stripes_.Close();
  co_await session_.Close();
  co_return flushed;
}

Task<Result<AllocateReply>> Client::Allocate(AllocateRequest r) {
  return session_.Mutate(&MetaService::Allocate, std::move(r));
}

Task<void> Client::GiveBack(std::vector<StripeId> stripes) {
  CommitRequest r;
  r.give_back = std::move(stripes);
  (void)co_await session_.Mutate(&MetaService::Commit, std::move(r));
}

void Client::Report(const BadShard& bad) {
  const int64_t now = Executor::Current().NowNs();
  auto it = reported_.find(bad.shard);
  if (it != reported_.end() && now - it->second < kReportAgainNs) return;
  if (scope_.running() >= kMaxReportsUnderWay) return;
  if (reported_.size() >= kMaxReported) reported_.clear();
  reported_[bad.shard] = now;
  scope_.Spawn(SendReport(bad));
}

Task<void> Client::SendReport(BadShard bad) {
  ReportShardRequest r;
  r.stripe = bad.stripe;
  r.column = bad.column.v;
  r.shard = bad.shard;
  r.reason = bad.reason;
  r.token = std::move(bad.token);
  (void)co_await session_.Call(&MetaService::ReportShard, std::move(r));
}

}  // namespace stria
