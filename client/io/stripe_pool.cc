#include "client/io/stripe_pool.h"

#include <algorithm>
#include <utility>

#include "client/io/write_all.h"
#include "common/log.h"

namespace stria {

namespace {

constexpr size_t kGiveBackBatch = 256;  // ids per message
constexpr int64_t kGiveBackDelayNs = 5 * kSecond;
constexpr int64_t kTellAgainNs = 60 * kSecond;

bool Touches(const StripeGrant& grant, const std::vector<TargetId>& avoid) {
  return std::any_of(grant.info.columns.begin(), grant.info.columns.end(), [&](const Column& c) {
    return std::find(avoid.begin(), avoid.end(), c.target) != avoid.end();
  });
}

// Space runs out.
bool IsShort(const StripeGrant& grant) { return grant.max_column_bytes != 0; }

class PoolSource final : public GrantSource {
 public:
  PoolSource(StripePool* pool, InodeId ino, const Layout& layout) : pool_(pool), ino_(ino), layout_(layout) {}
  Task<Result<StripeGrant>> Take(uint64_t payload_bytes, std::vector<TargetId> avoid) override {
    return pool_->Take(ino_, layout_, payload_bytes, std::move(avoid));
  }
  void GiveBack(StripeId stripe) override { pool_->GiveBack(stripe); }
  void HurryGiveBack() override { pool_->HurryGiveBack(); }

 private:
  StripePool* pool_;
  InodeId ino_;
  Layout layout_;
};

}  // namespace

StripePool::StripePool(DataPeers& peers, AllocateFn allocate, GiveBackFn give_back, StripePoolOptions options)
    : peers_(peers), allocate_(std::move(allocate)), give_back_(std::move(give_back)), options_(options) {
  CHECK(options_.max_ahead >= 1 && options_.max_ahead <= kMaxAhead);
}
StripePool::~StripePool() = default;

std::shared_ptr<StripePool::Entry> StripePool::Find(const Layout& layout, bool small, InodeId ino) {
  auto it = std::find_if(entries_.begin(), entries_.end(),
                         [&](const auto& e) { return e->small == small && e->layout == layout; });
  if (it != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, it);
  } else {
    if (entries_.size() == kMaxLayouts) {
      Discard(*entries_.back());
      entries_.pop_back();
    }
    entries_.push_front(std::make_shared<Entry>());
    entries_.front()->layout = layout;
    entries_.front()->small = small;
  }
  entries_.front()->ino = ino;
  entries_.front()->used_ns = Executor::Current().NowNs();
  return entries_.front();
}

bool StripePool::Usable(const Ready& r, int64_t now_ns) const {
  if (now_ns - r.since_ns >= options_.max_age_ns) return false;
  if (r.around_lost && r.grant.info.narrow && peers_.LostTargets().empty()) return false;
  return std::all_of(r.grant.info.columns.begin(), r.grant.info.columns.end(),
                     [&](const Column& c) { return !c.shard || peers_.Writable(c.target); });
}

void StripePool::DropStale(Entry& e) {
  const int64_t now_ns = Executor::Current().NowNs();
  std::erase_if(e.ready, [&](const Ready& r) {
    if (Usable(r, now_ns)) return false;
    GiveBack(r.grant.info.id);
    return true;
  });
}

void StripePool::Discard(Entry& e) {
  for (const Ready& r : e.ready) GiveBack(r.grant.info.id);
  e.ready.clear();
}

Task<Result<StripeGrant>> StripePool::Take(InodeId ino, Layout layout, uint64_t payload_bytes,
                                           std::vector<TargetId> avoid) {
  if (closed_) co_return Error(FsError::kCancelled, "the pool of stripes is closed");
  const bool small = payload_bytes != 0 && payload_bytes <= layout.unit_bytes;
  const std::shared_ptr<Entry> e = Find(layout, small, ino);
  DropStale(*e);
  auto it = std::find_if(e->ready.begin(), e->ready.end(),
                         [&](const Ready& r) { return !Touches(r.grant, avoid); });
  if (it != e->ready.end()) {
    StripeGrant grant = std::move(it->grant);
    e->ready.erase(it);
    // Running low: the next burst should find more.
    if (e->ready.empty()) e->ahead = std::min(e->ahead * 2, options_.max_ahead);
    if (e->ready.size() * 2 <= e->ahead) StartFill(e);
    co_return grant;
  }
  // The pool is empty: allocates the stripe that this writer needs and, with it, those that the next ones will need.
  const uint64_t epoch = epoch_;
  AllocateRequest request;
  request.ino = ino;
  request.payload_bytes = small ? layout.unit_bytes : 0;
  request.count = static_cast<uint32_t>(avoid.empty() && !e->filling ? e->ahead : 1);
  request.avoid = std::move(avoid);
  if (request.avoid.empty()) e->ahead = std::min(e->ahead * 2, options_.max_ahead);
  bool around_lost = false;
  Result<AllocateReply> reply = co_await AllocateAround(std::move(request), &around_lost);
  NotePlaces(reply.ok() ? Error() : reply.error());
  if (!reply.ok()) co_return reply.error();
  if (reply->stripes.empty()) co_return Error(FsError::kRetryLater, "no stripe was allocated");
  if (epoch == epoch_) {
    Keep(*e, std::move(reply->stripes), 1, around_lost);
  } else {
    for (size_t i = 1; i < reply->stripes.size(); ++i) GiveBack(reply->stripes[i].info.id);
  }
  co_return std::move(reply->stripes.front());
}

Task<Result<AllocateReply>> StripePool::AllocateAround(AllocateRequest request, bool* around_lost) {
  AllocateRequest around = request;
  for (const TargetId t : peers_.LostTargets()) {
    if (std::ranges::count(request.avoid, t) == 0) around.avoid.push_back(t);
  }
  *around_lost = around.avoid.size() > request.avoid.size();
  Result<AllocateReply> reply = co_await allocate_(std::move(around));
  // There may be space on those only, or too few others.
  if (!FindsNoPlace(reply.code()) || !*around_lost) co_return reply;
  *around_lost = false;
  co_return co_await allocate_(std::move(request));
}

void StripePool::NotePlaces(const Error& refused) {
  const int64_t now_ns = Executor::Current().NowNs();
  if (refused.code == FsError::kTooFewDomains) {
    if (!no_place_since_ns_) {
      no_place_since_ns_ = now_ns;
      tell_ns_ = now_ns + kTellWaitNs;
    }
    if (now_ns < tell_ns_) return;
    LogWarning("written bytes have found no disks for {} s, and writers wait: {}",
               (now_ns - *no_place_since_ns_) / kSecond, refused.message);
    told_ = true;
    tell_ns_ = now_ns + kTellAgainNs;
  } else if (refused.ok() && no_place_since_ns_) {
    if (told_) LogInfo("there are disks for writes again, after {} s", (now_ns - *no_place_since_ns_) / kSecond);
    no_place_since_ns_.reset();
    told_ = false;
  }
}

void StripePool::Keep(Entry& e, std::vector<StripeGrant>&& stripes, size_t from, bool around_lost) {
  const int64_t now_ns = Executor::Current().NowNs();
  const bool evicted =
      std::none_of(entries_.begin(), entries_.end(), [&](const auto& p) { return p.get() == &e; });
  // Space runs out, or no place is left without disks that this client cannot reach: nothing to keep.
  const auto unfit = [&](const StripeGrant& g) { return IsShort(g) || !Usable(Ready{g, now_ns, around_lost}, now_ns); };
  if (std::ranges::any_of(stripes, unfit)) e.ahead = 1;
  for (size_t i = from; i < stripes.size(); ++i) {
    if (closed_ || evicted || e.ready.size() >= options_.max_ahead || unfit(stripes[i])) {
      GiveBack(stripes[i].info.id);
    } else {
      e.ready.push_back(Ready{std::move(stripes[i]), now_ns, around_lost});
    }
  }
  ArmSweep();
}

void StripePool::StartFill(const std::shared_ptr<Entry>& e) {
  if (e->filling || closed_ || e->ready.size() >= e->ahead) return;
  e->filling = true;
  scope_.Spawn(Fill(e, epoch_));
}

Task<void> StripePool::Fill(std::shared_ptr<Entry> e, uint64_t epoch) {
  AllocateRequest request;
  request.ino = e->ino;
  request.payload_bytes = e->small ? e->layout.unit_bytes : 0;
  request.count = static_cast<uint32_t>(e->ahead - std::min(e->ahead - 1, e->ready.size()));
  bool around_lost = false;
  Result<AllocateReply> reply = co_await AllocateAround(std::move(request), &around_lost);
  e->filling = false;
  // An error shows to the writer that needs a stripe.
  if (!reply.ok()) co_return;
  if (epoch == epoch_) {
    Keep(*e, std::move(reply->stripes), 0, around_lost);
  } else {
    for (const StripeGrant& g : reply->stripes) GiveBack(g.info.id);
  }
}

void StripePool::ArmSweep() {
  if (sweep_.pending() || ready() == 0) return;
  Executor& ex = Executor::Current();
  ex.StartTimer(&sweep_, ex.NowNs() + options_.max_age_ns, [this] {
    const int64_t now_ns = Executor::Current().NowNs();
    for (const auto& e : entries_) {
      if (now_ns - e->used_ns >= options_.max_age_ns) e->ahead = 1;
      DropStale(*e);
    }
    ArmSweep();
  });
}

void StripePool::GiveBack(StripeId stripe) {
  if (returned_.size() < kMaxGiveBack) returned_.push_back(stripe);
  if (closed_ || sending_) return;
  sending_ = true;
  scope_.Spawn(SendGiveBack());
}

Task<void> StripePool::SendGiveBack() {
  // The next commits carry the ids at no cost; the rest is sent.
  if (returned_.size() < kGiveBackBatch) {
    (void)co_await WithTimeout(kGiveBackDelayNs, [](Event* hurry) -> Task<bool> {
      co_await hurry->Wait();
      co_return true;
    }(&hurry_));
  }
  while (!closed_ && !returned_.empty()) co_await give_back_(TakeGiveBack(kGiveBackBatch));
  hurry_.Reset();
  sending_ = false;
}

void StripePool::HurryGiveBack() {
  if (sending_) hurry_.Set();  // else nothing waits
}

std::vector<StripeId> StripePool::TakeGiveBack(size_t limit) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(limit, returned_.size()));
  std::vector<StripeId> out(returned_.begin(), returned_.begin() + n);
  returned_.erase(returned_.begin(), returned_.begin() + n);
  return out;
}

void StripePool::OnMapChanged() {
  for (const auto& e : entries_) {
    // Stripes that had to be narrow or crowded may be better now.
    std::erase_if(e->ready, [&](const Ready& r) {
      if (!r.grant.info.narrow && !r.grant.info.crowded) return false;
      GiveBack(r.grant.info.id);
      return true;
    });
    DropStale(*e);
  }
}

void StripePool::Drop(bool session_lost) {
  ++epoch_;
  if (!session_lost) {
    for (const auto& e : entries_) Discard(*e);
    return;
  }
  for (const auto& e : entries_) e->ready.clear();
  returned_.clear();
}

Task<void> StripePool::Close() {
  closed_ = true;
  scope_.CancelAll();
  sweep_.Cancel();
  for (const auto& e : entries_) Discard(*e);
  while (!returned_.empty()) co_await give_back_(TakeGiveBack(kGiveBackBatch));
}

std::unique_ptr<GrantSource> StripePool::SourceFor(InodeId ino, Layout layout) {
  return std::make_unique<PoolSource>(this, ino, layout);
}

size_t StripePool::ready() const {
  size_t n = 0;
  for (const auto& e : entries_) n += e->ready.size();
  return n;
}

}  // namespace stria
