#include "client/session/believed.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace stria {
namespace {

bool Has(const std::vector<CallerRange>& ranges, uint32_t id) {
  return std::any_of(ranges.begin(), ranges.end(), [id](const CallerRange& r) { return r.first <= id && id <= r.last; });
}

}  // namespace

std::optional<Caller> AsBelieved(const BelievedCallers& believed, const Caller& who) {
  if (who.uid == 0) return believed.root ? std::optional<Caller>(who) : std::nullopt;
  if (!Has(believed.uids, who.uid) || !Has(believed.gids, who.gid)) return std::nullopt;
  Caller out = who;
  out.groups.clear();
  std::copy_if(who.groups.begin(), who.groups.end(), std::back_inserter(out.groups), [&](uint32_t gid) { return Has(believed.gids, gid); });
  return out;
}

}  // namespace stria
