#include "test/sim/work.h"

#include "test/sim/world.h"

namespace stria {

SimCluster& SimWork::cluster() { return world_->cluster_; }
size_t SimWork::clients() { return world_->options_.cluster.clients; }
int64_t SimWork::NowNs() { return cluster().executor().NowNs(); }
bool SimWork::stopping() { return world_->stopping(); }
bool SimWork::faults_over() { return world_->faults_over_; }
void SimWork::Fail(const std::string& what) { world_->Fail(what); }
void SimWork::Trace(const std::string& what) { world_->Trace(what); }
void SimWork::Count(const std::string& what, uint64_t n) { world_->counts_[what] += n; }
void SimWork::After(int64_t ns, std::function<void()> fn) { world_->After(ns, std::move(fn)); }
void SimWork::Strike() { world_->Strike(); }
void SimWork::StrikeClient(size_t client) { world_->StrikeClient(client); }

SimWork::Who SimWork::Me(size_t client) {
  MetaSession& s = cluster().client(client).session();
  return {client, s.generation(), s.id(), s.era()};
}

bool SimWork::Lives(const Who& who) {
  if (!cluster().client_up(who.client) || world_->evicted_.contains(who.session) || world_->revoked_.contains(who.client)) return false;
  MetaSession& s = cluster().client(who.client).session();
  return s.id() == who.session && s.generation() == who.generation && s.era() == who.era && s.LeaseLeftNs() > 0;
}

bool SimWork::Keeps(const Who& who) {
  return Lives(who) && cluster().meta_up() && cluster().meta_server()->sessions().Exists(who.session);
}

void SimWork::Spawn(size_t client, Task<void> actor) {
  ++world_->actors_;
  cluster().scope(client).Spawn(Run(std::move(actor)));
}

Task<void> SimWork::Run(Task<void> actor) {
  co_await std::move(actor);
  --world_->actors_;
}

// What a file of this length had at one moment for each of the pieces.
Task<Result<std::string>> SimWork::ReadAll(size_t client, VfsHandlePtr h) {
  constexpr uint64_t kPiece = 512 * kKiB;
  std::string content;
  while (true) {
    CO_ASSIGN_OR_RETURN(const BufferChain part, co_await vfs(client).Read(Caller(), h, content.size(), kPiece));
    content += std::string(part.Flatten().view());
    if (part.size() < kPiece) co_return content;
  }
}

VfsHandle SimWork::Flags(bool write, bool append) {
  VfsHandle h;
  h.read = true;
  h.write = write;
  h.append = append;
  return h;
}

bool SimWork::Unknown(FsError e) {
  switch (e) {
    case FsError::kTimedOut:
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kFenced:
    case FsError::kCancelled:
    case FsError::kIo:
      return true;
    default:
      return false;
  }
}

}  // namespace stria
