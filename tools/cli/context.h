// The context of every verb: the common options, where to print, and how to reach the cluster.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>

#include "tools/cli/cluster_client.h"
#include "tools/cli/doctor/ways.h"
#include "tools/cli/joining.h"
#include "tools/cli/json.h"
#include "tools/cli/mounts.h"

namespace stria::cli {

// The exit codes of every command (also in `stria --help`).
enum ExitCode : int {
  kExitOk = 0,
  kExitNo = 1,            // degraded; or the cluster refused
  kExitAtRisk = 2,        // some data cannot be read; fsck found problems
  kExitUsage = 64,        // the command line is wrong
  kExitNoInput = 66,      // no such file, node, disk
  kExitUnreachable = 69,  // no answer from the cluster, or none found
  kExitSoftware = 70,     // a program of Stria misbehaved
  kExitNoPermission = 77,
};
int ExitCodeFor(const Error& e);

struct Context {
  // Set by main.
  // With the credentials of `trust`: a directory, or "off"; "": those of the usual place, if it has some that can be read.
  std::function<Result<Reach>(const std::string& trust)> connector;
  AskToJoinCall ask_to_join;
  std::istream* in = nullptr;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  bool out_is_tty = false;
  bool err_is_tty = false;
  std::string cwd;       // without symlinks
  std::string env_meta;  // $STRIA_META
  std::string env_trust;     // $STRIA_TRUST
  std::string admin_socket;  // of a metadata server on this machine, if it is there: the cluster where nothing tells of another
  std::vector<StriaMount> mounts;
  // To the clusters that this machine's settings name: of several none is taken. Unset: there are none.
  std::function<std::vector<doctor::Way>()> own_ways;
  // Attributes of files in mounts.
  std::function<Result<std::string>(const std::string& path, const std::string& name)> ask_mount = AskMount;
  std::function<Result<void>(const std::string& path, const std::string& name, const std::string& value)> tell_mount = TellMount;
  // Shows the changes to be made and asks; null without a terminal (a script means what it says).
  std::function<bool(const std::string& what)> confirm;

  // Options of the command.
  bool json = false;
  std::string meta;   // --meta
  std::string trust;  // --trust
  int timeout_s = 30;

  // The verb that was asked for; gives the exit code.
  std::function<int()> run;

  // The cluster of --meta, $STRIA_META, the mount of `near` (a path without symlinks), the mount that the command runs in, the metadata
  // server of this machine, or its settings; in this order. kUnavailable with the remedy when there is none.
  // With the credentials of --trust, $STRIA_TRUST, the `stria dev` cluster that `near` or the command is in, or the usual place.
  Result<std::unique_ptr<ClusterClient>> Connect(const std::string& near = "") const;
  // True if nobody has named a cluster or credentials on the command line, and this user has none for the mount of `near`: then files
  // there are asked for through the mount.
  bool HasOnlyTheMount(const std::string& near) const;

  std::string CredentialsNear(const std::string& near, const std::vector<std::string>& addresses) const;

  // Prints the sentence (and the JSON object); gives the exit code.
  int Fail(const Error& e) const;
  int Fail(int exit_code, const Error& e) const;
};

// Of /etc/stria/data.toml and /etc/fstab: what only root writes.
std::vector<doctor::Way> WaysOfThisMachine();

// Adds --json, --meta, --timeout and an example to a verb.
void AddCommon(CLI::App* verb, Context& ctx, const std::string& example);

// The calls that several verbs make. The map is InOrder().
Result<StatusReply> GetStatus(ClusterClient& client);
Result<UpkeepReply> CallUpkeep(ClusterClient& client, const UpkeepRequest& request);
// All of them, however many pages that are.
Result<std::vector<AffectedFile>> AskFiles(const Context& ctx, ClusterClient& client, FilesKind kind, const std::vector<TargetId>& targets = {});

// "n3" or "n3:d2" -> id; kNoEnt with the list of those there are.
Result<NodeId> FindNode(const ClusterMap& map, const std::string& name);
Result<TargetId> FindTarget(const ClusterMap& map, const std::string& name);

// One verb family per file.
void AddStatusVerb(CLI::App& app, Context& ctx);
void AddNodeVerbs(CLI::App& app, Context& ctx);  // node, disk
void AddReindex(CLI::App* disk, Context& ctx);
void AddRestore(CLI::App* meta, Context& ctx);
void AddMemberVerbs(CLI::App* meta, Context& ctx);
void AddRebuildVerbs(CLI::App& app, Context& ctx);
// scrub, rebalance, meta, rebuild start, disk can-remove. After AddNodeVerbs and AddRebuildVerbs.
void AddUpkeepVerbs(CLI::App& app, Context& ctx);
void AddFileVerbs(CLI::App& app, Context& ctx);  // where, layout, paths, fsck
void AddTopVerb(CLI::App& app, Context& ctx);
void AddLocalityVerbs(CLI::App& app, Context& ctx);  // stats, run
void AddSplitVerb(CLI::App& app, Context& ctx);
void AddKeyVerbs(CLI::App& app, Context& ctx);
void AddCertRenew(CLI::App* cert, Context& ctx);
void AddTrustVerbs(CLI::App& app, Context& ctx);  // token, cert, ca, export, client, audit
void AddEventVerbs(CLI::App& app, Context& ctx);  // events, watch
void AddJoinVerb(CLI::App& app, Context& ctx);
void AddClusterVerbs(CLI::App& app, Context& ctx);  // cluster init
void AddDoctorVerb(CLI::App& app, Context& ctx);
void AddGatherVerb(CLI::App& app, Context& ctx);
void AddDevVerbs(CLI::App& app, Context& ctx);

// The whole command: parses, runs, gives the exit code.
int RunCommandLine(int argc, const char* const* argv, Context& ctx);

}  // namespace stria::cli
