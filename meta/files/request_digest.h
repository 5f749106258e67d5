// What a change asks for, in eight bytes: so that an op_seq that comes again for something else is noticed.
//
// Only of what stays the same over all tries and replays of a request: not its header, nor what its client strikes out or adds when
// it asks again in another term (client/session/session_calls.cc, PrepareReplay and its like). Kept in ReplyRecord, so what it is made
// of changes only together with its first byte. Pure.
#pragma once

#include <cstdint>

#include "api/meta_api.h"

namespace stria {

// Never 0.
uint64_t RequestDigest(const SetAttrRequest& r);
uint64_t RequestDigest(const MakeNodeRequest& r);
uint64_t RequestDigest(const OpenRequest& r);
uint64_t RequestDigest(const NameRequest& r);
uint64_t RequestDigest(const RenameRequest& r);
uint64_t RequestDigest(const LinkRequest& r);
uint64_t RequestDigest(const XattrRequest& r);
uint64_t RequestDigest(const LayoutRequest& r);
uint64_t RequestDigest(const AllocateRequest& r);
uint64_t RequestDigest(const CommitRequest& r);
uint64_t RequestDigest(const CloneRequest& r);
uint64_t RequestDigest(const LockRequest& r);

}  // namespace stria
