// Input: one byte that says what the rest is: the name of a backup object, an object, one that lacks only its hash, or (two numbers and)
// the body of one. Data servers keep these, so a restore believes nothing in them.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "meta/backup/archive.h"
#include "test/fuzz/fuzz_target.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

constexpr size_t kMaxInput = 1 * kMiB;  // what is opened is encoded again, and may be a little longer

void AsName(const std::string& s) {
  const auto name = ParseArchiveName(s);
  if (!name) return;
  ++fuzz_taken;
  Must(name->ToString() == s);
}

std::string SegmentOf(const std::vector<ArchivedBatch>& batches) {
  std::vector<std::string> each;
  for (const ArchivedBatch& b : batches) each.push_back(EncodeArchivedBatch(b.seq, b.wall_ns, b.batch));
  return EncodeSegmentBody({each.begin(), each.end()});
}
std::string PageOf(const KvBatch& batch) {
  PageWriter page;
  for (const KvOp& op : batch.ops) {
    Must(op.value.has_value());
    page.Add(op.family, op.key, *op.value);
  }
  return page.TakeBody();
}

const ArchiveSeal& Seal() {
  static const ArchiveSeal seal = [] {
    ClusterKey key;
    key.id = 1;
    key.secret.fill(7);
    return ArchiveSeal({key});
  }();
  return seal;
}

// A body is taken by the decoder of its kind only, and is spelled in one way.
void AsOpened(const OpenedArchive& object) {
  const auto segment = DecodeSegment(object);
  const auto page = DecodePage(object);
  const auto complete = DecodeComplete(object);
  Must(!segment.ok() || object.head.name.kind == ArchiveKind::kSegment);
  Must(!page.ok() || object.head.name.kind == ArchiveKind::kPage);
  Must(!complete.ok() || object.head.name.kind == ArchiveKind::kComplete);
  if (segment.ok()) {
    Must(SegmentOf(*segment) == object.body);
    Must(segment->front().seq == object.head.name.first && segment->back().seq.v == object.head.name.last);
    for (size_t i = 1; i < segment->size(); ++i) Must((*segment)[i].seq.v == (*segment)[i - 1].seq.v + 1);
  }
  if (page.ok()) Must(PageOf(*page) == object.body);
  if (complete.ok()) Must(EncodeComplete(*complete) == object.body);
  fuzz_taken += segment.ok() || page.ok() || complete.ok();
}

void AsObject(const std::string& s) {
  const auto opened = OpenArchive(s);
  if (!opened.ok()) return;
  ++fuzz_taken;
  AsOpened(*opened);
  Must(!Unseal(*opened, Seal()).ok());  // nobody here has the key
  const std::string again = EncodeArchive(opened->head, opened->body, Seal());
  const auto back = Unseal(*OpenArchive(again), Seal());
  Must(back.ok() && back->head == opened->head && back->body == opened->body);
  // Its hash covers all of it.
  std::string hurt = s;
  hurt[hurt.size() / 2] = static_cast<char>(hurt[hurt.size() / 2] ^ 1);
  Must(!OpenArchive(hurt).ok());
}

void AsUnsealed(const std::string& s) {
  const uint64_t hash = XXH3_64bits(s.data(), s.size());
  AsObject(s + std::string(reinterpret_cast<const char*>(&hash), sizeof hash));
}

void AsBody(ArchiveKind kind, const std::string& s) {
  ArchiveHead head;
  if (s.size() < 2 * sizeof(uint64_t)) return;
  head.cluster = Uuid{1, 2};
  head.name.kind = kind;
  std::memcpy(&head.name.first.v, s.data(), sizeof(uint64_t));
  std::memcpy(&head.name.last, s.data() + sizeof(uint64_t), sizeof(uint64_t));
  const std::string body = s.substr(2 * sizeof(uint64_t));
  const std::string object = EncodeArchive(head, body, Seal());
  const auto opened = Unseal(*OpenArchive(object), Seal());
  Must(opened.ok() && opened->head == head && opened->body == body);
  AsOpened(*opened);
}
void AsPage(const std::string& s) { AsBody(ArchiveKind::kPage, s); }
void AsSegment(const std::string& s) { AsBody(ArchiveKind::kSegment, s); }
void AsComplete(const std::string& s) { AsBody(ArchiveKind::kComplete, s); }

constexpr void (*kKinds[])(const std::string&) = {&AsName, &AsObject, &AsUnsealed, &AsPage, &AsSegment, &AsComplete};

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > stria::kMaxInput) return 0;
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  stria::kKinds[data[0] % std::size(stria::kKinds)](input);
  return 0;
}
