// The rules for every decoded message beyond the types of its fields. Pure; called by Decode for each struct, innermost first.
// An error's code is kBadRequest, or the application's error for a name, value or file that is too large.
//
// Checks that need state (does the inode exist, does the layout fit the cluster) are the service's.
#pragma once

#include "api/data_api.h"
#include "api/meta_api.h"
#include "api/types.h"
#include "common/error.h"

namespace stria {

// Values of both services.
Result<void> Validate(const OpHeader& v);
Result<void> Validate(const DataHeader& v);
Result<void> Validate(const StripeShape& v);  // payload_bytes may be 0: a stripe that is yet to be filled
Result<void> Validate(const StripeInfo& v);
Result<void> Validate(const StripeGrant& v);
Result<void> Validate(const Extent& v);
Result<void> Validate(const ClusterMap& v);
Result<void> Validate(const FileLock& v);

// Data service.
Result<void> Validate(const ShardWrite& v);
Result<void> Validate(const WriteRequest& v);
Result<void> Validate(const WriteReply& v);
Result<void> Validate(const SealRequest& v);
Result<void> Validate(const SealReply& v);
Result<void> Validate(const ShardRead& v);
Result<void> Validate(const ReadRequest& v);
Result<void> Validate(const ReadItem& v);
Result<void> Validate(const ReadReply& v);
Result<void> Validate(const DeleteRequest& v);
Result<void> Validate(const DeleteReply& v);
Result<void> Validate(const InventoryReply& v);

// Metadata service.
Result<void> Validate(const OpenSessionRequest& v);
Result<void> Validate(const PollReply& v);
Result<void> Validate(const NameRequest& v);
Result<void> Validate(const SetAttrRequest& v);
Result<void> Validate(const MakeNodeRequest& v);
Result<void> Validate(const MadeFile& v);
Result<void> Validate(const RenameRequest& v);
Result<void> Validate(const LinkRequest& v);
Result<void> Validate(const ReadLinkReply& v);
Result<void> Validate(const DirEntry& v);
Result<void> Validate(const XattrRequest& v);
Result<void> Validate(const GetExtentsRequest& v);
Result<void> Validate(const GetExtentsReply& v);
Result<void> Validate(const AllocateRequest& v);
Result<void> Validate(const CommitRequest& v);
Result<void> Validate(const CloneRequest& v);
Result<void> Validate(const RebuildWork& v);

}  // namespace stria
