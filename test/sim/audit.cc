#include "test/sim/audit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "meta/model/families.h"
#include "meta/model/records.h"
#include "server/segment.h"
#include "server/shard_index.h"
#include "stripe/checksum.h"
#include "stripe/fold_plan.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kAll = SIZE_MAX;

std::vector<KvEntry> AllOf(KvStore& kv, KvFamily family) {
  auto rows = kv.Scan(family, "", "", kAll);
  CHECK(rows.ok(), rows.error().ToString());
  return std::move(*rows);
}

}  // namespace

// One disk, with the files that have been looked at.
class DiskView {
 public:
  DiskView(SimCluster& cluster, size_t node, size_t disk, AuditMemory* memory)
      : media_(&cluster.disks().media(node, disk)), good_(&memory->good_[node]), target_(cluster.disks().target(node, disk)) {
    const SimDisks::Now now = cluster.disks().Look(node, disk);
    KvStore* const index = now.index;
    for (const KvEntry& row : AllOf(*index, kIndexShards)) {
      uint64_t id = 0;
      CHECK(ParseKey64(row.first, &id), "a key of the index is malformed");
      auto record = DecodeShardRecord(ShardId(id), row.second);
      if (record.ok()) records_[ShardId(id)] = std::move(*record);
      else records_[ShardId(id)] = std::nullopt;
    }
    if (now.opened) return;
    const auto from = index->Get(kIndexState, kUnindexedFromKey);
    CHECK(from.ok(), from.error().ToString());
    if (*from) AddTail(now.uuid, DecodeUnindexedFrom(**from));
  }
  // Nullopt: its record is damaged.
  const std::map<ShardId, std::optional<ShardRecord>>& records() const { return records_; }

  bool Intact(ShardId shard, const ShardRecord& r) {
    if (good_->contains({target_, shard})) return true;
    if (!Check(shard, r)) return false;
    good_->emplace(target_, shard);
    return true;
  }

 private:
  // What the next start of its server would find in segments (ShardStore::IndexTail).
  void AddTail(const Uuid& disk, SegmentPlace from) {
    for (const DiskFile& f : media_->Files("segments/")) {
      uint64_t segment = 0;
      if (!ParseSegmentName(f.name, &segment) || segment < from.segment) continue;
      const std::string& bytes = File(f.name);
      for (uint64_t at = kSegmentHeaderBytes; at + kSegmentHeadBytes <= bytes.size();) {
        auto e = DecodeSegmentHead(disk, segment, at, std::string_view(bytes).substr(at));
        if (!e.ok()) {
          at = AlignUp(at + 1, kSegmentBatchAlign);
          continue;
        }
        const SegmentPlace place{segment, std::exchange(at, at + SegmentEntryBytes(e->kind, e->length))};
        if (e->kind != ShardKind::kPacked || place < from || records_.contains(e->shard)) continue;
        ShardRecord r{e->kind, place, e->length, e->digest, std::move(e->crcs)};
        if (Intact(e->shard, r)) records_[e->shard] = std::move(r);
      }
    }
  }
  bool Check(ShardId shard, const ShardRecord& r) {
    const bool packed = r.kind == ShardKind::kPacked;
    const std::string& file = File(packed ? SegmentName(r.place.segment) : RawShardName(shard));
    const uint64_t from = packed ? SegmentPayloadOffset(r.place, r.length) : 0;
    if (from + r.length > file.size()) return false;
    const auto* bytes = reinterpret_cast<const uint8_t*>(file.data()) + from;
    return TableDigest(r.crcs, r.length) == r.digest && !FirstBadBlock(shard, 0, {bytes, r.length}, r.crcs);
  }
  const std::string& File(const std::string& name) {
    auto it = files_.find(name);
    if (it == files_.end()) it = files_.emplace(name, media_->Content(name).value_or("")).first;
    return it->second;
  }
  SimDiskMedia* const media_;
  std::set<std::pair<TargetId, ShardId>>* const good_;
  const TargetId target_;
  std::map<ShardId, std::optional<ShardRecord>> records_;
  std::map<std::string, std::string> files_;
};

namespace {

std::string Name(size_t n, size_t d, ShardId shard) {
  return "shard " + std::to_string(shard.v) + " on " + DiskName(n, d);
}

void Note(size_t* count, std::string* first, std::string what) {
  if ((*count)++ == 0) *first = std::move(what);
}

struct DiskPlace {
  size_t node = 0;
  size_t disk = 0;
};

// One disk by itself, and against the shards that the metadata knows there.
void AuditDisk(SimCluster& cluster, DiskPlace p, DiskView* disk, const std::set<std::string>& known, NodeAudit* out) {
  const TargetId target = cluster.disks().target(p.node, p.disk);
  for (const auto& [shard, record] : disk->records()) {
    if (!record || !disk->Intact(shard, *record)) ++out->rotten;
    if (!known.contains(TargetShardKey(target, shard))) {
      Note(&out->unknown, &out->first_unknown, Name(p.node, p.disk, shard));
    }
  }
  for (const DiskFile& f : cluster.disks().media(p.node, p.disk).Files("shards/")) {
    ShardId shard;
    if (!ParseRawShardName(f.name, &shard) || disk->records().contains(shard)) continue;
    Note(&out->strays, &out->first_stray, f.name + " on " + NodeHost(p.node));
  }
}

}  // namespace

ClusterAudit AuditCluster(SimCluster& cluster, AuditMemory* memory) {
  ClusterAudit out;
  out.nodes.resize(cluster.nodes());
  for (NodeAudit& n : out.nodes) n.named_on.resize(cluster.options().disks);
  KvStore& meta = cluster.MetaContents();
  std::set<std::string> known;
  for (Family f : {Family::kTargetStripes, Family::kGarbage}) {
    for (const KvEntry& row : AllOf(meta, static_cast<KvFamily>(f))) known.insert(row.first);
  }
  std::map<TargetId, DiskPlace> places;
  std::map<TargetId, DiskView> disks;
  for (size_t n = 0; n < cluster.nodes(); ++n) {
    for (size_t d = 0; d < cluster.options().disks; ++d) {
      const TargetId t = cluster.disks().target(n, d);
      if (!t) continue;
      places[t] = {n, d};
      DiskView& view = disks.try_emplace(t, cluster, n, d, memory).first->second;
      AuditDisk(cluster, {n, d}, &view, known, &out.nodes[n]);
    }
  }
  for (const KvEntry& row : AllOf(meta, static_cast<KvFamily>(Family::kOrphans))) {
    uint64_t ino = 0;
    CHECK(ParseKey64(row.first, &ino), "a key of an orphan is malformed");
    out.orphans.push_back(InodeId(ino));
  }
  std::set<std::pair<TargetId, ShardId>> used;
  for (const KvEntry& row : AllOf(meta, static_cast<KvFamily>(Family::kStripes))) {
    auto stripe = StripeRecord::Decode(row.first, row.second);
    if (!stripe.ok()) {
      out.problems.push_back("a stripe record does not decode: " + stripe.error().message);
      continue;
    }
    for (const Column& c : stripe->info.columns) {
      if (!c.shard) continue;
      if (!used.emplace(c.target, c.shard).second) {
        out.problems.push_back("shard " + std::to_string(c.shard.v) + " belongs to two columns");
      }
      if (stripe->state != StripeState::kLive) continue;
      auto place = places.find(c.target);
      if (place == places.end()) {
        ++out.homeless;
        continue;
      }
      NodeAudit& node = out.nodes[place->second.node];
      ++node.named;
      ++node.named_on[place->second.disk];
      DiskView& disk = disks.at(c.target);
      auto found = disk.records().find(c.shard);
      std::string wrong;
      if (found == disk.records().end()) wrong = "is not there";
      else if (!found->second) wrong = "has a damaged index record";
      else if (found->second->length != c.length || found->second->digest != c.digest) wrong = "is not what was committed";
      else if (!disk.Intact(c.shard, *found->second)) wrong = "is damaged";
      if (wrong.empty()) continue;
      Note(&node.damaged, &node.first_damaged,
           Name(place->second.node, place->second.disk, c.shard) + " of stripe " + std::to_string(stripe->info.id.v) + " " + wrong);
    }
  }
  return out;
}

bool DecodesWithout(SimCluster& cluster, const std::set<size_t>& nodes) {
  std::set<TargetId> lost;
  for (const size_t n : nodes) {
    for (size_t d = 0; d < cluster.options().disks; ++d) lost.insert(cluster.disks().target(n, d));
  }
  for (const KvEntry& row : AllOf(cluster.MetaContents(), static_cast<KvFamily>(Family::kStripes))) {
    const auto record = StripeRecord::Decode(row.first, row.second);
    CHECK(record.ok(), "a stripe does not decode");
    const StripeInfo& info = record->info;
    std::vector<size_t> lost_of(info.shape.groups);
    for (size_t c = 0; c < info.columns.size(); ++c) {
      if (!info.columns[c].shard || !lost.contains(info.columns[c].target)) continue;
      const uint32_t group = GroupOf(info.shape, ColumnIndex(static_cast<uint16_t>(c)));
      if (++lost_of[group] > info.shape.m) return false;
    }
  }
  return true;
}

std::vector<std::string> LonelyColumns(SimCluster& cluster) {
  KvStore& meta = cluster.MetaContents();
  std::map<StripeId, std::vector<Extent>> uses;
  for (const KvEntry& row : AllOf(meta, static_cast<KvFamily>(Family::kExtents))) {
    const auto record = ExtentRecord::Decode(row.first, row.second);
    CHECK(record.ok(), "an extent does not decode");
    if (record->extent.stripe) uses[record->extent.stripe].push_back(record->extent);
  }
  std::vector<std::string> out;
  for (const KvEntry& row : AllOf(meta, static_cast<KvFamily>(Family::kStripes))) {
    const auto record = StripeRecord::Decode(row.first, row.second);
    CHECK(record.ok(), "a stripe does not decode");
    const StripeShape& shape = record->info.shape;
    if (record->state != StripeState::kLive || !shape.gathered() || shape.groups != 1 || shape.m == 0) continue;
    const std::vector<Extent>& extents = uses[record->info.id];
    if (record->layout.k < 2 || extents.size() > kMaxUnitRefs) continue;  // never folded
    std::set<uint16_t> used;
    for (const Extent& e : extents) {
      for (const ShardRange& r : MapRange(shape, e.stripe_offset, e.length)) used.insert(r.column.v);
    }
    if (used.size() != 1) continue;
    uint64_t stored = 0;
    for (const Column& c : record->info.columns) stored += c.length;
    const uint64_t mirrored = (1 + uint64_t{shape.m}) * record->info.columns[*used.begin()].length;
    if (mirrored * 100 > stored * (100 - kMinSavingPercent)) continue;
    out.push_back("of stripe " + std::to_string(record->info.id.v) + " column " + std::to_string(*used.begin()) +
                  " alone is in use: it takes " + std::to_string(stored) + " bytes, a mirror would " +
                  std::to_string(mirrored));
  }
  return out;
}

}  // namespace stria
