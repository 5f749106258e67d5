#include "locality/split.h"

#include <algorithm>
#include <tuple>

#include "common/check.h"
#include "common/units.h"

namespace stria {
namespace {

size_t IndexOf(const std::vector<std::string>& hosts, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(hosts, name) - hosts.begin());
}

// A piece that could go elsewhere, and the cost.
struct Move {
  size_t piece = 0;
  size_t to = 0;
  uint64_t loss = 0;  // local bytes per MiB of the piece that are not local there
};

class Balancer {
 public:
  Balancer(const std::vector<SplitPiece>& pieces, size_t hosts)
      : pieces_(pieces), host_(pieces.size()), load_(hosts, 0), mine_(hosts) {
    uint64_t total = 0;
    for (const SplitPiece& p : pieces) total += p.bytes;
    limit_ = total / hosts + total / hosts * kMaxOverMeanPercent / 100;
  }

  std::vector<size_t> Run() {
    for (size_t i = 0; i < pieces_.size(); ++i) Give(i, Nearest(pieces_[i]));
    for (size_t h = 0; h < load_.size(); ++h) MoveCheapest(h);
    for (size_t h = 0; h < load_.size(); ++h) MoveToIdlest(h);
    return std::move(host_);
  }

 private:
  // Most local bytes, then least to do.
  size_t Nearest(const SplitPiece& p) const {
    size_t best = 0;
    for (size_t h = 1; h < load_.size(); ++h) {
      if (std::tuple(p.local_bytes[h], ~load_[h]) > std::tuple(p.local_bytes[best], ~load_[best])) best = h;
    }
    return best;
  }

  void Give(size_t piece, size_t host) {
    host_[piece] = host;
    load_[host] += pieces_[piece].bytes;
    mine_[host].push_back(piece);
  }
  void Shift(size_t piece, size_t to) {
    const size_t from = host_[piece];
    load_[from] -= pieces_[piece].bytes;
    std::erase(mine_[from], piece);
    Give(piece, to);
  }

  uint64_t Loss(size_t piece, size_t to) const {
    const SplitPiece& p = pieces_[piece];
    const uint64_t here = p.local_bytes[host_[piece]], there = p.local_bytes[to];
    return here <= there ? 0
                         : static_cast<uint64_t>(static_cast<unsigned __int128>(here - there) * kMiB /
                                                 std::max<uint64_t>(p.bytes, 1));
  }

  // From hosts with too much to hosts with room; the piece that loses least goes first.
  void MoveCheapest(size_t from) {
    if (load_[from] <= limit_) return;
    std::vector<Move> moves;
    for (const size_t i : mine_[from]) {
      for (size_t to = 0; to < load_.size(); ++to) {
        if (to != from) moves.push_back({i, to, Loss(i, to)});
      }
    }
    std::ranges::stable_sort(moves, {}, &Move::loss);
    for (const Move& m : moves) {
      if (load_[from] <= limit_) return;
      if (host_[m.piece] == from && load_[m.to] + pieces_[m.piece].bytes <= limit_) Shift(m.piece, m.to);
    }
  }

  // If no host has room for its pieces, they go to the least loaded one, as long as that lowers the larger of the two.
  void MoveToIdlest(size_t from) {
    while (load_[from] > limit_) {
      const auto to = static_cast<size_t>(std::ranges::min_element(load_) - load_.begin());
      const size_t* best = nullptr;
      for (const size_t& i : mine_[from]) {
        if (load_[to] + pieces_[i].bytes >= load_[from]) continue;
        if (best == nullptr || Loss(i, to) < Loss(*best, to)) best = &i;
      }
      if (best == nullptr) return;
      Shift(*best, to);
    }
  }

  const std::vector<SplitPiece>& pieces_;
  std::vector<size_t> host_;
  std::vector<uint64_t> load_;
  std::vector<std::vector<size_t>> mine_;
  uint64_t limit_ = 0;
};

}  // namespace

std::vector<uint64_t> LocalBytes(const std::vector<WhereRow>& rows, uint64_t offset, uint64_t length,
                                 const std::vector<std::string>& hosts) {
  std::vector<uint64_t> local(hosts.size(), 0);
  for (const WhereRow& r : rows) {
    if ((r.role != "data" && r.role != "copy") || !IsReadable(r)) continue;
    const size_t host = IndexOf(hosts, r.node);
    const uint64_t from = std::max(offset, r.offset), to = std::min(offset + length, r.offset + r.length);
    if (host < hosts.size() && from < to) local[host] = std::min(length, local[host] + (to - from));
  }
  return local;
}

uint64_t DecodedBytes(const std::vector<WhereRow>& rows, uint64_t offset, uint64_t length) {
  const uint64_t end = offset + length;
  std::vector<std::pair<uint64_t, uint64_t>> copies, missing;  // begin, end
  for (const WhereRow& r : rows) {
    const uint64_t from = std::max(offset, r.offset), to = std::min(end, r.offset + r.length);
    if (from >= to) continue;
    if (r.role == "copy" && IsReadable(r)) copies.emplace_back(from, to);
    if (r.role == "data" && !IsReadable(r)) missing.emplace_back(from, to);
  }
  std::ranges::sort(copies);
  uint64_t decoded = 0;
  for (const auto& [from, to] : missing) {
    uint64_t at = from;
    for (const auto& [copy, copy_end] : copies) {
      if (copy >= to) break;
      if (copy > at) decoded += copy - at;
      at = std::max(at, copy_end);
      if (at >= to) break;
    }
    if (at < to) decoded += to - at;
  }
  return decoded;
}

std::vector<SplitPiece> CutByHost(size_t file, const std::vector<WhereRow>& rows, const std::vector<std::string>& hosts,
                                  uint64_t min_bytes, uint64_t max_bytes) {
  CHECK(min_bytes > 0 && min_bytes <= max_bytes);
  std::vector<SplitPiece> pieces;
  uint64_t begin = 0, end = 0;
  const auto close = [&] {
    const uint64_t length = end - begin;
    if (length > 0) {
      pieces.push_back({file, begin, end, length, LocalBytes(rows, begin, length, hosts), DecodedBytes(rows, begin, length)});
    }
    begin = end;
  };
  for (const WhereRow& r : rows) {
    if (r.role == "parity" || r.role == "copy") continue;
    if (end == begin) begin = end = r.offset;
    for (uint64_t left = r.length; left > 0;) {
      const uint64_t step = std::min(left, max_bytes - (end - begin));
      end += step;
      left -= step;
      if (end - begin >= max_bytes) close();
    }
    if (end - begin >= min_bytes) close();
  }
  close();
  return pieces;
}

std::vector<size_t> AssignPieces(const std::vector<SplitPiece>& pieces, size_t hosts) {
  CHECK(hosts > 0);
  for (const SplitPiece& p : pieces) CHECK(p.local_bytes.size() == hosts);
  return Balancer(pieces, hosts).Run();
}

std::vector<HostWork> SplitByHost(const std::vector<SplitPiece>& pieces, const std::vector<std::string>& hosts) {
  const std::vector<size_t> of = AssignPieces(pieces, hosts.size());
  std::vector<HostWork> work(hosts.size());
  for (size_t h = 0; h < hosts.size(); ++h) work[h].host = hosts[h];
  for (size_t i = 0; i < pieces.size(); ++i) {
    const SplitPiece& p = pieces[i];
    HostWork& w = work[of[i]];
    w.bytes += p.bytes;
    w.local_bytes += p.local_bytes[of[i]];
    w.decoded_bytes += p.decoded_bytes;
    if (!w.pieces.empty() && w.pieces.back().file == p.file && w.pieces.back().end == p.begin) {
      w.pieces.back().end = p.end;
      w.pieces.back().bytes += p.bytes;
      w.pieces.back().decoded_bytes += p.decoded_bytes;
    } else {
      w.pieces.push_back({p.file, p.begin, p.end, p.bytes, {}, p.decoded_bytes});
    }
  }
  return work;
}

}  // namespace stria
