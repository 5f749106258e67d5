#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meta/backup/archive.h"
#include "test/fuzz/mutate.h"

namespace stria {
namespace {

std::string Numbers(uint64_t first, uint64_t last) {
  std::string out;
  for (const uint64_t v : {first, last}) out.append(reinterpret_cast<const char*>(&v), sizeof v);
  return out;
}

// In the order of the target's kinds.
std::vector<std::string> Samples() {
  KvBatch batch;
  batch.Put(1, "key", "value");
  batch.Delete(2, "other");
  const std::string first = EncodeArchivedBatch(CommitSeq(7), 1000, batch), second = EncodeArchivedBatch(CommitSeq(8), 1001, {});
  const std::string segment = EncodeSegmentBody({first, second});
  PageWriter writer;
  writer.Add(1, "a", "b");
  writer.Add(3, "cc", "");
  const std::string page = writer.TakeBody(), complete = EncodeComplete({1, 2, UINT64_MAX});
  ArchiveHead head;
  head.cluster = Uuid{1, 2};
  head.name = {1, 2, ArchiveKind::kSegment, CommitSeq(7), 0, 8};
  ClusterKey key;
  key.id = 1;
  const std::string object = EncodeArchive(head, segment, ArchiveSeal({key}));
  return {
      std::string(1, 0) + head.name.ToString(),
      std::string(1, 1) + object,
      std::string(1, 2) + object.substr(0, object.size() - 8),
      std::string(1, 3) + Numbers(7, 0) + page,
      std::string(1, 4) + Numbers(7, 8) + segment,
      std::string(1, 5) + Numbers(7, 9) + complete,
  };
}

TEST(ArchiveFuzz, BoundedRun) { FuzzBounded(20'261'127, 30'000, 1, Samples()); }

}  // namespace
}  // namespace stria
