#include "meta/files/reply_codec.h"

#include <optional>
#include <utility>

#include "common/codec.h"
#include "meta/model/records.h"

namespace stria {
namespace {

void Write(const Attr& a, ByteWriter* w) {
  w->U64(a.ino.v);
  w->U8(static_cast<uint8_t>(a.type));
  w->U32(a.mode);
  w->U32(a.nlink);
  w->U32(a.uid);
  w->U32(a.gid);
  w->U64(a.rdev);
  w->U64(a.size);
  w->U64(a.allocated_bytes);
  w->I64(a.atime_ns);
  w->I64(a.mtime_ns);
  w->I64(a.ctime_ns);
  w->U64(a.version);
  w->U64(a.data_version);
  w->U8(a.acls);
}

Attr ReadAttr(ByteReader* r) {
  Attr a;
  a.ino = InodeId(r->U64());
  const uint8_t type = r->U8();
  if (type < 1 || type > 7) r->Fail();
  else a.type = static_cast<FileType>(type);
  a.mode = r->U32();
  a.nlink = r->U32();
  a.uid = r->U32();
  a.gid = r->U32();
  a.rdev = r->U64();
  a.size = r->U64();
  a.allocated_bytes = r->U64();
  a.atime_ns = r->I64();
  a.mtime_ns = r->I64();
  a.ctime_ns = r->I64();
  a.version = r->U64();
  a.data_version = r->U64();
  a.acls = r->U8();
  return a;
}

void Write(const std::optional<Attr>& a, ByteWriter* w) {
  w->Bool(a.has_value());
  if (a) Write(*a, w);
}
std::optional<Attr> ReadOptAttr(ByteReader* r) {
  if (!r->Bool()) return std::nullopt;
  return ReadAttr(r);
}

void Write(const NodeReply& n, ByteWriter* w) {
  Write(n.attr, w);
  Write(n.parent, w);
  Write(n.parent2, w);
  w->U64(n.seq.v);
}
NodeReply ReadNode(ByteReader* r) {
  NodeReply n;
  n.attr = ReadAttr(r);
  n.parent = ReadOptAttr(r);
  n.parent2 = ReadOptAttr(r);
  n.seq = CommitSeq(r->U64());
  return n;
}

// Runs `read` on all of `bytes`.
template <class Read>
Result<void> Decode(std::string_view bytes, Read read) {
  ByteReader r(bytes);
  read(&r);
  if (r.ok() && r.left() == 0) return Ok();
  return Error(FsError::kCorrupt, "a stored reply does not decode");
}

}  // namespace

std::string EncodeReply(const NodeReply& r) {
  ByteWriter w;
  Write(r, &w);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, NodeReply* out) {
  return Decode(bytes, [&](ByteReader* r) { *out = ReadNode(r); });
}

std::string EncodeReply(const OpenReply& r) {
  ByteWriter w;
  Write(r.node, &w);
  w.Bool(r.created);
  EncodeLayout(r.layout, &w);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, OpenReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->node = ReadNode(r);
    out->created = r->Bool();
    out->layout = DecodeLayout(r);
  });
}

std::string EncodeReply(const XattrReply& r) {
  ByteWriter w;
  w.Str(r.value);
  w.U32(static_cast<uint32_t>(r.names.size()));
  for (const std::string& n : r.names) w.Str(n);
  w.U64(r.seq.v);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, XattrReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->value = std::string(r->Str());
    uint32_t n = 0;
    r->Count(&n, 4);
    for (uint32_t i = 0; i < n && r->ok(); ++i) out->names.emplace_back(r->Str());
    out->seq = CommitSeq(r->U64());
  });
}

std::string EncodeReply(const LayoutReply& r) {
  ByteWriter w;
  EncodeLayout(r.layout, &w);
  w.Bool(r.inherited);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, LayoutReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->layout = DecodeLayout(r);
    out->inherited = r->Bool();
  });
}

std::string EncodeReply(const AllocateReply& r) {
  ByteWriter w;
  w.U32(static_cast<uint32_t>(r.stripes.size()));
  for (const StripeGrant& g : r.stripes) {
    EncodeStripeInfo(g.info, &w);
    w.U64(g.max_column_bytes);
  }
  w.U64(r.seq.v);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, AllocateReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    uint32_t n = 0;
    r->Count(&n, 8);
    for (uint32_t i = 0; i < n && r->ok(); ++i) {
      StripeGrant g;
      g.info = DecodeStripeInfo(r);
      g.max_column_bytes = r->U64();
      out->stripes.push_back(std::move(g));
    }
    out->seq = CommitSeq(r->U64());
  });
}

std::string EncodeReply(const CommitReply& r) {
  ByteWriter w;
  Write(r.attr, &w);
  w.U64(r.append_offset);
  w.U64(r.seq.v);
  if (r.parent) Write(*r.parent, &w);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, CommitReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->attr = ReadAttr(r);
    out->append_offset = r->U64();
    out->seq = CommitSeq(r->U64());
    if (r->ok() && r->left() > 0) out->parent = ReadAttr(r);
  });
}

std::string EncodeReply(const LockReply& r) {
  ByteWriter w;
  w.Bool(r.granted);
  w.Bool(r.conflict.has_value());
  if (const auto& c = r.conflict) {
    w.U64(c->ino.v);
    w.U8(static_cast<uint8_t>(c->kind));
    w.U64(c->owner);
    w.U8(static_cast<uint8_t>(c->type));
    w.U64(c->first);
    w.U64(c->last);
    w.U32(c->pid);
  }
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, LockReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->granted = r->Bool();
    if (!r->Bool()) return;
    FileLock& c = out->conflict.emplace();
    c.ino = InodeId(r->U64());
    const uint8_t kind = r->U8();
    c.owner = r->U64();
    const uint8_t type = r->U8();
    c.first = r->U64();
    c.last = r->U64();
    c.pid = r->U32();
    if (kind < 1 || kind > 2 || type > 2) r->Fail();
    c.kind = static_cast<LockKind>(kind);
    c.type = static_cast<LockType>(type);
  });
}

std::string EncodeReply(const CloneReply& r) {
  ByteWriter w;
  Write(r.attr, &w);
  w.U64(r.cloned);
  w.U64(r.seq.v);
  return w.Take();
}
Result<void> DecodeReply(std::string_view bytes, CloneReply* out) {
  return Decode(bytes, [&](ByteReader* r) {
    out->attr = ReadAttr(r);
    out->cloned = r->U64();
    out->seq = CommitSeq(r->U64());
  });
}

}  // namespace stria
