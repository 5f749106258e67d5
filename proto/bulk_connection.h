// One connection of the bulk transport: messages in frames over a stream socket, both ways.
//
//   client's first bytes: kBulkPreface; with TLS those of its handshake
//   frame:  magic u32 | kind u8, 0 u8, method bytes u16 | id u64 | fields bytes u32 | payload bytes u32
//           tag (16 bytes, in the modes integrity and auth), method, fields, payload    (numbers little-endian)
//
// A payload is received into one page-aligned buffer and sent from where it lies: the socket's copies are
// the only ones. Callbacks run on the loop's thread, which must not wait for anything in them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/buffer.h"
#include "common/error.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_loop.h"
#include "proto/wire.h"

namespace stria {

inline constexpr char kBulkPreface[] = "StriaBk1";  // HTTP/2 begins with "PRI * HTTP/2.0"
inline constexpr size_t kBulkPrefaceBytes = sizeof(kBulkPreface) - 1;
inline constexpr size_t kMaxBulkMethodBytes = 256;
// Instead of it, or before a handshake: the connection is for whoever answers aside (BulkServerOptions::aside).
inline constexpr char kBulkAsidePreface[] = "StriaBa1";
static_assert(sizeof(kBulkAsidePreface) == sizeof(kBulkPreface));
// What each side of the port says to who begins in the other way, before it closes: the alert of TLS that its version is not spoken here. It
// makes nobody give up anything: it is for the sentence that people read.
inline constexpr uint8_t kWrongProtocolAlert[] = {21, 3, 3, 0, 2, 2, 70};

enum class BulkKind : uint8_t { kRequest = 1, kReply = 2 };

// The part of the receiver's memory that a message has while this lives.
class BulkAdmission {
 public:
  virtual ~BulkAdmission() = default;
  // So many bytes more have come. False: there is no room for them.
  virtual bool Grow(uint64_t bytes) = 0;
};

// How long a peer may take. A frame that has begun must bring kPaceBytes, or its end, in each frame_ns; a peer that has replies to take must take or send
// something in each unread_ns.
inline constexpr uint64_t kPaceBytes = 64 * kKiB;
struct BulkPace {
  int64_t frame_ns = INT64_MAX;
  int64_t unread_ns = INT64_MAX;
};

struct BulkFrame {
  BulkKind kind = BulkKind::kRequest;
  uint64_t id = 0;      // of the call, chosen by the client
  std::string method;   // of a request
  WireMessage message;
  bool refused = false;              // not admitted: its bytes were dropped, and its method and message are not here
  std::shared_ptr<BulkAdmission> admission;  // the bytes count against this
};

struct BulkCallbacks {
  // When a message begins, with its first bytes; the others are asked for as they come, so that a head alone occupies little. nullptr refuses it.
  // Empty: all are welcome.
  std::function<std::shared_ptr<BulkAdmission>(uint64_t bytes)> admit;
  std::function<void(BulkFrame)> on_frame;
  std::function<void(Error)> on_closed;  // once, the last call
};

class BulkConnection final : public BulkLoop::Watcher, public std::enable_shared_from_this<BulkConnection> {
 public:
  // Takes the connected, non-blocking socket `fd`. `peer` is for error sentences.
  BulkConnection(BulkLoop* loop, int fd, std::string peer, BulkCallbacks callbacks);
  // The same with what a handshake over `fd` has agreed on.
  BulkConnection(BulkLoop* loop, int fd, std::string peer, BulkProtection protection, BulkCallbacks callbacks);
  ~BulkConnection() override;
  BulkConnection(const BulkConnection&) = delete;
  BulkConnection& operator=(const BulkConnection&) = delete;

  // The loop's thread, once.
  void Start();
  // Any thread. `keep` lives until the frame is sent or the connection closed. Dropped after a close.
  void Send(BulkFrame frame, std::shared_ptr<void> keep = nullptr);
  void SendPreface();
  // The loop's thread: nothing more comes or goes; on_closed is called unless it was.
  void Close(const Error& why);

  // The loop's thread, now and then: closes it if the peer takes longer than `pace` allows.
  void KeepPace(int64_t now_ns, const BulkPace& pace);

  void OnReady(bool readable, bool writable, bool ended) override;

  // Who is at the other end, if that is known.
  const std::shared_ptr<const Peer>& peer() const { return protection_.peer; }
  // True if a handshake has proved it.
  bool secured() const { return protection_.mode.has_value(); }
  BulkLoop* loop() const { return loop_; }

 private:
  struct Outgoing {
    std::vector<Buffer> parts;
    size_t next = 0;    // part
    size_t offset = 0;  // in it
    uint64_t bytes = 0;
    bool tagged = false;
    std::shared_ptr<void> keep;
  };
  void Tag(Outgoing* out);
  void Heard(const uint8_t* payload, size_t n);
  void HeardMeta();
  void Enqueue(Outgoing out);
  // True if all is sent or the socket takes no more; false if the connection is broken.
  bool SendSome(Outgoing* out, bool* blocked);
  void Flush();
  void Read();
  bool ReadOnce(uint64_t* got, bool* empty);
  bool ConsumeSmall();
  bool SaidThatItSpeaksTls() const;
  const char* BeginFrame(const uint8_t* head);
  void Admit();
  void Refuse();
  bool EndFrame();

  BulkLoop* const loop_;
  const int fd_;
  const std::string peer_;
  BulkProtection protection_;  // `sending` is of who is at the front of the queue, `receiving` of the loop's thread
  const size_t tag_bytes_;

  std::mutex mu_;
  std::deque<Outgoing> queue_;  // guarded by mu_
  bool sending_ = false;        // guarded by mu_: someone is at the front of the queue
  bool flush_posted_ = false;   // guarded by mu_
  bool closed_ = false;         // guarded by mu_, set on the loop's thread

  // The loop's thread.
  BulkCallbacks callbacks_;
  std::vector<uint8_t> small_;  // received, not yet consumed
  size_t small_begin_ = 0, small_end_ = 0;
  bool in_frame_ = false;
  BulkFrame frame_;
  size_t method_bytes_ = 0, payload_bytes_ = 0;
  std::vector<uint8_t> head_;  // of the frame under way, where it has a tag
  MutableBuffer meta_;         // tag, method and fields
  MutableBuffer payload_;      // of one that is refused nothing: what is behind the method is all payload, and dropped
  size_t meta_have_ = 0, payload_have_ = 0;
  size_t tagged_bytes_ = 0;    // of the payload, from its beginning, count for the tag
  bool meta_heard_ = false;    // for the tag
  uint64_t admitted_ = 0;
  bool read_posted_ = false;
  bool ended_ = false;  // only the end of the readable bytes tells how
  uint64_t frames_ = 0, received_ = 0;
  // When KeepPace last saw that something went on.
  struct Mark {
    bool set = false;
    uint64_t frames = 0, bytes = 0;
    int64_t at_ns = 0;
  };
  Mark frame_mark_, unread_mark_;

  std::atomic<uint64_t> sent_{0};
};

}  // namespace stria
