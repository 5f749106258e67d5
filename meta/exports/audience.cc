// Which clients may read a file, as a number: what is folded together must have the same (docs/folding.md).
//
// A file is shown by every export whose path is above one of its names. Which users a client may name there does not matter: with
// tokens the client is trusted, and its users are not.
#include <algorithm>
#include <set>

#include "common/codec.h"
#include "meta/exports/export_room.h"
#include "meta/ops/ops.h"

namespace stria {
namespace {

constexpr size_t kMaxNames = 64;
constexpr std::string_view kUnknown = "/...";  // how OpPaths begins what is too deep

bool IsAbove(const std::string& path, const std::string& name) {
  return path == "/" || (name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '/'));
}

// Only of these.
std::string ClientsOf(const Export& e) {
  Export clients;
  clients.clients = e.clients;
  return FormatExport(clients);
}

}  // namespace

Result<uint64_t> ExportRoom::AudienceOf(Txn& txn, const std::vector<InodeId>& files) const {
  if (std::ranges::all_of(items_, [](const Item& i) { return i.e.path == "/"; })) return 0;
  std::set<std::string> of_each;
  for (const InodeId ino : files) {
    PathsPage names;
    Result<PathsPage> found = OpPaths(txn, OpCtx(), ino, {}, kMaxNames);
    if (found.ok()) names = *std::move(found);
    else if (found.code() != FsError::kNoEnt && found.code() != FsError::kStale) return found.error();
    std::set<std::string> clients;
    const auto unknown = [](const std::string& name) { return name.starts_with(kUnknown); };
    const bool known = !names.paths.empty() && names.next.empty() && names.hidden == 0 && std::ranges::none_of(names.paths, unknown);
    for (const Item& i : items_) {
      if (std::ranges::any_of(names.paths, [&](const std::string& name) { return IsAbove(i.e.path, name); })) clients.insert(ClientsOf(i.e));
    }
    ByteWriter w;
    w.U64(known ? 0 : ino.v);
    for (const std::string& c : clients) w.Str(c);
    of_each.insert(w.Take());
  }
  ByteWriter all;
  for (const std::string& one : of_each) all.Str(one);
  const std::string& bytes = all.str();
  return SipHash24(SipKey(), {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace stria
