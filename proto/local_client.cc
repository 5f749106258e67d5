#include "proto/local_client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/io/cached_read.h"
#include "common/io/direct_read.h"
#include "proto/bulk_loop.h"
#include "proto/local_wire.h"
#include "stripe/checksum.h"
#include "stripe/grain_memory.h"

namespace stria {
namespace {

constexpr int64_t kRetryConnectNs = 1 * kSecond;
constexpr int64_t kAskNs = 200 * kMillisecond;  // then the network is asked
constexpr size_t kMaxAsks = 256;                // waiting for an answer
constexpr size_t kMaxLocalBlocks = 16'384;      // blocks of which parts were read lately: 1 GiB
constexpr uint64_t kDirectBytes = 128 * kKiB;   // from this size on past the page cache

// A shard that was opened; read from any thread.
class OpenLocalShard {
 public:
  explicit OpenLocalShard(LocalShard s) : shard(std::move(s)), notes_no_access_times(NotesNoAccessTimes(fd())) {}
  const LocalShard shard;
  const bool notes_no_access_times;
  int fd() const { return shard.file->get(); }
  // -1: it can only be read the ordinary way.
  int direct_fd() const {
    std::call_once(once_, [this] { direct_ = UniqueFd(ReopenDirect(fd(), O_RDONLY)); });
    return direct_.get();
  }

 private:
  mutable std::once_flag once_;
  mutable UniqueFd direct_;
};
using LocalShardPtr = std::shared_ptr<const OpenLocalShard>;

// Exactly `length` bytes, or nothing. Large reads go past the page cache where possible: this machine's memory keeps the bytes
// as pages of the mount already.
bool PastTheCache(uint64_t length) { return length >= kDirectBytes; }
std::optional<Buffer> ReadFile(const OpenLocalShard& file, uint64_t offset, uint64_t length) {
  if (PastTheCache(length) && file.direct_fd() >= 0) {
    Buffer bytes;
    const int err = ReadDirect(file.direct_fd(), offset, length, &bytes);
    if (err == 0 && bytes.size() == length) return bytes;
    if (err != EINVAL) return std::nullopt;
  }
  MutableBuffer out(length);
  for (size_t done = 0; done < length;) {
    const ssize_t n = pread(file.fd(), out.data() + done, length - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::nullopt;
    done += static_cast<size_t>(n);
  }
  return std::move(out).Freeze();
}

bool IsDeleted(const OpenLocalShard& file) {
  struct stat st;
  return fstat(file.fd(), &st) == 0 && st.st_nlink == 0;
}

bool Fits(const LocalShard& shard, const ShardRead& item) {
  const uint64_t end = item.offset + item.length;
  return item.length > 0 && item.offset % kChecksumBlockBytes == 0 && end >= item.offset && end <= shard.length &&
         (end == shard.length || item.length % kChecksumBlockBytes == 0);
}

}  // namespace

// Shared by the connector, its links and calls under way.
class LocalDataConnector::State {
 public:
  State(Executor* ex, Pool* p) : executor(ex), pool(p), loop("local-client") {}
  Executor* const executor;
  Pool* const pool;
  BulkLoop loop;
  LocalStats stats;
  bool closed = false;  // executor's thread
};

// To one data server. Executor's thread, but for Incoming.
class LocalDataConnector::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(std::shared_ptr<State> state, std::string address) : state_(std::move(state)), address_(std::move(address)) {}
  ~Link() { Drop(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // nullptr: it has to be read over the network.
  Task<LocalShardPtr> Find(const ShardRead& item) {
    const Key key{item.target, item.shard};
    Forget(Executor::Current().NowNs() - kKeepLocalNs);
    if (const auto it = kept_.find(key); it != kept_.end()) co_return it->second->shard;
    if (!Connected() || pending_.size() >= kMaxAsks) co_return nullptr;
    const uint64_t connection = connections_;
    std::optional<Result<LocalShard>> answer = co_await WithTimeout(kAskNs, Ask(key, item.token));
    if (!answer || connection != connections_) co_return nullptr;
    LocalShardPtr shard;
    if (answer->ok()) {
      shard = std::make_shared<const OpenLocalShard>(std::move(**answer));
      ++state_->stats.opened;
    } else if (answer->code() != FsError::kNotSupported) {
      co_return nullptr;  // the network will tell why
    }
    Keep(key, shard);
    co_return shard;
  }

  CachedReads& cached() { return cached_; }
  GrainMemory& grains() { return grains_; }

 private:
  using Key = std::pair<TargetId, ShardId>;
  struct Kept {
    Key key;
    LocalShardPtr shard;  // nullptr: it cannot be had
    int64_t since_ns = 0;
  };
  // Takes received packets, on the loop's thread.
  class Incoming final : public BulkLoop::Watcher {
   public:
    Incoming(std::shared_ptr<State> state, std::weak_ptr<Link> link, uint64_t connection, UniqueFd fd)
        : state_(std::move(state)), link_(std::move(link)), connection_(connection), fd_(std::move(fd)) {}
    int fd() const { return fd_.get(); }
    void OnReady(bool, bool, bool) override {
      while (true) {
        std::string packet;
        UniqueFd passed;
        const Got got = ReceivePacket(fd_.get(), &packet, &passed);
        if (got == Got::kNothingYet) return;
        std::optional<LocalAnswer> answer = got == Got::kPacket ? DecodeLocalAnswer(packet) : std::nullopt;
        auto file = std::make_shared<UniqueFd>(std::move(passed));
        const bool end = !answer;
        state_->executor->Post([link = link_, connection = connection_, answer = std::move(answer), file] {
          const std::shared_ptr<Link> l = link.lock();
          if (!l || l->connections_ != connection) return;
          if (answer) {
            l->Answered(*answer, file);
          } else {
            l->Drop();
          }
        });
        if (end) return state_->loop.Forget(fd_.get());
      }
    }

   private:
    const std::shared_ptr<State> state_;
    const std::weak_ptr<Link> link_;
    const uint64_t connection_;
    const UniqueFd fd_;
  };

  bool Connected() {
    if (socket_) return true;
    const int64_t now_ns = state_->executor->NowNs();
    if (state_->closed || now_ns < not_before_ns_) return false;
    not_before_ns_ = now_ns + kRetryConnectNs;
    UniqueFd fd(stria::ConnectLocal(address_));
    if (!fd.ok()) return false;
    socket_ = std::make_shared<Incoming>(state_, weak_from_this(), ++connections_, std::move(fd));
    state_->loop.Run([state = state_.get(), socket = socket_] { state->loop.Watch(socket->fd(), socket); });
    return true;
  }

  Task<Result<LocalShard>> Ask(Key key, std::string token) {
    const uint64_t id = next_id_++;
    OneShot<Result<LocalShard>> result;
    pending_.emplace(id, result);
    struct Erase {
      std::map<uint64_t, OneShot<Result<LocalShard>>>* from;
      uint64_t id;
      ~Erase() { from->erase(id); }
    } erase{&pending_, id};
    if (!SendPacket(socket_->fd(), EncodeLocal(LocalAsk{id, key.second, key.first, std::move(token)}), -1)) {
      co_return Error(FsError::kUnavailable);
    }
    co_return co_await result.Take();
  }

  void Answered(const LocalAnswer& answer, std::shared_ptr<UniqueFd> file) {
    const auto it = pending_.find(answer.id);
    if (it == pending_.end()) return;
    const bool sound = answer.error == FsError::kOk && file->ok() &&
                       answer.crcs.size() == DivCeil(answer.length, kChecksumBlockBytes);
    if (sound) {
      it->second.Set(LocalShard{std::move(file), answer.length, answer.crcs});
    } else {
      it->second.Set(Error(answer.error == FsError::kOk ? FsError::kCorrupt : answer.error));
    }
  }

  void Keep(const Key& key, LocalShardPtr shard) {
    if (kept_.contains(key)) return;  // another read was faster
    by_age_.push_back({key, std::move(shard), state_->executor->NowNs()});
    kept_[key] = std::prev(by_age_.end());
    if (kept_.size() > kMaxLocalShards) ForgetOldest();
    // Also when no reader is left.
    if (!sweep_.pending()) SweepLater();
  }
  void SweepLater() {
    state_->executor->StartTimer(&sweep_, state_->executor->NowNs() + kSweepLocalNs, [this] {
      Forget(state_->executor->NowNs() - kKeepLocalNs);
      ForgetDeleted();
      if (!by_age_.empty()) SweepLater();
    });
  }
  void ForgetOldest() {
    kept_.erase(by_age_.front().key);
    by_age_.pop_front();
  }
  void Forget(int64_t from_before_ns) {
    while (!by_age_.empty() && by_age_.front().since_ns <= from_before_ns) ForgetOldest();
  }

  void ForgetDeleted() {
    for (auto it = by_age_.begin(); it != by_age_.end();) {
      if (it->shard && IsDeleted(*it->shard)) {
        kept_.erase(it->key);
        it = by_age_.erase(it);
      } else {
        ++it;
      }
    }
  }

  void Drop() {
    ++connections_;
    kept_.clear();
    by_age_.clear();
    sweep_.Cancel();
    for (const auto& [id, result] : pending_) result.Set(Error(FsError::kUnavailable));
    if (socket_) shutdown(socket_->fd(), SHUT_RDWR);  // the loop sees its end, and forgets it
    socket_ = nullptr;
  }

  const std::shared_ptr<State> state_;
  const std::string address_;
  std::shared_ptr<Incoming> socket_;
  CachedReads cached_;
  GrainMemory grains_{kMaxLocalBlocks};
  uint64_t connections_ = 0;  // made and ended: tells answers of an older one
  int64_t not_before_ns_ = INT64_MIN;
  uint64_t next_id_ = 1;
  std::map<uint64_t, OneShot<Result<LocalShard>>> pending_;
  std::list<Kept> by_age_;  // oldest first
  std::map<Key, std::list<Kept>::iterator> kept_;
  Timer sweep_;
};

class LocalDataConnector::Service final : public DataService {
 public:
  Service(std::shared_ptr<State> state, std::shared_ptr<DataService> network, std::shared_ptr<Link> link)
      : state_(std::move(state)), network_(std::move(network)), link_(std::move(link)) {}

  Task<Result<WriteReply>> Write(WriteRequest r) override { return network_->Write(std::move(r)); }
  Task<Result<SealReply>> Seal(SealRequest r) override { return network_->Seal(std::move(r)); }
  Task<Result<DeleteReply>> Delete(DeleteRequest r) override { return network_->Delete(std::move(r)); }
  Task<Result<InventoryReply>> Inventory(InventoryRequest r) override { return network_->Inventory(std::move(r)); }

  Task<Result<ReadReply>> Read(ReadRequest request) override {
    return ReadWith(state_, network_, link_, std::move(request));
  }

 private:
  // An item's bytes, if they could be had here.
  struct Local {
    std::optional<BufferChain> bytes;
    std::vector<uint32_t> crcs;
    LeftOut left_out;
  };

  // The item's range without `outside`.
  static Task<std::optional<Buffer>> ReadAround(std::shared_ptr<State> state, std::shared_ptr<Link> link, LocalShardPtr file,
                                                ShardRead item, LeftOut outside) {
    const uint64_t offset = item.offset + outside.head_bytes;
    const uint64_t length = item.length - outside.head_bytes - outside.tail_bytes;
    const bool cached = !PastTheCache(length);
    if (cached && file->notes_no_access_times && link->cached().Worth(length, Executor::Current())) {
      if (std::optional<Buffer> bytes = link->cached().Read(file->fd(), offset, length, /*begin=*/false)) co_return bytes;
    }
    co_return co_await RunOn(*state->pool, [file, offset, length, waiting = cached ? link->cached().Wait() : nullptr] {
      return ReadFile(*file, offset, length);
    });
  }

  static Task<Local> ReadLocal(std::shared_ptr<State> state, std::shared_ptr<Link> link, const ShardRead* item) {
    Local out;
    const LocalShardPtr file = co_await link->Find(*item);
    if (!file || !Fits(file->shard, *item)) co_return out;
    const uint64_t first_block = item->offset / kChecksumBlockBytes;
    const auto first = file->shard.crcs.begin() + static_cast<std::ptrdiff_t>(first_block);
    out.crcs.assign(first, first + static_cast<std::ptrdiff_t>(DivCeil(item->length, kChecksumBlockBytes)));
    const bool part = item->omit_head != 0 || item->omit_tail != 0;
    std::optional<LeftOut> known =
        part ? link->grains().Find(item->shard, item->offset, item->length, item->omit_head, item->omit_tail) : std::nullopt;
    std::optional<Buffer> bytes = co_await ReadAround(state, link, file, *item, known.value_or(LeftOut()));
    if (bytes && known && FirstBadBlock(item->shard, first_block, bytes->span(), *known, out.crcs)) {
      known.reset();  // the remembered sums may be the wrong ones
      bytes = co_await ReadAround(state, link, file, *item, LeftOut());
    }
    if (!bytes) co_return out;
    out.bytes.emplace(std::move(*bytes));
    if (part) {
      if (!known) link->grains().Learn(item->shard, item->offset, *out.bytes, item->omit_head, item->omit_tail, out.crcs);
      out.left_out = CutEnds(&*out.bytes, item->omit_head, item->omit_tail, known.value_or(LeftOut()));
    }
    state->stats.local_bytes += item->length;
    co_return out;
  }

  static Task<Result<ReadReply>> ReadWith(std::shared_ptr<State> state, std::shared_ptr<DataService> network,
                                          std::shared_ptr<Link> link, ReadRequest request) {
    std::vector<Task<Local>> reads;
    for (const ShardRead& item : request.items) reads.push_back(ReadLocal(state, link, &item));
    std::vector<Local> local = co_await WhenAll(std::move(reads));
    ReadRequest rest;
    rest.header = request.header;
    for (size_t i = 0; i < local.size(); ++i) {
      if (!local[i].bytes) rest.items.push_back(request.items[i]);
    }
    ReadReply far;
    if (!rest.items.empty()) {
      const size_t asked = rest.items.size();
      CO_ASSIGN_OR_RETURN(far, co_await network->Read(std::move(rest)));
      if (far.items.size() != asked) co_return Error(FsError::kBadRequest, "a reply has not as many items as asked for");
    }
    co_return Merge(std::move(local), std::move(far));
  }

  static ReadReply Merge(std::vector<Local> local, ReadReply far) {
    ReadReply out;
    size_t next = 0;
    uint64_t at = 0;
    for (Local& here : local) {
      if (here.bytes) {
        out.items.push_back({{}, here.bytes->size(), std::move(here.crcs), here.left_out});
        out.payload.Append(*here.bytes);
        continue;
      }
      ReadItem& item = far.items[next++];
      const uint64_t n = std::min<uint64_t>(item.length, far.payload.size() - at);
      out.payload.Append(far.payload.Slice(at, n));
      at += n;
      out.items.push_back(std::move(item));
    }
    return out;
  }

  const std::shared_ptr<State> state_;
  const std::shared_ptr<DataService> network_;
  const std::shared_ptr<Link> link_;
};

LocalDataConnector::LocalDataConnector(Executor* executor, DataConnector* network, Pool* pool, IsLocal is_local)
    : network_(network), is_local_(std::move(is_local)), state_(std::make_shared<State>(executor, pool)) {}

LocalDataConnector::~LocalDataConnector() {
  state_->closed = true;
  state_->loop.Stop();
}

std::shared_ptr<DataService> LocalDataConnector::Connect(const std::string& address) {
  std::shared_ptr<DataService> network = network_->Connect(address);
  if (!is_local_(address)) return network;
  return std::make_shared<Service>(state_, std::move(network), LinkTo(address));
}

std::shared_ptr<LocalDataConnector::Link> LocalDataConnector::LinkTo(const std::string& address) {
  std::weak_ptr<Link>& known = links_[address];
  std::shared_ptr<Link> link = known.lock();
  if (!link) known = link = std::make_shared<Link>(state_, address);
  std::erase_if(links_, [](const auto& l) { return l.second.expired(); });
  return link;
}

Task<std::shared_ptr<const UniqueFd>> LocalDataConnector::OpenWhole(std::string address, ShardRead shard) {
  if (!is_local_(address)) co_return nullptr;
  const std::shared_ptr<Link> link = asked_last_ = LinkTo(address);
  const LocalShardPtr found = co_await link->Find(shard);
  if (!found || found->shard.length != shard.length) co_return nullptr;
  struct stat st;
  const bool whole = fstat(found->fd(), &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink > 0 &&
                     static_cast<uint64_t>(st.st_size) == shard.length;
  co_return whole ? found->shard.file : nullptr;
}

const LocalStats& LocalDataConnector::stats() const { return state_->stats; }

}  // namespace stria
