#include "meta/backup/archive.h"

#include <array>
#include <utility>

#include "common/codec.h"
#include "meta/model/families.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stria {
namespace {

constexpr std::string_view kMagic = "striaMB1";
constexpr uint32_t kUnsealedFormat = 1;  // of releases that sealed nothing
constexpr uint32_t kClearFormat = 2;     // sealed, not encrypted
constexpr uint32_t kFormat = 3;          // sealed and encrypted
constexpr size_t kHashBytes = 8;
constexpr size_t kTagBytes = sizeof(PurposeTag);
constexpr std::string_view kNamePrefix = "meta";
constexpr size_t kHexDigits = 16;
constexpr std::array<std::pair<ArchiveKind, char>, 3> kKindLetters = {
    {{ArchiveKind::kPage, 'p'}, {ArchiveKind::kSegment, 's'}, {ArchiveKind::kComplete, 'k'}}};

constexpr uint8_t kDelete = 0, kPut = 1;
constexpr size_t kMinOpBytes = 1 + 1 + 4;
constexpr size_t kMinBatchBytes = 8 + 8 + 4;
constexpr size_t kMinEntryBytes = 1 + 4 + 4;

void AppendHex(uint64_t v, std::string* out) {
  for (int shift = 60; shift >= 0; shift -= 4) out->push_back("0123456789abcdef"[v >> shift & 15]);
}

bool TakeHex(std::string_view* text, uint64_t* v) {
  if (text->size() < kHexDigits + 1 || text->front() != '-') return false;
  *v = 0;
  for (const char c : text->substr(1, kHexDigits)) {
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return false;
    *v = *v << 4 | digit;
  }
  text->remove_prefix(kHexDigits + 1);
  return true;
}

Error Corrupt(const ArchiveName& name, std::string_view what) {
  return Error(FsError::kCorrupt, "backup object " + name.ToString() + ": " + std::string(what));
}

// What is sealed.
std::string WithBody(std::string_view before, std::string_view body) {
  ByteWriter w;
  w.Raw(before);
  w.Str(body);
  return w.Take();
}

// kVersion for a family of a newer release.
Result<void> CheckFamily(std::string_view what, uint8_t family) {
  if (family < kFamilies) return Ok();
  return Error(FsError::kVersion, std::string(what) + " has records of family " + std::to_string(family) +
                                      ", which this release does not know");
}
Result<void> CheckFamily(const ArchiveName& name, uint8_t family) {
  return CheckFamily("backup object " + name.ToString(), family);
}

}  // namespace

std::string ArchiveName::ToString() const {
  std::string out(kNamePrefix);
  out += '-';
  AppendHex(incarnation, &out);
  out += '-';
  AppendHex(term, &out);
  out += '-';
  for (const auto& [k, letter] : kKindLetters) {
    if (k == kind) out += letter;
  }
  out += '-';
  AppendHex(first.v, &out);
  out += '-';
  AppendHex(walk, &out);
  out += '-';
  AppendHex(last, &out);
  return out;
}

std::optional<ArchiveName> ParseArchiveName(std::string_view text) {
  ArchiveName name;
  if (!text.starts_with(kNamePrefix)) return std::nullopt;
  text.remove_prefix(kNamePrefix.size());
  if (!TakeHex(&text, &name.incarnation) || !TakeHex(&text, &name.term)) return std::nullopt;
  if (text.size() < 2 || text[0] != '-') return std::nullopt;
  bool known = false;
  for (const auto& [kind, letter] : kKindLetters) {
    if (letter != text[1]) continue;
    name.kind = kind;
    known = true;
  }
  text.remove_prefix(2);
  if (!known || !TakeHex(&text, &name.first.v) || !TakeHex(&text, &name.walk) || !TakeHex(&text, &name.last) ||
      !text.empty()) {
    return std::nullopt;
  }
  return name;
}

std::string EncodeArchive(const ArchiveHead& head, std::string_view body, const ArchiveSeal& seal, bool encrypt) {
  ByteWriter fields;
  fields.U64(head.cluster.hi);
  fields.U64(head.cluster.lo);
  fields.U64(head.name.incarnation);
  fields.U64(head.name.term);
  fields.U8(static_cast<uint8_t>(head.name.kind));
  fields.U64(head.name.first.v);
  fields.U64(head.name.walk);
  fields.U64(head.name.last);
  fields.I64(head.wall_ns);
  fields.U32(seal.key_id());
  ByteWriter w;
  w.Raw(kMagic);
  w.U32(encrypt ? kFormat : kClearFormat);
  w.Str(fields.str());
  const PurposeTag tag = seal.Of(WithBody(w.str(), body));
  w.Str(encrypt ? seal.Encrypt(tag, std::string(w.str()), body) : std::string(body));
  w.Raw({reinterpret_cast<const char*>(tag.data()), tag.size()});
  w.U64(XXH3_64bits(w.str().data(), w.size()));
  CHECK(w.size() <= kMaxArchiveBytes, "a backup object is too large");
  return w.Take();
}

Result<OpenedArchive> OpenArchive(std::string_view bytes) {
  const Error corrupt(FsError::kCorrupt, "it is damaged, or no object of a metadata backup");
  if (bytes.size() > kMaxArchiveBytes || bytes.size() < kMagic.size() + kHashBytes) return corrupt;
  OpenedArchive out;
  const std::string_view hashed = bytes.substr(0, bytes.size() - kHashBytes);
  out.hash = ByteReader(bytes.substr(hashed.size())).U64();
  if (XXH3_64bits(hashed.data(), hashed.size()) != out.hash) return corrupt;
  ByteReader r(hashed);
  if (r.Raw(kMagic.size()) != kMagic) return corrupt;
  const uint32_t format = r.U32();
  if (format < kUnsealedFormat || format > kFormat) return Error(FsError::kVersion, "it is of a newer release than this one");
  ByteReader fields(r.Str());
  if (!r.ok()) return corrupt;
  out.encrypted = format == kFormat;
  out.before_body = hashed.substr(0, hashed.size() - r.left());
  (out.encrypted ? out.cipher : out.body) = r.Str();
  if (format != kUnsealedFormat) {
    if (!r.ok() || r.left() != kTagBytes) return corrupt;
    out.sealed = hashed.substr(0, hashed.size() - kTagBytes);
    out.seal = r.Raw(kTagBytes);
  }
  if (!r.ok() || r.left() != 0) return corrupt;
  out.head.cluster.hi = fields.U64();
  out.head.cluster.lo = fields.U64();
  out.head.name.incarnation = fields.U64();
  out.head.name.term = fields.U64();
  const uint8_t kind = fields.U8();
  out.head.name.first.v = fields.U64();
  out.head.name.walk = fields.U64();
  out.head.name.last = fields.U64();
  out.head.wall_ns = fields.I64();
  if (format != kUnsealedFormat) {
    out.key_id = fields.U32();
    if (out.key_id == 0) return corrupt;
  }
  if (!fields.ok() || kind < 1 || kind > kKindLetters.size()) return corrupt;
  out.head.name.kind = static_cast<ArchiveKind>(kind);
  return out;
}

Result<OpenedArchive> Unseal(OpenedArchive object, const ArchiveSeal& seal) {
  if (object.key_id == 0) return Error(FsError::kAccess, "it is of a release that did not seal, and anybody may have made it");
  if (!object.encrypted) {
    RETURN_IF_ERROR(seal.Check(object.key_id, object.sealed, object.seal));
    return object;
  }
  ASSIGN_OR_RETURN(std::string clear, seal.Decrypt(object.key_id, object.seal, object.before_body, object.cipher));
  RETURN_IF_ERROR(seal.Check(object.key_id, WithBody(object.before_body, clear), object.seal));
  object.clear = std::make_shared<const std::string>(std::move(clear));
  object.body = *object.clear;
  return object;
}

// ---- Segments -------------------------------------------------------------------------------------

std::string EncodeArchivedBatch(CommitSeq seq, int64_t wall_ns, const KvBatch& batch) {
  ByteWriter w;
  w.U64(seq.v);
  w.I64(wall_ns);
  w.U32(static_cast<uint32_t>(batch.ops.size()));
  for (const KvOp& op : batch.ops) {
    w.U8(op.family);
    w.U8(op.value ? kPut : kDelete);
    w.Str(op.key);
    if (op.value) w.Str(*op.value);
  }
  return w.Take();
}

std::string EncodeSegmentBody(const std::vector<std::string_view>& batches) {
  ByteWriter w;
  w.U32(static_cast<uint32_t>(batches.size()));
  for (const std::string_view b : batches) w.Raw(b);
  return w.Take();
}

namespace {

// One batch. The reader's ok() is false if it does not decode.
Result<ArchivedBatch> ReadBatch(ByteReader& r, std::string_view what) {
  ArchivedBatch b;
  b.seq.v = r.U64();
  b.wall_ns = r.I64();
  uint32_t ops = 0;
  r.Count(&ops, kMinOpBytes);
  for (uint32_t j = 0; j < ops && r.ok(); ++j) {
    const uint8_t family = r.U8();
    const uint8_t kind = r.U8();
    std::string key(r.Str());
    if (kind > kPut) r.Fail();
    std::string value(kind == kPut ? r.Str() : std::string_view());
    if (!r.ok()) break;
    RETURN_IF_ERROR(CheckFamily(what, family));
    if (kind == kPut) b.batch.Put(family, std::move(key), std::move(value));
    else b.batch.Delete(family, std::move(key));
  }
  return b;
}

}  // namespace

Result<ArchivedBatch> DecodeArchivedBatch(std::string_view encoded) {
  ByteReader r(encoded);
  ASSIGN_OR_RETURN(ArchivedBatch b, ReadBatch(r, "a batch"));
  if (!r.ok() || r.left() != 0) return Error(FsError::kCorrupt, "a batch of the metadata store does not decode");
  return b;
}

Result<std::vector<ArchivedBatch>> DecodeSegment(const OpenedArchive& object) {
  const ArchiveName& name = object.head.name;
  if (name.kind != ArchiveKind::kSegment) return Corrupt(name, "it is no segment");
  ByteReader r(object.body);
  uint32_t batches = 0;
  r.Count(&batches, kMinBatchBytes);
  const std::string what = "backup object " + name.ToString();
  std::vector<ArchivedBatch> out;
  for (uint32_t i = 0; i < batches && r.ok(); ++i) {
    ASSIGN_OR_RETURN(ArchivedBatch b, ReadBatch(r, what));
    if (r.ok() && b.seq.v != name.first.v + i) return Corrupt(name, "its batches are not in order");
    out.push_back(std::move(b));
  }
  if (!r.ok() || r.left() != 0 || out.empty()) return Corrupt(name, "its batches do not decode");
  if (out.back().seq.v != name.last) return Corrupt(name, "it has other batches than its name says");
  return out;
}

// ---- Checkpoints ----------------------------------------------------------------------------------

void PageWriter::Add(KvFamily family, std::string_view key, std::string_view value) {
  ByteWriter w;
  w.U8(family);
  w.Str(key);
  w.Str(value);
  entries_ += w.str();
  ++count_;
}

std::string PageWriter::TakeBody() {
  ByteWriter w;
  w.U32(std::exchange(count_, 0));
  w.Raw(std::exchange(entries_, {}));
  return w.Take();
}

Result<KvBatch> DecodePage(const OpenedArchive& object) {
  const ArchiveName& name = object.head.name;
  if (name.kind != ArchiveKind::kPage) return Corrupt(name, "it is no page");
  ByteReader r(object.body);
  uint32_t entries = 0;
  r.Count(&entries, kMinEntryBytes);
  KvBatch out;
  for (uint32_t i = 0; i < entries && r.ok(); ++i) {
    const uint8_t family = r.U8();
    std::string key(r.Str());
    std::string value(r.Str());
    if (!r.ok()) break;
    RETURN_IF_ERROR(CheckFamily(name, family));
    out.Put(family, std::move(key), std::move(value));
  }
  if (!r.ok() || r.left() != 0) return Corrupt(name, "its entries do not decode");
  return out;
}

std::string EncodeComplete(const std::vector<uint64_t>& page_hashes) {
  ByteWriter w;
  w.U32(static_cast<uint32_t>(page_hashes.size()));
  for (const uint64_t h : page_hashes) w.U64(h);
  return w.Take();
}

Result<std::vector<uint64_t>> DecodeComplete(const OpenedArchive& object) {
  const ArchiveName& name = object.head.name;
  if (name.kind != ArchiveKind::kComplete) return Corrupt(name, "it ends no checkpoint");
  ByteReader r(object.body);
  uint32_t pages = 0;
  r.Count(&pages, kHashBytes);
  std::vector<uint64_t> out;
  for (uint32_t i = 0; i < pages && r.ok(); ++i) out.push_back(r.U64());
  if (!r.ok() || r.left() != 0) return Corrupt(name, "its list of pages does not decode");
  return out;
}

}  // namespace stria
