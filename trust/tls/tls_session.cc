#include "trust/tls/tls_session.h"

#include <string.h>

#include <algorithm>

#include "common/printable.h"
#include "trust/ssl_ptr.h"
#include "trust/tls/tls_callbacks.h"

namespace stria {
namespace {

constexpr size_t kRecordBytes = 16 * 1024;
constexpr std::string_view kGreeting = "Str1";
constexpr char kFrameLabel[] = "EXPORTER-stria-frames-1";
constexpr char kBindingLabel[] = "EXPORTER-stria-binding-1";
constexpr size_t kBindingBytes = 32;

// ---- A BIO over a TlsWire -------------------------------------------------------------------------

struct WireBio {
  TlsWire** wire;
  bool ended = false;
};

int BioRead(BIO* bio, char* to, int n) {
  BIO_clear_retry_flags(bio);
  auto* w = static_cast<WireBio*>(BIO_get_data(bio));
  if (n <= 0) return 0;
  const ssize_t got = (*w->wire)->Take(reinterpret_cast<uint8_t*>(to), static_cast<size_t>(n));
  if (got > 0) return static_cast<int>(got);
  if (got < 0) {
    w->ended = true;
    return 0;
  }
  BIO_set_retry_read(bio);
  return -1;
}

int BioWrite(BIO* bio, const char* from, int n) {
  BIO_clear_retry_flags(bio);
  auto* w = static_cast<WireBio*>(BIO_get_data(bio));
  if (n <= 0) return 0;
  const ssize_t taken = (*w->wire)->Give(reinterpret_cast<const uint8_t*>(from), static_cast<size_t>(n));
  if (taken > 0) return static_cast<int>(taken);
  if (taken == 0) BIO_set_retry_write(bio);
  return -1;
}

long BioCtrl(BIO* bio, int what, long, void*) {
  if (what == BIO_CTRL_FLUSH) return 1;
  if (what == BIO_CTRL_EOF) return static_cast<WireBio*>(BIO_get_data(bio))->ended ? 1 : 0;
  return 0;
}

int BioFree(BIO* bio) {
  delete static_cast<WireBio*>(BIO_get_data(bio));
  BIO_set_data(bio, nullptr);
  return 1;
}

BIO* NewWireBio(TlsWire** wire) {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "stria wire");
    CHECK(m != nullptr);
    BIO_meth_set_read(m, &BioRead);
    BIO_meth_set_write(m, &BioWrite);
    BIO_meth_set_ctrl(m, &BioCtrl);
    BIO_meth_set_destroy(m, &BioFree);
    return m;
  }();
  BIO* bio = BIO_new(method);
  CHECK(bio != nullptr, "out of memory");
  BIO_set_data(bio, new WireBio{wire});
  BIO_set_init(bio, 1);
  return bio;
}

// ---- What went wrong, for people ------------------------------------------------------------------

// What the other side says of us, or of itself.
std::string AlertText(int alert) {
  switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED: return "it says that our certificate has expired";
    case SSL_AD_CERTIFICATE_REVOKED: return "it says that our certificate is revoked";
    case SSL_AD_UNKNOWN_CA: return "it does not know the authority that signed our certificate: it is of another cluster, or has another bundle";
    case SSL_AD_CERTIFICATE_REQUIRED: return "it wants a certificate, and we have shown none";
    case SSL_AD_UNSUPPORTED_CERTIFICATE: return "it lets nobody in who has our role";
    case SSL_AD_BAD_CERTIFICATE: return "it does not take our certificate (not yet good by its clock, or of another name than it expects)";
    case SSL_AD_HANDSHAKE_FAILURE: return "it does not take our certificate: it is of another cluster";
    case SSL_AD_NO_APPLICATION_PROTOCOL: return "it takes none of the modes that we offer (privacy, integrity, auth)";
    case SSL_AD_PROTOCOL_VERSION:
      return "it does not speak TLS 1.3: its cluster is an insecure one, or it is no server of Stria. Who has credentials does not do without "
             "them; if it is to be so, say --trust off";
    default: return std::string("it says '") + SSL_alert_desc_string_long(alert) + "'";
  }
}

const char* VerifyText(int error) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return "its certificate has expired, or this machine's clock is wrong";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "its certificate is not good yet, or this machine's clock is wrong";
    case X509_V_ERR_INVALID_PURPOSE: return "its certificate is not for this side of a connection";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "no authority of this cluster has signed its certificate";
    default: return X509_verify_cert_error_string(error);
  }
}

}  // namespace

// What came and was not taken, and what is to be sent.
class TlsSession::MemoryWire final : public TlsWire {
 public:
  ssize_t Take(uint8_t* to, size_t n) override {
    if (in_.size() > taken_) {
      const size_t some = std::min(n, in_.size() - taken_);
      memcpy(to, in_.data() + taken_, some);
      taken_ += some;
      if (taken_ == in_.size()) in_.clear(), taken_ = 0;
      return static_cast<ssize_t>(some);
    }
    return next_ ? next_->Take(to, n) : 0;
  }
  ssize_t Give(const uint8_t* from, size_t n) override {
    if (next_) return next_->Give(from, n);
    if (!out_) return 0;
    out_->append(reinterpret_cast<const char*>(from), n);
    return static_cast<ssize_t>(n);
  }
  void Come(std::string_view in) { in_.append(in); }
  void SetOut(std::string* out) { out_ = out; }
  void SetNext(TlsWire* next) { next_ = next; }
  bool empty() const { return in_.empty(); }

 private:
  std::string in_;
  size_t taken_ = 0;
  std::string* out_ = nullptr;
  TlsWire* next_ = nullptr;  // after the handshake
};

// ---- Callbacks ------------------------------------------------------------------------------------

std::string_view ProtocolOf(WireMode mode) {
  switch (mode) {
    case WireMode::kPrivacy: return "stria-privacy/1";
    case WireMode::kIntegrity: return "stria-integrity/1";
    case WireMode::kAuth: return "stria-auth/1";
  }
  return "";
}

void TlsCallbacks::SetSession(SSL* ssl, TlsSession* session) { CHECK(SSL_set_app_data(ssl, session) == 1); }

int TlsCallbacks::Verify(X509_STORE_CTX* ctx, void*) {
  auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx()));
  return static_cast<TlsSession*>(SSL_get_app_data(ssl))->Verify(ctx);
}

int TlsCallbacks::Hello(SSL* ssl, int* alert, void*) {
  const unsigned char* data = nullptr;
  size_t size = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &data, &size) == 1) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  static_cast<TlsSession*>(SSL_get_app_data(ssl))->refusal_ = "it does not speak Stria's protocol";
  return SSL_CLIENT_HELLO_ERROR;
}

int TlsCallbacks::Choose(SSL* ssl, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size, void*) {
  auto* session = static_cast<TlsSession*>(SSL_get_app_data(ssl));
  const TlsSettings& settings = session->context_->settings();
  // The client's order counts: it knows what it wants, the server says what it takes.
  for (unsigned at = 0; at < in_size && in[at] < in_size - at; at += 1u + in[at]) {
    const std::string_view offered(reinterpret_cast<const char*>(in) + at + 1, in[at]);
    const bool joins = settings.joins && offered == kJoinProtocol;
    const bool taken = joins || std::any_of(settings.modes.begin(), settings.modes.end(), [&](WireMode m) { return ProtocolOf(m) == offered; });
    if (!taken) continue;
    if (joins) {
      session->joining_ = true;
      SSL_set_verify(ssl, SSL_VERIFY_NONE, nullptr);
    }
    *out = in + at + 1;
    *out_size = in[at];
    return SSL_TLSEXT_ERR_OK;
  }
  session->refusal_ = "it offers no mode that is taken here";
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

int TlsSession::Verify(X509_STORE_CTX* ctx) {
  X509_VERIFY_PARAM* const param = X509_STORE_CTX_get0_param(ctx);
  X509_VERIFY_PARAM_set_time(param, context_->settings().now_s());
  X509_VERIFY_PARAM_set_depth(param, 0);  // nothing between the authority and the peer
  STACK_OF(X509)* pinned = nullptr;
  if (context_->pinned()) {
    pinned = sk_X509_new_null();
    STACK_OF(X509)* const sent = X509_STORE_CTX_get0_untrusted(ctx);
    for (int i = 0; i < sk_X509_num(sent); ++i) {
      X509* const one = sk_X509_value(sent, i);
      if (Certificate::Of(one).hash() == *context_->pinned()) sk_X509_push(pinned, one);
    }
    X509_STORE_CTX_set0_trusted_stack(ctx, pinned);
  }
  int good = X509_verify_cert(ctx);
  if (good == 1) {
    good = Judge(ctx);
  } else if (X509* const leaf = X509_STORE_CTX_get0_cert(ctx)) {
    const Result<Identity> says = Certificate::Of(leaf).identity();
    refusal_ = std::string(pinned ? "it does not have the authority that the join command names" : VerifyText(X509_STORE_CTX_get_error(ctx)));
    if (says.ok()) refusal_ += " (it says that it is " + FormatIdentity(*says) + ")";
  }
  if (pinned) {
    X509_STORE_CTX_set0_trusted_stack(ctx, nullptr);
    sk_X509_free(pinned);
  }
  return good;
}

// Of one whose certificate is the authority's.
int TlsSession::Judge(X509_STORE_CTX* ctx) {
  const auto refuse = [&](int error, std::string why) {
    refusal_ = std::move(why);
    X509_STORE_CTX_set_error(ctx, error);
    return 0;
  };
  const STACK_OF(X509)* const chain = X509_STORE_CTX_get0_chain(ctx);
  if (sk_X509_num(chain) != 2) return refuse(X509_V_ERR_CERT_REJECTED, "its certificate is an authority's own");
  const Certificate leaf = Certificate::Of(sk_X509_value(chain, 0)), authority = Certificate::Of(sk_X509_value(chain, 1));
  const Result<Identity> id = leaf.identity();
  if (!id.ok()) return refuse(X509_V_ERR_CERT_REJECTED, id.error().message);
  const std::string who = std::string(RoleName(id->role)) + " " + id->name;
  const TlsSettings& settings = context_->settings();
  const std::optional<Uuid> cluster = settings.credentials ? settings.credentials->bundle.cluster() : authority.authority_of();
  if (id->cluster != cluster || authority.authority_of() != cluster) {
    return refuse(X509_V_ERR_APPLICATION_VERIFICATION, who + " is of another cluster, " + id->cluster.ToString());
  }
  if (settings.credentials && settings.credentials->revoked.Has(leaf.serial())) {
    return refuse(X509_V_ERR_CERT_REVOKED, "the certificate of " + who + " is revoked");
  }
  const RoleSet roles = expected_ ? expected_->roles : settings.peers;
  if (!roles.Has(id->role)) {
    return refuse(X509_V_ERR_INVALID_PURPOSE, who + " has another role than those that belong here (" + roles.ToString() + ")");
  }
  if (expected_ && !expected_->name.empty() && expected_->name != id->name) {
    return refuse(X509_V_ERR_HOSTNAME_MISMATCH, who + " is there instead of " + expected_->name);
  }
  peer_ = Peer{id->role, id->name, address_, leaf.key_hash(), authority.hash(), leaf.serial(), leaf.not_after_s()};
  return 1;
}

// ---- Handshake ------------------------------------------------------------------------------------

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, std::string address, std::optional<ExpectedPeer> expected)
    : context_(std::move(context)), address_(std::move(address)), expected_(std::move(expected)),
      memory_(std::make_unique<MemoryWire>()), wire_(memory_.get()), ssl_(SSL_new(context_->get())) {
  CHECK(ssl_ != nullptr, TakeSslReason());
  BIO* const bio = NewWireBio(&wire_);
  SSL_set_bio(ssl_, bio, bio);
  TlsCallbacks::SetSession(ssl_, this);
  if (context_->side() == TlsContext::Side::kServer) {
    SSL_set_accept_state(ssl_);
  } else {
    SSL_set_connect_state(ssl_);
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

std::string TlsSession::Other() const {
  return std::string(context_->side() == TlsContext::Side::kServer ? "the peer at " : "the server at ") + Printable(address_);
}

Error TlsSession::Broken(const std::string& why) const {
  return Error(FsError::kUnavailable, "the connection to " + Printable(address_) + " broke: " + why);
}

TlsSession::Step TlsSession::Handshake(std::string_view in, std::string* out) {
  CHECK(!done_);
  if (!error_.ok()) return Step::kFailed;
  memory_->Come(in);
  memory_->SetOut(out);
  ERR_clear_error();
  bool going = true;
  if (!shaken_) {
    const int r = SSL_do_handshake(ssl_);
    if (r == 1) {
      shaken_ = true;
      going = Finish();
    } else if (SSL_get_error(ssl_, r) == SSL_ERROR_WANT_READ) {
      going = false;
    } else {
      Fail();
      going = false;
    }
  }
  if (going) done_ = context_->side() == TlsContext::Side::kServer || Greeted();
  if (done_ && mode_ != WireMode::kPrivacy && HasBuffered()) {
    done_ = false;
    error_ = Error(FsError::kAccess, Other() + " was refused: it sent frames before they were asked for");
  }
  memory_->SetOut(nullptr);
  ERR_clear_error();
  if (!error_.ok()) return Step::kFailed;
  return done_ ? Step::kDone : Step::kMore;
}

// What the handshake has agreed on. False if that is nothing we know.
bool TlsSession::Finish() {
  const unsigned char* data = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &data, &size);
  const std::string_view chosen(reinterpret_cast<const char*>(data), size);
  bool known = false;
  if (joining_ || context_->pinned()) {
    known = chosen == kJoinProtocol;
    joining_ = true;
  } else {
    for (const WireMode m : context_->settings().modes) {
      if (ProtocolOf(m) != chosen) continue;
      mode_ = m;
      known = true;
    }
  }
  if (!known || SSL_version(ssl_) != TLS1_3_VERSION) {
    error_ = Error(FsError::kAccess, Other() + " was refused: it chose a protocol that was not offered");
    return false;
  }
  if (context_->side() == TlsContext::Side::kServer) {
    size_t n = 0;
    CHECK(SSL_write_ex(ssl_, kGreeting.data(), kGreeting.size(), &n) == 1 && n == kGreeting.size(), "memory takes all");
  }
  return true;
}

// A client's: true when the server has let us in.
bool TlsSession::Greeted() {
  char greeting[kGreeting.size()];
  size_t n = 0;
  // It is one record, which is there as a whole or not at all.
  if (SSL_read_ex(ssl_, greeting, sizeof greeting, &n) != 1) {
    const int why = SSL_get_error(ssl_, 0);
    if (why != SSL_ERROR_WANT_READ) Fail();
    return false;
  }
  if (std::string_view(greeting, n) == kGreeting) return true;
  error_ = Error(FsError::kAccess, Other() + " was refused: it does not greet as a server of Stria does");
  return false;
}

void TlsSession::Fail() {
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  ERR_clear_error();
  if (!refusal_.empty()) {
    error_ = Error(FsError::kAccess, Other() + " was refused: " + refusal_);
  } else if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255) {
    error_ = Error(FsError::kAccess, Other() + " refuses us: " + AlertText(reason - SSL_AD_REASON_OFFSET));
  } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    error_ = Error(FsError::kAccess, Other() + " was refused: it shows no certificate (stria join gets one)");
  } else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_NO_SHARED_CIPHER) {
    error_ = Error(FsError::kAccess, Other() + " was refused: it does not speak TLS 1.3");
  } else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    error_ = Error(FsError::kUnavailable, Other() + " does not speak TLS: it is not of Stria, or was started with --insecure");
  } else {
    const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
    error_ = Error(FsError::kUnavailable, "the handshake with " + Other() + " failed: " + (text ? text : "it was closed"));
  }
}

// ---- After it -------------------------------------------------------------------------------------

FrameKey TlsSession::ExportKey(bool from_client) const {
  CHECK(done_ && mode_ != WireMode::kPrivacy);
  const unsigned char context[2] = {static_cast<unsigned char>(mode_), static_cast<unsigned char>(from_client ? 1 : 0)};
  unsigned char bytes[28];
  CHECK(SSL_export_keying_material(ssl_, bytes, sizeof bytes, kFrameLabel, sizeof kFrameLabel - 1, context, sizeof context, 1) == 1);
  FrameKey key;
  memcpy(key.key.data(), bytes, key.key.size());
  memcpy(key.salt.data(), bytes + key.key.size(), key.salt.size());
  OPENSSL_cleanse(bytes, sizeof bytes);
  return key;
}
FrameKey TlsSession::SendKey() const { return ExportKey(context_->side() == TlsContext::Side::kClient); }
FrameKey TlsSession::ReceiveKey() const { return ExportKey(context_->side() == TlsContext::Side::kServer); }

std::string TlsSession::ChannelBinding() const {
  CHECK(done_);
  std::string out(kBindingBytes, '\0');
  CHECK(SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(out.data()), out.size(), kBindingLabel,
                                   sizeof kBindingLabel - 1, nullptr, 0, 0) == 1);
  return out;
}

void TlsSession::SetWire(TlsWire* wire) {
  CHECK(done_ && mode_ == WireMode::kPrivacy);
  memory_->SetNext(wire);
}

bool TlsSession::HasBuffered() const { return !memory_->empty() || SSL_has_pending(ssl_) == 1; }

Result<size_t> TlsSession::Read(uint8_t* to, size_t n) {
  ERR_clear_error();
  size_t got = 0;
  if (SSL_read_ex(ssl_, to, n, &got) == 1) return got;
  const int why = SSL_get_error(ssl_, 0);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return size_t{0};
  if (why == SSL_ERROR_ZERO_RETURN) return Broken("it was closed");
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
  ERR_clear_error();
  if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255) return Broken(AlertText(reason - SSL_AD_REASON_OFFSET));
  if (code == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) return Broken("it was closed");
  const char* text = ERR_reason_error_string(code);
  return Broken(text ? text : "it sent what is not TLS");
}

Result<size_t> TlsSession::Write(const uint8_t* from, size_t n) {
  ERR_clear_error();
  size_t taken = 0;
  if (SSL_write_ex(ssl_, from, n, &taken) != 1) {
    const int why = SSL_get_error(ssl_, 0);
    if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) return size_t{0};
    ERR_clear_error();
    return Broken("it takes no more");
  }
  records_ += (taken + kRecordBytes - 1) / kRecordBytes;
  if (records_ >= context_->settings().rekey_records && SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) records_ = 0;
  return taken;
}

}  // namespace stria
