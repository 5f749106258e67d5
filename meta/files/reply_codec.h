// How the results of mutations are stored so that a repeated request gets the same answer (family
// replies, inside ReplyRecord). Leases and tokens are not part of it: they are made afresh.
#pragma once

#include <string>
#include <string_view>

#include "api/meta_api.h"
#include "common/error.h"

namespace stria {

// Which call a stored reply is of. On disk: append only.
enum class OpKind : uint16_t {
  kSetAttr = 1,
  kMakeNode = 2,
  kOpen = 3,
  kUnlink = 4,
  kRmdir = 5,
  kRename = 6,
  kLink = 7,
  kSetXattr = 8,
  kRemoveXattr = 9,
  kSetLayout = 10,
  kAllocate = 11,
  kCommit = 12,
  kClone = 13,
  kLock = 32,  // never stored: locks are in memory
};

std::string EncodeReply(const NodeReply& r);
std::string EncodeReply(const OpenReply& r);
std::string EncodeReply(const XattrReply& r);
std::string EncodeReply(const LayoutReply& r);
std::string EncodeReply(const AllocateReply& r);
std::string EncodeReply(const CommitReply& r);
std::string EncodeReply(const LockReply& r);
std::string EncodeReply(const CloneReply& r);

// kCorrupt unless `bytes` are of such a reply.
Result<void> DecodeReply(std::string_view bytes, NodeReply* out);
Result<void> DecodeReply(std::string_view bytes, OpenReply* out);
Result<void> DecodeReply(std::string_view bytes, XattrReply* out);
Result<void> DecodeReply(std::string_view bytes, LayoutReply* out);
Result<void> DecodeReply(std::string_view bytes, AllocateReply* out);
Result<void> DecodeReply(std::string_view bytes, CommitReply* out);
Result<void> DecodeReply(std::string_view bytes, LockReply* out);
Result<void> DecodeReply(std::string_view bytes, CloneReply* out);

}  // namespace stria
