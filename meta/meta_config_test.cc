#include "meta/meta_config.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

Result<MetaConfig> From(const std::string& text) {
  Result<Config> c = Config::Parse(text, "meta.toml");
  if (!c.ok()) return c.error();
  return MetaConfigFrom(*std::move(c));
}

TEST(MetaConfig, Defaults) {
  auto c = From("");
  ASSERT_TRUE(c.ok()) << c.error();
  EXPECT_EQ(c->listen, "0.0.0.0:7424");
  EXPECT_EQ(c->server.sessions.lease_ns, 15 * kSecond);
  EXPECT_TRUE(CompleteMetaConfig(&*c).ok());
  c->listen = "[::1]";
  EXPECT_TRUE(CompleteMetaConfig(&*c).ok());
  EXPECT_EQ(c->listen, "[::1]:7424");
  c->listen = "1.2.3.4:x";
  EXPECT_EQ(CompleteMetaConfig(&*c).code(), FsError::kInval);
}

TEST(MetaConfig, TheAddressForOthersHasThePortOfListen) {
  const auto address = [](const std::string& text) -> Result<std::string> {
    Result<MetaConfig> c = From(text);
    if (!c.ok()) return c.error();
    RETURN_IF_ERROR(CompleteMetaConfig(&*c));
    return c->address;
  };
  EXPECT_EQ(address("").value(), "") << "as the host is called";
  EXPECT_EQ(address("address = 'pc1'").value(), "pc1:7424");
  EXPECT_EQ(address("address = 'pc1'\nlisten = '0.0.0.0:7000'").value(), "pc1:7000");
  EXPECT_EQ(address("address = '[fe80::1]:7001'\nlisten = '[::]:7000'").value(), "[fe80::1]:7001");
  for (const char* bad : {"unix:/run/meta.sock", "pc 1", "pc1:0", "pc1:x", "pc1/a"}) {
    EXPECT_EQ(address(std::string("address = '") + bad + "'").code(), FsError::kInval) << bad;
  }
}

TEST(MetaConfig, TakesWhatIsSet) {
  auto c = From(R"(
data = "/srv/meta"
layout = "raid6:6+2"
certificate_life = "7d"
authority_overlap = "2d"
root_squash = true
memory = "1GiB"
[session]
lease = "20s"
remember = "5m"
[cluster]
out = "1h"
[repair]
tasks = 10
[fold]
enabled = false
age = "2m"
)");
  ASSERT_TRUE(c.ok()) << c.error();
  EXPECT_EQ(c->data, "/srv/meta");
  EXPECT_EQ(c->layout.k, 6);
  EXPECT_EQ(c->layout.m, 2);
  EXPECT_TRUE(c->server.root_squash);
  EXPECT_EQ(c->certificate_life_ns, 7 * 24 * 3600 * kSecond);
  EXPECT_EQ(c->authority_overlap_ns, 2 * 24 * 3600 * kSecond);
  EXPECT_EQ(c->memory_bytes, kGiB);
  EXPECT_EQ(c->server.sessions.lease_ns, 20 * kSecond);
  EXPECT_EQ(c->server.sessions.remember_ns, 300 * kSecond);
  EXPECT_EQ(c->server.cluster.out_ns, 3600 * kSecond);
  EXPECT_EQ(c->server.repair.max_tasks, 10u);
  EXPECT_FALSE(c->server.fold.enabled);
  EXPECT_EQ(c->server.fold.age_ns, 120 * kSecond);
}

TEST(MetaConfig, TrustLiesWithTheData) {
  auto c = From("data = \"/srv/meta\"");
  ASSERT_TRUE(c.ok() && CompleteMetaConfig(&*c).ok());
  EXPECT_EQ(c->trust, "/srv/meta/trust");
  EXPECT_EQ(c->admin_socket, "/srv/meta/admin.sock");
  EXPECT_EQ(c->grpc_listen, "");
  EXPECT_EQ(c->cluster_key_file, "");
  c = From("trust = \"off\"\nadmin_socket = \"/run/s\"\ngrpc_listen = \"127.0.0.1:7430\"");
  ASSERT_TRUE(c.ok() && CompleteMetaConfig(&*c).ok());
  EXPECT_EQ(c->trust, "off");
  EXPECT_EQ(c->admin_socket, "/run/s");
  EXPECT_EQ(c->grpc_listen, "127.0.0.1:7430");
  c->admin_socket = "s";
  EXPECT_EQ(CompleteMetaConfig(&*c).code(), FsError::kInval);
}

// A disk that is lost must not take the backup's key with it unless somebody has said that there is a copy.
TEST(MetaConfig, TheBackupIsEncryptedWhereAnotherHasTheKey) {
  const auto encrypts = [](const std::string& text) {
    auto c = From(text);
    EXPECT_TRUE(c.ok() && CompleteMetaConfig(&*c).ok()) << text;
    return c->server.archiver.encrypt;
  };
  const std::string several = "address = 'pc1'\n[ha]\nmember = 'a'\netcd = ['pc1', 'pc2', 'pc3']";
  EXPECT_FALSE(encrypts(""));
  EXPECT_TRUE(encrypts("backup_encrypted = true"));
  EXPECT_TRUE(encrypts(several));
  EXPECT_FALSE(encrypts("backup_encrypted = false\n" + several));
}

TEST(MetaConfig, OneOfSeveralHasThePortAndAddressOfTheServer) {
  auto c = From("listen = '0.0.0.0:7000'\naddress = 'pc1'\n[ha]\nmember = 'a'\netcd = ['pc1', 'pc2', 'pc3']");
  ASSERT_TRUE(c.ok()) << c.error();
  ASSERT_TRUE(CompleteMetaConfig(&*c).ok());
  ASSERT_TRUE(c->ha);
  EXPECT_EQ(c->ha->address, "pc1:7000");
  EXPECT_EQ(From("")->ha, std::nullopt);
  c->ha->etcd.pop_back();
  EXPECT_EQ(CompleteMetaConfig(&*c).code(), FsError::kInval) << "two PCs";
}

TEST(MetaConfig, RefusesWithKeyAndFile) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"lisen = \"x\"", "lisen"},
      {"layout = \"raid9\"", "layout"},
      {"wake_latency = \"soon\"", "wake_latency"},
      {"certificate_life = \"10s\"", "certificate_life"},
      {"certificate_life = \"91d\"", "certificate_life"},
      {"authority_overlap = \"31d\"", "authority_overlap"},
      {"[cluster]\ndown = \"1s\"", "cluster.down"},
      {"[session]\nlease = \"1h\"", "session.lease"},
      {"[ha]\nmember = \"a b\"", "ha.member"},
      {"[ha]\nmember = \"a\"\nbeat = \"1s\"", "four beats"},
      {"[session]\nanswer_timeout = \"5s\"", "session.answer_timeout"},
  };
  for (const auto& [text, key] : bad) {
    auto c = From(text);
    ASSERT_FALSE(c.ok()) << text;
    EXPECT_NE(c.error().message.find(key), std::string::npos) << c.error();
    EXPECT_NE(c.error().message.find("meta.toml"), std::string::npos) << c.error();
  }
}

}  // namespace
}  // namespace stria
