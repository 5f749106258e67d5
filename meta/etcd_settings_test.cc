#include "meta/etcd_settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "common/temp_dir.h"

namespace stria {
namespace {

class EtcdSettingsTest : public testing::Test {
 protected:
  EtcdSettingsTest() { ha_.etcd = {"pc1:2379", "pc2:2379", "pc3:2379"}; }
  std::string File(const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = dir_.path() + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  const TempDir dir_;
  const Uuid cluster_{1, 2};
  HaConfig ha_;
};

TEST_F(EtcdSettingsTest, PlainWithoutAnAuthority) {
  const Result<EtcdOptions> o = EtcdOptionsOf(ha_, cluster_);
  ASSERT_TRUE(o.ok()) << o.error();
  EXPECT_EQ(o->endpoints, ha_.etcd);
  EXPECT_EQ(o->key, "/stria/" + cluster_.ToString() + "/meta");
  EXPECT_FALSE(o->tls.has_value());
}

TEST_F(EtcdSettingsTest, FilesAreRead) {
  ha_.ca = File("ca", "the authority", 0644);
  EXPECT_EQ(EtcdOptionsOf(ha_, cluster_)->tls->certificate, "") << "it shows nothing";
  ha_.cert = File("cert", "a certificate", 0644);
  ha_.key = File("key", "a key", 0600);
  const Result<EtcdOptions> o = EtcdOptionsOf(ha_, cluster_);
  ASSERT_TRUE(o.ok()) << o.error();
  EXPECT_EQ(o->tls->ca, "the authority");
  EXPECT_EQ(o->tls->certificate, "a certificate");
  EXPECT_EQ(o->tls->private_key, "a key");
}

TEST_F(EtcdSettingsTest, WhatIsNotGoodIsNamed) {
  ha_.ca = dir_.path() + "/none";
  const Result<EtcdOptions> none = EtcdOptionsOf(ha_, cluster_);
  EXPECT_EQ(none.code(), FsError::kNoEnt);
  EXPECT_NE(none.error().message.find("ha.ca"), std::string::npos) << none.error();
  ha_.ca = File("ca", "the authority", 0644);
  ha_.cert = File("cert", "a certificate", 0644);
  ha_.key = File("key", "a key", 0644);
  const Result<EtcdOptions> open = EtcdOptionsOf(ha_, cluster_);
  EXPECT_EQ(open.code(), FsError::kAccess) << "others may read it";
  EXPECT_NE(open.error().message.find("ha.key"), std::string::npos) << open.error();
}

}  // namespace
}  // namespace stria
