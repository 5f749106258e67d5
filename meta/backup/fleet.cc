#include "meta/backup/fleet.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/sentence.h"

namespace stria {
namespace {

constexpr int64_t kCallNs = 30 * kSecond;
// A restore does not hear the clock by which data servers judge tokens.
constexpr int64_t kTokenS = 30 * 24 * 3600;
constexpr int kTries = 5;
constexpr int64_t kRetryNs = 1 * kSecond;

DataHeader Header() {
  DataHeader h;
  h.timeout_ns = kCallNs;
  return h;
}

}  // namespace

std::string BackupFleet::Token() const {
  const int64_t now_s = Executor::Current().WallNs() / kSecond;
  return EncodeToken(signer_->Sign(ShardId(), TargetId(), kTokenAdmin, now_s + kTokenS));
}

Task<Result<void>> BackupFleet::AskOne(std::string address) {
  const std::shared_ptr<BackupService> service = connector_->ConnectBackup(address);
  ListBackupsRequest request{Header(), Token(), "", kMaxBackupPage};
  int tries = 0;
  for (bool more = true, first = true; more;) {
    Result<ListBackupsReply> reply = co_await service->ListBackups(request);
    if (!reply.ok() && IsRetryable(reply.code()) && ++tries < kTries) {
      co_await Sleep(kRetryNs);
      continue;
    }
    if (!reply.ok()) {
      co_return Error(reply.code(), "data server " + address + " does not answer (" + reply.error().message +
                                        "); start it, or leave it out if it is gone");
    }
    if (reply->cluster && cluster_ && reply->cluster != cluster_) {
      co_return Error(FsError::kWrongCluster, "data server " + address + " belongs to cluster " + reply->cluster.ToString() +
                                                  ", another one to " + cluster_.ToString());
    }
    if (reply->cluster) cluster_ = reply->cluster;
    incarnation_ = std::max(incarnation_, reply->incarnation);
    if (std::exchange(first, false)) nodes_.push_back(reply->node);
    for (const std::string& text : reply->names) {
      const std::optional<ArchiveName> name = ParseArchiveName(text);
      if (!name) continue;
      incarnation_ = std::max(incarnation_, name->incarnation);
      where_[*name].push_back(address);
    }
    more = reply->more && !reply->names.empty();
    if (more) request.after = reply->names.back();
  }
  co_return Ok();
}

Task<Result<void>> BackupFleet::Ask(std::vector<std::string> addresses) {
  for (const std::string& address : addresses) CO_RETURN_IF_ERROR(co_await AskOne(address));
  if (where_.empty()) co_return Error(FsError::kNoEnt, "none of these data servers has a backup of the metadata; give them all");
  co_return Ok();
}

std::vector<ArchiveName> BackupFleet::names() const {
  std::vector<ArchiveName> out;
  for (const auto& [name, _] : where_) out.push_back(name);
  return out;
}

Task<Result<std::string>> BackupFleet::Get(ArchiveName name, size_t copy) {
  const auto it = where_.find(name);
  if (it == where_.end() || copy >= it->second.size()) co_return Error(FsError::kNoEnt, "there is no other copy of it");
  const std::string address = it->second[copy];
  const std::shared_ptr<BackupService> service = connector_->ConnectBackup(address);
  Result<GetBackupReply> reply = Error(FsError::kUnavailable);
  for (int tries = 0; tries < kTries; ++tries) {
    if (tries > 0) co_await Sleep(kRetryNs);
    reply = co_await service->GetBackup({Header(), Token(), name.ToString()});
    if (reply.ok() || !IsRetryable(reply.code())) break;
  }
  if (!reply.ok()) {
    // kNoEnt would say that there are no more copies.
    co_return Error(FsError::kIo, address + ": " + SentenceOf(reply.error()));
  }
  co_return std::string(reply->payload.Flatten().view());
}

}  // namespace stria
