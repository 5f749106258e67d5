// What OpenSSL asks in the middle of a handshake. For the .cc files of this folder.
#pragma once

#include <openssl/ssl.h>

#include <string>
#include <string_view>

#include "trust/tls/tls_session.h"

namespace stria {

// The protocol names of the handshake (ALPN). A mode is one, so it is agreed on inside what both sides authenticate.
std::string_view ProtocolOf(WireMode mode);
inline constexpr std::string_view kJoinProtocol = "stria-join/1";

class TlsCallbacks {
 public:
  static void SetSession(SSL* ssl, TlsSession* session);
  // SSL_CTX_set_cert_verify_callback
  static int Verify(X509_STORE_CTX* ctx, void*);
  // SSL_CTX_set_client_hello_cb: who offers no protocol is sent away before anything is computed for it.
  static int Hello(SSL* ssl, int* alert, void*);
  // SSL_CTX_set_alpn_select_cb
  static int Choose(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size, void*);
};

}  // namespace stria
