#include "meta/house_doors.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "proto/stubs.h"

namespace stria {
namespace {

// Answers at once, or never.
class FakeDispatcher final : public Dispatcher {
 public:
  Task<Result<WireMessage>> Handle(std::shared_ptr<const Peer>, std::string method, WireMessage request) override {
    ++begun;
    const Inside here(&inside);
    if (method.ends_with("Hang")) co_await never_.Wait();
    co_return request;
  }
  int begun = 0;
  int inside = 0;

 private:
  struct Inside {
    explicit Inside(int* n) : count(n) { ++*count; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { --*count; }
    int* const count;
  };
  Event never_;
};

class HouseDoorsTest : public testing::TestWithParam<bool> {
 protected:
  HouseDoorsTest() : ex_(1), doors_(GetParam()) { doors_.AddTo(&router_); }
  HouseInside House() { return {&meta_, &admin_, &trust_}; }
  FsError Call(const std::string& method) { return RunSim(ex_, router_.Handle(nullptr, method, WireMessage())).code(); }

  SimExecutor ex_;
  FakeDispatcher meta_, admin_, trust_;
  HouseDoors doors_;
  Router router_;
};
INSTANTIATE_TEST_SUITE_P(MayShut, HouseDoorsTest, testing::Bool());

TEST_P(HouseDoorsTest, LeadsEachServiceToItsOwn) {
  EXPECT_EQ(Call("/stria.v1.Meta/Lookup"), FsError::kNotReady) << "nobody is in yet";
  EXPECT_FALSE(doors_.is_open());
  doors_.Open(House());
  EXPECT_TRUE(doors_.is_open());
  EXPECT_EQ(Call("/stria.v1.Meta/Lookup"), FsError::kOk);
  EXPECT_EQ(meta_.begun, 1);
  EXPECT_EQ(Call("/stria.v1.Admin/Upkeep"), FsError::kOk);
  EXPECT_EQ(admin_.begun, 1);
  EXPECT_EQ(Call("/stria.v1.Trust/MakeToken"), FsError::kOk);
  EXPECT_EQ(trust_.begun, 1);
  EXPECT_EQ(Call("/stria.v1.Data/Read"), FsError::kVersion);
}

// A house is torn down: its calls end at once, their callers are told why, and the next house serves.
TEST(HouseDoors, ShuttingEndsWhatIsInside) {
  SimExecutor ex(2);
  FakeDispatcher meta, admin, trust, later;
  HouseDoors doors(true);
  Router router;
  doors.AddTo(&router);
  doors.Open({&meta, &admin, &trust});
  std::vector<FsError> answers;
  TaskScope callers;
  for (const char* method : {"/stria.v1.Meta/Hang", "/stria.v1.Meta/Hang", "/stria.v1.Admin/Hang"}) {
    callers.Spawn(router.Handle(nullptr, method, WireMessage()), [&answers](Result<WireMessage> r) { answers.push_back(r.code()); });
  }
  ex.RunFor(kSecond);
  EXPECT_EQ(doors.inside(), 3u);
  EXPECT_EQ(meta.inside, 2);
  EXPECT_TRUE(answers.empty());

  doors.Shut(Error(FsError::kNotLeader, "pc2 is primary"));
  EXPECT_EQ(meta.inside + admin.inside, 0) << "before anything else goes on";
  ex.RunFor(kSecond);
  EXPECT_EQ(answers, std::vector<FsError>(3, FsError::kNotLeader));
  EXPECT_EQ(doors.inside(), 0u);
  EXPECT_EQ(RunSim(ex, router.Handle(nullptr, "/stria.v1.Meta/Lookup", WireMessage())).error().message, "pc2 is primary");

  doors.Open({&later, &admin, &trust});
  EXPECT_TRUE(RunSim(ex, router.Handle(nullptr, "/stria.v1.Meta/Lookup", WireMessage())).ok());
  EXPECT_EQ(later.begun, 1);
  EXPECT_EQ(meta.begun, 2);
}

// A transport that stops destroys its calls.
TEST(HouseDoors, ACallerWhoIsGoneLeavesNothingInside) {
  SimExecutor ex(4);
  FakeDispatcher meta;
  HouseDoors doors(true);
  Router router;
  doors.AddTo(&router);
  doors.Open({&meta, &meta, &meta});
  {
    TaskScope callers;
    callers.Spawn(router.Handle(nullptr, "/stria.v1.Meta/Hang", WireMessage()), [](Result<WireMessage>) { FAIL(); });
    ex.RunFor(kSecond);
    EXPECT_EQ(meta.inside, 1);
  }
  EXPECT_EQ(meta.inside, 0);
  EXPECT_EQ(doors.inside(), 0u);
}

}  // namespace
}  // namespace stria
