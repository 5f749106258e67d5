// What the bytes of a connection go through: the socket as it is, or TLS records in it; and what a handshake has found out.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "trust/tls/tls_session.h"

namespace stria {

inline constexpr size_t kHandshakePiece = 4096;  // bytes of a handshake that are read at once

// One thread at a time receives, and one at a time sends; these may be two.
class BulkChannel {
 public:
  virtual ~BulkChannel() = default;
  // As readv on a non-blocking socket: > 0; 0 at the end; -1 with errno, EAGAIN if there is nothing now. Less than there was room for: there is
  // nothing more now.
  virtual ssize_t Receive(const iovec* to, int count) = 0;
  // As sendmsg. What was taken may still be here: see Flush.
  virtual ssize_t Send(iovec* from, size_t count) = 0;
  // 0: all that was taken is sent. -1 with errno, EAGAIN if the socket takes no more now.
  virtual int Flush() = 0;
  // Of what Receive or Send could not do with errno EPROTO.
  virtual std::string why() const { return ""; }
  // True if the next Receive is the end, whether or not the socket tells of anything more.
  virtual bool over() const { return false; }
  // True if the last Receive gave less than there was room for although there may be more: others are to have their turn first.
  virtual bool cut_short() const { return false; }
  // True if Receive has something although the socket has nothing.
  virtual bool HasBuffered() const { return false; }
};

// A connection that may begin: its channel, keys for tags if the mode wants them, and who is at the other end.
struct BulkProtection {
  std::unique_ptr<BulkChannel> channel;
  std::optional<WireMode> mode;                // none: no TLS
  std::optional<FrameMac> sending, receiving;  // integrity and auth
  std::shared_ptr<const Peer> peer;
};

// Of the socket `fd`, which outlives it.
BulkProtection Unprotected(int fd);
// `session` has done its handshake over `fd`.
BulkProtection Protect(int fd, std::unique_ptr<TlsSession> session);

// A client's handshake over the connected, non-blocking `fd`. Blocks, at most for timeout_ms.
Result<std::unique_ptr<TlsSession>> ShakeHands(int fd, std::shared_ptr<const TlsContext> context, const std::string& address,
                                               std::optional<ExpectedPeer> expected, int timeout_ms);

}  // namespace stria
