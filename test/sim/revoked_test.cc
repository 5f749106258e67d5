// Whose certificate is revoked keeps nothing: its session ends, and the tokens that it was given are dead on the data servers within
// a heartbeat, whatever becomes of its connections. Nobody else notices.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "proto/stubs.h"
#include "test/sim/small_files_testing.h"
#include "trust/authority.h"
#include "trust/certificate.h"

namespace stria {
namespace {

constexpr char kHost[] = "mallory";
constexpr uint64_t kFileBytes = 200 * kKiB;  // more than goes into the metadata

class RevokedTest : public SmallFiles {
 protected:
  MetaServer& server() { return *cluster_.meta_server(); }
  // A client beside those of the cluster, which asks by itself and keeps what it is given.
  void Enrol() {
    const int64_t now_s = cluster_.executor().WallNs() / kSecond;
    MetaTrust trust;
    const auto authority = std::make_shared<const Authority>(Authority::Make(server().cluster().Map().cluster, now_s));
    trust.authority = authority;
    server().trust().Use(std::move(trust));
    const PrivateKey key = PrivateKey::Make();
    const Certificate own = authority->Sign(CertRequest::Make(key), {authority->cluster(), Role::kClient, kHost}, now_s).value();
    ASSERT_TRUE(server().trust().enrolment()->NoteGiven(own).ok());
    auto peer = std::make_shared<Peer>();
    peer->role = Role::kClient;
    peer->name = kHost;
    peer->address = kHost;
    peer->serial = own.serial();
    peer->key_hash = own.key_hash();
    cluster_.network().SetPeer(kHost, std::move(peer));
  }
  Result<OpenSessionReply> Mount() {
    OpenSessionRequest r;
    r.client_uuid = Uuid{66, 6};
    r.client = kHost;
    Result<OpenSessionReply> reply = Do(meta_.OpenSession(r));
    if (reply.ok()) {
      header_.session = reply->session;
      header_.epoch = reply->epoch;
      header_.uid = 1000;
      header_.gid = 1000;
    }
    return reply;
  }
  Result<GetExtentsReply> Map(InodeId ino) {
    GetExtentsRequest r;
    r.header = header_;
    r.ino = ino;
    r.length = kFileBytes;
    return Do(meta_.GetExtents(r));
  }
  // A file, and mallory with a session and a token for its bytes.
  void Grant() {
    file_ = Create(0, MakeDir(0, "d"), "f", text_);
    ASSERT_TRUE(file_);
    Enrol();
    const auto mounted = Mount();
    ASSERT_TRUE(mounted.ok()) << mounted.error();
    const auto mapping = Map(file_);
    ASSERT_TRUE(mapping.ok()) << mapping.error();
    ASSERT_FALSE(mapping->stripes.empty());
    grant_ = mapping->stripes[0];
    ASSERT_EQ(ReadShard(), FsError::kOk);
  }
  void Revoke(bool dry_run = false) {
    ASSERT_TRUE(Do(server().trust().enrolment()->RevokeCertificates(std::string("client/") + kHost, dry_run)).ok());
  }
  // The first data column that has a shard, with the token of that time.
  FsError ReadShard() {
    const ClusterMap map = server().cluster().Map();
    for (size_t i = 0; i < grant_.info.columns.size(); ++i) {
      const Column& c = grant_.info.columns[i];
      if (!c.shard || c.length == 0) continue;
      ReadRequest r;
      r.header.cluster = map.cluster;
      r.header.incarnation = map.incarnation;
      r.items.push_back({c.shard, c.target, grant_.tokens[i], 0, std::min<uint64_t>(c.length, 64 * kKiB)});
      DataStub data(cluster_.network().MakeTransport(kHost, map.FindNode(map.FindTarget(c.target)->node)->address));
      const Result<ReadReply> reply = Do(data.Read(r));
      return reply.ok() ? reply->items.at(0).result.code : reply.code();
    }
    ADD_FAILURE() << "the file has no shard";
    return FsError::kNoData;
  }

  MetaStub meta_{cluster_.network().MakeTransport(kHost, "meta:7")};
  OpHeader header_;
  const std::string text_ = std::string(kFileBytes, 'x');
  InodeId file_;
  StripeGrant grant_;
};

TEST_F(RevokedTest, ItsSessionAndItsTokensAreOver) {
  ASSERT_NO_FATAL_FAILURE(Grant());
  // Only said: nothing happens.
  Revoke(true);
  cluster_.executor().RunFor(5 * kSecond);
  EXPECT_EQ(ReadShard(), FsError::kOk);

  Revoke();
  EXPECT_FALSE(server().sessions().Exists(header_.session));
  EXPECT_EQ(Map(file_).code(), FsError::kFenced);
  cluster_.executor().RunFor(5 * kSecond);
  EXPECT_EQ(ReadShard(), FsError::kBadToken);
  EXPECT_EQ(Read(1, file_), text_) << "of others nothing is taken";
  EXPECT_EQ(Read(0, file_), text_);
}

// A connection that is older than the revocation, or was made before the transport has heard of it.
TEST_F(RevokedTest, ARevokedKeyOpensNoSession) {
  Enrol();
  ASSERT_TRUE(Mount().ok());
  Revoke();
  const size_t sessions = server().sessions().All().size();
  EXPECT_EQ(Mount().code(), FsError::kUnavailable);
  EXPECT_EQ(server().sessions().All().size(), sessions);
}

// The revocation is durable first. If the server dies before it has ended the session and told the data servers, its next life does.
TEST_F(RevokedTest, ACrashInTheMiddleOfItSavesNothing) {
  ASSERT_NO_FATAL_FAILURE(Grant());
  server().trust().enrolment()->OnRevoked([](const Sha256Hash&) {});
  server().trust().enrolment()->OnChange([] {});
  Revoke();
  ASSERT_TRUE(server().sessions().Exists(header_.session));
  EXPECT_EQ(ReadShard(), FsError::kOk);
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  cluster_.executor().RunFor(5 * kSecond);  // less than a lease
  EXPECT_FALSE(server().sessions().Exists(header_.session));
  EXPECT_EQ(Map(file_).code(), FsError::kFenced);
  EXPECT_EQ(ReadShard(), FsError::kBadToken);
  EXPECT_EQ(Read(1, file_), text_) << "of others nothing is taken";
  EXPECT_EQ(Read(0, file_), text_);
}

// What data servers are told of who is put out is in the memory of the metadata server only. One that was away meanwhile is told by the
// next one, too.
TEST_F(RevokedTest, ANodeThatWasAwayIsToldAfterARestart) {
  ASSERT_NO_FATAL_FAILURE(Grant());
  for (size_t n = 0; n < cluster_.nodes(); ++n) cluster_.CrashNode(n, true);
  Revoke();
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  for (size_t n = 0; n < cluster_.nodes(); ++n) cluster_.StartNode(n);
  cluster_.executor().RunFor(20 * kSecond);
  EXPECT_EQ(ReadShard(), FsError::kBadToken);
  EXPECT_EQ(Read(1, file_), text_);
}

}  // namespace
}  // namespace stria
