// stria join: this machine becomes one of a cluster's.
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/joining.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/join_token.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxTokenFileBytes = 4096;
constexpr char kServerUser[] = "stria";          // as whom packages run servers
constexpr char kPendingKey[] = "/joining.pem";   // of who asks, until it has an answer: one that is lost can be asked for again
constexpr char kJoinedBy[] = "/joined-by";       // the token, so that the same command is no harm

struct JoinArgs {
  std::string token;
  std::string token_file;
  std::string name;
  std::string directory;  // "": that of the role in the usual place
  bool again = false;
};

// The first line, without what is around it. No error repeats it.
Result<std::string> FirstLine(std::istream& in, const std::string& where) {
  std::string text(kMaxTokenFileBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return Error(FsError::kInval, "there is no token in " + where);
  return text.substr(begin, text.find_first_of(" \t\r\n", begin) - begin);
}

Result<JoinToken> ReadToken(const Context& ctx, const JoinArgs& args) {
  if (args.token.empty() == args.token_file.empty()) {
    return Error(FsError::kInval, "say one of TOKEN, - (the token comes on standard input) and --token-file");
  }
  std::string text = args.token;
  if (!args.token_file.empty()) {
    std::ifstream file(args.token_file, std::ios::binary);
    if (!file) return ErrnoError(errno, "read " + args.token_file);
    ASSIGN_OR_RETURN(text, FirstLine(file, args.token_file));
  } else if (args.token == "-") {
    if (ctx.in == nullptr) return Error(FsError::kInval, "there is no standard input");
    // One line: a terminal goes on otherwise.
    std::string line;
    std::getline(*ctx.in, line);
    std::istringstream first(line.substr(0, kMaxTokenFileBytes));
    ASSIGN_OR_RETURN(text, FirstLine(first, "standard input"));
  }
  Result<JoinToken> token = ParseJoinToken(text);
  if (!token.ok()) return Error(FsError::kInval, token.error().message);
  return token;
}

bool IsThere(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0;
}

Result<void> MakeDir(const std::string& dir, mode_t mode) {
  if (IsThere(dir)) return Ok();
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(dir).parent_path(), ec);
  if (!ec && mkdir(dir.c_str(), mode) != 0 && errno != EEXIST) ec = std::error_code(errno, std::generic_category());
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  return Ok();
}

// What the directory has already. None: nothing that would be lost.
Result<std::shared_ptr<const Credentials>> LookAt(const std::string& dir, const JoinToken& token) {
  if (!IsThere(dir + "/node.pem")) return std::shared_ptr<const Credentials>();
  Result<std::shared_ptr<const Credentials>> there = CredentialFiles(dir).Load();
  if (!there.ok()) return Error(there.code(), "there are credentials in " + dir + " that are not good (" + there.error().message + "); --again makes others");
  if (!(*there)->bundle.Has(token.authority)) {
    return Error(FsError::kWrongCluster, dir + " has the credentials of " + std::string(RoleName((*there)->identity.role)) + " " + (*there)->identity.name +
                                             " of cluster " + (*there)->identity.cluster.ToString() +
                                             ", and the token is of another, or of an authority that this machine has not heard of: name another directory "
                                             "with --trust");
  }
  return there;
}

// The key with which an answer was asked for before, or another one.
Result<PrivateKey> PendingKey(const std::string& path) {
  const Result<std::string> pem = ReadSecretFile(path);
  if (pem.ok()) {
    if (Result<PrivateKey> key = PrivateKey::FromPem(*pem); key.ok()) return key;
  } else if (pem.code() != FsError::kNoEnt) {
    return pem.error();
  }
  PrivateKey key = PrivateKey::Make();
  RETURN_IF_ERROR(ReplaceFile(path, key.ToPem(), 0600));
  return key;
}

// A data server of packages runs as a user of its own, who replaces them when they are renewed.
Result<void> GiveToServer(const std::string& dir, Role role) {
  if (role != Role::kData || geteuid() != 0) return Ok();
  const passwd* server = getpwnam(kServerUser);
  if (server == nullptr) return Ok();
  const std::string paths[] = {dir, dir + "/node.pem", dir + "/ca.pem"};
  for (const std::string& path : paths) {
    if (lchown(path.c_str(), server->pw_uid, server->pw_gid) != 0) return ErrnoError(errno, "give " + path + " to the user " + kServerUser);
  }
  return Ok();
}

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return IsPeerName(host) ? host : "";
}

Result<Credentials> Ask(const Context& ctx, const JoinToken& token, const PrivateKey& key, const std::string& name) {
  const auto ask = [&](const std::string& as) { return RequestToJoin(ctx.ask_to_join, token, key, as, ctx.timeout_s * kSecond); };
  if (!name.empty()) return ask(name);
  // The token may be for a name of the admin's choice.
  Result<Credentials> own = ask(HostName());
  if (own.code() != FsError::kAccess) return own;
  Result<Credentials> given = ask("");
  return given.ok() ? std::move(given) : std::move(own);
}

std::string WhatNext(const Identity& who, const std::string& dir, const std::string& meta) {
  const std::string trust = dir == std::string(kTrustDirectory) + "/" + std::string(RoleName(who.role)) ? "" : " --trust " + ShellQuoted(dir);
  switch (who.role) {
    case Role::kData: return "stria-data --node-name " + who.name + " --meta " + meta + trust + " --disk /srv/d1,label=d1\n  (or in /etc/stria/data.toml: node_name = \"" +
                             who.name + "\", meta = [\"" + meta + "\"]; then systemctl enable --now stria-data)";
    case Role::kClient: return "stria-mount --meta " + meta + trust + " /mnt";
    default: return "stria status --meta " + meta + trust;
  }
}

int Say(const Context& ctx, const Identity& who, const std::string& dir, const JoinToken& token, bool before) {
  const std::string meta = AddressOf(token);
  const std::string is = std::string(RoleName(who.role)) + " " + who.name;
  if (ctx.json) {
    *ctx.out << Dump({{"role", RoleName(who.role)}, {"name", who.name}, {"cluster", who.cluster.ToString()}, {"directory", dir}, {"joined_before", before}});
    return kExitOk;
  }
  *ctx.out << "this machine is " << is << " of cluster " << who.cluster.ToString() << (before ? " already" : "") << "; its credentials are in "
           << PrintableName(dir) << "\nNext:\n  " << WhatNext(who, dir, meta) << "\n";
  return kExitOk;
}

// Where a machine has joined by this very token; "" if nowhere.
std::string JoinedBy(const std::string& base, const std::string& id) {
  for (const Role role : kAllRoles) {
    const std::string dir = base + "/" + std::string(RoleName(role));
    const Result<std::string> by = ReadPublicFile(dir + kJoinedBy);
    if (by.ok() && *by == id + "\n") return dir;
  }
  return "";
}

// `usual`: where packages look.
Result<void> Save(const std::string& dir, const Credentials& own, const std::string& id, bool usual) {
  RETURN_IF_ERROR(MakeDir(dir, 0700));
  RETURN_IF_ERROR(CredentialFiles::SaveBundle(dir, own.bundle));
  RETURN_IF_ERROR(CredentialFiles::SaveNode(dir, own.key, own.certificate));
  RETURN_IF_ERROR(ReplaceFile(dir + kJoinedBy, id + "\n", 0644));
  return usual ? GiveToServer(dir, own.identity.role) : Ok();
}

int RunJoin(const Context& ctx, const JoinArgs& args) {
  const Result<JoinToken> token = ReadToken(ctx, args);
  if (!token.ok()) return ctx.Fail(token.error());
  if (!args.name.empty() && !IsPeerName(args.name)) {
    return ctx.Fail(Error(FsError::kInval, "'" + Printable(args.name) + "' is no name: it has letters, digits, '.', '-' and '_'"));
  }
  JoinGrant like;
  like.verifier = VerifierOf(token->secret);
  const std::string id = like.Id();
  const std::string base = args.directory.empty() ? kTrustDirectory : args.directory;
  const std::string known = args.directory.empty() ? JoinedBy(base, id) : base;
  if (!known.empty() && !args.again) {
    const auto there = LookAt(known, *token);
    if (!there.ok()) return ctx.Fail(there.error());
    if (*there) return Say(ctx, (*there)->identity, known, *token, true);
  }
  // The directory of all roles is for everybody to look into.
  if (const Result<void> made = MakeDir(base, args.directory.empty() ? 0755 : 0700); !made.ok()) return ctx.Fail(made.error());
  const Result<PrivateKey> key = PendingKey(base + kPendingKey);
  if (!key.ok()) return ctx.Fail(key.error());
  const Result<Credentials> own = Ask(ctx, *token, *key, args.name);
  // Who is refused has nothing to ask for again, and that may be for its key.
  if (own.code() == FsError::kAccess) (void)unlink((base + kPendingKey).c_str());
  if (!own.ok()) return ctx.Fail(own.error());
  const std::string dir = args.directory.empty() ? base + "/" + std::string(RoleName(own->identity.role)) : base;
  if (!args.again) {
    // Of the role that the token turns out to be for. The answer can be had again with the same key.
    if (const auto there = LookAt(dir, *token); !there.ok()) return ctx.Fail(there.error());
  }
  if (const Result<void> saved = Save(dir, *own, id, args.directory.empty()); !saved.ok()) return ctx.Fail(saved.error());
  (void)unlink((base + kPendingKey).c_str());
  return Say(ctx, own->identity, dir, *token, false);
}

}  // namespace

void AddJoinVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<JoinArgs>();
  CLI::App* verb = app.add_subcommand("join", "Make this machine one of a cluster, by a token of 'stria token make'; as root");
  verb->add_option("TOKEN", args->token, "The token, or - to read it from standard input: others may see the words of a command");
  verb->add_option("--token-file", args->token_file, "A file that has the token");
  verb->add_option("--name", args->name, "What this machine is to be called (default: as the token says, or its host name)");
  verb->add_option("--trust", args->directory, "Directory for the credentials (default: /etc/stria/trust/ROLE)");
  verb->add_flag("--again", args->again, "Join anew, with another key, though there are credentials");
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->add_option("--timeout", ctx.timeout_s, "Seconds to wait for an answer (default 30)")->check(CLI::Range(1, 3600));
  verb->footer("Example:\n  stria join -        # and paste the token\n  stria join --token-file /run/stria.token --name n6");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunJoin(ctx, *args); }; });
}

}  // namespace stria::cli
