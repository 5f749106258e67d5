#include "meta/ha_config.h"

#include <gtest/gtest.h>

#include <utility>

namespace stria {
namespace {

constexpr char kThree[] = "member = 'pc1'\naddress = 'pc1'\netcd = ['pc1', 'pc2:2380', '[fe80::3]']\n";

Result<HaConfig> From(const std::string& table, const std::string& listen = "0.0.0.0:7424", const std::string& address = "") {
  Result<Config> file = Config::Parse("[ha]\n" + table, "meta.toml");
  if (!file.ok()) return file.error();
  std::optional<HaConfig> ha = HaConfigFrom(*file);
  RETURN_IF_ERROR(file->Finish());
  if (!ha) return Error(FsError::kNoEnt);
  RETURN_IF_ERROR(CompleteHaConfig(&*ha, listen, address));
  return *std::move(ha);
}

TEST(HaConfig, NobodyHasToHaveIt) {
  Result<Config> file = Config::Parse("", "meta.toml");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(HaConfigFrom(*file), std::nullopt);
  EXPECT_TRUE(file->Finish().ok());
}

TEST(HaConfig, DefaultsAndPorts) {
  const Result<HaConfig> ha = From(kThree, "0.0.0.0:7500");
  ASSERT_TRUE(ha.ok()) << ha.error();
  EXPECT_EQ(ha->member, "pc1");
  EXPECT_EQ(ha->address, "pc1:7500") << "the port that it listens at";
  EXPECT_EQ(ha->etcd, (std::vector<std::string>{"pc1:2379", "pc2:2380", "[fe80::3]:2379"}));
  EXPECT_EQ(ha->beat_ns, 250 * kMillisecond);
  EXPECT_EQ(ha->suspect_ns, 1500 * kMillisecond);
  EXPECT_EQ(ha->promise_ns, 3 * kSecond);
  EXPECT_EQ(ha->grace_ns, 5 * kSecond);
  EXPECT_EQ(ha->ack_timeout_ns, 2 * kSecond);
  EXPECT_EQ(ha->watchdog_ns, 15 * kSecond);
  EXPECT_EQ(ha->min_in_sync, std::nullopt);
  EXPECT_FALSE(ha->plain_received);
}

TEST(HaConfig, TakesWhatIsSet) {
  const Result<HaConfig> ha = From(std::string(kThree) +
                                   "ca = '/a'\ncert = '/b'\nkey = '/c'\nbeat = '100ms'\nsuspect = '400ms'\npromise = '2s'\ngrace = '3s'\n"
                                   "ack_timeout = '1s'\nwatchdog = '4s'\nmin_in_sync = '2'\nplain = 'received'");
  ASSERT_TRUE(ha.ok()) << ha.error();
  EXPECT_EQ(ha->ca + ha->cert + ha->key, "/a/b/c");
  EXPECT_EQ(ha->beat_ns, 100 * kMillisecond);
  EXPECT_EQ(ha->suspect_ns, 400 * kMillisecond);
  EXPECT_EQ(ha->promise_ns, 2 * kSecond);
  EXPECT_EQ(ha->grace_ns, 3 * kSecond);
  EXPECT_EQ(ha->ack_timeout_ns, kSecond);
  EXPECT_EQ(ha->watchdog_ns, 4 * kSecond);
  EXPECT_EQ(ha->min_in_sync, 2u);
  EXPECT_TRUE(ha->plain_received);
}

TEST(HaConfig, TheWatchdogIsPatientWithALongGrace) {
  const Result<HaConfig> ha = From(std::string(kThree) + "grace = '1min'");
  ASSERT_TRUE(ha.ok()) << ha.error();
  EXPECT_EQ(ha->watchdog_ns, 180 * kSecond);
}

TEST(HaConfig, TheServersOwnAddressIsTaken) {
  const std::string table = "member = 'pc1'\netcd = ['a', 'b', 'c']\n";
  const Result<HaConfig> ha = From(table, "0.0.0.0:7424", "pc9:7424");
  ASSERT_TRUE(ha.ok()) << ha.error();
  EXPECT_EQ(ha->address, "pc9:7424");
  const Result<HaConfig> none = From(table);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("ha.address"), std::string::npos) << none.error();
}

// Each with what the sentence must name.
TEST(HaConfig, RefusesWithASentence) {
  const std::string rest = "member = 'pc1'\naddress = 'pc1'\n";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"address = 'pc1'\netcd = ['a', 'b', 'c']", "ha.member"},
      {"member = 'pc 1'\naddress = 'pc1'\netcd = ['a', 'b', 'c']", "ha.member"},
      {"member = 'pc1'\naddress = 'unix:/x'\netcd = ['a', 'b', 'c']", "ha.address"},
      {rest, "ha.etcd has no member"},
      {rest + "etcd = ['a']", "ha.etcd has one member"},
      {rest + "etcd = ['a', 'b']", "third voter"},
      {rest + "etcd = ['a', 'b', 'a:2379']", "twice"},
      {rest + "etcd = ['a', 'b', 'c:x']", "ha.etcd"},
      {rest + "etcd = ['a', 'b', 'unix:/x']", "ha.etcd"},
      {rest + "etcd = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']", "10 members"},
      {kThree + std::string("cert = '/b'"), "ha.key"},
      {kThree + std::string("cert = '/b'\nkey = '/c'"), "ha.ca"},
      {kThree + std::string("beat = '1s'"), "four beats"},
      {kThree + std::string("suspect = '3s'"), "suspect must be less than promise"},
      {kThree + std::string("grace = '4s'"), "one and a half"},
      {kThree + std::string("watchdog = '4s'"), "watchdog must be at least grace"},
      {kThree + std::string("min_in_sync = '0'"), "ha.min_in_sync"},
      {kThree + std::string("plain = 'durable'"), "ha.plain"},
      {kThree + std::string("beats = '1s'"), "beats"},
  };
  for (const auto& [table, named] : bad) {
    const Result<HaConfig> ha = From(table);
    ASSERT_FALSE(ha.ok()) << table;
    EXPECT_EQ(ha.error().code, FsError::kInval) << table;
    EXPECT_NE(ha.error().message.find(named), std::string::npos) << ha.error() << " of " << table;
  }
}

TEST(HaConfig, WarnsOfAnEtcdThatEverybodyMayWrite) {
  HaConfig ha;
  ha.etcd = {"127.0.0.1:1", "localhost:2", "[::1]:3"};
  EXPECT_EQ(EtcdWarning(ha), "");
  ha.etcd.push_back("pc2:2379");
  EXPECT_NE(EtcdWarning(ha).find("TLS"), std::string::npos);
  ha.ca = "/ca.pem";
  EXPECT_EQ(EtcdWarning(ha), "");
}

}  // namespace
}  // namespace stria
