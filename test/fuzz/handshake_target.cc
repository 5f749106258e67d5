// Input: one byte that says what is hurt, then edits of three bytes: where (two), what to put there. A handshake between two
// ends that belong to each other runs with the edits made in one of its flights, or a server gets the input itself. Nobody gets in who was hurt in
// a flight that counts, and nothing crashes.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "test/fuzz/fuzz_target.h"
#include "trust/tls/tls_session.h"
#include "trust/trust_testing.h"

namespace stria {
namespace {

using Step = TlsSession::Step;

std::shared_ptr<const TlsContext> Context(TlsContext::Side side) {
  static const TestCluster cluster;
  TlsSettings s;
  const bool server = side == TlsContext::Side::kServer;
  s.credentials = cluster.Give(server ? Role::kMeta : Role::kClient, server ? "m" : "wn7");
  s.now_s = [] { return kTestNowS; };
  s.peers = {server ? Role::kClient : Role::kMeta};
  s.joins = server;
  s.modes = ModesFrom(WireMode::kAuth);
  return TlsContext::Make(side, s);
}

bool Hurt(std::string* flight, const uint8_t* edits, size_t size) {
  const std::string before = *flight;
  for (size_t i = 0; i + 3 <= size && !flight->empty(); i += 3) {
    const size_t at = (size_t{edits[i]} << 8 | edits[i + 1]) % flight->size();
    (*flight)[at] = static_cast<char>(edits[i + 2]);
  }
  return *flight != before;
}

}  // namespace
}  // namespace stria

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stria;
  static const auto client_context = Context(TlsContext::Side::kClient), server_context = Context(TlsContext::Side::kServer);
  if (size < 1) return 0;
  const int flight = data[0] % 4;
  TlsSession server(server_context, "10.0.0.7:1");
  std::string to_server, to_client;
  if (flight == 3) {
    if (server.Handshake({reinterpret_cast<const char*>(data) + 1, size - 1}, &to_client) == Step::kDone) std::abort();
    return 0;
  }
  TlsSession client(client_context, "pc1:1");
  (void)client.Handshake("", &to_server);
  bool hurt = flight == 0 && Hurt(&to_server, data + 1, size - 1);
  Step s = server.Handshake(to_server, &to_client);
  hurt = (flight == 1 && Hurt(&to_client, data + 1, size - 1)) || hurt;
  to_server.clear();
  const Step c = client.Handshake(to_client, &to_server);
  if (c == Step::kDone) std::abort();  // the server has not greeted
  hurt = (flight == 2 && Hurt(&to_server, data + 1, size - 1)) || hurt;
  to_client.clear();
  if (s == Step::kMore) s = server.Handshake(to_server, &to_client);
  if (!hurt && s != Step::kDone) std::abort();
  if (s == Step::kDone && (server.joining() || server.peer().name != "wn7")) std::abort();
  return 0;
}
