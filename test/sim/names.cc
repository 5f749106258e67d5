// Names in a directory per client: made, removed, renamed by its client alone.
#include <algorithm>
#include <utility>

#include "test/sim/root_caller.h"
#include "test/sim/world.h"

namespace stria {
namespace {
constexpr int64_t kRetryNs = 200 * kMillisecond;
}  // namespace

Task<void> SimWorld::Namer(size_t client, uint64_t seed) {
  Random rng(seed);
  Names* names = names_[client].get();
  ++actors_;
  while (!stopping()) {
    co_await Sleep(static_cast<int64_t>(rng.Below(300 * kMillisecond)));
    const uint64_t generation = cluster_.client(client).session().generation();
    if (std::exchange(names->generation, generation) != generation) {
      // What a power cut took only the session before could have said again.
      if (std::exchange(names->cut, false)) names->all_unsure = true;
    }
    if (names->all_unsure || !names->unsure.empty()) {
      if (!co_await ResyncNames(client, names)) co_await Sleep(kRetryNs);
      continue;
    }
    (void)co_await OneNameOperation(client, names, rng);
  }
  --actors_;
}

Task<bool> SimWorld::ResyncNames(size_t client, Names* names) {
  const std::string dir = ClientName(client) + " d" + std::to_string(client);
  std::map<std::string, bool> found;
  uint64_t cookie = 0;
  while (true) {
    auto page = co_await cluster_.vfs(client).ReadDir(kRoot, names->dir, cookie, 7, false);
    if (!page.ok()) {
      Trace(dir + " list: " + page.error().ToString());
      co_return false;
    }
    for (const DirEntry& e : page->entries) {
      found[e.name] = e.type == FileType::kDirectory;
      cookie = e.cookie;
    }
    if (page->end) break;
  }
  for (const auto& [name, is_dir] : names->entries) {
    if (names->all_unsure || names->unsure.contains(name)) continue;
    if (!found.contains(name)) Fail("directory d" + std::to_string(client) + " lost the name " + name);
  }
  for (const auto& [name, is_dir] : found) {
    if (names->all_unsure || names->unsure.contains(name)) continue;
    if (!names->entries.contains(name)) Fail("directory d" + std::to_string(client) + " has a stray name " + name);
  }
  Trace(dir + " list: " + std::to_string(found.size()) + " names");
  names->entries = found;
  names->unsure.clear();
  names->all_unsure = false;
  co_return true;
}

Task<bool> SimWorld::OneNameOperation(size_t client, Names* names, Random& rng) {
  Vfs& vfs = cluster_.vfs(client);
  auto pick = [&]() -> std::string {
    auto it = names->entries.begin();
    std::advance(it, static_cast<ptrdiff_t>(rng.Below(names->entries.size())));
    return it->first;
  };
  const std::string dir = ClientName(client) + " d" + std::to_string(client);
  const uint64_t kind = rng.Below(4);
  const std::string fresh = "x" + std::to_string(names->next++);
  Error error;
  std::string a, b;
  const char* verb = "";
  const bool cut = std::exchange(names->cut, false);
  ++counts_["name operations"];
  if (kind == 0 || names->entries.empty()) {
    a = fresh;
    verb = " make ";
    names->unsure.insert(a);  // until the answer is known; survives a crash of this client
    auto r = co_await vfs.MakeNode(kRoot, names->dir, a, FileType::kFile, 0644, 0, "");
    if (r.ok()) names->entries[a] = false;
    error = r.ok() ? Error() : r.error();
  } else if (kind == 1) {
    a = fresh;
    verb = " mkdir ";
    names->unsure.insert(a);
    auto r = co_await vfs.MakeNode(kRoot, names->dir, a, FileType::kDirectory, 0755, 0, "");
    if (r.ok()) names->entries[a] = true;
    error = r.ok() ? Error() : r.error();
  } else if (kind == 2) {
    a = pick();
    verb = " remove ";
    names->unsure.insert(a);
    const bool is_dir = names->entries[a];
    Result<void> r = Ok();
    if (is_dir) r = co_await vfs.Rmdir(kRoot, names->dir, a);
    else r = co_await vfs.Unlink(kRoot, names->dir, a);
    if (r.ok()) names->entries.erase(a);
    error = r.error();
  } else {
    a = pick();
    b = fresh;
    verb = " rename ";
    names->unsure.insert(a);
    names->unsure.insert(b);
    const bool is_dir = names->entries[a];
    auto r = co_await vfs.Rename(kRoot, names->dir, a, names->dir, b, false, false);
    if (r.ok()) {
      names->entries.erase(a);
      names->entries[b] = is_dir;
    }
    error = r.error();
  }
  Trace(dir + verb + a + (b.empty() ? "" : " " + b) + ": " + error.ToString());
  if (!error.ok()) names->cut |= cut;
  if (error.ok()) {
    names->unsure.erase(a);
    names->unsure.erase(b);
    co_return true;
  }
  // Answers that only a repeated execution (or a lost one) would give.
  if (error.code == FsError::kExist || error.code == FsError::kNoEnt || error.code == FsError::kNotEmpty) {
    Fail("name operation " + std::to_string(kind) + " of c" + std::to_string(client + 1) + " on " + a + " " + b +
         ": " + error.ToString());
  }
  ++counts_["failed name operations"];
  co_return false;
}

}  // namespace stria
