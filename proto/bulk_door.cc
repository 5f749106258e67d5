#include "proto/bulk_door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "proto/bulk_connection.h"
#include "proto/socket_address.h"

namespace stria {
namespace {

constexpr int64_t kLookNs = 250 * kMillisecond;
constexpr int kHandshakeThreads = 1;  // a handshake takes less than a millisecond; what is left of the machine is for those who are known
constexpr size_t kHandshakePiece = 4 * kKiB;
constexpr size_t kMaxDrained = 64 * kKiB;
constexpr char kUnixPrefix[] = "unix:";

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
class BulkDoor::Acceptor final : public BulkLoop::Watcher {
 public:
  Acceptor(std::shared_ptr<BulkDoor> door, int fd) : door_(std::move(door)), fd_(fd) {}
  ~Acceptor() override {
    close(fd_);
    if (spare_ >= 0) close(spare_);
  }
  void OnReady(bool, bool, bool) override {
    while (true) {
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
  Error Away(const std::string& when) const { return Error(FsError::kUnavailable, "the peer at " + address_ + " went away " + when); }
  bool over() const { return over_; }
  // Its socket, which becomes something else. It ends here.
  int Take() {
    over_ = true;
    loop_->Forget(fd_);
    door_->Left(this);
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
  using Visitor::Visitor;
  void OnReady(bool, bool, bool ended) override {
    if (over()) return;
    char bytes[kBulkPrefaceBytes];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    const bool ours = n > 0 && memcmp(bytes, kBulkPreface, static_cast<size_t>(n)) == 0;
    const bool torn = ours && static_cast<size_t>(n) < sizeof bytes;
    if (torn && !ended) return;  // the rest is to come
    if (n <= 0 || torn) return End(Error());
    if (ours) {
      (void)!read(fd_, bytes, sizeof bytes);
      const int fd = Take();
      door_->opened_({loop_, fd, Unprotected(fd), address_});
    } else if (door_->options_.other) {
      const int fd = Take();
      door_->Gone();
      door_->options_.other(fd);
    } else {
      End(Error());
    }
  }
};

// Shakes hands with one who came. All on its loop's thread but for the handshake itself, which has the session meanwhile.
class BulkDoor::Shaker final : public Visitor {
 public:
  using Visitor::Visitor;
  void OnReady(bool, bool, bool) override { Read(); }

 private:
  std::shared_ptr<Shaker> Self() { return std::static_pointer_cast<Shaker>(shared_from_this()); }

  void Read() {
    if (busy_ || over()) return;
    std::string in(kHandshakePiece, '\0');
    ssize_t n;
    do {
      n = recv(fd_, in.data(), in.size(), MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return End(Away("before it had said who it is"));
    in.resize(static_cast<size_t>(n));
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
    if (session_->joining()) return End(Refused("nobody joins here"));
    const int fd = Take();
    door_->opened_({loop_, fd, Protect(fd, std::move(session_)), address_});
  }

  std::unique_ptr<TlsSession> session_;  // of the pool while busy_
  bool busy_ = false;
};

// ---- The door -------------------------------------------------------------------------------------

BulkDoor::BulkDoor(Executor* executor, const BulkServerOptions& options, std::function<void(BulkArrival)> opened)
    : executor_(executor), options_(options), opened_(std::move(opened)), unknown_(options.door) {}

BulkDoor::~BulkDoor() = default;

Result<std::string> BulkDoor::Open(const std::string& address, std::vector<BulkLoop*> loops) {
  std::string bound;
  ASSIGN_OR_RETURN(const int fd, ListenOn(address, &bound));
  loops_ = std::move(loops);
  if (options_.tls) {
    handshakes_ = std::make_unique<ThreadPool>(kHandshakeThreads, "handshake");
    watch_.Spawn(Watch(this));
  }
  if (address.starts_with(kUnixPrefix)) socket_path_ = address.substr(strlen(kUnixPrefix));
  auto acceptor = std::make_shared<Acceptor>(shared_from_this(), fd);
  loops_[0]->Run([loop = loops_[0], fd, acceptor] { loop->Watch(fd, acceptor); });
  return bound;
}

void BulkDoor::EndTasks() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    closed_ = true;
  }
  watch_.CancelAll();
}

void BulkDoor::Close() {
  handshakes_.reset();  // what it does is told to loops, which take no more
  std::map<uint64_t, std::shared_ptr<Visitor>> gone;
  {
    std::lock_guard<std::mutex> lock(mu_);
    gone.swap(unknown_.here);
  }
  if (!socket_path_.empty()) (void)unlink(std::exchange(socket_path_, "").c_str());
}

size_t BulkDoor::waiting() {
  std::lock_guard<std::mutex> lock(mu_);
  return unknown_.here.size();
}

// On the first loop's thread.
void BulkDoor::Accepted(int fd, const std::string& address) {
  if (++open_ > options_.max_connections) {
    --open_;
    close(fd);
    return;
  }
  TuneSocket(fd);
  BulkLoop* const loop = loops_[next_loop_++ % loops_.size()];
  if (options_.tls) return AtTheDoor(std::make_shared<Shaker>(shared_from_this(), loop, fd, address));
  loop->Run([greeter = std::make_shared<Greeter>(shared_from_this(), loop, fd, address)] { greeter->Start(); });
}

void BulkDoor::AtTheDoor(const std::shared_ptr<Visitor>& visitor) {
  std::shared_ptr<Visitor> sent_away;
  Error refusal;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Result<Doorman::Arrival> arrival = unknown_.doorman.Arrive(visitor->address(), executor_->NowNs());
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
  if (sent_away) SendAway(sent_away, "others wait that have fewer connections");
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

// Executor's thread; ends with watch_.
Task<void> BulkDoor::Watch(BulkDoor* door) {
  while (true) {
    co_await Sleep(kLookNs);
    std::vector<std::shared_ptr<Visitor>> late;
    {
      std::lock_guard<std::mutex> lock(door->mu_);
      for (const uint64_t id : door->unknown_.doorman.TakeOverdue(door->executor_->NowNs())) {
        if (auto node = door->unknown_.here.extract(id)) late.push_back(std::move(node.mapped()));
      }
    }
    for (const std::shared_ptr<Visitor>& visitor : late) SendAway(visitor, "it took too long to say who it is");
  }
}

}  // namespace stria
