// Layouts in the words that people use, for the command line, settings and `user.stria.layout`.
//
//     linear            one column, no protection          raid4:k+1    xor parity, kept on one target
//     raid0:k           k columns, no protection           raid5:k+1    xor parity, rotating
//     raid1:n           n copies                           raid6:k+2    two parity columns
//     raid10:n          n/2 mirrored pairs over n disks    rs:k+m       m parity columns
//     raid50:GxK+1      G groups of raid5:K+1
//
// k <= 32 per group, m <= 4, n <= 5 copies, 64 columns in all. An odd n of raid10 (3, 5, ..) has (n-1)/2
// pairs in each stripe; placement rotates them, so that all n disks are used alike. Then any of these,
// each at most once, after commas:
//
//     unit=256K                multiple of 4K           arrange=spread|gathered
//     stripe=32M               whole rows, up to 1G     domain=node|channel|disk
//     place=spread|local|node:N
//
// Defaults: unit=256K, the largest stripe of whole rows that is <= 32M (at least one row), arrange=spread,
// domain=node, place=spread. Sizes are bytes, or have K, M or G (powers of 1024) behind them.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"
#include "stripe/types.h"

namespace stria {

// kInval with one sentence that names the spelling and the allowed forms.
Result<Layout> ParseLayout(std::string_view text);

// The shortest spelling: ParseLayout(LayoutToString(x)) == x for every layout that validates. Spellings
// that mean the same give one string: raid0:1 is linear, raid5:1+1 is raid1:2, raid10:5 is raid10:4.
std::string LayoutToString(const Layout& layout);

// Every invariant of a layout, for untrusted ones: it has a spelling, and its codec is the one that its
// columns are written with. kInval with a sentence otherwise.
Error ValidateLayout(const Layout& layout);

// The stripe_bytes of a layout that does not name it.
uint64_t DefaultStripeBytes(uint32_t data_columns, uint64_t unit_bytes);

}  // namespace stria
