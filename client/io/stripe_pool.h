// Stripes allocated ahead of need, so that a writer rarely waits for the metadata server. Per layout and
// size class (full stripes, or payload of at most one unit), growing with demand.
//
// A grant leaves the pool unused when it is older than max_age_ns (its tokens end), when one of its targets is no longer fit
// for writing, when it is narrow and the cluster map changed, and on Close; its id is then given back. The pool asks for
// stripes around nodes that are lost to this client, as long as there are others, and drops narrow ones when those nodes are
// heard again. It does not keep grants that are short for want of space: free space changes too fast, and there may be room for
// full ones soon. After a lost session it drops everything.
//
// While there are too few disks for a stripe, a writer asks again and again; the log says so after kTellWaitNs.
//
// Executor's thread only. Bounds: kMaxLayouts entries (the least recently used is given back),
// kMaxAhead grants each, kMaxGiveBack ids remembered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "api/meta_api.h"
#include "client/io/peers.h"
#include "client/io/write_all.h"
#include "common/exec/task.h"

namespace stria {

struct StripePoolOptions {
  int64_t max_age_ns = 300 * kSecond;  // less than a write token lives
  size_t max_ahead = 16;               // at most kMaxAhead
};

class StripePool {
 public:
  static constexpr size_t kMaxLayouts = 16;
  static constexpr size_t kMaxAhead = 16;       // AllocateRequest::count's limit
  static constexpr int64_t kTellWaitNs = 3 * kSecond;
  static constexpr size_t kMaxGiveBack = 4096;  // more are left to the end of the session

  // Fills in header and caller, and sends (MetaSession::Mutate).
  using AllocateFn = std::function<Task<Result<AllocateReply>>(AllocateRequest)>;
  // Tells the server that these will not be used; best effort.
  using GiveBackFn = std::function<Task<void>(std::vector<StripeId>)>;

  StripePool(DataPeers& peers, AllocateFn allocate, GiveBackFn give_back, StripePoolOptions options = {});
  ~StripePool();

  // A stripe for up to `payload_bytes` (0: a full one) of a file with this layout; `ino` is any such file,
  // for the server to find the layout by. With `avoid` the pool is passed over unless it has one that fits.
  Task<Result<StripeGrant>> Take(InodeId ino, Layout layout, uint64_t payload_bytes,
                                 std::vector<TargetId> avoid);
  // Will not be committed.
  void GiveBack(StripeId stripe);
  // At most `limit` ids for CommitRequest::give_back of the next commit. The pool itself sends the rest when there are many or
  // some time has passed, and on Close.
  std::vector<StripeId> TakeGiveBack(size_t limit = 64);
  // Sends the waiting ids at once, because a writer has found no space and their stripes may hold some. Best effort.
  void HurryGiveBack();

  void OnMapChanged();
  // SessionHandlers::on_reclaimed. The session was lost: its grants are void, nothing is said. The server
  // has restarted: an allocation may not have been durable, so all are given back and asked for anew (those
  // that were durable would else stay allocated as long as the session lives).
  void Drop(bool session_lost);
  // Gives everything back. Nothing may be taken any more.
  Task<void> Close();

  // The source of stripes for WriteAll, for one file. The pool outlives it.
  std::unique_ptr<GrantSource> SourceFor(InodeId ino, Layout layout);
  size_t ready() const;  // grants in the pool

 private:
  struct Ready {
    StripeGrant grant;
    int64_t since_ns = 0;
    bool around_lost = false;  // it would else have had disks that were lost then
  };
  struct Entry {
    Layout layout;
    bool small = false;
    InodeId ino;  // the last one that asked
    std::deque<Ready> ready;
    size_t ahead = 1;  // wanted
    bool filling = false;
    int64_t used_ns = 0;
  };
  std::shared_ptr<Entry> Find(const Layout& layout, bool small, InodeId ino);
  bool Usable(const Ready& r, int64_t now_ns) const;
  // Around lost disks as well, if there are others. `around_lost`: so it was.
  Task<Result<AllocateReply>> AllocateAround(AllocateRequest request, bool* around_lost);
  void DropStale(Entry& e);
  void Discard(Entry& e);
  void StartFill(const std::shared_ptr<Entry>& e);
  Task<void> Fill(std::shared_ptr<Entry> e, uint64_t epoch);
  void Keep(Entry& e, std::vector<StripeGrant>&& stripes, size_t from, bool around_lost);
  void NotePlaces(const Error& refused);
  void ArmSweep();  // drops old grants even if no writer takes any
  Task<void> SendGiveBack();

  DataPeers& peers_;
  AllocateFn allocate_;
  GiveBackFn give_back_;
  const StripePoolOptions options_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recently used first
  std::vector<StripeId> returned_;
  bool sending_ = false;
  Event hurry_;  // the sending does not wait for the next commits
  bool closed_ = false;
  uint64_t epoch_ = 0;  // of Drop
  // Since when no stripe finds enough disks, and when to log that (again).
  std::optional<int64_t> no_place_since_ns_;
  int64_t tell_ns_ = 0;
  bool told_ = false;
  Timer sweep_;
  TaskScope scope_;
};

}  // namespace stria
