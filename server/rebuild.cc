#include "server/rebuild.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/sabotage.h"
#include "server/column_source.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

// The sources of one window; shared with the pool's thread.
struct Inputs {
  std::vector<uint32_t> available;
  std::vector<Buffer> bytes;  // empty: zeros
};
struct Made {
  GateUse use;  // until the bytes are written
  Buffer bytes;
  std::vector<uint32_t> old_crcs;
};

// The bytes of column `wanted` for a window of `length`.
Buffer Decode(const ParityCodec& codec, const Inputs& in, uint32_t wanted, uint64_t length) {
  std::vector<Buffer> padded = in.bytes;
  std::vector<const uint8_t*> pointers;
  for (Buffer& b : padded) {
    if (!b.empty() && b.size() < length) {  // the column ends inside the window: zeros follow
      MutableBuffer whole(length);
      std::copy(b.span().begin(), b.span().end(), whole.data());
      std::fill(whole.data() + b.size(), whole.data() + length, 0);
      b = std::move(whole).Freeze();
    }
    pointers.push_back(b.empty() ? nullptr : b.data());
  }
  if (Sabotaged(Sabotage::kRebuildWrongColumn)) {
    for (const Buffer& b : padded) {
      if (b.size() >= length) return b.Slice(0, length);
    }
  }
  MutableBuffer out(length);
  uint8_t* outputs[] = {out.data()};
  const uint32_t wanted_list[] = {wanted};
  codec.Reconstruct(in.available, pointers, wanted_list, outputs, length);
  return std::move(out).Freeze();
}

class Rebuild {
 public:
  Rebuild(RebuildWork work, RebuildEnv env) : work_(std::move(work)), env_(std::move(env)) {}

  Task<RebuildResult> Run() {
    result_.task = work_.task;
    Result<Sealed> sealed = co_await Make();
    result_.result = ItemResult{sealed.code(), sealed.error().message};
    if (sealed.ok()) {
      result_.length = sealed->length;
      result_.digest = sealed->digest;
    }
    std::sort(result_.bad_columns.begin(), result_.bad_columns.end());
    co_return std::move(result_);
  }

 private:
  const StripeInfo& stripe() const { return work_.stripe.info; }

  Result<void> Prepare() {
    RETURN_IF_ERROR(Result<void>(ValidateStripe(stripe())));
    if (work_.column >= stripe().columns.size() || work_.stripe.tokens.size() != stripe().columns.size() ||
        !work_.new_shard || stripe().columns[work_.column].length == 0) {
      return Error(FsError::kBadRequest, "a rebuild task is malformed");
    }
    old_ = stripe().columns[work_.column];
    first_ = old_.shard == work_.new_shard;
    if (first_ && !IsParity(stripe().shape, ColumnIndex(work_.column))) {
      return Error(FsError::kBadRequest, "only parity can be made from existing columns");
    }
    const uint64_t share = AlignDown(kRebuildWindowsBytes / (stripe().shape.k + 1u), kChecksumBlockBytes);
    window_bytes_ = std::clamp(share, kChecksumBlockBytes, kMaxRebuildWindowBytes);
    AddSources();
    copying_ = work_.copy && !first_;
    return Ok();
  }

  void AddSources() {
    const StripeShape& shape = stripe().shape;
    const ColumnIndex lost(work_.column);
    const std::set<uint16_t> excluded(work_.lost.begin(), work_.lost.end());
    std::vector<ColumnSource> remote;
    for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) {
      const ColumnIndex c = ColumnOf(shape, GroupOf(shape, lost), i);
      if (c == lost || excluded.contains(c.v) || (first_ && IsParity(shape, c))) continue;
      ColumnSource s = MakeColumnSource(work_.stripe, c, *env_.map);
      if (s.info.length > 0 && s.address.empty()) continue;
      (s.info.length == 0 ? sources_ : remote).push_back(std::move(s));
    }
    // Spread the load of many rebuilds: each begins with another survivor.
    if (!remote.empty()) {
      std::rotate(remote.begin(), remote.begin() + static_cast<ptrdiff_t>(work_.task % remote.size()),
                  remote.end());
    }
    for (ColumnSource& s : remote) sources_.push_back(std::move(s));
    self_ = MakeColumnSource(work_.stripe, lost, *env_.map);
  }
  Task<Result<Sealed>> Make() {
    CO_RETURN_IF_ERROR(Prepare());
    if (co_await AlreadyMade()) co_return Sealed{old_.length, new_digest_};
    for (int attempt = 1;; ++attempt) {
      Result<void> made = co_await MakeAll();
      if (!made.ok()) {
        co_await Discard();
        co_return made.error();
      }
      if (first_ ? AreSourcesAsWritten() : TableDigest(old_table_, old_.length) == old_.digest) break;
      if (Sabotaged(Sabotage::kRebuildWrongColumn)) break;
      co_await Discard();
      copying_ = false;
      const size_t bad = result_.bad_columns.size();
      co_await FindLiars();
      if (attempt == kMaxRebuildAttempts || result_.bad_columns.size() == bad) {
        co_return Error(FsError::kChecksum, "column " + std::to_string(work_.column) + " of stripe " +
                                                std::to_string(stripe().id.v) +
                                                " does not come out as it was written");
      }
    }
    Result<Sealed> sealed = co_await env_.store->Seal(work_.new_shard, old_.length);
    if (sealed.ok() && sealed->digest != NewDigest()) {
      sealed = Error(FsError::kChecksum, "the new shard was sealed with other checksums");
    }
    if (!sealed.ok()) co_await Discard();
    else if (!first_) result_.table = NewTable();
    co_return sealed;
  }

  std::vector<uint32_t> NewTable() const { return ReseedTable(old_table_, old_.shard, work_.new_shard, old_.length); }
  uint64_t NewDigest() const { return TableDigest(NewTable(), old_.length); }

  // For a column that is made for the first time: all of each source was read.
  bool AreSourcesAsWritten() const {
    return std::ranges::all_of(sources_, [](const ColumnSource& s) { return IsAsWritten(s); });
  }

  // A former run may have sealed it, after it had checked it, and then lost its report.
  Task<bool> AlreadyMade() {
    Result<ShardRecordPtr> record = co_await env_.store->index().Get(work_.new_shard);
    if (!record.ok() || !*record || (*record)->length != old_.length) co_return false;
    if (first_) {
      new_digest_ = (*record)->digest;
      co_return true;
    }
    const std::vector<uint32_t> table =
        ReseedTable((*record)->crcs, work_.new_shard, old_.shard, old_.length);
    new_digest_ = (*record)->digest;
    if (TableDigest(table, old_.length) != old_.digest) co_return false;
    result_.table = (*record)->crcs;
    co_return true;
  }

  Task<void> Discard() {
    Result<void> removed = co_await env_.store->Delete(std::vector<ShardId>(1, work_.new_shard));
    (void)removed;  // otherwise it ages out, or is found by the quarantine
  }

  Task<Result<void>> MakeAll() {
    next_ = 0;
    old_table_.assign(ChecksumBlocks(old_.length), 0);
    std::vector<Task<Result<void>>> workers;
    for (size_t i = 0; i < kRebuildWindows; ++i) workers.push_back(MakeWindows());
    for (const Result<void>& r : co_await WhenAll(std::move(workers))) CO_RETURN_IF_ERROR(Result<void>(r));
    co_return Ok();
  }

  Task<Result<void>> MakeWindows() {
    while (next_ < old_.length) {
      const uint64_t offset = next_;
      const uint64_t length = std::min(window_bytes_, old_.length - offset);
      next_ += length;
      Result<Made> made = co_await MakeWindow(offset, length);
      if (!made.ok()) {
        next_ = old_.length;  // the other worker stops too
        co_return made.error();
      }
      const uint64_t first = offset / kChecksumBlockBytes;
      std::copy(made->old_crcs.begin(), made->old_crcs.end(),
                old_table_.begin() + static_cast<ptrdiff_t>(first));
      std::vector<uint32_t> crcs = ReseedTable(made->old_crcs, old_.shard, work_.new_shard, length);
      Result<void> written = co_await env_.store->Write(
          work_.new_shard, offset, BufferChain(std::move(made->bytes)), std::move(crcs), !first_);
      if (!written.ok()) {
        next_ = old_.length;
        co_return written.error();
      }
    }
    co_return Ok();
  }

  Task<Result<Made>> MakeWindow(uint64_t offset, uint64_t length) {
    const uint64_t first = offset / kChecksumBlockBytes;
    if (copying_ && !self_.address.empty()) {
      Result<Buffer> bytes = co_await Pull(&self_, offset, length);
      if (bytes.ok()) {
        Made made;
        made.use = co_await Turn(length);
        for (uint64_t i = 0; i < ChecksumBlocks(length); ++i)
          made.old_crcs.push_back(*self_.table[first + i]);
        made.bytes = std::move(*bytes);
        co_return made;
      }
    }
    copying_ = false;
    auto in = std::make_shared<Inputs>();
    CO_RETURN_IF_ERROR(co_await Gather(offset, length, in.get()));
    const ParityCodec* codec = &env_.codecs->For(stripe().shape);
    const uint32_t wanted = IndexInGroup(stripe().shape, ColumnIndex(work_.column));
    const ShardId old_shard = old_.shard;
    GateUse use = co_await Turn(length);  // not while columns are pulled: that would wait for turns elsewhere
    Made made = co_await RunOn(*env_.cpu_pool, [codec, in, wanted, length, old_shard, first] {
      Made m;
      m.bytes = Decode(*codec, *in, wanted, length);
      m.old_crcs = BlockCrcs(old_shard, first, m.bytes.span());
      return m;
    });
    made.use = std::move(use);
    co_return made;
  }

  Task<GateUse> Turn(uint64_t bytes) {
    if (env_.gate == nullptr) co_return GateUse();
    co_return co_await env_.gate->Background(bytes);
  }

  // Ranges of k columns, checked. Those that fail are replaced while there are others.
  Task<Result<void>> Gather(uint64_t offset, uint64_t length, Inputs* out) {
    const uint32_t k = stripe().shape.k;
    std::map<uint32_t, Buffer> have;  // by index in the group
    while (have.size() < k) {
      std::vector<ColumnSource*> ask;
      for (ColumnSource& s : sources_) {
        if (have.size() + ask.size() == k) break;
        if (s.alive && !have.contains(s.index)) ask.push_back(&s);
      }
      if (have.size() + ask.size() < k) {
        co_return Error(temporary_ ? FsError::kUnavailable : FsError::kIo,
                        "stripe " + std::to_string(stripe().id.v) + " has too few readable columns: " +
                            std::to_string(have.size() + ask.size()) + " of " + std::to_string(k) +
                            (last_error_.ok() ? "" : "; " + last_error_.ToString()));
      }
      std::vector<Task<Result<Buffer>>> pulls;
      for (ColumnSource* s : ask) pulls.push_back(Pull(s, offset, length));
      std::vector<Result<Buffer>> got = co_await WhenAll(std::move(pulls));
      for (size_t i = 0; i < ask.size(); ++i) {
        if (got[i].ok()) have[ask[i]->index] = std::move(*got[i]);
        if (got[i].code() == FsError::kTokenExpired) co_return got[i].error();
      }
    }
    for (auto& [index, bytes] : have) {
      out->available.push_back(index);
      out->bytes.push_back(std::move(bytes));
    }
    co_return Ok();
  }

  // The source's part of the window: shorter, or empty, where the column ends before. Marks a source
  // that fails.
  Task<Result<Buffer>> Pull(ColumnSource* s, uint64_t offset, uint64_t length) {
    if (offset >= s->info.length) co_return Buffer();
    // Whole blocks of the source, although the column to be made may end inside one.
    const uint64_t n = std::min(AlignUp(length, kChecksumBlockBytes), s->info.length - offset);
    Result<Buffer> bytes = co_await PullBytes(s, offset, n);
    if (!bytes.ok()) {
      last_error_ = bytes.error();
      Drop(s, IsColumnLoss(bytes.code()));
      co_return bytes;
    }
    co_return bytes->Slice(0, std::min(length, n));
  }
  void Drop(ColumnSource* s, bool lost) {
    if (s->alive && lost) result_.bad_columns.push_back(s->column.v);
    if (!lost) temporary_ = true;
    s->alive = false;
  }

  Task<Result<Buffer>> PullBytes(ColumnSource* s, uint64_t offset, uint64_t length) {
    const ColumnReadEnv env{env_.map.get(), env_.connector, env_.cpu_pool, work_.task};
    CO_ASSIGN_OR_RETURN(Buffer bytes, co_await ReadColumn(s, offset, length, env));
    result_.bytes_read += length;
    co_return bytes;
  }

  // Reads the rest of every used source, so that its table is whole, and drops sources whose tables have a wrong digest.
  Task<void> FindLiars() {
    std::vector<ColumnSource*> used;
    auto add_if_used = [&used](ColumnSource* s) {
      const bool any =
          std::any_of(s->table.begin(), s->table.end(), [](const auto& c) { return c.has_value(); });
      if (s->alive && any) used.push_back(s);
    };
    add_if_used(&self_);
    for (ColumnSource& s : sources_) add_if_used(&s);
    for (ColumnSource* s : used) {
      for (uint64_t block = 0; s->alive && block < s->table.size(); ++block) {
        if (s->table[block]) continue;
        Result<Buffer> rest = co_await Pull(s, block * kChecksumBlockBytes, window_bytes_);
        if (!rest.ok()) break;
      }
      if (s->alive && !IsAsWritten(*s)) Drop(s, true);
    }
  }

  RebuildWork work_;
  RebuildEnv env_;
  Column old_;
  uint64_t window_bytes_ = 0;
  uint64_t next_ = 0;                // offset of the next window to make
  std::vector<uint32_t> old_table_;  // of the new bytes, under the old ShardId
  uint64_t new_digest_ = 0;          // AlreadyMade only
  std::vector<ColumnSource> sources_;  // of the group, in order of preference
  ColumnSource self_;                  // the old shard, when copying
  bool copying_ = false;
  bool first_ = false;  // there is no old shard: parity of data that had none
  bool temporary_ = false;  // a source failed in a way that may pass
  Error last_error_;
  RebuildResult result_;
};

}  // namespace

Task<RebuildResult> RunRebuild(RebuildWork work, RebuildEnv env) {
  Rebuild rebuild(std::move(work), std::move(env));
  co_return co_await rebuild.Run();
}

}  // namespace stria
