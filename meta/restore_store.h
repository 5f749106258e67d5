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

namespace stria {

struct RestoreStoreParams {
  std::string data;                // the directory
  std::vector<std::string> from;   // data servers, HOST:PORT
  bool dry_run = false;
  BackupConnector* connector = nullptr;
  const TokenSigner* signer = nullptr;
  std::function<Result<std::unique_ptr<KvStore>>()> open_store;  // makes an empty one in the directory
  Uuid new_store;
};
// The superblock comes last: an interrupted restore is no store.
Task<Result<void>> RestoreStore(RestoreStoreParams params);

}  // namespace stria
