// Input: how the connection is protected, how its bytes come cut, what it admits, then what comes over it.
//
//  - without protection: the bytes themselves. A second reader, written from the format that bulk_connection.h gives, says which
//    frames there are: the connection gives these and no others, however they are cut, and drops those that are not admitted.
//  - in the modes auth and integrity: changes to what a connection has sent. Frames come out as they were sent, in order, up to the
//    first that a change touched; under `auth` only the payload may be another.
//  - with or without: sizes of frames, also of such as are refused while they come. The others are as they were sent.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "proto/bulk_channel.h"
#include "proto/bulk_connection.h"
#include "proto/bulk_loop.h"
#include "test/fuzz/fuzz_target.h"

namespace stria {

uint64_t fuzz_taken = 0;

namespace {

constexpr size_t kHeadBytes = 24;
constexpr uint64_t kMostFrameBytes = kMaxMessageBytes + kMiB;
constexpr size_t kMaxInput = 64 * kKiB;
constexpr uint64_t kMostSent = 2 * kMiB;  // of frames whose sizes are given

struct Frame {
  uint8_t kind = 0;
  uint64_t id = 0;
  std::string method, fields, payload;
  bool refused = false;
  bool operator==(const Frame&) const = default;
};

// ---- What comes out of a connection ----------------------------------------------------------------

// Gives `bytes` in pieces, and takes what is sent.
class StringChannel final : public BulkChannel {
 public:
  StringChannel(std::string bytes, size_t piece, std::string* sent) : bytes_(std::move(bytes)), piece_(piece), sent_(sent) {}
  ssize_t Receive(const iovec* to, int count) override {
    size_t n = 0;
    for (int i = 0; i < count && n < piece_ && at_ < bytes_.size(); ++i) {
      const size_t some = std::min({to[i].iov_len, piece_ - n, bytes_.size() - at_});
      std::memcpy(to[i].iov_base, bytes_.data() + at_, some);
      at_ += some;
      n += some;
    }
    return static_cast<ssize_t>(n);
  }
  ssize_t Send(iovec* from, size_t count) override {
    size_t n = 0;
    for (size_t i = 0; i < count; ++i) {
      if (sent_ != nullptr) sent_->append(static_cast<const char*>(from[i].iov_base), from[i].iov_len);
      n += from[i].iov_len;
    }
    return static_cast<ssize_t>(n);
  }
  int Flush() override { return 0; }

 private:
  const std::string bytes_;
  const size_t piece_;
  std::string* const sent_;
  size_t at_ = 0;
};

FrameKey Key() {
  FrameKey key;
  key.key.fill(3);
  key.salt.fill(4);
  return key;
}

BulkProtection ProtectionOf(std::optional<WireMode> mode, std::unique_ptr<BulkChannel> channel) {
  BulkProtection p;
  p.channel = std::move(channel);
  p.mode = mode;
  if (mode) p.sending.emplace(Key()), p.receiving.emplace(Key());
  return p;
}

struct Heard {
  std::vector<Frame> frames;
  std::string why;  // it was closed
};

// A descriptor that a loop can watch, and of which nothing comes.
int SilentFd() {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Must(fd >= 0);
  return fd;
}

// Takes `most` bytes for each message, and sees that no byte is taken that was not asked for.
class Budget final : public BulkAdmission {
 public:
  Budget(uint64_t most, uint64_t taken) : most_(most), taken_(taken) {}
  bool Grow(uint64_t bytes) override {
    Must(bytes > 0);
    if (bytes > most_ - taken_) return false;
    taken_ += bytes;
    return true;
  }
  uint64_t taken() const { return taken_; }

 private:
  const uint64_t most_;
  uint64_t taken_;
};

Heard Hear(const std::string& bytes, size_t piece, uint64_t admits, std::optional<WireMode> mode) {
  static BulkLoop loop("fuzz");
  std::promise<Heard> promise;
  loop.Run([&] {
    Heard heard;
    bool closed = false;
    BulkCallbacks callbacks;
    callbacks.admit = [&](uint64_t n) { return n <= admits ? std::make_shared<Budget>(admits, n) : nullptr; };
    callbacks.on_frame = [&](BulkFrame f) {
      Must(!closed && f.refused == (f.admission == nullptr));
      if (f.admission) Must(static_cast<const Budget&>(*f.admission).taken() == f.message.size());
      Frame& to = heard.frames.emplace_back();
      to.kind = static_cast<uint8_t>(f.kind), to.id = f.id, to.method = f.method, to.refused = f.refused;
      to.fields = f.message.header.view(), to.payload = f.message.payload.Flatten().view();
    };
    callbacks.on_closed = [&](const Error& why) {
      Must(!closed && why.code == FsError::kUnavailable);
      closed = true;
      heard.why = why.message;
    };
    const auto connection = std::make_shared<BulkConnection>(
        &loop, SilentFd(), "the fuzzer", ProtectionOf(mode, std::make_unique<StringChannel>(bytes, piece, nullptr)), std::move(callbacks));
    connection->Start();
    // It ends by itself when the channel does.
    for (size_t turns = 0; heard.why.empty(); ++turns) {
      Must(turns <= bytes.size() + 2);
      connection->OnReady(true, false, false);
    }
    promise.set_value(std::move(heard));
  });
  return promise.get_future().get();
}

// ---- Without protection: what should come out --------------------------------------------------------

template <class T>
T Number(const std::string& s, size_t at) {
  T v = 0;
  for (size_t i = 0; i < sizeof(T); ++i) v = static_cast<T>(v | T{static_cast<uint8_t>(s[at + i])} << (8 * i));
  return v;
}

std::vector<Frame> FramesIn(const std::string& s, uint64_t admits, bool* broken) {
  std::vector<Frame> out;
  *broken = false;
  for (size_t at = 0; at + kHeadBytes <= s.size();) {
    const uint64_t method = Number<uint16_t>(s, at + 6), fields = Number<uint32_t>(s, at + 16), payload = Number<uint32_t>(s, at + 20);
    const uint8_t kind = static_cast<uint8_t>(s[at + 4]);
    const bool known = s.compare(at, 4, "SBK1") == 0 && s[at + 5] == 0 && (kind == 1 || kind == 2);
    if (!known || method > kMaxBulkMethodBytes || fields + payload > kMostFrameBytes) {
      *broken = true;
      return out;
    }
    const size_t begin = at + kHeadBytes;
    at = begin + method + fields + payload;
    if (at > s.size()) return out;  // the rest never comes
    Frame& f = out.emplace_back();
    f.kind = kind, f.id = Number<uint64_t>(s, begin - kHeadBytes + 8);
    f.refused = fields + payload > admits;
    if (f.refused) continue;
    f.method = s.substr(begin, method);
    f.fields = s.substr(begin + method, fields);
    f.payload = s.substr(begin + method + fields, payload);
  }
  return out;
}

void Plain(const std::string& s, size_t piece, uint64_t admits) {
  bool broken = false;
  const std::vector<Frame> want = FramesIn(s, admits, &broken);
  const Heard got = Hear(s, piece, admits, std::nullopt);
  Must(got.frames == want);
  Must(broken == (got.why.find("it was closed") == std::string::npos));
  fuzz_taken += got.frames.size();
}

// ---- With tags --------------------------------------------------------------------------------------

std::vector<Frame> SentFrames() {
  return {{1, 7, "/stria.v1.Data/Write", "fields", std::string(300, 'p'), false},
          {2, 8, "", "only fields", "", false},
          {1, 9, "/stria.v1.Meta/Sync", "", "only a payload", false},
          {2, 10, "", "", "", false},
          {2, 11, "", "both", std::string(9000, 'q'), false}};
}

std::string SentAs(std::optional<WireMode> mode, const std::vector<Frame>& frames) {
  static BulkLoop loop("fuzz-send");
  std::string sent;
  const auto connection = std::make_shared<BulkConnection>(
      &loop, SilentFd(), "the fuzzer", ProtectionOf(mode, std::make_unique<StringChannel>("", 1, &sent)), BulkCallbacks());
  for (const Frame& f : frames) {
    BulkFrame out;
    out.kind = static_cast<BulkKind>(f.kind), out.id = f.id, out.method = f.method;
    out.message.header = Buffer::FromString(f.fields);
    out.message.payload = BufferChain(Buffer::FromString(f.payload));
    connection->Send(std::move(out));  // not large, and nothing is before it: sent here and now
  }
  return sent;
}

void Tagged(WireMode mode, std::string edits, size_t piece) {
  static const std::string as_auth = SentAs(WireMode::kAuth, SentFrames()), as_integrity = SentAs(WireMode::kIntegrity, SentFrames());
  const std::vector<Frame> sent = SentFrames();
  const std::string before = mode == WireMode::kAuth ? as_auth : as_integrity;
  std::string bytes = before;
  // Each of four bytes: what, where (two), with what.
  for (size_t i = 0; i + 4 <= edits.size() && !bytes.empty(); i += 4) {
    const size_t at = (size_t{static_cast<uint8_t>(edits[i + 1])} << 8 | static_cast<uint8_t>(edits[i + 2])) % bytes.size();
    const size_t n = 1 + static_cast<uint8_t>(edits[i + 3]);
    switch (edits[i] % 4) {
      case 0: bytes[at] = edits[i + 3]; break;
      case 1: bytes.erase(at, n); break;
      case 2: bytes.insert(at, before.substr(n * 32 % before.size(), n)); break;  // repeats what was sent
      default: bytes.resize(at);
    }
  }
  const Heard got = Hear(bytes, piece, UINT64_MAX, mode);
  Must(got.frames.size() <= sent.size());
  for (size_t i = 0; i < got.frames.size(); ++i) {
    Frame as_sent = sent[i];
    // Payloads have their CRC there, which is no protection against people. But they are as long as they were.
    if (mode == WireMode::kAuth) {
      Must(got.frames[i].payload.size() == as_sent.payload.size());
      as_sent.payload = got.frames[i].payload;
    }
    Must(got.frames[i] == as_sent);
  }
  // All that is before the first change arrives.
  const size_t same = static_cast<size_t>(std::mismatch(bytes.begin(), bytes.end(), before.begin(), before.end()).first - bytes.begin());
  size_t end = 0, whole = 0;
  for (const Frame& f : sent) {
    end += kHeadBytes + sizeof(FrameMac::Tag) + f.method.size() + f.fields.size() + f.payload.size();
    whole += end <= same;
  }
  Must(end == before.size() && got.frames.size() >= whole);
  if (bytes == before) Must(got.frames == sent);
  fuzz_taken += got.frames.size();
}

// Frames of given sizes: of each method, fields and payload, in six bytes.
void Sized(std::optional<WireMode> mode, const std::string& s, size_t piece, uint64_t admits) {
  constexpr size_t kMostPart = 60'000;  // so that a frame is sent here and now
  std::vector<Frame> frames;
  uint64_t all = 0;
  for (size_t at = 0; at + 6 <= s.size() && all < kMostSent; at += 6) {
    Frame& f = frames.emplace_back();
    f.kind = 1 + static_cast<uint8_t>(s[at]) % 2, f.id = at;
    f.method = std::string(static_cast<uint8_t>(s[at + 1]), 'm');
    f.fields = std::string(std::min<size_t>(Number<uint16_t>(s, at + 2), kMostPart), s[at]);
    f.payload = std::string(std::min<size_t>(Number<uint16_t>(s, at + 4), kMostPart), s[at + 1]);
    all += f.fields.size() + f.payload.size();
  }
  const Heard got = Hear(SentAs(mode, frames), piece, admits, mode);
  for (Frame& f : frames) {
    f.refused = f.fields.size() + f.payload.size() > admits;
    if (f.refused) f.method = f.fields = f.payload = "";
  }
  Must(got.frames == frames);
  Must(got.why.find("it was closed") != std::string::npos);
  fuzz_taken += got.frames.size();
}

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stria;
  if (size < 3 || size > kMaxInput) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 3, size - 3);
  const size_t piece = data[1] == 0 ? kMaxInput : data[1];
  const size_t large_piece = data[1] == 0 ? kMaxInput : size_t{data[1]} * 211;
  const uint64_t large_admits = data[2] == 0 ? UINT64_MAX : uint64_t{data[2]} * 500;
  switch (data[0] % 6) {
    case 0: Plain(rest, piece, data[2] == 0 ? UINT64_MAX : uint64_t{data[2]} * 16); break;
    case 1: Tagged(WireMode::kAuth, rest, piece); break;
    case 2: Tagged(WireMode::kIntegrity, rest, piece); break;
    case 3: Sized(std::nullopt, rest, large_piece, large_admits); break;
    case 4: Sized(WireMode::kAuth, rest, large_piece, large_admits); break;
    default: Sized(WireMode::kIntegrity, rest, large_piece, large_admits);
  }
  return 0;
}
