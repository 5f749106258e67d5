// A stripe that is laid out anew keeps its payload. So the checksums of its new data columns follow from the payload's, as those of
// the old ones do: who knows the old columns' digests can tell whether the new ones are right, without reading a byte.
//
// The payload is cut into pieces of which none lies in two blocks (stripe/checksum.h), of the old form or of the new one. The bare
// registers of all pieces give the table of every column of either form.
//
// Pure functions, safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stripe/types.h"

namespace stria {

// Where the pieces end in the payload, ascending; the last is its end. REQUIRES: both validate, and have the same payload.
std::vector<uint64_t> PiecesOf(const StripeShape& from, const StripeShape& to);

// The tables of a stripe's columns, under the numbers of its shards. `ends` are those of PiecesOf for its shape and another one;
// `registers`: BareRegister of each piece. Empty for a column without a shard; nullopt for parity that does not follow from
// checksums alone: of codecs other than kCopy and kXor.
std::vector<std::optional<std::vector<uint32_t>>> TablesFromPieces(const StripeInfo& info, std::span<const uint64_t> ends,
                                                                  std::span<const uint32_t> registers);

}  // namespace stria
