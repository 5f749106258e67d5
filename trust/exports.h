// Which part of the tree which clients get, and as whom. One export is one line:
//
//   path=/atlas clients=wn*.example,10.3.0.0/16 access=ro squash=root uids=1000-59999
//
//   path     what is shown: this directory is the root, and nothing beside it exists. Spaces as \040, a backslash as \134.
//   clients  names as certificates have them, with * and ?; networks; all of them together are one "or". Default *.
//            A name is proved by the client's certificate, an address only by where packets go: say names where it matters.
//   access   rw (default) or ro: no change, no token to write.
//   squash   root (default): uid and gid 0 become nobody, but for clients that were enrolled with a trusted root. all: everybody does. none.
//   uids     those that are believed, e.g. 1000-59999,65534; others become nobody. Default: all.
//   gids     the same for groups. Default: all. Groups that are not believed are left out.
//
// Pure. The metadata server keeps the list, asks at each opening of a session, and holds a session to its export.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "trust/identity.h"
#include "trust/network.h"

namespace stria {

inline constexpr uint32_t kNobody = 65534;  // uid and gid
inline constexpr size_t kMaxExportClients = 64;
inline constexpr size_t kMaxExportRanges = 32;
inline constexpr size_t kMaxExportPath = 4095;
inline constexpr size_t kMaxExportText = 16 * 1024;

// '*' any run of characters, '?' one of them; all else is itself. Takes time of at most the product of both lengths.
bool GlobMatches(std::string_view glob, std::string_view name);

struct ClientPattern {
  std::string glob;  // or empty, and
  Network network;
  bool operator==(const ClientPattern&) const = default;
  bool Matches(const Peer& peer) const;
};

// Both included, in order, apart from each other. None: every id.
using IdRanges = std::vector<std::pair<uint32_t, uint32_t>>;
bool Believed(const IdRanges& ranges, uint32_t id);

struct Export {
  enum class Squash : uint8_t { kRoot, kAll, kNone };
  std::string path = "/";
  std::vector<ClientPattern> clients = {{"*", {}}};
  bool read_only = false;
  Squash squash = Squash::kRoot;
  IdRanges uids, gids;
  bool operator==(const Export&) const = default;
};
// kInval with a sentence.
Result<Export> ParseExport(std::string_view line);
std::string FormatExport(const Export& e);

// The export by which `peer` mounts `path`: of those that name the peer and whose path is `path` or above it the nearest, of several the first.
// nullptr: it may not. REQUIRES: `path` is absolute and normal, as IsExportPath.
const Export* FindExport(const std::vector<Export>& exports, std::string_view path, const Peer& peer);
// Absolute, without "//", ".", "..", a slash at the end or zero bytes.
bool IsExportPath(std::string_view path);

// Who asks, as the client says.
struct CallerIds {
  uint32_t uid = kNobody;
  uint32_t gid = kNobody;
  std::vector<uint32_t> groups;
  bool operator==(const CallerIds&) const = default;
};
// As whom it is treated.
CallerIds SquashCaller(const Export& e, const CallerIds& claimed, bool trusted_root);

}  // namespace stria
