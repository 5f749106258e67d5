#include "proto/join_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "common/io/unique_fd.h"
#include "common/printable.h"
#include "common/units.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_transport.h"
#include "proto/socket_address.h"
#include "trust/enrolment.h"

namespace stria {
namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kHead = 4;
constexpr size_t kMaxSentence = 2 * kKiB;  // what is shown of the server's

// A conversation over one channel, until a point in time.
class Talk {
 public:
  Talk(int fd, BulkChannel* channel, std::string address, Clock::time_point until)
      : fd_(fd), channel_(channel), address_(std::move(address)), until_(until) {}

  Result<void> Send(std::string bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      iovec from = {bytes.data() + sent, bytes.size() - sent};
      const ssize_t n = channel_->Send(&from, 1);
      if (n >= 0) {
        sent += static_cast<size_t>(n);
      } else {
        RETURN_IF_ERROR(Wait(POLLOUT));
      }
    }
    while (channel_->Flush() != 0) RETURN_IF_ERROR(Wait(POLLOUT));
    return Ok();
  }
  // Exactly so many.
  Result<std::string> Receive(size_t n) {
    std::string out(n, '\0');
    for (size_t have = 0; have < n;) {
      const iovec to = {out.data() + have, n - have};
      const ssize_t got = channel_->Receive(&to, 1);
      if (got > 0) {
        have += static_cast<size_t>(got);
      } else if (got == 0) {
        return Broke("it was closed");
      } else {
        RETURN_IF_ERROR(Wait(POLLIN));
      }
    }
    return out;
  }

 private:
  Error Broke(const std::string& why) const {
    return Error(FsError::kUnavailable, "the connection to " + address_ + " broke before it had answered: " + why);
  }
  // After a call that failed, whose errno is looked at: until it may go on.
  Result<void> Wait(short what) {
    if (errno == EPROTO) return Broke(channel_->why());
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Broke(strerror(errno));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
    pollfd p = {fd_, what, 0};
    if (left <= 0) return Error(FsError::kDeadline, address_ + " did not answer in time whether this machine may join");
    (void)poll(&p, 1, static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
    return Ok();
  }

  const int fd_;
  BulkChannel* const channel_;
  const std::string address_;
  const Clock::time_point until_;
};

}  // namespace

Result<std::string> AskToJoin(const std::string& address, const Sha256Hash& authority,
                              const std::function<std::string(std::string_view binding)>& make, int64_t timeout_ns) {
  const auto until = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  const auto left_ms = [&until] {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 1, INT32_MAX));
  };
  ASSIGN_OR_RETURN(const int socket, ConnectTo(address, left_ms()));
  const UniqueFd fd(socket);
  auto context = TlsContext::MakeJoining(authority, [] { return static_cast<int64_t>(time(nullptr)); });
  ASSIGN_OR_RETURN(std::unique_ptr<TlsSession> session, ShakeHands(fd.get(), std::move(context), address, std::nullopt, left_ms()));
  const std::string request = make(session->ChannelBinding());
  if (request.empty() || request.size() > kMaxJoinRequestBytes) {
    return Error(FsError::kBadRequest, "a request to join has " + std::to_string(request.size()) + " bytes, but 1 to " +
                                           std::to_string(kMaxJoinRequestBytes) + " may be sent");
  }
  const BulkProtection protection = Protect(fd.get(), std::move(session));
  Talk talk(fd.get(), protection.channel.get(), address, until);
  std::string head;
  for (int shift = 24; shift >= 0; shift -= 8) head += static_cast<char>(request.size() >> shift & 0xff);
  RETURN_IF_ERROR(talk.Send(head + request));
  ASSIGN_OR_RETURN(const std::string answer, talk.Receive(1 + kHead));
  size_t size = 0;
  for (size_t i = 1; i < answer.size(); ++i) size = size << 8 | static_cast<uint8_t>(answer[i]);
  if (static_cast<uint8_t>(answer[0]) > 1 || size > kMaxJoinAnswerBytes) {
    return Error(FsError::kBadRequest, "what " + address + " sent is no answer to a request to join");
  }
  ASSIGN_OR_RETURN(std::string bytes, talk.Receive(size));
  if (answer[0] == 1) return bytes;
  return Error(FsError::kAccess, address + " does not let this machine join: " + Printable(bytes.substr(0, kMaxSentence)));
}

}  // namespace stria
