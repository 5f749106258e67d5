// Both ends of api/backup_api.h on a transport. As stubs.h says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/backup_api.h"
#include "proto/stubs.h"
#include "proto/transport.h"

namespace stria {

inline constexpr char kBackupServiceName[] = "stria.v1.Backup";

#define STRIA_BACKUP_METHODS(X)                                    \
  X(PutBackup, PutBackupRequest, PutBackupReply)                   \
  X(ListBackups, ListBackupsRequest, ListBackupsReply)             \
  X(GetBackup, GetBackupRequest, GetBackupReply)                   \
  X(DeleteBackups, DeleteBackupsRequest, DeleteBackupsReply)

class BackupStub final : public BackupService {
 public:
  explicit BackupStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_BACKUP_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

using BackupDispatcher = ServiceDispatcher<BackupService>;
extern template class ServiceDispatcher<BackupService>;

class TransportBackupConnector final : public BackupConnector {
 public:
  explicit TransportBackupConnector(TransportFactory* factory) : factory_(factory) {}
  std::shared_ptr<BackupService> ConnectBackup(const std::string& address) override {
    std::shared_ptr<BackupService>& stub = stubs_[address];
    if (!stub) stub = std::make_shared<BackupStub>(factory_->Make(address));
    return stub;
  }

 private:
  TransportFactory* factory_;
  std::map<std::string, std::shared_ptr<BackupService>> stubs_;  // of the cluster's nodes
};

}  // namespace stria
