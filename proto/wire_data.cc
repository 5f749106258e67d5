#include "api/backup_api.h"
#include "api/data_api.h"
#include "proto/backup.pb.h"
#include "proto/data.pb.h"
#include "proto/wire_data_header.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_MESSAGE(ShardWrite) { F(shard); F(target); F(token); F(offset); F(length); F(crcs); F(seal); }
WIRE_MESSAGE(WriteRequest) { F(header); F(items); }
WIRE_MESSAGE(SealResult) { F(result); F(length); F(digest); }
WIRE_MESSAGE(WriteReply) { F(items); }

WIRE_MESSAGE(ShardSeal) { F(shard); F(target); F(token); F(length); }
WIRE_MESSAGE(SealRequest) { F(header); F(items); }
WIRE_MESSAGE(SealReply) { F(items); }

WIRE_MESSAGE(ShardRead) { F(shard); F(target); F(token); F(offset); F(length); F(omit_head); F(omit_tail); }
WIRE_MESSAGE(ReadRequest) { F(header); F(items); }
WIRE_MESSAGE(LeftOut) { F(head_bytes); F(tail_bytes); F(head); F(tail); }
WIRE_MESSAGE(ReadItem) { F(result); F(length); F(crcs); F(left_out); }
WIRE_MESSAGE(ReadReply) { F(items); }

WIRE_MESSAGE(ShardDelete) { F(shard); F(target); F(token); }
WIRE_MESSAGE(DeleteRequest) { F(header); F(items); }
WIRE_MESSAGE(DeleteReply) { F(items); }

WIRE_MESSAGE(InventoryRequest) { F(header); F(target); F(after); F(limit); }
WIRE_MESSAGE(ShardStat) { F(shard); F(length); F(digest); F(sealed); }
WIRE_MESSAGE(InventoryReply) { F(shards); F(more); }

WIRE_MESSAGE(PutBackupRequest) { F(header); F(token); F(name); }
WIRE_MESSAGE(PutBackupReply) {}
WIRE_MESSAGE(ListBackupsRequest) { F(header); F(token); F(after); F(limit); }
WIRE_MESSAGE(ListBackupsReply) { F(cluster); F(incarnation); F(node); F(names); F(more); }
WIRE_MESSAGE(GetBackupRequest) { F(header); F(token); F(name); }
WIRE_MESSAGE(GetBackupReply) {}
WIRE_MESSAGE(DeleteBackupsRequest) { F(header); F(token); F(names); }
WIRE_MESSAGE(DeleteBackupsReply) {}

}  // namespace wire

WIRE_CODEC(WriteRequest);
WIRE_CODEC(WriteReply);
WIRE_CODEC(SealRequest);
WIRE_CODEC(SealReply);
WIRE_CODEC(ReadRequest);
WIRE_CODEC(ReadReply);
WIRE_CODEC(DeleteRequest);
WIRE_CODEC(DeleteReply);
WIRE_CODEC(InventoryRequest);
WIRE_CODEC(InventoryReply);
WIRE_CODEC(PutBackupRequest);
WIRE_CODEC(PutBackupReply);
WIRE_CODEC(ListBackupsRequest);
WIRE_CODEC(ListBackupsReply);
WIRE_CODEC(GetBackupRequest);
WIRE_CODEC(GetBackupReply);
WIRE_CODEC(DeleteBackupsRequest);
WIRE_CODEC(DeleteBackupsReply);

}  // namespace stria
