// Certificates that expire, keys that rotate, and peers that are revoked, while clients work.
//
// One thing at a time is done to one host, at a random moment: a certificate is renewed in time, or ends and its host joins again; a
// client's or a node's is revoked, and it joins again; a client is evicted; a client comes too late to renew; another authority is made,
// and the former one is dropped; the keys of tokens change, as by days that pass, up to three times within a lease.
//
// It must see:
//  1. Who is valid has no error. Each client has a witness that writes and reads a file of its own; it may fail only while something is
//     done to this client, or in a session of before that.
//  2. Who is not valid is let in nowhere after kBound: somebody with the old certificate (kThief) asks the metadata server, and each
//     node with a token that was good. The same questions are answered before, so the probe tells something.
//  3. A token of an evicted client's former session, and one by a key of long ago, are refused after kBound, whoever shows them.
// 4. Who comes too late is given no other certificate, neither over a new connection nor over one that he has, is told why, and works
//    again when he has joined again.
// 5. The end of a change of the authority disturbs nobody who has renewed; who has only a certificate of the former one is let in nowhere
//    after kBound.
// Servers that were down, restarted or cut off meanwhile tell nothing and are not asked.
#include <map>
#include <set>
#include <utility>

#include "common/bound_token.h"
#include "test/sim/world.h"

namespace stria {
namespace {

constexpr char kThief[] = "thief";
constexpr char kAdmin[] = "admin";
constexpr int64_t kPauseNs = 4 * kSecond;
// The server knows at once, and looks at its own map every kLookNs; a node hears of it with the next heartbeat, fetches the map, and
// looks at that as often. Times of calls and of a few beats on top (docs/security.md: "within seconds").
constexpr int64_t kBoundNs = SimTrust::kLookNs + 8 * kSecond;
constexpr int64_t kFollowNodesNs = 100 * kMillisecond;  // between two looks at which nodes are sound
constexpr int64_t kReadTtlNs = 3600 * kSecond;
constexpr ShardId kNoShard{UINT64_MAX};  // the token is looked at before the shard

}  // namespace

class TrustWork final : public SimWork {
 public:
  using SimWork::SimWork;

  Task<Result<void>> Setup() override {
    touched_.resize(clients());
    for (size_t c = 0; c < clients(); ++c) {
      CO_RETURN_IF_ERROR(co_await Write(c, "x"));
    }
    scope_.Spawn(Driver());
    scope_.Spawn(FollowNodes());
    co_return Ok();
  }
  bool Idle() const override { return !driving_; }
  void Start(size_t client, uint64_t seed) override { Spawn(client, Witness(client, seed)); }
  Task<void> FinalChecks() override {
    for (size_t c = 0; c < clients(); ++c) {
      const Result<void> done = co_await Write(c, "the end");
      if (!done.ok()) Fail("in the end " + Name(c) + " cannot write: " + done.error().ToString());
    }
  }

 private:
  struct Server {  // that is asked; its place among the nodes, or none: the metadata server
    std::optional<size_t> node;
  };

  // ---- 1.
  std::string FileOf(size_t c) const { return "witness_" + std::to_string(c); }
  Task<Result<void>> Write(size_t c, const std::string& text) {
    Vfs& v = vfs(c);
    CO_ASSIGN_OR_RETURN(Vfs::Opened made, co_await v.Create(Caller(), kRootInode, FileOf(c), 0644, false, false, Flags(true)));
    const auto written = co_await v.Write(Caller(), made.handle, 0, Buffer::FromString(text));
    Result<void> done = written.ok() ? Ok() : Result<void>(written.error());
    if (done.ok()) done = co_await v.Fsync(Caller(), made.handle);
    const Result<void> released = co_await v.Release(Caller(), made.handle);
    if (done.ok()) done = released;
    co_return done;
  }
  Task<void> Witness(size_t c, uint64_t seed) {
    Random rng(seed);
    while (!stopping()) {
      co_await Sleep(static_cast<int64_t>(rng.Below(kSecond)));
      const Who me = Me(c);
      const uint64_t before = touched_[c];
      const Result<void> done = co_await Write(c, std::to_string(rng.Next()));
      Count("witnesses");
      if (done.ok() || before % 2 != 0 || touched_[c] != before) continue;
      if (!(me.generation == Me(c).generation && me.session == Me(c).session)) continue;
      Fail(Name(c) + " is valid, and cannot write its file: " + done.error().ToString());
    }
  }
  // Odd: something is being done to it.
  void Begin(size_t c) { touched_[c] += touched_[c] % 2 == 0; }
  void End(size_t c) { touched_[c] += touched_[c] % 2 != 0; }

  // ---- 2. and 3.
  // nullopt: it tells nothing.
  Task<std::optional<bool>> LetsIn(std::shared_ptr<const Peer> peer, Server s, std::string token) {
    cluster().network().SetPeer(kThief, std::move(peer));
    if (!s.node) {
      InodeRequest r;
      r.header = cluster().AdminHeader();
      const std::unique_ptr<MetaService> meta = cluster().hosts().MetaOf(kThief);
      co_return (co_await meta->GetMap(r)).ok();
    }
    ReadRequest r;
    r.header.cluster = cluster().AdminHeader().cluster;
    r.header.incarnation = 1;
    r.items.push_back({kNoShard, cluster().disks().target(*s.node, 0), std::move(token), 0, kChecksumBlockBytes});
    const std::unique_ptr<DataService> data = cluster().hosts().DataOf(kThief, *s.node);
    const Result<ReadReply> reply = co_await data->Read(r);
    if (!reply.ok()) co_return reply.code() == FsError::kUnavailable || reply.code() == FsError::kAccess ? std::optional(false) : std::nullopt;
    if (reply->items.size() != 1 || reply->items[0].result.code == FsError::kNotReady) co_return std::nullopt;
    const FsError code = reply->items[0].result.code;
    co_return code != FsError::kBadToken && code != FsError::kTokenExpired;
  }
  int64_t NowS() { return cluster().executor().WallNs() / kSecond; }
  bool Sound(Server s) {
    if (!cluster().meta_up() || world_->meta_failing_) return false;
    return !s.node || (cluster().node_up(*s.node) && cluster().registered(*s.node) && !world_->troubles_.contains(*s.node) &&
                       !world_->gone_.contains(*s.node));
  }
  struct Probe {
    Server server;
    std::shared_ptr<const Peer> peer;
    std::string token;
    uint64_t term = 0;
    int64_t at_ns = 0;
  };
  // A node that was away since has heard of nothing until it came back, and kBoundNs begins then.
  bool Disturbed(const Probe& p) const {
    const auto last = p.server.node ? unsound_ns_.find(*p.server.node) : unsound_ns_.end();
    return last != unsound_ns_.end() && last->second >= p.at_ns - kFollowNodesNs;
  }
  Task<void> FollowNodes() {
    std::map<size_t, uint64_t> starts;
    while (true) {
      for (size_t n = 0; n < cluster().nodes(); ++n) {
        const uint64_t was = std::exchange(starts[n], cluster().Figures(n).starts);
        if (!Sound({n}) || was != starts[n]) unsound_ns_[n] = NowNs();
      }
      co_await Sleep(kFollowNodesNs);
    }
  }
  // Those of the servers that let the peer in now.
  Task<std::vector<Probe>> Steal(std::shared_ptr<const Peer> peer, bool nodes_only) {
    std::vector<Probe> out;
    std::vector<Server> servers;
    if (!nodes_only) servers.push_back({});
    for (size_t n = 0; n < cluster().nodes(); ++n) servers.push_back({n});
    for (const Server& s : servers) {
      if (!Sound(s)) continue;
      Probe p{s, peer, "", cluster().meta_server()->term(), NowNs()};
      // As the mint gives them, now.
      if (s.node) p.token = cluster().TokenFor(*s.node, kNoShard, peer->Holder(), NowS() + kReadTtlNs / kSecond, KeyGeneration(NowS()));
      if (co_await LetsIn(peer, s, p.token) == true) out.push_back(std::move(p));
    }
    Count("probes", out.size());
    co_return out;
  }
  Task<void> MustBeRefused(std::vector<Probe> probes, std::string why) {
    for (const Probe& p : probes) {
      if (!Sound(p.server) || cluster().meta_server()->term() != p.term || Disturbed(p)) continue;
      const std::optional<bool> in = co_await LetsIn(p.peer, p.server, p.token);
      if (!Sound(p.server) || in != true) continue;
      Fail((p.server.node ? NodeHost(*p.server.node) : std::string("the metadata server")) + " takes what " + p.peer->ToString() +
           " may not do: " + why);
    }
  }

  // ---- What is done
  Task<void> Driver() {
    while (!faults_over()) {
      co_await Sleep(static_cast<int64_t>(world_->rng_.Below(kPauseNs)));
      if (faults_over() || !cluster().meta_up()) continue;
      switch (world_->rng_.Below(9)) {
        case 0: co_await RevokeClient(); break;
        case 1: co_await RevokeNode(); break;
        case 2: co_await Evict(); break;
        case 3: co_await Expire(); break;
        case 4: co_await RenewInTime(); break;
        case 5: co_await RenewTooLate(); break;
        case 6:
        case 7:
          if (cluster().hosts().trust().changing()) co_await FinishChange();
          else co_await ChangeAuthority();
          break;
        default: co_await RotateKeys(); break;
      }
    }
    driving_ = false;
  }
  size_t AClient() { return world_->rng_.Below(clients()); }
  // The process ends, as somebody has to mount again; it starts by itself.
  void JoinClient(size_t c) {
    world_->CrashClientNow(c);
    cluster().hosts().Join(ClientHost(c), Role::kClient);
    Trace(Name(c) + " has joined again");
    world_->revoked_.erase(c);
    End(c);
  }
  // Until it is so; false if faults end before.
  Task<bool> Revoke(std::string which, std::string serial) {
    RevokeCertificateRequest r;
    r.header = cluster().AdminHeader();
    r.which = std::move(which);
    const std::unique_ptr<TrustService> admin = cluster().hosts().TrustOf(kAdmin);
    while (!faults_over()) {
      const Result<TrustReply> done = co_await admin->RevokeCertificate(r);
      Trace("revoke " + r.which + ": " + done.error().ToString());
      if (done.ok()) co_return true;
      if (cluster().meta_up() && cluster().meta_server()->trust().enrolment()->IsRevoked(serial)) co_return true;
      co_await Sleep(kSecond);
    }
    co_return false;
  }

  Task<void> RevokeClient() {
    const size_t c = AClient();
    const std::string host = ClientHost(c);
    Begin(c);
    world_->revoked_.insert(c);
    const std::shared_ptr<const Peer> old = cluster().network().PeerOf(host);
    std::vector<Probe> probes = co_await Steal(old, false);
    if (co_await Revoke("client/" + host, old->serial)) {
      Count("revoked clients");
      co_await Sleep(kBoundNs);
      co_await MustBeRefused(std::move(probes), "its certificate was revoked");
    }
    JoinClient(c);
  }

  Task<void> RevokeNode() {
    const std::optional<size_t> n = world_->PickNode();
    if (!n) co_return;
    const std::string host = NodeHost(*n);
    ++world_->troubles_[*n].active;
    const std::shared_ptr<const Peer> old = cluster().network().PeerOf(host);
    std::vector<Probe> probes = co_await Steal(old, false);
    if (co_await Revoke("data/" + host, old->serial)) {
      Count("revoked nodes");
      co_await Sleep(kBoundNs);
      co_await MustBeRefused(std::move(probes), "its certificate was revoked");
    }
    cluster().hosts().Join(host, Role::kData);
    Trace(host + " has joined again");
    if (!faults_over()) --world_->troubles_[*n].active;
  }

  Task<void> Evict() {
    const size_t c = AClient();
    if (!cluster().client_up(c)) co_return;
    const Who me = Me(c);
    if (!Keeps(me)) co_return;
    // With another session of that owner its tokens stay good.
    size_t sessions = 0;
    for (const SessionId s : cluster().meta_server()->sessions().All()) {
      sessions += cluster().meta_server()->sessions().Find(s)->owner.name == ClientHost(c);
    }
    Begin(c);
    std::vector<Probe> probes = co_await Steal(cluster().network().PeerOf(ClientHost(c)), true);
    EvictClientRequest r;
    r.header = cluster().AdminHeader();
    r.session = me.session;
    world_->evicted_.insert(me.session);
    const std::unique_ptr<TrustService> admin = cluster().hosts().TrustOf(kAdmin);
    const Result<TrustReply> done = co_await admin->EvictClient(r);
    Trace("evict " + Name(c) + ": " + done.error().ToString());
    co_await Sleep(kBoundNs);
    if (done.ok() && sessions == 1) {
      Count("evicted clients");
      co_await MustBeRefused(std::move(probes), "the token is of a session that was ended");
    }
    End(c);
  }

  Task<void> Expire() {
    const size_t c = AClient();
    const std::string host = ClientHost(c);
    Begin(c);
    const auto lasts_s = static_cast<int64_t>(2 + world_->rng_.Below(8));
    const std::shared_ptr<const Peer> old = cluster().hosts().trust().Shorten(host, lasts_s);
    cluster().network().SetPeer(host, old);
    std::vector<Probe> probes = co_await Steal(old, false);
    Count("certificates that ended");
    co_await Sleep((lasts_s + 2) * kSecond);
    co_await MustBeRefused(std::move(probes), "its certificate is over");
    JoinClient(c);
  }

  // Of anybody but the metadata server, who is valid all the time.
  Task<bool> Renew(std::string host) {
    const std::unique_ptr<TrustService> trust = cluster().hosts().TrustOf(host);
    RenewCertificateRequest r;
    r.header = cluster().AdminHeader();
    r.request = cluster().hosts().trust().RenewalRequest(host);
    const Result<RenewCertificateReply> reply = co_await trust->RenewCertificate(r);
    Trace(host + " renews its certificate: " + reply.error().ToString());
    if (!reply.ok()) co_return false;
    const auto peer = cluster().hosts().trust().TakeRenewed(host, reply->certificate);
    if (!peer.ok()) {
      Fail(host + " cannot use the certificate that it was given: " + peer.error().ToString());
      co_return false;
    }
    cluster().network().SetPeer(host, *peer);
    co_return true;
  }
  Task<void> RenewInTime() {
    const bool node = world_->rng_.OneIn(2);
    const std::string host = node ? NodeHost(world_->rng_.Below(cluster().nodes())) : ClientHost(AClient());
    if (co_await Renew(host)) Count("renewed certificates");
  }

  // `open`: over a connection that it had before its certificate ended. 4.
  Task<void> TryTooLate(std::string host, std::string serial, bool open) {
    if (!Sound({})) co_return;
    const uint64_t term = cluster().meta_server()->term();
    cluster().hosts().trust().Linger(serial, open);
    const std::unique_ptr<TrustService> trust = cluster().hosts().TrustOf(host);
    RenewCertificateRequest r;
    r.header = cluster().AdminHeader();
    r.request = cluster().hosts().trust().RenewalRequest(host);
    const Result<RenewCertificateReply> reply = co_await trust->RenewCertificate(r);
    cluster().hosts().trust().Linger(serial, false);
    Trace(host + " renews its certificate too late: " + reply.error().ToString());
    if (reply.ok()) {
      Fail(host + " was given another certificate by one that had ended");
      co_return;
    }
    if (!Sound({}) || cluster().meta_server()->term() != term) co_return;
    const std::string& why = reply.error().message;
    const bool refused = reply.code() == FsError::kAccess || why.find("handshake") != why.npos;
    const bool told = why.find("has expired") != why.npos || why.find("gets no other certificate") != why.npos ||
                      why.find("of an authority that was removed") != why.npos;
    if (refused && !told) Fail(host + " came too late to renew its certificate, and is not told so: " + why);
    if (refused) Count("renewals that came too late");
  }
  Task<void> RenewTooLate() {
    const size_t c = AClient();
    const std::string host = ClientHost(c);
    Begin(c);
    const auto lasts_s = static_cast<int64_t>(2 + world_->rng_.Below(8));
    const std::shared_ptr<const Peer> old = cluster().hosts().trust().Shorten(host, lasts_s);
    cluster().network().SetPeer(host, old);
    cluster().hosts().NoteCertificate(host);
    co_await Sleep((lasts_s + 2) * kSecond);
    co_await TryTooLate(host, old->serial, false);
    co_await TryTooLate(host, old->serial, true);
    JoinClient(c);
  }

  // Two are believed from now on, and the new one signs what is renewed and who joins.
  Task<void> ChangeAuthority() {
    const std::unique_ptr<TrustService> admin = cluster().hosts().TrustOf(kAdmin);
    ChangeAuthorityRequest r;
    r.header = cluster().AdminHeader();
    r.verb = AuthorityVerb::kRotate;
    const Result<ChangeAuthorityReply> begun = co_await admin->ChangeAuthority(r);
    Trace("ca rotate: " + begun.error().ToString());
    if (!begun.ok()) co_return;  // or it was, and the answer is lost: two are believed, which is no harm
    Count("changes of the authority");
    co_await Sleep(kBoundNs);
  }

  // All renew, the metadata server last, and the former authority is dropped. 5.
  Task<void> FinishChange() {
    SimTrust& trust = cluster().hosts().trust();
    // Who is down would not believe the metadata server afterwards: an administrator waits for him.
    if (!trust.AllBelieveNext()) co_return;
    std::vector<std::shared_ptr<const Peer>> former;
    const std::string client = ClientHost(AClient()), node = NodeHost(world_->rng_.Below(cluster().nodes()));
    if (!trust.IsOfSigner(client)) former.push_back(cluster().network().PeerOf(client));
    if (!trust.IsOfSigner(node)) former.push_back(cluster().network().PeerOf(node));
    std::vector<std::string> own;  // the metadata server's
    for (const std::string& host : trust.Hosts()) {
      if (trust.IsOfSigner(host)) continue;
      if (cluster().network().PeerOf(host)->role == Role::kMeta) own.push_back(host);
      else if (!co_await Renew(host)) co_return;
    }
    if (!trust.AllBelieveNext()) co_return;
    for (const std::string& host : own) {
      cluster().network().SetPeer(host, trust.Resign(host));
      cluster().hosts().NoteCertificate(host);
    }
    std::vector<Probe> probes;
    for (const std::shared_ptr<const Peer>& peer : former) {
      for (Probe& p : co_await Steal(peer, false)) probes.push_back(std::move(p));
    }
    const std::unique_ptr<TrustService> admin = cluster().hosts().TrustOf(kAdmin);
    ChangeAuthorityRequest r;
    r.header = cluster().AdminHeader();
    r.verb = AuthorityVerb::kFinish;
    // Answers that were lost within the last hour may be asked for again, and certificates of former keys are still in force.
    for (int i = 0; i < 2 && trust.changing(); ++i) {
      r.force = i == 1;
      const Result<ChangeAuthorityReply> ended = co_await admin->ChangeAuthority(r);
      Trace(std::string("ca finish") + (r.force ? " --force: " : ": ") + ended.error().ToString());
    }
    if (trust.changing()) co_return;  // the metadata server is down
    Count("ends of a change of the authority");
    co_await Sleep(kBoundNs);
    co_await MustBeRefused(std::move(probes), "its authority is not believed any more");
  }

  // By days that pass while the metadata server is down.
  Task<void> RotateKeys() {
    const uint32_t was = KeyGeneration(NowS());
    const std::shared_ptr<const Peer> peer = cluster().network().PeerOf(ClientHost(0));
    for (uint64_t days = 1 + world_->rng_.Below(3); days > 0 && !faults_over(); --days) {
      Count("days");
      Trace("a day passes");
      cluster().executor().JumpWall(kKeyLifeS * kSecond);
      world_->CrashMetaNow(false, 0);
      co_await Sleep(kBoundNs / 2);
    }
    co_await Sleep(kBoundNs);
    if (KeyGeneration(NowS()) < was + 2) co_return;
    std::vector<Probe> probes = co_await Steal(peer, true);  // that its keys of today are taken
    for (Probe& p : probes) {
      p.token = cluster().TokenFor(*p.server.node, kNoShard, peer->Holder(), NowS() + kReadTtlNs / kSecond, was);
    }
    co_await MustBeRefused(std::move(probes), "the token is by a key of days ago");
  }

  std::vector<uint64_t> touched_;           // by client
  std::map<size_t, int64_t> unsound_ns_;    // when a node last was not, by node
  bool driving_ = true;
  TaskScope scope_;
};

std::unique_ptr<SimWork> MakeTrustWork(SimWorld* world) { return std::make_unique<TrustWork>(world); }

}  // namespace stria
