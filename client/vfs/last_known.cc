#include "client/vfs/last_known.h"

#include <algorithm>
#include <utility>

namespace stria {
namespace {
// How long after the end of the lease the servers count as gone.
constexpr int64_t kGoneAfterNs = 5 * kSecond;
constexpr int64_t kLeaseLookNs = 500 * kMillisecond;
constexpr int64_t kStatFsPatienceNs = 1 * kSecond;
// Some programs ask before each of thousands of operations.
constexpr int64_t kStatFsFreshNs = 100 * kMillisecond;
constexpr size_t kMaxListings = 256;
}  // namespace

// Between sessions and while one is being reclaimed nothing is overdue: then a server was there.
Task<bool> LastKnown::ServersGone() {
  while (needs_.lease_left_ns() > -kGoneAfterNs) {
    co_await Sleep(std::max(needs_.lease_left_ns() + kGoneAfterNs, kLeaseLookNs));
  }
  co_return true;
}

std::optional<NodeReply> LastKnown::Node(InodeId ino) const {
  const std::optional<Attr> attr = shows_ ? attrs_.LastKnown(ino, needs_.generation()) : std::nullopt;
  if (!attr) return std::nullopt;
  NodeReply known;
  known.attr = *attr;
  return known;
}

std::optional<NodeReply> LastKnown::Directory(InodeId ino) const {
  std::optional<NodeReply> known = Node(ino);
  return known && known->attr.type == FileType::kDirectory ? known : std::nullopt;
}

std::optional<NodeReply> LastKnown::Entry(InodeId parent, const std::string& name) const {
  const std::optional<InodeId> known = entries_.LastKnown(parent, name);
  if (!known || !*known) return std::nullopt;
  return Node(*known);
}

std::optional<ReadDirReply> LastKnown::Listing(InodeId ino, uint64_t cookie) const {
  auto it = listings_.find(ino);
  if (!shows_ || it == listings_.end()) return std::nullopt;
  ReadDirReply known = it->second;
  std::erase_if(known.entries, [cookie](const DirEntry& e) { return e.cookie <= cookie; });
  return known;
}

// Only whole ones: what one reply holds.
void LastKnown::NoteListing(InodeId ino, uint64_t cookie, const ReadDirReply& reply) {
  if (!shows_ || cookie != 0) return;
  listings_.erase(ino);
  if (!reply.end) return;
  if (listings_.size() >= kMaxListings) listings_.erase(listings_.begin());
  ReadDirReply& kept = listings_[ino] = reply;
  for (DirEntry& e : kept.entries) e.attr.reset();
}

Task<Result<StatFsReply>> LastKnown::FetchStatFs(Caller who) {
  auto reply = co_await needs_.statfs(std::move(who));
  if (reply.ok()) {
    last_statfs_ = *reply;
    statfs_at_ns_ = Executor::Current().NowNs();
  }
  co_return reply;
}

Task<Result<StatFsReply>> LastKnown::StatFs(Caller who) {
  if (last_statfs_ && Executor::Current().NowNs() - statfs_at_ns_ < kStatFsFreshNs) co_return *last_statfs_;
  if (!shows_ || !last_statfs_) co_return co_await FetchStatFs(std::move(who));
  auto reply = co_await WithTimeout(kStatFsPatienceNs, FetchStatFs(std::move(who)));
  if (reply && (reply->ok() || !IsRetryable(reply->code()))) co_return std::move(*reply);
  co_return *last_statfs_;
}

}  // namespace stria
