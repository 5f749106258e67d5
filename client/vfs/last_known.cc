// What a mount still shows when no metadata server answers and its lease has run out: directories as they were
// last seen, and the sizes of the filesystem. Never used while the lease lasts, nor while a server answers.
#include <algorithm>
#include <utility>

#include "client/vfs/vfs.h"

namespace stria {
namespace {
// How long after the end of the lease the servers count as gone.
constexpr int64_t kGoneAfterNs = 5 * kSecond;
constexpr int64_t kLeaseLookNs = 500 * kMillisecond;
// df(1) is for people: it tells what is known rather than wait.
constexpr int64_t kStatFsPatienceNs = 1 * kSecond;
// Some programs ask before each of thousands of operations.
constexpr int64_t kStatFsFreshNs = 100 * kMillisecond;
constexpr size_t kMaxListings = 256;
}  // namespace

// Between sessions and while one is being reclaimed nothing is overdue: then a server was there.
Task<bool> Vfs::ServersGone() {
  while (session_.LeaseLeftNs() > -kGoneAfterNs) {
    co_await Sleep(std::max(session_.LeaseLeftNs() + kGoneAfterNs, kLeaseLookNs));
  }
  co_return true;
}

std::optional<NodeReply> Vfs::LastKnownNode(InodeId ino) const {
  auto it = attrs_.find(ino);
  if (!options_.show_last_known || it == attrs_.end() || it->second.generation != session_.generation()) {
    return std::nullopt;
  }
  NodeReply known;
  known.attr = it->second.attr;
  return known;
}

std::optional<NodeReply> Vfs::LastKnownDirectory(InodeId ino) const {
  std::optional<NodeReply> known = LastKnownNode(ino);
  return known && known->attr.type == FileType::kDirectory ? known : std::nullopt;
}

// Also of what is no directory: the kernel, which may have something mounted there, keeps a name only if it is told what
// that leads to. With attributes that it must ask for it shows nothing of a file.
std::optional<NodeReply> Vfs::LastKnownEntry(InodeId parent, const std::string& name) const {
  const std::optional<InodeId> known = entries_.LastKnown(parent, name);
  if (!known || !*known) return std::nullopt;
  return LastKnownNode(*known);
}

std::optional<ReadDirReply> Vfs::LastKnownListing(InodeId ino, uint64_t cookie) const {
  auto it = listings_.find(ino);
  if (!options_.show_last_known || it == listings_.end()) return std::nullopt;
  ReadDirReply known = it->second;
  std::erase_if(known.entries, [cookie](const DirEntry& e) { return e.cookie <= cookie; });
  return known;
}

// Only whole ones: what one reply holds.
void Vfs::NoteListing(InodeId ino, uint64_t cookie, const ReadDirReply& reply) {
  if (!options_.show_last_known) return;
  listings_.erase(ino);
  if (cookie != 0 || !reply.end) return;
  if (listings_.size() >= kMaxListings) listings_.erase(listings_.begin());
  ReadDirReply& kept = listings_[ino] = reply;
  for (DirEntry& e : kept.entries) e.attr.reset();
}

Task<Result<StatFsReply>> Vfs::FetchStatFs(Caller who) {
  InodeRequest r;
  r.ino = kRootInode;
  auto reply = co_await session_.Call(&MetaService::StatFs, std::move(r), std::move(who));
  if (reply.ok()) {
    last_statfs_ = *reply;
    statfs_at_ns_ = Executor::Current().NowNs();
  }
  co_return reply;
}

Task<Result<StatFsReply>> Vfs::StatFs(Caller who) {
  if (last_statfs_ && Executor::Current().NowNs() - statfs_at_ns_ < kStatFsFreshNs) co_return *last_statfs_;
  if (!options_.show_last_known || !last_statfs_) co_return co_await FetchStatFs(std::move(who));
  auto reply = co_await WithTimeout(kStatFsPatienceNs, FetchStatFs(std::move(who)));
  if (reply && (reply->ok() || !IsRetryable(reply->code()))) co_return std::move(*reply);
  co_return *last_statfs_;
}

}  // namespace stria
