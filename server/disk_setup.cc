#include "server/disk_setup.h"

#include <xxhash.h>

#include <map>
#include <utility>
#include <vector>

#include "common/codec.h"

namespace stria {
namespace {

constexpr uint8_t kIdentityVersion = 3;  // 1 has no name, 2 no proof
constexpr uint64_t kMaxIdentityBytes = 4096;

}  // namespace

Task<Result<Superblock>> OpenSuperblock(Disk* disk, DiskSetup setup) {
  Result<Buffer> block = co_await disk->Read(std::string(kSuperblockFile), 0, kSuperblockBytes);
  if (block.ok()) {
    CO_ASSIGN_OR_RETURN(Superblock sb, DecodeSuperblock(block->view(), setup.where));
    const Uuid expected = sb.cluster && setup.cluster ? setup.cluster : sb.cluster;
    CO_RETURN_IF_ERROR(CheckSuperblock(sb, StoreKind::kDataDisk, expected, setup.where));
    if (sb.must_be_read_only()) {
      co_return Error(FsError::kVersion,
                      setup.where + " was written by a newer release; it may only be read");
    }
    co_return sb;
  }
  if (block.code() != FsError::kNoEnt) co_return block.error().WithContext(setup.where);
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> files, co_await disk->List(""));
  for (const DiskFile& f : files) {
    if (f.name.starts_with("lost+found/")) continue;
    co_return Error(FsError::kNotEmpty, setup.where + " has no superblock, and is not empty (" + f.name +
                                            "): give an empty directory to make it a disk");
  }
  if (!setup.may_make) co_return Error(FsError::kNoEnt, setup.where + " is empty");
  Superblock sb;
  sb.kind = StoreKind::kDataDisk;
  sb.own = setup.new_uuid();
  sb.label = setup.label;
  sb.created_s = setup.now_s;
  CO_RETURN_IF_ERROR(
      co_await disk->ReplaceFile(std::string(kSuperblockFile), Buffer::FromString(EncodeSuperblock(sb))));
  co_return sb;
}

Task<Result<void>> AdoptCluster(Disk* disk, Superblock* sb, Uuid cluster, uint64_t incarnation,
                                std::string label) {
  if (sb->cluster && sb->cluster != cluster) {
    co_return Error(FsError::kWrongCluster, "disk " + sb->label + " belongs to cluster " +
                                                sb->cluster.ToString() + ", not " + cluster.ToString());
  }
  if (sb->cluster == cluster && sb->incarnation == incarnation && sb->label == label) co_return Ok();
  Superblock next = *sb;
  next.cluster = cluster;
  next.incarnation = incarnation;
  next.label = std::move(label);
  CO_RETURN_IF_ERROR(
      co_await disk->ReplaceFile(std::string(kSuperblockFile), Buffer::FromString(EncodeSuperblock(next))));
  *sb = next;
  co_return Ok();
}

Task<Result<DiskIdentity>> ReadIdentity(Disk* disk) {
  DiskIdentity none;
  Result<Buffer> bytes = co_await disk->Read(kIdentityFile, 0, kMaxIdentityBytes);
  if (bytes.code() == FsError::kNoEnt) co_return none;
  if (!bytes.ok()) co_return bytes.error();
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes->view(), kIdentityVersion, &version, &body)) co_return none;
  ByteReader r(body);
  DiskIdentity out;
  out.target = TargetId(r.U32());
  out.incarnation = r.U64();
  out.node.hi = r.U64();
  out.node.lo = r.U64();
  if (version >= 2) out.node_name = r.Str();
  if (version >= 3) out.proof = r.Str();
  const size_t hashed = body.size() - r.left();
  const uint64_t hash = r.U64();
  co_return r.ok() && hash == XXH3_64bits(body.data(), hashed) ? out : none;
}

Task<Result<void>> WriteIdentity(Disk* disk, DiskIdentity identity) {
  ByteWriter w;
  w.U32(identity.target.v);
  w.U64(identity.incarnation);
  w.U64(identity.node.hi);
  w.U64(identity.node.lo);
  w.Str(identity.node_name);
  w.Str(identity.proof);
  w.U64(XXH3_64bits(w.str().data(), w.size()));
  co_return co_await disk->ReplaceFile(kIdentityFile,
                                       Buffer::FromString(SealRecord(kIdentityVersion, w.str())));
}

Result<Uuid> AgreeOnNode(const std::string& node_name,
                         const std::vector<std::pair<std::string, DiskIdentity>>& disks) {
  const std::pair<std::string, DiskIdentity>* first = nullptr;
  std::map<Uuid, size_t> votes;
  Uuid most;
  for (const auto& disk : disks) {
    const DiskIdentity& id = disk.second;
    if (!id.node || (!id.node_name.empty() && id.node_name != node_name)) continue;
    if (first == nullptr) first = &disk;
    const bool named = !id.node_name.empty() && !first->second.node_name.empty();
    if (id.node != first->second.node && !named) {
      return Error(FsError::kInval, "disks " + first->first + " and " + disk.first + " belong to different nodes");
    }
    if (++votes[id.node] > votes[most]) most = id.node;
  }
  return most;
}

}  // namespace stria
