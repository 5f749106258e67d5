#include "tools/cli/setup/data_node.h"

#include <map>

#include "common/printable.h"
#include "common/superblock.h"

namespace stria::cli {
namespace {

constexpr char kDataService[] = "stria-data";
// What the unit keeps the server away from (ProtectHome, ProtectSystem, PrivateTmp).
constexpr const char* kHidden[] = {"/home", "/root", "/run/user", "/usr", "/boot", "/efi", "/etc", "/tmp", "/var/tmp", "/dev", "/proc", "/sys"};

bool IsHidden(const std::string& path) {
  for (const std::string top : kHidden) {
    if (path == top || path.starts_with(top + "/")) return true;
  }
  return path == "/";
}

// Its superblock, if it has one, is of this cluster; without one nothing else is there.
Result<void> CheckOwner(Machine* machine, const std::string& path, const Uuid& cluster) {
  const std::string file = path + "/" + std::string(kSuperblockFile);
  const std::string where = "disk " + Printable(path);
  const Result<std::string> block = machine->ReadFile(file);
  if (block.code() == FsError::kNoEnt) {
    ASSIGN_OR_RETURN(const PathFacts facts, machine->Look(path));
    if (facts.empty) return Ok();
    return Error(FsError::kNotEmpty, where + " has files that are not Stria's: name an empty directory, or move them away");
  }
  if (!block.ok()) return block.error();
  ASSIGN_OR_RETURN(const Superblock super, DecodeSuperblock(*block, where));
  const Result<void> right = CheckSuperblock(super, StoreKind::kDataDisk, super.cluster ? cluster : super.cluster, where);
  if (right.code() == FsError::kWrongCluster) {
    return Error(FsError::kWrongCluster, right.error().message + ": it is not touched. If nobody needs what is on it, empty the directory first");
  }
  if (!right.ok()) return right;
  ASSIGN_OR_RETURN(const PathFacts facts, machine->Look(file));
  if (facts.of_server) return Ok();
  return Error(FsError::kAccess, where + " was used by another user than " + kServerUser + ": run  chown -R " + kServerUser + ":" + kServerUser + " " +
                                     ShellQuoted(path) + "  and give this command again");
}

}  // namespace

Result<std::vector<NewDisk>> CheckNewDisks(Machine* machine, const std::vector<std::string>& disks, bool force) {
  std::vector<NewDisk> out;
  std::map<uint64_t, std::string> on;  // filesystems
  for (const std::string& text : disks) {
    ASSIGN_OR_RETURN(NewDisk disk, ParseNewDisk(text));
    const std::string where = "disk " + Printable(disk.path);
    const Result<std::string> whole = machine->WholePath(disk.path);
    if (whole.code() == FsError::kNoEnt) {
      return Error(FsError::kNoEnt, where + " is not there: make a filesystem on the disk, mount it there (docs/operations.md has the line of /etc/fstab), "
                                            "and give this command again");
    }
    if (!whole.ok()) return whole.error();
    disk.path = *whole;
    ASSIGN_OR_RETURN(const PathFacts facts, machine->Look(disk.path));
    if (!facts.is_dir) return Error(FsError::kNotDir, where + " is no directory: name the directory where the disk's filesystem is mounted");
    if (IsHidden(disk.path)) {
      return Error(FsError::kInval, where + ": the service stria-data cannot reach " + Printable(disk.path) + ", which its unit keeps it away from; mount the disk "
                                                                                                               "elsewhere, as on /srv/d1");
    }
    if (facts.on_root && !force) {
      return Error(FsError::kInval, where + " is in the filesystem of the system itself (/), which would fill up: is the disk mounted? --force takes it anyhow");
    }
    const auto [it, is_new] = on.emplace(facts.device, disk.path);
    if (!is_new && !facts.on_root && !force) {
      return Error(FsError::kInval, where + " is in the same filesystem as " + Printable(it->second) + ": they would fail together. Name one of them; --force takes both");
    }
    out.push_back(std::move(disk));
  }
  return out;
}

Result<DataNodeDone> SetUpDataNode(Machine* machine, const DataNodeParams& params) {
  RETURN_IF_ERROR(CheckCanSetUp(machine, "stria-data"));
  const Result<std::string> text = machine->ReadFile(params.settings_file);
  if (!text.ok() && text.code() != FsError::kNoEnt) return text.error();
  ASSIGN_OR_RETURN(const DataSettings before, ReadDataSettings(text.ok() ? *text : "", params.settings_file));
  ASSIGN_OR_RETURN(EditedSettings edited, EditDataSettings(text.ok() ? *text : "", params.settings_file, params.settings));
  for (const NewDisk& disk : params.settings.disks) RETURN_IF_ERROR(CheckOwner(machine, disk.path, params.cluster));
  for (const NewDisk& disk : params.settings.disks) RETURN_IF_ERROR(machine->GiveToServer(disk.path));
  if (!edited.changes.empty()) RETURN_IF_ERROR(machine->WriteFile(params.settings_file, edited.text));
  DataNodeDone done;
  done.changes = std::move(edited.changes);
  done.disks = std::move(edited.disks);
  if (done.disks.empty()) return done;
  if (params.program.empty()) return Error(FsError::kNoEnt, "there is no stria-data on this machine: install the package stria-data, and give this command again");
  if (machine->HasSystemd()) {
    // New disks are used by a server that runs; other settings count from a start on.
    const bool only_disks = !before.disks.empty() && done.changes.size() == done.disks.size() - before.disks.size();
    const IfRunning changed = only_disks ? IfRunning::kReload : IfRunning::kRestart;
    RETURN_IF_ERROR(StartService(machine, kDataService, done.changes.empty() ? IfRunning::kLeave : changed));
    done.started = true;
  } else {
    done.start_command = "runuser -u " + std::string(kServerUser) + " -- " + params.program + " --config " + params.settings_file;
  }
  return done;
}

}  // namespace stria::cli
