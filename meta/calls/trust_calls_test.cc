// What people ask about trust, on rooms, without a metadata server; and the lines that the audit has of it.
#include "meta/calls/trust_calls.h"

#include <algorithm>

#include "common/temp_dir.h"
#include "meta/audit/audit_log.h"
#include "meta/calls/admin_calls.h"
#include "meta/core/core_testing.h"
#include "meta/enrolment/enrolment_room.h"
#include "meta/exports/export_room.h"
#include "trust/authority.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

class TrustCallsTest : public CoreTest, public ClusterHost, public CleanerHost {
 protected:
  TrustCallsTest()
      : cleaner(core.get(), this),
        cluster(core.get(), this, ClusterOptions()),
        exports(core.get()),
        coherence(core.get(), &cleaner, CoherenceOptions(), [](SessionId) {}),
        enrolment(core.get(), std::make_shared<const Authority>(Authority::Make(Uuid{1, 2}, ex.WallNs() / kSecond))),
        audit(&pool, dir.path() + "/audit.log"),
        admins(core.get(), &cleaner, &coherence, &cluster, &rooms),
        calls(core.get(), &coherence, &exports, &enrolment) {
    calls.UseAudit(&audit);
    calls.UseAddress("pc1:7424");
    admins.UseAudit(&audit);
    coherence.UseExports(&exports, [](const Peer&) { return false; });
    Start([&](Txn& txn) -> Result<void> {
      RETURN_IF_ERROR(cluster.Load(txn));
      RETURN_IF_ERROR(exports.Load(txn));
      RETURN_IF_ERROR(coherence.Load(txn));
      return enrolment.Load(txn);
    });
  }
  void MapChanged() override {}
  void Moved(Txn&, const std::set<TargetId>&) override {}
  void Restarted(const std::set<TargetId>&) override {}
  bool IsOpen(InodeId) const override { return false; }
  bool IsWanted(InodeId) const override { return false; }
  void TellTrimmed(const Touched&) override {}

  OpHeader By(Role role) {
    OpHeader h = Header();
    auto peer = std::make_shared<Peer>();
    peer->role = role;
    peer->name = "pc1";
    peer->address = "10.0.0.7:5";
    peer->key_hash = {static_cast<uint8_t>(role)};
    h.peer = peer;
    h.uid = 1000;
    return h;
  }
  MakeTokenRequest Token(const OpHeader& header) {
    MakeTokenRequest r;
    r.header = header;
    const JoinVerifier v = VerifierOf(secret);
    r.verifier.assign(v.begin(), v.end());
    r.role = Role::kData;
    r.name = "n6";
    return r;
  }
  // All lines that were written, without those of before.
  std::vector<std::string> Lines() {
    const AuditTail tail = RunSim(ex, audit.Read(0, 1000)).value();
    std::vector<std::string> out(tail.lines.begin() + static_cast<std::ptrdiff_t>(seen), tail.lines.end());
    seen = tail.lines.size();
    return out;
  }
  static bool Has(const std::string& line, const std::string& part) { return line.find(part) != std::string::npos; }

  TempDir dir;
  InlinePool pool;
  Cleaner cleaner;
  ClusterKeeper cluster;
  ExportRoom exports;
  Coherence coherence;
  EnrolmentRoom enrolment;
  AuditLog audit;
  LoadedRooms rooms;
  AdminCalls admins;
  TrustCalls calls;
  JoinSecret secret = NewJoinSecret();
  size_t seen = 0;
};

TEST_F(TrustCallsTest, AdminsOnly) {
  const auto all = [&](const OpHeader& h) {
    TrustListRequest list;
    list.header = h;
    std::vector<FsError> codes;
    codes.push_back(RunSim(ex, calls.MakeToken(Token(h))).code());
    codes.push_back(RunSim(ex, calls.ListTokens(list)).code());
    codes.push_back(RunSim(ex, calls.RevokeToken({h, "00000000", false})).code());
    codes.push_back(RunSim(ex, calls.ListCertificates(list)).code());
    codes.push_back(RunSim(ex, calls.RevokeCertificate({h, "4abc", false})).code());
    codes.push_back(RunSim(ex, calls.ListExports(list)).code());
    codes.push_back(RunSim(ex, calls.SetExport({h, "path=/a", false})).code());
    codes.push_back(RunSim(ex, calls.RemoveExport({h, "/", "", false})).code());
    codes.push_back(RunSim(ex, calls.ListClients(list)).code());
    codes.push_back(RunSim(ex, calls.EvictClient({h, SessionId(1), false})).code());
    codes.push_back(RunSim(ex, calls.ReadAudit({h, 0, 10})).code());
    codes.push_back(RunSim(ex, calls.ChangeAuthority({h, AuthorityVerb::kRotate, false, false})).code());
    return codes;
  };
  for (const Role role : {Role::kMeta, Role::kData, Role::kClient, Role::kMonitor}) {
    for (const FsError code : all(By(role))) EXPECT_EQ(code, FsError::kAccess) << RoleName(role);
  }
  OpHeader in_session = By(Role::kAdmin);
  in_session.session = SessionId(7);
  for (const FsError code : all(in_session)) EXPECT_NE(code, FsError::kOk);
  OpHeader user = Header();
  user.uid = 1000;
  for (const FsError code : all(user)) EXPECT_EQ(code, FsError::kPerm);
  EXPECT_TRUE(enrolment.ListTokens().tokens.empty());
  EXPECT_TRUE(enrolment.Revoked().empty());
  EXPECT_EQ(exports.List().size(), 1u);
  int done = 0;
  for (const FsError code : all(By(Role::kAdmin))) {
    EXPECT_NE(code, FsError::kAccess);
    done += code == FsError::kOk;
  }
  EXPECT_GE(done, 8) << "what is there is done";
}

TEST_F(TrustCallsTest, ATokenIsMadeAndUsed) {
  const MakeTokenReply reply = RunSim(ex, calls.MakeToken(Token(By(Role::kAdmin)))).value();
  EXPECT_EQ(reply.address, "pc1:7424");
  EXPECT_EQ(reply.token.name, "n6");
  auto lines = Lines();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(Has(lines[0], "\"peer\":\"admin pc1\",\"address\":\"10.0.0.7:5\",\"verb\":\"token make\",\"arguments\":\"--role data --name n6 --uses 1"))
      << lines[0];
  EXPECT_TRUE(Has(lines[0], "done: the token " + reply.token.id)) << lines[0];
  const PrivateKey key = PrivateKey::Make();
  const std::string request = EncodeJoinRequest(MakeJoinRequest(secret, "n6", CertRequest::Make(key), "binding"));
  const JoinAnswer answer = DecodeJoinAnswer(RunSim(ex, enrolment.Join(request, "binding", "10.3.0.7:1")).value()).value();
  const Certificate own = Certificate::FromPem(answer.certificate).value();
  // Who has it renews it, whatever its role; nobody else does.
  RenewCertificateRequest renew;
  renew.header = Header();
  renew.request = CertRequest::Make(key).ToDer();
  EXPECT_EQ(RunSim(ex, calls.RenewCertificate(renew)).code(), FsError::kAccess);
  renew.header = By(Role::kData);
  EXPECT_EQ(RunSim(ex, calls.RenewCertificate(renew)).code(), FsError::kAccess);
  auto peer = std::make_shared<Peer>(*renew.header.peer);
  peer->name = "n6";
  peer->key_hash = own.key_hash();
  peer->serial = own.serial();
  renew.header.peer = peer;
  const RenewCertificateReply renewed = RunSim(ex, calls.RenewCertificate(renew)).value();
  EXPECT_EQ(renewed.bundle, enrolment.Bundle());
  TrustListRequest list;
  list.header = By(Role::kAdmin);
  EXPECT_EQ(RunSim(ex, calls.ListCertificates(list)).value().certificates.size(), 2u);
  const TrustReply revoked = RunSim(ex, calls.RevokeCertificate({By(Role::kAdmin), "data/n6", false})).value();
  EXPECT_TRUE(Has(revoked.message, "2 certificates of data n6 are revoked")) << revoked.message;
  EXPECT_EQ(RunSim(ex, calls.RenewCertificate(renew)).code(), FsError::kAccess);
}

// Nobody but an admin fills the audit: what fails is counted as a denial is, whatever the reason.
TEST_F(TrustCallsTest, RenewalsThatFailAreBounded) {
  ASSERT_TRUE(RunSim(ex, calls.MakeToken(Token(By(Role::kAdmin)))).ok());
  const PrivateKey key = PrivateKey::Make();
  const std::string request = EncodeJoinRequest(MakeJoinRequest(secret, "n6", CertRequest::Make(key), "binding"));
  const JoinAnswer answer = DecodeJoinAnswer(RunSim(ex, enrolment.Join(request, "binding", "10.3.0.7:1")).value()).value();
  const Certificate own = Certificate::FromPem(answer.certificate).value();
  Lines();
  RenewCertificateRequest renew;
  renew.header = By(Role::kData);
  auto peer = std::make_shared<Peer>(*renew.header.peer);
  peer->name = "n6";
  peer->key_hash = own.key_hash();
  peer->serial = own.serial();
  renew.header.peer = peer;
  renew.request = "no request";
  for (int i = 0; i < 50; ++i) {
    const auto failed = RunSim(ex, calls.RenewCertificate(renew));
    EXPECT_FALSE(failed.ok());
    EXPECT_FALSE(failed.error().denies) << "its own certificate is good";
  }
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), DenialLimits().per_place);
  EXPECT_TRUE(Has(lines[0], "failed: ")) << lines[0];
}

// The dispatcher tells the audit of these; here they have their mark.
TEST_F(TrustCallsTest, WhoMayNotAskIsDenied) {
  for (const Role role : {Role::kMeta, Role::kData, Role::kClient, Role::kMonitor}) {
    const auto refused = RunSim(ex, calls.RevokeCertificate({By(role), "data/n6", false}));
    EXPECT_TRUE(refused.error().denies) << RoleName(role);
  }
  EXPECT_TRUE(Lines().empty());
  EXPECT_FALSE(RunSim(ex, calls.RevokeCertificate({By(Role::kAdmin), "data/n6", false})).error().denies) << "there is none";
}

TEST_F(TrustCallsTest, ExportsAreSetTriedAndRemoved) {
  const OpHeader admin = By(Role::kAdmin);
  EXPECT_EQ(RunSim(ex, calls.SetExport({admin, "path=nowhere", false})).code(), FsError::kInval);
  const std::string line = "path=/atlas clients=wn*.example access=ro";
  EXPECT_TRUE(Has(RunSim(ex, calls.SetExport({admin, line, true})).value().message, "the export is new: path=/atlas"));
  EXPECT_EQ(exports.List().size(), 1u) << "that was a dry run";
  ASSERT_TRUE(RunSim(ex, calls.SetExport({admin, line, false})).ok());
  EXPECT_TRUE(Has(RunSim(ex, calls.SetExport({admin, line, true})).value().message, "the export is changed"));
  TrustListRequest list;
  list.header = admin;
  EXPECT_EQ(RunSim(ex, calls.ListExports(list)).value().lines.size(), 2u);
  EXPECT_EQ(RunSim(ex, calls.RemoveExport({admin, "/cms", "", true})).code(), FsError::kNoEnt);
  EXPECT_EQ(RunSim(ex, calls.RemoveExport({admin, "/atlas", "other", false})).code(), FsError::kNoEnt);
  EXPECT_EQ(RunSim(ex, calls.RemoveExport({admin, "/atlas", "a access=rw", false})).code(), FsError::kInval);
  ASSERT_TRUE(RunSim(ex, calls.RemoveExport({admin, "/atlas", "wn*.example", true})).ok());
  EXPECT_EQ(exports.List().size(), 2u);
  ASSERT_TRUE(RunSim(ex, calls.RemoveExport({admin, "/atlas", "wn*.example", false})).ok());
  EXPECT_EQ(exports.List().size(), 1u);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 9u) << "refused and dry ones, too";
  EXPECT_TRUE(Has(lines[0], "\"outcome\":\"failed: ")) << lines[0];
  EXPECT_TRUE(Has(lines[1], "\"outcome\":\"would: ")) << lines[1];
  EXPECT_TRUE(Has(lines[2], "\"outcome\":\"done: ")) << lines[2];
}

TEST_F(TrustCallsTest, AClientIsEvicted) {
  OpenSessionRequest open;
  open.header = By(Role::kClient);
  open.client = "mount on wn7\n";
  open.client_uuid = Uuid{5, 5};
  const OpenSessionReply session = RunSim(ex, coherence.OpenSession(open)).value();
  TrustListRequest list;
  list.header = By(Role::kAdmin);
  const ListClientsReply clients = RunSim(ex, calls.ListClients(list)).value();
  ASSERT_EQ(clients.clients.size(), 1u);
  EXPECT_EQ(clients.clients[0].session, session.session);
  EXPECT_EQ(clients.clients[0].owner, "pc1");
  EXPECT_GT(clients.clients[0].lease_left_ns, 0);
  ASSERT_TRUE(RunSim(ex, calls.EvictClient({By(Role::kAdmin), session.session, true})).ok());
  EXPECT_TRUE(coherence.sessions().table().Exists(session.session)) << "that was a dry run";
  ASSERT_TRUE(RunSim(ex, calls.EvictClient({By(Role::kAdmin), session.session, false})).ok());
  EXPECT_FALSE(coherence.sessions().table().Exists(session.session));
  EXPECT_EQ(RunSim(ex, calls.EvictClient({By(Role::kAdmin), session.session, false})).code(), FsError::kNoEnt);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(Has(lines[1], "\"kind\":\"eviction\"")) << lines[1];
  EXPECT_FALSE(Has(lines[1], "\n"));
}

TEST_F(TrustCallsTest, VerbsOfTheClusterAreWrittenDown) {
  AdminRequest drain;
  drain.header = By(Role::kAdmin);
  drain.verb = AdminVerb::kDrain;
  drain.node = NodeId(7);
  drain.force = true;
  EXPECT_EQ(RunSim(ex, admins.Admin(drain)).code(), FsError::kNoEnt);
  FsckRepairRequest fsck;
  fsck.header = By(Role::kAdmin);
  fsck.dry_run = true;
  ASSERT_TRUE(RunSim(ex, admins.FsckRepair(fsck)).ok());
  fsck.header = Header();
  fsck.header.uid = 1000;
  EXPECT_EQ(RunSim(ex, admins.FsckRepair(fsck)).code(), FsError::kPerm);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(Has(lines[0], "\"verb\":\"node drain\",\"arguments\":\"node 7 --force\",\"outcome\":\"failed: no such node\"")) << lines[0];
  EXPECT_TRUE(Has(lines[1], "\"verb\":\"fsck\",\"arguments\":\"--repair\",\"outcome\":\"would: ")) << lines[1];
  EXPECT_TRUE(Has(lines[2], "\"kind\":\"denial\",\"peer\":\"uid 1000\"")) << lines[2];
  // By who reads it.
  ReadAuditRequest read;
  read.header = By(Role::kAdmin);
  read.limit = 2;
  const ReadAuditReply reply = RunSim(ex, calls.ReadAudit(read)).value();
  EXPECT_EQ(reply.lines.size(), 2u);
  EXPECT_TRUE(reply.more);
}

}  // namespace
}  // namespace stria
