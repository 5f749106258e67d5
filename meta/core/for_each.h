// Reads all entries of a family whose keys begin alike, a page at a time: for what is loaded at a start.
#pragma once

#include <string>

#include "meta/store/txn.h"

namespace stria {

inline constexpr size_t kLoadPage = 1000;

// Calls `take(key, value)`, a Result<void>, for each; ends with its first error.
template <class F>
Result<void> ForEachEntry(Txn& txn, Family family, const std::string& prefix, F take) {
  const std::string end = PrefixEnd(prefix);
  std::string from = prefix;
  while (true) {
    ASSIGN_OR_RETURN(const auto page, txn.Scan(family, from, end, kLoadPage));
    for (const KvEntry& e : page) RETURN_IF_ERROR(take(e.first, e.second));
    if (page.size() < kLoadPage) return Ok();
    from = page.back().first + '\0';
  }
}

}  // namespace stria
