// The data servers that keep a backup, as a restore sees them: asked by address, without any metadata. All of
// them must answer: one that does not may have the newest objects, or have seen a newer incarnation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/backup_api.h"
#include "common/token.h"
#include "meta/backup/restore.h"

namespace stria {

class BackupFleet final : public ArchiveSource {
 public:
  // Both outlive the fleet.
  BackupFleet(BackupConnector* connector, const TokenSigner* signer) : connector_(connector), signer_(signer) {}

  // Call once. Errors: the servers that do not answer; kWrongCluster: they belong to different clusters; kNoEnt: none has a
  // backup.
  Task<Result<void>> Ask(std::vector<std::string> addresses);

  const Uuid& cluster() const { return cluster_; }
  uint64_t incarnation() const { return incarnation_; }  // newest that one of them, or an object, is of
  std::vector<ArchiveName> names() const;
  const std::vector<std::string>& nodes() const { return nodes_; }  // their names, in the order of the addresses

  Task<Result<std::string>> Get(ArchiveName name, size_t copy) override;

 private:
  Task<Result<void>> AskOne(std::string address);
  std::string Token() const;

  BackupConnector* const connector_;
  const TokenSigner* const signer_;
  Uuid cluster_;
  uint64_t incarnation_ = 0;
  std::vector<std::string> nodes_;
  std::map<ArchiveName, std::vector<std::string>> where_;  // addresses
};

}  // namespace stria
