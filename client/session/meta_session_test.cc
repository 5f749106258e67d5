#include "client/session/meta_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "client/session/fake_meta.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

class Env {
 public:
  explicit Env(uint64_t seed, std::vector<std::string> addresses = {"a"}, int64_t timeout_ns = 60 * kSecond)
      : ex(seed, 4),
        rng(seed + 1),
        meta(seed + 2),
        session(meta, Options(seed, std::move(addresses), timeout_ns)) {
    SessionHandlers h;
    h.on_event_came = [this](const SessionEvent& e) { came.push_back(e.seq); };
    h.on_event = [this](SessionEvent e) { return OnEvent(e); };
    h.held = [this] { return held; };
    h.on_reclaimed = [this](bool lost) -> Task<void> {
      reclaims.push_back(lost);
      steps.push_back("reclaimed, server knows " + std::to_string(meta.reclaimed().size()));
      co_return;
    };
    h.on_came_back = [this](std::vector<NotTaken> lost) -> Task<void> {
      came_back.push_back(std::move(lost));
      eras.push_back(session.era());
      co_return;
    };
    h.on_restart = [this]() -> Task<void> {
      steps.push_back("restart, server knows " + std::to_string(meta.reclaimed().size()));
      co_return;
    };
    h.on_map = [this](const std::shared_ptr<const ClusterMap>& m) { maps.push_back(m->version); };
    session.SetHandlers(std::move(h));
    session.Start();
  }

  static MetaSessionOptions Options(uint64_t seed, std::vector<std::string> addresses, int64_t timeout_ns) {
    MetaSessionOptions o;
    o.addresses = std::move(addresses);
    o.client_uuid = Uuid{1, 2};
    o.timeout_ns = timeout_ns;
    o.seed = seed;
    return o;
  }

  Task<void> OnEvent(SessionEvent e) {
    started.push_back(e.seq);
    co_await Sleep(handler_ns[e.ino]);
    handled.push_back(e.seq);
  }

  Result<NodeReply> Unlink(const std::string& name) {
    return RunSim(ex, session.Mutate(&MetaService::Unlink, Request(name)));
  }
  static NameRequest Request(const std::string& name) {
    NameRequest r;
    r.name = name;
    return r;
  }

  SimExecutor ex;
  Random rng;
  FakeMeta meta;
  std::vector<HeldInode> held;
  std::vector<bool> reclaims;
  std::vector<std::vector<NotTaken>> came_back;
  std::vector<uint64_t> eras;
  std::vector<std::string> steps;  // of a restart, and of how much that we hold the server had heard
  std::vector<uint64_t> maps;
  std::vector<uint64_t> came, started, handled;
  std::map<InodeId, int64_t> handler_ns;
  MetaSession session;
};

TEST(MetaSession, OpensRenewsAndCalls) {
  Env env(1);
  EXPECT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  EXPECT_EQ(env.maps, std::vector<uint64_t>{1});
  EXPECT_TRUE(env.reclaims.empty());
  EXPECT_EQ(RunSim(env.ex, env.session.Call(&MetaService::Lookup, Env::Request("x"))).code(),
            FsError::kNoEnt);
  EXPECT_TRUE(env.Unlink("x").ok());
  env.ex.RunFor(300 * kSecond);
  EXPECT_GT(env.session.LeaseLeftNs(), 8 * kSecond);
  EXPECT_LE(env.session.LeaseLeftNs(), 14 * kSecond);
  EXPECT_NEAR(static_cast<double>(env.meta.renewals()), 60, 5);
  EXPECT_LT(env.meta.polls(), 60u);
}

TEST(MetaSession, LeaseRunsFromSendingTheRenewal) {
  Env env(2);
  EXPECT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.meta.faults.down = true;
  env.ex.RunFor(14 * kSecond);
  EXPECT_LE(env.session.LeaseLeftNs(), 0);
  env.meta.faults.down = false;
  env.ex.RunFor(2 * kSecond);
  EXPECT_GT(env.session.LeaseLeftNs(), 10 * kSecond);
}

TEST(MetaSession, FindsTheLeader) {
  Env env(3, {"dead", "standby", "a"});
  EXPECT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  EXPECT_TRUE(env.Unlink("x").ok());
}

TEST(MetaSession, GivesUpAfterTheTimeout) {
  Env env(4, {"a", "dead"}, 5 * kSecond);
  EXPECT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  const auto look = [&env] { return RunSim(env.ex, env.session.Call(&MetaService::Lookup, Env::Request("x"))); };
  env.meta.faults.down = true;
  int64_t before = env.ex.NowNs();
  const Result<NodeReply> r = look();
  EXPECT_EQ(r.code(), FsError::kUnavailable);
  EXPECT_NE(r.error().message.find("a, dead"), std::string::npos) << r.error();
  EXPECT_LE(env.ex.NowNs() - before, 5 * kSecond);
  env.meta.faults.down = false;
  env.meta.faults.hung = true;
  before = env.ex.NowNs();
  EXPECT_EQ(look().code(), FsError::kTimedOut);
  EXPECT_LE(env.ex.NowNs() - before, 7 * kSecond);
  EXPECT_FALSE(env.session.overdue());
}

// The session asks for the outcome until it knows it; a change that was not done is not done later.
TEST(MetaSession, KnowsWhatBecameOfAMutation) {
  for (const bool done : {false, true}) {
    SCOPED_TRACE(done);
    Env env(4, {"a"}, 5 * kSecond);
    EXPECT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    if (done) env.meta.faults.lost_reply_percent = 100;
    else env.meta.faults.down = true;
    std::optional<Result<NodeReply>> r;
    TaskScope scope;
    scope.Spawn([](MetaSession* s, std::optional<Result<NodeReply>>* out) -> Task<void> {
      out->emplace(co_await s->Mutate(&MetaService::Unlink, Env::Request("x")));
    }(&env.session, &r));
    env.ex.RunFor(4 * kSecond);
    EXPECT_FALSE(env.session.overdue());
    env.ex.RunFor(2 * kSecond);
    EXPECT_TRUE(env.session.overdue());
    EXPECT_TRUE(env.session.overdue(Env::Request("x").parent));
    EXPECT_FALSE(env.session.overdue(InodeId(4711))) << "it has nothing to do with that";
    EXPECT_FALSE(r);
    env.meta.faults = {};
    env.ex.RunFor(6 * kSecond);
    ASSERT_TRUE(r);
    EXPECT_FALSE(env.session.overdue());
    EXPECT_FALSE(env.session.overdue(Env::Request("x").parent));
    EXPECT_EQ(env.session.generation(), 1u);
    EXPECT_EQ(r->code(), done ? FsError::kOk : FsError::kUnavailable);
    EXPECT_EQ(env.meta.log().size(), done ? 1u : 0u);
  }
}

TEST(MetaSession, MutationsHappenOnce) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    env.meta.faults = {20, 20, 20};
    std::vector<std::string> want;
    for (int i = 0; i < 60; ++i) {
      want.push_back("f" + std::to_string(i));
      ASSERT_TRUE(env.Unlink(want.back()).ok());
    }
    EXPECT_EQ(env.meta.log(), want);
    EXPECT_EQ(env.session.generation(), 1u);
    // Answered and durable changes are not kept.
    env.meta.faults = {};
    env.ex.RunFor(20 * kSecond);
    ASSERT_TRUE(env.Unlink("last").ok());
    EXPECT_EQ(env.meta.stored_results(), 1u);
  }
}

TEST(MetaSession, ReplaysWhatARestartLost) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    env.meta.SyncByItself(false);
    env.held = {{InodeId(5), LeaseMode::kExclusive, true}};
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    std::vector<std::string> want;
    for (int round = 0; round < 4; ++round) {
      for (uint64_t i = env.rng.Below(30); i > 0; --i) {
        want.push_back("f" + std::to_string(want.size()));
        ASSERT_TRUE(env.Unlink(want.back()).ok());
        if (env.rng.OneIn(10)) env.meta.Sync();
        if (env.rng.OneIn(10)) env.ex.RunFor(6 * kSecond);
      }
      env.meta.Restart(false);
      env.meta.faults = {static_cast<uint32_t>(env.rng.Below(20)), static_cast<uint32_t>(env.rng.Below(20)),
                         10};
      env.ex.RunFor(20 * kSecond);
      env.meta.faults = {};
      ASSERT_EQ(env.meta.log(), want);
      EXPECT_EQ(env.meta.reclaimed().size(), 1u);
    }
    EXPECT_EQ(env.reclaims, (std::vector<bool>{false, false, false, false}));
    EXPECT_EQ(env.session.generation(), 1u);
    EXPECT_GT(env.session.LeaseLeftNs(), 0);
  }
}

// A lease given back with a name is given back in the term of the server in which the session had it: after a restart the
// session has claimed its leases, perhaps this one again.
template <class Req>
void GivesNothingBackAfterARestart(Task<Result<NodeReply>> (MetaService::*method)(Req)) {
  for (const bool answered : {true, false}) {
    SCOPED_TRACE(answered ? "replayed" : "asked again");
    Env env(1);
    env.meta.SyncByItself(false);
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    if (!answered) env.meta.faults.lost_reply_percent = 100;
    Req request;
    request.release = InodeId(7);
    request.header.term = env.session.term();
    std::optional<Result<NodeReply>> r;
    TaskScope scope;
    scope.Spawn(env.session.Mutate(method, std::move(request)), [&r](Result<NodeReply> reply) { r.emplace(std::move(reply)); });
    env.ex.RunFor(3 * kSecond);
    EXPECT_EQ(r.has_value(), answered);
    const std::vector<InodeId> before = env.meta.released();
    ASSERT_FALSE(before.empty());
    EXPECT_EQ(before, std::vector<InodeId>(before.size(), InodeId(7)));
    env.meta.faults = {};
    env.meta.Restart(false);
    env.ex.RunFor(20 * kSecond);
    EXPECT_TRUE(r && r->ok());
    EXPECT_EQ(env.meta.log().size(), 1u);
    const std::vector<InodeId> all = env.meta.released();
    ASSERT_GT(all.size(), before.size());
    const std::vector<InodeId> after(all.begin() + static_cast<ptrdiff_t>(before.size()), all.end());
    EXPECT_EQ(after, std::vector<InodeId>(after.size(), InodeId()));
  }
}
TEST(MetaSession, AReleaseGivesNothingBackAfterARestart) {
  Env env(1);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.meta.faults.lost_reply_percent = 100;
  InodeRequest request;
  request.ino = InodeId(7);
  request.header.term = env.session.term();
  std::optional<Result<Empty>> r;
  TaskScope scope;
  scope.Spawn(env.session.Call(&MetaService::Release, std::move(request)), [&r](Result<Empty> reply) { r.emplace(std::move(reply)); });
  env.ex.RunFor(3 * kSecond);
  const size_t before = env.meta.released().size();
  ASSERT_GT(before, 0u);
  env.meta.faults = {};
  env.meta.Restart(false);
  env.ex.RunFor(20 * kSecond);
  EXPECT_TRUE(r && r->ok());
  const std::vector<InodeId> all = env.meta.released();
  ASSERT_GT(all.size(), before);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i < before ? InodeId(7) : InodeId()) << i;
}
TEST(MetaSession, AnUnlinkGivesNothingBackAfterARestart) { GivesNothingBackAfterARestart(&MetaService::Unlink); }
TEST(MetaSession, ARenameGivesNothingBackAfterARestart) { GivesNothingBackAfterARestart(&MetaService::Rename); }

// As soon as all sessions have reclaimed, calls of others may change what the kernel has cached.
TEST(MetaSession, TheKernelForgetsBeforeTheReclaim) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    env.held = {{InodeId(5), LeaseMode::kExclusive, true}};
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    env.meta.Restart(false);
    env.ex.RunFor(20 * kSecond);
    EXPECT_EQ(env.steps, (std::vector<std::string>{"restart, server knows 0", "reclaimed, server knows 1"}));
  }
}

// Calls under way while the server restarts, in any phase: each is done once, whatever was answered.
TEST(MetaSession, RestartsInTheMiddleOfCalls) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    env.meta.SyncByItself(seed % 2 == 0);
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    TaskScope scope;
    size_t done = 0;
    std::vector<std::string> want;
    for (int i = 0; i < 40; ++i) {
      want.push_back("f" + std::to_string(i));
      scope.Spawn([](Env* e, std::string name, int64_t wait, size_t* count) -> Task<void> {
        co_await Sleep(wait);
        const Result<NodeReply> r = co_await e->session.Mutate(&MetaService::Unlink, Env::Request(name));
        EXPECT_TRUE(r.ok()) << r.error();
        ++*count;
      }(&env, want.back(), static_cast<int64_t>(env.rng.Below(3000)) * kMicrosecond, &done));
    }
    for (int i = 0; i < 3; ++i) {
      env.ex.RunFor(static_cast<int64_t>(env.rng.Below(1200)) * kMicrosecond);
      env.meta.Restart(false);
    }
    ASSERT_TRUE(env.ex.RunUntil([&] { return done == want.size(); }, env.ex.NowNs() + 60 * kSecond));
    env.ex.RunFor(20 * kSecond);
    std::vector<std::string> got = env.meta.log();
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    EXPECT_EQ(got, want);
  }
}

TEST(MetaSession, FencedUntilAFreshSession) {
  Env env(5);
  EXPECT_TRUE(env.Unlink("a").ok());
  env.meta.Fence();
  env.meta.refuses_opens = Error(FsError::kAccess);
  EXPECT_EQ(env.Unlink("b").code(), FsError::kFenced);
  EXPECT_EQ(env.session.generation(), 2u);
  EXPECT_EQ(RunSim(env.ex, env.session.WaitNext()).code(), FsError::kAccess);  // waiting would not help
  env.meta.refuses_opens = Error();
  env.ex.RunFor(kSecond);
  EXPECT_TRUE(RunSim(env.ex, env.session.WaitNext()).ok());
  EXPECT_EQ(env.reclaims, std::vector<bool>{true});
  EXPECT_FALSE(env.session.fenced());
  EXPECT_TRUE(env.Unlink("c").ok());
  EXPECT_EQ(env.meta.log(), (std::vector<std::string>{"a", "c"}));
}

TEST(MetaSession, ComesBackAfterItsLease) {
  Env env(5);
  env.held = {{InodeId(7), LeaseMode::kExclusive, true, false}};
  EXPECT_TRUE(env.Unlink("a").ok());
  env.meta.not_taken = {{InodeId(8), true}};
  env.meta.Lapse();
  EXPECT_TRUE(env.Unlink("b").ok()) << "who asks waits";
  env.ex.RunFor(kSecond);
  EXPECT_EQ(env.session.generation(), 1u);
  EXPECT_EQ(env.session.era(), 2u);
  EXPECT_EQ(env.session.epoch(), Epoch(2));
  EXPECT_EQ(env.came_back, (std::vector<std::vector<NotTaken>>{{{InodeId(8), true}}}));
  EXPECT_EQ(env.eras, std::vector<uint64_t>{2}) << "before anything else is asked";
  EXPECT_TRUE(env.reclaims.empty());
  ASSERT_EQ(env.meta.reclaimed().size(), 1u);
  EXPECT_EQ(env.meta.reclaimed()[0].ino, InodeId(7));
  EXPECT_GT(env.session.LeaseLeftNs(), 10 * kSecond);
  EXPECT_EQ(env.meta.log(), (std::vector<std::string>{"a", "b"}));
  // Events go on.
  const uint64_t e = env.meta.Push(SessionEvent::Kind::kInvalidateAttr, InodeId(3));
  env.ex.RunFor(kSecond);
  EXPECT_EQ(env.handled, std::vector<uint64_t>{e});
  EXPECT_EQ(env.meta.acked_event(), e);
}

TEST(MetaSession, EachChangeOnceWhateverIsLostWhenItComesBack) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Env env(seed);
    env.meta.faults.lost_request_percent = env.meta.faults.lost_reply_percent = 30;
    std::vector<std::string> want;
    size_t done = 0;
    TaskScope scope;
    for (int i = 0; i < 20; ++i) {
      want.push_back("n" + std::to_string(i));
      scope.Spawn([](Env* e, std::string name, size_t* count) -> Task<void> {
        co_await Sleep(static_cast<int64_t>(e->rng.Below(20)) * kMillisecond);
        EXPECT_TRUE((co_await e->session.Mutate(&MetaService::Unlink, Env::Request(name))).ok());
        ++*count;
      }(&env, want.back(), &done));
    }
    for (int i = 0; i < 3; ++i) {
      env.ex.RunFor(static_cast<int64_t>(env.rng.Below(8000)) * kMicrosecond);
      env.meta.Lapse();
    }
    ASSERT_TRUE(env.ex.RunUntil([&] { return done == want.size(); }, env.ex.NowNs() + 120 * kSecond)) << seed;
    std::vector<std::string> got = env.meta.log();
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    EXPECT_EQ(got, want) << seed;
    EXPECT_EQ(env.session.generation(), 1u);
  }
}

// A release tells of an earlier time: the present leases have been claimed since then.
TEST(MetaSession, NothingIsGivenBackThatWasHeldBefore) {
  Env env(3);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.meta.faults.down = true;
  NameRequest r = Env::Request("a");
  r.release = InodeId(9);
  r.header.term = env.session.term();
  std::optional<Result<NodeReply>> reply;
  TaskScope scope;
  scope.Spawn([](Env* e, NameRequest what, std::optional<Result<NodeReply>>* out) -> Task<void> {
    *out = co_await e->session.Mutate(&MetaService::Unlink, std::move(what));
  }(&env, std::move(r), &reply));
  env.ex.RunFor(5 * kSecond);
  env.meta.Lapse();
  env.meta.faults.down = false;
  env.ex.RunFor(5 * kSecond);
  ASSERT_TRUE(reply && reply->ok());
  EXPECT_EQ(env.meta.released(), std::vector<InodeId>{InodeId()});
}

// The server has restarted while the session was lapsed, and did not wait for what only this client could have said again.
TEST(MetaSession, WhatARestartLostMeanwhileIsNotPassedOver) {
  for (const bool synced : {true, false}) {
    Env env(4);
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    env.meta.SyncByItself(false);
    EXPECT_TRUE(env.Unlink("a").ok());
    if (synced) env.meta.Sync();
    env.meta.Lapse();
    env.meta.Restart(false);
    env.meta.Lapse();  // it knows
    env.ex.RunFor(20 * kSecond);
    EXPECT_EQ(env.session.generation(), synced ? 1u : 2u);
    EXPECT_EQ(env.came_back.size(), synced ? 1u : 0u);
    EXPECT_EQ(env.reclaims, synced ? std::vector<bool>{} : std::vector<bool>{true});
    EXPECT_TRUE(env.Unlink("b").ok());
  }
}

TEST(MetaSession, RestartThatForgotUs) {
  Env env(6);
  EXPECT_TRUE(env.Unlink("a").ok());
  env.ex.RunFor(10 * kSecond);
  env.meta.Restart(true);
  env.ex.RunFor(20 * kSecond);
  EXPECT_EQ(env.reclaims, std::vector<bool>{true});
  EXPECT_EQ(env.session.generation(), 2u);
  EXPECT_TRUE(env.Unlink("b").ok());
}

TEST(MetaSession, EventsAreHandledPerInodeInOrderAndAckedInOrder) {
  Env env(7);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.handler_ns[InodeId(1)] = 3 * kSecond;  // a slow kernel
  using Kind = SessionEvent::Kind;
  const uint64_t slow = env.meta.Push(Kind::kInvalidateData, InodeId(1));
  env.ex.RunFor(100 * kMillisecond);
  const uint64_t quick = env.meta.Push(Kind::kInvalidateAttr, InodeId(2));
  const uint64_t behind = env.meta.Push(Kind::kInvalidateAttr, InodeId(1));
  const int64_t before = env.ex.NowNs();
  ASSERT_TRUE(env.ex.RunUntil([&] { return !env.handled.empty(); }, before + 500 * kMillisecond));
  EXPECT_EQ(env.handled, std::vector<uint64_t>{quick});
  env.ex.RunFor(100 * kMillisecond);
  EXPECT_EQ(env.meta.acked_event(), slow - 1) << "an acknowledgement overtakes none before it";
  env.ex.RunFor(2 * kSecond);
  EXPECT_EQ(env.started, (std::vector<uint64_t>{slow, quick}));
  EXPECT_EQ(env.came, (std::vector<uint64_t>{slow, quick, behind})) << "nothing cached outlives an event that has come";
  const uint64_t polls = env.meta.polls();
  env.ex.RunFor(10 * kSecond);
  EXPECT_EQ(env.handled, (std::vector<uint64_t>{quick, slow, behind}));
  EXPECT_EQ(env.meta.acked_event(), behind);
  EXPECT_LT(env.meta.polls() - polls, 90u);
}

// Another client may wait for the acknowledgement, and the recall for that client.
TEST(MetaSession, AnAcknowledgementDoesNotWaitForARecallOfTheSameInode) {
  Env env(7);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.handler_ns[InodeId(1)] = 3 * kSecond;
  using Kind = SessionEvent::Kind;
  const uint64_t recall = env.meta.Push(Kind::kRecall, InodeId(1));
  env.ex.RunFor(100 * kMillisecond);
  env.handler_ns[InodeId(1)] = 0;
  const uint64_t told = env.meta.Push(Kind::kInvalidateData, InodeId(1));
  env.ex.RunFor(500 * kMillisecond);
  EXPECT_EQ(env.handled, std::vector<uint64_t>{told});
  EXPECT_EQ(env.meta.acked_event(), told) << "and a recall under way keeps nobody waiting";
  env.ex.RunFor(5 * kSecond);
  EXPECT_EQ(env.handled, (std::vector<uint64_t>{told, recall}));
}

TEST(MetaSession, AnEventIsAcknowledgedWithoutDelay) {
  Env env(8);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  for (int i = 0; i < 100; ++i) {
    const uint64_t e = env.meta.Push(SessionEvent::Kind::kInvalidateData, InodeId(env.rng.Below(5) + 1));
    const int64_t before = env.ex.NowNs();
    ASSERT_TRUE(env.ex.RunUntil([&] { return env.meta.acked_event() == e; }, before + 10 * kMillisecond))
        << i << " " << env.meta.acked_event() << " " << e << " " << env.handled.size() << " "
        << env.meta.polls();
  }
  EXPECT_EQ(env.handled.size(), 100u);
}

TEST(MetaSession, EventsSurviveLossAndRestarts) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
    env.meta.faults = {20, 20, 0};
    for (uint64_t i = 1; i <= 4; ++i)
      env.handler_ns[InodeId(i)] = static_cast<int64_t>(i * i) * 10 * kMillisecond;
    uint64_t last = 0;
    for (int i = 0; i < 50; ++i) {
      last = env.meta.Push(SessionEvent::Kind::kInvalidateData, InodeId(env.rng.Below(5) + 1));
      env.ex.RunFor(static_cast<int64_t>(env.rng.Below(100)) * kMillisecond);
    }
    ASSERT_TRUE(
        env.ex.RunUntil([&] { return env.meta.acked_event() == last; }, env.ex.NowNs() + 60 * kSecond));
    std::vector<uint64_t> once = env.handled;
    std::sort(once.begin(), once.end());
    EXPECT_EQ(std::unique(once.begin(), once.end()), once.end());
    EXPECT_EQ(once.size(), 50u);
    // Events that a restart drops were pushed for leases that the reclaim renews.
    env.meta.Push(SessionEvent::Kind::kInvalidateData, InodeId(4));
    env.meta.Restart(false);
    env.ex.RunFor(20 * kSecond);
    last = env.meta.Push(SessionEvent::Kind::kInvalidateData, InodeId(1));
    ASSERT_TRUE(
        env.ex.RunUntil([&] { return env.meta.acked_event() == last; }, env.ex.NowNs() + 60 * kSecond));
  }
}

TEST(MetaSession, FollowsTheClusterMap) {
  Env env(9);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.meta.SetMapVersion(4);
  const uint64_t e = env.meta.Push(SessionEvent::Kind::kClusterMap, InodeId());
  env.ex.RunFor(kSecond);
  EXPECT_EQ(env.meta.acked_event(), e);
  EXPECT_EQ(env.maps, (std::vector<uint64_t>{1, 4}));
  env.meta.SetMapVersion(5);  // the event got lost; a renewal tells
  env.ex.RunFor(10 * kSecond);
  EXPECT_EQ(env.maps, (std::vector<uint64_t>{1, 4, 5}));
}

TEST(MetaSession, GarbageWaitsForReads) {
  Env env(10);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  env.ex.RunFor(12 * kSecond);
  ReadGuard read = env.session.BeginRead();
  const CommitSeq began = env.meta.seq();
  env.meta.Advance(50);
  env.ex.RunFor(12 * kSecond);
  ReadGuard later = env.session.BeginRead();
  EXPECT_EQ(env.meta.seen(), began);
  read = std::move(later);
  env.ex.RunFor(12 * kSecond);
  EXPECT_EQ(env.meta.seen(), env.meta.seq());
}

TEST(MetaSession, ManyMutationsWaitForTheServerToSync) {
  Env env(11);
  env.meta.SyncByItself(false);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  TaskScope scope;
  size_t done = 0;
  for (size_t i = 0; i < kMaxUndurableOps + 100; ++i) {
    scope.Spawn([](Env* e, size_t* count) -> Task<void> {
      (void)co_await e->session.Mutate(&MetaService::Unlink, Env::Request("x"));
      if (++*count == kMaxUndurableOps) co_await Sleep(0);
    }(&env, &done));
    if (i % 100 == 0) env.ex.RunFor(10 * kMillisecond);
  }
  env.ex.RunFor(5 * kSecond);
  EXPECT_LT(done, kMaxUndurableOps + 100);
  env.meta.SyncByItself(true);
  env.ex.RunFor(5 * kSecond);
  EXPECT_EQ(done, kMaxUndurableOps + 100);
}

TEST(MetaSession, ClosesAndStops) {
  Env env(12);
  ASSERT_TRUE(RunSim(env.ex, env.session.WaitReady()).ok());
  RunSim(env.ex, env.session.Close());
  EXPECT_EQ(env.Unlink("x").code(), FsError::kCancelled);
  EXPECT_LE(env.session.LeaseLeftNs(), 0);
}

// A crash: everything is destroyed in the middle of its work.
TEST(MetaSession, CanBeDestroyedAtAnyPoint) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Env env(seed);
    env.meta.faults = {10, 10, 10};
    env.handler_ns[InodeId(1)] = kMillisecond;
    TaskScope scope;
    for (int i = 0; i < 5; ++i) {
      scope.Spawn([](Env* e) -> Task<void> {
        while ((co_await e->session.Mutate(&MetaService::Unlink, Env::Request("x"))).ok()) {
        }
      }(&env));
    }
    for (int i = 0; i < 3; ++i) {
      env.meta.Push(SessionEvent::Kind::kInvalidateData, InodeId(1));
      env.ex.RunFor(static_cast<int64_t>(env.rng.Below(5000)) * kMicrosecond);
      if (env.rng.OneIn(3)) env.meta.Restart(env.rng.OneIn(2));
    }
  }
}

}  // namespace
}  // namespace stria
