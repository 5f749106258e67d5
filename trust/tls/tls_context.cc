#include "trust/tls/tls_context.h"

#include "trust/ssl_ptr.h"
#include "trust/tls/tls_callbacks.h"

namespace stria {
namespace {

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";
constexpr char kGroups[] = "X25519:P-256";
constexpr char kSignatures[] = "ECDSA+SHA256:ed25519";
// What SSL_read reads at once from the wire: four records.
constexpr size_t kReadBytes = 64 * 1024 + 1024;

std::string ProtocolList(const TlsContext& context) {
  std::string list;
  const auto add = [&](std::string_view p) {
    list += static_cast<char>(p.size());
    list += p;
  };
  if (context.pinned()) {
    add(kJoinProtocol);
  } else {
    for (const WireMode m : context.settings().modes) add(ProtocolOf(m));
  }
  return list;
}

}  // namespace

std::vector<WireMode> ModesFrom(WireMode least) {
  std::vector<WireMode> out;
  for (const WireMode m : kAllWireModes) {
    if (m >= least) out.push_back(m);
  }
  return out;
}

TlsContext::TlsContext(Side side, TlsSettings settings, std::optional<Sha256Hash> pinned)
    : side_(side), settings_(std::move(settings)), pinned_(pinned), ctx_(SSL_CTX_new(TLS_method())) {
  SSL_CTX* const c = ctx_;
  CHECK(c != nullptr, TakeSslReason());
  const auto must = [](long done) { CHECK(done == 1, "OpenSSL refuses a setting: " + TakeSslReason()); };
  must(SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION));
  must(SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION));
  must(SSL_CTX_set_ciphersuites(c, kCipher));
  must(SSL_CTX_set1_groups_list(c, kGroups));
  must(SSL_CTX_set1_sigalgs_list(c, kSignatures));
  SSL_CTX_set_options(c, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  must(SSL_CTX_set_num_tickets(c, 0));
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(c, kMaxPeerCertificateBytes);
  SSL_CTX_set_default_read_buffer_len(c, kReadBytes);
  SSL_CTX_set_read_ahead(c, 1);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(c, &TlsCallbacks::Verify, nullptr);
  if (settings_.credentials) {
    const Credentials& own = *settings_.credentials;
    must(SSL_CTX_use_certificate(c, own.certificate.get()));
    must(SSL_CTX_use_PrivateKey(c, own.key.get()));
    X509_STORE* const store = SSL_CTX_get_cert_store(c);
    for (const Certificate& a : own.bundle.all()) {
      must(X509_STORE_add_cert(store, a.get()));
      // Who joins knows no more than the hash of an authority, and wants to see it.
      if (settings_.joins) must(SSL_CTX_add1_chain_cert(c, a.get()));
    }
  }
  // Else OpenSSL looks into the store for a chain to send by itself.
  SSL_CTX_set_mode(c, SSL_MODE_NO_AUTO_CHAIN);
  if (side_ == Side::kServer) {
    SSL_CTX_set_client_hello_cb(c, &TlsCallbacks::Hello, nullptr);
    SSL_CTX_set_alpn_select_cb(c, &TlsCallbacks::Choose, nullptr);
  } else {
    const std::string list = ProtocolList(*this);
    // This one gives 0 if all is well.
    CHECK(SSL_CTX_set_alpn_protos(c, reinterpret_cast<const unsigned char*>(list.data()), static_cast<unsigned>(list.size())) == 0);
  }
  ERR_clear_error();
}

TlsContext::~TlsContext() { SSL_CTX_free(ctx_); }

std::shared_ptr<const TlsContext> TlsContext::Make(Side side, TlsSettings settings) {
  CHECK(settings.credentials && settings.now_s && !settings.modes.empty() && settings.rekey_records > 0);
  return std::shared_ptr<const TlsContext>(new TlsContext(side, std::move(settings), std::nullopt));
}

std::shared_ptr<const TlsContext> TlsContext::MakeJoining(const Sha256Hash& authority, std::function<int64_t()> now_s) {
  TlsSettings settings;
  settings.now_s = std::move(now_s);
  settings.peers = {Role::kMeta};
  return std::shared_ptr<const TlsContext>(new TlsContext(Side::kClient, std::move(settings), authority));
}

}  // namespace stria
