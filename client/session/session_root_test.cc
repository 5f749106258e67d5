// The answer to OpenSession names the directory that the session mounts.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "client/session/fake_meta.h"
#include "client/session/meta_session.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

TEST(SessionRoot, IsTheOneThatItWasGivenFirst) {
  SimExecutor ex(1, 4);
  FakeMeta meta(3);
  MetaSessionOptions options;
  options.addresses = {"a"};
  options.client_uuid = Uuid{1, 2};
  options.timeout_ns = 60 * kSecond;
  options.path = "/atlas";
  MetaSession session(meta, options);
  SessionHandlers h;
  h.on_event_came = [](const SessionEvent&) {};
  h.on_event = [](SessionEvent) -> Task<void> { co_return; };
  h.held = [] { return std::vector<HeldInode>(); };
  h.on_reclaimed = [](bool) -> Task<void> { co_return; };
  h.on_came_back = [](std::vector<NotTaken>) -> Task<void> { co_return; };
  h.on_restart = []() -> Task<void> { co_return; };
  h.on_map = [](const std::shared_ptr<const ClusterMap>&) {};
  session.SetHandlers(std::move(h));
  session.Start();
  meta.root = InodeId(77);
  meta.read_only = true;
  EXPECT_TRUE(RunSim(ex, session.WaitReady()).ok());
  EXPECT_EQ(meta.path, "/atlas");
  EXPECT_EQ(session.root(), InodeId(77));
  EXPECT_TRUE(session.read_only());
  // In another session the path may lead elsewhere.
  meta.root = InodeId(78);
  meta.read_only = false;
  meta.path.clear();
  meta.Fence();
  ex.RunFor(30 * kSecond);
  EXPECT_EQ(meta.sessions_opened(), 2u);
  EXPECT_EQ(meta.path, "/atlas");
  EXPECT_EQ(session.root(), InodeId(77));
  EXPECT_FALSE(session.read_only());
}

}  // namespace
}  // namespace stria
