#include "client/vfs/pieces.h"

#include <algorithm>

namespace stria {

std::vector<Extent> InlineExtents(const std::vector<DirtyPiece>& pieces) {
  std::vector<Extent> out;
  for (const DirtyPiece& p : pieces) {
    if (out.empty() || out.back().end() != p.offset || out.back().length + p.bytes.size() > kMaxInlineBytes) {
      out.emplace_back();
      out.back().file_offset = p.offset;
    }
    out.back().length += p.bytes.size();
    out.back().inline_bytes.append(p.bytes.view());
  }
  return out;
}

std::vector<Extent> StripeExtents(const std::vector<DirtyPiece>& pieces, const std::vector<WrittenPiece>& written) {
  std::vector<Extent> out;
  size_t w = 0;
  uint64_t at = 0;  // in the payload
  for (const DirtyPiece& p : pieces) {
    uint64_t done = 0;
    while (done < p.bytes.size()) {
      while (at >= written[w].payload_offset + written[w].info.shape.payload_bytes) ++w;
      const uint64_t in_stripe = at - written[w].payload_offset;
      const uint64_t n = std::min<uint64_t>(p.bytes.size() - done, written[w].info.shape.payload_bytes - in_stripe);
      const bool grows = !out.empty() && out.back().end() == p.offset + done &&
                         out.back().stripe == written[w].info.id &&
                         out.back().stripe_offset + out.back().length == in_stripe;
      if (!grows) {
        out.emplace_back();
        out.back().file_offset = p.offset + done;
        out.back().stripe = written[w].info.id;
        out.back().stripe_offset = in_stripe;
      }
      out.back().length += n;
      done += n;
      at += n;
    }
  }
  return out;
}

std::vector<StripeInfo> InfosOf(const std::vector<WrittenPiece>& written) {
  std::vector<StripeInfo> out;
  for (const WrittenPiece& w : written) out.push_back(w.info);
  return out;
}

}  // namespace stria
