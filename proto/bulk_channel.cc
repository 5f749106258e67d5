#include "proto/bulk_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "common/units.h"

namespace stria {
namespace {

constexpr size_t kSealBytes = 128 * kKiB;  // sealed before it is sent: few system calls, and it stays in the cache
constexpr size_t kRecordBytes = 16 * kKiB;
constexpr size_t kGatherBelow = 4 * kKiB;  // parts of a message that share a record
// Records that hold no data (a peer may ask for new keys as often as it likes) are worked off with the lock held, each of them for 20 us. Data
// pays for the bytes that bring it, what a record adds to it included; who owes more than this is cut off. More than OpenSSL reads ahead, so
// that whoever sends data never does.
constexpr size_t kMaxOwed = 64 * kKiB + 2 * kKiB;
constexpr size_t kRecordOverhead = 32;
// Answers to such records that wait for the socket, beside kSealBytes of data. A peer that asks and does not read is cut off.
constexpr size_t kMaxSealed = 2 * kSealBytes;
// Then others of the loop have their turn. More than the largest message takes in whole records.
constexpr int kMaxReads = 1024;

ssize_t Again() {
  errno = EAGAIN;
  return -1;
}

class PlainChannel final : public BulkChannel {
 public:
  explicit PlainChannel(int fd) : fd_(fd) {}
  ssize_t Receive(const iovec* to, int count) override {
    ssize_t n;
    do {
      n = readv(fd_, to, count);
    } while (n < 0 && errno == EINTR);
    return n;
  }
  ssize_t Send(iovec* from, size_t count) override {
    msghdr message = {};
    message.msg_iov = from;
    message.msg_iovlen = count;
    ssize_t n;
    do {
      n = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
  }
  int Flush() override { return 0; }

 private:
  const int fd_;
};

// OpenSSL's object is for one thread at a time, so both directions share a lock, for a record or a few at a time. System calls that send
// are outside of it.
class TlsChannel final : public BulkChannel, private TlsWire {
 public:
  TlsChannel(int fd, std::unique_ptr<TlsSession> session) : fd_(fd), session_(std::move(session)), gather_(kRecordBytes) {
    session_->SetWire(this);
  }

  ssize_t Receive(const iovec* to, int count) override {
    size_t got = 0;
    int reads = 0;
    cut_short_ = false;
    for (int i = 0; i < count; ++i) {
      auto* at = static_cast<uint8_t*>(to[i].iov_base);
      for (size_t left = to[i].iov_len; left > 0;) {
        if (reads++ == kMaxReads) {
          cut_short_ = true;
          return static_cast<ssize_t>(got);
        }
        std::lock_guard<std::mutex> lock(mu_);
        reading_ = true;
        const Result<size_t> n = session_->Read(at, left);
        reading_ = false;
        if (!n.ok()) {
          const ssize_t broken = Broken(n.error());
          return got > 0 ? static_cast<ssize_t>(got) : broken;
        }
        if (*n == 0) return got > 0 ? static_cast<ssize_t>(got) : Again();
        owed_ -= std::min(owed_, *n + kRecordOverhead);
        got += *n, at += *n, left -= *n;
      }
    }
    return static_cast<ssize_t>(got);
  }

  ssize_t Send(iovec* from, size_t count) override {
    if (Flush() != 0) return -1;
    size_t taken = 0;
    {
      std::lock_guard<std::mutex> lock(mu_);
      for (size_t i = 0; i < count && sealed_.size() < kSealBytes;) {
        const uint8_t* bytes = static_cast<uint8_t*>(from[i].iov_base);
        size_t n = from[i].iov_len;
        if (n < kGatherBelow && i + 1 < count) {
          // Small parts, and the beginning of what comes after them, in one record.
          size_t have = 0;
          for (size_t j = i; j < count && have < kRecordBytes; ++j) {
            const size_t some = std::min(kRecordBytes - have, from[j].iov_len);
            memcpy(gather_.data() + have, from[j].iov_base, some);
            have += some;
          }
          bytes = gather_.data();
          n = have;
        }
        const Result<size_t> done = session_->Write(bytes, n);
        if (!done.ok()) return Broken(done.error());
        if (*done == 0) break;  // the wire takes all: it waits for what comes
        taken += *done;
        for (size_t left = *done; left > 0;) {
          const size_t some = std::min(left, from[i].iov_len);
          from[i].iov_base = static_cast<uint8_t*>(from[i].iov_base) + some;
          from[i].iov_len -= some;
          left -= some;
          if (from[i].iov_len == 0) ++i;
        }
      }
    }
    if (Flush() != 0 && errno != EAGAIN) return -1;
    return taken > 0 ? static_cast<ssize_t>(taken) : Again();
  }

  int Flush() override {
    while (true) {
      if (sent_ == unsent_.size()) {
        unsent_.clear();
        sent_ = 0;
        std::lock_guard<std::mutex> lock(mu_);
        if (sealed_.empty()) return 0;
        sealed_.swap(unsent_);
      }
      const ssize_t n = send(fd_, unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return -1;
      sent_ += static_cast<size_t>(n);
    }
  }

  std::string why() const override {
    std::lock_guard<std::mutex> lock(mu_);
    return why_;
  }
  bool over() const override {
    std::lock_guard<std::mutex> lock(mu_);
    return over_;
  }
  bool HasBuffered() const override {
    std::lock_guard<std::mutex> lock(mu_);
    return session_->HasBuffered();
  }
  bool cut_short() const override { return cut_short_; }

 private:
  // TlsWire, with mu_ held.
  ssize_t Take(uint8_t* to, size_t n) override {
    if (owed_ > kMaxOwed) {
      why_ = "it sent " + std::to_string(kMaxOwed / kKiB) + " KiB of TLS records without data";
      return -1;
    }
    ssize_t got;
    do {
      got = recv(fd_, to, n, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
      owed_ += static_cast<size_t>(got);
      return got;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (got < 0) why_ = strerror(errno);
    return -1;
  }
  ssize_t Give(const uint8_t* from, size_t n) override {
    if (reading_ && sealed_.size() + n > kMaxSealed) {
      why_ = "it asks for new keys and does not take the answers";
      return -1;
    }
    sealed_.insert(sealed_.end(), from, from + n);
    return static_cast<ssize_t>(n);
  }
  ssize_t Broken(const Error& e) {
    over_ = true;
    if (why_.empty()) {
      const size_t at = e.message.find("broke: ");
      why_ = at == e.message.npos ? e.message : e.message.substr(at + strlen("broke: "));
    }
    errno = EPROTO;
    return -1;
  }

  const int fd_;
  mutable std::mutex mu_;
  const std::unique_ptr<TlsSession> session_;  // what it points to is guarded by mu_
  std::vector<uint8_t> sealed_;                // guarded by mu_
  std::string why_;                            // guarded by mu_
  bool over_ = false;                          // guarded by mu_
  bool reading_ = false;                       // guarded by mu_: what is given now is answers
  size_t owed_ = 0;                            // guarded by mu_: bytes that came, and were no data yet
  bool cut_short_ = false;                     // of who receives
  // Of who sends.
  std::vector<uint8_t> unsent_;
  size_t sent_ = 0;
  std::vector<uint8_t> gather_;
};

}  // namespace

BulkProtection Unprotected(int fd) {
  BulkProtection p;
  p.channel = std::make_unique<PlainChannel>(fd);
  return p;
}

BulkProtection Protect(int fd, std::unique_ptr<TlsSession> session) {
  BulkProtection p;
  p.mode = session->mode();
  p.peer = std::make_shared<const Peer>(session->peer());
  if (session->mode() == WireMode::kPrivacy) {
    p.channel = std::make_unique<TlsChannel>(fd, std::move(session));
    return p;
  }
  p.sending.emplace(session->SendKey());
  p.receiving.emplace(session->ReceiveKey());
  p.channel = std::make_unique<PlainChannel>(fd);
  return p;
}

Result<std::unique_ptr<TlsSession>> ShakeHands(int fd, std::shared_ptr<const TlsContext> context, const std::string& address,
                                               std::optional<ExpectedPeer> expected, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  const auto broke = [&](const std::string& why) { return Error(FsError::kUnavailable, "the connection to " + address + " broke in the handshake: " + why); };
  const auto wait_for = [&](short what) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd p = {fd, what, 0};
    return left > 0 && (poll(&p, 1, static_cast<int>(left)) >= 0 || errno == EINTR);
  };
  auto session = std::make_unique<TlsSession>(std::move(context), address, std::move(expected));
  std::string in, out;
  bool heard = false;
  while (true) {
    const TlsSession::Step step = session->Handshake(in, &out);
    for (size_t sent = 0; sent < out.size();) {
      const ssize_t n = send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        sent += static_cast<size_t>(n);
      } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        return step == TlsSession::Step::kFailed ? session->error() : broke(strerror(errno));
      } else if (!wait_for(POLLOUT)) {
        return broke("it took too long");
      }
    }
    out.clear();
    if (step == TlsSession::Step::kDone) return session;
    if (step == TlsSession::Step::kFailed) return session->error();
    in.resize(kHandshakePiece);
    ssize_t n;
    while ((n = recv(fd, in.data(), in.size(), MSG_DONTWAIT)) < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return broke(strerror(errno));
      if (!wait_for(POLLIN)) return broke("it took too long");
    }
    if (n == 0) return broke(heard ? "it was closed" : "it was closed without a word, as by a server that does not speak TLS (of an insecure cluster), or that has no room");
    heard = true;
    in.resize(static_cast<size_t>(n));
  }
}

}  // namespace stria
