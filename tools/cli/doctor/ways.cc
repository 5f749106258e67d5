#include "tools/cli/doctor/ways.h"

#include <algorithm>
#include <utility>

#include "common/address.h"

namespace stria::cli::doctor {
namespace {

constexpr std::string_view kTrustOption = "trust=";

// "pc1,pc2:7424:/atlas", with or without "stria:" before it, as mount(8) takes it.
std::vector<std::string> MetasOf(std::string_view source) {
  if (source.starts_with("stria:")) source.remove_prefix(6);
  return SplitAddresses(source.substr(0, source.find(":/")));
}

bool IsOfStria(const MountLine& line) { return line.type == "fuse.stria" || line.type == "stria"; }

std::string TrustOf(const MountLine& line) {
  std::string out;  // the last one counts
  for (const std::string& option : line.options) {
    if (option.starts_with(kTrustOption)) out = option.substr(kTrustOption.size());
  }
  return out;
}

}  // namespace

std::vector<Way> WaysToCluster(const std::vector<std::string>& data_metas, const std::string& data_file, const std::string& data_trust,
                               const std::vector<StriaMount>& mounts, const std::vector<MountLine>& fstab) {
  std::vector<Way> out;
  const auto add = [&out](Way way) {
    Result<std::vector<std::string>> metas = WithPorts(way.metas, kDefaultMetaPort);
    if (!metas.ok() || metas->empty()) return;
    way.metas = std::move(*metas);
    const auto same = [&way](const Way& w) { return std::ranges::is_permutation(w.metas, way.metas); };
    if (std::ranges::none_of(out, same)) out.push_back(std::move(way));
  };
  add({data_file, data_metas, data_trust, ""});
  for (auto m = mounts.rbegin(); m != mounts.rend(); ++m) {
    std::string trust;
    for (const MountLine& line : fstab) {
      if (IsOfStria(line) && line.point == m->path) trust = TrustOf(line);
    }
    add({"the mount " + m->path, m->addresses, std::move(trust), m->path});
  }
  for (const MountLine& line : fstab) {
    if (IsOfStria(line)) add({"/etc/fstab for " + line.point, MetasOf(line.source), TrustOf(line), ""});
  }
  return out;
}

Result<Way> TheOnlyOne(std::vector<Way> ways) {
  if (ways.empty()) return Way();
  Way one = std::move(ways.front());
  ways.erase(ways.begin());
  const auto is_of_one = [&one](const Way& w) { return std::ranges::find_first_of(w.metas, one.metas) != w.metas.end(); };
  // One that is taken in may be what another has in common.
  for (auto next = ways.begin(); (next = std::ranges::find_if(ways, is_of_one)) != ways.end(); ways.erase(next)) {
    for (std::string& a : next->metas) {
      if (std::ranges::find(one.metas, a) == one.metas.end()) one.metas.push_back(std::move(a));
    }
  }
  if (ways.empty()) return one;
  return Error(FsError::kUnavailable, "which cluster? " + one.by + " names " + one.metas.front() + ", and " + ways.front().by + " names " +
                                          ways.front().metas.front() + ": give --meta HOST[:PORT], or set STRIA_META");
}

}  // namespace stria::cli::doctor
