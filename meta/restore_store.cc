#include "meta/restore_store.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <set>
#include <utility>

#include "common/os_random.h"
#include "common/printable.h"
#include "common/quantity.h"
#include "meta/backup/fleet.h"
#include "meta/backup/restore.h"
#include "meta/backup/revive.h"
#include "meta/data_dir.h"

namespace stria {
namespace {

constexpr size_t kMaxShown = 20;

void Say(const std::string& line) {
  std::printf("%s\n", Printable(line).c_str());
  std::fflush(stdout);
}

// "2026-11-22 03:04:05 (12s before now)"
std::string Moment(int64_t wall_ns) {
  const std::time_t s = wall_ns / kSecond;
  std::tm tm = {};
  localtime_r(&s, &tm);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
  const int64_t age_s = std::max<int64_t>(0, Executor::Current().WallNs() / kSecond - s);
  return std::string(text) + " (" + FormatDuration(age_s * kSecond) + " ago)";
}

void SayList(const char* what, const std::vector<std::string>& lines) {
  for (size_t i = 0; i < lines.size() && i < kMaxShown; ++i) Say(std::string(what) + lines[i]);
  if (lines.size() > kMaxShown) Say(std::string(what) + "and " + std::to_string(lines.size() - kMaxShown) + " more");
}

constexpr char kHowUnproven[] =
    "put the copy of trust/ of the lost server back, which has the key: what is encrypted nothing else can read. Of objects that are "
    "not encrypted: look who can have changed the data servers' disks, and say --unproven";

// A restore that is not proven is one of whoever has had a data server's disks: names, owners, rights, exports, revocations.
void SayUnproven(uint64_t objects, const std::string& first) {
  Say("NOT PROVEN: " + std::to_string(objects) + " objects were taken of which nothing shows that this cluster's metadata server has made "
      "them. Whoever could write to a data server's disks can have made up all of it: names and contents of directories, owners and rights, "
      "exports, which machines are revoked. First: " + first);
}

// The result of a restore, if all objects are whole.
Task<Result<void>> SayWhatThereIs(BackupFleet* fleet, const ArchiveSeal* seal, bool unproven) {
  const std::vector<ArchiveName> names = fleet->names();
  std::optional<ArchiveName> checkpoint, newest;
  for (const ArchiveName& n : names) {
    if (n.kind == ArchiveKind::kComplete) checkpoint = std::max(checkpoint.value_or(n), n);
  }
  if (!checkpoint) co_return Error(FsError::kNoEnt, "there is no complete checkpoint of the metadata on these data servers");
  size_t segments = 0;
  for (const ArchiveName& n : names) {
    const bool follows = n.kind == ArchiveKind::kSegment && n.incarnation == checkpoint->incarnation &&
                         n.term == checkpoint->term && n.last > checkpoint->first.v;
    if (!follows) continue;
    ++segments;
    if (!newest || n.last > newest->last) newest = n;
  }
  CO_ASSIGN_OR_RETURN(const std::string bytes, co_await fleet->Get(newest.value_or(*checkpoint), 0));
  CO_ASSIGN_OR_RETURN(const OpenedArchive object, OpenArchive(bytes));
  Say("would: restore cluster " + fleet->cluster().ToString() + " from a checkpoint and " + std::to_string(segments) +
      " segments, the newest of " + Moment(object.head.wall_ns));
  Result<void> proven = Ok();
  if (seal != nullptr) proven = Result<void>(Unseal(object, *seal).error());
  else proven = Error(FsError::kAccess, object.encrypted ? "it is encrypted, and the key is not here" : "the key that would prove it is not here");
  if (proven.ok()) co_return Ok();
  const bool taken = unproven && !object.encrypted;
  Say("NOT PROVEN: the newest object: " + proven.error().message + (taken ? "" : std::string(". It would be passed over: ") + kHowUnproven));
  co_return Ok();
}

}  // namespace

ClusterKey KeyForOnce() {
  ClusterKey key;
  key.id = 1;
  OsRandomBytes(key.secret);
  return key;
}

Task<Result<void>> RestoreStore(RestoreStoreParams p) {
  CO_ASSIGN_OR_RETURN(const DataDirState state, LookAtDataDir(p.data));
  if (state != DataDirState::kEmpty) {
    co_return Error(FsError::kExist, p.data + " has a metadata store already; restore into an empty directory");
  }
  BackupFleet fleet(p.connector, p.signer);
  CO_RETURN_IF_ERROR(co_await fleet.Ask(p.from));
  Say("asked: " + absl::StrJoin(fleet.nodes(), ", "));
  if (p.dry_run) co_return co_await SayWhatThereIs(&fleet, p.seal, p.unproven);

  CO_RETURN_IF_ERROR(PrepareDataDir(p.data));
  CO_ASSIGN_OR_RETURN(std::unique_ptr<KvStore> kv, p.open_store());
  const Result<RestoreResult> done = co_await RestoreArchive(fleet.names(), &fleet, kv.get(), {p.seal, p.unproven});
  if (done.code() == FsError::kNoEnt && !p.unproven) {
    co_return Error(FsError::kNoEnt, done.error().message + ". If that is for want of a proof: " + kHowUnproven);
  }
  CO_ASSIGN_OR_RETURN(const RestoreResult restored, done);
  if (fleet.cluster() && restored.cluster != fleet.cluster()) {
    co_return Error(FsError::kWrongCluster, "the backup is of cluster " + restored.cluster.ToString() + ", the data servers of " +
                                                fleet.cluster().ToString());
  }
  SayList("passed over: ", restored.passed_over);
  if (restored.unproven > 0) SayUnproven(restored.unproven, restored.why_unproven);
  ReviveParams params;
  params.incarnation = std::max(fleet.incarnation(), restored.incarnation) + 1;
  params.store = p.new_store;
  params.wall_ns = Executor::Current().WallNs();
  CO_ASSIGN_OR_RETURN(const ReviveResult revived, co_await ReviveStore(std::move(kv), params));

  Superblock super;
  super.kind = StoreKind::kMetadata;
  super.cluster = restored.cluster;
  super.own = params.store;
  super.incarnation = params.incarnation;
  super.created_s = params.wall_ns / kSecond;
  super.label = "metadata";
  CO_RETURN_IF_ERROR(WriteDataDir(p.data, super));
  Say("restored: cluster " + restored.cluster.ToString() + " as of " + Moment(restored.wall_ns) + ", from a checkpoint of " +
      std::to_string(restored.pages) + " pages and " + std::to_string(restored.batches) + " changes, " +
      FormatSize(restored.bytes) + "; incarnation " + std::to_string(params.incarnation));
  Say("ended: " + std::to_string(revived.sessions) + " clients' sessions; " + std::to_string(revived.stripes) +
      " stripes that were being written and " + std::to_string(revived.rebuilds) + " rebuilds are forgotten");
  SayList("fsck: ", revived.fsck.problems);
  Say("fsck: " + std::to_string(revived.fsck.inodes) + " inodes, " + std::to_string(revived.fsck.stripes) + " stripes: " +
      (revived.fsck.problems.empty() ? "clean" : "start stria-meta, then see  stria fsck --repair --dry-run"));
  Say("kept: shards that are younger than this, for " + std::to_string(kUnknownHoldNs / kSecond / 86400) +
      " days or until  stria meta forget-unknown");
  Say("next: start stria-meta on " + p.data + ", at an address that the data servers and mounts are told");
  co_return Ok();
}

}  // namespace stria
