// The verbs about metadata servers against members that answer from canned replies.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api/replica_api.h"
#include "tools/cli/cli_testing.h"
#include "tools/cli/member_render.h"

namespace stria::cli {
namespace {

const Uuid kNewOne{0x0123456789abcdef, 0x0123456789abcdef};

MemberState Member(const std::string& name, MemberRole role, bool in_sync, uint64_t lag = 0) {
  MemberState m;
  m.name = name;
  m.uuid = Uuid{1, name.back() - uint64_t{'0'}};
  m.address = name + ":7424";
  m.role = role;
  m.term = 41;
  m.last = CommitSeq(1000 - lag);
  m.durable = m.last;
  m.lag = lag;
  m.in_sync = in_sync;
  m.coordinator = role != MemberRole::kUnreachable;
  return m;
}

MemberStatusReply Three() {
  MemberStatusReply r;
  r.self = "pc2";
  r.version = 17;
  r.incarnation = 1;
  r.term = 41;
  r.primary = "pc1";
  r.min_in_sync = 2;
  r.members = {Member("pc1", MemberRole::kPrimary, true), Member("pc2", MemberRole::kStandby, true, 7), Member("pc3", MemberRole::kStandby, true, 2)};
  return r;
}

class MemberVerbsTest : public CliTest {
 protected:
  MemberVerbsTest() : one_(std::make_shared<FakeMembers>()) {
    one_->onMemberStatus = [this](const MemberStatusRequest&) { return status_; };
    one_->onChangeMembers = [this](const ChangeMembersRequest& r) -> Result<ChangeMembersReply> {
      changes_.push_back(r);
      ChangeMembersReply reply;
      reply.version = 18;
      reply.term = 42;
      const bool promotes = r.change == MemberChange::kPromote || r.change == MemberChange::kPromoteLosing;
      reply.primary = promotes ? r.name : status_.primary;
      return reply;
    };
    members_["live:7424"] = one_;
  }
  void ExpectRefused(const std::string& line, int code, const std::string& says) {
    EXPECT_EQ(Run(line), code) << line << out_.str() << err_.str();
    EXPECT_NE(err_.str().find(says), std::string::npos) << line << ": " << err_.str();
    EXPECT_TRUE(changes_.empty()) << line;
  }

  std::shared_ptr<FakeMembers> one_;
  MemberStatusReply status_ = Three();
  std::vector<ChangeMembersRequest> changes_;
};

// ---- status ---------------------------------------------------------------------------------------

TEST_F(MemberVerbsTest, StatusShowsWhoIsPrimaryAndWhoIsInSync) {
  ASSERT_EQ(Run("meta status"), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "primary pc1, term 41; in sync: pc1, pc2, pc3 (a sync is answered when 2 have it)\n"
            "NAME  ROLE     IN SYNC  TERM  LAST  BEHIND  ETCD     ADDRESS\n"
            "pc1   primary  yes        41  1000       -  reached  pc1:7424\n"
            "pc2   standby  yes        41   993       7  reached  pc2:7424\n"
            "pc3   standby  yes        41   998       2  reached  pc3:7424\n");
}

TEST_F(MemberVerbsTest, StatusForPrograms) {
  ASSERT_EQ(Run("meta status --json"), 0) << err_.str();
  const Json j = Json::parse(out_.str());
  EXPECT_EQ(j["primary"], "pc1");
  EXPECT_EQ(j["in_sync"], Json({"pc1", "pc2", "pc3"}));
  EXPECT_EQ(j["min_in_sync"], 2);
  EXPECT_EQ(j["term"], 41);
  EXPECT_EQ(j["members"][1]["name"], "pc2");
  EXPECT_EQ(j["members"][1]["role"], "standby");
  EXPECT_EQ(j["members"][1]["lag"], 7);
  EXPECT_TRUE(j["findings"].empty());
  status_.primary = "";
  EXPECT_EQ(Run("meta status --json"), 2);
  EXPECT_TRUE(Json::parse(out_.str())["primary"].is_null());
}

TEST_F(MemberVerbsTest, OneCopyIsSaidAndCountsAsDegraded) {
  status_.min_in_sync = 1;
  status_.members = {Member("pc1", MemberRole::kPrimary, true), Member("pc2", MemberRole::kUnreachable, false, 100)};
  EXPECT_EQ(Run("meta status"), 1);
  EXPECT_NE(out_.str().find("only one copy is left"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("pc2 does not answer at pc2:7424"), std::string::npos) << out_.str();
}

TEST_F(MemberVerbsTest, WhoCatchesUpIsANote) {
  status_.members[2] = Member("pc3", MemberRole::kJoining, false, 500);
  EXPECT_EQ(Run("meta status"), 0) << out_.str();
  EXPECT_NE(out_.str().find("note: Metadata server pc3 is catching up"), std::string::npos) << out_.str();
}

TEST_F(MemberVerbsTest, WhatStopsWorkIsAtRisk) {
  status_.members[1].in_sync = status_.members[2].in_sync = false;
  EXPECT_EQ(Run("meta status"), 2);
  EXPECT_NE(out_.str().find("syncs wait"), std::string::npos) << out_.str();
  status_ = Three();
  status_.members[0].role = MemberRole::kStalled;
  EXPECT_EQ(Run("meta status"), 2);
  EXPECT_NE(out_.str().find("nobody serves: the primary pc1 is stalled"), std::string::npos) << out_.str();
  status_ = Three();
  status_.version = 0;
  EXPECT_EQ(Run("meta status"), 2);
  EXPECT_NE(out_.str().find("etcd"), std::string::npos) << out_.str();
}

TEST_F(MemberVerbsTest, ACoordinatorThatIsAwayIsDegradedOnly) {
  status_.members[2].coordinator = false;
  status_.members[2].coordinator_problem = "no answer from pc3:2379";
  status_.members[1].problem = "its disk\nis slow";
  EXPECT_EQ(Run("meta status"), 1);
  EXPECT_NE(out_.str().find("pc3 does not reach the coordinator: no answer from pc3:2379"), std::string::npos) << out_.str();
  EXPECT_EQ(out_.str().find("disk\nis"), std::string::npos) << "what others say is shown printable";
}

// ---- status of the cluster ------------------------------------------------------------------------

TEST_F(MemberVerbsTest, TheClustersStatusHasThem) {
  ASSERT_EQ(Run("status"), 0) << err_.str();
  EXPECT_NE(out_.str().find("\n  metas: pc1 serves in term 41, pc2 is in sync (7 behind), pc3 is in sync (2 behind); etcd is reached\n"), std::string::npos) << out_.str();
  ASSERT_EQ(Run("status --json"), 0) << err_.str();
  EXPECT_EQ(Json::parse(out_.str())["metadata_servers"]["primary"], "pc1");
  status_.min_in_sync = 1;
  status_.members = {Member("pc1", MemberRole::kPrimary, true), Member("pc2", MemberRole::kUnreachable, false, 100)};
  EXPECT_EQ(Run("status"), 1);
  EXPECT_NE(out_.str().find(" status: Of the metadata only one copy is left of what is done now: that of pc1.\n action: "), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("pc2 is unreachable (100 behind)"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("status --json"), 1);
  const Json j = Json::parse(out_.str());
  EXPECT_EQ(j["state"], "DEGRADED");
  EXPECT_GE(j["findings"].size(), 2u);
}

TEST_F(MemberVerbsTest, OfAClusterWithOneTheStatusSaysNothingOfThem) {
  members_.clear();
  ASSERT_EQ(Run("status"), 0) << err_.str();
  EXPECT_EQ(out_.str().find("metas:"), std::string::npos) << out_.str();
  ASSERT_EQ(Run("status --json"), 0) << err_.str();
  EXPECT_TRUE(Json::parse(out_.str())["metadata_servers"].is_null());
}

TEST_F(MemberVerbsTest, WhoServesWhenNobodyDoesTheyKnow) {
  meta_->onStatus = [](const InodeRequest&) -> Result<StatusReply> { return Error(FsError::kUnavailable, "connection refused"); };
  status_.members[0].role = MemberRole::kUnreachable;
  EXPECT_EQ(Run("status --timeout 1"), kExitUnreachable);
  EXPECT_NE(out_.str().find("nobody serves: the primary pc1 is unreachable"), std::string::npos) << out_.str();
}

TEST_F(MemberVerbsTest, AServerThatIsAloneSaysSo) {
  members_.clear();
  EXPECT_NE(Run("meta status"), 0);
  EXPECT_NE(err_.str().find("serves alone"), std::string::npos) << err_.str();
}

// ---- Any command, at one that is not primary ------------------------------------------------------

TEST_F(MemberVerbsTest, CommandsAreSentOnToThePrimary) {
  meta_->onStatus = [](const InodeRequest&) -> Result<StatusReply> { return Error(FsError::kNotLeader, "pc2 is primary"); };
  auto primary = std::make_shared<FakeMeta>();
  int asked = 0;
  primary->onStatus = [&](const InodeRequest&) {
    ++asked;
    return SampleStatus();
  };
  others_["pc2:7424"] = primary;
  one_->onLocate = [](const LocateRequest& r) {
    EXPECT_EQ(r.wait_ns, 0);
    LocateReply reply;
    reply.term = 41;
    reply.primary = "pc2";
    reply.address = "pc2:7424";
    reply.members = {{"pc1", "live:7424"}, {"pc2", "pc2:7424"}, {"pc3", ""}};
    return reply;
  };
  EXPECT_EQ(Run("node ls"), 0) << err_.str();
  EXPECT_EQ(asked, 1);
  // Nobody knows where.
  one_->onLocate = nullptr;
  EXPECT_EQ(Run("node ls"), kExitUnreachable);
  EXPECT_NE(err_.str().find("pc2 is primary"), std::string::npos) << err_.str();
}

// ---- promote --------------------------------------------------------------------------------------

TEST_F(MemberVerbsTest, PromotesByNameOrWhoIsTheLeastBehind) {
  ASSERT_EQ(Run("meta promote pc2"), 0) << err_.str();
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].change, MemberChange::kPromote);
  EXPECT_EQ(changes_[0].name, "pc2");
  EXPECT_FALSE(changes_[0].handed_on);
  EXPECT_EQ(out_.str(), "pc2 is primary, in term 42\n");
  ASSERT_EQ(Run("meta promote --json"), 0) << err_.str();
  EXPECT_EQ(changes_[1].name, "pc3");
  EXPECT_EQ(Json::parse(out_.str())["primary"], "pc3");
  ASSERT_EQ(Run("meta promote pc1"), 0) << "it is already";
  EXPECT_EQ(changes_.size(), 2u);
  EXPECT_EQ(out_.str(), "pc1 is primary\n");
}

TEST_F(MemberVerbsTest, PromoteSaysWhatItWouldDoAndAsks) {
  ASSERT_EQ(Run("meta promote pc2 --dry-run"), 0) << err_.str();
  EXPECT_EQ(out_.str().find("would: pc1 hands over to pc2"), 0u) << out_.str();
  EXPECT_TRUE(changes_.empty());
  std::string asked;
  confirm_ = [&](const std::string& what) {
    asked = what;
    return false;
  };
  EXPECT_EQ(Run("meta promote pc2"), kExitNo);
  EXPECT_NE(asked.find("pc2"), std::string::npos);
  EXPECT_TRUE(changes_.empty());
  EXPECT_EQ(Run("meta promote pc2 --yes"), 0);
  EXPECT_EQ(changes_.size(), 1u);
}

TEST_F(MemberVerbsTest, NobodyIsPromotedWhoLacksSomething) {
  ExpectRefused("meta promote pc9", kExitNoInput, "there are: pc1, pc2, pc3");
  status_.members[1].in_sync = false;
  ExpectRefused("meta promote pc2", kExitNo, "not in sync");
  status_.members[2].role = MemberRole::kUnreachable;
  ExpectRefused("meta promote", kExitNo, "nobody could take over");
}

TEST_F(MemberVerbsTest, AMemberThatLacksSomethingIsPromotedByItsNameTwice) {
  ExpectRefused("meta promote pc3 --lose pc2", kExitUsage, "the two names differ");
  ExpectRefused("meta promote --lose pc3", kExitUsage, "the two names differ");
  ExpectRefused("meta promote pc9 --lose pc9", kExitNoInput, "there are: pc1, pc2, pc3");
  ExpectRefused("meta promote pc3 --lose pc3", kExitNo, "without --lose loses nothing");
  status_.members[1].in_sync = status_.members[2].in_sync = false;
  ExpectRefused("meta promote pc3 --lose pc3", kExitNo, "pc1 is alive and has everything");
  status_.members[0].role = MemberRole::kUnreachable;
  std::string asked;
  confirm_ = [&](const std::string& what) {
    asked = what;
    return false;
  };
  EXPECT_EQ(Run("meta promote pc3 --lose pc3"), kExitNo);
  EXPECT_NE(asked.find("WITHOUT what only pc1 had"), std::string::npos) << asked;
  EXPECT_TRUE(changes_.empty());
  ASSERT_EQ(Run("meta promote pc3 --lose pc3 --yes"), 0) << err_.str();
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].change, MemberChange::kPromoteLosing);
  EXPECT_EQ(changes_[0].name, "pc3");
  EXPECT_EQ(changes_[0].name_again, "pc3");
}

TEST_F(MemberVerbsTest, WhatTheServersRefuseIsSaid) {
  one_->onChangeMembers = [](const ChangeMembersRequest&) -> Result<ChangeMembersReply> { return Error(FsError::kBusy, "another change is under way"); };
  EXPECT_EQ(Run("meta promote pc2"), kExitNo);
  EXPECT_NE(err_.str().find("another change is under way"), std::string::npos) << err_.str();
}

// ---- join, remove ---------------------------------------------------------------------------------

TEST_F(MemberVerbsTest, JoinAsksTheNewServerWhichDirectoryItHas) {
  auto fresh = std::make_shared<FakeMembers>();
  MemberStatusReply own;
  own.self = "pc4";
  own.members = {Member("pc4", MemberRole::kStarting, false)};
  own.members[0].uuid = kNewOne;
  bool alone = false;
  fresh->onMemberStatus = [&](const MemberStatusRequest& r) {
    alone = r.alone;
    return own;
  };
  members_["pc4:7424"] = fresh;
  ASSERT_EQ(Run("meta join pc4 --address pc4:7424"), 0) << err_.str();
  EXPECT_TRUE(alone);
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].change, MemberChange::kAdd);
  EXPECT_EQ(changes_[0].name, "pc4");
  EXPECT_EQ(changes_[0].address, "pc4:7424");
  EXPECT_EQ(changes_[0].uuid, kNewOne);
  changes_.clear();
  ExpectRefused("meta join pc5 --address pc4:7424", kExitUsage, "is called 'pc4'");
}

TEST_F(MemberVerbsTest, JoinTakesTheUuidThatIsGiven) {
  ASSERT_EQ(Run("meta join pc4 --address pc4 --uuid " + kNewOne.ToString()), 0) << err_.str();
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].uuid, kNewOne);
  changes_.clear();
  ExpectRefused("meta join pc4 --address pc4 --uuid x", kExitUsage, "--uuid");
  ExpectRefused("meta join pc2 --address pc2", kExitNo, "remove the former first");
  EXPECT_EQ(Run("meta join pc4"), kExitUsage) << "without an address";
}

// On the PC that joins, whose own server is asked first: no certificate is needed to ask that one.
TEST_F(MemberVerbsTest, WhoJoinsMaySayItItself) {
  status_.self = "pc4";
  MemberState own = Member("pc4", MemberRole::kJoining, false);
  own.uuid = kNewOne;
  own.address.clear();  // it is in no list
  status_.members.push_back(own);
  ASSERT_EQ(Run("meta join pc4 --address pc4"), 0) << err_.str();
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].change, MemberChange::kAdd);
  EXPECT_EQ(changes_[0].uuid, kNewOne);
  EXPECT_EQ(changes_[0].address, "pc4");
  changes_.clear();
  status_.members.back().address = "pc4:7424";  // now it is
  ExpectRefused("meta join pc4 --address pc4", kExitNo, "remove the former first");
}

TEST_F(MemberVerbsTest, RemovesOnlyWhoIsOutOfTheSet) {
  ExpectRefused("meta remove pc1", kExitNo, "hand over first");
  ExpectRefused("meta remove pc2", kExitNo, "stop its stria-meta first");
  ExpectRefused("meta remove pc9", kExitNoInput, "there are: pc1, pc2, pc3");
  status_.members[1].in_sync = false;
  ASSERT_EQ(Run("meta remove pc2 --dry-run"), 0) << err_.str();
  EXPECT_TRUE(changes_.empty());
  ASSERT_EQ(Run("meta remove pc2"), 0) << err_.str();
  ASSERT_EQ(changes_.size(), 1u);
  EXPECT_EQ(changes_[0].change, MemberChange::kRemove);
  EXPECT_EQ(changes_[0].name, "pc2");
}

}  // namespace
}  // namespace stria::cli
