#include "tools/cli/setup/meta_member.h"

#include <set>
#include <utility>

#include "common/printable.h"
#include "common/superblock.h"
#include "common/units.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

// Stays in the start: it is about an empty directory only.
constexpr char kStays[] = "--join";

std::string CommandOf(const MemberParams& params, const std::string& flag) { return params.program + " --config " + params.settings_file + " " + flag; }

std::string UnitText(const MemberParams& params, const std::string& flag) {
  return "# Made by stria: this metadata server is one of several.\n[Service]\nExecStart=\nExecStart=" + CommandOf(params, flag) + "\n";
}

// The settings with [ha]; `text` as it was if that is there.
Result<std::string> WithHa(const std::string& text, const MemberParams& params, MemberDone* done) {
  ASSIGN_OR_RETURN(const MetaSettings now, ReadMetaSettings(text, params.settings_file));
  if (now.trust == "off") {
    return Error(FsError::kConflict, params.settings_file + " says trust = \"off\", so certificates would not be used: take that line out, or set it up by hand");
  }
  const MemberSettings& wanted = params.member;
  if (now.has_ha) {
    if (now.ha_member != wanted.member) {
      return Error(FsError::kConflict, params.settings_file + " is of metadata server " + Printable(now.ha_member) + " ([ha] member), and this is " + wanted.member +
                                           ": change it there, or join under that name");
    }
    if (!wanted.etcd.empty() && now.ha_etcd != wanted.etcd) {
      return Error(FsError::kConflict, params.settings_file + " says ([ha] etcd) " + TomlStrings(now.ha_etcd) + ", and here it is " + TomlStrings(wanted.etcd) +
                                           ": change it there");
    }
    const bool same = now.ha_ca == wanted.ca && now.ha_cert == wanted.cert && now.ha_key == wanted.key;
    if (!wanted.ca.empty() && !same) {
      return Error(FsError::kConflict, params.settings_file + " says other certificates for etcd ([ha] ca, cert, key): change them there");
    }
    return text;
  }
  RETURN_IF_ERROR(CheckEtcd(wanted.etcd));
  const std::string after = WithMember(text, wanted);
  const Result<MetaSettings> then = ReadMetaSettings(after, params.settings_file);
  if (!then.ok() || then->ha_member != wanted.member || then->ha_etcd != wanted.etcd) {
    return Error(FsError::kInval, params.settings_file + " is written in a way that this command cannot change: put a table [ha] into it, with  member = " +
                                      TomlString(wanted.member) + ", etcd = " + TomlStrings(wanted.etcd));
  }
  done->changes.push_back("[ha] member = " + TomlString(wanted.member) + ", etcd = " + TomlStrings(wanted.etcd));
  return after;
}

Result<void> Systemctl(Machine* machine, const std::vector<std::string>& words) {
  std::vector<std::string> argv = {"systemctl"};
  argv.insert(argv.end(), words.begin(), words.end());
  ASSIGN_OR_RETURN(const Ran ran, machine->Run(argv));
  if (ran.status == 0) return Ok();
  const std::string said = ran.output.substr(0, ran.output.find('\n'));
  return Error(FsError::kIo, "systemctl " + words.front() + " failed" + (said.empty() ? "" : ": " + Printable(said)) + "; systemctl status " + kMetaService + " tells more");
}

// Counts from the next start on.
Result<void> UseUnit(Machine* machine, const std::string& text) {
  const Result<std::string> now = machine->ReadFile(kMemberUnit);
  if (now.ok() && *now == text) return Ok();
  RETURN_IF_ERROR(machine->WriteFile(kMemberUnit, text));
  return Systemctl(machine, {"daemon-reload"});
}

}  // namespace

Result<void> CheckEtcd(const std::vector<std::string>& etcd) {
  const size_t members = std::set<std::string>(etcd.begin(), etcd.end()).size();
  if (members != etcd.size()) return Error(FsError::kInval, "a member of etcd is named twice: name each once");
  if (members == 2) {
    return Error(FsError::kInval, "two members of etcd are worse than one metadata server alone: if either PC is lost the other may decide nothing. Add a third "
                                  "voter, an etcd on any third PC, NAS or Raspberry Pi (no stria-meta is needed there)");
  }
  if (members < 3) return Error(FsError::kInval, "name three members of etcd on three PCs, so that one of them may be lost: HOST[:PORT],HOST[:PORT],HOST[:PORT]");
  return Ok();
}

Result<void> CheckIsFree(Machine* machine, const MetaPaths& paths, const std::string& authority) {
  const auto taken = [](const std::string& what) { return Error(FsError::kNotEmpty, what); };
  const Result<PathFacts> store = machine->Look(paths.data + "/" + std::string(kSuperblockFile));
  if (store.ok()) {
    return taken(paths.data + " has a metadata store already, and a metadata server joins with an empty directory: move it away, or name another one in " +
                 kMetaSettingsFile + " (data = ..)");
  }
  if (store.code() != FsError::kNoEnt) return store.error();
  const Result<std::string> there = machine->ReadFile(paths.trust + kAuthorityFile);
  if (!there.ok() && there.code() != FsError::kNoEnt) return there.error();
  if (there.ok() && *there != authority) return taken(paths.trust + " has an authority already, which is another than that of the token's cluster: move it away");
  // It would be taken for the one that the cluster changes to.
  const Result<PathFacts> next = machine->Look(paths.trust + kNextAuthorityFile);
  if (next.ok()) return taken(paths.trust + kNextAuthorityFile + " is left of a metadata server that was here before: move it away");
  return next.code() == FsError::kNoEnt ? Ok() : Result<void>(next.error());
}

Result<MemberDone> SetUpMember(Machine* machine, const MemberParams& params, const std::function<bool()>& answers) {
  RETURN_IF_ERROR(CheckCanSetUp(machine, kMetaService));
  const Result<std::string> text = machine->ReadFile(params.settings_file);
  if (!text.ok() && text.code() != FsError::kNoEnt) return text.error();
  const std::string before = text.ok() ? *text : "";
  MemberDone done;
  ASSIGN_OR_RETURN(const std::string after, WithHa(before, params, &done));
  if (after != before) RETURN_IF_ERROR(machine->WriteFile(params.settings_file, after));
  if (!machine->HasSystemd()) {
    done.start_command = "runuser -u " + std::string(kServerUser) + " -- " + CommandOf(params, params.flag);
    return done;
  }
  const Result<std::string> unit = machine->ReadFile(kMemberUnit);
  if (unit.ok() && *unit == UnitText(params, kStays) && after == before && answers()) {
    done.started = true;
    return done;
  }
  RETURN_IF_ERROR(UseUnit(machine, UnitText(params, params.flag)));
  RETURN_IF_ERROR(Systemctl(machine, {"enable", "--quiet", kMetaService}));
  // Where etcd does not answer yet it waits, and so does not say that it has started.
  RETURN_IF_ERROR(Systemctl(machine, {"restart", "--no-block", kMetaService}));
  for (int64_t waited = 0; waited <= params.timeout_ns; waited += kMetaPollNs) {
    machine->Sleep(kMetaPollNs);
    if (!answers()) continue;
    done.started = true;
    // If etcd loses everything one day, no start is to found the members anew by itself: another one may have more.
    RETURN_IF_ERROR(UseUnit(machine, UnitText(params, kStays)));
    return done;
  }
  return Error(FsError::kDeadline, "stria-meta was started, and does not answer yet: does etcd run on more than half of its PCs? journalctl -u stria-meta tells "
                                   "more; then give this command again");
}

}  // namespace stria::cli
