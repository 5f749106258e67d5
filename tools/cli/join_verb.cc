// stria join: this machine becomes one of a cluster's: it gets credentials, and a data node its settings, disks and service.
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "common/address.h"
#include "common/exec/loop_executor.h"
#include "common/printable.h"
#include "common/sentence.h"
#include "tools/cli/context.h"
#include "tools/cli/dev/process.h"
#include "tools/cli/joining.h"
#include "tools/cli/member_join.h"
#include "tools/cli/setup/data_node.h"
#include "tools/cli/setup/machine.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/join_token.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxTokenFileBytes = 4096;
constexpr char kPendingKey[] = "/joining.pem";   // of who asks, until it has an answer: one that is lost can be asked for again
constexpr int64_t kLookAgainNs = 300 * kMillisecond;
constexpr int kDaemonAnswerS = 5;

struct JoinArgs {
  std::string token;
  std::string token_file;
  std::string name;
  std::string directory;  // "": that of the role in the usual place
  std::string address;  // that others reach a data node at; "": its host's name
  std::vector<std::string> disks;
  bool again = false;
  bool force = false;
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
  const AsOwnerOf owner(dir);
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

Result<Credentials> Ask(const Context& ctx, const JoinToken& token, const PrivateKey& key, const std::string& name, std::string* member) {
  const auto ask = [&](const std::string& as) { return RequestToJoin(ctx.ask_to_join, token, key, as, ctx.timeout_s * kSecond, member); };
  if (!name.empty()) return ask(name);
  // The token may be for a name of the admin's choice.
  Result<Credentials> own = ask(HostName());
  if (own.code() != FsError::kAccess) return own;
  Result<Credentials> given = ask("");
  return given.ok() ? std::move(given) : std::move(own);
}

// ---- What comes next -------------------------------------------------------------------------------

bool IsUsual(const std::string& dir, Role role) { return dir == std::string(kTrustDirectory) + "/" + std::string(RoleName(role)); }

// With credentials in the usual place mounts are made as any others.
std::string MountCommands(const std::string& meta) {
  const std::string usual_port = ":" + std::to_string(kDefaultMetaPort);
  const std::string source = (meta.ends_with(usual_port) ? meta.substr(0, meta.size() - usual_port.size()) : meta) + ":/";
  return "mkdir -p /data && mount -t fuse.stria " + source + " /data\n  or in /etc/fstab:\n  " + source +
         "  /data  fuse.stria  _netdev,nofail,nosuid,nodev,wait=forever,x-systemd.mount-timeout=infinity  0  0";
}

std::string WhatNext(const Identity& who, const std::string& dir, const std::string& meta) {
  const bool usual = IsUsual(dir, who.role);
  const std::string trust = usual ? "" : " --trust " + ShellQuoted(dir);
  switch (who.role) {
    case Role::kData:
      if (usual) return "stria join --disk /srv/d1      # with --disk for each of its disks";
      return "stria-data --node-name " + who.name + " --meta " + meta + trust + " --disk /srv/d1,label=d1";
    case Role::kClient: return usual ? MountCommands(meta) : "stria-mount --meta " + meta + trust + " /mnt";
    default: return "stria status --meta " + meta + trust;
  }
}

struct Joined {
  Identity who;
  std::string dir, meta;
  bool before = false;
};

// A data node's service, and how far it has come.
struct Node {
  DataNodeDone done;
  bool up = false;
};

int Say(const Context& ctx, const Joined& joined, const Node* node) {
  const Identity& who = joined.who;
  const std::string is = std::string(RoleName(who.role)) + " " + who.name;
  if (ctx.json) {
    Json j = {{"role", RoleName(who.role)}, {"name", who.name}, {"cluster", who.cluster.ToString()}, {"directory", joined.dir}, {"joined_before", joined.before}};
    if (node != nullptr) {
      Json disks = Json::array();
      for (const NewDisk& d : node->done.disks) disks.push_back({{"path", d.path}, {"label", d.label}});
      j["disks"] = disks;
      j["changes"] = node->done.changes;
      j["started"] = node->done.started;
      j["start_command"] = node->done.start_command;
      j["up"] = node->up;
    }
    *ctx.out << Dump(j);
    return kExitOk;
  }
  *ctx.out << "this machine is " << is << " of cluster " << who.cluster.ToString() << (joined.before ? " already" : "") << "; its credentials are in "
           << PrintableName(joined.dir) << "\n";
  if (node != nullptr) {
    for (const std::string& change : node->done.changes) *ctx.out << "set: " << Printable(change) << "\n";
    if (!node->done.disks.empty()) {
      if (node->up) *ctx.out << "node " << who.name << " is up, with " << node->done.disks.size() << (node->done.disks.size() == 1 ? " disk" : " disks") << "\n";
      *ctx.out << "Next:\n  " << (node->done.start_command.empty() ? "stria doctor      # is everything right on this machine?" : Printable(node->done.start_command))
               << "\n";
      return kExitOk;
    }
  }
  *ctx.out << "Next:\n  " << PrintableLines(WhatNext(who, joined.dir, joined.meta)) << "\n";
  return kExitOk;
}

// What is missing until the node is up with these disks; "" if nothing is.
std::string MissingOf(const ClusterMap& map, const std::string& name, const std::vector<NewDisk>& disks) {
  for (const NodeInfo& n : map.nodes) {
    if (n.name != name) continue;
    if (n.state != NodeState::kUp) return "it is not up yet";
    for (const NewDisk& d : disks) {
      const auto is_it = [&](const TargetInfo& t) { return t.node == n.id && t.label == d.label && t.state != TargetState::kRemoved; };
      const auto it = std::find_if(map.targets.begin(), map.targets.end(), is_it);
      if (it == map.targets.end()) return "its disk " + d.label + " has not registered";
      if (!it->problem.empty()) return "its disk " + d.label + ": " + Printable(it->problem);
    }
    return "";
  }
  return "it has not registered";
}

// Until the metadata server counts the node as up, with these disks. It is asked with the node's own credentials: this machine may have no others.
Result<void> AwaitUp(const Context& ctx, const Joined& joined, const std::vector<NewDisk>& disks, Machine* machine) {
  Context here = ctx;
  here.meta = joined.meta;
  here.trust = joined.dir;
  here.timeout_s = kDaemonAnswerS;
  std::unique_ptr<ClusterClient> client;
  {
    const AsOwnerOf owner(joined.dir);
    ASSIGN_OR_RETURN(client, here.Connect());
  }
  client->set_progress(nullptr);
  const int64_t end_ns = BoottimeNs() + ctx.timeout_s * kSecond;
  std::string last;
  while (true) {
    const auto map = client->Call<ClusterMap>("cluster map", [](MetaService& meta, OpHeader header) {
      InodeRequest r;
      r.header = std::move(header);
      return meta.GetMap(std::move(r));
    });
    last = map.ok() ? MissingOf(*map, joined.who.name, disks) : SentenceOf(map.error());
    if (last.empty()) return Ok();
    if (BoottimeNs() >= end_ns) break;
    machine->Sleep(kLookAgainNs);
  }
  return Error(FsError::kDeadline, "stria-data was started, and node " + joined.who.name + " is not up within " + std::to_string(ctx.timeout_s) + " s (" + last +
                                       "): journalctl -u stria-data tells why; then give this command again");
}

// What a machine that has joined needs besides its credentials; `disks` are looked at already.
int SetUp(const Context& ctx, const JoinArgs& args, const Joined& joined, const std::vector<NewDisk>& disks) {
  if (joined.who.role != Role::kData || !IsUsual(joined.dir, Role::kData) || geteuid() != 0) {
    if (!disks.empty()) *ctx.err << "stria: --disk counts for data nodes with credentials in the usual place, set up by root; nothing was done about disks\n";
    return Say(ctx, joined, nullptr);
  }
  const std::unique_ptr<Machine> machine = ThisMachine();
  DataNodeParams params;
  params.program = FindBinary("stria-data").ok() ? *FindBinary("stria-data") : "";
  params.cluster = joined.who.cluster;
  params.settings = {joined.who.name, joined.meta, args.address, disks};
  Result<DataNodeDone> done = SetUpDataNode(machine.get(), params);
  if (!done.ok()) return ctx.Fail(done.error().WithContext("this machine has joined as data node " + joined.who.name + ", but"));
  Node node{std::move(*done), false};
  if (node.done.started) {
    // As they are called by now.
    std::vector<NewDisk> given;
    for (const NewDisk& d : node.done.disks) {
      if (std::any_of(disks.begin(), disks.end(), [&](const NewDisk& g) { return g.path == d.path; })) given.push_back(d);
    }
    if (const Result<void> up = AwaitUp(ctx, joined, given, machine.get()); !up.ok()) return ctx.Fail(up.error());
    node.up = true;
  }
  return Say(ctx, joined, &node);
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

// A data node that has joined gets more disks without a token: its settings tell where the metadata server is.
Result<Joined> JoinedNode() {
  const std::string dir = std::string(kTrustDirectory) + "/" + std::string(RoleName(Role::kData));
  const AsOwnerOf owner(dir);
  const Result<std::shared_ptr<const Credentials>> there = CredentialFiles(dir).Load();
  const Result<std::string> text = ThisMachine()->ReadFile(kDataSettingsFile);
  if (!there.ok() || !text.ok()) return Error(FsError::kInval, "this machine is no data node yet: give the token, as  stria join - --disk PATH");
  ASSIGN_OR_RETURN(const DataSettings settings, ReadDataSettings(*text, kDataSettingsFile));
  if (settings.meta.empty()) return Error(FsError::kInval, std::string(kDataSettingsFile) + " does not say where the metadata server is: give the token again");
  ASSIGN_OR_RETURN(const std::vector<std::string> metas, WithPorts(settings.meta, kDefaultMetaPort));
  return Joined{(*there)->identity, dir, metas.front(), true};
}

// Before the token is used up for nothing.
Result<std::vector<NewDisk>> LookAtDisks(const JoinArgs& args) {
  if (args.disks.empty()) return std::vector<NewDisk>();
  const std::unique_ptr<Machine> machine = ThisMachine();
  RETURN_IF_ERROR(CheckCanSetUp(machine.get(), "stria-data"));
  return CheckNewDisks(machine.get(), args.disks, args.force);
}

int RunJoin(const Context& ctx, const JoinArgs& args) {
  if (args.token.empty() && args.token_file.empty() && !args.disks.empty() && args.directory.empty() && !args.again) {
    Result<std::vector<NewDisk>> disks = LookAtDisks(args);
    if (!disks.ok()) return ctx.Fail(disks.error());
    const Result<Joined> joined = JoinedNode();
    return joined.ok() ? SetUp(ctx, args, *joined, *disks) : ctx.Fail(joined.error());
  }
  const Result<JoinToken> token = ReadToken(ctx, args);
  if (!token.ok()) return ctx.Fail(token.error());
  if (!args.name.empty() && !IsPeerName(args.name)) {
    return ctx.Fail(Error(FsError::kInval, "'" + Printable(args.name) + "' is no name: it has letters, digits, '.', '-' and '_'"));
  }
  JoinGrant like;
  like.verifier = VerifierOf(token->secret);
  const std::string id = like.Id();
  Result<std::vector<NewDisk>> disks = LookAtDisks(args);
  if (!disks.ok()) return ctx.Fail(disks.error());
  if (!args.address.empty()) {
    const Result<std::string> whole = WithPort(args.address, kDefaultDataPort);
    if (!whole.ok()) return ctx.Fail(whole.error().WithContext("--address"));
    if (!IsHostPort(*whole)) return ctx.Fail(Error(FsError::kInval, "--address: name this machine as others know it, HOST[:PORT]"));
  }
  if (!args.again && args.directory.empty()) {
    if (const std::optional<int> done = JoinedAsMeta(ctx, id)) return *done;
  }
  const std::string meta = AddressOf(*token);
  const std::string base = args.directory.empty() ? kTrustDirectory : args.directory;
  const std::string known = args.directory.empty() ? JoinedBy(base, id) : base;
  if (!known.empty() && !args.again) {
    const auto there = LookAt(known, *token);
    if (!there.ok()) return ctx.Fail(there.error());
    if (*there) return SetUp(ctx, args, {(*there)->identity, known, meta, true}, *disks);
  }
  // The directory of all roles is for everybody to look into.
  if (const Result<void> made = MakeDir(base, args.directory.empty() ? 0755 : 0700); !made.ok()) return ctx.Fail(made.error());
  const Result<PrivateKey> key = PendingKey(base + kPendingKey);
  if (!key.ok()) return ctx.Fail(key.error());
  std::string member;
  const Result<Credentials> own = Ask(ctx, *token, *key, args.name, &member);
  // Who is refused has nothing to ask for again, and that may be for its key.
  if (own.code() == FsError::kAccess) (void)unlink((base + kPendingKey).c_str());
  if (!own.ok()) return ctx.Fail(own.error());
  if (own->identity.role == Role::kMeta) {
    const int code = JoinAsMeta(ctx, {&*own, member, args.address, id});
    if (code == kExitOk) (void)unlink((base + kPendingKey).c_str());
    return code;
  }
  const std::string dir = args.directory.empty() ? base + "/" + std::string(RoleName(own->identity.role)) : base;
  if (!args.again) {
    // Of the role that the token turns out to be for. The answer can be had again with the same key.
    if (const auto there = LookAt(dir, *token); !there.ok()) return ctx.Fail(there.error());
  }
  if (const Result<void> saved = Save(dir, *own, id, args.directory.empty()); !saved.ok()) return ctx.Fail(saved.error());
  (void)unlink((base + kPendingKey).c_str());
  return SetUp(ctx, args, {own->identity, dir, meta, false}, *disks);
}

}  // namespace

void AddJoinVerb(CLI::App& app, Context& ctx) {
  auto args = std::make_shared<JoinArgs>();
  CLI::App* verb = app.add_subcommand("join", "Make this machine one of a cluster, by a token of 'stria token make'; as root");
  verb->add_option("TOKEN", args->token, "The token, or - to read it from standard input: others may see the words of a command");
  verb->add_option("--token-file", args->token_file, "A file that has the token");
  verb->add_option("--name", args->name, "What this machine is to be called (default: as the token says, or its host name)");
  verb->add_option("--trust", args->directory, "Directory for the credentials (default: /etc/stria/trust/ROLE)");
  verb->add_option("--disk", args->disks, "A data node's: the directory of a disk, PATH[,label=L][,channel=C]; once for each")->allow_extra_args(false);
  verb->add_option("--address", args->address, "A data node's or metadata server's: HOST[:PORT] by which others reach this machine (default: its name)");
  verb->add_flag("--force", args->force, "Also take a disk that is in the system's own filesystem");
  verb->add_flag("--again", args->again, "Join anew, with another key, though there are credentials");
  verb->add_flag("--json", ctx.json, "Print JSON");
  verb->add_option("--timeout", ctx.timeout_s, "Seconds to wait for an answer, and for the node to be up (default 30)")->check(CLI::Range(1, 3600));
  verb->footer("Example:\n  stria join -        # and paste the token\n  stria join --token-file /run/stria.token --name n6 --disk /srv/d1 --disk /srv/d2");
  verb->callback([&ctx, args] { ctx.run = [&ctx, args] { return RunJoin(ctx, *args); }; });
}

}  // namespace stria::cli
