// From dirty pieces of a file to the extents that commit them. Pure.
#pragma once

#include <vector>

#include "client/cache/dirty_buffer.h"
#include "client/io/write_all.h"
#include "stripe/types.h"

namespace stria {

// Adjacent pieces become one extent of at most kMaxInlineBytes. REQUIRES: no piece is longer.
std::vector<Extent> InlineExtents(const std::vector<DirtyPiece>& pieces);

// The pieces' bytes, one after another, are the payload that was stored as `written` (in order, without
// gaps). Extents are cut at the ends of stripes.
std::vector<Extent> StripeExtents(const std::vector<DirtyPiece>& pieces, const std::vector<WrittenPiece>& written);

std::vector<StripeInfo> InfosOf(const std::vector<WrittenPiece>& written);

}  // namespace stria
