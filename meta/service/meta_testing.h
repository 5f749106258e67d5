// For tests: a metadata server on a store in memory, in virtual time, with clients and data nodes that
// talk to it directly.
#pragma once

#include <algorithm>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/ops/fsck.h"
#include "meta/service/meta_server.h"
#include "stripe/checksum_testing.h"
#include "stripe/layout.h"
#include "stripe/relaid_testing.h"

namespace stria {

inline ClusterKey TestKey() {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(0x5a);
  return key;
}

inline size_t Count(const std::vector<SessionEvent>& events, SessionEvent::Kind kind, InodeId ino) {
  size_t n = 0;
  for (const SessionEvent& e : events) n += e.kind == kind && e.ino == ino;
  return n;
}

class MetaHarness {
 public:
  explicit MetaHarness(uint64_t seed = 1, MetaServerOptions o = {})
      : options(std::move(o)), ex(seed, 4), rng(seed), media(std::make_shared<MemKvMedia>(kFamilies)) {
    FormatParams params;
    params.cluster = cluster;
    params.store = Uuid{3, 4};
    params.layout.k = 2;
    params.layout.stripe_bytes = 2 * kDefaultUnitBytes * 4;
    params.now_ns = ex.WallNs();
    EXPECT_TRUE(RunSim(ex, FormatMetaStore(std::make_unique<MemKv>(media), params)).ok());
    StartServer();
  }
  ~MetaHarness() { server.reset(); }

  void StartServer() {
    server = std::make_unique<MetaServer>(options, std::make_unique<MemKv>(media), Random(rng.Next()),
                                          std::vector<ClusterKey>{TestKey()});
    if (backups != nullptr) server->UseBackups(backups);
    const Result<void> started = RunSim(ex, server->Start());
    ASSERT_TRUE(started.ok()) << started.error();
  }
  // kill -9, or with lose_unsynced a power cut. Whoever has calls under way must have been cancelled.
  void Crash(bool lose_unsynced) {
    server.reset();
    media->Crash(rng, lose_unsynced);
    StartServer();
  }
  std::vector<std::string> Fsck() { return CheckStore(server->store()->kv()).value().problems; }

  const Uuid cluster{1, 2};
  MetaServerOptions options;
  SimExecutor ex;
  Random rng;
  std::shared_ptr<MemKvMedia> media;
  BackupConnector* backups = nullptr;  // from the next start on
  std::unique_ptr<MetaServer> server;
  // Of shards with other checksums than TestTable: columns of stripes that nodes have laid out anew.
  std::map<ShardId, std::vector<uint32_t>> tables;
  std::vector<uint32_t> TableOf(ShardId shard, uint64_t length) const {
    const auto it = tables.find(shard);
    return it == tables.end() ? TestTable(shard, length) : it->second;
  }
};

inline std::shared_ptr<const Peer> TestPeer(Role role, const std::string& name) {
  auto peer = std::make_shared<Peer>();
  peer->role = role;
  peer->name = name;
  peer->address = name + ":40112";
  for (size_t i = 0; i < name.size() && i + 1 < peer->key_hash.size(); ++i) peer->key_hash[i + 1] = static_cast<uint8_t>(name[i]);
  peer->key_hash[0] = static_cast<uint8_t>(role);
  return peer;
}

// A session. Polls by itself (unless told not to) and answers recalls and flushes after calling `flush`.
class TestClient {
 public:
  TestClient(MetaHarness* h, uint64_t n, std::string node = "") : h_(h), uuid_{77, n}, node_(std::move(node)) {}

  void Open() {
    OpenSessionRequest r;
    r.header = Header();
    r.header.session = SessionId();
    r.client_uuid = uuid_;
    r.client = "client " + std::to_string(uuid_.lo);
    r.node_name = node_;
    r.comes_back = comes_back;
    r.path = path;
    Take(RunSim(h_->ex, h_->server->OpenSession(r)));
    Loops();
  }
  // After a restart, or after it has lapsed; false if the session is gone.
  bool Reclaim(std::vector<HeldInode> held = {}, std::vector<FileLock> locks = {}) {
    for (const FileLock& l : locks) {
      const bool listed = std::any_of(held.begin(), held.end(), [&](const HeldInode& i) { return i.ino == l.ino; });
      if (!listed) held.push_back({l.ino, LeaseMode::kNone, false});
    }
    for (HeldInode& i : held) {
      if (i.proof.empty()) i.proof = Proof(i.ino);
    }
    return ReclaimAs(std::move(held), std::move(locks));
  }
  // With the proofs that there are.
  bool ReclaimAs(std::vector<HeldInode> held, std::vector<FileLock> locks = {}) {
    scope_ = std::make_unique<TaskScope>();
    OpenSessionRequest r;
    r.header = Header();
    r.client_uuid = uuid_;
    r.client = "client " + std::to_string(uuid_.lo);
    r.comes_back = comes_back;
    r.path = path;
    r.held = std::move(held);
    r.locks = std::move(locks);
    r.header.replay_next = replay_next;
    r.header.trace_id = attempt;
    auto reply = RunSim(h_->ex, h_->server->OpenSession(r));
    const bool reclaimed = reply.ok() && reply->reclaimed;
    lapsed = reply.ok() && reply->lapsed;
    not_taken = reply.ok() ? reply->not_taken : std::vector<NotTaken>();
    survived = reply.ok() ? reply->survived : CommitSeq();
    Take(std::move(reply));
    Loops();
    return reclaimed;
  }
  void Stop() { scope_ = std::make_unique<TaskScope>(); }
  void Loops() {
    if (polls) scope_->Spawn(PollLoop());
    if (renews) scope_->Spawn(RenewLoop());
  }

  OpHeader Header() const {
    OpHeader h;
    h.cluster = h_->cluster;
    h.session = session;
    h.epoch = epoch;
    h.acked_below = acked_below;
    h.peer = peer;
    return h;
  }
  OpHeader Mutation() {
    OpHeader h = Header();
    h.op_seq = OpSeq(next_op_++);
    return h;
  }
  // As the answer to an open for reading and writing would have had it.
  std::string Proof(InodeId ino, uint8_t rights = kOpenRead | kOpenWrite) const {
    return TokenSigner(TestKey()).ProveOpen({session, ino, 1, rights});
  }
  template <class T>
  T Run(Task<T> t) {
    return RunSim(h_->ex, std::move(t));
  }

  // ---- Shorthands ----
  Result<OpenReply> Make(InodeId parent, const std::string& name, FileType type = FileType::kFile, bool open = true) {
    MakeNodeRequest r;
    r.header = Mutation();
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = 0755;
    r.open = open && type == FileType::kFile;
    return Run(h_->server->MakeNode(r));
  }
  NameRequest Name(InodeId parent, const std::string& name, bool mutation = false) {
    NameRequest r;
    r.header = mutation ? Mutation() : Header();
    r.parent = parent;
    r.name = name;
    return r;
  }
  Result<NodeReply> Lookup(const std::string& name) { return Run(h_->server->Lookup(Name(kRootInode, name))); }
  Result<NodeReply> Unlink(const std::string& name) { return Run(h_->server->Unlink(Name(kRootInode, name, true))); }
  InodeRequest Ino(InodeId ino) {
    InodeRequest r;
    r.header = Header();
    r.ino = ino;
    return r;
  }
  Result<NodeReply> GetAttr(InodeId ino) { return Run(h_->server->GetAttr(Ino(ino))); }
  Task<Result<OpenReply>> OpenTask(InodeId ino, bool write) {
    OpenRequest r;
    r.header = Header();
    r.ino = ino;
    r.for_write = write;
    return h_->server->Open(r);
  }
  Result<OpenReply> OpenFile(InodeId ino, bool write) { return Run(OpenTask(ino, write)); }
  void Release(InodeId ino) { EXPECT_TRUE(Run(h_->server->Release(Ino(ino))).ok()); }
  CommitRequest InlineCommit(InodeId ino, uint64_t offset, std::string bytes) {
    CommitRequest r;
    r.header = Mutation();
    r.ino = ino;
    Extent e;
    e.file_offset = offset;
    e.length = bytes.size();
    e.inline_bytes = std::move(bytes);
    r.extents.push_back(std::move(e));
    return r;
  }
  Result<AllocateReply> Allocate(InodeId ino, uint32_t count = 1) {
    AllocateRequest r;
    r.header = Mutation();
    r.ino = ino;
    r.count = count;
    return Run(h_->server->Allocate(r));
  }
  // A stripe as if its shards had been written and sealed.
  static StripeInfo Sealed(StripeInfo info, uint64_t payload) {
    info.shape.payload_bytes = payload;
    for (uint16_t i = 0; i < info.columns.size(); ++i) {
      Column& c = info.columns[i];
      c.length = ColumnBytes(info.shape, ColumnIndex(i));
      c.digest = c.length == 0 ? 0 : TestDigest(c.shard, c.length);
      if (c.length == 0) c = Column();
    }
    return info;
  }
  Result<CommitReply> WriteStripe(InodeId ino, uint64_t offset, uint64_t bytes) {
    auto alloc = Allocate(ino);
    if (!alloc.ok()) return alloc.error();
    CommitRequest r;
    r.header = Mutation();
    r.ino = ino;
    r.stripes = {Sealed(alloc->stripes[0].info, bytes)};
    Extent e;
    e.file_offset = offset;
    e.length = bytes;
    e.stripe = r.stripes[0].id;
    r.extents = {e};
    return Run(h_->server->Commit(r));
  }

  std::shared_ptr<const Peer> peer;  // whom its connection proves; null: nobody
  std::string path = "/";            // that it mounts
  SessionId session;
  Epoch epoch;
  OpSeq acked_below;
  uint64_t replay_next = 0;  // of the next Reclaim
  bool comes_back = false;
  uint64_t attempt = 0;              // of the next Reclaim
  bool lapsed = false;               // as the last one was answered
  std::vector<NotTaken> not_taken;
  CommitSeq survived;
  bool polls = true;
  bool renews = true;
  bool reports_seen = true;  // RenewRequest.seen_seq follows the server
  bool answers = true;       // recalls and flushes
  std::function<Task<void>(SessionEvent)> flush;  // before the answer to a recall or flush
  std::vector<SessionEvent> events;
  bool fenced = false;
  CommitSeq seen;
  InodeId root;                   // as it was told
  std::vector<InodeSeal> seals;   // the same

 private:
  void Take(Result<OpenSessionReply> reply) {
    ASSERT_TRUE(reply.ok()) << reply.error();
    session = reply->session;
    epoch = reply->epoch;
    root = reply->root;
    acked_event_ = reply->first_event - 1;
  }
  Task<void> PollLoop() {
    while (true) {
      PollRequest r;
      r.header = Header();
      r.header.timeout_ns = 5 * kSecond;
      r.acked_event = acked_event_;
      auto reply = co_await h_->server->Poll(r);
      if (!reply.ok()) {
        fenced = reply.code() == FsError::kFenced;
        co_return;
      }
      for (SessionEvent& e : reply->events) {
        if (e.seq <= acked_event_) continue;
        acked_event_ = e.seq;
        events.push_back(e);
        if (e.kind == SessionEvent::Kind::kRecall || e.kind == SessionEvent::Kind::kFlush) scope_->Spawn(Answer(e));
      }
    }
  }
  Task<void> Answer(SessionEvent e) {
    if (!answers) co_return;
    if (flush) co_await flush(e);
    LeaseDoneRequest r;
    r.header = Header();
    r.ino = e.ino;
    r.event_seq = e.seq;
    r.lease = e.kind == SessionEvent::Kind::kRecall ? e.lease : LeaseMode::kExclusive;
    (void)co_await h_->server->LeaseDone(r);
  }
  Task<void> RenewLoop() {
    while (true) {
      RenewRequest r;
      r.header = Header();
      r.seen_seq = seen;
      auto reply = co_await h_->server->Renew(r);
      if (!reply.ok()) co_return;
      if (reports_seen) seen = reply->current_seq;
      co_await Sleep(kSecond);
    }
  }

  MetaHarness* h_;
  const Uuid uuid_;
  const std::string node_;
  uint64_t next_op_ = 1;
  uint64_t acked_event_ = 0;
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>();
};

// A data server: registers, beats, and carries out what it is told (in name only).
class TestNode {
 public:
  TestNode(MetaHarness* h, uint64_t n, int disks = 1) : h_(h), n_(n) {
    for (int d = 1; d <= disks; ++d) {
      DiskHello disk;
      disk.uuid = Uuid{1000 + n, static_cast<uint64_t>(d)};
      disk.label = "d" + std::to_string(d);
      disk.capacity_bytes = 1000 * kGiB;
      disk.free_bytes = 900 * kGiB;
      disks_.push_back(disk);
    }
  }
  // Begins to live; call again after Stop or a crash of the metadata server.
  void Start() { scope_ = std::make_unique<TaskScope>(), scope_->Spawn(Live()); }
  void Stop() { scope_ = std::make_unique<TaskScope>(); }

  NodeId id;
  Epoch epoch;
  std::vector<TargetId> targets;
  std::set<ShardId> deleted;
  std::map<uint64_t, RebuildWork> rebuilt;  // by task
  std::map<uint64_t, WidenWork> widened;    // by task
  FsError widen_result = FsError::kOk;
  uint32_t slots = 4;
  bool does_work = true;  // else it only says of shards whether it has them
  FsError rebuild_result = FsError::kOk;
  std::function<void(const RebuildWork&, RebuildResult*)> on_rebuild;  // changes what is reported
  // What it finds of a shard that it is to look at; by itself nothing is wrong with it.
  std::function<FsError(const CheckWork&)> on_check = [](const CheckWork&) { return FsError::kOk; };
  std::vector<CheckWork> looked_at;
  std::vector<DiskHello>& disks() { return disks_; }

 private:
  Task<void> Live() {
    while (true) {
      RegisterNodeRequest r;
      r.header.cluster = h_->cluster;
      r.uuid = Uuid{500, n_};
      r.name = "n" + std::to_string(n_);
      r.address = r.name + ":7001";
      r.proof = TokenSigner(TestKey()).ProveNode(r.uuid, r.name);
      r.disks = disks_;
      auto reply = co_await h_->server->RegisterNode(r);
      if (!reply.ok()) {
        co_await Sleep(kSecond);
        continue;
      }
      id = reply->node;
      epoch = reply->epoch;
      targets = reply->targets;
      for (size_t i = 0; i < disks_.size(); ++i) disks_[i].target = targets[i];
      while (co_await Beat()) co_await Sleep(kSecond);
    }
  }
  Task<bool> Beat() {
    HeartbeatRequest r;
    r.header.cluster = h_->cluster;
    r.node = id;
    r.epoch = epoch;
    r.disks = disks_;
    r.rebuild_slots = slots;
    auto reply = co_await h_->server->Heartbeat(r);
    if (!reply.ok() || reply->register_again) co_return false;
    ReportWorkRequest report;
    report.header.cluster = h_->cluster;
    report.node = id;
    report.epoch = epoch;
    if (does_work) DoWork(*reply, &report);
    for (const CheckWork& w : reply->checks) {
      looked_at.push_back(w);
      report.checked.push_back({w.shard, w.target, ItemResult{on_check(w), ""}});
    }
    const bool any = !report.deleted.empty() || !report.rebuilt.empty() || !report.widened.empty() || !report.checked.empty();
    if (any) (void)co_await h_->server->ReportWork(report);
    co_return true;
  }

  void DoWork(const HeartbeatReply& reply, ReportWorkRequest* report) {
    for (const DeleteWork& d : reply.deletes) {
      deleted.insert(d.shard);
      report->deleted.push_back(d.shard);
    }
    for (const RebuildWork& w : reply.rebuilds) {
      rebuilt[w.task] = w;
      RebuildResult result;
      result.task = w.task;
      result.result.code = rebuild_result;
      const Column& was = w.stripe.info.columns[w.column];
      result.length = was.length;
      result.table = ReseedTable(h_->TableOf(was.shard, was.length), was.shard, w.new_shard, was.length);
      result.digest = TableDigest(result.table, result.length);
      if (h_->tables.contains(was.shard)) h_->tables[w.new_shard] = result.table;
      if (on_rebuild) on_rebuild(w, &result);
      report->rebuilt.push_back(result);
    }
    for (const WidenWork& w : reply.widens) {
      widened[w.task] = w;
      WidenResult result;
      result.task = w.task;
      result.result.code = widen_result;
      result.pieces = PiecesWithTables(w.from.info, w.to.info.shape, [this](const Column& c) { return h_->TableOf(c.shard, c.length); });
      const auto tables = TablesFromPieces(w.to.info, PiecesOf(w.from.info.shape, w.to.info.shape), result.pieces);
      for (size_t c = 0; c < tables.size(); ++c) {
        const Column& column = w.to.info.columns[c];
        if (tables[c] && column.shard) h_->tables[column.shard] = *tables[c];
        result.digests.push_back(column.shard ? TableDigest(h_->TableOf(column.shard, column.length), column.length) : 0);
      }
      if (widen_result != FsError::kOk) result.bad_columns = {0};
      report->widened.push_back(result);
    }
  }

  MetaHarness* h_;
  const uint64_t n_;
  std::vector<DiskHello> disks_;
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>();
};

}  // namespace stria
