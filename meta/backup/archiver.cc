#include "meta/backup/archiver.h"

#include <algorithm>
#include <utility>

#include "common/exec/passed.h"
#include "common/log.h"
#include "common/sentence.h"
#include "meta/backup/restore.h"

namespace stria {
namespace {

constexpr int64_t kLookNs = 1 * kSecond;  // whether something is due
constexpr size_t kDeletesPerCall = 1000;

}  // namespace

Archiver::Archiver(ArchiverEnv env, ArchiverOptions options)
    : env_(std::move(env)), options_(options), tape_(options.tape_bytes), incomplete_since_ns_(Now()) {}

void Archiver::Add(CommitSeq seq, const KvBatch& batch) {
  const bool recorded = tape_.recording();
  const std::optional<int64_t> oldest_ns = tape_.oldest_ns();
  tape_.Add(seq, Now(), Wall(), batch);
  if (tape_.bytes() >= kMaxSegmentBytes) wake_.Set();
  if (!recorded || tape_.recording()) return;
  LogWarning("the metadata's backup is too far behind; it begins again with a checkpoint");
  if (complete_) incomplete_since_ns_ = oldest_ns.value_or(Now());
  complete_ = false;
}

Task<void> Archiver::Run() {
  LogEvery limit(60 * kSecond);
  while (true) {
    const Result<bool> more = co_await Step();
    if (!more.ok()) {
      problem_ = SentenceOf(more.error());
      if (auto others = limit.Pass(Now())) LogWarning("the metadata's backup: {}{}", problem_, *others);
      progress_.Pulse();
      co_await Sleep(options_.retry_ns);
      continue;
    }
    problem_.clear();
    if (*more) {
      co_await Yield();
    } else {
      co_await WithTimeout(kLookNs, Passed(&wake_));
      wake_.Reset();
    }
  }
}

// True if there may be more to do at once.
Task<Result<bool>> Archiver::Step() {
  if (!ChoosePlaces()) co_return Error(FsError::kUnavailable, "there is no data server that could keep it");
  if (!tape_.recording()) {
    tape_.Begin(env_.store->last_seq());
    segment_.reset();
    BeginCheckpoint();
  }
  if (!walk_ && CheckpointDue()) BeginCheckpoint();
  CO_ASSIGN_OR_RETURN(const bool sent, co_await SendSegment());
  if (sent) co_return true;
  co_return co_await StepCheckpoint();
}

// ---- Places ---------------------------------------------------------------------------------------

// False if there is none. One that is new needs a checkpoint of its own.
bool Archiver::ChoosePlaces() {
  std::vector<BackupNode> nodes = env_.nodes();
  std::ranges::stable_sort(nodes, [](const BackupNode& a, const BackupNode& b) { return a.free_bytes > b.free_bytes; });
  const auto is_up = [&](NodeId id) { return std::ranges::any_of(nodes, [&](const BackupNode& n) { return n.id == id; }); };
  const auto is_place = [&](NodeId id) { return std::ranges::count(places_, id) > 0; };
  const auto failing_for = [&](NodeId id) {
    const auto it = failing_.find(id);
    return it == failing_.end() ? -1 : Now() - it->second;
  };
  std::vector<NodeId> next;
  for (const NodeId id : places_) {
    if (env_.removed && env_.removed(id)) continue;  // it would not be missed while there is nothing to send
    if (failing_for(id) < options_.give_up_ns) next.push_back(id);
  }
  // A place that is back, or that was passed over for long, is as good as any other.
  std::erase_if(failing_, [&](const auto& f) {
    return !is_place(f.first) && (!is_up(f.first) || Now() - f.second >= options_.shun_ns);
  });
  for (const bool shunned : {false, true}) {
    if (shunned && !next.empty()) break;
    for (const BackupNode& n : nodes) {
      if (next.size() >= options_.copies || std::ranges::count(next, n.id) > 0) continue;
      if (shunned || failing_for(n.id) < 0) next.push_back(n.id);
    }
  }
  bool grown = false;
  for (const NodeId id : next) {
    if (is_place(id)) continue;
    grown = true;
    failing_.erase(id);
  }
  places_ = std::move(next);
  if (places_.empty() || grown) SetIncomplete();
  if (grown && tape_.recording()) BeginCheckpoint();
  return !places_.empty();
}

void Archiver::SetIncomplete() {
  if (!complete_) return;
  incomplete_since_ns_ = tape_.oldest_ns().value_or(Now());
  complete_ = false;
}

DataHeader Archiver::Header() const {
  DataHeader h;
  h.cluster = env_.store->super()->cluster;
  h.incarnation = env_.store->super()->incarnation;
  h.timeout_ns = options_.call_timeout_ns;
  h.seen_term = env_.said.term;
  h.seen_proof = env_.said.proof;
  return h;
}

Archiver::Outgoing Archiver::Make(ArchiveKind kind, CommitSeq first, uint64_t walk, uint64_t last,
                                  const std::string& body) const {
  ArchiveHead head;
  head.cluster = env_.store->super()->cluster;
  head.name.incarnation = env_.store->super()->incarnation;
  head.name.term = env_.said.term;
  head.name.kind = kind;
  head.name.first = first;
  head.name.walk = walk;
  head.name.last = last;
  head.wall_ns = Wall();
  return {head.name, Buffer::FromString(EncodeArchive(head, body, *env_.seal, options_.encrypt)), {}};
}

Task<Result<void>> Archiver::PutOn(NodeId node, const Outgoing* o) {
  std::string address;
  for (const BackupNode& n : env_.nodes()) {
    if (n.id == node) address = n.address;
  }
  if (address.empty()) co_return Error(FsError::kUnavailable, "a node that keeps it is not up");
  PutBackupRequest request{Header(), env_.token(), o->name.ToString(), BufferChain(o->bytes)};
  const std::shared_ptr<BackupService> service = env_.connector->ConnectBackup(address);
  const Result<PutBackupReply> done = co_await service->PutBackup(std::move(request));
  if (!done.ok()) co_return done.error().WithContext(address);
  co_return Ok();
}

// On all places; those that have it already are not asked again.
Task<Result<void>> Archiver::Store(Outgoing* o) {
  std::vector<NodeId> asked;
  std::vector<Task<Result<void>>> puts;
  for (const NodeId id : places_) {
    if (o->stored.contains(id)) continue;
    asked.push_back(id);
    puts.push_back(PutOn(id, o));
  }
  const std::vector<Result<void>> results = co_await WhenAll(std::move(puts));
  Result<void> out = Ok();
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      o->stored.insert(asked[i]);
      failing_.erase(asked[i]);
    } else {
      failing_.try_emplace(asked[i], Now());
      out = results[i];
    }
  }
  co_return out;
}

// ---- Segments -------------------------------------------------------------------------------------

bool Archiver::SegmentDue() const {
  const std::optional<int64_t> oldest_ns = tape_.oldest_ns();
  if (!oldest_ns) return false;
  const bool garbage = env_.store->Count(Counter::kGarbageShards) > 0;
  const int64_t age_ns = garbage ? std::min(options_.garbage_segment_ns, options_.segment_ns) : options_.segment_ns;
  return tape_.bytes() >= kMaxSegmentBytes || Now() - *oldest_ns >= age_ns || tape_.after() < wanted_ ||
         (until_ && tape_.after() < *until_);
}

Task<Result<bool>> Archiver::SendSegment() {
  if (!segment_) {
    if (!SegmentDue()) co_return false;
    if (env_.store->durable_seq() <= tape_.after()) CO_RETURN_IF_ERROR(co_await env_.store->Sync());
    const auto cut = tape_.CutAt(env_.store->durable_seq(), kMaxSegmentBytes);
    if (!cut) co_return false;
    segment_ = Make(ArchiveKind::kSegment, cut->first, 0, cut->last.v, cut->body);
  }
  CO_RETURN_IF_ERROR(co_await Store(&*segment_));
  tape_.Drop(CommitSeq(segment_->name.last));
  ++segments_since_;
  bytes_since_ += segment_->bytes.size();
  segment_.reset();
  NoteArchived();
  co_return true;
}

void Archiver::NoteArchived() {
  if (complete_ && tape_.recording()) archived_ = std::max(archived_, tape_.after());
  progress_.Pulse();
}

// ---- Checkpoints ----------------------------------------------------------------------------------

bool Archiver::CheckpointDue() const {
  return !complete_ || segments_since_ >= options_.max_segments || Now() - checkpoint_ns_ >= options_.checkpoint_ns ||
         bytes_since_ > std::max(options_.min_segment_bytes, checkpoint_bytes_);
}

void Archiver::BeginCheckpoint() {
  walk_.emplace();
  ++walks_;
  begin_ = tape_.after();
  until_.reset();
  page_.reset();
  hashes_.clear();
  walk_bytes_ = 0;
  segments_since_ = 0;
  bytes_since_ = 0;
}

Task<Result<void>> Archiver::WalkPage() {
  while (!walk_->ended() && !walk_->page_full()) {
    CO_RETURN_IF_ERROR(walk_->Step(env_.store->kv()));
    co_await Yield();
  }
  if (walk_->ended()) until_ = env_.store->last_seq();
  if (!walk_->page_empty()) page_ = Make(ArchiveKind::kPage, begin_, walks_, hashes_.size(), walk_->TakePage());
  co_return Ok();
}

Task<Result<bool>> Archiver::StepCheckpoint() {
  if (!walk_) co_return false;
  if (!page_ && !until_) CO_RETURN_IF_ERROR(co_await WalkPage());
  if (page_) {
    CO_RETURN_IF_ERROR(co_await Store(&*page_));
    CO_ASSIGN_OR_RETURN(const OpenedArchive opened, OpenArchive(page_->bytes.view()));
    hashes_.push_back(opened.hash);
    const uint64_t bytes = page_->bytes.size();
    walk_bytes_ += bytes;
    page_.reset();
    co_await Sleep(static_cast<int64_t>(bytes * static_cast<uint64_t>(kSecond) / options_.checkpoint_bytes_per_s));
    co_return true;
  }
  // Changes made during the walk belong to the checkpoint.
  if (tape_.after() < *until_) co_return false;
  CO_RETURN_IF_ERROR(co_await EndCheckpoint());
  co_return true;
}

Task<Result<void>> Archiver::EndCheckpoint() {
  Outgoing end = Make(ArchiveKind::kComplete, begin_, walks_, until_->v, EncodeComplete(hashes_));
  CO_RETURN_IF_ERROR(co_await Store(&end));
  walk_.reset();
  until_.reset();
  checkpoint_bytes_ = walk_bytes_;
  checkpoint_ns_ = Now();
  checkpoint_wall_ns_ = Wall();
  // Otherwise batches are missing: the next step begins anew.
  if (tape_.recording()) complete_ = true;
  NoteArchived();
  LogInfo("a checkpoint of the metadata, {} bytes, is on {} data servers", checkpoint_bytes_, places_.size());
  co_await Clean();
  co_return Ok();
}

Task<Result<std::vector<ArchiveName>>> Archiver::ListOn(std::string address) {
  std::vector<ArchiveName> out;
  ListBackupsRequest request{Header(), env_.token(), "", kMaxBackupPage};
  const std::shared_ptr<BackupService> service = env_.connector->ConnectBackup(address);
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(const ListBackupsReply reply, co_await service->ListBackups(request));
    for (const std::string& name : reply.names) {
      if (const auto parsed = ParseArchiveName(name)) out.push_back(*parsed);
    }
    more = reply.more && !reply.names.empty();
    if (more) request.after = reply.names.back();
  }
  co_return std::move(out);
}

// Places that cannot be reached now are cleaned after a later checkpoint.
Task<void> Archiver::Clean() {
  std::map<std::string, std::vector<ArchiveName>> by_address;
  std::vector<ArchiveName> all;
  for (const BackupNode& n : env_.nodes()) {
    const Result<std::vector<ArchiveName>> names = co_await ListOn(n.address);
    if (!names.ok()) continue;
    by_address[n.address] = *names;
    all.insert(all.end(), names->begin(), names->end());
  }
  std::ranges::sort(all);
  const std::vector<ArchiveName> list = ObsoleteObjects(all, env_.store->super()->incarnation, env_.forget_former());
  const std::set<ArchiveName> obsolete(list.begin(), list.end());
  for (const auto& [address, names] : by_address) {
    DeleteBackupsRequest request{Header(), env_.token(), {}};
    for (size_t i = 0; i < names.size(); ++i) {
      if (obsolete.contains(names[i])) request.names.push_back(names[i].ToString());
      if (request.names.empty() || (request.names.size() < kDeletesPerCall && i + 1 < names.size())) continue;
      request.token = env_.token();
      const Result<DeleteBackupsReply> done = co_await env_.connector->ConnectBackup(address)->DeleteBackups(request);
      request.names.clear();
      if (!done.ok()) break;
    }
  }
}

// ---- For others -----------------------------------------------------------------------------------

int64_t Archiver::BehindNs() const {
  if (!complete_) return Now() - incomplete_since_ns_;
  const std::optional<int64_t> oldest_ns = tape_.oldest_ns();
  return oldest_ns ? Now() - *oldest_ns : 0;
}

CommitSeq Archiver::DeletableUpTo() const {
  return BehindNs() > options_.absent_ns ? CommitSeq(UINT64_MAX) : archived_;
}

Task<Result<void>> Archiver::BackupNow(int64_t deadline_ns) {
  CO_RETURN_IF_ERROR(co_await env_.store->Sync());
  const CommitSeq seq = env_.store->durable_seq();
  wanted_ = std::max(wanted_, seq);
  wake_.Set();
  while (!complete_ || archived_ < seq) {
    if (Now() >= deadline_ns) {
      co_return Error(FsError::kDeadline, "the metadata is not archived yet" + (problem_.empty() ? "" : ": " + problem_));
    }
    co_await WithTimeout(std::min<int64_t>(deadline_ns - Now(), kLookNs), Passed(&progress_));
  }
  co_return Ok();
}

}  // namespace stria
