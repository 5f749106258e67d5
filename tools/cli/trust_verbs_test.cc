// The verbs about trust against a service that answers from canned replies, and joining against an authority without a network.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "api/trust_api.h"
#include "common/temp_dir.h"
#include "tools/cli/arguments.h"
#include "tools/cli/cli_testing.h"
#include "tools/cli/trust_render.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"
#include "trust/trust_testing.h"

namespace stria::cli {
namespace {

class TrustVerbsTest : public testing::Test {
 protected:
  int Run(const std::string& line) {
    Context ctx;
    out_.str("");
    err_.str("");
    std::istringstream in(input_);
    ctx.in = &in;
    ctx.out = &out_;
    ctx.err = &err_;
    ctx.cwd = "/somewhere";
    ctx.env_meta = env_;
    ctx.connector = [this](const std::string&) -> Result<Reach> {
      return Reach{[meta = meta_, trust = trust_]() -> std::unique_ptr<ClusterConnector> {
                     auto c = std::make_unique<FakeConnector>(std::map<std::string, std::shared_ptr<FakeMeta>>{{"pc1:7424", meta}, {"unix:/run/stria.sock", meta}});
                     c->trust = trust;
                     return c;
                   },
                   ""};
    };
    ctx.ask_to_join = [this](const std::string& address, const Sha256Hash& authority, const std::function<std::string(std::string_view)>& make, int64_t) {
      ++asked_;
      address_ = address;
      pinned_ = authority;
      return answer_(make("binding"));
    };
    ctx.confirm = confirm_;
    std::vector<std::string> words = {"stria"};
    std::istringstream text(line);
    for (std::string w; text >> w;) words.push_back(w);
    std::vector<const char*> argv;
    for (const auto& w : words) argv.push_back(w.c_str());
    return RunCommandLine(static_cast<int>(argv.size()), argv.data(), ctx);
  }

  std::shared_ptr<FakeMeta> meta_ = std::make_shared<FakeMeta>();
  std::shared_ptr<FakeTrust> trust_ = std::make_shared<FakeTrust>();
  std::function<Result<std::string>(const std::string& request)> answer_;
  std::function<bool(const std::string&)> confirm_;
  std::string env_ = "pc1", input_, address_;
  Sha256Hash pinned_{};
  int asked_ = 0;
  std::ostringstream out_, err_;
};

// ---- Tokens ---------------------------------------------------------------------------------------

TEST_F(TrustVerbsTest, ATokenIsTheOnlyLineOfItsOutput) {
  MakeTokenRequest seen;
  trust_->onMakeToken = [&](const MakeTokenRequest& r) {
    seen = r;
    MakeTokenReply reply;
    reply.token.id = "01ab23cd";
    reply.token.role = r.role;
    reply.token.name = r.name;
    reply.token.names = r.names;
    reply.token.uses = r.uses;
    reply.authority = HexOf(Sha256Hash{7});
    reply.address = "meta.example:7000";
    return reply;
  };
  ASSERT_EQ(Run("token make --role data --name n6 --ttl 2h"), 0) << err_.str();
  EXPECT_EQ(seen.role, Role::kData);
  EXPECT_EQ(seen.name, "n6");
  EXPECT_EQ(seen.ttl_s, 7200);
  EXPECT_EQ(seen.uses, 1u);
  const std::string line = out_.str();
  ASSERT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  const JoinToken token = ParseJoinToken(line.substr(0, line.size() - 1)).value();
  EXPECT_EQ(token.host, "pc1");
  EXPECT_EQ(token.port, 7424);
  EXPECT_EQ(token.authority, Sha256Hash{7});
  // What was sent is not the secret, but fits it.
  const JoinVerifier verifier = VerifierOf(token.secret);
  EXPECT_EQ(seen.verifier, std::string(verifier.begin(), verifier.end()));
  EXPECT_NE(err_.str().find("stria join -"), std::string::npos);
  EXPECT_EQ(err_.str().find(line.substr(line.rfind(':'))), std::string::npos) << "what is said of it does not have the secret";
  ASSERT_EQ(Run("token make --role client --uses 500 --names wn* --network 10.3.0.0/16 --network fd00::/8 --trusted-root --address 10.0.0.1 --json"), 0) << err_.str();
  EXPECT_EQ(seen.uses, 500u);
  EXPECT_EQ(seen.names, "wn*");
  EXPECT_EQ(seen.networks, (std::vector<std::string>{"10.3.0.0/16", "fd00::/8"}));
  EXPECT_TRUE(seen.trusted_root);
  EXPECT_EQ(ParseJoinToken(Json::parse(out_.str())["token"].get<std::string>()).value().host, "10.0.0.1");
  // On the server's own machine the address is one that only this machine knows.
  env_ = "unix:/run/stria.sock";
  ASSERT_EQ(Run("token make"), 0) << err_.str();
  EXPECT_EQ(out_.str().find("stria-join:meta.example:7000:"), 0u) << out_.str();
  EXPECT_EQ(Run("token make --role king"), 64);
  EXPECT_EQ(Run("token make --ttl soon"), 64);
  EXPECT_EQ(Run("token make --uses 0"), 64);
}

TEST_F(TrustVerbsTest, TokensAreListedAndRevoked) {
  trust_->onListTokens = [](const TrustListRequest&) {
    ListTokensReply reply;
    JoinTokenInfo t;
    t.id = "01ab23cd";
    t.role = Role::kClient;
    t.uses = 500;
    t.names = "wn*";
    t.used = 3;
    t.networks = {"10.3.0.0/16"};
    reply.tokens = {t};
    return reply;
  };
  EXPECT_EQ(Run("token ls"), 0);
  EXPECT_NE(out_.str().find("01ab23cd  client  wn*   3 of 500  over  10.3.0.0/16  -\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("token ls --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())[0]["used"], 3);
  std::vector<bool> dry;
  trust_->onRevokeToken = [&](const RevokeTokenRequest& r) {
    EXPECT_EQ(r.id, "01ab23cd");
    dry.push_back(r.dry_run);
    return TrustReply{"the token is revoked\x1b[2J"};
  };
  EXPECT_EQ(Run("token revoke 01ab23cd --dry-run"), 0);
  EXPECT_EQ(out_.str(), "would: the token is revoked\\033[2J\n");
  bool answer = false;
  confirm_ = [&](const std::string&) { return answer; };
  EXPECT_EQ(Run("token revoke 01ab23cd"), 1);
  EXPECT_EQ(dry, (std::vector<bool>{true, true}));
  answer = true;
  EXPECT_EQ(Run("token revoke 01ab23cd"), 0);
  EXPECT_EQ(Run("token revoke 01ab23cd --yes --json"), 0);
  EXPECT_EQ(dry, (std::vector<bool>{true, true, true, false, false}));
}

// ---- The others -----------------------------------------------------------------------------------

TEST_F(TrustVerbsTest, CertificatesComeInPages) {
  std::vector<std::string> asked;
  trust_->onListCertificates = [&](const TrustListRequest& r) {
    asked.push_back(r.after);
    ListCertificatesReply reply;
    CertificateInfo c;
    c.role = Role::kData;
    c.name = "n6";
    c.not_after_s = INT64_MAX / 2;
    c.serial = r.after.empty() ? "4a" : "4b";
    c.revoked = !r.after.empty();
    reply.certificates = {c};
    if (r.after.empty()) reply.next = "4a";
    return reply;
  };
  EXPECT_EQ(Run("cert ls"), 0);
  EXPECT_EQ(asked, (std::vector<std::string>{"", "4a"}));
  EXPECT_NE(out_.str().find("revoked"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("cert show data/n6"), 0);
  EXPECT_NE(out_.str().find("serial:    4a\n"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("serial:    4b\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("cert show 4b --json"), 0);
  EXPECT_EQ(Json::parse(out_.str()).size(), 1u);
  EXPECT_EQ(Run("cert show data/n7"), 66);
  trust_->onRevokeCertificate = [](const RevokeCertificateRequest& r) -> Result<TrustReply> {
    if (r.which != "data/n6") return Error(FsError::kNoEnt, "none is in force");
    return TrustReply{"2 certificates of data n6 are revoked"};
  };
  EXPECT_EQ(Run("cert revoke data/n6"), 0);
  EXPECT_EQ(out_.str(), "2 certificates of data n6 are revoked\n");
  EXPECT_EQ(Run("cert revoke data/n9"), 66);
  // One that goes round in a circle ends.
  trust_->onListCertificates = [&](const TrustListRequest&) {
    ListCertificatesReply reply;
    reply.next = "4a";
    return reply;
  };
  EXPECT_EQ(Run("cert ls"), 70);
}

TEST_F(TrustVerbsTest, TheAuthority) {
  std::vector<ChangeAuthorityRequest> asked;
  trust_->onChangeAuthority = [&](const ChangeAuthorityRequest& r) {
    asked.push_back(r);
    ChangeAuthorityReply reply;
    reply.message = r.verb == AuthorityVerb::kShow ? "" : "it is changed";
    reply.authorities = {{"12ab", INT64_MAX / 2, true, 2, {"data n6", "client wn7"}, {"pc2 has not got it", "pc3 has not been heard"}}};
    return reply;
  };
  EXPECT_EQ(Run("ca show"), 0);
  EXPECT_NE(out_.str().find("sha256=12ab\n"), std::string::npos);
  EXPECT_NE(out_.str().find("; signs; 2 certificates in use: data n6, client wn7\n"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("\n  metadata servers: pc2 has not got it, pc3 has not been heard\n"), std::string::npos) << out_.str();
  confirm_ = [](const std::string&) { return false; };
  EXPECT_EQ(Run("ca show"), 0) << "nobody is asked for that";
  EXPECT_EQ(Run("ca rotate"), 1);
  EXPECT_TRUE(asked.back().dry_run);
  EXPECT_EQ(Run("ca finish --force --yes"), 0);
  EXPECT_EQ(asked.back().verb, AuthorityVerb::kFinish);
  EXPECT_TRUE(asked.back().force);
  EXPECT_FALSE(asked.back().dry_run);
  EXPECT_EQ(Run("ca show --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())["authorities"][0]["in_force"], 2);
  EXPECT_EQ(Json::parse(out_.str())["authorities"][0]["lacking"].size(), 2u);
}

TEST_F(TrustVerbsTest, ExportsAndClients) {
  trust_->onListExports = [](const TrustListRequest&) { return ListExportsReply{{"path=/ clients=*"}}; };
  EXPECT_EQ(Run("export ls"), 0);
  EXPECT_EQ(out_.str(), "path=/ clients=*\n");
  std::string line;
  trust_->onSetExport = [&](const SetExportRequest& r) {
    line = r.line;
    return TrustReply{"the export is new"};
  };
  EXPECT_EQ(Run("export set path=/atlas clients=wn*.example access=ro"), 0) << err_.str();
  EXPECT_EQ(line, "path=/atlas clients=wn*.example access=ro");
  RemoveExportRequest removed;
  trust_->onRemoveExport = [&](const RemoveExportRequest& r) {
    removed = r;
    return TrustReply{"removed"};
  };
  EXPECT_EQ(Run("export remove /atlas --clients wn*.example --dry-run"), 0);
  EXPECT_EQ(removed.path, "/atlas");
  EXPECT_EQ(removed.clients, "wn*.example");
  EXPECT_TRUE(removed.dry_run);
  trust_->onListClients = [](const TrustListRequest&) { return ListClientsReply{{{SessionId(17), "mount\nof wn7", "wn7", "", 5 * kSecond}}}; };
  EXPECT_EQ(Run("client ls"), 0);
  EXPECT_NE(out_.str().find("     17  wn7    -       5 s  mount\\nof wn7\n"), std::string::npos) << out_.str();
  SessionId evicted;
  trust_->onEvictClient = [&](const EvictClientRequest& r) {
    evicted = r.session;
    return TrustReply{"ended"};
  };
  EXPECT_EQ(Run("client evict 17"), 0);
  EXPECT_EQ(evicted, SessionId(17));
  EXPECT_EQ(Run("client evict"), 64);
  EXPECT_EQ(Run("client evict n6"), 64);
}

TEST_F(TrustVerbsTest, TheAudit) {
  ReadAuditRequest asked;
  trust_->onReadAudit = [&](const ReadAuditRequest& r) {
    asked = r;
    ReadAuditReply reply;
    reply.lines = {"{\"time_s\":1,\"time\":\"2023-11-14T22:13:20Z\",\"kind\":\"verb\",\"peer\":\"admin pc1\",\"address\":\"10.0.0.7:5\",\"verb\":\"node drain\","
                   "\"arguments\":\"n3\",\"outcome\":\"done: \\u001b[2J\"}",
                   "not json"};
    reply.more = true;
    return reply;
  };
  EXPECT_EQ(Run("audit --since 2d --limit 5"), 0);
  EXPECT_EQ(asked.limit, 5u);
  EXPECT_NEAR(static_cast<double>(asked.since_s), static_cast<double>(WallclockNs() / kSecond - 2 * kDayS), 60.0);
  EXPECT_NE(out_.str().find("2023-11-14T22:13:20Z  admin pc1 at 10.0.0.7:5  node drain n3  done: \\033[2J\nnot json\n"), std::string::npos) << out_.str();
  EXPECT_EQ(Run("audit --json"), 0);
  EXPECT_EQ(Json::parse(out_.str())["lines"][0]["verb"], "node drain");
  EXPECT_EQ(Json::parse(out_.str())["lines"][1], "not json");
  EXPECT_EQ(Run("audit --since yesterday"), 64);
}

// ---- Renewal --------------------------------------------------------------------------------------

class CertRenewTest : public TrustVerbsTest {
 protected:
  CertRenewTest() {
    map_.bundle = cluster_.bundle.ToPem();
    meta_->onGetMap = [this](const InodeRequest&) -> Result<ClusterMap> {
      if (!down_.ok()) return down_;
      return map_;
    };
    trust_->onRenewCertificate = [this](const RenewCertificateRequest& r) -> Result<RenewCertificateReply> {
      ++renewals_;
      ASSIGN_OR_RETURN(const CertRequest request, CertRequest::FromDer(r.request));
      ASSIGN_OR_RETURN(const Certificate c, signs_->Sign(request, {kTestCluster, Role::kAdmin, name_}, now_s_));
      return RenewCertificateReply{c.ToPem(), map_.bundle};
    };
    Save(0);
  }
  // As it was made some days ago.
  void Save(int64_t days) {
    const auto own = cluster_.Give(Role::kAdmin, "pc1", now_s_ - days * kDayS);
    ASSERT_TRUE(CredentialFiles::SaveBundle(dir_.path(), own->bundle).ok());
    ASSERT_TRUE(CredentialFiles::SaveNode(dir_.path(), own->key, own->certificate).ok());
    serial_ = own->certificate.serial();
    key_ = own->certificate.key_hash();
  }
  std::shared_ptr<const Credentials> Saved() const { return CredentialFiles(dir_.path()).Load().value(); }
  int Renew(const std::string& how = "") { return Run("cert renew --trust " + dir_.path() + " " + how); }

  const int64_t now_s_ = WallclockNs() / kSecond;
  const TestCluster cluster_{kTestCluster, WallclockNs() / kSecond - 100 * kDayS};
  const TestCluster next_{kTestCluster, WallclockNs() / kSecond};
  const Authority* signs_ = &cluster_.authority;
  ClusterMap map_;
  Error down_;
  TempDir dir_;
  std::string name_ = "pc1", serial_;
  Sha256Hash key_{};
  int renewals_ = 0;
};

TEST_F(CertRenewTest, OnlyWhatIsDueIsRenewed) {
  map_.revoked = {"4abc"};
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_NE(out_.str().find("nothing to do: the certificate of admin pc1"), std::string::npos) << out_.str();
  EXPECT_EQ(renewals_, 0);
  EXPECT_TRUE(Saved()->revoked.Has("4abc")) << "what the map says is kept all the same";
  ASSERT_EQ(Renew("--force --json"), 0) << err_.str();
  EXPECT_EQ(renewals_, 1);
  EXPECT_TRUE(Json::parse(out_.str())["renewed"].get<bool>());
  EXPECT_EQ(Json::parse(out_.str())["serial"], Saved()->certificate.serial());
  EXPECT_NE(Saved()->certificate.serial(), serial_);
  EXPECT_EQ(Saved()->certificate.key_hash(), key_);
  struct stat st;
  ASSERT_EQ(stat((dir_.path() + "/node.pem").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  Save(61);
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_EQ(renewals_, 2) << "after two thirds of its life";
  EXPECT_NE(out_.str().find("admin pc1 has the certificate " + Saved()->certificate.serial() + " now"), std::string::npos) << out_.str();
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_EQ(renewals_, 2);
}

TEST_F(CertRenewTest, AnotherAuthorityIsTakenOver) {
  map_.bundle = cluster_.bundle.With(next_.authority.certificate()).value().ToPem();
  signs_ = &next_.authority;
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_TRUE(SignedBy(Saved()->certificate, next_.authority.certificate()));
  EXPECT_EQ(Saved()->bundle.ToPem(), map_.bundle);
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_EQ(renewals_, 1) << "it is of the one that signs";
  // The change has ended.
  map_.bundle = next_.bundle.ToPem();
  ASSERT_EQ(Renew(), 0) << err_.str();
  EXPECT_EQ(Saved()->bundle.ToPem(), map_.bundle);
  EXPECT_EQ(renewals_, 1);
}

TEST_F(CertRenewTest, WhatCannotBeRenewedIsSaid) {
  const auto says = [&](const std::string& part) { EXPECT_NE(err_.str().find(part), std::string::npos) << err_.str(); };
  name_ = "pc2";
  EXPECT_EQ(Renew("--force"), 70);
  says("the certificate that came is of");
  trust_->onRenewCertificate = [](const RenewCertificateRequest&) -> Result<RenewCertificateReply> { return Error(FsError::kAccess, "its own was revoked"); };
  EXPECT_EQ(Renew("--force"), 77);
  says("its own was revoked");
  EXPECT_EQ(Saved()->certificate.serial(), serial_) << "the files are as they were";
  down_ = Error(FsError::kAccess, "the handshake was refused");
  EXPECT_EQ(Renew(), 77);
  says("stria token make --role admin --name pc1");
  down_ = Error();
  map_.bundle = "";
  EXPECT_EQ(Renew(), 1);
  says("insecure");
  map_.bundle = TestCluster(kOtherCluster, now_s_).bundle.ToPem();
  EXPECT_EQ(Renew(), 1);
  says("of cluster " + kOtherCluster.ToString());
  env_ = "unix:/run/stria.sock";
  EXPECT_EQ(Renew(), 64);
  says("--meta HOST[:PORT]");
  EXPECT_EQ(Run("cert renew --trust " + dir_.path() + "/nothing"), 66);
  EXPECT_EQ(Run("cert renew --trust off"), 64);
}

TEST_F(CertRenewTest, OneThatIsOverNeedsAToken) {
  Save(91);
  EXPECT_EQ(Renew(), 77);
  EXPECT_EQ(renewals_, 0);
  EXPECT_NE(err_.str().find("has expired"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("stria join - --again --trust " + dir_.path()), std::string::npos) << err_.str();
}

// ---- Joining --------------------------------------------------------------------------------------

class JoinVerbTest : public TrustVerbsTest {
 protected:
  JoinVerbTest() {
    token_.host = "pc1";
    token_.port = 7424;
    token_.authority = cluster_.authority.certificate().hash();
    token_.secret = NewJoinSecret();
    grant_.verifier = VerifierOf(token_.secret);
    grant_.role = Role::kData;
    grant_.name = "n6";
    grant_.expires_s = INT64_MAX / 2;
    answer_ = [this](const std::string& request) -> Result<std::string> {
      ASSIGN_OR_RETURN(const JoinRequest r, DecodeJoinRequest(request));
      names_.push_back(r.name);
      ASSIGN_OR_RETURN(const Certificate c, AdmitJoin(r, &grant_, "binding", "10.0.0.7:1", cluster_.authority, now_s_));
      if (lose_answers_-- > 0) return Error(FsError::kUnavailable, "the connection was lost");
      return EncodeJoinAnswer({c.ToPem(), cluster_.bundle.ToPem()});
    };
  }
  std::string Text() const { return FormatJoinToken(token_); }
  std::string Dir() const { return dir_.path() + "/trust"; }
  std::shared_ptr<const Credentials> Saved() const { return CredentialFiles(Dir()).Load().value(); }

  const int64_t now_s_ = WallclockNs() / kSecond;
  const TestCluster cluster_{kTestCluster, WallclockNs() / kSecond};
  TempDir dir_;
  JoinToken token_;
  JoinGrant grant_;
  std::vector<std::string> names_;
  int lose_answers_ = 0;
};

TEST_F(JoinVerbTest, AMachineJoinsOnce) {
  ASSERT_EQ(Run("join " + Text() + " --name n6 --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(address_, "pc1:7424");
  EXPECT_EQ(pinned_, token_.authority);
  EXPECT_EQ(Saved()->identity, (Identity{kTestCluster, Role::kData, "n6"}));
  EXPECT_NE(out_.str().find("this machine is data n6 of cluster"), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("stria-data --node-name n6 --meta pc1:7424 --trust '" + Dir() + "'"), std::string::npos) << out_.str();
  struct stat st;
  ASSERT_EQ(stat(Dir().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0700u);
  ASSERT_EQ(stat((Dir() + "/node.pem").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_FALSE(std::filesystem::exists(Dir() + "/joining.pem"));
  const std::string serial = Saved()->certificate.serial();
  ASSERT_EQ(Run("join " + Text() + " --trust " + Dir()), 0) << "again is no harm";
  EXPECT_NE(out_.str().find("already"), std::string::npos) << out_.str();
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(Saved()->certificate.serial(), serial);
  grant_.used.clear();
  ASSERT_EQ(Run("join " + Text() + " --name n6 --again --json --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(Json::parse(out_.str())["name"], "n6");
  EXPECT_NE(Saved()->certificate.serial(), serial);
}

TEST_F(JoinVerbTest, TheTokenComesWithoutArguments) {
  input_ = "  " + Text() + "  \nand more\n";
  ASSERT_EQ(Run("join - --name n6 --trust " + Dir()), 0) << err_.str();
  std::filesystem::remove_all(Dir());
  grant_.used.clear();
  const std::string file = dir_.path() + "/token";
  std::ofstream(file) << Text() << "\n";
  ASSERT_EQ(Run("join --token-file " + file + " --name n6 --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(Run("join --trust " + Dir()), 64);
  EXPECT_EQ(Run("join " + Text() + " --token-file " + file), 64);
  EXPECT_EQ(Run("join --token-file " + dir_.path() + "/missing --trust " + Dir()), 66);
  input_ = "";
  EXPECT_EQ(Run("join - --trust " + dir_.path() + "/other"), 64);
  EXPECT_EQ(Run("join nonsense --trust " + dir_.path() + "/other"), 64);
  EXPECT_EQ(Run("join " + Text() + " --name a/b --trust " + dir_.path() + "/other"), 64);
  EXPECT_EQ(err_.str().find(Text()), std::string::npos);
}

TEST_F(JoinVerbTest, ALostAnswerIsAskedForAgain) {
  lose_answers_ = 1;
  EXPECT_EQ(Run("join " + Text() + " --name n6 --trust " + Dir()), 69);
  EXPECT_EQ(grant_.used.size(), 1u);
  struct stat st;
  ASSERT_EQ(stat((Dir() + "/joining.pem").c_str(), &st), 0) << "the key is kept for that";
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  ASSERT_EQ(Run("join " + Text() + " --name n6 --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(grant_.used.size(), 1u) << "with the same key";
  // Who is refused keeps no key.
  const std::string other = dir_.path() + "/other";
  EXPECT_EQ(Run("join " + Text() + " --name n6 --trust " + other), 77);
  EXPECT_NE(err_.str().find("is used up"), std::string::npos) << err_.str();
  EXPECT_FALSE(std::filesystem::exists(other + "/joining.pem"));
}

TEST_F(JoinVerbTest, WhatIsWrongWithTheMachineIsSaidBeforeTheTokenIsUsed) {
  EXPECT_NE(Run("join " + Text() + " --name n6 --disk " + dir_.path() + "/missing --trust " + Dir()), 0);
  EXPECT_NE(Run("join " + Text() + " --name n6 --disk relative --trust " + Dir()), 0);
  EXPECT_EQ(Run("join " + Text() + " --name n6 --address unix:/run/x --trust " + Dir()), 64);
  EXPECT_EQ(Run("join " + Text() + " --name n6 --address a,b --trust " + Dir()), 64);
  EXPECT_NE(Run("join --disk " + dir_.path() + "/missing"), 0) << "without a token, of a machine that is no node";
  EXPECT_EQ(asked_, 0);
  EXPECT_FALSE(std::filesystem::exists(Dir()));
}

TEST_F(JoinVerbTest, ANameIsOfTheTokenOrOfTheMachine) {
  ASSERT_EQ(Run("join " + Text() + " --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(Saved()->identity.name, "n6") << "as the token says, whatever the host is called";
  grant_.name = "";
  grant_.role = Role::kClient;
  grant_.uses = 5;
  const std::string other = dir_.path() + "/other";
  ASSERT_EQ(Run("join " + Text() + " --name wn1 --trust " + other), 0) << err_.str();
  EXPECT_EQ(CredentialFiles(other).Load().value()->identity.name, "wn1");
  EXPECT_NE(out_.str().find("stria-mount --meta pc1:7424"), std::string::npos) << out_.str();
  // One that says a name is asked for that only.
  names_.clear();
  grant_.name = "wn9";
  EXPECT_EQ(Run("join " + Text() + " --name wn8 --trust " + dir_.path() + "/third"), 77);
  EXPECT_EQ(names_, std::vector<std::string>{"wn8"});
}

TEST_F(JoinVerbTest, AnotherClustersCredentialsAreNotLost) {
  const TestCluster other(kOtherCluster, now_s_);
  const auto theirs = other.Give(Role::kData, "n6", now_s_);
  std::filesystem::create_directory(Dir());
  ASSERT_TRUE(CredentialFiles::SaveBundle(Dir(), theirs->bundle).ok());
  ASSERT_TRUE(CredentialFiles::SaveNode(Dir(), theirs->key, theirs->certificate).ok());
  EXPECT_EQ(Run("join " + Text() + " --name n6 --trust " + Dir()), 1);
  EXPECT_NE(err_.str().find("of cluster " + kOtherCluster.ToString()), std::string::npos) << err_.str();
  EXPECT_EQ(asked_, 0) << "nothing of the token is used";
  EXPECT_EQ(Saved()->identity.cluster, kOtherCluster);
  // Half of what belongs there is not taken for nothing.
  ASSERT_TRUE(std::filesystem::remove(Dir() + "/ca.pem"));
  EXPECT_NE(Run("join " + Text() + " --name n6 --trust " + Dir()), 0);
  EXPECT_EQ(asked_, 0);
  ASSERT_EQ(Run("join " + Text() + " --name n6 --again --trust " + Dir()), 0) << err_.str();
  EXPECT_EQ(Saved()->identity.cluster, kTestCluster);
}

TEST(Arguments, TokensAreHidden) {
  JoinToken t;
  t.host = "pc1";
  t.port = 7424;
  t.secret = NewJoinSecret();
  const std::string token = FormatJoinToken(t);
  std::vector<std::string> given = {"stria", "join", token, "--x=" + token, "--name", "n6"};
  std::vector<char*> argv;
  for (std::string& g : given) argv.push_back(g.data());
  const std::vector<std::string> words = TakeArguments(static_cast<int>(argv.size()), argv.data());
  EXPECT_EQ(words, (std::vector<std::string>{"stria", "join", token, "--x=" + token, "--name", "n6"}));
  EXPECT_EQ(given[2], std::string(token.size(), 'x'));
  EXPECT_EQ(given[3], "--x=" + std::string(token.size(), 'x'));
  EXPECT_EQ(given[5], "n6");
}

}  // namespace
}  // namespace stria::cli
