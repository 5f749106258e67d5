// What the doctor asks the metadata server.
#include "tools/cli/doctor/ask.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/exec/loop_executor.h"
#include "common/units.h"
#include "tools/cli/cli_testing.h"
#include "tools/cli/sample_status.h"

namespace stria::cli::doctor {
namespace {

// Of a server that answers GetMap, and to which anything else is an error.
Result<ClusterMap> Ask(const std::function<Result<ClusterMap>(const InodeRequest&)>& get_map, Facts* facts) {
  auto meta = std::make_shared<FakeMeta>();
  meta->onGetMap = get_map;
  auto connector = std::make_shared<std::unique_ptr<FakeConnector>>(
      std::make_unique<FakeConnector>(std::map<std::string, std::shared_ptr<FakeMeta>>{{"live:7424", meta}}));
  ClientOptions options;
  options.addresses = {"live:7424"};
  ClusterClient client(std::move(options), [connector]() -> std::unique_ptr<ClusterConnector> { return std::move(*connector); });
  return AskCluster(client, facts);
}

TEST(DoctorAsk, OnlyWhatEveryCertificateMayAsk) {
  Facts facts;
  const auto map = Ask(
      [](const InodeRequest&) -> Result<ClusterMap> {
        ClusterMap m = SampleStatus().map;
        m.server_version = "0.9.0 (commit 0123456789ab)";
        m.wall_ns = WallclockNs() - 3600 * kSecond;
        return m;
      },
      &facts);
  ASSERT_TRUE(map.ok()) << map.error();
  EXPECT_EQ(map->nodes.size(), SampleStatus().map.nodes.size());
  EXPECT_EQ(facts.server_version, "0.9.0 (commit 0123456789ab)");
  EXPECT_TRUE(facts.clock.known);
  EXPECT_GE(facts.clock.round_trip_ns, 0);
  EXPECT_GE(facts.clock.offset_ns + facts.clock.round_trip_ns, 3600 * kSecond) << "this machine is ahead";
}

TEST(DoctorAsk, AnOlderServerDoesNotSay) {
  Facts facts;
  ASSERT_TRUE(Ask([](const InodeRequest&) -> Result<ClusterMap> { return SampleStatus().map; }, &facts).ok());
  EXPECT_EQ(facts.server_version, "");
  EXPECT_FALSE(facts.clock.known);
}

TEST(DoctorAsk, ARefusalIsTheServers) {
  Facts facts;
  const auto map = Ask([](const InodeRequest&) -> Result<ClusterMap> { return Error(FsError::kAccess, "not you"); }, &facts);
  EXPECT_EQ(map.code(), FsError::kAccess);
  EXPECT_FALSE(facts.clock.known);
}

}  // namespace
}  // namespace stria::cli::doctor
