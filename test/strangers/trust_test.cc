// Who is of the cluster, and who may what, is for admins: every method of TrustService, tried by every role and by nobody, over the
// network and past the dispatcher, with headers of their own and of others. All are refused for who asks, and nothing is changed: no
// token, certificate, revocation, export or session. The methods are those of proto/trust_stubs.h: one that is new has no request
// here, and does not compile.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/trust_api.h"
#include "meta/model/families.h"
#include "meta/service/meta_testing.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "trust/authority.h"
#include "trust/certificate.h"
#include "trust/join_token.h"

namespace stria {
namespace {

constexpr char kAddress[] = "meta:7";
constexpr Role kNoAdmins[] = {Role::kMeta, Role::kData, Role::kClient, Role::kMonitor};

class TrustStrangers : public testing::Test {
 protected:
  TrustStrangers() {
    const int64_t now_s = h_.ex.WallNs() / kSecond;
    const auto authority = std::make_shared<const Authority>(Authority::Make(h_.cluster, now_s));
    MetaTrust trust;
    trust.authority = authority;
    h_.server->trust().Use(std::move(trust));
    victim_.peer = TestPeer(Role::kClient, "wn7");
    victim_.Open();
    // A data server's certificate, which everybody has seen who spoke with it, and a token that nobody has used.
    const Certificate n6 = authority->Sign(CertRequest::Make(PrivateKey::Make()), {h_.cluster, Role::kData, "n6"}, now_s).value();
    EXPECT_TRUE(room().NoteGiven(n6).ok());
    serial_ = n6.serial();
    MakeTokenRequest token = Token();
    const auto made = RunSim(h_.ex, room().MakeToken(token));
    EXPECT_TRUE(made.ok()) << made.error();
    if (made.ok()) token_ = made->token.id;
    DispatchOptions doors;
    doors.proved = true;
    doors.refused = [this](const Peer*, const std::string&, const Error&) { ++told_; };
    dispatcher_ = std::make_unique<TrustDispatcher>(&service(), doors);
    net_.Serve(kAddress, dispatcher_.get());
  }
  ~TrustStrangers() override {
    net_.Stop(kAddress);
    victim_.Stop();
  }
  TrustService& service() { return *h_.server->trust().service(); }
  EnrolmentRoom& room() { return *h_.server->trust().enrolment(); }

  // ---- What could be asked for, in every form that matters
  static MakeTokenRequest Token() {
    MakeTokenRequest r;
    const JoinVerifier v = VerifierOf(NewJoinSecret());
    r.verifier.assign(v.begin(), v.end());
    r.role = Role::kAdmin;
    r.name = "mallory";
    return r;
  }
  std::vector<MakeTokenRequest> Forms(MakeTokenRequest*) const {
    MakeTokenRequest root = Token();
    root.role = Role::kClient;
    root.trusted_root = true;
    return {Token(), root};
  }
  std::vector<TrustListRequest> Forms(TrustListRequest*) const { return {TrustListRequest()}; }
  std::vector<RevokeTokenRequest> Forms(RevokeTokenRequest*) const { return {{{}, token_, false}, {{}, token_, true}}; }
  std::vector<RevokeCertificateRequest> Forms(RevokeCertificateRequest*) const {
    return {{{}, serial_, false}, {{}, "data/n6", false}, {{}, "data/n6", true}};
  }
  std::vector<RenewCertificateRequest> Forms(RenewCertificateRequest*) const {
    const std::string request = CertRequest::Make(PrivateKey::Make()).ToDer();
    return {{{}, request}, {{}, request, serial_}};
  }
  std::vector<SetExportRequest> Forms(SetExportRequest*) const { return {{{}, "path=/ squash=none", false}, {{}, "path=/a", true}}; }
  std::vector<RemoveExportRequest> Forms(RemoveExportRequest*) const { return {{{}, "/", "", false}, {{}, "/", "", true}}; }
  std::vector<EvictClientRequest> Forms(EvictClientRequest*) const {
    return {{{}, victim_.session, false}, {{}, victim_.session, true}};
  }
  std::vector<ReadAuditRequest> Forms(ReadAuditRequest*) const { return {ReadAuditRequest()}; }
  std::vector<ChangeAuthorityRequest> Forms(ChangeAuthorityRequest*) const {
    return {{{}, AuthorityVerb::kShow, false, false}, {{}, AuthorityVerb::kRotate, false, false}, {{}, AuthorityVerb::kFinish, false, true}};
  }
  std::vector<FollowAuthorityRequest> Forms(FollowAuthorityRequest*) const {
    FollowAuthorityRequest r;
    r.member = "pc1";
    return {FollowAuthorityRequest(), r};
  }
  std::vector<OpHeader> Headers() const {
    std::vector<OpHeader> out(3);
    for (OpHeader& h : out) h.cluster = h_.cluster;
    out[1].uid = out[1].gid = 65534;
    out[2].session = victim_.session;
    out[2].epoch = victim_.epoch;
    return out;
  }
  // All that is kept of the cluster and of sessions.
  std::map<std::string, std::string> Dump() {
    std::map<std::string, std::string> out;
    for (const Family f : {Family::kCluster, Family::kSessions}) {
      const auto all = h_.server->store()->kv().Scan(static_cast<KvFamily>(f), "", std::string(64, '\xff'), 10'000);
      EXPECT_TRUE(all.ok());
      for (const KvEntry& e : *all) out[std::to_string(static_cast<int>(f)) + e.first] = e.second;
    }
    out["victim"] = h_.server->sessions().Exists(victim_.session) ? "lives" : "gone";
    return out;
  }

  // As whom `as` says; null: nobody. `admitted`: those that may.
  template <class Req, class Rep>
  void Try(const std::string& method, Task<Result<Rep>> (TrustService::*call)(Req), const std::shared_ptr<const Peer>& as, bool in_session_only) {
    net_.SetPeer("stranger", as);
    for (const OpHeader& header : Headers()) {
      if (in_session_only && !header.session) continue;
      for (Req& r : Forms(static_cast<Req*>(nullptr))) {
        const std::string what = method + " by " + (as ? as->ToString() : "nobody") + (header.session ? " in a session" : "");
        r.header = header;
        const int told = told_;
        const Result<Rep> refused = RunSim(h_.ex, (stub_.*call)(r));
        EXPECT_EQ(refused.code(), FsError::kAccess) << what << ": " << refused.error();
        EXPECT_EQ(told_, told + 1) << what << ": the audit is told";
        if (!as) continue;  // the service itself believes who proves nothing: it is not asked where others do
        r.header.peer = as;
        const Result<Rep> again = RunSim(h_.ex, (service().*call)(std::move(r)));
        EXPECT_NE(again.code(), FsError::kOk) << what << ", past the dispatcher";
      }
    }
  }
  void TryAll(const std::shared_ptr<const Peer>& as, bool in_session_only = false) {
#define X(Name, Request, Reply) Try<Request, Reply>(#Name, &TrustService::Name, as, in_session_only);
    STRIA_TRUST_METHODS(X)
#undef X
  }

  MetaHarness h_;
  TestClient victim_{&h_, 1};
  std::string serial_, token_;
  int told_ = 0;
  SimNetwork net_{&h_.ex, 42};
  std::unique_ptr<TrustDispatcher> dispatcher_;
  TrustStub stub_{net_.MakeTransport("stranger", kAddress)};
};

TEST_F(TrustStrangers, ChangeAndLearnNothing) {
  const std::map<std::string, std::string> before = Dump();
  for (const Role role : kNoAdmins) TryAll(TestPeer(role, "mallory"));
  TryAll(victim_.peer);
  TryAll(nullptr);
  EXPECT_EQ(Dump(), before);
  EXPECT_TRUE(room().Revoked().empty());
  EXPECT_EQ(room().ListTokens().tokens.size(), 1u);
}

// Nobody becomes an admin by a session of a client, nor loses himself in one.
TEST_F(TrustStrangers, AnAdminHasNoSession) {
  const std::map<std::string, std::string> before = Dump();
  TryAll(TestPeer(Role::kAdmin, "pc1"), true);
  EXPECT_EQ(Dump(), before);
}

// All of it could have been done.
TEST_F(TrustStrangers, AnAdminMay) {
  net_.SetPeer("stranger", TestPeer(Role::kAdmin, "pc1"));
  OpHeader header;
  header.cluster = h_.cluster;
  TrustListRequest list;
  list.header = header;
  EXPECT_EQ(RunSim(h_.ex, stub_.ListTokens(list)).value().tokens.size(), 1u);
  EXPECT_EQ(RunSim(h_.ex, stub_.ListCertificates(list)).value().certificates.size(), 1u);
  EXPECT_EQ(RunSim(h_.ex, stub_.ListExports(list)).value().lines.size(), 1u);
  EXPECT_EQ(RunSim(h_.ex, stub_.ListClients(list)).value().clients.size(), 1u);
  MakeTokenRequest token = Token();
  token.header = header;
  EXPECT_TRUE(RunSim(h_.ex, stub_.MakeToken(token)).ok());
  EXPECT_TRUE(RunSim(h_.ex, stub_.RevokeToken({header, token_, false})).ok());
  EXPECT_TRUE(RunSim(h_.ex, stub_.RevokeCertificate({header, "data/n6", false})).ok());
  EXPECT_TRUE(RunSim(h_.ex, stub_.EvictClient({header, victim_.session, false})).ok());
  EXPECT_TRUE(RunSim(h_.ex, stub_.SetExport({header, "path=/a", false})).ok());
  EXPECT_TRUE(RunSim(h_.ex, stub_.RemoveExport({header, "/", "", false})).ok());
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace stria
