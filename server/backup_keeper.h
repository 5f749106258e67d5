// Keeps objects of the metadata's backup on the node's disks (api/backup_api.h): files backup/NAME, beside the shards and apart
// from them, so that they can be read without an index, and without a metadata server. A new object goes to the disk with most
// free space. On full disks it uses the repair reserve: deleting needs the backup (meta/backup/archiver.h). For the executor's
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/backup_api.h"
#include "common/io/disk.h"
#include "server/data_server.h"
#include "server/token_gate.h"

namespace stria {

inline constexpr uint64_t kBackupReserveBytes = 2 * kMiB;  // always left free on a disk
inline constexpr int64_t kMaxBackupCalls = 16;              // being carried out; more are kRetryLater

struct BackupDisk {
  Disk* disk = nullptr;
  bool writable = false;
  uint64_t free_bytes = 0;  // net of the repair reserve
};

class BackupKeeper final : public BackupService {
 public:
  // All outlive the keeper. `server`: cluster, incarnation, and lives of the metadata server. `disks`: the node's usable ones now.
  BackupKeeper(const TokenGate* gate, DataServer* server, std::string node,
               std::function<std::vector<BackupDisk>()> disks);

  Task<Result<PutBackupReply>> PutBackup(PutBackupRequest request) override;
  Task<Result<ListBackupsReply>> ListBackups(ListBackupsRequest request) override;
  Task<Result<GetBackupReply>> GetBackup(GetBackupRequest request) override;
  Task<Result<DeleteBackupsReply>> DeleteBackups(DeleteBackupsRequest request) override;

 private:
  Result<SemaphoreHold> Admit(const DataHeader& header, const std::string& token, bool changes);
  Task<Result<void>> PutOn(BackupDisk disk, std::string name, Buffer bytes);
  Task<Result<PutBackupReply>> DoPut(PutBackupRequest request, SemaphoreHold held);
  Task<Result<DeleteBackupsReply>> DoDelete(DeleteBackupsRequest request, SemaphoreHold held);
  Task<Result<std::vector<std::string>>> Names();

  const TokenGate* const tokens_;
  DataServer* const server_;
  const std::string node_;
  const std::function<std::vector<BackupDisk>()> disks_;
  Semaphore calls_;
  TaskScope scope_;  // last
};

}  // namespace stria
