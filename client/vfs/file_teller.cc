#include "client/vfs/file_teller.h"

#include <algorithm>
#include <memory>

#include "locality/told.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

// Up to where the reply tells everything: at an end of an extent, in a hole, or at `end`. Extents are whole there.
uint64_t KnownTo(const GetExtentsReply& reply, uint64_t from, uint64_t end) {
  const uint64_t to = std::min(reply.covered_to, end);
  if (to == end || reply.extents.empty()) return to;
  const Extent& last = reply.extents.back();
  if (last.end() <= to || last.file_offset >= to) return to;
  return last.file_offset > from ? last.file_offset : std::min(last.end(), end);
}

}  // namespace

Task<Result<std::string>> FileTeller::Rows(Caller who, InodeId ino, std::string name) {
  CO_ASSIGN_OR_RETURN(RowsWanted wanted, ParseRowsName(name));
  CO_RETURN_IF_ERROR(co_await needs_.commit(ino));
  GetExtentsRequest r;
  r.ino = ino;
  r.offset = wanted.from;
  r.length = wanted.offset + wanted.length - wanted.from;
  CO_ASSIGN_OR_RETURN(const GetExtentsReply reply, co_await session_.Call(&MetaService::GetExtents, std::move(r), who));
  // The file may have become shorter.
  const uint64_t end = std::max(wanted.from, std::min(wanted.offset + wanted.length, reply.attr.size));
  wanted.length = end - wanted.offset;
  const std::shared_ptr<const ClusterMap> map = peers_.map();
  co_return RowsText(reply.attr.size, reply.extents, reply.stripes, *map, wanted, KnownTo(reply, wanted.from, end), kMaxXattrValueBytes);
}

// Of any inode, as listing directories would tell the caller: the server looks at what he may list, and that the session was shown it.
Task<Result<std::string>> FileTeller::Paths(Caller who, std::string name) {
  CO_ASSIGN_OR_RETURN(const PathsWanted wanted, ParsePathsName(name));
  InodeRequest r;
  r.ino = InodeId(wanted.ino);
  // The server may not have heard of a new file. Whoever makes a mount write what it has could do so by sync(2), too.
  CO_RETURN_IF_ERROR(co_await needs_.commit(r.ino));
  // Any user may ask about any number. Asked by a confined session the server would take that for an attempt, and note it.
  if (!session_.CanName(r.ino)) co_return Error(FsError::kStale);
  CO_ASSIGN_OR_RETURN(const PathsReply reply, co_await session_.Call(&MetaService::Paths, std::move(r), std::move(who)));
  co_return PathsText(reply.paths, reply.hidden, reply.more, wanted.from, kMaxXattrValueBytes);
}

Task<Result<std::string>> FileTeller::Get(Caller who, InodeId ino, std::string name) {
  CO_ASSIGN_OR_RETURN(const Attr attr, co_await needs_.stat(who, ino));
  const bool file = attr.type == FileType::kFile;
  if (!file && attr.type != FileType::kDirectory) co_return Error(FsError::kNoData);
  if (name.starts_with(kToldNodes)) {
    CO_ASSIGN_OR_RETURN(const size_t first, ParseNodesName(name));
    co_return NodesText(peers_.map()->nodes, first, kMaxXattrValueBytes);
  }
  if (name == kToldLayout) {
    LayoutRequest r;
    r.ino = ino;
    CO_ASSIGN_OR_RETURN(const LayoutReply reply, co_await session_.Call(&MetaService::GetLayout, std::move(r), who));
    co_return LayoutText({LayoutToString(reply.layout), reply.inherited});
  }
  if (name.starts_with(kToldPaths)) co_return co_await Paths(std::move(who), std::move(name));
  if (file && name.starts_with(kToldRows)) co_return co_await Rows(std::move(who), ino, std::move(name));
  co_return Error(FsError::kNoData);
}

}  // namespace stria
