// `stria-meta --restore-from`: a metadata store made from its backup, in an empty directory. Reports go to stdout.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/backup_api.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/token.h"
#include "meta/backup/archive_seal.h"

namespace stria {

// For tokens of a restore without the cluster's key: servers that know this one by its certificate need none.
ClusterKey KeyForOnce();

struct RestoreStoreParams {
  std::string data;                // the directory
  std::vector<std::string> from;   // data servers, HOST:PORT
  bool dry_run = false;
  bool unproven = false;           // also take objects of which it is not proven that the metadata server made them; that is said
  const ArchiveSeal* seal = nullptr;  // null: the key is not there; only with `unproven`
  BackupConnector* connector = nullptr;
  const TokenSigner* signer = nullptr;
  std::function<Result<std::unique_ptr<KvStore>>()> open_store;  // makes an empty one in the directory
  Uuid new_store;
};
// The superblock comes last: an interrupted restore is no store.
Task<Result<void>> RestoreStore(RestoreStoreParams params);

}  // namespace stria
