#include "server/parity_check.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

// The columns of a group for one window, shorter where a column ends before it.
struct GroupWindow {
  std::vector<Buffer> data;
  std::vector<Buffer> parity;
  uint64_t length = 0;
};

bool Fits(const ParityCodec& codec, const GroupWindow& w) {
  std::vector<std::span<const uint8_t>> data;
  for (const Buffer& b : w.data) data.push_back(b.span());
  std::vector<MutableBuffer> made;
  std::vector<uint8_t*> outputs;
  for (size_t i = 0; i < w.parity.size(); ++i) {
    made.emplace_back(w.length);
    outputs.push_back(made.back().data());
  }
  codec.EncodePadded(data, outputs, w.length);
  for (size_t i = 0; i < w.parity.size(); ++i) {
    if (!std::equal(w.parity[i].span().begin(), w.parity[i].span().end(), made[i].data(), made[i].data() + w.length)) {
      return false;
    }
  }
  return true;
}

class ParityCheck {
 public:
  ParityCheck(StripeGrant stripe, ParityCheckEnv env) : stripe_(std::move(stripe)), env_(std::move(env)) {}

  Task<Result<ParityCheckResult>> Run() {
    const StripeShape& shape = stripe_.info.shape;
    CO_RETURN_IF_ERROR(Result<void>(ValidateStripe(stripe_.info)));
    if (stripe_.tokens.size() != stripe_.info.columns.size()) {
      co_return Error(FsError::kBadRequest, "a stripe to be checked has no tokens");
    }
    for (uint32_t group = 0; group < shape.groups && shape.m > 0; ++group) CO_RETURN_IF_ERROR(co_await CheckGroup(group));
    out_.wrong.assign(wrong_.begin(), wrong_.end());
    co_return std::move(out_);
  }

 private:
  Task<Result<void>> CheckGroup(uint32_t group) {
    const StripeShape& shape = stripe_.info.shape;
    const uint32_t n = uint32_t{shape.k} + shape.m;
    std::vector<ColumnSource> sources;
    for (uint32_t i = 0; i < n; ++i) {
      sources.push_back(MakeColumnSource(stripe_, ColumnOf(shape, group, i), *env_.map));
      if (sources.back().info.length > 0 && sources.back().address.empty()) {
        co_return Error(FsError::kUnavailable, "a node of the stripe is not known");
      }
    }
    const uint64_t share = std::max(AlignDown(kParityWindowBytes / n, kChecksumBlockBytes), kChecksumBlockBytes);
    const uint64_t total = GroupBytes(shape, group);
    for (uint64_t offset = 0; offset < total; offset += share) {
      CO_RETURN_IF_ERROR(co_await CheckWindow(&sources, offset, std::min(share, total - offset)));
    }
    for (const ColumnSource& s : sources) {
      if (s.alive && !IsAsWritten(s)) wrong_.insert(s.column.v);
    }
    co_return Ok();
  }

  Task<Result<void>> CheckWindow(std::vector<ColumnSource>* sources, uint64_t offset, uint64_t length) {
    std::vector<Task<Result<Buffer>>> reads;
    for (ColumnSource& s : *sources) reads.push_back(Pull(&s, offset, length));
    std::vector<Result<Buffer>> got = co_await WhenAll(std::move(reads));
    auto window = std::make_shared<GroupWindow>();
    window->length = length;
    bool whole = true;
    for (size_t i = 0; i < got.size(); ++i) {
      ColumnSource& s = (*sources)[i];
      if (!got[i].ok()) {
        if (!IsColumnLoss(got[i].code())) co_return got[i].error();
        wrong_.insert(s.column.v);
        s.alive = false;
      }
      whole = whole && s.alive;
      if (s.alive) (i < stripe_.info.shape.k ? window->data : window->parity).push_back(std::move(*got[i]));
    }
    if (!whole) co_return Ok();  // the others are still read, so that all that are wrong are found at once
    const ParityCodec* codec = &env_.codecs->For(stripe_.info.shape);
    const bool fits = co_await RunOn(*env_.cpu_pool, [codec, window] { return Fits(*codec, *window); });
    out_.fits = out_.fits && fits;
    co_return Ok();
  }

  Task<Result<Buffer>> Pull(ColumnSource* s, uint64_t offset, uint64_t length) {
    if (!s->alive || offset >= s->info.length) co_return Buffer();
    const uint64_t n = std::min(length, s->info.length - offset);
    const ColumnReadEnv env{env_.map.get(), env_.connector, env_.cpu_pool, stripe_.info.id.v};
    CO_ASSIGN_OR_RETURN(Buffer bytes, co_await ReadColumn(s, offset, n, env));
    out_.bytes_read += n;
    co_return bytes;
  }

  const StripeGrant stripe_;
  const ParityCheckEnv env_;
  std::set<uint16_t> wrong_;
  ParityCheckResult out_;
};

}  // namespace

Task<Result<ParityCheckResult>> CheckParity(StripeGrant stripe, ParityCheckEnv env) {
  ParityCheck check(std::move(stripe), std::move(env));
  co_return co_await check.Run();
}

}  // namespace stria
