// The transport for bulk data: frames over plain TCP ("host:port", "[v6]:port") or a Unix socket
// ("unix:/path"). Same messages, tokens and errors as gRPC, a third of its cost: a payload is received
// into one page-aligned buffer, where checksums and direct I/O take it as it is (proto/README.md).
//
// It shares a port with gRPC: a connection's first bytes tell which it is (bulk_connection.h).
//
// Threads: a few loops move bytes; everything else happens on the executor's thread. Members are for
// that thread. The executor outlives both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/exec/executor.h"
#include "common/quick_wake.h"
#include "proto/peer_shares.h"
#include "proto/transport.h"
#include "trust/doorman.h"
#include "trust/tls/tls_session.h"

namespace stria {

// A server answers kRetryLater beyond either; replies count until they are sent.
inline constexpr size_t kMaxBulkRequests = 8192;
inline constexpr uint64_t kMaxBulkServerBytes = 512 * kMiB;
inline constexpr size_t kMaxBulkConnections = 4096;  // of a server
inline constexpr int kBulkLoops = 2;
inline constexpr size_t kMaxJoinAnswerBytes = kMiB;

class BulkHandedOn;  // a connection on its way from one server to another

struct BulkClientOptions {
  int connections_per_peer = 2;  // a call takes the one with fewest under way
  int loops = kBulkLoops;
  std::shared_ptr<const CurrentTls> tls;  // what connections that are made from now on go by; none: no TLS
  // Whom to expect at an address. Empty: anyone whom the context lets in.
  std::function<std::optional<ExpectedPeer>(const std::string& address)> expected;
  // Whether a server that showed a certificate is still believed, as for CloseUnless; asked when its handshake has ended. Any thread. Empty: the
  // handshake's word is enough.
  std::function<Result<void>(const Peer&)> judge;
  // Its connections are for whoever answers aside: BulkServerOptions::aside. A server that knows of none closes them.
  bool aside = false;
};

// Makes transports to peers. A call: kUnavailable at once if the peer refuses, is unreachable, or the
// connection breaks; kDeadline in time; kBadRequest if a message is too large. A lost connection is made
// again by the next call, 0.1 to 1 s after the last try; dead peers are found within about 15 s.
class BulkClient final : public TransportFactory {
 public:
  explicit BulkClient(Executor* executor, const BulkClientOptions& options = {});
  // Calls under way end with kUnavailable; transports remain valid and answer so from now on.
  ~BulkClient() override;
  std::shared_ptr<Transport> Make(const std::string& address) override;

  // Closes the connections whose server showed a certificate and is not believed any more: `judge` gives the reason
  // (Credentials::StillGood). Calls under way over them end with kUnavailable and that reason.
  void CloseUnless(const std::function<Result<void>(const stria::Peer&)>& judge);

 private:
  class State;
  class Link;
  class Peer;
  std::shared_ptr<State> state_;
  const int connections_;
};

struct BulkServerOptions {
  int loops = kBulkLoops;
  size_t max_connections = kMaxBulkConnections;  // or fewer; more are closed at once
  size_t max_requests = kMaxBulkRequests;
  uint64_t max_request_bytes = kMaxBulkServerBytes;
  QuickWake* wake = nullptr;  // hears of each request; outlives the server
  // Takes connections of another protocol, with nothing read from them. Called on any thread. Empty: they are closed.
  std::function<void(int fd)> other;
  // Takes the connections of clients that ask to be answered aside, whose peers are known by then: for BulkServer::Adopt of a server that answers
  // on another executor's thread, however long a step this one's takes. Called on any thread. Empty: they are closed.
  std::function<void(std::shared_ptr<BulkHandedOn>)> aside;
  // What handshakes that begin from now on go by; none: no TLS. With it who says nothing of TLS is sent away, and `other` gets nobody.
  std::shared_ptr<const CurrentTls> tls;
  DoormanLimits door;
  PeerLimits per_peer;
  // Whether a peer that showed a certificate is still let in, as for CloseUnless; asked when its handshake has ended. Any thread. Empty: the handshake's word is enough.
  std::function<Result<void>(const Peer&)> judge;
  // Answers who has no certificate yet (TlsSettings::joins): one request of at most kMaxJoinRequestBytes, one answer of at most
  // kMaxJoinAnswerBytes or the sentence why not, then the connection is closed. `binding`: TlsSession::ChannelBinding. On the executor's thread, many
  // at once; destroyed when the server stops. Empty: nobody joins.
  std::function<Task<Result<std::string>>(std::string request, std::string binding, std::string address)> join;
  // Whom the kernel says a Unix socket's client to be (SO_PEERCRED); nullopt: it is refused. There TLS is not spoken, whatever `tls` says, and
  // nothing but bulk frames. A loop's thread. Empty: nothing is known of them, and with `tls` there is no Unix socket.
  std::function<std::optional<Peer>(uint32_t uid, uint32_t gid, int32_t pid)> local_peer;
  uint32_t socket_mode = 0600;  // of a Unix socket's file
  // Is told of handshakes that came to nothing: one sentence with address and reason. Called on some thread, at most as often as connections
  // come; whoever logs it bounds that.
  std::function<void(const Error&)> refused;
};

// Serves `dispatcher` (which outlives it) on one address. As GrpcServer.
class BulkServer {
 public:
  BulkServer(Executor* executor, Dispatcher* dispatcher, BulkServerOptions options = {});
  // As Stop().
  ~BulkServer();

  // Begins to listen and serve. Executor's thread. Port 0 takes a free one. Returns the address with the bound port, or kUnavailable with a
  // sentence. REQUIRES: called once.
  Result<std::string> Start(const std::string& address);

  // Instead of Start: serves those that it adopts. Executor's thread.
  void StartWithoutAddress();
  // Serves a connection that came to another server, until Stop(). Any thread.
  void Adopt(std::shared_ptr<BulkHandedOn> arrival);

  // Refuses new calls, gives those under way up to grace_ns to end, then Stop().
  Task<void> Shutdown(int64_t grace_ns);
  // Destroys running handlers, closes all connections: their callers see kUnavailable. REQUIRES: not
  // called from a handler.
  void Stop();

  size_t running() const;  // handlers
  size_t waiting() const;  // connections whose peer is not known yet

  // Closes the connections whose peer showed a certificate and is not let in any more: `judge` gives the reason (Credentials::StillGood). Their calls under way run
  // to their ends, without an answer. Any thread.
  void CloseUnless(const std::function<Result<void>(const Peer&)>& judge);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace stria
