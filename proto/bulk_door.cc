#include "proto/bulk_door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/bulk_connection.h"
#include "proto/socket_address.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

constexpr int64_t kLookNs = 250 * kMillisecond;
constexpr int kHandshakeThreads = 1;  // a handshake takes less than a millisecond; what is left of the machine is for those who are known
constexpr size_t kMaxDrained = 64 * kKiB;
constexpr int kAcceptTurn = 64;  // then others of the loop have theirs
constexpr size_t kJoinHead = 4;
// Of those whose request to join is here: it is being decided on, and they have to take the answer.
constexpr DoormanLimits kAskingLimits = {.unknown = 64, .per_address = 8, .bytes = SIZE_MAX, .patience_ns = 30 * kSecond, .grace_ns = 30 * kSecond};
constexpr size_t kMaxJoinsUnderWay = 64;
constexpr size_t kMaxRefusalBytes = 2 * kKiB;
constexpr size_t kMaxIgnored = kMiB;  // that comes after a request to join
constexpr char kTlsHandshake = 22;  // the first byte of whoever speaks TLS

// "10.0.0.7:40112", "[fd00::7]:40112"; of a Unix socket "a local process".
std::string AddressOf(const sockaddr_storage& a) {
  char text[INET6_ADDRSTRLEN] = "";
  if (a.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(a);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (a.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(a);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return "a local process";
}

}  // namespace

// ---- Those who come -------------------------------------------------------------------------------

// Accepts connections.
class BulkDoor::Acceptor final : public BulkLoop::Watcher, public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(std::shared_ptr<BulkDoor> door, int fd) : door_(std::move(door)), fd_(fd) {}
  ~Acceptor() override {
    close(fd_);
    if (spare_ >= 0) close(spare_);
  }
  void OnReady(bool, bool, bool) override {
    for (int i = 0; i < kAcceptTurn; ++i) {
      sockaddr_storage from = {};
      socklen_t size = sizeof from;
      const int fd = accept4(fd_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        door_->Accepted(fd, AddressOf(from));
      } else if (errno == EMFILE || errno == ENFILE) {
        if (!Refuse()) return;
      } else if (errno != EINTR && errno != ECONNABORTED) {
        return;
      }
    }
    door_->acceptor_loop()->Run([self = shared_from_this()] { self->OnReady(true, false, false); });
  }

 private:
  static int Spare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }
  // No descriptor is left: the new connection is closed at once, so that its client need not wait. False if that was not
  // possible either.
  bool Refuse() {
    if (spare_ < 0) return false;
    close(spare_);
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) close(fd);
    spare_ = Spare();
    return fd >= 0;
  }

  const std::shared_ptr<BulkDoor> door_;
  const int fd_;
  int spare_ = Spare();  // for Refuse
};

// One whose socket is here until it is known what becomes of it.
class BulkDoor::Visitor : public BulkLoop::Watcher, public std::enable_shared_from_this<Visitor> {
 public:
  Visitor(std::shared_ptr<BulkDoor> door, BulkLoop* loop, int fd, std::string address)
      : door_(std::move(door)), loop_(loop), fd_(fd), address_(std::move(address)) {}
  ~Visitor() override {
    if (fd_ < 0) return;
    close(fd_);
    door_->Gone();
  }
  BulkLoop* loop() const { return loop_; }
  const std::string& address() const { return address_; }

  // The rest: its loop's thread.
  void Start() {
    if (!over_) loop_->Watch(fd_, shared_from_this());
    watched_ = !over_;
  }
  // It has to go. `why` is told, unless it is ok.
  void End(const Error& why) {
    if (std::exchange(over_, true)) return;
    if (watched_) loop_->Forget(fd_);
    // What was sent last, the reason, is to arrive: closing with something unread would reset the connection.
    char rest[kHandshakePiece];
    for (size_t drained = 0; recv(fd_, rest, sizeof rest, MSG_DONTWAIT) > 0 && drained < kMaxDrained;) drained += sizeof rest;
    shutdown(fd_, SHUT_RDWR);
    door_->Left(this);
    door_->Tell(why);
  }

  // Of the door, under its lock.
  Room* room = nullptr;  // none: nobody's care
  uint64_t id = 0;

 protected:
  Error Refused(const std::string& why) const { return Error(FsError::kAccess, "the peer at " + address_ + " was refused: " + why); }
  // It speaks what is not spoken here, and is told so.
  void SendAway(const std::string& why) {
    (void)!send(fd_, kWrongProtocolAlert, sizeof kWrongProtocolAlert, MSG_NOSIGNAL | MSG_DONTWAIT);
    End(Refused(why));
  }
  Error Away(const std::string& when) const { return Error(FsError::kUnavailable, "the peer at " + address_ + " went away " + when); }
  bool over() const { return over_; }
  // Its socket, which becomes something else. It ends here.
  int Take() {
    door_->Left(this);
    return GiveUp();
  }
  // The same, where another has its place at the door.
  int GiveUp() {
    over_ = true;
    loop_->Forget(fd_);
    return std::exchange(fd_, -1);
  }

  const std::shared_ptr<BulkDoor> door_;
  BulkLoop* const loop_;
  int fd_;
  const std::string address_;

 private:
  bool over_ = false, watched_ = false;
};

// Looks at a connection's first bytes, without taking them.
class BulkDoor::Greeter final : public Visitor {
 public:
  // `peer`: who it is, if that is known.
  Greeter(std::shared_ptr<BulkDoor> door, BulkLoop* loop, int fd, std::string address, std::shared_ptr<const Peer> peer = nullptr)
      : Visitor(std::move(door), loop, fd, std::move(address)), peer_(std::move(peer)) {}
  void OnReady(bool, bool, bool ended) override {
    if (over()) return;
    char bytes[kBulkPrefaceBytes];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    const auto begins = [&](const char* preface) { return n > 0 && memcmp(bytes, preface, static_cast<size_t>(n)) == 0; };
    const bool aside = !peer_ && door_->options_.aside && begins(kBulkAsidePreface);
    const bool ours = aside || begins(kBulkPreface);
    const bool torn = ours && static_cast<size_t>(n) < sizeof bytes;
    if (torn && !ended) return;  // the rest is to come
    if (n <= 0 || torn) return End(Error());
    if (ours) {
      (void)!read(fd_, bytes, sizeof bytes);
      const int fd = Take();
      BulkProtection protection = Unprotected(fd);
      if (aside) return door_->HandOn(fd, std::move(protection), address_);
      protection.peer = peer_;
      door_->Opens(loop_, fd, std::move(protection), address_);
    } else if (peer_) {
      End(Refused("it does not speak Stria's protocol"));
    } else if (bytes[0] == kTlsHandshake) {
      SendAway("it speaks TLS, which this server does not: it is insecure");
    } else if (door_->options_.other) {
      const int fd = Take();
      door_->Gone();
      door_->options_.other(fd);
    } else {
      End(Error());
    }
  }

 private:
  const std::shared_ptr<const Peer> peer_;
};

// Shakes hands with one who came. All on its loop's thread but for the handshake itself, which has the session meanwhile.
class BulkDoor::Shaker final : public Visitor {
 public:
  using Visitor::Visitor;
  void OnReady(bool, bool, bool) override { Read(); }

 private:
  std::shared_ptr<Shaker> Self() { return std::static_pointer_cast<Shaker>(shared_from_this()); }

  // What comes before the handshake, if anything does. False: it is not here yet, or nothing more comes.
  bool TakePreface() {
    if (preface_taken_ || !door_->options_.aside) return true;
    char bytes[kBulkPrefaceBytes];
    ssize_t n;
    do {
      n = recv(fd_, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);  // Read says what that is
    if (memcmp(bytes, kBulkAsidePreface, static_cast<size_t>(n)) == 0) {
      if (static_cast<size_t>(n) < sizeof bytes) return false;
      (void)!read(fd_, bytes, sizeof bytes);
      aside_ = true;
    }
    return preface_taken_ = true;
  }

  void Read() {
    if (busy_ || over() || !TakePreface()) return;
    std::string in(kHandshakePiece, '\0');
    ssize_t n;
    do {
      n = recv(fd_, in.data(), in.size(), MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return End(Away("before it had said who it is"));
    in.resize(static_cast<size_t>(n));
    // Only what it begins with: later pieces may be cut anywhere.
    if (!session_ && in.substr(0, kBulkPrefaceBytes) == std::string_view(kBulkPreface, std::min(in.size(), kBulkPrefaceBytes))) {
      return SendAway("it does not speak TLS: it has no credentials, or was started with --insecure");
    }
    const Result<void> admitted = door_->Sent(this, in.size());
    if (!admitted.ok()) return End(Refused(admitted.error().message));
    busy_ = true;
    door_->handshakes_->Submit([self = Self(), in = std::move(in)] {
      // Made here: the context of now, and nothing is spent on who says nothing.
      if (!self->session_) self->session_ = std::make_unique<TlsSession>(self->door_->options_.tls->Get(), self->address_);
      std::string out;
      const TlsSession::Step step = self->session_->Handshake(in, &out);
      self->loop_->Run([self, step, out = std::move(out)] { self->Went(step, out); });
    });
  }

  void Went(TlsSession::Step step, const std::string& out) {
    busy_ = false;
    if (over()) return;
    // A few KiB, into an empty socket.
    const bool sent = out.empty() || send(fd_, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(out.size());
    if (step == TlsSession::Step::kFailed) return End(session_->error());
    if (!sent) return End(Away("in its handshake"));
    if (step == TlsSession::Step::kMore) return Read();
    if (session_->joining()) return Join();
    const int fd = Take();
    if (aside_) return door_->HandOn(fd, Protect(fd, std::move(session_)), address_);
    door_->Opens(loop_, fd, Protect(fd, std::move(session_)), address_);
  }

  void Join();

  bool preface_taken_ = false, aside_ = false;
  std::unique_ptr<TlsSession> session_;  // of the pool while busy_
  bool busy_ = false;
};

// Joins: sends one request and takes one answer. The doorman's patience and memory are those of the handshake until the request is here.
class BulkDoor::Joiner final : public Visitor {
 public:
  Joiner(std::shared_ptr<BulkDoor> door, BulkLoop* loop, int fd, std::string address, std::unique_ptr<TlsSession> session)
      : Visitor(std::move(door), loop, fd, std::move(address)), binding_(session->ChannelBinding()),
        channel_(std::move(Protect(fd, std::move(session)).channel)), in_(kJoinHead + kMaxJoinRequestBytes + 1, '\0') {}
  const std::string& binding() const { return binding_; }

  // Its loop's thread.
  void Begin() {
    Start();
    if (!over()) Read();  // what came with the end of the handshake, of which the socket does not tell
  }
  void OnReady(bool readable, bool writable, bool ended) override {
    if (over()) return;
    switch (phase_) {
      case Phase::kReads: return Read();
      case Phase::kWaits: return ended ? End(Away("before it had its answer")) : void();
      case Phase::kAnswers: return writable ? Send() : void();
      case Phase::kLeaves: return Leave();
    }
  }
  void Answer(const Result<std::string>& answer) {
    if (over() || phase_ > Phase::kWaits) return;
    const bool yes = answer.ok() && answer->size() <= kMaxJoinAnswerBytes;
    const std::string bytes = yes ? *answer : answer.ok() ? "the answer is too long" : answer.error().message.substr(0, kMaxRefusalBytes);
    out_ = std::string(1, yes ? 1 : 0);
    for (int shift = 24; shift >= 0; shift -= 8) out_ += static_cast<char>(bytes.size() >> shift & 0xff);
    out_ += bytes;
    phase_ = Phase::kAnswers;
    Send();
  }

 private:
  enum class Phase { kReads, kWaits, kAnswers, kLeaves };
  std::shared_ptr<Joiner> Self() { return std::static_pointer_cast<Joiner>(shared_from_this()); }

  void Read() {
    while (true) {
      const iovec to = {in_.data() + have_, in_.size() - have_};
      const ssize_t n = channel_->Receive(&to, 1);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) return End(Away("before it had asked to join"));
      have_ += static_cast<size_t>(n);
      const Result<void> admitted = door_->Sent(this, static_cast<size_t>(n));
      if (!admitted.ok()) return Refuse(admitted.error().message);
      if (have_ < kJoinHead) continue;
      size_t size = 0;
      for (size_t i = 0; i < kJoinHead; ++i) size = size << 8 | static_cast<uint8_t>(in_[i]);
      if (size == 0 || size > kMaxJoinRequestBytes) return Refuse("what it sent is no request to join");
      if (have_ > kJoinHead + size) return Refuse("it sent more than one request to join");
      if (have_ < kJoinHead + size) continue;
      phase_ = Phase::kWaits;
      return door_->Ask(Self(), in_.substr(kJoinHead, size));
    }
  }
  void Refuse(const std::string& why) {
    door_->Tell(Refused(why));
    Answer(Error(FsError::kAccess, why));
  }

  void Send() {
    while (sent_ < out_.size()) {
      iovec from = {out_.data() + sent_, out_.size() - sent_};
      const ssize_t n = channel_->Send(&from, 1);
      if (n < 0) return Blocked();
      sent_ += static_cast<size_t>(n);
    }
    if (channel_->Flush() != 0) return Blocked();
    // The answer is to arrive: what else it sends is read until it goes, as closing with something unread would reset the connection.
    phase_ = Phase::kLeaves;
    shutdown(fd_, SHUT_WR);
    Leave();
  }
  void Blocked() {
    if (errno != EAGAIN && errno != EWOULDBLOCK) End(Away("before it had its answer"));
  }
  void Leave() {
    char rest[kHandshakePiece];
    while (ignored_ < kMaxIgnored) {
      const ssize_t n = recv(fd_, rest, sizeof rest, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (n <= 0) break;
      ignored_ += static_cast<size_t>(n);
    }
    End(Error());
  }

  const std::string binding_;
  const std::unique_ptr<BulkChannel> channel_;
  std::string in_, out_;
  size_t have_ = 0, sent_ = 0, ignored_ = 0;
  Phase phase_ = Phase::kReads;
};

void BulkDoor::Shaker::Join() {
  if (!door_->options_.join) return End(Refused("nobody joins here"));
  const std::shared_ptr<BulkDoor> door = door_;
  const auto joiner = std::make_shared<Joiner>(door, loop_, fd_, address_, std::move(session_));
  const bool in_time = door->BecomesJoiner(this, joiner);
  GiveUp();
  if (in_time) return joiner->Begin();
  joiner->End(Error(FsError::kDeadline, "the peer at " + address_ + " was sent away: it took too long to say who it is"));
}

// ---- The door -------------------------------------------------------------------------------------

BulkDoor::BulkDoor(Executor* executor, const BulkServerOptions& options, std::function<void(BulkArrival)> opened)
    : executor_(executor), options_(options), opened_(std::move(opened)), unknown_(options.door), asking_(kAskingLimits) {}

BulkDoor::~BulkDoor() = default;

Result<std::string> BulkDoor::Open(const std::string& address, std::vector<BulkLoop*> loops, BulkLoop* quiet) {
  const bool local = address.starts_with(kUnixPrefix);
  if (local && options_.tls && !options_.local_peer) {
    return Error(FsError::kUnavailable, "cannot listen on " + address + ": a Unix socket has no TLS, and nothing says who its clients are");
  }
  std::string bound;
  ASSIGN_OR_RETURN(const int fd, ListenOn(address, &bound, options_.socket_mode));
  loops_ = std::move(loops);
  quiet_ = quiet;
  if (options_.tls && !local) handshakes_ = std::make_unique<ThreadPool>(kHandshakeThreads, "handshake");
  if (options_.tls || options_.local_peer) watch_.Spawn(Watch(this));
  if (local) socket_path_ = address.substr(strlen(kUnixPrefix));
  auto acceptor = std::make_shared<Acceptor>(shared_from_this(), fd);
  acceptor_loop()->Run([loop = acceptor_loop(), fd, acceptor] { loop->Watch(fd, acceptor); });
  return bound;
}

void BulkDoor::EndTasks() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
  }
  watch_.CancelAll();
  joins_.CancelAll();
}

void BulkDoor::Close() {
  handshakes_.reset();  // what it does is told to loops, which take no more
  std::map<uint64_t, std::shared_ptr<Visitor>> gone, gone_too;  // after the lock
  {
    std::lock_guard<std::mutex> lock(mu_);
    gone.swap(unknown_.here);
    gone_too.swap(asking_.here);
  }
  if (!socket_path_.empty()) (void)unlink(std::exchange(socket_path_, "").c_str());
}

size_t BulkDoor::waiting() {
  std::lock_guard<std::mutex> lock(mu_);
  return unknown_.here.size() + asking_.here.size();
}

bool BulkDoor::Comes() {
  if (++open_ <= options_.max_connections) return true;
  --open_;
  return false;
}

// On the thread of `here`.
void BulkDoor::Opens(BulkLoop* here, int fd, BulkProtection protection, const std::string& address) {
  if (quiet_ == nullptr) return opened_({here, fd, std::move(protection), address});
  BulkLoop* const loop = loops_[next_loop_++ % loops_.size()];
  auto arrival = std::make_shared<BulkHandedOn>(BulkArrival{loop, fd, std::move(protection), address});
  loop->Run([door = shared_from_this(), loop, arrival] { door->opened_(arrival->Take(loop)); });
}

void BulkDoor::HandOn(int fd, BulkProtection protection, const std::string& address) {
  Gone();
  options_.aside(std::make_shared<BulkHandedOn>(BulkArrival{nullptr, fd, std::move(protection), address}));
}

// On the acceptor's loop's thread.
void BulkDoor::Accepted(int fd, const std::string& address) {
  if (!Comes()) {
    close(fd);
    return;
  }
  TuneSocket(fd);
  BulkLoop* const loop = quiet_ != nullptr ? quiet_ : loops_[next_loop_++ % loops_.size()];
  if (!socket_path_.empty() && options_.local_peer) return AcceptedLocal(loop, fd);
  if (options_.tls) return AtTheDoor(std::make_shared<Shaker>(shared_from_this(), loop, fd, address), address);
  loop->Run([greeter = std::make_shared<Greeter>(shared_from_this(), loop, fd, address)] { greeter->Start(); });
}

void BulkDoor::AcceptedLocal(BulkLoop* loop, int fd) {
  ucred who = {};
  socklen_t size = sizeof who;
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0;
  std::optional<Peer> peer = known ? options_.local_peer(who.uid, who.gid, who.pid) : std::nullopt;
  const std::string user = known ? "uid " + std::to_string(who.uid) : "a local process";
  const std::string address = known ? user + ", pid " + std::to_string(who.pid) : user;
  if (!peer) {
    close(fd);
    Gone();
    return Tell(Error(FsError::kAccess, "the peer at " + socket_path_ + " (" + address + ") was refused: this user has no business here"));
  }
  if (peer->address.empty()) peer->address = address;
  AtTheDoor(std::make_shared<Greeter>(shared_from_this(), loop, fd, address, std::make_shared<const Peer>(std::move(*peer))), user);
}

// `place`: of which there may be so many.
void BulkDoor::AtTheDoor(const std::shared_ptr<Visitor>& visitor, const std::string& place) {
  std::shared_ptr<Visitor> sent_away;
  Error refusal;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Result<Doorman::Arrival> arrival = unknown_.doorman.Arrive(place, executor_->NowNs());
    refusal = arrival.error();
    if (arrival.ok()) {
      visitor->room = &unknown_;
      visitor->id = arrival->id;
      unknown_.here.emplace(arrival->id, visitor);
      if (arrival->sent_away) {
        if (auto node = unknown_.here.extract(*arrival->sent_away)) sent_away = std::move(node.mapped());
      }
    }
  }
  // Its socket is closed with it.
  if (!refusal.ok()) return Tell(Error(refusal.code, "the peer at " + visitor->address() + " was refused: " + refusal.message));
  if (sent_away) SendAway(sent_away, "others wait who came later, and it has not said who it is");
  visitor->loop()->Run([visitor] { visitor->Start(); });
}

void BulkDoor::Tell(const Error& why) const {
  if (options_.refused && !why.ok()) options_.refused(why);
}

void BulkDoor::SendAway(const std::shared_ptr<Visitor>& visitor, const std::string& why) {
  visitor->loop()->Run([visitor, why] { visitor->End(Error(FsError::kDeadline, "the peer at " + visitor->address() + " was sent away: " + why)); });
}

Result<void> BulkDoor::Sent(Visitor* visitor, size_t bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  return visitor->room->doorman.Sent(visitor->id, bytes);
}

void BulkDoor::Left(Visitor* visitor) {
  std::shared_ptr<Visitor> gone;  // after the lock
  std::lock_guard<std::mutex> lock(mu_);
  if (!visitor->room) return;
  visitor->room->doorman.Leave(visitor->id);
  if (auto node = visitor->room->here.extract(visitor->id)) gone = std::move(node.mapped());
}

// It has the place of `was`. False: that is being sent away.
bool BulkDoor::BecomesJoiner(Visitor* was, const std::shared_ptr<Joiner>& joiner) {
  std::shared_ptr<Visitor> gone;  // after the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = unknown_.here.find(was->id);
  if (it == unknown_.here.end()) return false;
  joiner->room = was->room;
  joiner->id = was->id;
  gone = std::exchange(it->second, joiner);
  return true;
}

// On its loop's thread: its request is here.
void BulkDoor::Ask(const std::shared_ptr<Joiner>& joiner, std::string request) {
  Left(joiner.get());
  std::shared_ptr<Visitor> sent_away;
  Error refusal;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Result<Doorman::Arrival> arrival = asking_.doorman.Arrive(joiner->address(), executor_->NowNs());
    refusal = arrival.error();
    if (arrival.ok()) {
      joiner->room = &asking_;
      joiner->id = arrival->id;
      asking_.here.emplace(arrival->id, joiner);
      if (arrival->sent_away) {
        if (auto node = asking_.here.extract(*arrival->sent_away)) sent_away = std::move(node.mapped());
      }
    }
  }
  if (!refusal.ok()) {
    return joiner->End(Error(refusal.code, "the peer at " + joiner->address() + " was refused: too many ask to join at once"));
  }
  if (sent_away) SendAway(sent_away, "others wait to join who came later");
  auto join = [door = shared_from_this(), joiner, request = std::move(request)] { door->SpawnJoin(joiner, request); };
  if (quiet_ != nullptr) executor_->Post(std::move(join));
  else executor_->PostOrRun(std::move(join));
}

// Executor's thread.
void BulkDoor::SpawnJoin(const std::shared_ptr<Joiner>& joiner, std::string request) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return;
  }
  if (joins_.running() < kMaxJoinsUnderWay) return joins_.Spawn(Join(this, joiner, std::move(request)));
  joiner->loop()->Run([joiner] { joiner->Answer(Error(FsError::kRetryLater, "too many ask to join at once: try again")); });
}

Task<void> BulkDoor::Join(BulkDoor* door, std::shared_ptr<Joiner> joiner, std::string request) {
  Result<std::string> answer = co_await door->options_.join(std::move(request), joiner->binding(), joiner->address());
  joiner->loop()->Run([joiner, answer = std::move(answer)] { joiner->Answer(answer); });
}

// Executor's thread; ends with watch_.
Task<void> BulkDoor::Watch(BulkDoor* door) {
  while (true) {
    co_await Sleep(kLookNs);
    for (Room* room : {&door->unknown_, &door->asking_}) {
      std::vector<std::shared_ptr<Visitor>> late;
      {
        std::lock_guard<std::mutex> lock(door->mu_);
        for (const uint64_t id : room->doorman.TakeOverdue(door->executor_->NowNs())) {
          if (auto node = room->here.extract(id)) late.push_back(std::move(node.mapped()));
        }
      }
      const char* why = room == &door->unknown_ ? "it took too long to say who it is" : "it took too long to take its answer";
      for (const std::shared_ptr<Visitor>& visitor : late) SendAway(visitor, why);
    }
  }
}

}  // namespace stria
