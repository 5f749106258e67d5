// Beats between two beat threads over loopback, while the logic of the one that listens is in the middle of a step.
#include "meta/beat_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/temp_dir.h"
#include "proto/bulk_transport.h"
#include "proto/secured_ends.h"
#include "proto/transport.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

constexpr Uuid kTheirCluster{1, 2};
constexpr int64_t kPatienceNs = 120 * kSecond;
constexpr BeatOptions kOften = {.beat_ns = 10 * kMillisecond, .answer_ns = 10 * kSecond, .watchdog_ns = 3600 * kSecond};
constexpr int kCalls = 8;
constexpr auto kLookAgain = std::chrono::milliseconds(10);

// Waits where it is until so many promises have come.
bool WaitForPromises(BeatDesk* primary, int promises) {
  int seen = 0;
  for (int tries = 0; seen < promises && tries < 6000; ++tries) {
    seen += static_cast<int>(primary->TakePromises().size());
    std::this_thread::sleep_for(kLookAgain);
  }
  return seen >= promises;
}

// A call is a step that lasts until promises have come. It runs on whichever thread serves: the executor's, or one of the transport's that
// helps it.
class LongSteps final : public Dispatcher {
 public:
  explicit LongSteps(BeatDesk* primary) : primary_(primary) {}
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string, WireMessage request) override {
    if (!WaitForPromises(primary_, 5)) co_return Error(FsError::kDeadline, "no promise has come during the step");
    co_return request;
  }

 private:
  BeatDesk* const primary_;
};

Task<Error> CallAFewTimes(std::shared_ptr<Transport> transport) {
  for (int i = 0; i < kCalls; ++i) {
    const Result<WireMessage> got = co_await transport->Call("/step", {Buffer::FromString("x"), BufferChain()}, kPatienceNs);
    if (!got.ok()) co_return got.error();
  }
  co_return Error();
}

// Steps in the middle of which the primary begins its life and connects, by an address of this machine that it has not had yet.
class BeginsInAStep final : public Dispatcher {
 public:
  explicit BeginsInAStep(BeatDesk* primary) : primary_(primary) {}
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string, WireMessage request) override {
    primary_->BeginLife({"a", 5});
    primary_->Connect("b", "127.0.0." + std::to_string(++steps_) + ":" + port);
    if (!WaitForPromises(primary_, 2)) co_return Error(FsError::kDeadline, "no promise has come during the step");
    co_return request;
  }
  std::string port;

 private:
  BeatDesk* const primary_;
  int steps_ = 0;
};

// Until all calls at the listener are answered, or one is not.
Error CallAt(LoopExecutor* ex, const std::string& address) {
  BulkClient client(ex);
  Error outcome(FsError::kDeadline);
  TaskScope scope;
  scope.Spawn([](LoopExecutor* loop, Task<Error> calls, Error* out) -> Task<void> {
    *out = co_await std::move(calls);
    loop->EndHelp();
    while (!loop->OnOwnThread()) co_await Yield();
    loop->Stop();
  }(ex, CallAFewTimes(client.Make(address)), &outcome));
  ex->Run();
  return outcome;
}

TEST(BeatThread, ConnectsWhileTheLogicIsInTheMiddleOfAStep) {
  LoopExecutor ex;
  ex.MakeCurrent();
  const auto standby = std::make_shared<BeatDesk>("b", kTheirCluster, kOften, ex.NowNs());
  const auto primary = std::make_shared<BeatDesk>("a", kTheirCluster, kOften, ex.NowNs());
  standby->SetListed(true);
  standby->promises()->Open(5);
  BeatThread of_standby({.desk = standby});
  BeginsInAStep steps(primary.get());
  BulkServerOptions options;
  options.aside = [&](std::shared_ptr<BulkHandedOn> arrival) { of_standby.Take(std::move(arrival)); };
  BulkServer listener(&ex, &steps, std::move(options));
  const std::string bound = listener.Start("0.0.0.0:0").value();
  steps.port = bound.substr(bound.rfind(':') + 1);
  BeatThread of_primary({.desk = primary});
  const Error outcome = CallAt(&ex, "127.0.0.1:" + steps.port);
  EXPECT_TRUE(outcome.ok()) << outcome;
}

TEST(BeatThread, BeatsWhileTheLogicIsInTheMiddleOfAStep) {
  LoopExecutor ex;
  ex.MakeCurrent();
  const auto standby = std::make_shared<BeatDesk>("b", kTheirCluster, kOften, ex.NowNs());
  const auto primary = std::make_shared<BeatDesk>("a", kTheirCluster, kOften, ex.NowNs());
  standby->SetListed(true);
  standby->promises()->Open(5);
  BeatThread of_standby({.desk = standby});
  LongSteps steps(primary.get());
  BulkServerOptions options;
  options.aside = [&](std::shared_ptr<BulkHandedOn> arrival) { of_standby.Take(std::move(arrival)); };
  BulkServer listener(&ex, &steps, std::move(options));
  const std::string address = listener.Start("127.0.0.1:0").value();
  BeatThread of_primary({.desk = primary});
  primary->BeginLife({"a", 5});
  primary->Connect("b", address);
  // Its connection is there before the first step.
  EXPECT_TRUE(WaitForPromises(primary.get(), 1));

  const Error outcome = CallAt(&ex, address);
  EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_GT(standby->figures().given, 5u * kCalls);
  EXPECT_EQ(standby->promises()->Last().to, (MetaLife{"a", 5}));

  // The election of the standby closes, and nothing comes any more.
  standby->promises()->Close();
  const int64_t last = standby->promises()->Last().at_ns;
  const uint64_t sent = primary->figures().sent;
  while (primary->figures().sent < sent + 5) std::this_thread::sleep_for(kLookAgain);
  EXPECT_EQ(standby->promises()->Last().at_ns, last);
}

// ---- With certificates

// A metadata server's directory of them, and what it makes of it.
struct Proof {
  Proof(const TestCluster& cluster, const std::string& name) : certificate(cluster.Sign(key, Role::kMeta, name)) {
    Write(cluster.bundle);
    SecuredEndsOptions o;
    o.own = o.lets_in = o.talks_to = {Role::kMeta};
    o.now_s = [] { return kTestNowS; };
    ends = SecuredEnds::Open(dir.path(), std::move(o)).value();
  }
  void Write(const Bundle& believed) const {
    EXPECT_TRUE(CredentialFiles::SaveNode(dir.path(), key, certificate).ok());
    EXPECT_TRUE(CredentialFiles::SaveBundle(dir.path(), believed).ok());
  }
  const TempDir dir;
  const PrivateKey key = PrivateKey::Make();
  Certificate certificate;
  std::unique_ptr<SecuredEnds> ends;
};

DispatchOptions Proved() {
  DispatchOptions o;
  o.proved = true;
  return o;
}

// Until some beats in a row were sent and none was answered.
bool FallsSilent(const BeatDesk& primary, const BeatDesk& standby) {
  for (int tries = 0; tries < 600; ++tries) {
    const uint64_t given = standby.figures().given, sent = primary.figures().sent;
    for (int looks = 0; looks < 6000 && primary.figures().sent < sent + 10; ++looks) std::this_thread::sleep_for(kLookAgain);
    if (standby.figures().given == given) return primary.figures().sent >= sent + 10;
  }
  return false;
}

// Its client and its server take what the ends take: where metadata servers are, who was revoked, and certificates of another authority.
TEST(BeatThread, ChangesOfWhoIsBelievedCountForItToo) {
  LoopExecutor ex;
  ex.MakeCurrent();
  const TestCluster cluster, next;
  Proof a(cluster, "a"), b(cluster, "b");
  const auto standby = std::make_shared<BeatDesk>("b", kTheirCluster, kOften, ex.NowNs());
  const auto primary = std::make_shared<BeatDesk>("a", kTheirCluster, kOften, ex.NowNs());
  standby->SetListed(true);
  standby->promises()->Open(5);
  BeatThread of_standby({.desk = standby, .ends = b.ends.get(), .admission = Proved()});
  b.ends->OnChange([&] { of_standby.Judge(); });
  LongSteps nothing(primary.get());
  BulkServerOptions options;
  b.ends->Secure(&options);
  options.aside = [&](std::shared_ptr<BulkHandedOn> arrival) { of_standby.Take(std::move(arrival)); };
  BulkServer listener(&ex, &nothing, std::move(options));
  const std::string address = listener.Start("127.0.0.1:0").value();
  BeatThread of_primary({.desk = primary, .ends = a.ends.get(), .admission = Proved()});
  a.ends->OnChange([&] { of_primary.Judge(); });
  a.ends->ExpectMetas({address});  // as the register says; nobody else is believed to be one
  primary->BeginLife({"a", 5});
  primary->Connect("b", address);
  EXPECT_TRUE(WaitForPromises(primary.get(), 3));

  b.ends->TakeTrust(cluster.bundle.ToPem(), {a.certificate.serial()});
  EXPECT_TRUE(FallsSilent(*primary, *standby)) << "a revoked member is still answered";

  const Bundle both = Bundle::Of({cluster.authority.certificate(), next.authority.certificate()}).value();
  b.ends->TakeTrust(both.ToPem(), {a.certificate.serial()});
  a.certificate = next.Sign(a.key, Role::kMeta, "a");
  a.Write(both);
  InlinePool pool;
  TaskScope scope;
  scope.Spawn([](SecuredEnds* ends, Pool* files, LoopExecutor* loop) -> Task<void> {
    loop->EndHelp();
    co_await ends->Refresh(files);
    loop->Stop();
  }(a.ends.get(), &pool, &ex));
  ex.Run();
  (void)primary->TakePromises();
  EXPECT_TRUE(WaitForPromises(primary.get(), 3)) << "its certificate of the new authority is not shown, or not believed";
}

TEST(BeatThread, EndsAtAnyMoment) {
  LoopExecutor ex;
  ex.MakeCurrent();
  for (int i = 0; i < 20; ++i) {
    const auto desk = std::make_shared<BeatDesk>("a", kTheirCluster, kOften, ex.NowNs());
    desk->BeginLife({"a", 5});
    desk->Connect("b", "127.0.0.1:1");  // nobody is there
    BeatThread thread({.desk = desk});
    thread.Judge();
    if (i % 2 == 0) continue;
    while (desk->figures().sent < 3) std::this_thread::sleep_for(kLookAgain);
  }
}

}  // namespace
}  // namespace stria
