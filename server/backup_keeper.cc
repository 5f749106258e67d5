#include "server/backup_keeper.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/sabotage.h"
#include "server/detach.h"

namespace stria {
namespace {

constexpr std::string_view kFolder = "backup";

std::string FileOf(const std::string& name) { return std::string(kFolder) + "/" + name; }

Result<void> CheckName(const std::string& name) {
  if (IsBackupName(name)) return Ok();
  return Error(FsError::kBadRequest, "'" + name + "' is no name of a backup object");
}

}  // namespace

BackupKeeper::BackupKeeper(const TokenGate* gate, DataServer* server, std::string node,
                           std::function<std::vector<BackupDisk>()> disks)
    : tokens_(gate), server_(server), node_(std::move(node)), disks_(std::move(disks)), calls_(kMaxBackupCalls) {}

Result<SemaphoreHold> BackupKeeper::Admit(const DataHeader& header, const std::string& token, bool changes) {
  RETURN_IF_ERROR(CheckProtocol(header));
  // The metadata server needs no token where it has proved that it is that.
  if (!header.peer || header.peer->role != Role::kMeta) {
    RETURN_IF_ERROR(tokens_->Check(token, {.right = kTokenAdmin}, header.peer.get(), server_->TokenTimeS()));
  }
  const Uuid& own = server_->cluster();
  if ((changes || header.cluster) && header.cluster != own) {
    if (!own) return Error(FsError::kNotReady, "this data server is not registered yet");
    return Error(FsError::kWrongCluster, "this data server belongs to cluster " + own.ToString());
  }
  if (changes && header.incarnation > server_->incarnation()) {
    return Error(FsError::kRetryLater, "this data server has not heard of the new incarnation yet");
  }
  if (changes && header.incarnation < server_->incarnation()) {
    return Error(FsError::kWrongCluster, "the metadata was restored from a backup: this is an old copy of it");
  }
  // Within an incarnation, too: an old copy of the metadata would delete the objects of the later life. Who comes here has proved to
  // be a metadata server.
  if (changes && header.seen_term != 0) {
    HeardTerms& terms = server_->terms();
    if (header.seen_term < terms.known().term && !Sabotaged(Sabotage::kIgnoreTerms)) {
      return Error(FsError::kNotLeader, "life " + std::to_string(terms.known().term) + " of the metadata server has been heard of: life " +
                                            std::to_string(header.seen_term) + " serves an old copy");
    }
    // What others say they have heard is not known to be true: the metadata server is asked.
    if (header.seen_term < terms.Highest() && !Sabotaged(Sabotage::kIgnoreTerms)) {
      return Error(FsError::kRetryLater, "the metadata server has not been asked yet about life " + std::to_string(terms.Highest()) +
                                             ", which others have heard of");
    }
    terms.Learn({header.seen_term, header.seen_proof});
  }
  if (!calls_.TryAcquire(1)) return Error(FsError::kRetryLater, "this data server has too much to do");
  return SemaphoreHold(&calls_, 1);
}

// Objects of all disks, in order, each once. A disk that cannot be listed has no objects that could be read.
Task<Result<std::vector<std::string>>> BackupKeeper::Names() {
  std::set<std::string> names;
  for (const BackupDisk& d : disks_()) {
    const Result<std::vector<DiskFile>> files = co_await d.disk->List(std::string(kFolder));
    if (!files.ok()) continue;
    for (const DiskFile& f : *files) {
      std::string name = f.name.substr(kFolder.size() + 1);
      if (IsBackupName(name)) names.insert(std::move(name));
    }
  }
  co_return std::vector<std::string>(names.begin(), names.end());
}

Task<Result<PutBackupReply>> BackupKeeper::PutBackup(PutBackupRequest request) {
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, Admit(request.header, request.token, true));
  CO_RETURN_IF_ERROR(CheckName(request.name));
  if (request.payload.empty() || request.payload.size() > kMaxBackupBytes) {
    co_return Error(FsError::kBadRequest, "a backup object of " + std::to_string(request.payload.size()) + " bytes");
  }
  co_return co_await RunIn(scope_, DoPut(std::move(request), std::move(held)));
}

Task<Result<PutBackupReply>> BackupKeeper::DoPut(PutBackupRequest request, SemaphoreHold held) {
  std::vector<BackupDisk> disks = disks_();
  std::erase_if(disks, [](const BackupDisk& d) { return !d.writable; });
  std::ranges::stable_sort(disks, [](const BackupDisk& a, const BackupDisk& b) { return a.free_bytes > b.free_bytes; });
  Error last(FsError::kNoSpace, "no disk of " + node_ + " can be written");
  const Buffer bytes = request.payload.Flatten();
  for (const BackupDisk& d : disks) {
    const Result<void> done = co_await PutOn(d, FileOf(request.name), bytes);
    if (done.ok()) co_return PutBackupReply();
    last = done.error();
  }
  co_return last;
}

Task<Result<void>> BackupKeeper::PutOn(BackupDisk disk, std::string name, Buffer bytes) {
  CO_ASSIGN_OR_RETURN(const DiskSpace space, co_await disk.disk->Space());
  if (space.free_bytes < kBackupReserveBytes + bytes.size()) {
    co_return Error(FsError::kNoSpace, "a disk of " + node_ + " has no room for the metadata's backup");
  }
  co_return co_await disk.disk->ReplaceFile(std::move(name), std::move(bytes));
}

Task<Result<ListBackupsReply>> BackupKeeper::ListBackups(ListBackupsRequest request) {
  CO_ASSIGN_OR_RETURN(const SemaphoreHold held, Admit(request.header, request.token, false));
  ListBackupsReply reply;
  reply.cluster = server_->cluster();
  reply.incarnation = server_->incarnation();
  reply.node = node_;
  CO_ASSIGN_OR_RETURN(const std::vector<std::string> names, co_await Names());
  const size_t limit = std::clamp<uint32_t>(request.limit, 1, kMaxBackupPage);
  for (auto it = std::upper_bound(names.begin(), names.end(), request.after); it != names.end(); ++it) {
    reply.more = reply.names.size() == limit;
    if (reply.more) break;
    reply.names.push_back(*it);
  }
  co_return std::move(reply);
}

Task<Result<GetBackupReply>> BackupKeeper::GetBackup(GetBackupRequest request) {
  CO_ASSIGN_OR_RETURN(const SemaphoreHold held, Admit(request.header, request.token, false));
  CO_RETURN_IF_ERROR(CheckName(request.name));
  Error last(FsError::kNoEnt, node_ + " has no backup object " + request.name);
  for (const BackupDisk& d : disks_()) {
    Result<Buffer> bytes = co_await d.disk->Read(FileOf(request.name), 0, kMaxBackupBytes);
    if (!bytes.ok()) {
      if (bytes.code() != FsError::kNoEnt) last = bytes.error();
      continue;
    }
    GetBackupReply reply;
    reply.payload.Append(*std::move(bytes));
    co_return std::move(reply);
  }
  co_return last;
}

Task<Result<DeleteBackupsReply>> BackupKeeper::DeleteBackups(DeleteBackupsRequest request) {
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, Admit(request.header, request.token, true));
  if (request.names.size() > kMaxBackupPage) co_return Error(FsError::kBadRequest, "too many names in one request");
  for (const std::string& name : request.names) CO_RETURN_IF_ERROR(CheckName(name));
  co_return co_await RunIn(scope_, DoDelete(std::move(request), std::move(held)));
}

Task<Result<DeleteBackupsReply>> BackupKeeper::DoDelete(DeleteBackupsRequest request, SemaphoreHold held) {
  for (const BackupDisk& d : disks_()) {
    if (!d.writable) continue;
    for (const std::string& name : request.names) {
      const Result<void> done = co_await d.disk->Remove(FileOf(name));
      if (!done.ok() && done.code() != FsError::kNoEnt) co_return done.error();
    }
  }
  co_return DeleteBackupsReply();
}

}  // namespace stria
