// Setting up a first machine and a data node, on machines that are maps of files.
#include <gtest/gtest.h>

#include "common/superblock.h"
#include "common/units.h"
#include "tools/cli/setup/data_node.h"
#include "tools/cli/setup/init_cluster.h"
#include "tools/cli/setup/machine_testing.h"

namespace stria::cli {
namespace {

constexpr Uuid kCluster{0x1111, 0x2222};
constexpr Uuid kOther{0x3333, 0x4444};

std::string Block(StoreKind kind, const Uuid& cluster) {
  Superblock sb;
  sb.kind = kind;
  sb.cluster = cluster;
  sb.own = Uuid{5, 6};
  return EncodeSuperblock(sb);
}

// ---- stria cluster init ----------------------------------------------------------------------------

class InitTest : public testing::Test {
 protected:
  InitTest() {
    params_.program = "/usr/bin/stria-meta";
    params_.timeout_ns = 10 * kSecond;
    machine_.files[kMetaSettingsFile] = "# Settings\n#address = \"pc1:7424\"\n\n#layout = \"raid5:4+1\"\nbackup = false\n[fold]\nenabled = false\n";
    machine_.on_run = [this](const std::string& line) {
      if (line.starts_with("runuser")) {
        machine_.files["/var/lib/stria/meta/superblock"] = Block(StoreKind::kMetadata, kCluster);
        machine_.files["/var/lib/stria/meta/trust/authority.pem"] = "secret";
      }
      if (line.starts_with("systemctl start") || line.starts_with("systemctl restart")) serves_ = starts_;
      return Ran();
    };
  }
  Result<InitDone> Init() {
    return InitCluster(&machine_, params_, [this](const std::string& socket) -> Result<Uuid> {
      EXPECT_EQ(socket, "/var/lib/stria/meta/admin.sock");
      if (serves_) return serving_;
      return Error(FsError::kUnavailable, "nobody");
    });
  }

  FakeMachine machine_;
  InitParams params_;
  bool serves_ = false, starts_ = true;
  Uuid serving_ = kCluster;
};

TEST_F(InitTest, TheFirstMachineIsSetUpOnce) {
  const Result<InitDone> done = Init();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_TRUE(done->made);
  EXPECT_TRUE(done->serves);
  EXPECT_EQ(done->cluster, kCluster);
  EXPECT_EQ(done->address, "pc1");
  EXPECT_EQ(machine_.ran, (std::vector<std::string>{"runuser -u stria -- /usr/bin/stria-meta --config /etc/stria/meta.toml --format-only",
                                                    "systemctl enable --quiet stria-meta", "systemctl start --no-block stria-meta"}));
  EXPECT_EQ(machine_.files[kMetaSettingsFile],
            "# Settings\n#address = \"pc1:7424\"\naddress = \"pc1\"\n\n#layout = \"raid5:4+1\"\nbackup = false\n[fold]\nenabled = false\n");
  const std::string said = RenderInit(*done);
  for (const char* part : {"is made", "stria token make --role data", "stria join - --disk /srv/d1", "stria token make --role client", "trust where only admins"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " is not in:\n" << said;
  }
  // Again.
  machine_.ran.clear();
  const std::string settings = machine_.files[kMetaSettingsFile];
  const Result<InitDone> again = Init();
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_FALSE(again->made);
  EXPECT_TRUE(again->serves);
  EXPECT_EQ(again->cluster, kCluster);
  EXPECT_EQ(machine_.writes, 1);
  EXPECT_EQ(machine_.files[kMetaSettingsFile], settings);
  EXPECT_EQ(machine_.ran, (std::vector<std::string>{"systemctl enable --quiet stria-meta", "systemctl start --no-block stria-meta"})) << "what runs goes on";
  EXPECT_NE(RenderInit(*again).find("is there already"), std::string::npos);
  EXPECT_EQ(InitJson(*again)["made"], false);
}

TEST_F(InitTest, WhatIsToBeOneOfSeveralIsStartedByWhoMakesItSo) {
  params_.start = false;
  const Result<InitDone> done = Init();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_TRUE(done->made);
  EXPECT_FALSE(done->serves);
  EXPECT_EQ(machine_.ran.size(), 1u) << "the store is made, and nothing is started";
}

TEST_F(InitTest, AddressAndLayoutAreSaidOnce) {
  params_.address = "10.0.0.1";
  params_.layout = "raid6:4+2";
  ASSERT_TRUE(Init().ok());
  EXPECT_NE(machine_.files[kMetaSettingsFile].find("\naddress = \"10.0.0.1\"\n"), std::string::npos);
  EXPECT_NE(machine_.files[kMetaSettingsFile].find("\nlayout = \"raid6:4+2\"\n"), std::string::npos);
  ASSERT_TRUE(Init().ok()) << "the same again";
  params_.address = "10.0.0.2";
  EXPECT_EQ(Init().code(), FsError::kConflict);
  params_.address.clear();
  EXPECT_EQ(Init()->address, "10.0.0.1");
  params_.layout = "raid1:2";
  EXPECT_EQ(Init().code(), FsError::kConflict);
}

TEST_F(InitTest, ALayoutComesTooLateForAClusterThatIsThere) {
  ASSERT_TRUE(Init().ok());
  params_.layout = "raid1:2";
  const Result<InitDone> late = Init();
  EXPECT_EQ(late.code(), FsError::kConflict);
  EXPECT_NE(late.error().message.find("stria layout set"), std::string::npos);
}

TEST_F(InitTest, ThePortOfListenIsTold) {
  machine_.files[kMetaSettingsFile] = "listen = \"0.0.0.0:7000\"\n";
  const Result<InitDone> done = Init();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_EQ(done->address, "pc1:7000");
}

TEST_F(InitTest, WithoutSystemdItSaysWhatToRun) {
  machine_.systemd = false;
  const Result<InitDone> done = Init();
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_TRUE(done->made);
  EXPECT_FALSE(done->serves);
  EXPECT_EQ(done->start_command, "runuser -u stria -- /usr/bin/stria-meta --config /etc/stria/meta.toml");
  EXPECT_NE(RenderInit(*done).find(done->start_command), std::string::npos);
  serves_ = true;
  EXPECT_TRUE(Init()->serves);
  EXPECT_EQ(Init()->start_command, "");
}

TEST_F(InitTest, WhatIsInTheWayIsNamed) {
  const auto code = [this] { return Init().code(); };
  machine_.root = false;
  EXPECT_EQ(code(), FsError::kPerm);
  machine_.root = true;
  machine_.server_user = false;
  EXPECT_EQ(code(), FsError::kNoEnt);
  machine_.server_user = true;
  const std::string settings = machine_.files[kMetaSettingsFile];
  machine_.files[kMetaSettingsFile] = "trust = \"off\"\n";
  EXPECT_EQ(code(), FsError::kAccess);
  machine_.files[kMetaSettingsFile] = "trust = \n";
  EXPECT_EQ(code(), FsError::kInval);
  machine_.files[kMetaSettingsFile] = settings;
  EXPECT_EQ(machine_.writes, 0) << "nothing was changed";
  EXPECT_TRUE(machine_.ran.empty());
  machine_.files["/var/lib/stria/meta/superblock"] = Block(StoreKind::kMetadata, kCluster);
  EXPECT_EQ(code(), FsError::kAccess) << "a store without an authority";
  machine_.files["/var/lib/stria/meta/superblock"] = Block(StoreKind::kDataDisk, kCluster);
  EXPECT_EQ(code(), FsError::kInval);
  machine_.files["/var/lib/stria/meta/superblock"] = "nonsense";
  EXPECT_EQ(code(), FsError::kCorrupt);
}

TEST_F(InitTest, WhatFailsIsTold) {
  machine_.on_run = [](const std::string&) { return Ran{1, "first\nthe disk is full\n"}; };
  const Result<InitDone> done = Init();
  EXPECT_EQ(done.code(), FsError::kIo);
  EXPECT_NE(done.error().message.find("the disk is full"), std::string::npos) << done.error();
}

TEST_F(InitTest, AServerThatDoesNotComeIsTold) {
  starts_ = false;
  const Result<InitDone> done = Init();
  EXPECT_EQ(done.code(), FsError::kDeadline);
  EXPECT_GE(machine_.slept_ns, params_.timeout_ns);
  EXPECT_NE(done.error().message.find("journalctl -u stria-meta"), std::string::npos);
  serves_ = true;
  serving_ = kOther;
  EXPECT_EQ(Init().code(), FsError::kWrongCluster);
}

// ---- stria join --disk -----------------------------------------------------------------------------

class DataNodeTest : public testing::Test {
 protected:
  DataNodeTest() {
    machine_.AddDisk("/srv/d1", 11);
    machine_.AddDisk("/srv/d2", 12);
    params_.program = "/usr/bin/stria-data";
    params_.cluster = kCluster;
    params_.settings = {"n6", "pc1:7424", "", {}};
  }
  Result<std::vector<NewDisk>> Check(const std::vector<std::string>& disks, bool force = false) { return CheckNewDisks(&machine_, disks, force); }
  Result<DataNodeDone> Make(const std::vector<std::string>& disks) {
    params_.settings.disks = Check(disks).value();
    return SetUpDataNode(&machine_, params_);
  }

  FakeMachine machine_;
  DataNodeParams params_;
};

TEST_F(DataNodeTest, DisksAreGivenToTheServerWhichIsStarted) {
  const Result<DataNodeDone> done = Make({"/srv/d1", "/srv/d2/"});
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_EQ(done->disks, (std::vector<NewDisk>{{"/srv/d1", "d1", ""}, {"/srv/d2", "d2", ""}}));
  EXPECT_EQ(machine_.of_server, (std::set<std::string>{"/srv/d1", "/srv/d2"}));
  EXPECT_EQ(machine_.ran, (std::vector<std::string>{"systemctl enable --quiet stria-data", "systemctl restart stria-data"}));
  EXPECT_TRUE(done->started);
  const DataSettings now = ReadDataSettings(machine_.files[kDataSettingsFile], "data.toml").value();
  EXPECT_EQ(now.node_name, "n6");
  EXPECT_EQ(now.disks.size(), 2u);
  machine_.ran.clear();
  const Result<DataNodeDone> again = Make({"/srv/d1", "/srv/d2"});
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_TRUE(again->changes.empty());
  EXPECT_EQ(machine_.writes, 1);
  EXPECT_EQ(machine_.ran.back(), "systemctl start --no-block stria-data") << "what runs is not started anew";
  const Result<DataNodeDone> none = Make({});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->disks.size(), 2u);
  machine_.AddDisk("/srv/d3", 13);
  const Result<DataNodeDone> more = Make({"/srv/d3"});
  ASSERT_TRUE(more.ok()) << more.error();
  EXPECT_EQ(more->disks.size(), 3u);
  EXPECT_EQ(machine_.ran.back(), "systemctl reload-or-restart stria-data") << "one more disk does not end the server";
}

TEST_F(DataNodeTest, WithoutDisksNothingIsStarted) {
  const Result<DataNodeDone> done = Make({});
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_FALSE(done->started);
  EXPECT_TRUE(machine_.ran.empty());
}

TEST_F(DataNodeTest, WithoutSystemdItSaysWhatToRun) {
  machine_.systemd = false;
  const Result<DataNodeDone> done = Make({"/srv/d1"});
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_FALSE(done->started);
  EXPECT_EQ(done->start_command, "runuser -u stria -- /usr/bin/stria-data --config /etc/stria/data.toml");
}

TEST_F(DataNodeTest, DisksThatAreNoneAreRefused) {
  EXPECT_EQ(Check({"/srv/d9"}).code(), FsError::kNoEnt);
  machine_.files["/srv/file"] = "";
  EXPECT_EQ(Check({"/srv/file"}).code(), FsError::kNotDir);
  machine_.AddDisk("/home/d1", 13);
  EXPECT_EQ(Check({"/home/d1"}).code(), FsError::kInval) << "the unit does not let it in";
  EXPECT_EQ(Check({"/home/d1"}, true).code(), FsError::kInval);
  machine_.AddDisk("/homely", 14);
  EXPECT_TRUE(Check({"/homely"}).ok());
  machine_.AddDisk("/srv/root", 1);
  machine_.paths["/srv/root"].on_root = true;
  const auto refused = Check({"/srv/root"});
  EXPECT_EQ(refused.code(), FsError::kInval);
  EXPECT_NE(refused.error().message.find("--force"), std::string::npos);
  EXPECT_TRUE(Check({"/srv/root"}, true).ok());
  machine_.AddDisk("/srv/d1b", 11);
  EXPECT_EQ(Check({"/srv/d1", "/srv/d1b"}).code(), FsError::kInval) << "one filesystem";
  EXPECT_TRUE(Check({"/srv/d1", "/srv/d1b"}, true).ok());
}

TEST_F(DataNodeTest, ADiskOfAnotherClusterIsNotTouched) {
  machine_.paths["/srv/d1"].empty = false;
  machine_.files["/srv/d1/superblock"] = Block(StoreKind::kDataDisk, kOther);
  machine_.of_server.insert("/srv/d1/superblock");
  const Result<DataNodeDone> refused = Make({"/srv/d1"});
  EXPECT_EQ(refused.code(), FsError::kWrongCluster);
  EXPECT_NE(refused.error().message.find(kOther.ToString()), std::string::npos);
  EXPECT_EQ(machine_.writes, 0);
  EXPECT_FALSE(machine_.of_server.contains("/srv/d1"));
  machine_.files["/srv/d1/superblock"] = Block(StoreKind::kMetadata, kCluster);
  EXPECT_EQ(Make({"/srv/d1"}).code(), FsError::kInval);
  machine_.files["/srv/d1/superblock"] = "torn";
  EXPECT_EQ(Make({"/srv/d1"}).code(), FsError::kCorrupt);
  for (const Uuid& own : {kCluster, Uuid()}) {
    machine_.files["/srv/d1/superblock"] = Block(StoreKind::kDataDisk, own);
    EXPECT_TRUE(Make({"/srv/d1"}).ok()) << "its own, and one that was never used";
  }
  machine_.of_server.erase("/srv/d1/superblock");
  const Result<DataNodeDone> of_root = Make({"/srv/d1"});
  EXPECT_EQ(of_root.code(), FsError::kAccess);
  EXPECT_NE(of_root.error().message.find("chown -R stria:stria"), std::string::npos);
}

TEST_F(DataNodeTest, ADirectoryWithOtherFilesIsNotTouched) {
  machine_.paths["/srv/d2"].empty = false;
  EXPECT_EQ(Make({"/srv/d1", "/srv/d2"}).code(), FsError::kNotEmpty);
  EXPECT_TRUE(machine_.of_server.empty()) << "nor the other one";
}

TEST_F(DataNodeTest, WhatSystemdSaysIsTold) {
  machine_.on_run = [](const std::string& line) { return line.find("restart") != line.npos ? Ran{5, "Unit stria-data.service not found.\nmore"} : Ran(); };
  const Result<DataNodeDone> done = Make({"/srv/d1"});
  EXPECT_EQ(done.code(), FsError::kIo);
  EXPECT_NE(done.error().message.find("Unit stria-data.service not found."), std::string::npos) << done.error();
  params_.program.clear();
  EXPECT_EQ(Make({"/srv/d2"}).code(), FsError::kNoEnt);
  machine_.root = false;
  EXPECT_EQ(Make({"/srv/d2"}).code(), FsError::kPerm);
}

}  // namespace
}  // namespace stria::cli
