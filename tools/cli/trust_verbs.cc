// stria token make|ls|revoke, stria cert ls|show|revoke (renew: cert_renew.cc), stria ca show|rotate|finish, stria export ls|set|remove, stria client ls|evict,
// stria audit
#include <charconv>
#include <memory>

#include "common/address.h"
#include "common/printable.h"
#include "common/quantity.h"
#include "tools/cli/context.h"
#include "tools/cli/trust_render.h"
#include "trust/join_token.h"

namespace stria::cli {
namespace {

int64_t NowS() { return WallclockNs() / kSecond; }

struct ChangeArgs {
  std::string what;
  std::vector<std::string> words;
  std::string clients;
  bool dry_run = false;
  bool yes = false;
  bool force = false;
};

void AddChangeFlags(CLI::App* verb, ChangeArgs* args) {
  verb->add_flag("--dry-run,-n", args->dry_run, "Only say what would be done");
  verb->add_flag("--yes,-y", args->yes, "Do not ask, on a terminal");
}

template <class Reply>
using ChangeCall = std::function<Task<Result<Reply>>(TrustService&, OpHeader, bool dry_run)>;

// Asks first, where there is a terminal. kCancelled: the answer was no.
template <class Reply>
Result<Reply> Change(const Context& ctx, const std::string& what, const ChangeArgs& args, const ChangeCall<Reply>& call) {
  ASSIGN_OR_RETURN(const auto client, ctx.Connect());
  const auto send = [&](bool dry_run) {
    return client->CallTrust<Reply>(what, [call, dry_run](TrustService& trust, OpHeader header) { return call(trust, std::move(header), dry_run); });
  };
  if (!args.dry_run && !args.yes && ctx.confirm) {
    ASSIGN_OR_RETURN(const Reply would, send(true));
    if (!ctx.confirm(Printable(would.message))) return Error(FsError::kCancelled);
  }
  return send(args.dry_run);
}

int RunChange(const Context& ctx, const std::string& what, const ChangeArgs& args, const ChangeCall<TrustReply>& call) {
  const Result<TrustReply> reply = Change<TrustReply>(ctx, what, args, call);
  if (reply.code() == FsError::kCancelled && reply.error().message.empty()) return kExitNo;
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) *ctx.out << Dump({{"message", reply->message}, {"dry_run", args.dry_run}});
  else *ctx.out << (args.dry_run ? "would: " : "") << Printable(reply->message) << "\n";
  return kExitOk;
}

template <class Reply>
Result<Reply> List(const Context& ctx, const std::string& what, Task<Result<Reply>> (TrustService::*call)(TrustListRequest)) {
  ASSIGN_OR_RETURN(const auto client, ctx.Connect());
  return client->CallTrust<Reply>(what, [call](TrustService& trust, OpHeader header) { return (trust.*call)({std::move(header), ""}); });
}

// ---- Tokens ---------------------------------------------------------------------------------------

struct TokenArgs {
  std::string role = "client";
  std::string name, names;
  std::string ttl = "1h";
  uint32_t uses = 1;
  std::vector<std::string> networks;
  bool trusted_root = false;
  std::string address;
};

bool IsOfThisMachine(const std::string& address) {
  const std::string host = HostOfAddress(address);
  return address.starts_with("unix:") || host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

// Where the new machine is to ask: as the admin says, as this command has reached the server, as the server calls itself.
std::string AddressForToken(const TokenArgs& args, const ClusterClient& client, const MakeTokenReply& reply) {
  if (!args.address.empty()) return args.address;
  for (const std::string& a : client.addresses()) {
    if (!IsOfThisMachine(a)) return a;
  }
  return reply.address.empty() ? client.addresses().front() : reply.address;
}

Result<std::string> TokenText(const std::string& address, const MakeTokenReply& reply, const JoinSecret& secret) {
  ASSIGN_OR_RETURN(const std::string with_port, WithPort(address, kDefaultMetaPort));
  JoinToken token;
  token.host = HostOfAddress(with_port);
  if (token.host.starts_with('[') && token.host.ends_with(']')) token.host = token.host.substr(1, token.host.size() - 2);
  const std::string port = PortOfAddress(with_port);
  std::from_chars(port.data(), port.data() + port.size(), token.port);
  const std::optional<Sha256Hash> authority = ParseSha256(reply.authority);
  if (!authority) return Error(FsError::kBadRequest, "the server's answer has no hash of its authority");
  token.authority = *authority;
  token.secret = secret;
  const std::string text = FormatJoinToken(token);
  if (with_port.starts_with("unix:") || !ParseJoinToken(text).ok()) {
    return Error(FsError::kInval, "other machines cannot reach " + Printable(address) + ": say under which address they do, with --address HOST[:PORT]");
  }
  return text;
}

int RunTokenMake(const Context& ctx, const TokenArgs& args) {
  MakeTokenRequest request;
  const Result<int64_t> ttl = ParseDuration(args.ttl);
  if (!ttl.ok()) return ctx.Fail(ttl.error().WithContext("--ttl"));
  request.role = *ParseRole(args.role);  // which is one of those that the option takes
  request.name = args.name;
  request.names = args.names;
  request.uses = args.uses;
  request.networks = args.networks;
  request.ttl_s = *ttl / kSecond;
  request.trusted_root = args.trusted_root;
  // It stays on this machine.
  const JoinSecret secret = NewJoinSecret();
  const JoinVerifier verifier = VerifierOf(secret);
  request.verifier.assign(verifier.begin(), verifier.end());
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  // Before anything is made: what is wrong with an address that is given.
  if (const Result<std::string> good = WithPort(args.address.empty() ? "pc1" : args.address, kDefaultMetaPort); !good.ok()) return ctx.Fail(good.error());
  const auto reply = (*client)->CallTrust<MakeTokenReply>("token", [request](TrustService& trust, OpHeader header) {
    MakeTokenRequest r = request;
    r.header = std::move(header);
    return trust.MakeToken(std::move(r));
  });
  if (!reply.ok()) return ctx.Fail(reply.error());
  const Result<std::string> text = TokenText(AddressForToken(args, **client, *reply), *reply, secret);
  if (!text.ok()) return ctx.Fail(text.error());
  if (ctx.json) {
    Json j = TokenJson(reply->token);
    j["token"] = *text;
    *ctx.out << Dump(j);
    return kExitOk;
  }
  *ctx.out << Printable(*text) << std::endl;
  *ctx.err << "It " << DescribeToken(reply->token, NowS()) << ". Whoever has it can do that: hand it over as you would a password. On that machine:\n"
           << "  stria join -        # and paste it\nEnd it:\n  stria token revoke " << Printable(reply->token.id) << "\n";
  return kExitOk;
}

int RunTokenList(const Context& ctx) {
  const auto reply = List(ctx, "tokens", &TrustService::ListTokens);
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (!ctx.json) {
    *ctx.out << RenderTokens(reply->tokens, NowS());
    return kExitOk;
  }
  Json all = Json::array();
  for (const JoinTokenInfo& t : reply->tokens) all.push_back(TokenJson(t));
  *ctx.out << Dump(all);
  return kExitOk;
}

void AddTokenVerbs(CLI::App& app, Context& ctx) {
  CLI::App* token = app.add_subcommand("token", "Tokens with which machines join the cluster");
  token->require_subcommand(1);

  auto args = std::make_shared<TokenArgs>();
  CLI::App* make = token->add_subcommand("make", "Make one, and print it");
  make->add_option("--role", args->role, "What the machine is to be: data, client (default), admin, monitor, meta (one more metadata server)")
      ->check(CLI::IsMember({"data", "client", "admin", "monitor", "meta"}));
  make->add_option("--name", args->name, "Its name, as n6 (default: it says its own)");
  make->add_option("--names", args->names, "With --uses: the names that they may have, as 'wn*', with * and ?");
  make->add_option("--ttl", args->ttl, "How long it is good, as 1h or 7d (default 1h)");
  make->add_option("--uses", args->uses, "For how many machines (default 1); more: with --names")->check(CLI::Range(1u, kMaxJoinUses));
  make->add_option("--network", args->networks, "From where it can be used, as 10.3.0.0/16; more than one may be given (default: anywhere)");
  make->add_flag("--trusted-root", args->trusted_root, "Root of these clients counts as root, whatever the export squashes");
  make->add_option("--address", args->address, "HOST[:PORT] under which that machine reaches the metadata server");
  AddCommon(make, ctx, "stria token make --role data --name n6 --ttl 1h\n  stria token make --role client --uses 500 --names 'wn*' --network 10.3.0.0/16 --ttl 7d");
  make->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunTokenMake(ctx, *args); }; });

  CLI::App* ls = token->add_subcommand("ls", "List those that were made, without their secrets");
  AddCommon(ls, ctx, "stria token ls");
  ls->callback([&ctx] { ctx.run = [&ctx] { return RunTokenList(ctx); }; });

  auto change = std::make_shared<ChangeArgs>();
  CLI::App* revoke = token->add_subcommand("revoke", "Nobody joins by it any more; those that have stay");
  revoke->add_option("TOKEN", change->what, "Its eight digits, as 'stria token ls' has them")->required();
  AddChangeFlags(revoke, change.get());
  AddCommon(revoke, ctx, "stria token revoke 01ab23cd");
  revoke->callback([&ctx, change] {
    ctx.run = [&ctx, change] {
      return RunChange(ctx, "token", *change, [id = change->what](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.RevokeToken({std::move(header), id, dry_run});
      });
    };
  });
}

// ---- Certificates ---------------------------------------------------------------------------------

// All of them, however many pages that are.
Result<std::vector<CertificateInfo>> AllCertificates(const Context& ctx) {
  ASSIGN_OR_RETURN(const auto client, ctx.Connect());
  std::vector<CertificateInfo> all;
  std::string after;
  do {
    ASSIGN_OR_RETURN(ListCertificatesReply page, client->CallTrust<ListCertificatesReply>("certificates", [after](TrustService& trust, OpHeader header) {
      return trust.ListCertificates({std::move(header), after});
    }));
    for (CertificateInfo& c : page.certificates) all.push_back(std::move(c));
    if (!page.next.empty() && page.next <= after) return Error(FsError::kBadRequest, "the server lists certificates in a circle");
    after = std::move(page.next);
  } while (!after.empty());
  return all;
}

// `which`: a serial number or ROLE/NAME; "" for all.
int RunCertList(const Context& ctx, const std::string& which) {
  Result<std::vector<CertificateInfo>> all = AllCertificates(ctx);
  if (!all.ok()) return ctx.Fail(all.error());
  if (!which.empty()) {
    std::erase_if(*all, [&](const CertificateInfo& c) { return c.serial != which && std::string(RoleName(c.role)) + "/" + c.name != which; });
    if (all->empty()) return ctx.Fail(Error(FsError::kNoEnt, "there is no certificate " + Printable(which) + "; 'stria cert ls' lists them"));
  }
  if (ctx.json) {
    Json out = Json::array();
    for (const CertificateInfo& c : *all) out.push_back(CertificateJson(c));
    *ctx.out << Dump(out);
  } else if (which.empty()) {
    *ctx.out << RenderCertificates(*all, NowS());
  } else {
    for (size_t i = 0; i < all->size(); ++i) *ctx.out << (i > 0 ? "\n" : "") << RenderCertificate((*all)[i], NowS());
  }
  return kExitOk;
}

void AddCertVerbs(CLI::App& app, Context& ctx) {
  CLI::App* cert = app.add_subcommand("cert", "Certificates of the cluster's machines");
  cert->require_subcommand(1);
  CLI::App* ls = cert->add_subcommand("ls", "List those that are not over");
  AddCommon(ls, ctx, "stria cert ls");
  ls->callback([&ctx] { ctx.run = [&ctx] { return RunCertList(ctx, ""); }; });

  auto change = std::make_shared<ChangeArgs>();
  CLI::App* show = cert->add_subcommand("show", "All that is known of one");
  show->add_option("WHICH", change->what, "A serial number, or ROLE/NAME, as data/n6")->required();
  AddCommon(show, ctx, "stria cert show data/n6");
  show->callback([&ctx, change] { ctx.run = [&ctx, change] { return RunCertList(ctx, change->what); }; });

  AddCertRenew(cert, ctx);
  CLI::App* revoke = cert->add_subcommand("revoke", "The machine is not of the cluster any more: its connections are closed, and its key never joins again");
  revoke->add_option("WHICH", change->what, "A serial number, or ROLE/NAME, as client/wn7")->required();
  AddChangeFlags(revoke, change.get());
  AddCommon(revoke, ctx, "stria cert revoke client/wn7 --dry-run");
  revoke->callback([&ctx, change] {
    ctx.run = [&ctx, change] {
      return RunChange(ctx, "certificate", *change, [which = change->what](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.RevokeCertificate({std::move(header), which, dry_run});
      });
    };
  });
}

// ---- The authority --------------------------------------------------------------------------------

int RunAuthority(const Context& ctx, AuthorityVerb verb, const ChangeArgs& args) {
  ChangeArgs how = args;
  if (verb == AuthorityVerb::kShow) how.dry_run = true;
  const Result<ChangeAuthorityReply> reply =
      Change<ChangeAuthorityReply>(ctx, "authority", how, [verb, force = args.force](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.ChangeAuthority({std::move(header), verb, dry_run, force});
      });
  if (reply.code() == FsError::kCancelled && reply.error().message.empty()) return kExitNo;
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    Json j = AuthoritiesJson(*reply);
    j["dry_run"] = args.dry_run;
    *ctx.out << Dump(j);
    return kExitOk;
  }
  *ctx.out << RenderAuthorities(*reply, NowS());
  if (!reply->message.empty()) *ctx.out << (args.dry_run ? "would: " : "") << Printable(reply->message) << "\n";
  return kExitOk;
}

void AddAuthorityVerb(CLI::App* ca, Context& ctx, AuthorityVerb which, const std::string& name, const std::string& help) {
  auto args = std::make_shared<ChangeArgs>();
  CLI::App* verb = ca->add_subcommand(name, help);
  if (which != AuthorityVerb::kShow) AddChangeFlags(verb, args.get());
  if (which == AuthorityVerb::kFinish) verb->add_flag("--force", args->force, "Also while machines have only certificates of the old one; they have to join again");
  AddCommon(verb, ctx, "stria ca " + name + (which == AuthorityVerb::kShow ? "" : " --dry-run"));
  verb->callback([&ctx, args, which] { ctx.run = [&ctx, args, which] { return RunAuthority(ctx, which, *args); }; });
}

void AddAuthorityVerbs(CLI::App& app, Context& ctx) {
  CLI::App* ca = app.add_subcommand("ca", "The cluster's own authority, which signs all certificates");
  ca->require_subcommand(1);
  AddAuthorityVerb(ca, ctx, AuthorityVerb::kShow, "show", "Which authorities are believed, and whose certificates they have signed");
  AddAuthorityVerb(ca, ctx, AuthorityVerb::kRotate, "rotate", "Begin to change it for another: both are believed, the new one signs");
  AddAuthorityVerb(ca, ctx, AuthorityVerb::kFinish, "finish", "The old one is not believed any more");
}

// ---- Exports --------------------------------------------------------------------------------------

int RunExportList(const Context& ctx) {
  const auto reply = List(ctx, "exports", &TrustService::ListExports);
  if (!reply.ok()) return ctx.Fail(reply.error());
  if (ctx.json) {
    *ctx.out << Dump(Json(reply->lines));
    return kExitOk;
  }
  for (const std::string& line : reply->lines) *ctx.out << Printable(line) << "\n";
  if (reply->lines.empty()) *ctx.err << "nothing is exported: no client can mount anything\n";
  return kExitOk;
}

void AddExportVerbs(CLI::App& app, Context& ctx) {
  CLI::App* exports = app.add_subcommand("export", "Which part of the tree which clients may mount, and as whom they count there");
  exports->require_subcommand(1);
  CLI::App* ls = exports->add_subcommand("ls", "List them, the first that fits counts");
  AddCommon(ls, ctx, "stria export ls");
  ls->callback([&ctx] { ctx.run = [&ctx] { return RunExportList(ctx); }; });

  auto args = std::make_shared<ChangeArgs>();
  CLI::App* set = exports->add_subcommand("set", "Add one, or change that of the same path and clients; it counts at once");
  set->add_option("WORDS", args->words, "path=P [clients=GLOB|NETWORK,..] [access=rw|ro] [squash=root|all|none] [uids=A-B,..] [gids=A-B,..]")->required();
  AddChangeFlags(set, args.get());
  AddCommon(set, ctx, "stria export set path=/atlas clients=wn*.example,10.3.0.0/16 access=ro squash=root uids=1000-59999");
  set->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      std::string line;
      for (const std::string& word : args->words) line += (line.empty() ? "" : " ") + word;
      return RunChange(ctx, "export", *args, [line](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.SetExport({std::move(header), line, dry_run});
      });
    };
  });

  CLI::App* remove = exports->add_subcommand("remove", "Remove one; clients that have it mounted by that alone are ended");
  remove->add_option("PATH", args->what, "Its path")->required();
  remove->add_option("--clients", args->clients, "Its clients, as 'stria export ls' has them, if there are several of that path");
  AddChangeFlags(remove, args.get());
  AddCommon(remove, ctx, "stria export remove /atlas --dry-run");
  remove->callback([&ctx, args] {
    ctx.run = [&ctx, args] {
      return RunChange(ctx, "export", *args, [path = args->what, clients = args->clients](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.RemoveExport({std::move(header), path, clients, dry_run});
      });
    };
  });
}

// ---- Clients --------------------------------------------------------------------------------------

int RunClientList(const Context& ctx) {
  const auto reply = List(ctx, "clients", &TrustService::ListClients);
  if (!reply.ok()) return ctx.Fail(reply.error());
  *ctx.out << (ctx.json ? Dump(ClientsJson(reply->clients)) : RenderClients(reply->clients));
  return kExitOk;
}

void AddClientVerbs(CLI::App& app, Context& ctx) {
  CLI::App* client = app.add_subcommand("client", "Who has the filesystem mounted");
  client->require_subcommand(1);
  CLI::App* ls = client->add_subcommand("ls", "List their sessions");
  AddCommon(ls, ctx, "stria client ls");
  ls->callback([&ctx] { ctx.run = [&ctx] { return RunClientList(ctx); }; });

  auto args = std::make_shared<ChangeArgs>();
  auto session = std::make_shared<uint64_t>(0);
  CLI::App* evict = client->add_subcommand("evict", "End a session: what it has not committed is lost. It may open another one, unless its certificate is revoked");
  evict->add_option("SESSION", *session, "Its number, as 'stria client ls' has it")->required();
  AddChangeFlags(evict, args.get());
  AddCommon(evict, ctx, "stria client evict 17 --dry-run");
  evict->callback([&ctx, args, session] {
    ctx.run = [&ctx, args, session] {
      return RunChange(ctx, "client", *args, [s = SessionId(*session)](TrustService& trust, OpHeader header, bool dry_run) {
        return trust.EvictClient({std::move(header), s, dry_run});
      });
    };
  });
}

// ---- Audit ----------------------------------------------------------------------------------------

int RunAudit(const Context& ctx, const std::string& since, uint32_t limit) {
  const Result<int64_t> age = ParseDuration(since);
  if (!age.ok()) return ctx.Fail(age.error().WithContext("--since"));
  const auto client = ctx.Connect();
  if (!client.ok()) return ctx.Fail(client.error());
  const auto reply = (*client)->CallTrust<ReadAuditReply>("audit", [from = NowS() - *age / kSecond, limit](TrustService& trust, OpHeader header) {
    return trust.ReadAudit({std::move(header), from, limit});
  });
  if (!reply.ok()) return ctx.Fail(reply.error());
  *ctx.out << (ctx.json ? Dump(AuditJson(*reply)) : RenderAudit(*reply));
  return kExitOk;
}

void AddAuditVerb(CLI::App& app, Context& ctx) {
  auto since = std::make_shared<std::string>("1d");
  auto limit = std::make_shared<uint32_t>(kMaxAuditLines);
  CLI::App* audit = app.add_subcommand("audit", "What admins did, who was refused, joined, mounted or evicted");
  audit->add_option("--since", *since, "How far back, as 2d or 3h (default 1d)");
  audit->add_option("--limit", *limit, "Only the last so many lines (default and most: 1000)")->check(CLI::Range(1u, static_cast<uint32_t>(kMaxAuditLines)));
  AddCommon(audit, ctx, "stria audit --since 2d --json | jq -r '.lines[] | select(.kind == \"denial\") | .peer'");
  audit->callback([&ctx, since, limit] { ctx.run = [&ctx, since, limit] { return RunAudit(ctx, *since, *limit); }; });
}

}  // namespace

void AddTrustVerbs(CLI::App& app, Context& ctx) {
  AddTokenVerbs(app, ctx);
  AddCertVerbs(app, ctx);
  AddAuthorityVerbs(app, ctx);
  AddExportVerbs(app, ctx);
  AddClientVerbs(app, ctx);
  AddAuditVerb(app, ctx);
}

}  // namespace stria::cli
