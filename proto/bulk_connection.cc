#include "proto/bulk_connection.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "api/types.h"

namespace stria {
namespace {

constexpr uint32_t kFrameMagic = 0x314b4253;  // "SBK1"
constexpr size_t kFrameBytes = 24;
constexpr size_t kSmallBytes = 8 * kKiB;            // read at once when no payload is expected
constexpr uint64_t kInlineSendBytes = 128 * kKiB;   // sent by the caller, if no other message is before it
constexpr uint64_t kReadTurnBytes = 4 * kMiB;       // then others have their turn
constexpr size_t kMaxSendParts = 64;
constexpr uint64_t kAdmitBytes = 64 * kKiB;  // of a message, before they come; then as they come
constexpr char kOnlyTls[] =
    "it speaks only TLS, as its cluster is secured, and this program has no credentials: 'stria join' gets them, and --trust names their "
    "directory";
constexpr uint64_t kMaxFrameMessageBytes = kMaxMessageBytes + kMiB;
static_assert(kMaxFrameMessageBytes <= UINT32_MAX);

template <class T>
void Put(uint8_t* at, T v) {
  memcpy(at, &v, sizeof v);
}
template <class T>
T Take(const uint8_t* at) {
  T v;
  memcpy(&v, at, sizeof v);
  return v;
}

Buffer EncodeHead(const BulkFrame& f) {
  std::string out(kFrameBytes, '\0');
  auto* p = reinterpret_cast<uint8_t*>(out.data());
  Put<uint32_t>(p, kFrameMagic);
  p[4] = static_cast<uint8_t>(f.kind);
  Put<uint16_t>(p + 6, static_cast<uint16_t>(f.method.size()));
  Put<uint64_t>(p + 8, f.id);
  Put<uint32_t>(p + 16, static_cast<uint32_t>(f.message.header.size()));
  Put<uint32_t>(p + 20, static_cast<uint32_t>(f.message.payload.size()));
  return Buffer::FromString(std::move(out) + f.method);
}

Error Broken(const std::string& peer, const std::string& why) {
  return Error(FsError::kUnavailable, "the connection to " + peer + " broke: " + why);
}

}  // namespace

BulkConnection::BulkConnection(BulkLoop* loop, int fd, std::string peer, BulkCallbacks callbacks)
    : BulkConnection(loop, fd, std::move(peer), Unprotected(fd), std::move(callbacks)) {}

BulkConnection::BulkConnection(BulkLoop* loop, int fd, std::string peer, BulkProtection protection, BulkCallbacks callbacks)
    : loop_(loop), fd_(fd), peer_(std::move(peer)), protection_(std::move(protection)),
      tag_bytes_(protection_.receiving ? sizeof(FrameMac::Tag) : 0), callbacks_(std::move(callbacks)), small_(kSmallBytes) {}

BulkConnection::~BulkConnection() { close(fd_); }

void BulkConnection::Start() {
  loop_->Watch(fd_, shared_from_this());
  // The socket does not tell of what came with the end of the handshake.
  if (protection_.channel->HasBuffered()) Read();
}

// ---- Sending --------------------------------------------------------------------------------------

void BulkConnection::SendPreface() {
  Outgoing out;
  out.parts.push_back(Buffer::FromString(kBulkPreface));
  out.bytes = kBulkPrefaceBytes;
  Enqueue(std::move(out));
}

void BulkConnection::Send(BulkFrame frame, std::shared_ptr<void> keep) {
  Outgoing out;
  out.parts.reserve(2 + frame.message.payload.parts().size());
  out.parts.push_back(EncodeHead(frame));
  if (!frame.message.header.empty()) out.parts.push_back(std::move(frame.message.header));
  for (const Buffer& b : frame.message.payload.parts()) out.parts.push_back(b);
  for (const Buffer& b : out.parts) out.bytes += b.size();
  out.keep = std::move(keep);
  Enqueue(std::move(out));
}

// Small messages are sent here and now, which saves a change of threads; large ones by the loop, so that
// the copying does not hold up the caller.
void BulkConnection::Enqueue(Outgoing out) {
  Outgoing done;
  bool broken = false;
  {
    std::unique_lock<std::mutex> lock(mu_);
    if (closed_) return;
    const bool now = out.bytes <= kInlineSendBytes && queue_.empty() && !sending_;
    queue_.push_back(std::move(out));
    if (now) {
      sending_ = true;
      Outgoing* front = &queue_.front();
      lock.unlock();
      bool blocked = false;
      broken = !SendSome(front, &blocked);
      lock.lock();
      sending_ = false;
      if (closed_) {
        queue_.clear();
        return;
      }
      if (!broken && !blocked) {
        done = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    if (!broken && (queue_.empty() || sending_ || flush_posted_)) return;
    flush_posted_ = true;
  }
  loop_->Run([self = shared_from_this()] { self->Flush(); });
}

// Frames are numbered in the order in which they go, so the tag is made when a frame is the first.
void BulkConnection::Tag(Outgoing* out) {
  if (!protection_.sending || std::exchange(out->tagged, true)) return;
  FrameMac& mac = *protection_.sending;
  const bool payload_too = protection_.mode == WireMode::kIntegrity;
  // Head and method are the first part, the fields are the second if there are any.
  const Buffer& head = out->parts[0];
  const size_t fields = Take<uint32_t>(head.data() + 16);
  const size_t untagged = payload_too ? 0 : Take<uint32_t>(head.data() + 20);
  mac.Add(head.span());
  size_t left = out->bytes - head.size() - untagged;
  CHECK(left >= fields);
  for (size_t i = 1; i < out->parts.size() && left > 0; ++i) {
    const size_t some = std::min(left, out->parts[i].size());
    mac.Add(out->parts[i].span().subspan(0, some));
    left -= some;
  }
  const FrameMac::Tag tag = mac.End();
  std::string begin(reinterpret_cast<const char*>(head.data()), kFrameBytes);
  begin.append(reinterpret_cast<const char*>(tag.data()), tag.size());
  begin.append(head.view().substr(kFrameBytes));
  out->parts[0] = Buffer::FromString(std::move(begin));
}

bool BulkConnection::SendSome(Outgoing* out, bool* blocked) {
  if (out->next == 0 && out->offset == 0) Tag(out);
  const auto stopped = [blocked] { return *blocked = errno == EAGAIN || errno == EWOULDBLOCK; };
  while (out->next < out->parts.size()) {
    std::array<iovec, kMaxSendParts> iov;
    size_t count = 0;
    size_t skip = out->offset;
    for (size_t i = out->next; i < out->parts.size() && count < kMaxSendParts; ++i) {
      const Buffer& b = out->parts[i];
      iov[count++] = {const_cast<uint8_t*>(b.data()) + skip, b.size() - skip};
      skip = 0;
    }
    const ssize_t n = protection_.channel->Send(iov.data(), count);
    if (n < 0) return stopped();
    sent_.fetch_add(static_cast<uint64_t>(n), std::memory_order_relaxed);
    out->offset += static_cast<size_t>(n);
    while (out->next < out->parts.size() && out->offset >= out->parts[out->next].size()) {
      out->offset -= out->parts[out->next].size();
      out->parts[out->next] = Buffer();  // sent: its memory may go
      ++out->next;
    }
  }
  return protection_.channel->Flush() == 0 || stopped();
}

void BulkConnection::Flush() {
  while (true) {
    Outgoing done;
    Outgoing* front;
    {
      std::lock_guard<std::mutex> lock(mu_);
      flush_posted_ = false;
      if (closed_ || sending_ || queue_.empty()) return;
      sending_ = true;
      front = &queue_.front();
    }
    bool blocked = false;
    const bool sound = SendSome(front, &blocked);
    const int err = errno;
    {
      std::lock_guard<std::mutex> lock(mu_);
      sending_ = false;
      if (sound && !blocked) {
        done = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    if (!sound) return Close(Broken(peer_, err == EPROTO ? protection_.channel->why() : strerror(err)));
    if (blocked) return;  // goes on when the socket takes more
  }
}

// ---- Receiving ------------------------------------------------------------------------------------

void BulkConnection::OnReady(bool readable, bool writable, bool ended) {
  ended_ = ended_ || ended;
  if (writable) Flush();
  if (readable) Read();
}

void BulkConnection::Read() {
  read_posted_ = false;
  for (uint64_t turn = 0; turn < kReadTurnBytes;) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (closed_) return;
    }
    uint64_t got = 0;
    bool empty = false;
    if (!ReadOnce(&got, &empty)) return;
    if (empty && !(ended_ && got > 0)) return;
    turn += protection_.channel->cut_short() ? kReadTurnBytes : got;
  }
  if (std::exchange(read_posted_, true)) return;
  loop_->Run([self = shared_from_this()] { self->Read(); });
}

// Reads the rest of the message under way into its place, and bytes behind it into `small_`. False if the connection was
// closed. `empty`: the socket is empty, and further bytes will be notified.
bool BulkConnection::ReadOnce(uint64_t* got, bool* empty) {
  std::array<iovec, 3> iov;
  size_t count = 0;
  if (in_frame_) {
    if (meta_have_ < meta_.size()) iov[count++] = {meta_.data() + meta_have_, meta_.size() - meta_have_};
    if (!frame_.refused && payload_have_ < payload_bytes_) {
      iov[count++] = {payload_.data() + payload_have_, payload_bytes_ - payload_have_};
    }
  }
  CHECK(small_begin_ == 0, "all but a torn head was consumed");
  iov[count++] = {small_.data() + small_end_, small_.size() - small_end_};
  const ssize_t n = protection_.channel->Receive(iov.data(), static_cast<int>(count));
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    *empty = true;
    return true;
  }
  if (n <= 0) {
    const std::string why = SaidThatItSpeaksTls() ? kOnlyTls : n == 0 ? "it was closed" : errno == EPROTO ? protection_.channel->why() : strerror(errno);
    Close(Broken(peer_, why));
    return false;
  }
  *got = static_cast<uint64_t>(n);
  received_ += *got;
  size_t room = 0;
  for (size_t i = 0; i < count; ++i) room += iov[i].iov_len;
  *empty = *got < room && !protection_.channel->over() && !protection_.channel->cut_short();
  size_t left = static_cast<size_t>(n);
  if (in_frame_) {
    const size_t meta = std::min(left, meta_.size() - meta_have_);
    meta_have_ += meta;
    left -= meta;
    if (!frame_.refused) {
      const size_t payload = std::min(left, payload_bytes_ - payload_have_);
      Heard(payload_.data() + payload_have_, payload);
      payload_have_ += payload;
      left -= payload;
    }
    Admit();
  }
  small_end_ += left;
  return ConsumeSmall();
}

// Goes through `small_`: heads of frames, and the first bytes of their payloads.
bool BulkConnection::ConsumeSmall() {
  while (true) {
    const uint8_t* data = small_.data() + small_begin_;
    const size_t have = small_end_ - small_begin_;
    if (!in_frame_) {
      if (have < kFrameBytes) break;
      if (const char* why = BeginFrame(data)) {
        Close(Broken(peer_, why));
        return false;
      }
      small_begin_ += kFrameBytes;
      continue;
    }
    const size_t meta = std::min(have, meta_.size() - meta_have_);
    memcpy(meta_.data() + meta_have_, data, meta);
    meta_have_ += meta;
    const size_t payload = std::min(have - meta, payload_bytes_ - payload_have_);
    if (payload > 0 && !frame_.refused) memcpy(payload_.data() + payload_have_, data + meta, payload);
    Heard(data + meta, payload);
    payload_have_ += payload;
    small_begin_ += meta + payload;
    Admit();
    if (meta_have_ < meta_.size() || payload_have_ < payload_bytes_) break;
    if (!EndFrame()) {
      Close(Broken(peer_, "a frame has a wrong tag: it was changed, left out or repeated on the way"));
      return false;
    }
  }
  if (small_begin_ > 0) {
    memmove(small_.data(), small_.data() + small_begin_, small_end_ - small_begin_);
    small_end_ -= small_begin_;
    small_begin_ = 0;
  }
  return true;
}

// nullptr, or the fault.
// Instead of the first frame.
bool BulkConnection::SaidThatItSpeaksTls() const {
  return !secured() && frames_ == 0 && small_end_ - small_begin_ == sizeof kWrongProtocolAlert &&
         memcmp(small_.data() + small_begin_, kWrongProtocolAlert, sizeof kWrongProtocolAlert) == 0;
}

const char* BulkConnection::BeginFrame(const uint8_t* head) {
  frame_ = BulkFrame();
  const uint8_t kind = head[4];
  method_bytes_ = Take<uint16_t>(head + 6);
  frame_.id = Take<uint64_t>(head + 8);
  uint64_t fields = Take<uint32_t>(head + 16);
  payload_bytes_ = Take<uint32_t>(head + 20);
  if (Take<uint32_t>(head) != kFrameMagic || head[5] != 0) return "it sent bytes that are no frame";
  if (kind != static_cast<uint8_t>(BulkKind::kRequest) && kind != static_cast<uint8_t>(BulkKind::kReply)) {
    return "it sent a frame of an unknown kind";
  }
  frame_.kind = static_cast<BulkKind>(kind);
  if (method_bytes_ > kMaxBulkMethodBytes || fields + payload_bytes_ > kMaxFrameMessageBytes) {
    return "it sent a frame that is too large";
  }
  in_frame_ = true;
  ++frames_;
  meta_have_ = payload_have_ = 0;
  meta_heard_ = false;
  tagged_bytes_ = protection_.mode == WireMode::kIntegrity ? payload_bytes_ : 0;
  admitted_ = fields + payload_bytes_;
  if (tag_bytes_ > 0) head_.assign(head, head + kFrameBytes);
  if (callbacks_.admit) {
    admitted_ = std::min(admitted_, kAdmitBytes);
    frame_.admission = callbacks_.admit(admitted_);
    if (!frame_.admission) {
      payload_bytes_ += fields;
      tagged_bytes_ += tag_bytes_ > 0 ? fields : 0;
      frame_.refused = true;
      fields = 0;
    }
  }
  meta_ = MutableBuffer(tag_bytes_ + method_bytes_ + fields);
  payload_ = frame_.refused || payload_bytes_ == 0 ? MutableBuffer() : MutableBuffer(payload_bytes_);
  return nullptr;
}

// The message under way has grown: what has come of it now counts.
void BulkConnection::Admit() {
  if (!in_frame_ || frame_.refused || !frame_.admission) return;
  const uint64_t keep = tag_bytes_ + method_bytes_;
  const uint64_t have = (meta_have_ > keep ? meta_have_ - keep : 0) + payload_have_;
  if (have <= admitted_) return;
  if (!frame_.admission->Grow(have - admitted_)) return Refuse();
  admitted_ = have;
}

// There is no room for the rest of the message under way. It goes, and what comes of it is dropped until it ends. REQUIRES: its method is here.
void BulkConnection::Refuse() {
  const size_t keep = tag_bytes_ + method_bytes_;
  const size_t fields_left = meta_.size() - meta_have_;
  if (tag_bytes_ > 0 && !meta_heard_) HeardMeta();
  // The tag and the method stay, as they do of one that is refused at once.
  MutableBuffer kept(keep);
  memcpy(kept.data(), meta_.data(), keep);
  meta_ = std::move(kept);
  meta_have_ = keep;
  payload_ = MutableBuffer();
  // No byte of the payload has come while some of the fields have not.
  payload_bytes_ += fields_left;
  tagged_bytes_ += tag_bytes_ > 0 ? fields_left : 0;
  frame_.refused = true;
  frame_.admission = nullptr;
}

// The bytes of the payload that have just come count for the tag, if they do; all that is before them is there.
void BulkConnection::Heard(const uint8_t* payload, size_t n) {
  if (payload_have_ >= tagged_bytes_ || n == 0) return;
  if (!meta_heard_) HeardMeta();
  protection_.receiving->Add({payload, std::min(n, tagged_bytes_ - payload_have_)});
}

// What has come of it.
void BulkConnection::HeardMeta() {
  meta_heard_ = true;
  protection_.receiving->Add(head_);
  protection_.receiving->Add(meta_.span().subspan(tag_bytes_, meta_have_ - tag_bytes_));
}

// False if its tag is wrong.
bool BulkConnection::EndFrame() {
  in_frame_ = false;
  ++frames_;
  if (tag_bytes_ > 0) {
    if (!meta_heard_) HeardMeta();
    FrameMac::Tag tag;
    memcpy(tag.data(), meta_.data(), tag.size());
    if (!protection_.receiving->EndsWith(tag)) return false;
  }
  if (frame_.refused) {
    meta_ = MutableBuffer();
    callbacks_.on_frame(std::exchange(frame_, BulkFrame()));
    return true;
  }
  const size_t fields = meta_.size() - tag_bytes_ - method_bytes_;
  const Buffer all = std::exchange(meta_, MutableBuffer()).Freeze();
  const Buffer meta = all.Slice(tag_bytes_, method_bytes_ + fields);
  frame_.method = std::string(meta.view().substr(0, method_bytes_));
  frame_.message.header = meta.Slice(method_bytes_, fields);
  if (payload_bytes_ > 0) {
    frame_.message.payload = BufferChain(std::exchange(payload_, MutableBuffer()).Freeze());
  }
  callbacks_.on_frame(std::exchange(frame_, BulkFrame()));
  return true;
}

void BulkConnection::KeepPace(int64_t now_ns, const BulkPace& pace) {
  bool unread;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return;
    unread = !queue_.empty();
  }
  // True if that has lasted too long. Each begins when it is first seen.
  const auto late = [now_ns](Mark* mark, bool on, uint64_t frames, uint64_t bytes, uint64_t wanted, int64_t limit_ns) {
    const bool begins = on && (!mark->set || mark->frames != frames);
    const bool over = on && !begins && now_ns - mark->at_ns >= limit_ns;
    if (over && bytes - mark->bytes < wanted) return true;
    if (begins || over) *mark = {true, frames, bytes, now_ns};
    if (!on) mark->set = false;
    return false;
  };
  if (late(&frame_mark_, in_frame_ || small_end_ > 0, frames_, received_, kPaceBytes, pace.frame_ns)) {
    return Close(Broken(peer_, "the rest of a frame did not come in time"));
  }
  const uint64_t moved = received_ + sent_.load(std::memory_order_relaxed);
  if (unread_mark_.set && moved != unread_mark_.bytes) unread_mark_.set = false;
  if (late(&unread_mark_, unread, 0, moved, 1, pace.unread_ns)) Close(Broken(peer_, "it takes no replies"));
}

void BulkConnection::Close(const Error& why) {
  std::deque<Outgoing> unsent;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return;
    closed_ = true;
    // The first message in line ends with it.
    if (!sending_) unsent.swap(queue_);
  }
  loop_->Forget(fd_);
  shutdown(fd_, SHUT_RDWR);
  const BulkCallbacks callbacks = std::exchange(callbacks_, BulkCallbacks());
  if (callbacks.on_closed) callbacks.on_closed(why);
}

}  // namespace stria
