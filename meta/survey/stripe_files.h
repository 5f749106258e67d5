// Which files have bytes in certain stripes. Reads the store only.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta_api.h"
#include "meta/store/txn.h"

namespace stria {

// Of a stripe, the columns that are not readable at all.
using GoneColumns = std::map<StripeId, std::vector<bool>>;

struct FilesPage {
  std::vector<LostFile> files;
  std::string next;  // "" if that were all
};
// Files with bytes in the stripes; in the columns of `gone` of those of which it tells. With a path of each, whoever may
// see that: for admins. Goes on where a page before it has ended (`after`).
Result<FilesPage> PageOfFiles(MetaStore& store, const std::set<StripeId>& stripes, size_t limit, const GoneColumns& gone,
                              std::string_view after);
Result<std::vector<LostFile>> ListFilesOf(MetaStore& store, const std::set<StripeId>& stripes, size_t limit,
                                          const GoneColumns& gone = {});

}  // namespace stria
