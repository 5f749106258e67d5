// What a mount tells of a file to commands that have no credentials of their own: attributes user.stria.told.*, made for programs
// (`stria where` and the like), and what those make of them. Pure. For people there are the others (report.h).
//
//   .told.rows@FROM,OFFSET,LENGTH   of a file: a page of the rows of [OFFSET, OFFSET + LENGTH), which begins with byte FROM of it
//   .told.layout                    of a file or directory
//   .told.nodes@INDEX               of the cluster: a page of its nodes, which begins with that one
//   .told.paths@INODE,FROM          of the cluster: a part of the list of that inode's names, as far as the caller could find them by
//                                   listing directories; it begins with byte FROM of the list
//
// A page is as long as an attribute may be; it says where the next one begins. Put together they are the same as WhereRows gives of
// all at once. Words are separated by spaces; in names every byte that is not a letter, a digit or one of ._:-[]/ is %XX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "locality/where.h"

namespace stria {

inline constexpr std::string_view kToldXattrs = "user.stria.told.";
inline constexpr std::string_view kToldRows = "user.stria.told.rows@";
inline constexpr std::string_view kToldLayout = "user.stria.told.layout";
inline constexpr std::string_view kToldNodes = "user.stria.told.nodes@";
inline constexpr std::string_view kToldPaths = "user.stria.told.paths@";

// ---- Rows.

struct RowsWanted {
  uint64_t from = 0;  // offset <= from <= offset + length
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const RowsWanted&) const = default;
};
std::string RowsName(const RowsWanted& wanted);            // the attribute's name
Result<RowsWanted> ParseRowsName(std::string_view name);  // kInval. REQUIRES: it begins with kToldRows

struct RowsPage {
  uint64_t size = 0;        // of the file
  uint64_t covered_to = 0;  // where the next page begins; if there is nothing more, the end of the range
  std::vector<WhereRow> rows;
};
// The page's text, of at most `max_bytes`. `extents` and `stripes` are all of [wanted.from, known_to) as GetExtents gives them (the
// first extent may begin before it); the page covers less if it is full. Rows of redundancy are in the page in which their
// extent's part of the range ends. REQUIRES: known_to is at an end of an extent, in a hole or at the range's end; max_bytes >= 32 KiB.
std::string RowsText(uint64_t size, const std::vector<Extent>& extents, const std::vector<StripeGrant>& stripes, const ClusterMap& map,
                     const RowsWanted& wanted, uint64_t known_to, size_t max_bytes);
Result<RowsPage> ParseRows(std::string_view text);  // kBadRequest

// ---- Layout: with the node's number, as layout_spec.h has it.

struct ToldLayout {
  std::string spec;
  bool inherited = false;
};
std::string LayoutText(const ToldLayout& layout);
Result<ToldLayout> ParseToldLayout(std::string_view text);  // kBadRequest

// ---- Nodes: id, state, name, address.

std::string NodesName(size_t first);
Result<size_t> ParseNodesName(std::string_view name);  // kInval. REQUIRES: it begins with kToldNodes
struct NodesPage {
  size_t total = 0;
  std::vector<NodeInfo> nodes;
};
std::string NodesText(const std::vector<NodeInfo>& nodes, size_t first, size_t max_bytes);
Result<NodesPage> ParseNodes(std::string_view text);  // kBadRequest

// ---- Paths. One may be longer than an attribute, so the list comes in parts of bytes.

struct PathsWanted {
  uint64_t ino = 0;
  uint64_t from = 0;
  bool operator==(const PathsWanted&) const = default;
};
std::string PathsName(const PathsWanted& wanted);
Result<PathsWanted> ParsePathsName(std::string_view name);  // kInval. REQUIRES: it begins with kToldPaths
struct PathsPart {
  uint64_t total_bytes = 0;  // of the list
  uint64_t hidden = 0;       // names that the caller may not see
  bool more = false;         // there are more names than are in the list
  std::string bytes;         // of the list, from `from` on; none beyond its end
};
// REQUIRES: max_bytes > 64.
std::string PathsText(const std::vector<std::string>& paths, uint64_t hidden, bool more, uint64_t from, size_t max_bytes);
Result<PathsPart> ParsePathsPart(std::string_view text);            // kBadRequest
Result<std::vector<std::string>> ParsePaths(std::string_view list);  // all parts, one behind the other; kBadRequest

}  // namespace stria
