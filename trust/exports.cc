#include "trust/exports.h"

#include <algorithm>
#include <charconv>

#include "common/printable.h"

namespace stria {
namespace {

constexpr size_t kMaxPattern = 253;

Error Bad(const std::string& why) { return Error(FsError::kInval, "the export is not understood: " + why); }

bool IsPattern(std::string_view glob) {
  return !glob.empty() && glob.size() <= kMaxPattern && std::all_of(glob.begin(), glob.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_' || c == '*' || c == '?';
  });
}

// As in /etc/exports and /proc/mounts: three octal digits.
std::string EscapePath(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const auto b = static_cast<uint8_t>(c);
    if (b > ' ' && b < 0x7f && c != '\\' && c != '#') {
      out += c;
    } else {
      out += '\\';
      for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + (b >> shift & 7));
    }
  }
  return out;
}

bool UnescapePath(std::string_view text, std::string* path) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      *path += text[i];
      continue;
    }
    if (text.size() - i < 4) return false;
    unsigned value = 0;
    for (size_t j = i + 1; j < i + 4; ++j) {
      if (text[j] < '0' || text[j] > '7') return false;
      value = value * 8 + static_cast<unsigned>(text[j] - '0');
    }
    if (value > 255) return false;
    *path += static_cast<char>(value);
    i += 3;
  }
  return true;
}

// Calls `each` for what is between commas; false if it says so.
template <class F>
bool EachOf(std::string_view list, F each) {
  while (true) {
    const size_t comma = list.find(',');
    if (!each(list.substr(0, comma))) return false;
    if (comma == list.npos) return true;
    list.remove_prefix(comma + 1);
  }
}

bool ParseId(std::string_view text, uint32_t* id) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *id);
  return !text.empty() && error == std::errc() && end == text.data() + text.size() && *id != UINT32_MAX;  // -1 means "no change" to chown
}

bool ParseRanges(std::string_view text, IdRanges* out) {
  const bool good = EachOf(text, [&](std::string_view item) {
    const size_t dash = item.find('-');
    uint32_t lo = 0, hi = 0;
    if (!ParseId(item.substr(0, dash), &lo)) return false;
    hi = lo;
    if (dash != item.npos && !ParseId(item.substr(dash + 1), &hi)) return false;
    out->emplace_back(lo, hi);
    return lo <= hi && out->size() <= kMaxExportRanges;
  });
  std::sort(out->begin(), out->end());
  for (size_t i = 1; i < out->size(); ++i) {
    if ((*out)[i].first <= (*out)[i - 1].second) return false;
  }
  return good;
}

std::string FormatRanges(const IdRanges& ranges) {
  std::string out;
  for (const auto& [lo, hi] : ranges) {
    out += (out.empty() ? "" : ",") + std::to_string(lo);
    if (hi != lo) out += "-" + std::to_string(hi);
  }
  return out;
}

bool ParseClients(std::string_view text, std::vector<ClientPattern>* out) {
  out->clear();
  return EachOf(text, [&](std::string_view item) {
    ClientPattern p;
    if (const std::optional<Network> network = ParseNetwork(item)) {
      p.network = *network;
    } else if (IsPattern(item)) {
      p.glob = item;
      // Digits and dots only: somebody meant an address, and a name that looks so would never be one's.
      if (item.find_first_not_of("0123456789.") == item.npos) return false;
    } else {
      return false;
    }
    out->push_back(std::move(p));
    return out->size() <= kMaxExportClients;
  });
}

}  // namespace

bool GlobMatches(std::string_view glob, std::string_view name) {
  size_t g = 0, n = 0, star = glob.npos, from = 0;
  while (n < name.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      from = n;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == name[n])) {
      ++g, ++n;
    } else if (star != glob.npos) {
      g = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

bool ClientPattern::Matches(const Peer& peer) const {
  if (!glob.empty()) return GlobMatches(glob, peer.name);
  const std::optional<IpAddress> from = IpOfAddress(peer.address);
  return from && network.Has(*from);
}

bool Believed(const IdRanges& ranges, uint32_t id) {
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const auto& r) { return r.first <= id && id <= r.second; });
}

bool IsExportPath(std::string_view path) {
  if (path == "/") return true;
  if (path.empty() || path.size() > kMaxExportPath || path[0] != '/' || path.find('\0') != path.npos) return false;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return path.back() != '/';
}

Result<Export> ParseExport(std::string_view line) {
  if (line.size() > kMaxExportText) return Bad("it is too long");
  Export e;
  std::vector<std::string_view> seen;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) break;
    const std::string_view word = line.substr(0, line.find_first_of(" \t"));
    line.remove_prefix(word.size());
    const size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals), value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
    const std::string shown = "'" + Printable(word.substr(0, 80)) + "'";
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) return Bad(shown + " says again what was said before it");
    seen.push_back(key);
    if (key == "path") {
      e.path.clear();
      if (!UnescapePath(value, &e.path) || !IsExportPath(e.path)) return Bad(shown + " is no absolute path without '.', '..', '//' and a slash at its end");
    } else if (key == "clients") {
      if (!ParseClients(value, &e.clients)) return Bad(shown + " is no list of names (with * and ?) and networks (10.3.0.0/16)");
    } else if (key == "access") {
      if (value != "ro" && value != "rw") return Bad(shown + " is neither access=ro nor access=rw");
      e.read_only = value == "ro";
    } else if (key == "squash") {
      if (value != "root" && value != "all" && value != "none") return Bad(shown + " is none of squash=root, squash=all, squash=none");
      e.squash = value == "root" ? Export::Squash::kRoot : value == "all" ? Export::Squash::kAll : Export::Squash::kNone;
    } else if (key == "uids" || key == "gids") {
      if (!ParseRanges(value, key == "uids" ? &e.uids : &e.gids)) return Bad(shown + " is no list of ranges such as 1000-59999,65534 that are apart from each other");
    } else {
      return Bad(shown + " is none of path=, clients=, access=, squash=, uids=, gids=");
    }
  }
  if (std::find(seen.begin(), seen.end(), "path") == seen.end()) return Bad("it has no path=");
  return e;
}

std::string FormatExport(const Export& e) {
  std::string out = "path=" + EscapePath(e.path) + " clients=";
  for (size_t i = 0; i < e.clients.size(); ++i) {
    const ClientPattern& p = e.clients[i];
    out += (i == 0 ? "" : ",") + (p.glob.empty() ? p.network.ToString() : p.glob);
  }
  out += e.read_only ? " access=ro" : " access=rw";
  out += e.squash == Export::Squash::kRoot ? " squash=root" : e.squash == Export::Squash::kAll ? " squash=all" : " squash=none";
  if (!e.uids.empty()) out += " uids=" + FormatRanges(e.uids);
  if (!e.gids.empty()) out += " gids=" + FormatRanges(e.gids);
  return out;
}

const Export* FindExport(const std::vector<Export>& exports, std::string_view path, const Peer& peer) {
  const Export* best = nullptr;
  for (const Export& e : exports) {
    const bool above = e.path == "/" || (path.starts_with(e.path) && (path.size() == e.path.size() || path[e.path.size()] == '/'));
    if (!above || (best && best->path.size() >= e.path.size())) continue;
    if (std::any_of(e.clients.begin(), e.clients.end(), [&](const ClientPattern& p) { return p.Matches(peer); })) best = &e;
  }
  return best;
}

CallerIds SquashCaller(const Export& e, const CallerIds& claimed, bool trusted_root) {
  if (e.squash == Export::Squash::kAll) return CallerIds();
  const bool root = trusted_root || e.squash == Export::Squash::kNone;
  if (claimed.uid == 0 && root) return claimed;  // it could claim any other id as well
  const auto good_gid = [&](uint32_t gid) { return gid != 0 ? Believed(e.gids, gid) : root && Believed(e.gids, gid); };
  if (claimed.uid == 0 || !Believed(e.uids, claimed.uid)) return CallerIds();
  CallerIds out;
  out.uid = claimed.uid;
  out.gid = good_gid(claimed.gid) ? claimed.gid : kNobody;
  std::copy_if(claimed.groups.begin(), claimed.groups.end(), std::back_inserter(out.groups), good_gid);
  return out;
}

}  // namespace stria
