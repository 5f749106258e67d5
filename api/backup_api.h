// Objects of the metadata's backup, which data servers keep for the metadata server: small files beside the
// shards, with names. Implemented by server/ and by proto/ (a client stub over a transport).
//
// Each request carries a token for shard 0 and target 0 with the right kTokenAdmin (common/token.h), which takes the cluster
// key to make. Put and Delete need the incarnation that the data server knows, and no lower term than it has heard of
// (kNotLeader), so that an old copy of the metadata can neither replace nor remove objects of the newer one. List and Get also serve a restore, which knows neither cluster nor incarnation
// (both 0 in the header: any).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/data_api.h"
#include "common/exec/task.h"

namespace stria {

inline constexpr size_t kMaxBackupBytes = kMaxPayloadBytes;  // of an object
inline constexpr size_t kMaxBackupNameBytes = 128;
inline constexpr uint32_t kMaxBackupPage = 10'000;  // names of one reply, or of one Delete

// Letters, digits and '-'; no directory, no dots.
inline bool IsBackupName(std::string_view name) {
  if (name.empty() || name.size() > kMaxBackupNameBytes) return false;
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) return false;
  }
  return true;
}

struct PutBackupRequest {
  DataHeader header;
  std::string token;
  std::string name;
  BufferChain payload;  // the object; 1 .. kMaxBackupBytes
};
// Durable: content and name. An object of that name is replaced.
struct PutBackupReply {};

struct ListBackupsRequest {
  DataHeader header;
  std::string token;
  std::string after;  // exclusive
  uint32_t limit = kMaxBackupPage;
};
struct ListBackupsReply {
  Uuid cluster;              // of the data server; 0: it has never been in one
  uint64_t incarnation = 0;  // that it knows
  std::string node;          // its name
  std::vector<std::string> names;  // in order
  bool more = false;
};

struct GetBackupRequest {
  DataHeader header;
  std::string token;
  std::string name;
};
// kNoEnt: it has none of that name. The bytes are as the disk gives them: objects carry their own hash.
struct GetBackupReply {
  BufferChain payload;
};

struct DeleteBackupsRequest {
  DataHeader header;
  std::string token;
  std::vector<std::string> names;  // those that are not there are fine
};
// They may be there again after a power cut.
struct DeleteBackupsReply {};

class BackupService {
 public:
  virtual ~BackupService() = default;
  virtual Task<Result<PutBackupReply>> PutBackup(PutBackupRequest request) = 0;
  virtual Task<Result<ListBackupsReply>> ListBackups(ListBackupsRequest request) = 0;
  virtual Task<Result<GetBackupReply>> GetBackup(GetBackupRequest request) = 0;
  virtual Task<Result<DeleteBackupsReply>> DeleteBackups(DeleteBackupsRequest request) = 0;
};

// As DataConnector.
class BackupConnector {
 public:
  virtual ~BackupConnector() = default;
  virtual std::shared_ptr<BackupService> ConnectBackup(const std::string& address) = 0;
};

}  // namespace stria
