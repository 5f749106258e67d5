#include "tools/cli/setup/init_cluster.h"

#include "common/address.h"
#include "common/printable.h"
#include "common/superblock.h"
#include "common/units.h"
#include "tools/cli/setup/settings_edit.h"

namespace stria::cli {
namespace {

// Writes what is not said yet; gives the settings as they are then.
Result<MetaSettings> Settings(Machine* machine, const InitParams& params, bool is_there, InitDone* done) {
  Result<std::string> text = machine->ReadFile(params.settings_file);
  if (!text.ok() && text.code() != FsError::kNoEnt) return text.error();
  std::string now = text.ok() ? *text : "";
  ASSIGN_OR_RETURN(const MetaSettings before, ReadMetaSettings(now, params.settings_file));
  const auto differs = [&](const char* key, const std::string& was) {
    return Error(FsError::kConflict, params.settings_file + " says " + key + " = " + TomlString(was) + ", and this command something else: change it there");
  };
  const std::string wanted = params.address.empty() ? machine->HostName() : params.address;
  if (before.address.empty()) {
    now = WithKey(now, "address", TomlString(wanted));
    done->changes.push_back("address = " + TomlString(wanted));
  } else if (!params.address.empty() && before.address != params.address) {
    return differs("address", before.address);
  }
  if (!params.layout.empty() && params.layout != before.layout) {
    if (!before.layout.empty()) return differs("layout", before.layout);
    if (is_there) {
      return Error(FsError::kConflict, "the cluster is there, with a layout of its own: mount it, and change that with  stria layout set DIRECTORY " +
                                           params.layout);
    }
    now = WithKey(now, "layout", TomlString(params.layout));
    done->changes.push_back("layout = " + TomlString(params.layout));
  }
  ASSIGN_OR_RETURN(const MetaSettings after, ReadMetaSettings(now, params.settings_file));
  if (!done->changes.empty()) RETURN_IF_ERROR(machine->WriteFile(params.settings_file, now));
  return after;
}

// kNoEnt: there is none.
Result<Uuid> ClusterOf(Machine* machine, const std::string& data) {
  const Result<std::string> block = machine->ReadFile(data + "/" + std::string(kSuperblockFile));
  if (!block.ok()) return block.error();
  ASSIGN_OR_RETURN(const Superblock super, DecodeSuperblock(*block, data));
  if (super.kind != StoreKind::kMetadata) return Error(FsError::kInval, data + " is a data disk: name another directory in the settings (data = ..)");
  return super.cluster;
}

Result<void> Format(Machine* machine, const InitParams& params, const MetaPaths& paths) {
  RETURN_IF_ERROR(machine->MakeServerDir(paths.data));
  // As the user that serves it, so that all files are that one's.
  ASSIGN_OR_RETURN(const Ran ran, machine->Run({"runuser", "-u", kServerUser, "--", params.program, "--config", params.settings_file, "--format-only"}));
  if (ran.status == 0) return Ok();
  std::string last = ran.output;
  while (!last.empty() && last.back() == '\n') last.pop_back();
  last = last.substr(last.rfind('\n') + 1);
  return Error(FsError::kIo, "the metadata store in " + paths.data + " could not be made: " + (last.empty() ? "stria-meta failed" : Printable(last)));
}

std::string StartCommand(const InitParams& params) {
  return "runuser -u " + std::string(kServerUser) + " -- " + params.program + " --config " + params.settings_file;
}

Result<void> Serve(Machine* machine, const InitParams& params, const MetaPaths& paths, const AskCluster& ask, InitDone* done) {
  const Result<Uuid> now = ask(paths.socket);
  if (now.ok() && *now != done->cluster) {
    return Error(FsError::kWrongCluster, "a metadata server of cluster " + now->ToString() + " serves on this machine: stop it first");
  }
  if (!machine->HasSystemd()) {
    done->serves = now.ok();
    if (!now.ok()) done->start_command = StartCommand(params);
    return Ok();
  }
  RETURN_IF_ERROR(StartService(machine, kMetaService, now.ok() && !done->changes.empty() ? IfRunning::kRestart : IfRunning::kLeave));
  Result<Uuid> got = ask(paths.socket);
  for (int64_t waited = 0; !got.ok() && waited < params.timeout_ns; waited += kMetaPollNs) {
    machine->Sleep(kMetaPollNs);
    got = ask(paths.socket);
  }
  if (!got.ok()) {
    return Error(FsError::kDeadline, "stria-meta was started, and does not serve yet: journalctl -u stria-meta tells why; then give this command again");
  }
  done->serves = true;
  return Ok();
}

}  // namespace

Result<InitDone> InitCluster(Machine* machine, const InitParams& params, const AskCluster& ask) {
  RETURN_IF_ERROR(CheckCanSetUp(machine, "stria-meta"));
  InitDone done;
  const Result<std::string> text = machine->ReadFile(params.settings_file);
  ASSIGN_OR_RETURN(const MetaSettings was, ReadMetaSettings(text.ok() ? *text : "", params.settings_file));
  const MetaPaths paths = PathsOf(was);
  if (was.trust == "off") {
    return Error(FsError::kAccess, params.settings_file + " says trust = \"off\": everybody would be let in, and no machine needs a token. Take that line out, "
                                                          "or set the cluster up by hand");
  }
  Result<Uuid> cluster = ClusterOf(machine, paths.data);
  if (!cluster.ok() && cluster.code() != FsError::kNoEnt) return cluster.error();
  ASSIGN_OR_RETURN(const MetaSettings settings, Settings(machine, params, cluster.ok(), &done));
  if (!cluster.ok()) {
    RETURN_IF_ERROR(Format(machine, params, paths));
    done.made = true;
    cluster = ClusterOf(machine, paths.data);
    if (!cluster.ok()) return cluster.error();
  }
  if (!machine->Look(paths.trust + "/authority.pem").ok()) {
    return Error(FsError::kAccess, "the cluster in " + paths.data + " is insecure: it has no authority in " + paths.trust + ". Stop it, run once  " +
                                       StartCommand(params) + " --make-trust  (docs/security.md), and give this command again");
  }
  done.cluster = *cluster;
  done.data = paths.data;
  const std::string listen = settings.listen.empty() ? "0.0.0.0" : settings.listen;
  ASSIGN_OR_RETURN(const std::string bound, WithPort(listen, kDefaultMetaPort));
  const std::string port = PortOfAddress(bound);
  const bool usual = port == std::to_string(kDefaultMetaPort);
  const std::string host = settings.address;
  done.address = usual || !WithPort(host, 0).ok() || *WithPort(host, 0) == host ? host : host + ":" + port;
  if (params.start) RETURN_IF_ERROR(Serve(machine, params, paths, ask, &done));
  return done;
}

std::string RenderInit(const InitDone& done) {
  std::string out;
  for (const std::string& change : done.changes) out += "set: " + Printable(change) + "\n";
  out += "cluster " + done.cluster.ToString() + (done.made ? " is made" : " is there already") + ", in " + PrintableName(done.data) +
         (done.serves ? "; its metadata server serves at " + Printable(done.address) : "") + "\n";
  if (done.made) out += "Keep a copy of " + PrintableName(done.data) + "/trust where only admins get at it: who has it is the cluster.\n";
  if (!done.start_command.empty()) out += "systemd does not run here. Start the server with:\n  " + Printable(done.start_command) + "\n";
  out += "Next, for each PC with disks (this one, too):\n"
         "  stria token make --role data                   # here: prints a token, good for one PC and an hour\n"
         "  stria join - --disk /srv/d1 --disk /srv/d2     # there, as root: paste the token\n"
         "and for each PC that only mounts:\n"
         "  stria token make --role client                 # here\n"
         "  stria join -                                   # there, as root\n"
         "Then  stria doctor  on each of them, and  stria status.\n";
  return out;
}

Json InitJson(const InitDone& done) {
  return {{"cluster", done.cluster.ToString()}, {"address", done.address},           {"data", done.data}, {"made", done.made},
          {"serves", done.serves},              {"start_command", done.start_command}, {"changes", done.changes}};
}

}  // namespace stria::cli
