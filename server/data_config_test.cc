#include "server/data_config.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

Result<DataConfig> FromText(const std::string& text) {
  Result<Config> file = Config::Parse(text, "test.toml");
  if (!file.ok()) return file.error();
  return DataConfigFrom(std::move(*file));
}

TEST(DataConfigTest, DiskSpecs) {
  EXPECT_EQ(ParseDiskSpec("/srv/d1").value(), (DiskSpec{"/srv/d1", "d1", ""}));
  EXPECT_EQ(ParseDiskSpec("/srv/d1/").value().label, "d1");
  EXPECT_EQ(ParseDiskSpec("/a,channel=c0,label=x").value(), (DiskSpec{"/a", "x", "c0"}));
  EXPECT_EQ(ParseDiskSpec("/a,lable=x").code(), FsError::kInval);
  EXPECT_EQ(ParseDiskSpec(",label=x").code(), FsError::kInval);
}

TEST(DataConfigTest, FileWithDefaults) {
  DataConfig c = FromText(R"(
node_name = "pc3"
meta = ["pc1:7424"]
cluster_key = "/k"
index_memory = "64MiB"
background_percent = 40
wake_latency = "50"
[[disk]]
path = "/srv/d1"
[[disk]]
path = "/srv/ssd"
label = "fast"
channel = "nvme0"
)")
                     .value();
  ASSERT_TRUE(CompleteDataConfig(&c, "pc3.lab").ok());
  EXPECT_EQ(c.address, "pc3.lab:7425");
  EXPECT_EQ(c.node_name, "pc3");
  EXPECT_EQ(c.cluster_key_file, "/k");
  EXPECT_EQ(FromText("name = \"pc3\"\ncluster_key_file = \"/k\"")->cluster_key_file, "/k") << "as it was called";
  EXPECT_EQ(c.index_memory_bytes, 64 * kMiB);
  EXPECT_EQ(c.background_percent, 40u);
  EXPECT_EQ(c.wake_latency, "50");
  EXPECT_EQ(c.disks, (std::vector<DiskSpec>{{"/srv/d1", "d1", ""}, {"/srv/ssd", "fast", "nvme0"}}));
  c.address.clear();
  c.listen = "10.0.0.3:9";
  ASSERT_TRUE(CompleteDataConfig(&c, "pc3.lab").ok());
  EXPECT_EQ(c.address, "10.0.0.3:9");
}

TEST(DataConfigTest, PortsMayBeLeftOut) {
  DataConfig c = FromText("meta = [\"pc1\", \"pc2:9\"]\nlisten = \"[::]\"\n[[disk]]\npath = \"/srv/d1\"").value();
  ASSERT_TRUE(CompleteDataConfig(&c, "pc3").ok());
  EXPECT_EQ(c.meta, (std::vector<std::string>{"pc1:7424", "pc2:9"}));
  EXPECT_EQ(c.listen, "[::]:7425");
  EXPECT_EQ(c.address, "pc3:7425");
  c.listen = "0.0.0.0:81";
  c.address = "pc3.lab";
  ASSERT_TRUE(CompleteDataConfig(&c, "pc3").ok());
  EXPECT_EQ(c.address, "pc3.lab:81") << "the port that it listens on";
  c.meta = {"pc1:/x"};
  EXPECT_EQ(CompleteDataConfig(&c, "pc3").code(), FsError::kInval);
}

TEST(DataConfigTest, WhatIsWrongIsSaid) {
  EXPECT_EQ(FromText("background_percent = 100").code(), FsError::kInval) << "others need something";
  EXPECT_EQ(FromText("wake_latency = \"soon\"").code(), FsError::kInval);
  EXPECT_EQ(FromText("nmae = \"x\"").code(), FsError::kInval);
  EXPECT_EQ(FromText("[[disk]]\nlabel = \"x\"").code(), FsError::kInval);
  DataConfig c;
  c.node_name = "n1";
  auto error = [&c] { return CompleteDataConfig(&c, "host").error().message; };
  EXPECT_NE(error().find("--meta"), std::string::npos);
  c.meta = {"m:1"};
  EXPECT_NE(error().find("--disk"), std::string::npos);
  c.disks = {{"/a", "d", ""}, {"/b", "d", ""}};
  EXPECT_NE(error().find("label d"), std::string::npos);
  c.disks = {{"/a", "d", ""}, {"/a", "e", ""}};
  EXPECT_NE(error().find("twice"), std::string::npos);
  const std::string set = "; set another with --disk PATH,label=L,channel=C, or label and channel in its table [[disk]]";
  c.disks = {{"/a b", "a b", ""}};
  EXPECT_EQ(error(), "disk /a b: the label 'a b' has ' ' in it: it may have letters, digits, . - _, at most 64 of them" + set);
  c.disks = {{"/a", std::string(65, 'd'), ""}};
  EXPECT_NE(error().find("disk /a: the label '"), std::string::npos) << error();
  EXPECT_NE(error().find("has 65 characters"), std::string::npos) << error();
  c.disks = {{"/a", "d", std::string(65, 'c')}};
  EXPECT_NE(error().find("disk /a: the channel '"), std::string::npos) << error();
  c.disks = {{"/a", "d", "sata 0"}};
  EXPECT_NE(error().find("the channel 'sata 0' has ' ' in it"), std::string::npos) << error();
  c.disks = {{"/", "", ""}};
  EXPECT_NE(error().find("disk /: it has no label"), std::string::npos) << error();
  c.disks = {{"/a", std::string(64, 'd'), "pci:0000/ata1"}};
  EXPECT_EQ(error(), "");
  c.disks = {{"/a", "d", ""}};
  EXPECT_EQ(error(), "");
  c.node_name = "n 1";
  EXPECT_NE(error().find("node name"), std::string::npos);
}

TEST(DataConfigTest, Trust) {
  const DataConfig c = FromText("").value();
  EXPECT_EQ(c.trust, "/etc/stria/trust");
  EXPECT_EQ(c.data_security, WireMode::kPrivacy);
  const DataConfig other = FromText("trust = \"off\"\ndata_security = \"auth\"").value();
  EXPECT_EQ(other.trust, kTrustOff);
  EXPECT_EQ(other.data_security, WireMode::kAuth);
  EXPECT_EQ(FromText("data_security = \"some\"").code(), FsError::kInval);
}

}  // namespace
}  // namespace stria
