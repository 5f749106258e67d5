// Transactions of the metadata store.
//
//   Txn txn(store);                          reads see the store and the txn's own writes
//   ... txn.Put / Delete / NewId / AddCount
//   ASSIGN_OR_RETURN(CommitSeq seq, txn.Commit());
//
// A Txn collects one batch of absolute puts and deletes. Commit adds the state record (dense commit
// sequence, id ranges, counters) and writes the batch: it is then in the ordered log, visible to all
// later reads, and durable after the next Sync of the store. Dropping a Txn aborts it; nothing of it
// remains, the ids it took included.
//
// Thread-safety: store and transactions belong to one executor thread. Between a Txn's first read and
// its Commit no other Txn may commit (so: no co_await between them); this is checked. Transactions
// that only read may live side by side.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "meta/model/families.h"
#include "meta/model/records.h"

namespace stria {

inline constexpr size_t kMaxBatchRecords = 4096;
inline constexpr size_t kMaxBatchBytes = 1 * kMiB;  // of keys and values
// Kept free for the state record and the session layer's reply.
inline constexpr size_t kReservedRecords = 16;
inline constexpr size_t kReservedBytes = 64 * kKiB;
// Ids are taken from ranges of this many; a range is durable before it is used, so that not even a power cut makes an id come
// twice. Nodes and targets are counted one by one: they are few, seen by people, and durable before they are shown.
inline constexpr uint64_t kIdRange = uint64_t{1} << 20;
inline constexpr size_t kMaxKeyBytes = 512;

class MetaStore;

class Txn {
 public:
  explicit Txn(MetaStore& store);
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  // Like KvStore's, with this transaction's writes on top.
  Result<std::optional<std::string>> Get(Family f, std::string_view key);
  Result<std::vector<KvEntry>> Scan(Family f, std::string_view begin, std::string_view end, size_t limit);
  Result<std::vector<KvEntry>> ScanPrefix(Family f, std::string_view prefix, size_t limit);
  Result<std::optional<KvEntry>> Last(Family f, std::string_view begin, std::string_view at);

  void Put(Family f, std::string key, std::string value);
  void Delete(Family f, std::string key);

  // Typed: decodes and validates.
  template <class R>
  Result<std::optional<R>> Read(const std::string& key) {
    ASSIGN_OR_RETURN(std::optional<std::string> value, Get(R::kFamily, key));
    if (!value) return std::optional<R>();
    ASSIGN_OR_RETURN(R record, R::Decode(key, *value));
    return std::optional<R>(std::move(record));
  }
  template <class R>
  void Write(std::string key, const R& record) {
    Put(R::kFamily, std::move(key), record.Encode());
  }
  template <class R>
  Result<bool> Has(const std::string& key) {
    ASSIGN_OR_RETURN(std::optional<std::string> value, Get(R::kFamily, key));
    return value.has_value();
  }

  // The sequence that this transaction gets if it commits.
  CommitSeq seq() const;
  // One number per transaction, larger than that of any earlier one, for Attr::version.
  Result<uint64_t> Stamp();
  // kRetryLater if the next range of ids is not durable yet (Sync first).
  Result<uint64_t> NewId(IdKind kind);
  Result<InodeId> NewInode();
  // Whether it is one that may have been given out before this start of the server.
  bool IsFormer(InodeId ino) const;
  Result<StripeId> NewStripe();
  Result<ShardId> NewShard();

  // It gives a directory another parent.
  void NoteDirMoved() { dir_moved_ = true; }
  void AddCount(Counter c, int64_t delta) { count_deltas_[static_cast<size_t>(c)] += delta; }
  uint64_t Count(Counter c) const;

  // Changes of this transaction so far.
  size_t records() const { return records_; }
  size_t bytes() const { return bytes_; }
  bool empty() const { return records_ == 0; }
  // True if this much more leaves the reserve free: for work that is done in steps.
  bool Fits(size_t more_records, size_t more_bytes) const {
    return records_ + more_records + kReservedRecords <= kMaxBatchRecords &&
           bytes_ + more_bytes + kReservedBytes <= kMaxBatchBytes;
  }

  // kTooBig (nothing is written) beyond the bounds; errors of the KvStore: nothing may be written any
  // more, restart. An empty transaction commits as nothing and gives the last sequence. Once only.
  Result<CommitSeq> Commit();

  MetaStore& store() { return store_; }

 private:
  using Pending = std::map<std::string, std::optional<std::string>, std::less<>>;
  void Add(Family f, std::string key, std::optional<std::string> value);

  MetaStore& store_;
  const CommitSeq base_;
  std::array<Pending, kFamilies> pending_;
  std::array<uint64_t, kIdKinds> next_ids_;
  std::array<int64_t, kCounters> count_deltas_{};
  uint64_t stamp_ = 0;
  size_t records_ = 0;
  size_t bytes_ = 0;
  bool dir_moved_ = false;
  bool committed_ = false;
};

// Owns the KvStore, the commit sequence, the id ranges and the counters.
class MetaStore {
 public:
  // Reads the state and makes fresh id ranges durable. kCorrupt, kIo, kVersion (unknown features). A
  // store without a superblock opens as an empty one: see FormatStore (meta/ops/ops.h).
  static Task<Result<std::unique_ptr<MetaStore>>> Open(std::unique_ptr<KvStore> kv);

  // Everything committed before the call is durable on return. Concurrent calls share a sync.
  Task<Result<void>> Sync();
  // Returns at once if `seq` is durable already.
  Task<Result<void>> WaitDurable(CommitSeq seq);

  // After a power cut the sequence continues from the durable one: numbers beyond durable_seq may be given again to other
  // transactions, so an acknowledgement of them does not outlive a restart.
  CommitSeq last_seq() const { return state_.seq; }
  CommitSeq durable_seq() const { return durable_; }
  CommitSeq found_seq() const { return found_; }  // the last commit of former lives, as found at the start
  uint64_t Count(Counter c) const { return state_.counters[static_cast<size_t>(c)]; }
  // How many transactions have moved a directory since this start: what was found above a directory holds until it grows.
  uint64_t dir_moves() const { return dir_moves_; }
  // Every batch that is committed from now on, with its sequence, as it was written; in order, before it is
  // durable. For backups; one tap.
  using Tap = std::function<void(CommitSeq seq, const KvBatch& batch)>;
  void SetTap(Tap tap) { tap_ = std::move(tap); }
  // So many inode numbers, from the one given on, that no transaction gives out. 0: not now. Not while there is a
  // transaction that is to be committed.
  InodeId TakeInodes(uint32_t count);
  // nullopt until formatted.
  const std::optional<SuperRecord>& super() const { return super_; }
  KvStore& kv() { return *kv_; }

 private:
  friend class Txn;
  explicit MetaStore(std::unique_ptr<KvStore> kv) : kv_(std::move(kv)) {}
  Result<void> Load();
  // Writes the batch with the state record; takes over ids and counters.
  Result<CommitSeq> Apply(KvBatch batch, const std::array<uint64_t, kIdKinds>& next_ids,
                          const std::array<int64_t, kCounters>& count_deltas);

  const std::unique_ptr<KvStore> kv_;
  std::optional<SuperRecord> super_;
  StateRecord state_;                              // as last written
  std::array<uint64_t, kIdKinds> next_ids_{};
  std::array<uint64_t, kIdKinds> first_ids_{};  // of this start: ids below may have been given out before
  std::array<uint64_t, kIdKinds> durable_limits_{};  // ids below may be used
  CommitSeq durable_;
  CommitSeq found_;
  uint64_t dir_moves_ = 0;
  Tap tap_;
};

}  // namespace stria
