#include "client/vfs/made_ahead.h"

#include <algorithm>

#include "common/log.h"

namespace stria {
namespace {

// What the server does not know a crash of this client loses. So it is told of files that are neither closed nor synced
// about as soon as it makes names durable by itself (MetaServerOptions::group_sync_ns).
constexpr int64_t kTellNs = 10 * kMillisecond;
constexpr int64_t kTellAgainNs = 1 * kSecond;
constexpr size_t kMaxMadeAhead = 1024;

// The server's last word on a commit that makes a file; everything else may be asked again. `bare`: it does nothing else.
bool IsFinal(FsError e, bool bare) {
  switch (e) {
    case FsError::kConflict:
    case FsError::kExist:
    case FsError::kAccess:
    case FsError::kPerm:
    case FsError::kNoEnt:
    case FsError::kStale:
    case FsError::kNotDir:
    case FsError::kIsDir:
    case FsError::kLoop:
    case FsError::kInval:
    case FsError::kNameTooLong:
    case FsError::kBadRequest: return true;
    case FsError::kTimedOut:
    case FsError::kFenced:
    case FsError::kCancelled: return false;
    default: return bare && !IsRetryable(e);
  }
}

bool IsOf(const Caller& who, uint32_t gid) {
  return who.gid == gid || std::find(who.groups.begin(), who.groups.end(), gid) != who.groups.end();
}

}  // namespace

bool MadeAhead::SurelyMayCreate(const Caller& who, const Attr& dir) {
  if (dir.nlink == 0 || dir.acls != 0) return false;
  if (who.uid == 0) return true;
  uint32_t rights = dir.mode & 7;
  if (who.uid == dir.uid) {
    rights = (dir.mode >> 6) & 7;
  } else if (IsOf(who, dir.gid)) {
    rights = (dir.mode >> 3) & 7;
  }
  return (rights & 3) == 3;
}

// Likewise only what is sure.
bool MadeAhead::MayChange(const InodeMade& of, const Caller& who, const Attr& file, std::optional<uint32_t> mode,
                          std::optional<uint32_t> uid, std::optional<uint32_t> gid) const {
  if (!sets_ || (mode.value_or(0) & ~uint32_t{0777}) != 0) return false;  // set-id bits change with an owner
  if (who.uid != of.maker_.uid || who.gid != of.maker_.gid || who.groups != of.maker_.groups) return false;
  if (who.uid == 0) return true;
  const bool of_group = !gid || *gid == file.gid || IsOf(who, *gid);
  return who.uid == file.uid && (!uid || *uid == file.uid) && of_group;
}

MadeFile::Set& MadeAhead::Change(InodeMade& of) {
  ++counters_.set_ahead;
  return of.file_->set ? *of.file_->set : of.file_->set.emplace();
}

bool MadeAhead::NumbersLeft() {
  if (numbers_of_ != needs_.now_is()) numbers_.clear();
  return !numbers_.empty();
}

void MadeAhead::TakeNumbers(InodeId first, uint64_t count, std::string proof, bool sets) {
  (void)NumbersLeft();
  numbers_of_ = needs_.now_is();
  numbers_.push_back({first.v, first.v + count, std::move(proof)});
  sets_ = sets;
}

bool MadeAhead::MayMakeIn(InodeId dir) const {
  return enabled_ && !pauses_.contains(dir) && !pauses_.contains(InodeId());
}

bool MadeAhead::HasRoom() { return files_.size() < kMaxMadeAhead && NumbersLeft(); }

MadeAhead::Number MadeAhead::TakeNumber() {
  Numbers& numbers = numbers_.front();
  Number out{InodeId(numbers.next++), numbers.proof};
  if (numbers.next == numbers.end) numbers_.pop_front();
  return out;
}

void MadeAhead::Add(const InodeMadePtr& of, MadeFile file, const Caller& maker) {
  In& in = dirs_[file.parent];
  in.last_ns = std::max(in.last_ns, *file.made_ns);
  in.files.emplace(of->ino(), of);
  files_.emplace(of->ino(), of);
  of->file_ = std::move(file);
  of->maker_ = maker;
  of->since_ns_ = Executor::Current().NowNs();
  if (!std::exchange(tells_old_, true)) scope_.Spawn(TellOld());
  ++counters_.made_ahead;
}

const MadeAhead::In* MadeAhead::Unknown(InodeId dir) const {
  const auto it = dirs_.find(dir);
  return it == dirs_.end() ? nullptr : &it->second;
}

void MadeAhead::Known(InodeMade& of) {
  const auto in = dirs_.find(of.file_->parent);
  in->second.files.erase(of.ino_);
  if (in->second.files.empty()) dirs_.erase(in);
  files_.erase(of.ino_);
  of.file_.reset();
}

void MadeAhead::LoseAll(InodeMade& of, Error loss) {
  if (of.file_) Known(of);
  ++of.era_;
  of.loss_ = std::move(loss);
}

MadeFile MadeAhead::BeginTelling(InodeMade& of) {
  of.telling_ = of.tried_ = true;
  return *of.file_;
}

void MadeAhead::EndTelling(InodeMade& of) {
  of.telling_ = false;
  of.told_.Pulse();
}

MadeAhead::Outcome MadeAhead::Answered(const InodeMadePtr& of, const Error& error, bool bare) {
  EndTelling(*of);
  of->tell_error_ = error;
  if (!of->file_) return Outcome::kGone;
  if (error.ok()) {
    Known(*of);
    return Outcome::kKnown;
  }
  if (!IsFinal(error.code, bare)) {
    of->since_ns_ = Executor::Current().NowNs() + kTellAgainNs;
    return Outcome::kAgain;
  }
  LogWarning("file {} in directory {} could not be made: {}", of->file_->name, of->file_->parent, error);
  const MadeFile file = *of->file_;
  Known(*of);
  of->lost_ = Error(error.code == FsError::kNoSpace ? FsError::kNoSpace : FsError::kIo,
                    "this file could not be made: " + error.ToString());
  needs_.lost(of, file);
  return Outcome::kLost;
}

// Of its own, as who waits for it may be cancelled.
Task<void> MadeAhead::TellNow(InodeMadePtr of, bool durable) {
  if (!of->file_) {  // the session was lost before this began
    EndTelling(*of);
    needs_.maybe_unused(of);
    co_return;
  }
  co_await needs_.tell(std::move(of), durable);
}

Task<Result<void>> MadeAhead::Tell(InodeMadePtr of, bool durable) {
  const uint64_t era = of->era_;
  for (bool asked = false; of->file_ && of->era_ == era;) {
    if (!of->telling_) {
      if (asked) co_return of->tell_error_;
      asked = of->telling_ = true;
      scope_.Spawn(TellNow(of, durable));
      if (!of->telling_) continue;
    }
    co_await of->told_.Wait();
  }
  if (of->era_ != era) co_return of->loss_;
  if (!of->lost_.ok()) co_return of->lost_;
  co_return Ok();
}

std::optional<Task<Result<void>>> MadeAhead::TellBefore(const std::array<InodeId, 2>& named) {
  if (files_.empty()) return std::nullopt;
  std::vector<InodeMadePtr> files;
  for (const InodeId ino : named) {
    if (const auto dir = dirs_.find(ino); dir != dirs_.end()) {
      for (const auto& [number, of] : dir->second.files) files.push_back(of);
    }
    if (const auto file = files_.find(ino); file != files_.end()) files.push_back(file->second);
  }
  if (files.empty()) return std::nullopt;
  return TellAll(std::move(files));
}

Task<Result<void>> MadeAhead::TellIn(std::optional<InodeId> dir) {
  std::vector<InodeMadePtr> files;
  for (const auto& [ino, in] : dirs_) {
    if (dir && ino != *dir) continue;
    for (const auto& [number, of] : in.files) files.push_back(of);
  }
  if (files.empty()) co_return Ok();
  co_return co_await TellAll(std::move(files));
}

// That one cannot be made is its own affair.
Task<Result<void>> MadeAhead::TellAll(std::vector<InodeMadePtr> files) {
  std::vector<Task<Result<void>>> told;
  for (const InodeMadePtr& of : files) told.push_back(Tell(of, false));
  const std::vector<Result<void>> results = co_await WhenAll(std::move(told));
  for (size_t i = 0; i < files.size(); ++i) {
    if (!results[i].ok() && files[i]->lost_.ok()) co_return results[i].error();
  }
  co_return Ok();
}

Task<void> MadeAhead::TellOld() {
  while (!files_.empty()) {
    co_await Sleep(kTellNs);
    const int64_t now_ns = Executor::Current().NowNs();
    std::vector<InodeMadePtr> old;
    for (const auto& [dir, in] : dirs_) {
      for (const auto& [ino, of] : in.files) {
        if (now_ns - of->since_ns_ >= kTellNs && !of->telling_) old.push_back(of);
      }
    }
    for (const InodeMadePtr& of : old) {
      if (!of->file_ || std::exchange(of->telling_, true)) continue;
      scope_.Spawn(TellNow(of, false));
    }
  }
  tells_old_ = false;
}

MadeAhead::Pause::Pause(MadeAhead* of, std::optional<InodeId> dir) : of_(of), dir_(dir) {
  if (dir_ != InodeId()) ++of_->pauses_[dir_.value_or(InodeId())];
}

MadeAhead::Pause::~Pause() {
  if (dir_ == InodeId()) return;
  of_->needs_.pause_ended(dir_.value_or(InodeId()));
  const auto it = of_->pauses_.find(dir_.value_or(InodeId()));
  if (--it->second == 0) of_->pauses_.erase(it);
}

}  // namespace stria
