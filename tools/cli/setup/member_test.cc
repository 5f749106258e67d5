// A machine becomes one of several metadata servers, on machines that are maps of files.
#include <gtest/gtest.h>

#include "common/units.h"
#include "tools/cli/setup/machine_testing.h"
#include "tools/cli/setup/meta_member.h"

namespace stria::cli {
namespace {

class MemberSetupTest : public testing::Test {
 protected:
  MemberSetupTest() {
    params_.program = "/usr/bin/stria-meta";
    params_.member.member = "pc2";
    params_.member.address = "pc2";
    params_.member.etcd = {"pc1", "pc2", "pc3"};
    params_.flag = "--join";
    params_.timeout_ns = 10 * kSecond;
    machine_.files[kMetaSettingsFile] = "#address = \"pc1:7424\"\n[fold]\nenabled = false\n\n#[ha]\n#member = \"pc1\"\n";
    machine_.on_run = [this](const std::string& line) {
      if (line.starts_with("systemctl restart")) answers_ = starts_;
      return Ran();
    };
  }
  Result<MemberDone> SetUpOnce() {
    return SetUpMember(&machine_, params_, [this] { return answers_; });
  }

  FakeMachine machine_;
  MemberParams params_;
  bool answers_ = false, starts_ = true;
};

TEST_F(MemberSetupTest, SettingsAndServiceAreSetUpOnce) {
  const Result<MemberDone> done = SetUpOnce();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_TRUE(done->started);
  EXPECT_EQ(done->changes.size(), 1u);
  const MetaSettings now = ReadMetaSettings(machine_.files[kMetaSettingsFile], "f").value();
  EXPECT_TRUE(now.has_ha);
  EXPECT_EQ(now.ha_member, "pc2");
  EXPECT_EQ(now.ha_address, "pc2");
  EXPECT_EQ(now.ha_etcd, (std::vector<std::string>{"pc1", "pc2", "pc3"}));
  EXPECT_NE(machine_.files[kMemberUnit].find("ExecStart=\nExecStart=/usr/bin/stria-meta --config /etc/stria/meta.toml --join\n"), std::string::npos);
  EXPECT_EQ(machine_.ran, (std::vector<std::string>{"systemctl daemon-reload", "systemctl enable --quiet stria-meta", "systemctl restart --no-block stria-meta"}));
  machine_.ran.clear();
  const int writes = machine_.writes;
  const Result<MemberDone> again = SetUpOnce();
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_TRUE(again->started);
  EXPECT_TRUE(again->changes.empty());
  EXPECT_EQ(machine_.writes, writes);
  EXPECT_TRUE(machine_.ran.empty()) << "what runs goes on";
}

TEST_F(MemberSetupTest, CertificatesForEtcdAreInTheSettings) {
  params_.member.ca = "/etc/stria/etcd/ca.pem";
  params_.member.cert = "/etc/stria/etcd/node.pem";
  params_.member.key = "/etc/stria/etcd/node.key";
  ASSERT_TRUE(SetUpOnce().ok());
  const MetaSettings now = ReadMetaSettings(machine_.files[kMetaSettingsFile], "f").value();
  EXPECT_EQ(now.ha_ca, "/etc/stria/etcd/ca.pem");
  EXPECT_EQ(now.ha_cert, "/etc/stria/etcd/node.pem");
  EXPECT_EQ(now.ha_key, "/etc/stria/etcd/node.key");
  EXPECT_TRUE(SetUpOnce().ok()) << "again";
}

TEST_F(MemberSetupTest, WhatIsMeantOtherwiseIsNotChanged) {
  ASSERT_TRUE(SetUpOnce().ok());
  params_.member.member = "pc3";
  EXPECT_EQ(SetUpOnce().code(), FsError::kConflict);
  params_.member.member = "pc2";
  params_.member.etcd = {"pc4", "pc5", "pc6"};
  EXPECT_EQ(SetUpOnce().code(), FsError::kConflict);
  params_.member.etcd.clear();
  EXPECT_TRUE(SetUpOnce().ok()) << "as the settings say";
  params_.member.ca = "/etc/stria/etcd/ca.pem";
  const Result<MemberDone> certificates = SetUpOnce();
  ASSERT_EQ(certificates.code(), FsError::kConflict);
  EXPECT_NE(certificates.error().message.find("certificates for etcd"), std::string::npos) << certificates.error();
  machine_.files[kMetaSettingsFile] = "trust = \"off\"\n";
  EXPECT_EQ(SetUpOnce().code(), FsError::kConflict);
}

TEST_F(MemberSetupTest, TheFirstOneFoundsThemOnceAndNotWithEachStart) {
  params_.flag = "--ha-init";
  std::string started_with;
  machine_.on_run = [&](const std::string& line) {
    if (line.starts_with("systemctl restart")) {
      started_with = machine_.files[kMemberUnit];
      answers_ = true;
    }
    return Ran();
  };
  ASSERT_TRUE(SetUpOnce().ok());
  EXPECT_NE(started_with.find(" --ha-init\n"), std::string::npos) << started_with;
  EXPECT_NE(machine_.files[kMemberUnit].find(" --join\n"), std::string::npos) << machine_.files[kMemberUnit];
  machine_.ran.clear();
  ASSERT_TRUE(SetUpOnce().ok());
  EXPECT_TRUE(machine_.ran.empty()) << "the same again changes nothing";
}

TEST_F(MemberSetupTest, TwoPcsAreRefused) {
  params_.member.etcd = {"pc1", "pc2"};
  const Result<MemberDone> two = SetUpOnce();
  EXPECT_EQ(two.code(), FsError::kInval);
  EXPECT_NE(two.error().message.find("third voter"), std::string::npos) << two.error();
  EXPECT_EQ(machine_.writes, 0);
  EXPECT_FALSE(CheckEtcd({}).ok());
  EXPECT_FALSE(CheckEtcd({"pc1"}).ok());
  EXPECT_FALSE(CheckEtcd({"pc1", "pc2", "pc2"}).ok());
  EXPECT_TRUE(CheckEtcd({"pc1", "pc2", "pc3"}).ok());
}

TEST_F(MemberSetupTest, OneThatDoesNotAnswerIsSaidAndTheSameCommandGoesOn) {
  starts_ = false;
  const Result<MemberDone> late = SetUpOnce();
  EXPECT_EQ(late.code(), FsError::kDeadline);
  EXPECT_NE(late.error().message.find("does etcd run"), std::string::npos) << late.error();
  EXPECT_GE(machine_.slept_ns, 10 * kSecond);
  starts_ = true;
  EXPECT_TRUE(SetUpOnce()->started);
}

TEST_F(MemberSetupTest, WithoutSystemdItSaysWhatToRun) {
  machine_.systemd = false;
  const Result<MemberDone> done = SetUpOnce();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_EQ(done->start_command, "runuser -u stria -- /usr/bin/stria-meta --config /etc/stria/meta.toml --join");
  EXPECT_TRUE(machine_.ran.empty());
}

TEST_F(MemberSetupTest, FilesForEtcdAreSaid) {
  params_.member.ca = "/etc/ca.pem";
  params_.member.cert = "/etc/cert.pem";
  params_.member.key = "/etc/key.pem";
  ASSERT_TRUE(SetUpOnce().ok());
  const MetaSettings now = ReadMetaSettings(machine_.files[kMetaSettingsFile], "f").value();
  EXPECT_EQ(now.ha_ca, "/etc/ca.pem");
  EXPECT_EQ(now.ha_cert, "/etc/cert.pem");
  EXPECT_EQ(now.ha_key, "/etc/key.pem");
}

// What was here before is neither lost nor believed.
TEST_F(MemberSetupTest, WhatIsLeftOfAnotherIsNotTaken) {
  const MetaPaths paths{"/d", "/d/trust", "/d/admin.sock"};
  const auto free = [&] { return CheckIsFree(&machine_, paths, "ours"); };
  EXPECT_TRUE(free().ok());
  machine_.files["/d/trust/authority.pem"] = "ours";
  EXPECT_TRUE(free().ok()) << "the same command again";
  machine_.files["/d/trust/authority.pem"] = "theirs";
  EXPECT_EQ(free().code(), FsError::kNotEmpty);
  machine_.files.erase("/d/trust/authority.pem");
  machine_.files["/d/trust/authority-next.pem"] = "theirs";
  EXPECT_NE(free().error().message.find("authority-next.pem"), std::string::npos) << free().error();
  machine_.files.erase("/d/trust/authority-next.pem");
  machine_.files["/d/superblock"] = "theirs";
  EXPECT_EQ(free().code(), FsError::kNotEmpty);
}

}  // namespace
}  // namespace stria::cli
