// One end of one TLS connection, as a machine without sockets, threads or time: bytes go in and out through a TlsWire.
//
//   handshake:  bytes of the other side in, bytes for it out, until kDone or kFailed. It costs a few 100 us: on a pool, please.
//   then:       Read and Write (privacy), or keys for FrameMac (integrity, auth), after which TLS is not used any more.
//
// The server ends its handshake with a greeting of four bytes inside TLS, and the client's handshake ends with having read it. In
// TLS 1.3 a client is done before the server has looked at its certificate: without the greeting it would send requests to one
// that has refused it, and the reason would be lost when the socket is reset (openssl/openssl issue 13998).
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "trust/tls/frame_mac.h"
#include "trust/tls/tls_context.h"

struct ssl_st;
struct x509_store_ctx_st;

namespace stria {

class TlsWire {
 public:
  virtual ~TlsWire() = default;
  // Up to n bytes from the other side. 0: there are none now. -1: none will come.
  virtual ssize_t Take(uint8_t* to, size_t n) = 0;
  // Takes up to n bytes for the other side. 0: no more now. -1: it will never.
  virtual ssize_t Give(const uint8_t* from, size_t n) = 0;
};

// Who a client wants to talk to.
struct ExpectedPeer {
  RoleSet roles;
  std::string name;  // empty: any
};

class TlsSession {
 public:
  enum class Step { kMore, kDone, kFailed };

  // `address` is the other side's, for sentences. `expected`: of a client; a server goes by its settings' peers.
  TlsSession(std::shared_ptr<const TlsContext> context, std::string address, std::optional<ExpectedPeer> expected = std::nullopt);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Takes all of `in`; appends to `out` what is to be sent, also when it fails (the other side is told why).
  Step Handshake(std::string_view in, std::string* out);
  // After kFailed: one sentence with the other side's address and the reason. kAccess: one refuses the other; kUnavailable: torn,
  // or no TLS.
  const Error& error() const { return error_; }

  // After kDone.
  const Peer& peer() const { return peer_; }  // nothing, if joining
  WireMode mode() const { return mode_; }
  bool joining() const { return joining_; }  // for enrolment only: no more is known of the other side
  // Of this side's sending and receiving. REQUIRES: a mode other than privacy, and once.
  FrameKey SendKey() const;
  FrameKey ReceiveKey() const;
  // What only the two ends of this connection know: binds a proof to it.
  std::string ChannelBinding() const;

  // Privacy. Bytes that came with the end of the handshake are there, `wire` is asked for more; it is used in Read and Write only, and
  // either may use both directions of it.
  void SetWire(TlsWire* wire);
  // 0: the wire has too little. An error: the connection is over.
  Result<size_t> Read(uint8_t* to, size_t n);
  // 0: the wire takes no more. Then the same bytes (or more) must be given again, from wherever.
  Result<size_t> Write(const uint8_t* from, size_t n);
  // True if Read has something although the wire has nothing.
  bool HasBuffered() const;

 private:
  friend class TlsCallbacks;
  class MemoryWire;
  int Verify(x509_store_ctx_st* ctx);
  int Judge(x509_store_ctx_st* ctx);
  bool Finish();
  bool Greeted();
  void Fail();
  Error Broken(const std::string& why) const;
  FrameKey ExportKey(bool from_client) const;
  std::string Other() const;

  const std::shared_ptr<const TlsContext> context_;
  const std::string address_;
  const std::optional<ExpectedPeer> expected_;
  const std::unique_ptr<MemoryWire> memory_;
  TlsWire* wire_;
  ssl_st* ssl_ = nullptr;
  bool shaken_ = false;  // the handshake proper is done
  bool done_ = false;
  bool joining_ = false;
  std::string refusal_;  // why the other side's certificate is not taken
  Error error_;
  Peer peer_;
  WireMode mode_ = WireMode::kPrivacy;
  uint64_t records_ = 0;  // sealed with the present key
};

}  // namespace stria
