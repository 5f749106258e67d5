#include "client/vfs/residence.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "client/vfs/virtual_xattr.h"
#include "locality/place.h"
#include "locality/report.h"
#include "stripe/extent_map.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

constexpr std::string_view kLocations = "user.stria.locations";
// Of one walk over a file's mapping: 2 TiB of full default stripes. What is left out is said.
constexpr size_t kMaxWalkedStripes = 65'536;
// Rows of .locations that are asked for: more than fit into a value.
constexpr size_t kMaxRows = 4096;
// Of one walk over a tree.
constexpr size_t kMaxWalkedEntries = 200'000;
constexpr int64_t kMaxTreeWalkNs = 10 * kSecond;
constexpr uint32_t kEntriesPerCall = 1000;
constexpr size_t kMaxTallies = 50'000;

}  // namespace

// What of a file is where, as far as the walk went.
struct Residence::Where {
  std::vector<WhereRow> rows;  // only if asked for
  std::vector<HostShare> hosts;
  DataHealth health = DataHealth::kOk;
  uint64_t covered_to = 0;
  bool complete = true;
};

std::shared_ptr<ReadTally> Residence::TallyOf(InodeId ino) {
  if (auto it = tallies_.find(ino); it != tallies_.end()) return it->second;
  // Only those of files that are in use stay.
  if (tallies_.size() >= kMaxTallies) std::erase_if(tallies_, [](const auto& t) { return t.second.use_count() == 1; });
  return tallies_[ino] = std::make_shared<ReadTally>();
}

Task<Result<Residence::Where>> Residence::WhereIs(Caller who, InodeId ino, uint64_t offset, uint64_t length,
                                                  size_t max_rows) {
  CO_RETURN_IF_ERROR(co_await needs_.commit(ino));
  Where out;
  size_t stripes = 0;
  uint64_t end = RangeEnd(offset, length);
  for (uint64_t at = offset; at < end;) {
    if (stripes >= kMaxWalkedStripes || (max_rows > 0 && out.rows.size() >= max_rows)) {
      out.complete = false;
      break;
    }
    GetExtentsRequest r;
    r.ino = ino;
    r.offset = at;
    r.length = end - at;
    CO_ASSIGN_OR_RETURN(const GetExtentsReply reply,
                        co_await session_.Call(&MetaService::GetExtents, std::move(r), who));
    end = std::min(end, reply.attr.size);
    const uint64_t to = std::min(end, reply.covered_to);
    if (to <= at) break;
    const std::shared_ptr<const ClusterMap> map = peers_.map();
    std::vector<WhereRow> rows = WhereRows(reply.extents, reply.stripes, *map, at, to - at);
    AddHosts(ByHost(rows), &out.hosts);
    out.health = std::max(out.health, HealthOf(reply.stripes, *map));
    if (max_rows > 0) out.rows.insert(out.rows.end(), rows.begin(), rows.end());
    stripes += std::max<size_t>(reply.stripes.size(), 1);
    at = out.covered_to = to;
  }
  co_return out;
}

Task<Result<std::string>> Residence::OfFile(Caller who, InodeId ino, std::string name) {
  uint64_t offset = 0, length = kMaxFileBytes;
  const bool locations = name.starts_with(kLocations);
  if (locations && name.size() > kLocations.size()) {
    if (name[kLocations.size()] != '@') co_return Error(FsError::kNoData);
    CO_ASSIGN_OR_RETURN(const auto range, ParseRange(name.substr(kLocations.size() + 1), kMaxFileBytes));
    std::tie(offset, length) = range;
  }
  CO_ASSIGN_OR_RETURN(const Where is, co_await WhereIs(who, ino, offset, length, locations ? kMaxRows : 0));
  if (locations) {
    co_return LocationsText(is.rows, kMaxXattrValueBytes,
                            is.complete ? std::nullopt : std::optional(is.covered_to));
  }
  std::string text;
  if (name == "user.stria.hosts") {
    text = HostsText(is.hosts);
  } else if (name == "user.stria.health") {
    text = DataHealthName(is.health);
  } else {
    const NodeInfo* node = peers_.map()->FindNode(peers_.local_node());
    text = LocalText(is.hosts, node == nullptr ? "" : node->name);
  }
  if (!is.complete) text += " of the first " + std::to_string(is.covered_to) + " bytes";
  co_return text;
}

// The sum over a tree, as committed: the metadata keeps none. ">=" before it says that the walk was too long, or
// that directories could not be read.
Task<Result<std::string>> Residence::OfTree(Caller who, InodeId ino, bool bytes) {
  const int64_t end_ns = Executor::Current().NowNs() + kMaxTreeWalkNs;
  std::vector<InodeId> todo = {ino};
  uint64_t sum = 0;
  size_t seen = 0;
  bool complete = true;
  while (!todo.empty() && complete) {
    const InodeId dir = todo.back();
    todo.pop_back();
    ReadDirReply reply;
    for (uint64_t cookie = 0; !reply.end && complete; cookie = reply.entries.empty() ? 0 : reply.entries.back().cookie) {
      ReadDirRequest r;
      r.ino = dir;
      r.cookie = cookie;
      r.limit = kEntriesPerCall;
      r.with_attrs = bytes;
      auto got = co_await session_.Call(&MetaService::ReadDir, std::move(r), who);
      if (!got.ok() && dir == ino) co_return got.error();
      if (!got.ok() && got.code() == FsError::kStale) break;  // removed meanwhile
      if (!got.ok() && got.code() != FsError::kAccess) co_return got.error();
      complete = got.ok();
      if (!complete) break;
      reply = std::move(*got);
      if (reply.entries.empty()) break;
      for (const DirEntry& e : reply.entries) {
        if (e.type == FileType::kDirectory) todo.push_back(e.ino);
        if (e.type != FileType::kFile) continue;
        if (!bytes || e.attr) {
          sum += bytes ? e.attr->size : 1;
        } else if (const auto now = co_await needs_.stat(who, e.ino); now.ok()) {  // someone writes it just now
          sum += now->size;
        }
      }
      seen += reply.entries.size();
      complete = seen < kMaxWalkedEntries && Executor::Current().NowNs() < end_ns;
    }
  }
  co_return (complete ? "" : ">=") + std::to_string(sum);
}

Task<Result<std::string>> Residence::Get(Caller who, InodeId ino, std::string name) {
  CO_ASSIGN_OR_RETURN(const Attr attr, co_await needs_.stat(who, ino));
  const bool file = attr.type == FileType::kFile;
  const bool dir = attr.type == FileType::kDirectory;
  if (!file && !dir) co_return Error(FsError::kNoData);
  const std::string_view what = std::string_view(name).substr(kVirtualXattrs.size());
  if (what == "layout") {
    LayoutRequest r;
    r.ino = ino;
    CO_ASSIGN_OR_RETURN(const LayoutReply reply,
                        co_await session_.Call(&MetaService::GetLayout, std::move(r), who));
    co_return NodeNameForNumber(LayoutToString(reply.layout), *peers_.map());
  }
  if (what == "node") {
    const NodeInfo* node = peers_.map()->FindNode(peers_.local_node());
    if (node == nullptr) co_return Error(FsError::kNoData);
    co_return node->name;
  }
  if (what == "io") {
    const auto tally = tallies_.find(ino);
    if (dir) co_return ReadTallyText(reader_.stats().tally);
    co_return ReadTallyText(tally == tallies_.end() ? ReadTally() : *tally->second);
  }
  if (dir && (what == "rbytes" || what == "rfiles")) co_return co_await OfTree(std::move(who), ino, what == "rbytes");
  if (file && (what == "hosts" || what == "local" || what == "health" || what.starts_with("locations"))) {
    co_return co_await OfFile(std::move(who), ino, std::move(name));
  }
  co_return Error(FsError::kNoData);
}

Task<Result<void>> Residence::SetLayout(Caller who, InodeId ino, std::string text) {
  CO_ASSIGN_OR_RETURN(const std::string spec, NodeNumberForName(text, *peers_.map()));
  CO_ASSIGN_OR_RETURN(const Layout layout, ParseLayout(spec));
  LayoutRequest r;
  r.ino = ino;
  r.layout = layout;
  auto reply = co_await session_.Mutate(&MetaService::SetLayout, std::move(r), std::move(who));
  needs_.changed(ino);
  if (reply.code() == FsError::kTooFewDomains) co_return Error(FsError::kInval, reply.error().message);
  if (!reply.ok()) co_return reply.error();
  needs_.layout_is(ino, reply->layout);
  co_return Ok();
}

}  // namespace stria
