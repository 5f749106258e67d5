// For tests of this folder: shards with content that follows from their id, and one simulated disk
// that survives the "process" on it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/pool.h"
#include "common/exec/sim_run.h"
#include "common/io/sim_disk.h"
#include "common/kv/forwarding_kv.h"
#include "common/kv/mem_kv.h"
#include "common/random.h"
#include "server/shard_store.h"
#include "stripe/checksum.h"

namespace stria {

inline std::string BytesOf(ShardId shard, uint64_t length) {
  Random rng(shard.v * 7919 + length);
  std::string out(length, '\0');
  for (size_t i = 0; i + 8 <= length; i += 8) {
    const uint64_t v = rng.Next();
    std::memcpy(out.data() + i, &v, 8);
  }
  for (size_t i = length / 8 * 8; i < length; ++i) out[i] = static_cast<char>(rng.Next());
  return out;
}

inline std::vector<uint32_t> TableOf(ShardId shard, const std::string& bytes) {
  return ChecksumTable(shard, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

inline uint64_t DigestOf(ShardId shard, const std::string& bytes) {
  return TableDigest(TableOf(shard, bytes), bytes.size());
}

inline std::string Flat(const BufferChain& chain) { return std::string(chain.Flatten().view()); }

// Writes blocks [first, first + count) of a shard with this content and table, cut at its end.
inline Task<Result<void>> WriteBlocks(ShardStore* store, ShardId shard, const std::string& bytes,
                                      const std::vector<uint32_t>& table, uint64_t first, uint64_t count,
                                      bool repair = false) {
  const uint64_t offset = first * kChecksumBlockBytes;
  const uint64_t n = std::min(count * kChecksumBlockBytes, bytes.size() - offset);
  std::vector<uint32_t> crcs(table.begin() + static_cast<ptrdiff_t>(first),
                             table.begin() + static_cast<ptrdiff_t>(first + ChecksumBlocks(n)));
  const bool keep = (shard.v + first) % 2 == 0;  // both ways
  co_return co_await store->Write(shard, offset, BufferChain(Buffer::FromString(bytes.substr(offset, n))),
                                  std::move(crcs), repair, keep);
}
inline Task<Result<void>> WriteBlocksOf(ShardStore* store, ShardId shard, uint64_t length, uint64_t first,
                                        uint64_t count, bool repair = false) {
  const std::string bytes = BytesOf(shard, length);
  const std::vector<uint32_t> table = TableOf(shard, bytes);
  co_return co_await WriteBlocks(store, shard, bytes, table, first, count, repair);
}

// Writes and seals all of it.
inline Task<Result<Sealed>> StoreWhole(ShardStore* store, ShardId shard, uint64_t length,
                                       bool repair = false) {
  CO_RETURN_IF_ERROR(co_await WriteBlocksOf(store, shard, length, 0, ChecksumBlocks(length), repair));
  co_return co_await store->Seal(shard, length);
}

// An index that finds no room for a batch while `full` says so.
class FullKv final : public ForwardingKv {
 public:
  FullKv(std::shared_ptr<KvStore> kv, std::shared_ptr<std::atomic<bool>> full) : ForwardingKv(std::move(kv)), full_(std::move(full)) {}
  Result<void> Write(const KvBatch& batch) override {
    if (*full_) return Error(FsError::kNoSpace, "no room");
    return below().Write(batch);
  }

 private:
  const std::shared_ptr<std::atomic<bool>> full_;
};

class SimStore {
 public:
  explicit SimStore(uint64_t seed, SimDiskOptions disk_options = {})
      : disk_media(std::make_shared<SimDiskMedia>(seed, disk_options)),
        kv_media(std::make_shared<MemKvMedia>(kIndexFamilies)) {}

  void Start(SimExecutor& ex, bool background = true) {
    disk = std::make_unique<SimDisk>(disk_media);
    kv = std::make_unique<MemKv>(kv_media);
    ShardStoreOptions options;
    options.disk = Uuid{7, 9};
    options.background = background;
    store = std::make_unique<ShardStore>(disk.get(), kv.get(), &pool, &pool, options);
    RunSim(ex, store->Open()).value();
  }
  void Stop() {
    store.reset();
    kv.reset();
    disk.reset();
  }
  // REQUIRES: no task uses the store.
  void Crash(Random& rng, bool power_cut) {
    Stop();
    disk_media->Crash(rng, power_cut);
    kv_media->Crash(rng, power_cut);
  }

  InlinePool pool;
  std::shared_ptr<SimDiskMedia> disk_media;
  std::shared_ptr<MemKvMedia> kv_media;
  std::unique_ptr<SimDisk> disk;
  std::unique_ptr<MemKv> kv;
  std::unique_ptr<ShardStore> store;
};

}  // namespace stria
