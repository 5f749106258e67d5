#include "meta/backup/restore.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "meta/model/families.h"

namespace stria {
namespace {

constexpr size_t kClearRun = 256;
constexpr size_t kMaxCopies = 64;  // of one object that are tried

Result<void> Clear(KvStore& kv) {
  for (size_t f = 0; f < kFamilies; ++f) {
    const auto family = static_cast<KvFamily>(f);
    while (true) {
      ASSIGN_OR_RETURN(const auto entries, kv.Scan(family, "", "", kClearRun));
      if (entries.empty()) break;
      KvBatch batch;
      for (const KvEntry& e : entries) batch.Delete(family, e.first);
      RETURN_IF_ERROR(kv.Write(batch));
    }
  }
  return Ok();
}

// An object, with the owner of its body.
struct Fetched {
  std::string bytes;
  OpenedArchive object;
};

class Restorer {
 public:
  Restorer(std::vector<ArchiveName> names, ArchiveSource* source, KvStore* kv, RestoreProof proof)
      : source_(source), kv_(kv), proof_(proof) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    names_ = std::move(names);
  }

  Task<Result<RestoreResult>> Run() {
    for (auto it = names_.rbegin(); it != names_.rend(); ++it) {
      if (it->kind != ArchiveKind::kComplete) continue;
      const std::vector<std::string> passed_over = std::move(out_.passed_over);
      out_ = RestoreResult();
      out_.passed_over = passed_over;
      CO_ASSIGN_OR_RETURN(const bool done, co_await FromCheckpoint(*it));
      if (!done) continue;
      CO_RETURN_IF_ERROR(co_await kv_->Sync());
      co_return std::move(out_);
    }
    std::string why = "there is no checkpoint of the metadata that is whole";
    if (!out_.passed_over.empty()) why += ": " + out_.passed_over.front();
    co_return Error(FsError::kNoEnt, why);
  }

 private:
  void PassOver(const ArchiveName& name, const std::string& why) {
    if (out_.passed_over.size() < kMaxPassedOver) out_.passed_over.push_back(name.ToString() + ": " + why);
  }

  Result<OpenedArchive> Prove(const OpenedArchive& object) const {
    if (proof_.seal != nullptr) return Unseal(object, *proof_.seal);
    return Error(FsError::kAccess, object.encrypted ? "it is encrypted, and the key is not here" : "the key that would prove it is not here");
  }

  // The first copy that is good; nullptr if there is none. One that is proven is better than one that is not.
  Task<std::unique_ptr<Fetched>> Fetch(ArchiveName name) {
    std::string why = "it is missing";
    std::unique_ptr<Fetched> unproven;
    std::string why_unproven;
    for (size_t copy = 0; copy < kMaxCopies; ++copy) {
      Result<std::string> bytes = co_await source_->Get(name, copy);
      if (bytes.code() == FsError::kNoEnt) break;
      if (!bytes.ok()) {
        why = bytes.error().message;
        continue;
      }
      auto out = std::make_unique<Fetched>();
      out->bytes = *std::move(bytes);
      Result<OpenedArchive> opened = OpenArchive(out->bytes);
      if (!opened.ok()) {
        why = opened.error().message;
      } else if (opened->head.name != name) {
        why = "it is another object than its name says";
      } else if (out_.cluster && opened->head.cluster != out_.cluster) {
        why = "it is of another cluster";
      } else {
        Result<OpenedArchive> proven = Prove(*opened);
        out->object = proven.ok() ? *std::move(proven) : *opened;
        if (proven.ok()) co_return std::move(out);
        why = proven.error().message;
        if (!proof_.unproven || unproven || opened->encrypted) continue;
        unproven = std::move(out);
        why_unproven = why;
      }
    }
    if (unproven) {
      if (out_.unproven++ == 0) out_.why_unproven = name.ToString() + ": " + why_unproven;
      co_return std::move(unproven);
    }
    PassOver(name, why);
    co_return nullptr;
  }

  // False: it cannot be used. Errors are of the store that is written.
  Task<Result<bool>> FromCheckpoint(ArchiveName name) {
    const std::unique_ptr<Fetched> end = co_await Fetch(name);
    if (!end) co_return false;
    const Result<std::vector<uint64_t>> hashes = DecodeComplete(end->object);
    if (!hashes.ok()) {
      PassOver(name, hashes.error().message);
      co_return false;
    }
    out_.cluster = end->object.head.cluster;
    out_.incarnation = name.incarnation;
    out_.term = name.term;
    out_.checkpoint = out_.seq = name.first;
    out_.wall_ns = end->object.head.wall_ns;
    out_.bytes = end->bytes.size();
    CO_RETURN_IF_ERROR(Clear(*kv_));
    for (const uint64_t hash : *hashes) {
      ArchiveName page = name;
      page.kind = ArchiveKind::kPage;
      page.last = out_.pages;
      CO_ASSIGN_OR_RETURN(const bool taken, co_await TakePage(page, hash));
      if (!taken) co_return false;
      ++out_.pages;
    }
    CO_RETURN_IF_ERROR(co_await TakeSegments(name));
    if (out_.seq.v >= name.last) co_return true;
    PassOver(name, "batches that belong to it cannot be had");
    co_return false;
  }

  Task<Result<bool>> TakePage(ArchiveName name, uint64_t hash) {
    const std::unique_ptr<Fetched> page = co_await Fetch(name);
    if (!page) co_return false;
    Result<KvBatch> entries = DecodePage(page->object);
    if (!entries.ok() || page->object.hash != hash) {
      PassOver(name, entries.ok() ? "it is not of this checkpoint" : entries.error().message);
      co_return false;
    }
    out_.bytes += page->bytes.size();
    CO_RETURN_IF_ERROR(kv_->Write(*entries));
    co_await Yield();
    co_return true;
  }

  // As far as they go without a gap. Segments may overlap: each batch is taken once.
  Task<Result<void>> TakeSegments(ArchiveName checkpoint) {
    std::vector<ArchiveName> segments;  // by first
    for (const ArchiveName& n : names_) {
      if (n.kind == ArchiveKind::kSegment && n.incarnation == checkpoint.incarnation && n.term == checkpoint.term) {
        segments.push_back(n);
      }
    }
    std::set<ArchiveName> bad;
    while (true) {
      const uint64_t next = out_.seq.v + 1;
      const ArchiveName* best = nullptr;
      for (const ArchiveName& s : segments) {
        if (s.first.v > next) break;
        if (s.last >= next && bad.count(s) == 0 && (best == nullptr || s.last > best->last)) best = &s;
      }
      if (best == nullptr) co_return Ok();
      CO_ASSIGN_OR_RETURN(const bool taken, co_await TakeSegment(*best));
      if (!taken) bad.insert(*best);
    }
  }

  Task<Result<bool>> TakeSegment(ArchiveName name) {
    const std::unique_ptr<Fetched> segment = co_await Fetch(name);
    if (!segment) co_return false;
    Result<std::vector<ArchivedBatch>> batches = DecodeSegment(segment->object);
    if (!batches.ok()) {
      PassOver(name, batches.error().message);
      co_return false;
    }
    out_.bytes += segment->bytes.size();
    for (ArchivedBatch& b : *batches) {
      if (b.seq <= out_.seq) continue;
      CO_RETURN_IF_ERROR(kv_->Write(b.batch));
      out_.seq = b.seq;
      out_.wall_ns = b.wall_ns;
      ++out_.batches;
    }
    co_await Yield();
    co_return true;
  }

  ArchiveSource* const source_;
  KvStore* const kv_;
  const RestoreProof proof_;
  std::vector<ArchiveName> names_;  // sorted
  RestoreResult out_;
};

}  // namespace

Task<Result<RestoreResult>> RestoreArchive(std::vector<ArchiveName> names, ArchiveSource* source, KvStore* kv, RestoreProof proof) {
  Restorer restorer(std::move(names), source, kv, proof);
  co_return co_await restorer.Run();
}

std::vector<ArchiveName> ObsoleteObjects(const std::vector<ArchiveName>& names, uint64_t incarnation,
                                         bool forget_former) {
  using Begin = std::tuple<uint64_t, CommitSeq, uint64_t>;  // of a checkpoint: term, where its walk began, which one
  std::set<Begin, std::greater<>> complete;
  for (const ArchiveName& n : names) {
    if (n.kind == ArchiveKind::kComplete && n.incarnation == incarnation) complete.insert({n.term, n.first, n.walk});
  }
  std::vector<ArchiveName> out;
  if (complete.empty()) return out;
  const Begin newest = *complete.begin();
  const std::optional<Begin> second = complete.size() > 1 ? std::optional(*std::next(complete.begin())) : std::nullopt;
  for (const ArchiveName& n : names) {
    bool obsolete = false;
    if (n.incarnation != incarnation) {
      obsolete = n.incarnation < incarnation && forget_former && second;
    } else if (n.kind == ArchiveKind::kSegment) {
      // The newest may yet turn out to be damaged: then the second is needed, from where its walk began.
      obsolete = second && std::tuple(n.term, n.last) <= std::tuple(std::get<0>(*second), std::get<1>(*second).v);
    } else {
      const Begin begin(n.term, n.first, n.walk);
      obsolete = begin < newest && begin != second;
    }
    if (obsolete) out.push_back(n);
  }
  return out;
}

}  // namespace stria
