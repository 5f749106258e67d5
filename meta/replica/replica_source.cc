#include "meta/replica/replica_source.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/sabotage.h"
#include "meta/backup/archive.h"

namespace stria {
namespace {

constexpr size_t kScanAtOnce = 128;

size_t BytesOf(const KvEntry& e) { return e.first.size() + e.second.size(); }

}  // namespace

JoinChoice ChooseJoin(const JoinGround& mine, const ReplicaJoinRequest& request, bool believes_fetched, bool in_set) {
  const bool began = !request.history.empty() && IsHistory(request.history);
  // A copy that is under way, or another incarnation's store, has nothing to go on from. Neither has a store all of which may
  // be of a history that has ended: that is told by who asks (`copy`).
  const JoinChoice copy{in_set ? JoinVerdict::kWait : JoinVerdict::kCopy, {}};
  if (request.copy || !began || request.header.incarnation != mine.incarnation) return copy;
  const std::optional<CommonEnd> common = FindCommonEnd(mine.history, mine.last.seq, request.history, request.last.seq);
  // The batches after the common one are to be there.
  if (!common || common->seq.v + 1 < mine.first.v) return copy;
  if (common->seq == request.last.seq && believes_fetched) return {JoinVerdict::kTail, *common};
  return {in_set ? JoinVerdict::kWait : JoinVerdict::kRewind, *common};
}

Result<void> ReplicaSource::CheckTerm(uint64_t term) const {
  if (primary_->deposed() || term != primary_->term()) {
    return Error(FsError::kNotLeader, "this metadata server is not the primary of term " + std::to_string(term));
  }
  return Ok();
}

void ReplicaSource::Hold() {
  std::optional<CommitSeq> from;
  const int64_t now = Executor::Current().NowNs();
  for (auto it = copies_.begin(); it != copies_.end();) {
    if (now - it->second.asked_ns > options_.hold_ns) {
      it = copies_.erase(it);
      continue;
    }
    from = from ? std::min(*from, it->second.from) : it->second.from;
    ++it;
  }
  primary_->store().HoldFrom(from);
}

Result<ReplicaJoinReply> ReplicaSource::Join(const ReplicaJoinRequest& request) {
  RETURN_IF_ERROR(CheckTerm(request.term));
  const ReplicaStore& store = primary_->store();
  const bool believes = request.whole || (request.fetched.seq.v != 0 && store.Has(request.fetched)) ||
                        Sabotaged(Sabotage::kIgnoreFetched);
  const bool in_set = primary_->rule().required(request.member) || primary_->rule().in_sync(request.member);
  const JoinChoice choice =
      ChooseJoin({store.incarnation(), store.last(), store.first(), store.history()}, request, believes, in_set);
  ReplicaJoinReply reply;
  reply.verdict = choice.verdict;
  reply.term = primary_->term();
  reply.incarnation = store.incarnation();
  if (reply.verdict == JoinVerdict::kTail || reply.verdict == JoinVerdict::kRewind) {
    ASSIGN_OR_RETURN(const auto common, store.At(choice.common.seq));
    // If the row before the oldest is gone, its chain is not known, and no Append can say what it follows.
    if (common) reply.common = *common;
    else reply.verdict = in_set ? JoinVerdict::kWait : JoinVerdict::kCopy;
  }
  copies_.erase(request.member);
  if (reply.verdict == JoinVerdict::kCopy) {
    reply.common = store.last();
    reply.history = store.history();
    // With the batch that it begins after: an Append says what that is.
    copies_[request.member] = {reply.common.seq, Executor::Current().NowNs()};
  }
  Hold();
  if (reply.verdict == JoinVerdict::kTail) primary_->Probe(request.member);
  return reply;
}

Result<FetchKeysReply> ReplicaSource::FetchKeys(const FetchKeysRequest& request) {
  RETURN_IF_ERROR(CheckTerm(request.term));
  ReplicaStore& store = primary_->store();
  FetchKeysReply reply;
  reply.at = store.last();
  KvBatch values;
  for (const FetchKey& k : request.keys) {
    if (k.family >= kFamilies) {
      return Error(FsError::kVersion, "family " + std::to_string(k.family) + " is not known to this release");
    }
    ASSIGN_OR_RETURN(std::optional<std::string> value, store.kv().Get(k.family, k.key));
    if (value) values.Put(k.family, k.key, std::move(*value));
    else values.Delete(k.family, k.key);
    ++reply.answered;
    if (values.bytes >= options_.reply_bytes) break;
  }
  reply.payload = BufferChain(Buffer::FromString(EncodeArchivedBatch(reply.at.seq, 0, values)));
  return reply;
}

Result<FetchPageReply> ReplicaSource::FetchPage(const FetchPageRequest& request) {
  RETURN_IF_ERROR(CheckTerm(request.term));
  if (request.family >= kFamilies) return Error(FsError::kBadRequest, "a page of family " + std::to_string(request.family));
  ReplicaStore& store = primary_->store();
  const int64_t now = Executor::Current().NowNs();
  for (auto& [name, copy] : copies_) copy.asked_ns = now;  // who asks is not said; the few that copy are held for together
  KvBatch page;
  size_t family = request.family;
  std::string from = request.from;
  while (family < kFamilies && page.bytes < options_.reply_bytes) {
    ASSIGN_OR_RETURN(auto entries, store.kv().Scan(static_cast<KvFamily>(family), from, "", kScanAtOnce));
    size_t taken = 0;
    while (taken < entries.size() && page.bytes < options_.reply_bytes) {
      KvEntry& e = entries[taken];
      if (page.bytes > 0 && page.bytes + BytesOf(e) > kMaxPayloadBytes / 2) break;
      from = e.first + '\0';
      page.Put(static_cast<KvFamily>(family), std::move(e.first), std::move(e.second));
      ++taken;
    }
    if (taken < entries.size()) break;  // the page is full
    if (taken < kScanAtOnce) {
      ++family;
      from.clear();
    }
  }
  FetchPageReply reply;
  reply.at = store.last();
  reply.end = family == kFamilies;
  reply.next_family = static_cast<uint8_t>(reply.end ? 0 : family);
  reply.next_from = reply.end ? std::string() : from;
  reply.payload = BufferChain(Buffer::FromString(EncodeArchivedBatch(reply.at.seq, 0, page)));
  Hold();
  return reply;
}

}  // namespace stria
