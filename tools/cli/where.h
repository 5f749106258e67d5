// The output of `stria where`: pure.
#pragma once

#include <string>
#include <vector>

#include "locality/read_tally.h"
#include "locality/where.h"

namespace stria::cli {

std::string RenderWhere(const std::vector<WhereRow>& rows);
std::string RenderByHost(const std::vector<HostShare>& hosts);
std::string RenderReads(const ReadTally& tally);

}  // namespace stria::cli
