// Whose sessions are, and what exports give them. On a core, without a metadata server.
#include "meta/coherence/coherence.h"

#include <algorithm>
#include <vector>

#include "meta/core/core_testing.h"
#include "meta/exports/export_room.h"

namespace stria {
namespace {

class ExportedTest : public CoreTest, public CleanerHost {
 protected:
  ~ExportedTest() override {
    calls.CancelAll();
    if (cleaner) cleaner->Stop();
  }
  bool IsOpen(InodeId ino) const override { return coherence->IsOpen(ino); }
  bool IsWanted(InodeId ino) const override { return coherence->IsWanted(ino); }
  void TellTrimmed(const Touched& t) override { coherence->notices().TellTrimmed(t); }

  void Begin() {
    calls.CancelAll();
    coherence.reset();
    exports.reset();
    cleaner.reset();
    Make();
    cleaner = std::make_unique<Cleaner>(core.get(), this);
    exports = std::make_unique<ExportRoom>(core.get());
    coherence = std::make_unique<Coherence>(core.get(), cleaner.get(), CoherenceOptions(), [this](SessionId s) { ended.insert(s); });
    coherence->UseExports(exports.get(), [](const Peer& p) { return p.name == "trusted"; });
    Start([&](Txn& txn) -> Result<void> {
      RETURN_IF_ERROR(exports->Load(txn));
      RETURN_IF_ERROR(coherence->Load(txn));
      return cleaner->Load(txn);
    });
    if (!coherence->sessions().table().reclaiming()) cleaner->EndClaims();
    cleaner->Start();
  }
  static OpHeader At(OpHeader h, const std::string& address) {
    Peer p = *h.peer;
    p.address = address;
    h.peer = std::make_shared<const Peer>(p);
    return h;
  }
  // As it is in the store.
  std::string StoredAddress(const OpHeader& h) {
    Txn txn(core->store());
    const auto bytes = txn.Get(Family::kSessions, SessionKey(h.session));
    if (!bytes.ok() || !*bytes) return "";
    return DecodeSessionRecord(**bytes).value().grant.address;
  }
  static std::shared_ptr<const Peer> Named(const std::string& name, Role role = Role::kClient, uint8_t key = 1) {
    Peer p;
    p.role = role;
    p.name = name;
    p.key_hash[0] = key;
    p.address = "10.3.0.7:1234";
    return std::make_shared<const Peer>(p);
  }
  // "": who has proved nothing.
  OpHeader From(const std::string& name) {
    OpHeader h = Header();
    if (!name.empty()) h.peer = Named(name);
    return h;
  }
  OpenSessionRequest Ask(const std::string& name, uint64_t client, const std::string& path = "/") {
    OpenSessionRequest r;
    r.header = From(name);
    r.client_uuid = Uuid{77, client};
    r.client = "client " + std::to_string(client);
    r.comes_back = true;
    r.path = path;
    return r;
  }
  Result<OpenSessionReply> Opened(OpenSessionRequest r) { return RunSim(ex, coherence->OpenSession(std::move(r))); }
  OpHeader Open(const std::string& name, uint64_t client, const std::string& path = "/") {
    const Result<OpenSessionReply> reply = Opened(Ask(name, client, path));
    EXPECT_TRUE(reply.ok()) << reply.error();
    OpHeader h = From(name);
    if (!reply.ok()) return h;
    h.session = reply->session;
    h.epoch = reply->epoch;
    return h;
  }
  FsError Check(const OpHeader& h) { return coherence->sessions().CheckSession(h).code(); }
  bool Exists(const OpHeader& h) const { return coherence->sessions().table().Exists(h.session); }
  FsError Set(const std::string& line) { return RunSim(ex, exports->Set(ParseExport(line).value())).code(); }
  InodeId MakeNode(InodeId parent, const std::string& name, FileType type) {
    MakeNodeRequest r;
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = 0700;  // of root
    OpCtx ctx;
    ctx.touched = &touched;
    return Do([&](Txn& txn) { return OpMakeNode(txn, ctx, r); }).value().node.attr.ino;
  }
  std::string Proof(const OpHeader& h, InodeId ino) { return coherence->ProofOf(h, ino, 1, kOpenRead | kOpenWrite); }
  template <class T>
  void Call(Task<T> task, std::optional<T>* out) {
    calls.Spawn([](Task<T> t, std::optional<T>* o) -> Task<void> { o->emplace(co_await std::move(t)); }(std::move(task), out));
    ex.RunFor(kMillisecond);
  }

  std::unique_ptr<Cleaner> cleaner;
  std::unique_ptr<ExportRoom> exports;
  std::unique_ptr<Coherence> coherence;
  std::set<SessionId> ended;
  TaskScope calls;
};

TEST_F(ExportedTest, ASessionIsItsOwnersOnEveryPath) {
  Begin();
  for (const std::string owner : {"pc7", ""}) {
    const OpHeader own = Open(owner, owner.size());
    EXPECT_EQ(Check(own), FsError::kOk);
    OpHeader newer_key = own, other = own, unproved = own;
    newer_key.peer = Named("pc7", Role::kClient, 2);
    other.peer = Named("pc8");
    unproved.peer = owner.empty() ? Named("pc7") : nullptr;
    for (const OpHeader& h : {newer_key, other, unproved}) {
      EXPECT_EQ(Check(h), FsError::kAccess);
      RenewRequest renew;
      renew.header = h;
      EXPECT_EQ(coherence->Renew(renew).code(), FsError::kAccess);
      PollRequest poll;
      poll.header = h;
      EXPECT_EQ(RunSim(ex, coherence->sessions().Poll(poll)).code(), FsError::kAccess);
      EXPECT_EQ(coherence->CloseSession(h).code(), FsError::kAccess);
      OpenSessionRequest reclaim = Ask("", owner.size());
      reclaim.header = h;
      EXPECT_EQ(Opened(reclaim).code(), FsError::kAccess);
    }
    EXPECT_EQ(Check(own), FsError::kOk) << "nothing has happened to it";
    EXPECT_TRUE(coherence->CloseSession(own).ok());
    EXPECT_FALSE(Exists(own));
  }
}

TEST_F(ExportedTest, ItsOwnerTakesItBackAndNobodyElse) {
  Begin();
  const OpHeader a = Open("pc7", 1), b = Open("pc8", 2);
  ex.RunFor(60 * kSecond);
  coherence->Tick();
  ASSERT_TRUE(coherence->sessions().table().IsLapsed(a.session));
  OpenSessionRequest back = Ask("pc8", 1);
  back.header.session = a.session;
  back.header.epoch = a.epoch;
  EXPECT_EQ(Opened(back).code(), FsError::kAccess);
  back.header.peer = a.peer;
  const Result<OpenSessionReply> taken = Opened(back);
  ASSERT_TRUE(taken.ok()) << taken.error();
  EXPECT_TRUE(taken->lapsed);
  EXPECT_EQ(taken->session, a.session);
  // After a restart as well: the record says it.
  Begin();
  OpenSessionRequest reclaim = Ask("pc9", 1);
  reclaim.header.session = a.session;
  reclaim.header.epoch = taken->epoch;
  EXPECT_EQ(Opened(reclaim).code(), FsError::kAccess);
  reclaim.header.peer = a.peer;
  EXPECT_TRUE(Opened(reclaim).value().reclaimed);
}

TEST_F(ExportedTest, WhoKnowsAClientsNumberEndsNoSessionOfIt) {
  Begin();
  const OpHeader a = Open("pc7", 1);
  const OpHeader b = Open("pc8", 1), c = Open("", 1);
  EXPECT_TRUE(Exists(a) && Exists(b) && Exists(c));
  const OpHeader again = Open("pc7", 1);
  EXPECT_FALSE(Exists(a));
  EXPECT_TRUE(Exists(again) && Exists(b) && Exists(c));
}

TEST_F(ExportedTest, AMountGetsTheExportThatNamesIt) {
  Begin();
  const InodeId atlas = MakeNode(kRootInode, "atlas", FileType::kDirectory);
  const InodeId data = MakeNode(atlas, "data", FileType::kDirectory);
  MakeNode(atlas, "file", FileType::kFile);
  ASSERT_EQ(Set("path=/atlas clients=wn* access=ro"), FsError::kOk);
  const OpenSessionReply all = Opened(Ask("pc7", 1, "/")).value();
  EXPECT_EQ(all.root, kRootInode);
  EXPECT_FALSE(all.read_only || all.confined);
  EXPECT_FALSE(coherence->BoundOf(all.session));
  const OpenSessionReply wide = Opened(Ask("pc7", 2, "/atlas/data")).value();  // by "/"
  EXPECT_EQ(wide.root, data);
  EXPECT_FALSE(wide.read_only || wide.confined);
  const OpenSessionReply narrow = Opened(Ask("wn1", 3, "/atlas/data")).value();
  EXPECT_EQ(narrow.root, data) << "as root finds it, though none but root may pass";
  EXPECT_TRUE(narrow.read_only && narrow.confined);
  ASSERT_TRUE(coherence->BoundOf(narrow.session));
  EXPECT_EQ(coherence->BoundOf(narrow.session)->root, data);
  EXPECT_EQ(coherence->BoundOf(narrow.session)->key.k0, exports->KeyOf("/atlas").k0);
  EXPECT_EQ(Opened(Ask("", 4, "/atlas/data")).value().root, data) << "without proof, as before";
  EXPECT_EQ(Opened(Ask("", 5, "")).value().root, kRootInode) << "of a client that does not say";

  const Result<OpenSessionReply> none = Opened(Ask("pc7", 6, "/atlas/none"));
  EXPECT_EQ(none.code(), FsError::kNoEnt);
  EXPECT_EQ(none.error().message, "cannot mount /atlas/none: there is no such directory in the filesystem");
  EXPECT_EQ(Opened(Ask("pc7", 6, "/atlas/file")).code(), FsError::kNotDir);
  EXPECT_EQ(Opened(Ask("pc7", 6, "/atlas/../atlas")).code(), FsError::kInval);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", {})).ok());
  EXPECT_EQ(Opened(Ask("pc7", 6, "/atlas/data")).code(), FsError::kAccess);
  EXPECT_TRUE(Opened(Ask("wn2", 7, "/atlas")).ok());
}

TEST_F(ExportedTest, CallersCountAsTheExportSays) {
  Begin();
  OpHeader h = Open("pc7", 1);
  const auto as = [&](uint32_t uid, uint32_t gid = 0, std::vector<uint32_t> groups = {}) {
    h.uid = uid, h.gid = gid, h.groups = std::move(groups);
    return coherence->Ctx(h, nullptr);
  };
  EXPECT_EQ(as(0).uid, kNobody);
  EXPECT_EQ(as(1000, 1000, {0, 20}).uid, 1000u);
  EXPECT_EQ(as(1000, 1000, {0, 20}).groups, std::vector<uint32_t>{20}) << "root's group is not believed";
  h.uid = 0, h.gid = 0;
  EXPECT_FALSE(coherence->IsBelieved(h));
  h.uid = 1000;
  EXPECT_FALSE(coherence->IsBelieved(h)) << "its group is root's";
  h.gid = 1000;
  EXPECT_TRUE(coherence->IsBelieved(h));
  ASSERT_EQ(Set("path=/ clients=pc7 squash=none uids=1000-1999 gids=1000-1999"), FsError::kOk);
  EXPECT_EQ(as(5).uid, 5u) << "of several the first: that of every client";
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", ParseExport("path=/")->clients)).ok());
  h = Open("pc7", 2);
  EXPECT_EQ(as(0).uid, 0u);
  EXPECT_EQ(as(5, 1000).uid, kNobody);
  EXPECT_EQ(as(1000, 5, {1500, 5}).gid, kNobody);
  EXPECT_EQ(as(1000, 5, {1500, 5}).groups, std::vector<uint32_t>{1500});
  // Who has no session.
  OpHeader alone = From("pc7");
  EXPECT_EQ(coherence->Ctx(alone, nullptr).uid, kNobody);
  alone.uid = 7;
  alone.peer = Named("pc1", Role::kAdmin);
  EXPECT_EQ(coherence->Ctx(alone, nullptr).uid, 0u);
}

TEST_F(ExportedTest, ATrustedRootIsRoot) {
  Begin();
  OpHeader h = Open("trusted", 1);
  EXPECT_EQ(coherence->Ctx(h, nullptr).uid, 0u);
  EXPECT_TRUE(coherence->IsBelieved(h));
  EXPECT_TRUE(coherence->IsBelieved(Open("", 2))) << "insecure, without root_squash";
}

// What the client is told agrees with as whom its callers count.
TEST_F(ExportedTest, ASessionIsToldWhoIsBelieved) {
  Begin();
  uint64_t client = 0;
  const auto told = [&](const std::string& name) { return Opened(Ask(name, ++client)).value().believed; };
  const CallerRange all = {0, UINT32_MAX}, but_root = {1, UINT32_MAX};
  EXPECT_EQ(told("pc7"), (BelievedCallers{false, {but_root}, {but_root}}));
  EXPECT_EQ(told("trusted"), (BelievedCallers{true, {but_root}, {all}}));
  EXPECT_EQ(told(""), (BelievedCallers{true, {but_root}, {all}})) << "insecure, without root_squash";
  const auto only = [&](const std::string& line) {
    ASSERT_TRUE(RunSim(ex, exports->Remove("/", {})).ok());
    ASSERT_EQ(Set(line), FsError::kOk);
  };
  only("path=/ squash=none");
  EXPECT_EQ(told("pc7"), (BelievedCallers{true, {but_root}, {all}}));
  only("path=/ squash=all");
  EXPECT_EQ(told("trusted"), BelievedCallers());
  only("path=/ uids=0-99,1000-1999 gids=0,50-60");
  const BelievedCallers some = told("pc7");
  EXPECT_EQ(some, (BelievedCallers{false, {{1, 99}, {1000, 1999}}, {{50, 60}}}));
  const auto in = [](const std::vector<CallerRange>& ranges, uint32_t id) {
    return std::any_of(ranges.begin(), ranges.end(), [id](const CallerRange& r) { return r.first <= id && id <= r.last; });
  };
  OpHeader h = Open("pc7", ++client);
  for (const uint32_t uid : {0u, 1u, 99u, 100u, 999u, 1000u, 1999u, 2000u, UINT32_MAX}) {
    for (const uint32_t gid : {0u, 49u, 50u, 60u, 61u}) {
      h.uid = uid, h.gid = gid;
      EXPECT_EQ(coherence->IsBelieved(h), in(some.uids, uid) && in(some.gids, gid)) << uid << ":" << gid;
    }
  }
}

TEST_F(ExportedTest, AdminsAreThoseWhoProveIt) {
  Begin();
  OpHeader h = Header();
  EXPECT_TRUE(coherence->sessions().CheckAdmin(h).ok()) << "insecure: as the caller says";
  h.peer = Named("pc7");
  const Result<void> refused = coherence->sessions().CheckAdmin(h, "changes the cluster");
  EXPECT_EQ(refused.code(), FsError::kPerm);
  EXPECT_EQ(refused.error().message, "only an admin changes the cluster; this is client pc7 at 10.3.0.7:1234");
  for (const Role role : {Role::kData, Role::kMonitor, Role::kMeta}) {
    h.peer = Named("pc7", role);
    EXPECT_EQ(coherence->sessions().CheckAdmin(h).code(), FsError::kPerm);
  }
  h.peer = Named("pc7", Role::kAdmin);
  h.uid = 1000;
  EXPECT_TRUE(coherence->sessions().CheckAdmin(h).ok());
}

TEST_F(ExportedTest, AChangeOfTheExportsBindsWhatIsOpenAtOnce) {
  Begin();
  const OpHeader a = Open("pc7", 1), unproved = Open("", 2);
  const auto line = [&](const OpHeader& h) { return FormatExport(*coherence->sessions().table().Find(h.session)->grant.by); };
  ASSERT_EQ(Set("path=/ squash=none"), FsError::kOk);
  ASSERT_TRUE(Exists(a)) << "it loses nothing";
  EXPECT_EQ(line(a), "path=/ clients=* access=rw squash=none");
  OpHeader root = a;
  EXPECT_EQ(coherence->Ctx(root, nullptr).uid, 0u);
  Begin();
  EXPECT_EQ(line(a), "path=/ clients=* access=rw squash=none") << "durable";
  OpenSessionRequest reclaim = Ask("pc7", 1);
  reclaim.header.session = a.session;
  reclaim.header.epoch = a.epoch;
  ASSERT_TRUE(Opened(reclaim).value().reclaimed);
  ended.clear();
  ASSERT_EQ(Set("path=/ access=ro squash=none"), FsError::kOk);
  EXPECT_FALSE(Exists(a));
  EXPECT_EQ(ended, std::set<SessionId>{a.session});
  EXPECT_EQ(coherence->sessions().CheckSession(a).code(), FsError::kFenced);
  EXPECT_NE(coherence->sessions().table().Find(unproved.session), nullptr) << "no export is its";
  // It mounts again, by what there is now.
  EXPECT_TRUE(Opened(Ask("pc7", 1)).value().read_only);
  const OpHeader b = Open("pc8", 3);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", {})).ok());
  EXPECT_FALSE(Exists(b));
  EXPECT_EQ(Opened(Ask("pc8", 3)).code(), FsError::kAccess);
}

// The exports have changed while it was away.
TEST_F(ExportedTest, WhoComesBackIsJudgedByTheExportsOfNow) {
  Begin();
  const OpHeader a = Open("pc7", 1);
  ex.RunFor(60 * kSecond);
  coherence->Tick();
  ASSERT_TRUE(coherence->sessions().table().IsLapsed(a.session));
  ASSERT_EQ(Set("path=/ access=ro"), FsError::kOk);
  OpenSessionRequest back = Ask("pc7", 1);
  back.header.session = a.session;
  back.header.epoch = a.epoch;
  EXPECT_EQ(Opened(back).code(), FsError::kRetryLater);
  const Result<OpenSessionReply> next = Opened(back);
  ASSERT_TRUE(next.ok()) << next.error();
  EXPECT_FALSE(next->reclaimed);
  EXPECT_NE(next->session, a.session);
  EXPECT_TRUE(next->read_only);
}

// An export may name networks: what a session has counts where its client is now.
TEST_F(ExportedTest, AClientThatMovesIsJudgedWhereItIs) {
  Begin();
  ASSERT_EQ(Set("path=/ clients=10.3.0.0/16"), FsError::kOk);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", ParseExport("path=/")->clients)).ok());
  const OpHeader a = Open("pc7", 1), b = Open("pc8", 2);
  EXPECT_EQ(Check(At(a, "10.3.0.7:9")), FsError::kOk) << "another connection";
  EXPECT_EQ(Check(At(a, "10.3.0.8:9")), FsError::kOk) << "another host of the network";
  EXPECT_EQ(coherence->sessions().table().Find(a.session)->grant.address, "10.3.0.8:9");
  EXPECT_EQ(Check(At(a, "192.168.0.7:1234")), FsError::kFenced);
  EXPECT_FALSE(Exists(a));
  EXPECT_EQ(core->tokens().Fenced().size(), 1u);
  RenewRequest renew;
  renew.header = At(b, "192.168.0.7:1234");
  EXPECT_EQ(coherence->Renew(renew).code(), FsError::kFenced);
  EXPECT_FALSE(Exists(b));
}

// One with two networks may call from both in turn. Each call is judged where it comes from; the store hears of it once a minute.
TEST_F(ExportedTest, AClientWithTwoAddressesIsNotWrittenWithEachCall) {
  Begin();
  const std::string one = "10.3.0.8:9", two = "10.4.0.8:9";
  // A line for each: by which it holds changes as well.
  ASSERT_EQ(Set("path=/ clients=10.3.0.0/16"), FsError::kOk);
  ASSERT_EQ(Set("path=/ clients=10.4.0.0/16"), FsError::kOk);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", ParseExport("path=/")->clients)).ok());
  const OpHeader a = Open("pc7", 1);
  const auto seq = [&] { return core->store().last_seq().v; };
  const uint64_t before = seq();
  for (int i = 0; i < 100; ++i) {
    const std::string& from = i % 2 == 0 ? one : two;
    ASSERT_EQ(Check(At(a, from)), FsError::kOk);
    const SessionGrant& grant = coherence->sessions().table().Find(a.session)->grant;
    ASSERT_EQ(grant.address, from) << "it is judged by that";
    ASSERT_EQ(grant.by->clients, ParseExport(i % 2 == 0 ? "path=/ clients=10.3.0.0/16" : "path=/ clients=10.4.0.0/16")->clients);
  }
  EXPECT_EQ(seq(), before + 1);
  EXPECT_EQ(StoredAddress(a), one);
  // What it has in the end is stored, without another call from elsewhere.
  ex.RunFor(AddressWrites::kEveryNs);
  RenewRequest renew;
  renew.header = At(a, two);
  ASSERT_TRUE(coherence->Renew(renew).ok());
  EXPECT_EQ(StoredAddress(a), one);
  coherence->Tick();
  EXPECT_EQ(StoredAddress(a), two);
  // The network that it calls from now is closed to it: that counts although the store does not know where it is.
  ASSERT_EQ(Check(At(a, one)), FsError::kOk);
  EXPECT_EQ(StoredAddress(a), two);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", ParseExport("path=/ clients=10.3.0.0/16")->clients)).ok());
  EXPECT_FALSE(Exists(a));
  EXPECT_EQ(Opened(Ask("pc8", 2)).code(), FsError::kAccess) << "nor does a new one get in from there";
}

// What binds a session is for its owner only.
TEST_F(ExportedTest, ASessionIsKnownToBeAnothers) {
  Begin();
  const InodeId atlas = MakeNode(kRootInode, "atlas", FileType::kDirectory);
  ASSERT_EQ(Set("path=/atlas clients=wn*"), FsError::kOk);
  const OpHeader own = Open("wn1", 1, "/atlas");
  OpHeader other = own, none = own;
  other.peer = Named("wn2");
  none.session = SessionId(999);
  EXPECT_TRUE(coherence->IsOwn(own));
  EXPECT_FALSE(coherence->IsOwn(other));
  EXPECT_TRUE(coherence->IsOwn(none)) << "there is no such session";
  EXPECT_EQ(coherence->NamesCtx(own).confined_to, atlas);
  EXPECT_EQ(coherence->NamesCtx(other).confined_to, InodeId()) << "he is not told the names that its owner is";
  EXPECT_EQ(coherence->NamesCtx(none).confined_to, InodeId());
}

TEST_F(ExportedTest, AReadOnlySessionClaimsNothingForWriting) {
  Begin();
  const InodeId ino = MakeNode(kRootInode, "f", FileType::kFile);
  ASSERT_EQ(Set("path=/ access=ro"), FsError::kOk);
  const OpHeader b = Open("pc8", 2);
  ex.RunFor(60 * kSecond);
  coherence->Tick();
  ASSERT_TRUE(coherence->sessions().table().IsLapsed(b.session));
  const OpHeader a = Open("pc7", 1);
  HeldInode held;
  held.ino = ino;
  held.for_write = true;
  held.lease = LeaseMode::kExclusive;
  const auto claim = [&](const OpHeader& h, uint64_t client) {
    OpenSessionRequest r = Ask(h.peer->name, client);
    r.header.session = h.session;
    r.header.epoch = h.epoch;
    held.proof = Proof(h, ino);  // as if it had been given it
    r.held = {held};
    return Opened(r);
  };
  Begin();
  // What it holds is nobody's: it goes on without.
  const Result<OpenSessionReply> back = claim(a, 1);
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_TRUE(back->lapsed);
  EXPECT_FALSE(coherence->grants().table().IsWriter(a.session, ino));
  EXPECT_EQ(coherence->grants().table().ModeOf(a.session, ino), LeaseMode::kNone);
  // Of one that had lapsed before, the server does not know how it had the file open.
  ASSERT_TRUE(claim(b, 2).value().lapsed);
  EXPECT_TRUE(coherence->grants().table().IsOpenBy(b.session, ino));
  EXPECT_FALSE(coherence->grants().table().IsWriter(b.session, ino));
}

TEST_F(ExportedTest, AnOwnerHasSoManySessions) {
  Begin();
  OpHeader last;
  for (uint64_t i = 1; i <= kMaxSessionsOfOwner; ++i) last = Open("pc7", i);
  const Result<OpenSessionReply> more = Opened(Ask("pc7", 1000));
  EXPECT_EQ(more.code(), FsError::kRetryLater);
  EXPECT_NE(more.error().message.find("pc7"), std::string::npos);
  EXPECT_TRUE(Opened(Ask("pc8", 1000)).ok());
  EXPECT_TRUE(Opened(Ask("pc7", kMaxSessionsOfOwner)).ok()) << "in the place of its former one";
  EXPECT_FALSE(Exists(last));
  OpenSessionRequest first = Ask("pc7", 1);
  EXPECT_TRUE(Opened(first).ok());
  EXPECT_EQ(Opened(Ask("pc7", 1000)).code(), FsError::kRetryLater);
}

TEST_F(ExportedTest, ALaterPollEndsTheEarlierOne) {
  Begin();
  const OpHeader a = Open("pc7", 1);
  PollRequest r;
  r.header = a;
  r.header.timeout_ns = 10 * kSecond;
  std::optional<Result<PollReply>> first, second;
  Call(coherence->sessions().Poll(r), &first);
  EXPECT_FALSE(first);
  Call(coherence->sessions().Poll(r), &second);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->ok() && (*first)->events.empty());
  EXPECT_FALSE(second);
  coherence->sessions().PushAll(SessionEvent::Kind::kClusterMap);
  ex.RunFor(kMillisecond);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->value().events.size(), 1u);
}

// Of whom data servers take nothing any more that was given before.
TEST_F(ExportedTest, AnEvictedOwnersTokensAreNotGoodAnyMore) {
  Begin();
  const auto fenced = [&] { return core->tokens().Fenced(); };
  const OpHeader first = Open("pc7", 1), second = Open("pc7", 2), nobody = Open("", 4);
  ASSERT_TRUE(coherence->EvictClient(first.session).ok());
  EXPECT_TRUE(fenced().empty()) << "its other session has the same key, and lives";
  ASSERT_TRUE(coherence->EvictClient(nobody.session).ok());
  EXPECT_TRUE(fenced().empty()) << "who has proved nothing holds nothing";
  ASSERT_TRUE(coherence->EvictClient(second.session).ok());
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].holder, first.peer->Holder());
  EXPECT_LT(fenced()[0].writes_until_s, fenced()[0].others_until_s);
  // Nor does a new session make those of before good again.
  Open("pc7", 5);
  EXPECT_EQ(fenced().size(), 1u);
  ex.RunFor((fenced()[0].others_until_s + 1) * kSecond - core->tokens().TimeNs());
  EXPECT_TRUE(fenced().empty()) << "they are over";
}

TEST_F(ExportedTest, WhoLeavesByItselfIsNotCutOff) {
  Begin();
  const OpHeader closed = Open("pc7", 1);
  ASSERT_TRUE(coherence->CloseSession(closed).ok());
  EXPECT_FALSE(Exists(closed));
  const OpHeader replaced = Open("pc7", 2);
  Open("pc7", 2);
  EXPECT_FALSE(Exists(replaced));
  EXPECT_TRUE(core->tokens().Fenced().empty());
}

TEST_F(ExportedTest, WhomNoExportNamesAnyMoreIsCutOff) {
  Begin();
  const OpHeader a = Open("pc7", 1);
  EXPECT_EQ(Set("path=/ clients=pc8"), FsError::kOk);
  ASSERT_TRUE(RunSim(ex, exports->Remove("/", ParseExport("path=/")->clients)).ok());
  EXPECT_FALSE(Exists(a));
  ASSERT_EQ(core->tokens().Fenced().size(), 1u);
  EXPECT_EQ(core->tokens().Fenced()[0].holder, a.peer->Holder());
}

TEST_F(ExportedTest, OfARevokedKeyNothingIsLeft) {
  Begin();
  const OpHeader first = Open("pc7", 1), second = Open("pc7", 2);
  OpenSessionRequest ask = Ask("pc8", 3);
  ask.header.peer = Named("pc8", Role::kClient, 2);
  const OpenSessionReply other = Opened(ask).value();
  coherence->EndHolder(first.peer->key_hash);
  EXPECT_FALSE(Exists(first) || Exists(second));
  EXPECT_TRUE(coherence->sessions().table().Exists(other.session));
  ASSERT_EQ(core->tokens().Fenced().size(), 1u);
  EXPECT_EQ(core->tokens().Fenced()[0].holder, first.peer->Holder());
  // One that has no session has tokens all the same: a data server, to rebuild by.
  const auto node = Named("n3", Role::kData, 9);
  coherence->EndHolder(node->key_hash);
  EXPECT_EQ(core->tokens().Fenced().size(), 2u);
}

TEST_F(ExportedTest, AnEvictedClientsSessionIsOver) {
  Begin();
  const OpHeader a = Open("pc7", 1);
  ASSERT_TRUE(coherence->EvictClient(a.session).ok());
  EXPECT_EQ(Check(a), FsError::kFenced);
  EXPECT_EQ(ended, std::set<SessionId>{a.session});
  EXPECT_EQ(coherence->EvictClient(a.session).code(), FsError::kNoEnt);
}

}  // namespace
}  // namespace stria
