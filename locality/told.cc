#include "locality/told.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace stria {
namespace {

constexpr std::string_view kPlain = "._:-[]/";
constexpr char kHex[] = "0123456789abcdef";
constexpr size_t kHeadBytes = 64;  // of a page: two numbers

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kPlain.find(c) != kPlain.npos;
}

// Never empty: an empty name is "%".
std::string Escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (IsPlain(c)) {
      out += c;
    } else {
      const auto byte = static_cast<uint8_t>(c);
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out.empty() ? "%" : out;
}

std::optional<std::string> Unescaped(std::string_view text) {
  if (text == "%") return "";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    uint8_t byte = 0;
    const char* const end = text.data() + std::min(text.size(), i + 3);
    const auto parsed = std::from_chars(text.data() + i + 1, end, byte, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end || i + 2 >= text.size()) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

std::vector<std::string_view> Parts(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (true) {
    const size_t at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == text.npos) return out;
    text.remove_prefix(at + 1);
  }
}

template <class T>
bool ToNumber(std::string_view text, T* out) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// All have their line break.
Result<std::vector<std::vector<std::string_view>>> WordsOf(std::string_view text) {
  std::vector<std::vector<std::string_view>> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return Error(FsError::kBadRequest, "the mount's answer is cut off");
    out.push_back(Parts(text.substr(0, end), ' '));
    text.remove_prefix(end + 1);
  }
  if (out.empty()) return Error(FsError::kBadRequest, "the mount's answer is empty");
  return out;
}

Error Strange() { return Error(FsError::kBadRequest, "the mount's answer is not understood: it is of another version than this command"); }

std::string LineOf(const WhereRow& r) {
  return std::to_string(r.offset) + " " + std::to_string(r.length) + " " + r.role + " " + Escaped(r.node) + " " + Escaped(r.disk) + " " +
         r.health + " " + std::to_string(r.stripe.v) + "\n";
}

// One page that fills.
class RowsWriter {
 public:
  RowsWriter(uint64_t size, uint64_t from, size_t max_bytes) : size_(size), covered_to_(from), room_(max_bytes - kHeadBytes) {}

  // The next rows of the file's bytes, and after the last of them those of redundancy. False: the page is full.
  bool Add(const std::vector<WhereRow>& data, const std::vector<WhereRow>& redundancy) {
    std::string more;
    for (const WhereRow& r : redundancy) more += LineOf(r);
    for (size_t i = 0; i < data.size(); ++i) {
      const std::string line = LineOf(data[i]);
      const bool last = i + 1 == data.size();
      if (text_.size() + line.size() + (last ? more.size() : 0) > room_) return false;
      text_ += line;
      covered_to_ = data[i].offset + data[i].length;
    }
    text_ += more;
    return true;
  }
  std::string Take() const { return std::to_string(size_) + " " + std::to_string(covered_to_) + "\n" + text_; }

 private:
  const uint64_t size_;
  uint64_t covered_to_;
  const size_t room_;
  std::string text_;
};

}  // namespace

// ---- Rows -----------------------------------------------------------------------------------------

std::string RowsName(const RowsWanted& wanted) {
  return std::string(kToldRows) + std::to_string(wanted.from) + "," + std::to_string(wanted.offset) + "," + std::to_string(wanted.length);
}

Result<RowsWanted> ParseRowsName(std::string_view name) {
  RowsWanted w;
  const std::vector<std::string_view> parts = Parts(name.substr(kToldRows.size()), ',');
  const bool good = parts.size() == 3 && ToNumber(parts[0], &w.from) && ToNumber(parts[1], &w.offset) && ToNumber(parts[2], &w.length) &&
                    w.offset <= w.from && w.length <= UINT64_MAX - w.offset && w.from <= w.offset + w.length;
  if (!good) return Error(FsError::kInval, "this is no page of a range");
  return w;
}

std::string RowsText(uint64_t size, const std::vector<Extent>& extents, const std::vector<StripeGrant>& stripes, const ClusterMap& map,
                     const RowsWanted& wanted, uint64_t known_to, size_t max_bytes) {
  std::map<StripeId, const StripeGrant*> by_id;
  for (const StripeGrant& g : stripes) by_id[g.info.id] = &g;
  const uint64_t end = std::min(known_to, wanted.offset + wanted.length);
  RowsWriter page(size, wanted.from, max_bytes);
  uint64_t at = wanted.from;
  const auto hole_to = [&](uint64_t to) { return at >= to || page.Add(WhereRows({}, {}, map, at, to - at), {}); };
  for (const Extent& e : extents) {
    const uint64_t first = std::max(e.file_offset, wanted.offset), last = std::min(e.end(), end);
    if (last <= at || first >= last) continue;
    if (!hole_to(first)) return page.Take();
    const auto stripe = by_id.find(e.stripe);
    std::vector<StripeGrant> its;
    if (stripe != by_id.end()) its.push_back(*stripe->second);
    // What covers them concerns all of the part that is in the range, also where pages before had some of it.
    std::vector<WhereRow> data, redundancy;
    for (WhereRow& r : WhereRows({e}, its, map, first, last - first)) {
      if (IsRedundancy(r)) redundancy.push_back(std::move(r));
    }
    const uint64_t from = std::max(first, at);
    for (WhereRow& r : WhereRows({e}, its, map, from, last - from)) {
      if (!IsRedundancy(r)) data.push_back(std::move(r));
    }
    if (!page.Add(data, redundancy)) return page.Take();
    at = last;
  }
  (void)hole_to(end);
  return page.Take();
}

Result<RowsPage> ParseRows(std::string_view text) {
  ASSIGN_OR_RETURN(const auto lines, WordsOf(text));
  RowsPage page;
  if (lines[0].size() != 2 || !ToNumber(lines[0][0], &page.size) || !ToNumber(lines[0][1], &page.covered_to)) return Strange();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view>& w = lines[i];
    if (w.size() != 7) return Strange();
    WhereRow row;
    std::optional<std::string> node = Unescaped(w[3]), disk = Unescaped(w[4]);
    if (!ToNumber(w[0], &row.offset) || !ToNumber(w[1], &row.length) || !node || !disk || !ToNumber(w[6], &row.stripe.v)) return Strange();
    row.role = w[2];
    row.node = std::move(*node);
    row.disk = std::move(*disk);
    row.health = w[5];
    page.rows.push_back(std::move(row));
  }
  return page;
}

// ---- Layout ---------------------------------------------------------------------------------------

std::string LayoutText(const ToldLayout& layout) { return layout.spec + (layout.inherited ? " inherited\n" : " own\n"); }

Result<ToldLayout> ParseToldLayout(std::string_view text) {
  ASSIGN_OR_RETURN(const auto lines, WordsOf(text));
  if (lines.size() != 1 || lines[0].size() != 2 || (lines[0][1] != "inherited" && lines[0][1] != "own")) return Strange();
  return ToldLayout{std::string(lines[0][0]), lines[0][1] == "inherited"};
}

// ---- Nodes ----------------------------------------------------------------------------------------

std::string NodesName(size_t first) { return std::string(kToldNodes) + std::to_string(first); }

Result<size_t> ParseNodesName(std::string_view name) {
  size_t first = 0;
  if (!ToNumber(name.substr(kToldNodes.size()), &first)) return Error(FsError::kInval, "this is no page of nodes");
  return first;
}

std::string NodesText(const std::vector<NodeInfo>& nodes, size_t first, size_t max_bytes) {
  std::string text = std::to_string(nodes.size()) + "\n";
  for (size_t i = first; i < nodes.size(); ++i) {
    const NodeInfo& n = nodes[i];
    const std::string line = std::to_string(n.id.v) + " " + std::to_string(static_cast<unsigned>(n.state)) + " " + Escaped(n.name) + " " +
                             Escaped(n.address) + "\n";
    if (text.size() + line.size() > max_bytes) break;
    text += line;
  }
  return text;
}

Result<NodesPage> ParseNodes(std::string_view text) {
  ASSIGN_OR_RETURN(const auto lines, WordsOf(text));
  NodesPage page;
  if (lines[0].size() != 1 || !ToNumber(lines[0][0], &page.total)) return Strange();
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view>& w = lines[i];
    if (w.size() != 4) return Strange();
    NodeInfo node;
    unsigned state = 0;
    std::optional<std::string> name = Unescaped(w[2]), address = Unescaped(w[3]);
    const bool good = ToNumber(w[0], &node.id.v) && ToNumber(w[1], &state) && name && address &&
                      state >= static_cast<unsigned>(NodeState::kUp) && state <= static_cast<unsigned>(NodeState::kOut);
    if (!good) return Strange();
    node.state = static_cast<NodeState>(state);
    node.name = std::move(*name);
    node.address = std::move(*address);
    page.nodes.push_back(std::move(node));
  }
  return page;
}

// ---- Paths ----------------------------------------------------------------------------------------

std::string PathsName(const PathsWanted& wanted) { return std::string(kToldPaths) + std::to_string(wanted.ino) + "," + std::to_string(wanted.from); }

Result<PathsWanted> ParsePathsName(std::string_view name) {
  PathsWanted w;
  const std::vector<std::string_view> parts = Parts(name.substr(kToldPaths.size()), ',');
  const bool good = parts.size() == 2 && ToNumber(parts[0], &w.ino) && ToNumber(parts[1], &w.from);
  if (!good) return Error(FsError::kInval, "this is no part of an inode's names");
  return w;
}

std::string PathsText(const std::vector<std::string>& paths, uint64_t hidden, bool more, uint64_t from, size_t max_bytes) {
  std::string list;
  for (const std::string& path : paths) list += Escaped(path) + "\n";
  std::string text = std::to_string(list.size()) + " " + std::to_string(hidden) + (more ? " 1\n" : " 0\n");
  if (from < list.size()) text.append(list, from, max_bytes - text.size());
  return text;
}

Result<PathsPart> ParsePathsPart(std::string_view text) {
  const size_t head = text.find('\n');
  if (head == text.npos) return Strange();
  const std::vector<std::string_view> words = Parts(text.substr(0, head), ' ');
  PathsPart part;
  unsigned more = 0;
  const bool good = words.size() == 3 && ToNumber(words[0], &part.total_bytes) && ToNumber(words[1], &part.hidden) && ToNumber(words[2], &more) && more <= 1;
  if (!good) return Strange();
  part.more = more == 1;
  part.bytes = text.substr(head + 1);
  return part;
}

Result<std::vector<std::string>> ParsePaths(std::string_view list) {
  std::vector<std::string> out;
  if (list.empty()) return out;
  ASSIGN_OR_RETURN(const auto lines, WordsOf(list));
  for (const std::vector<std::string_view>& words : lines) {
    std::optional<std::string> path = words.size() == 1 ? Unescaped(words[0]) : std::nullopt;
    if (!path) return Strange();
    out.push_back(std::move(*path));
  }
  return out;
}

}  // namespace stria
