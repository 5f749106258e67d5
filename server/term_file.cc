#include "server/term_file.h"

#include <xxhash.h>

#include <optional>
#include <utility>

#include "common/codec.h"

namespace stria {
namespace {

constexpr uint8_t kTermVersion = 1;
constexpr uint64_t kMaxTermBytes = 4096;
constexpr int64_t kWriteNs = 2 * kSecond;

Task<Result<void>> WriteInTime(Disk* disk, HeardTerms::Kept kept) {
  std::optional<Result<void>> done = co_await WithTimeout(kWriteNs, WriteTerms(disk, kept));
  co_return done ? std::move(*done) : Result<void>(Error(FsError::kDeadline, "a disk does not answer"));
}

}  // namespace

Task<Result<HeardTerms::Kept>> ReadTerms(Disk* disk) {
  const HeardTerms::Kept none;
  Result<Buffer> bytes = co_await disk->Read(kTermFile, 0, kMaxTermBytes);
  if (bytes.code() == FsError::kNoEnt) co_return none;
  if (!bytes.ok()) co_return bytes.error();
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes->view(), kTermVersion, &version, &body)) co_return none;
  ByteReader r(body);
  HeardTerms::Kept out;
  for (SaidTerm* said : {&out.known, &out.claimed}) {
    said->term = r.U64();
    said->proof = r.U64();
  }
  const size_t hashed = body.size() - r.left();
  const uint64_t hash = r.U64();
  co_return r.ok() && hash == XXH3_64bits(body.data(), hashed) ? out : none;
}

Task<Result<void>> WriteTerms(Disk* disk, HeardTerms::Kept kept) {
  ByteWriter w;
  for (const SaidTerm& said : {kept.known, kept.claimed}) {
    w.U64(said.term);
    w.U64(said.proof);
  }
  w.U64(XXH3_64bits(w.str().data(), w.size()));
  co_return co_await disk->ReplaceFile(kTermFile, Buffer::FromString(SealRecord(kTermVersion, w.str())));
}

Task<Result<void>> WriteTermsOn(std::vector<Disk*> disks, HeardTerms::Kept kept) {
  std::vector<Task<Result<void>>> writes;
  for (Disk* disk : disks) writes.push_back(WriteInTime(disk, kept));
  Result<void> last = Error(FsError::kNotReady, "no disk can be written");
  std::vector<Result<void>> all = co_await WhenAll(std::move(writes));
  for (Result<void>& done : all) {
    if (done.ok()) co_return Ok();
    last = std::move(done);
  }
  co_return last;
}

}  // namespace stria
