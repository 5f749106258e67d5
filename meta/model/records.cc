#include "meta/model/records.h"

#include "stripe/layout.h"

namespace stria {
namespace {

constexpr uint8_t kVersion = 1;
constexpr int kAclShift = 16;  // above the permission bits: which ACLs there are

bool IsFileType(uint8_t t) {
  return t >= static_cast<uint8_t>(FileType::kFile) && t <= static_cast<uint8_t>(FileType::kBlockDevice);
}

FileType DecodeType(ByteReader* r) {
  const uint8_t t = r->U8();
  if (!IsFileType(t)) r->Fail();
  return static_cast<FileType>(t);
}

// Runs `fields(ByteReader*)` over the body; it fails the reader where something is wrong.
template <class R, class Fields>
Result<R> DecodeRecord(std::string_view key, std::string_view value, R record, Fields fields) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(value, kVersion, &version, &body)) {
    return CorruptRecord(R::kFamily, key, "its version or length is not known");
  }
  ByteReader r(body);
  fields(&r, &record);
  if (!r.ok()) return CorruptRecord(R::kFamily, key, "a field is missing or out of range");
  return record;
}

void EncodeAttr(const Attr& a, ByteWriter* w) {
  w->U8(static_cast<uint8_t>(a.type));
  w->U32(a.mode | uint32_t{a.acls} << kAclShift);
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
}

Attr DecodeAttr(ByteReader* r) {
  Attr a;
  a.type = DecodeType(r);
  const uint32_t mode = r->U32();
  a.mode = mode & ((1U << kAclShift) - 1);
  a.acls = static_cast<uint8_t>(mode >> kAclShift);
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
  if (a.mode > 07777 || mode >> kAclShift > (kAccessAcl | kDefaultAcl) || a.size > kMaxFileBytes || a.allocated_bytes > kMaxFileBytes) r->Fail();
  return a;
}

void EncodeExtentBody(const Extent& e, ByteWriter* w) {
  w->U64(e.length);
  w->U64(e.stripe.v);
  w->U64(e.stripe_offset);
  w->Str(e.inline_bytes);
}

// In a layout's m: a program without min= takes such a record for corrupt, because it could not keep min=.
constexpr int kMinCopiesShift = 4;

bool HasLayout(FileType t) { return t == FileType::kFile || t == FileType::kDirectory; }

}  // namespace

Error CorruptRecord(Family f, std::string_view key, std::string_view what) {
  return Error(FsError::kCorrupt, "record " + KeyToString(f, key) + " of family " +
                                      std::string(FamilyName(f)) + " is corrupt: " + std::string(what));
}

void EncodeLayout(const Layout& l, ByteWriter* w) {
  w->U8(l.groups);
  w->U8(l.k);
  w->U8(static_cast<uint8_t>(l.m | l.min_copies << kMinCopiesShift));
  w->U8(static_cast<uint8_t>(l.codec));
  w->Bool(l.rotate);
  w->U8(static_cast<uint8_t>(l.arrangement));
  w->U8(static_cast<uint8_t>(l.domain));
  w->U8(static_cast<uint8_t>(l.place));
  w->U32(l.place_node.v);
  w->U32(l.unit_bytes);
  w->U64(l.stripe_bytes);
}

Layout DecodeLayout(ByteReader* r) {
  Layout l;
  l.groups = r->U8();
  l.k = r->U8();
  const uint8_t parity = r->U8();
  l.m = parity & ((1 << kMinCopiesShift) - 1);
  l.min_copies = static_cast<uint8_t>(parity >> kMinCopiesShift);
  l.codec = static_cast<Codec>(r->U8());
  l.rotate = r->Bool();
  const uint8_t arrangement = r->U8();
  const uint8_t domain = r->U8();
  const uint8_t place = r->U8();
  l.place_node = NodeId(r->U32());
  l.unit_bytes = r->U32();
  l.stripe_bytes = r->U64();
  if (arrangement < 1 || arrangement > 2 || domain < 1 || domain > 3 || place < 1 || place > 3) r->Fail();
  l.arrangement = static_cast<Arrangement>(arrangement);
  l.domain = static_cast<Domain>(domain);
  l.place = static_cast<Place>(place);
  if (l.groups < 1 || l.k < 1 || l.k > kMaxDataColumns || l.m > kMaxParity || l.min_copies > l.m || l.columns() > kMaxColumns ||
      l.codec > Codec::kCauchy || l.unit_bytes == 0 || l.unit_bytes % 4096 != 0 || l.stripe_bytes == 0 ||
      l.stripe_bytes > kMaxStripeBytes) {
    r->Fail();
  }
  return l;
}

void EncodeShape(const StripeShape& s, ByteWriter* w) {
  w->U8(s.groups);
  w->U8(s.k);
  w->U8(s.m);
  w->U8(static_cast<uint8_t>(s.codec));
  w->U32(s.unit_bytes);
  w->U64(s.payload_bytes);
  w->U32(static_cast<uint32_t>(s.column_bytes.size()));
  for (uint64_t b : s.column_bytes) w->U64(b);
}

StripeShape DecodeShape(ByteReader* r) {
  StripeShape s;
  s.groups = r->U8();
  s.k = r->U8();
  s.m = r->U8();
  s.codec = static_cast<Codec>(r->U8());
  s.unit_bytes = r->U32();
  s.payload_bytes = r->U64();
  uint32_t n = 0;
  if (r->Count(&n, 8)) {
    for (uint32_t i = 0; i < n; ++i) s.column_bytes.push_back(r->U64());
  }
  if (s.groups < 1 || s.k < 1 || s.k > kMaxDataColumns || s.m > kMaxParity || s.columns() > kMaxColumns ||
      s.codec > Codec::kCauchy || s.unit_bytes == 0 || s.payload_bytes > kMaxStripeBytes ||
      (n != 0 && n != s.data_columns())) {
    r->Fail();
  }
  return s;
}

void EncodeStripeInfo(const StripeInfo& info, ByteWriter* w) {
  w->U64(info.id.v);
  EncodeShape(info.shape, w);
  w->U32(static_cast<uint32_t>(info.columns.size()));
  for (const Column& c : info.columns) {
    w->U64(c.shard.v);
    w->U32(c.target.v);
    w->U64(c.length);
    w->U64(c.digest);
  }
  w->Bool(info.narrow);
  w->Bool(info.crowded);
}

StripeInfo DecodeStripeInfo(ByteReader* r) {
  StripeInfo info;
  info.id = StripeId(r->U64());
  info.shape = DecodeShape(r);
  uint32_t n = 0;
  if (r->Count(&n, 28)) {
    for (uint32_t i = 0; i < n; ++i) {
      Column c;
      c.shard = ShardId(r->U64());
      c.target = TargetId(r->U32());
      c.length = r->U64();
      c.digest = r->U64();
      info.columns.push_back(c);
    }
  }
  info.narrow = r->Bool();
  info.crowded = r->Bool();
  if (!info.id || n != info.shape.columns()) r->Fail();
  return info;
}

void EncodeNode(const NodeInfo& n, ByteWriter* w) {
  w->U32(n.id.v);
  w->U64(n.uuid.hi);
  w->U64(n.uuid.lo);
  w->Str(n.name);
  w->Str(n.address);
  w->U8(static_cast<uint8_t>(n.state));
  w->I64(n.since_ns);
}

NodeInfo DecodeNode(ByteReader* r) {
  NodeInfo n;
  n.id = NodeId(r->U32());
  n.uuid.hi = r->U64();
  n.uuid.lo = r->U64();
  n.name = r->Str();
  n.address = r->Str();
  const uint8_t state = r->U8();
  n.since_ns = r->I64();
  if (!n.id || state < 1 || state > 4) r->Fail();
  n.state = static_cast<NodeState>(state);
  return n;
}

void EncodeTarget(const TargetInfo& t, ByteWriter* w) {
  w->U32(t.id.v);
  w->U32(t.node.v);
  w->U64(t.disk_uuid.hi);
  w->U64(t.disk_uuid.lo);
  w->Str(t.label);
  w->Str(t.channel);
  w->U8(static_cast<uint8_t>(t.state));
  w->U64(t.capacity_bytes);
  w->U64(t.free_bytes);
  w->U64(t.used_bytes);
  w->U64(t.read_errors);
  w->U64(t.write_errors);
  w->U64(t.checksum_errors);
  w->Bool(t.given_up);
}

TargetInfo DecodeTarget(ByteReader* r) {
  TargetInfo t;
  t.id = TargetId(r->U32());
  t.node = NodeId(r->U32());
  t.disk_uuid.hi = r->U64();
  t.disk_uuid.lo = r->U64();
  t.label = r->Str();
  t.channel = r->Str();
  const uint8_t state = r->U8();
  t.capacity_bytes = r->U64();
  t.free_bytes = r->U64();
  t.used_bytes = r->U64();
  t.read_errors = r->U64();
  t.write_errors = r->U64();
  t.checksum_errors = r->U64();
  if (r->left() > 0) t.given_up = r->Bool();  // not in the first release's
  if (!t.id || !t.node || state < 1 || state > 5) r->Fail();
  t.state = static_cast<TargetState>(state);
  return t;
}

std::string InodeRecord::Encode() const {
  ByteWriter w;
  EncodeAttr(attr, &w);
  if (HasLayout(attr.type)) {
    EncodeLayout(layout, &w);
    w.Bool(layout_inherited);
  }
  w.U64(parent.v);
  w.Str(symlink_target);
  w.U64(inline_bytes);
  w.U64(extent_count);
  w.U32(xattr_count);
  w.U32(xattr_bytes);
  w.U32(static_cast<uint32_t>(masks.size()));
  for (const MaskRange& m : masks) {
    w.U64(m.begin);
    w.U64(m.end);
  }
  return SealRecord(kVersion, w.str());
}

Result<InodeRecord> InodeRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, InodeRecord(), [&](ByteReader* r, InodeRecord* rec) {
    rec->attr = DecodeAttr(r);
    uint64_t ino = 0;
    if (!ParseKey64(key, &ino) || ino == 0) r->Fail();
    rec->attr.ino = InodeId(ino);
    if (HasLayout(rec->attr.type)) {
      rec->layout = DecodeLayout(r);
      rec->layout_inherited = r->Bool();
    }
    rec->parent = InodeId(r->U64());
    rec->symlink_target = r->Str();
    rec->inline_bytes = r->U64();
    rec->extent_count = r->U64();
    rec->xattr_count = r->U32();
    rec->xattr_bytes = r->U32();
    uint32_t n = 0;
    if (r->Count(&n, 16) && n > kMaxMasks) r->Fail();
    uint64_t before = 0;
    for (uint32_t i = 0; i < n && r->ok(); ++i) {
      MaskRange m;
      m.begin = r->U64();
      m.end = r->U64();
      if (m.begin >= m.end || m.begin < before || m.end > kMaxFileBytes) r->Fail();
      before = m.end;
      rec->masks.push_back(m);
    }
    if (rec->is_dir() != static_cast<bool>(rec->parent)) r->Fail();
    if ((rec->attr.type == FileType::kSymlink) != !rec->symlink_target.empty()) r->Fail();
  });
}

std::string DentryRecord::Encode() const {
  ByteWriter w;
  w.U64(ino.v);
  w.U8(static_cast<uint8_t>(type));
  w.U8(slot);
  return SealRecord(kVersion, w.str());
}

Result<DentryRecord> DentryRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, DentryRecord(), [](ByteReader* r, DentryRecord* rec) {
    rec->ino = InodeId(r->U64());
    rec->type = DecodeType(r);
    rec->slot = r->U8();
    if (!rec->ino || rec->slot == 0) r->Fail();
  });
}

std::string ExtentRecord::Encode() const {
  ByteWriter w;
  EncodeExtentBody(extent, &w);
  return SealRecord(kVersion, w.str());
}

Result<ExtentRecord> ExtentRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, ExtentRecord(), [&](ByteReader* r, ExtentRecord* rec) {
    Extent& e = rec->extent;
    uint64_t ino = 0;
    if (!ParseKey64x2(key, &ino, &e.file_offset)) r->Fail();
    e.length = r->U64();
    e.stripe = StripeId(r->U64());
    e.stripe_offset = r->U64();
    e.inline_bytes = r->Str();
    if (e.length == 0 || e.file_offset > kMaxFileBytes || e.length > kMaxFileBytes - e.file_offset) r->Fail();
    if (e.is_inline()
            ? e.inline_bytes.size() != e.length || e.length > kMaxInlineBytes || e.stripe_offset != 0
            : !e.inline_bytes.empty() || e.length > kMaxStripeBytes ||
                  e.stripe_offset > kMaxStripeBytes - e.length) {
      r->Fail();
    }
  });
}

std::string StripeRecord::Encode() const {
  ByteWriter w;
  EncodeStripeInfo(info, &w);
  w.U8(static_cast<uint8_t>(state));
  w.U64(session.v);
  w.U64(ino.v);
  EncodeLayout(layout, &w);
  w.U64(live_since.v);
  return SealRecord(kVersion, w.str());
}

Result<StripeRecord> StripeRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, StripeRecord(), [&](ByteReader* r, StripeRecord* rec) {
    rec->info = DecodeStripeInfo(r);
    const uint8_t raw_state = r->U8();
    rec->session = SessionId(r->U64());
    rec->ino = InodeId(r->U64());
    rec->layout = DecodeLayout(r);
    rec->live_since = CommitSeq(r->U64());
    uint64_t id = 0;
    if (!ParseKey64(key, &id) || rec->info.id.v != id) r->Fail();
    if (raw_state < 1 || raw_state > 2) r->Fail();
    rec->state = static_cast<StripeState>(raw_state);
    if (!r->ok()) return;
    if (rec->state == StripeState::kLive ? !ValidateStripe(rec->info).ok()
                                         : rec->info.shape.payload_bytes != 0) {
      r->Fail();
    }
  });
}

std::string RefBytesRecord::Encode() const {
  ByteWriter w;
  w.U64(bytes);
  return SealRecord(kVersion, w.str());
}

Result<RefBytesRecord> RefBytesRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, RefBytesRecord(), [](ByteReader* r, RefBytesRecord* rec) {
    rec->bytes = r->U64();
    if (rec->bytes == 0) r->Fail();
  });
}

std::string TargetStripeRecord::Encode() const {
  ByteWriter w;
  w.U64(stripe.v);
  w.U16(column);
  w.Bool(pending);
  return SealRecord(kVersion, w.str());
}

Result<TargetStripeRecord> TargetStripeRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, TargetStripeRecord(), [](ByteReader* r, TargetStripeRecord* rec) {
    rec->stripe = StripeId(r->U64());
    rec->column = r->U16();
    rec->pending = r->Bool();
    if (!rec->stripe || rec->column >= kMaxColumns) r->Fail();
  });
}

std::string GarbageRecord::Encode() const {
  ByteWriter w;
  w.U64(stripe.v);
  w.U64(seq.v);
  if (allocated.v != 0) w.U64(allocated.v);
  return SealRecord(kVersion, w.str());
}

Result<GarbageRecord> GarbageRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, GarbageRecord(), [](ByteReader* r, GarbageRecord* rec) {
    rec->stripe = StripeId(r->U64());
    rec->seq = CommitSeq(r->U64());
    if (r->left() >= 8) rec->allocated = CommitSeq(r->U64());
  });
}

std::string XattrRecord::Encode() const {
  ByteWriter w;
  w.Str(value);
  return SealRecord(kVersion, w.str());
}

Result<XattrRecord> XattrRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, XattrRecord(), [](ByteReader* r, XattrRecord* rec) {
    rec->value = r->Str();
    if (rec->value.size() > kMaxXattrValueBytes) r->Fail();
  });
}

std::string ReplyRecord::Encode() const {
  ByteWriter w;
  w.U16(kind);
  w.U16(static_cast<uint16_t>(code));
  w.Str(message);
  w.Str(bytes);
  w.U64(seq.v);
  if (digest != 0) w.U64(digest);
  return SealRecord(kVersion, w.str());
}

Result<ReplyRecord> ReplyRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, ReplyRecord(), [](ByteReader* r, ReplyRecord* rec) {
    rec->kind = r->U16();
    const uint16_t raw_code = r->U16();
    if (!IsKnownFsError(raw_code)) r->Fail();
    rec->code = static_cast<FsError>(raw_code);
    rec->message = r->Str();
    rec->bytes = r->Str();
    rec->seq = CommitSeq(r->U64());
    if (r->left() > 0) rec->digest = r->U64();
  });
}

std::string SuperRecord::Encode() const {
  ByteWriter w;
  w.U64(kSuperMagic);
  w.U64(cluster.hi);
  w.U64(cluster.lo);
  w.U64(store.hi);
  w.U64(store.lo);
  w.U64(incarnation);
  w.U64(compat);
  w.U64(ro_compat);
  w.U64(incompat);
  w.I64(created_ns);
  return SealRecord(kVersion, w.str());
}

Result<SuperRecord> SuperRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, SuperRecord(), [](ByteReader* r, SuperRecord* rec) {
    if (r->U64() != kSuperMagic) r->Fail();
    rec->cluster.hi = r->U64();
    rec->cluster.lo = r->U64();
    rec->store.hi = r->U64();
    rec->store.lo = r->U64();
    rec->incarnation = r->U64();
    rec->compat = r->U64();
    rec->ro_compat = r->U64();
    rec->incompat = r->U64();
    rec->created_ns = r->I64();
    if (!rec->cluster || rec->incarnation == 0) r->Fail();
  });
}

std::string StateRecord::Encode() const {
  ByteWriter w;
  w.U64(seq.v);
  w.U32(kIdKinds);
  for (uint64_t v : id_limits) w.U64(v);
  w.U32(kCounters);
  for (uint64_t v : counters) w.U64(v);
  return SealRecord(kVersion, w.str());
}

Result<StateRecord> StateRecord::Decode(std::string_view key, std::string_view value) {
  return DecodeRecord(key, value, StateRecord(), [](ByteReader* r, StateRecord* rec) {
    rec->seq = CommitSeq(r->U64());
    // An older store may have fewer counts; missing ones start at their defaults.
    uint32_t n = 0;
    if (!r->Count(&n, 8) || n > kIdKinds) r->Fail();
    rec->id_limits.fill(1);
    for (uint32_t i = 0; i < n && r->ok(); ++i) {
      rec->id_limits[i] = r->U64();
      if (rec->id_limits[i] == 0) r->Fail();
    }
    if (!r->Count(&n, 8) || n > kCounters) r->Fail();
    for (uint32_t i = 0; i < n && r->ok(); ++i) rec->counters[i] = r->U64();
  });
}

}  // namespace stria
