// The parts of a metadata backup: objects with names and bytes, which data servers keep (api/backup_api.h). Pure. Formats on
// disk: docs/formats.md.
//
//   page      entries that a walk over the store found; the walk began when the store was at `first`
//   segment   batches first .. last, every one of them
//   complete  makes the pages of a walk a checkpoint: how many they are, their hashes, and `last`, where the
//             store was when the walk ended
//
// The store changes while it is walked. That does no harm, because batches are absolute: the pages and then every batch after
// `first`, up to any point at or after `last`, give the store at that point. If a page is too early or too late for a record,
// the batch that changed the record puts it right, and there is one.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/kv/kv.h"
#include "common/units.h"
#include "meta/backup/archive_seal.h"

namespace stria {

inline constexpr size_t kMaxArchiveBytes = 4 * kMiB;  // of an object
inline constexpr size_t kMaxSegmentBytes = 2 * kMiB;  // a segment is cut when it has so much; a batch more may be in it
inline constexpr size_t kMaxPageBytes = 1 * kMiB;     // the same for a page, with one entry more

enum class ArchiveKind : uint8_t { kPage = 1, kSegment = 2, kComplete = 3 };

// Names sort by life of the store (incarnation, term of the server), then kind, then sequence. Two objects of different content
// never share a name: an object that replaced one of a complete checkpoint would take it away.
struct ArchiveName {
  uint64_t incarnation = 0;
  uint64_t term = 0;
  ArchiveKind kind = ArchiveKind::kPage;
  CommitSeq first;
  uint64_t walk = 0;  // of a page, or complete: the number of the walk in this life; it may begin where another did
  uint64_t last = 0;  // a sequence; of a page: its number, from 0
  auto operator<=>(const ArchiveName&) const = default;
  std::string ToString() const;
};
// nullopt for any other text.
std::optional<ArchiveName> ParseArchiveName(std::string_view text);

struct ArchiveHead {
  Uuid cluster;
  ArchiveName name;
  int64_t wall_ns = 0;  // when it was made
  bool operator==(const ArchiveHead&) const = default;
};
// Sealed; `encrypt`: so that only the metadata server's key reads the body. REQUIRES: it fits kMaxArchiveBytes.
std::string EncodeArchive(const ArchiveHead& head, std::string_view body, const ArchiveSeal& seal, bool encrypt = true);
struct OpenedArchive {
  ArchiveHead head;
  std::string_view body;  // in the bytes that were opened, as all views here; encrypted: "" before Unseal
  uint64_t hash = 0;      // of the whole object
  uint32_t key_id = 0;    // of the master key that it was sealed with; 0: by a release that sealed nothing
  bool encrypted = false;
  std::string_view before_body, cipher;  // encrypted: what precedes it, and the body
  std::string_view sealed, seal;         // not encrypted: what is sealed
  std::shared_ptr<const std::string> clear;  // what `body` is in, if it was encrypted
};
// It is as it was written by somebody: whoever that is, Unseal tells. kCorrupt: damaged, or not such an object; kVersion: of a
// newer release.
Result<OpenedArchive> OpenArchive(std::string_view bytes);
// It, with its body. kAccess with a sentence: it is not proven that the metadata server has made it.
Result<OpenedArchive> Unseal(OpenedArchive object, const ArchiveSeal& seal);

// ---- Bodies ---------------------------------------------------------------------------------------

struct ArchivedBatch {
  CommitSeq seq;
  int64_t wall_ns = 0;
  KvBatch batch;
};
// The input of EncodeSegmentBody.
std::string EncodeArchivedBatch(CommitSeq seq, int64_t wall_ns, const KvBatch& batch);
// The inverse. kCorrupt with a sentence for anything else; kVersion for a family that is not known here.
Result<ArchivedBatch> DecodeArchivedBatch(std::string_view encoded);
std::string EncodeSegmentBody(const std::vector<std::string_view>& batches);
// kCorrupt unless these are exactly the batches of head.name, in order; kVersion for a family that is not known here.
Result<std::vector<ArchivedBatch>> DecodeSegment(const OpenedArchive& object);

// Collects the entries of a page.
class PageWriter {
 public:
  void Add(KvFamily family, std::string_view key, std::string_view value);
  size_t bytes() const { return entries_.size(); }
  std::string TakeBody();

 private:
  std::string entries_;
  uint32_t count_ = 0;
};
// Puts only.
Result<KvBatch> DecodePage(const OpenedArchive& object);

std::string EncodeComplete(const std::vector<uint64_t>& page_hashes);
Result<std::vector<uint64_t>> DecodeComplete(const OpenedArchive& object);

}  // namespace stria
