// Parts of fsck.cc.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "meta/model/records.h"
#include "meta/ops/fsck.h"
#include "meta/store/txn.h"

namespace stria::fsck {

struct InodeFacts {
  InodeRecord rec;
  bool orphan = false;
  bool intent = false;
  uint64_t links = 0;    // dentries that name it
  uint64_t subdirs = 0;
  uint64_t entries = 0;
  uint64_t extents = 0;
  uint64_t allocated = 0;
  uint64_t inline_bytes = 0;
  uint32_t xattrs = 0;
  size_t xattr_bytes = 0;
  uint8_t acls = 0;  // that are there
};

// The repair of one problem. `apply` reads what it needs again, in the transaction.
struct Repair {
  std::string what;
  std::function<Result<void>(Txn&, Touched*)> apply;
};

struct StripeFacts {
  uint64_t bytes = 0;  // in extents
  uint64_t refs = 0;   // extents
  uint64_t listed = 0;  // records in family stripe_refs
};

// One run. Functions return an error only if the store cannot be read.
class Checker {
 public:
  explicit Checker(KvStore& kv, const std::atomic<bool>* stop = nullptr) : kv_(kv), stop_(stop) {}
  Result<FsckReply> Run();
  // The repairs of this run: those of records; those of counters only when there are no others, because records change them (or
  // `all`).
  std::vector<Repair> TakeRepairs(bool all);

 private:
  using Fix = std::function<Result<void>(Txn&, Touched*)>;
  void Problem(std::string sentence);
  void Problem(std::string sentence, std::string repair, Fix fix);
  template <class R>
  static Fix PutRecord(std::string key, R record) {
    return [key = std::move(key), record = std::move(record)](Txn& txn, Touched*) -> Result<void> {
      txn.Write(key, record);
      return Ok();
    };
  }
  template <class R>
  static Fix DeleteRecord(std::string key) {
    return [key = std::move(key)](Txn& txn, Touched*) -> Result<void> {
      txn.Delete(R::kFamily, key);
      return Ok();
    };
  }
  // The inode's record, changed by `change`.
  static Fix ChangeInode(InodeId ino, std::function<void(InodeRecord*)> change);
  // Nothing is known of it besides the records that name it.
  Result<bool> IsTraceless(InodeId ino);
  // Decodes every record of the family; one that does not decode is a problem and is skipped.
  template <class R>
  Result<void> ForEach(const std::function<Result<void>(const std::string& key, const R& record)>& fn) {
    std::string from;
    while (true) {
      if (stop_ != nullptr && stop_->load()) return Error(FsError::kCancelled, "the check was stopped");
      ASSIGN_OR_RETURN(auto rows, kv_.Scan(static_cast<KvFamily>(R::kFamily), from, {}, 1000));
      for (const KvEntry& row : rows) {
        Result<R> record = R::Decode(row.first, row.second);
        if (!record.ok()) {
          unreadable_ = true;
          Problem(record.error().message);
          continue;
        }
        RETURN_IF_ERROR(fn(row.first, *record));
      }
      if (rows.size() < 1000) return Ok();
      from = rows.back().first + '\0';
    }
  }
  template <class R>
  Result<std::optional<R>> Find(const std::string& key) {
    ASSIGN_OR_RETURN(auto value, kv_.Get(static_cast<KvFamily>(R::kFamily), key));
    if (!value) return std::optional<R>();
    Result<R> record = R::Decode(key, *value);
    if (!record.ok()) return std::optional<R>();  // reported by ForEach
    return std::optional<R>(*record);
  }
  InodeFacts* FindInode(InodeId ino);
  void CheckId(IdKind kind, uint64_t id, const char* what);

  // fsck.cc: names
  Result<void> LoadState();
  Result<void> LoadInodes();
  Result<void> CheckQueues();
  void CheckQueued(InodeId ino, const InodeFacts& f);
  Result<void> CheckDentries();
  Result<void> CheckParents();
  Result<void> CheckXattrs();
  void CheckLinks();
  void CheckTree();
  // fsck_data.cc
  Result<void> CheckExtents();
  Result<void> CheckRefs();
  Result<void> CheckStripes();
  Result<void> CheckStripe(const StripeRecord& rec);
  Result<void> CheckShards();
  Result<void> CheckGarbage();
  void CheckSizes();
  void CheckCounters();
  // fsck_repair.cc
  static Fix RemoveEntry(InodeId dir, std::string name);
  void Count(Counter c, uint64_t by = 1) { counters_[static_cast<size_t>(c)] += by; }

  KvStore& kv_;
  const std::atomic<bool>* const stop_;
  FsckReply out_;
  std::vector<Repair> repairs_;
  std::vector<Repair> counter_repairs_;
  bool unreadable_ = false;  // some record does not decode: nothing is taken for unused
  StateRecord state_;
  std::map<InodeId, InodeFacts> inodes_;
  std::map<StripeId, StripeFacts> stripes_;
  std::array<uint64_t, kCounters> counters_{};
};

// "inode 7", "stripe 9 at 4096"
std::string Name(InodeId ino);
std::string Name(StripeId stripe);

}  // namespace stria::fsck
