// Room of a server that requests take while they are carried out, and how much of it each peer has: one peer alone does not take
// all. Pure. Not thread-safe.
//
// Invariants: a peer gets a quarter of all as long as there is room at all. It gets more only while half is left for others after
// that. Who has proved nothing has no share: where nothing is proved, nobody knows who is who.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace stria {

class PeerRoom {
 public:
  explicit PeerRoom(int64_t units) : units_(units), free_(units) {}
  PeerRoom(const PeerRoom&) = delete;
  PeerRoom& operator=(const PeerRoom&) = delete;

  // Gives back what it holds when it ends.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& o) noexcept : room_(std::exchange(o.room_, nullptr)), holder_(o.holder_), n_(o.n_) {}
    Hold& operator=(Hold&& o) noexcept {
      if (this == &o) return *this;
      Release();
      room_ = std::exchange(o.room_, nullptr);
      holder_ = o.holder_;
      n_ = o.n_;
      return *this;
    }
    ~Hold() { Release(); }
    explicit operator bool() const { return room_ != nullptr; }

   private:
    friend class PeerRoom;
    Hold(PeerRoom* room, uint64_t holder, int64_t n) : room_(room), holder_(holder), n_(n) {}
    void Release() {
      if (PeerRoom* const room = std::exchange(room_, nullptr)) room->Give(holder_, n_);
    }
    PeerRoom* room_ = nullptr;
    uint64_t holder_ = 0;
    int64_t n_ = 0;
  };
  // Nothing if there is not so much for this one. `holder`: Peer::Holder, 0 without proof.
  Hold TryTake(uint64_t holder, int64_t n) {
    if (n > free_) return {};
    if (holder != 0) {
      const auto it = has_.find(holder);
      const int64_t mine = it == has_.end() ? 0 : it->second;
      if (mine > 0 && mine + n > units_ / 4 && free_ - n < units_ / 2) return {};
      has_[holder] = mine + n;
    }
    free_ -= n;
    return Hold(this, holder, n);
  }
  int64_t available() const { return free_; }
  size_t peers() const { return has_.size(); }

 private:
  void Give(uint64_t holder, int64_t n) {
    free_ += n;
    if (holder == 0) return;
    const auto it = has_.find(holder);
    if ((it->second -= n) == 0) has_.erase(it);
  }

  const int64_t units_;
  int64_t free_;
  std::map<uint64_t, int64_t> has_;  // of those that have some
};

}  // namespace stria
