#include "server/meta_link.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/replica_api.h"
#include "common/exec/sim_run.h"
#include "peers/meta_locator.h"
#include "peers/meta_peers.h"
#include "server/heard_terms.h"

namespace stria {
namespace {

// One of the metadata servers; any service would do.
class FakeServer final : public MemberService {
 public:
  FsError error = FsError::kOk;
  uint64_t term = 0;
  bool hangs = false;
  int asked = 0;
  SaidTerm heard;

  Task<Result<AskReply>> Ask(AskRequest r) override {
    ++asked;
    heard = {r.header.seen_term, r.header.seen_proof};
    if (hangs) co_await Sleep(3600 * kSecond);
    if (error != FsError::kOk) co_return Error(error, "fake");
    AskReply reply;
    reply.term = term;
    co_return reply;
  }
  Task<Result<LocateReply>> Locate(LocateRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<MemberStatusReply>> MemberStatus(MemberStatusRequest) override { co_return Error(FsError::kNoSys); }
  Task<Result<ChangeMembersReply>> ChangeMembers(ChangeMembersRequest) override { co_return Error(FsError::kNoSys); }
};

class MetaLinkTest : public testing::Test, protected MemberConnector {
 protected:
  using Link = ServiceLink<MemberService>;
  MetaLinkTest() : ex_(1), peers_(std::make_shared<MetaPeers>(std::vector<std::string>{"a", "b"})), link_(MakeLink()) {
    servers_["a"].term = servers_["b"].term = 3;
  }
  std::shared_ptr<MemberService> ConnectMember(const std::string& address) override { return {std::shared_ptr<void>(), &servers_[address]}; }
  Link MakeLink() {
    return Link([this](const std::string& a) { return ConnectMember(a); }, peers_);
  }
  Result<AskReply> Ask(Link* link) { return RunSim(ex_, link->Call(&MemberService::Ask, AskRequest())); }

  SimExecutor ex_;
  std::map<std::string, FakeServer> servers_;
  std::shared_ptr<MetaPeers> peers_;
  Link link_;
};

TEST_F(MetaLinkTest, GoesToWhoServesAndStaysThere) {
  servers_["a"].error = FsError::kNotLeader;
  EXPECT_TRUE(Ask(&link_).ok());
  EXPECT_TRUE(Ask(&link_).ok());
  EXPECT_EQ(servers_["a"].asked, 1);
  EXPECT_EQ(servers_["b"].asked, 2);
  EXPECT_EQ(peers_->proved(), 3u);
  Link other = MakeLink();
  EXPECT_TRUE(Ask(&other).ok());
  EXPECT_EQ(servers_["a"].asked, 1) << "what one link has found the others know";
  servers_["b"].error = FsError::kNoEnt;
  EXPECT_EQ(Ask(&link_).code(), FsError::kNoEnt) << "an answer is one";
  EXPECT_EQ(servers_["a"].asked, 1);
}

TEST_F(MetaLinkTest, EachIsTriedOnce) {
  servers_["a"].error = FsError::kUnavailable;
  servers_["b"].error = FsError::kNotLeader;
  const Result<AskReply> none = Ask(&link_);
  EXPECT_EQ(none.code(), FsError::kNotLeader);
  EXPECT_NE(none.error().message.find("metadata server b"), std::string::npos) << none.error();
  EXPECT_EQ(servers_["a"].asked + servers_["b"].asked, 2);
}

TEST_F(MetaLinkTest, AFormerLifeIsNoAnswer) {
  HeardTerms terms;
  terms.Learn({5, 50});
  link_.UseTerms(&terms);
  servers_["b"].term = 5;
  EXPECT_EQ(Ask(&link_).value().term, 5u);
  EXPECT_EQ(servers_["a"].asked, 1);
  EXPECT_EQ(servers_["a"].heard, (SaidTerm{5, 50}));
}

// The primary's PC is off, and somebody says who is primary now; also a server that nobody had told of.
TEST_F(MetaLinkTest, WhatHangsIsDroppedWhenThePrimaryIsElsewhere) {
  MetaLocator locator(this, peers_.get(), [] { return Uuid(); });
  link_.UseLocator(&locator);
  servers_["a"].hangs = true;
  servers_["c"].term = 4;
  std::optional<Result<AskReply>> answer;
  TaskScope scope;
  scope.Spawn(link_.Call(&MemberService::Ask, AskRequest()), [&](Result<AskReply> r) { answer = std::move(r); });
  ex_.RunFor(kSecond);
  EXPECT_FALSE(answer);
  LocateReply said;
  said.term = 4;
  said.address = "c";
  said.members = {{"pc3", "c"}};
  EXPECT_TRUE(peers_->Heard(said));
  ex_.RunFor(kSecond);
  ASSERT_TRUE(answer && answer->ok());
  EXPECT_EQ((*answer)->term, 4u);
  EXPECT_EQ(servers_["b"].asked, 0);
}

}  // namespace
}  // namespace stria
