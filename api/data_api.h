// The data server's service: shards on local disks. Implemented by server/ (the real thing) and by
// proto/ (a client stub over a transport).
//
// A shard is written (any order of offsets, repeats allowed), sealed once, then immutable until it is
// deleted. Block CRCs: CRC32C per 64 KiB block, seeded (stripe/checksum.h), computed by the writer,
// checked by the server as it takes the bytes, kept in its index, returned with reads, checked by the
// reader, also by one that asks for a part of a block. Each item carries a token; the server checks it against shard, target
// and right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "stripe/checksum.h"

namespace stria {

inline constexpr size_t kMaxDataItems = 1024;  // of one request

struct DataHeader {
  uint32_t protocol = kProtocolVersion;  // api/protocol.h
  uint32_t oldest_protocol = kOldestProtocol;
  Uuid cluster;
  uint64_t incarnation = 0;
  int64_t timeout_ns = 10 * kSecond;
  uint64_t trace_id = 0;
  bool background = false;  // no program waits for it (rebuild, drain, scrub): requests of others go first
  // As OpHeader's. A data server that hears of a newer life does nothing more for an older one.
  uint64_t seen_term = 0;
  uint64_t seen_proof = 0;
  std::shared_ptr<const Peer> peer;  // as OpHeader's
};

// How long a request was with the disks. Within the server only: it is not on the wire.
struct DiskTime {
  int64_t ns = 0;
  bool operator==(const DiskTime&) const = default;
};

struct ShardWrite {
  ShardId shard;
  TargetId target;
  std::string token;
  uint64_t offset = 0;  // multiple of kChecksumBlockBytes
  uint64_t length = 0;  // a multiple of it too, unless these are the shard's last bytes
  std::vector<uint32_t> crcs;  // one per block of this write
  bool seal = false;  // these are the last bytes and all others were acknowledged: seal at offset+length
};
struct WriteRequest {
  DataHeader header;
  std::vector<ShardWrite> items;
  BufferChain payload;  // the items' bytes, one after another
};
struct SealResult {
  ItemResult result;
  uint64_t length = 0;
  uint64_t digest = 0;  // TableDigest of the whole shard; compare with your own
};
// One per item; length and digest are set for those that asked to be sealed.
struct WriteReply {
  std::vector<SealResult> items;
  DiskTime disk;
};

struct ShardSeal {
  ShardId shard;
  TargetId target;
  std::string token;
  uint64_t length = 0;  // total; every byte below it must have been written
};
struct SealRequest {
  DataHeader header;
  std::vector<ShardSeal> items;
};
// Sealed items are durable: bytes, directory entry, index record. Sealing again gives the same answer.
struct SealReply {
  std::vector<SealResult> items;
  DiskTime disk;
};

struct ShardRead {
  ShardId shard;
  TargetId target;
  std::string token;
  uint64_t offset = 0;  // multiple of kChecksumBlockBytes
  uint64_t length = 0;  // multiple of it, or to the shard's end
  // So many bytes at both ends are checked, but not sent. Each less than kChecksumBlockBytes, together less than length.
  uint64_t omit_head = 0;
  uint64_t omit_tail = 0;
  uint64_t wanted_bytes() const { return length - omit_head - omit_tail; }
};
struct ReadRequest {
  DataHeader header;
  std::vector<ShardRead> items;  // at most kMaxPayloadBytes in all
};
struct ReadItem {
  ItemResult result;
  uint64_t length = 0;         // 0 on error: failed items have no bytes in the payload
  std::vector<uint32_t> crcs;  // of its blocks, left-out bytes included
  LeftOut left_out;            // as omit_head and omit_tail asked for
};
struct ReadReply {
  std::vector<ReadItem> items;
  BufferChain payload;
  DiskTime disk;
};

struct ShardDelete {
  ShardId shard;
  TargetId target;
  std::string token;
};
struct DeleteRequest {
  DataHeader header;
  std::vector<ShardDelete> items;
};
// kOk also for shards that were not there.
struct DeleteReply {
  std::vector<ItemResult> items;
};

struct InventoryRequest {
  DataHeader header;
  TargetId target;
  ShardId after;  // exclusive
  uint32_t limit = 1000;
};
struct ShardStat {
  ShardId shard;
  uint64_t length = 0;
  uint64_t digest = 0;
  bool sealed = false;
};
struct InventoryReply {
  std::vector<ShardStat> shards;  // by id
  bool more = false;
};

class DataService {
 public:
  virtual ~DataService() = default;
  virtual Task<Result<WriteReply>> Write(WriteRequest request) = 0;
  virtual Task<Result<SealReply>> Seal(SealRequest request) = 0;
  virtual Task<Result<ReadReply>> Read(ReadRequest request) = 0;
  virtual Task<Result<DeleteReply>> Delete(DeleteRequest request) = 0;
  virtual Task<Result<InventoryReply>> Inventory(InventoryRequest request) = 0;
};

// Gives connections to data servers by address ("host:port"). The returned service lives as long as
// the shared_ptr; it reconnects by itself. Calls fail with kUnavailable or kDeadline.
class DataConnector {
 public:
  virtual ~DataConnector() = default;
  virtual std::shared_ptr<DataService> Connect(const std::string& address) = 0;
};

}  // namespace stria
