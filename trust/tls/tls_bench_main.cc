// What the modes cost: CPU time of one core for frames over a memory wire (no sockets), and for handshakes.
//   bazel run --config=opt //trust/tls:tls_bench [MB per measurement]
#include <string.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "common/random.h"
#include "trust/tls/tls_session.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// What one end gives, the other takes; of a size that a channel seals at once.
class Pipe final : public TlsWire {
 public:
  ssize_t Take(uint8_t* to, size_t n) override {
    n = std::min(n, bytes_.size() - at_);
    memcpy(to, bytes_.data() + at_, n);
    at_ += n;
    if (at_ == bytes_.size()) bytes_.clear(), at_ = 0;
    return static_cast<ssize_t>(n);
  }
  ssize_t Give(const uint8_t* from, size_t n) override {
    bytes_.insert(bytes_.end(), from, from + n);
    return static_cast<ssize_t>(n);
  }

 private:
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

struct Ends {
  std::unique_ptr<TlsSession> client, server;
};

class Bench {
 public:
  explicit Bench(size_t bytes) : bytes_(bytes) {}

  Ends Shake(WireMode mode) {
    const auto settings = [&](Role own, Role peer) {
      TlsSettings s;
      s.credentials = own == Role::kData ? server_ : client_;
      s.now_s = [] { return kTestNowS; };
      s.peers = {peer};
      s.modes = {mode};
      return s;
    };
    if (!client_context_ || mode != mode_) {
      client_context_ = TlsContext::Make(TlsContext::Side::kClient, settings(Role::kClient, Role::kData));
      server_context_ = TlsContext::Make(TlsContext::Side::kServer, settings(Role::kData, Role::kClient));
      mode_ = mode;
    }
    Ends e{std::make_unique<TlsSession>(client_context_, "s"), std::make_unique<TlsSession>(server_context_, "c")};
    std::string up, down;
    TlsSession::Step c = e.client->Handshake("", &up), s = TlsSession::Step::kMore;
    while (s == TlsSession::Step::kMore || c == TlsSession::Step::kMore) {
      if (s == TlsSession::Step::kMore) s = e.server->Handshake(std::exchange(up, ""), &down);
      if (c == TlsSession::Step::kMore) c = e.client->Handshake(std::exchange(down, ""), &up);
    }
    CHECK(c == TlsSession::Step::kDone && s == TlsSession::Step::kDone);
    return e;
  }

  void Handshakes() {
    Shake(WireMode::kPrivacy);
    constexpr int kCount = 1000;
    const double begin = CpuSeconds();
    for (int i = 0; i < kCount; ++i) Shake(WireMode::kPrivacy);
    printf("handshake, both ends: %.0f us\n", (CpuSeconds() - begin) * 1e6 / kCount);
  }

  // CPU seconds per GB of payload, of who sends and of who receives.
  void Frames(WireMode mode, size_t frame) {
    constexpr size_t kHead = 24 + 20, kFields = 200, kSeal = 128 * 1024;
    Ends e = Shake(mode);
    Random rng(1);
    std::vector<uint8_t> payload(frame), head(kHead + kFields), got(frame + head.size());
    for (uint8_t& b : payload) b = static_cast<uint8_t>(rng.Next());
    const size_t rounds = std::max<size_t>(1, bytes_ / frame);
    double send = 0, receive = 0;
    if (mode == WireMode::kPrivacy) {
      Pipe there;
      e.client->SetWire(&there);
      e.server->SetWire(&there);
      for (size_t i = 0; i < rounds; ++i) {
        for (size_t sent = 0, have = 0; have < frame + head.size();) {
          double t = CpuSeconds();
          for (const size_t stop = std::min(sent + kSeal, frame + head.size()); sent < stop;) {
            const uint8_t* from = sent < head.size() ? head.data() + sent : payload.data() + sent - head.size();
            const size_t left = sent < head.size() ? head.size() - sent : frame + head.size() - sent;
            sent += e.client->Write(from, left).value();
          }
          send += CpuSeconds() - t;
          t = CpuSeconds();
          while (const size_t n = e.server->Read(got.data() + have, got.size() - have).value()) {
            have += n;
            if (have == got.size()) break;
          }
          receive += CpuSeconds() - t;
        }
      }
    } else {
      FrameMac out(e.client->SendKey()), in(e.server->ReceiveKey());
      const bool all = mode == WireMode::kIntegrity;
      for (size_t i = 0; i < rounds; ++i) {
        double t = CpuSeconds();
        out.Add(head);
        if (all) out.Add(payload);
        const FrameMac::Tag tag = out.End();
        send += CpuSeconds() - t;
        t = CpuSeconds();
        in.Add(head);
        if (all) in.Add(payload);
        CHECK(in.EndsWith(tag));
        receive += CpuSeconds() - t;
      }
    }
    const double gb = static_cast<double>(rounds) * static_cast<double>(frame) / 1e9;
    printf("%-9s %5zu KiB: send %.4f, receive %.4f CPU-s/GB; %.2f us a frame\n", std::string(WireModeName(mode)).c_str(), frame / 1024, send / gb,
           receive / gb, (send + receive) * 1e6 / static_cast<double>(rounds));
  }

 private:
  const size_t bytes_;
  const TestCluster cluster_;
  const std::shared_ptr<const Credentials> server_ = cluster_.Give(Role::kData, "n6"), client_ = cluster_.Give(Role::kClient, "wn7");
  std::shared_ptr<const TlsContext> client_context_, server_context_;
  WireMode mode_ = WireMode::kPrivacy;
};

}  // namespace
}  // namespace stria

int main(int argc, char** argv) {
  stria::Bench bench((argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000) * 1'000'000);
  bench.Handshakes();
  for (const stria::WireMode mode : stria::kAllWireModes) {
    for (const size_t frame : {size_t{4}, size_t{64}, size_t{1024}}) bench.Frames(mode, frame * 1024);
  }
  return 0;
}
