#include "proto/secured_ends.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/log.h"
#include "trust/renewal.h"

namespace stria {
namespace {

int64_t WallclockS() { return static_cast<int64_t>(time(nullptr)); }

// Of clients: `least` first, then what protects more, for servers that want that.
std::vector<WireMode> FromLeast(WireMode least) {
  std::vector<WireMode> modes = ModesFrom(least);
  std::reverse(modes.begin(), modes.end());
  return modes;
}

std::shared_ptr<const TlsContext> ServerContext(std::shared_ptr<const Credentials> credentials, const SecuredEndsOptions& options) {
  TlsSettings s;
  s.credentials = std::move(credentials);
  s.now_s = options.now_s;
  s.peers = options.lets_in;
  s.modes = ModesFrom(options.least);
  s.joins = options.joins;
  return TlsContext::Make(TlsContext::Side::kServer, std::move(s));
}

std::shared_ptr<const TlsContext> ClientContext(std::shared_ptr<const Credentials> credentials, const SecuredEndsOptions& options) {
  TlsSettings s;
  s.credentials = std::move(credentials);
  s.now_s = options.now_s;
  s.peers = options.talks_to;
  s.modes = FromLeast(options.least);
  return TlsContext::Make(TlsContext::Side::kClient, std::move(s));
}

int64_t RenewAgainNs(const Certificate& c) {
  const int64_t life_s = std::max<int64_t>(0, c.not_after_s() - c.not_before_s() - kBackdatedS);
  return std::min(kRenewAgainNs, life_s * kSecond / 6);
}

// Nobody could be asked just now. Who has said no is not asked again so soon.
bool IsAway(FsError code) {
  return code == FsError::kUnavailable || code == FsError::kDeadline || code == FsError::kNotLeader || code == FsError::kNotReady ||
         code == FsError::kRetryLater;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& l : lines) out += l + "\n";
  return out;
}

}  // namespace

// What other threads ask, also when the object itself is gone.
struct SecuredEnds::Shared {
  Shared(const SecuredEndsOptions& options, std::shared_ptr<const Credentials> read)
      : server(std::make_shared<CurrentTls>(ServerContext(read, options))),
        client(std::make_shared<CurrentTls>(ClientContext(read, options))),
        metas(options.meta_addresses.begin(), options.meta_addresses.end()),
        elsewhere(options.elsewhere),
        now_s(options.now_s),
        credentials(std::move(read)) {}

  ExpectedPeer Expected(const std::string& address) const {
    if (metas.contains(address)) return {{Role::kMeta}, ""};
    std::lock_guard<std::mutex> lock(mu);
    if (more_metas.contains(address)) return {{Role::kMeta}, ""};
    const auto node = nodes.find(address);
    if (node != nodes.end()) return {{Role::kData}, node->second};
    return {elsewhere, ""};
  }
  Result<void> StillGood(const Peer& peer) const {
    std::shared_ptr<const Credentials> now;
    {
      std::lock_guard<std::mutex> lock(mu);
      now = credentials;
    }
    return now->StillGood(peer, now_s());
  }

  const std::shared_ptr<CurrentTls> server, client;
  const std::set<std::string> metas;
  const RoleSet elsewhere;
  const std::function<int64_t()> now_s;
  mutable std::mutex mu;
  std::shared_ptr<const Credentials> credentials;  // guarded by mu
  std::set<std::string> more_metas;                // guarded by mu
  std::map<std::string, std::string> nodes;        // guarded by mu: name by address, as the map tells
};

// Its makers ask for the map first: an address comes from the map of now.
class SecuredEnds::KnowingFactory final : public TransportFactory {
 public:
  KnowingFactory(SecuredEnds* ends, TransportFactory* inner) : ends_(ends), inner_(inner) {}
  std::shared_ptr<Transport> Make(const std::string& address) override {
    ends_->AskForMap();
    return inner_->Make(address);
  }

 private:
  SecuredEnds* const ends_;
  TransportFactory* const inner_;
};

Result<std::unique_ptr<SecuredEnds>> SecuredEnds::Open(const std::string& directory, SecuredEndsOptions options) {
  if (!options.now_s) options.now_s = WallclockS;
  auto files = std::make_shared<CredentialFiles>(directory);
  ASSIGN_OR_RETURN(std::shared_ptr<const Credentials> read, files->Load());
  if (!options.own.Has(read->identity.role)) {
    return Error(FsError::kAccess, "the certificate in " + directory + " is of the role " + std::string(RoleName(read->identity.role)) +
                                       ", and this program needs one of: " + options.own.ToString() + "; name its directory with --trust");
  }
  return std::unique_ptr<SecuredEnds>(new SecuredEnds(directory, std::move(options), std::move(files), std::move(read)));
}

SecuredEnds::SecuredEnds(std::string directory, SecuredEndsOptions options, std::shared_ptr<CredentialFiles> files,
                         std::shared_ptr<const Credentials> read)
    : directory_(std::move(directory)), options_(std::move(options)), files_(std::move(files)),
      shared_(std::make_shared<Shared>(options_, read)), read_(std::move(read)) {}

SecuredEnds::~SecuredEnds() = default;

std::shared_ptr<const CurrentTls> SecuredEnds::server_tls() const { return shared_->server; }
std::shared_ptr<const CurrentTls> SecuredEnds::client_tls() const { return shared_->client; }
std::shared_ptr<const Credentials> SecuredEnds::credentials() const {
  std::lock_guard<std::mutex> lock(shared_->mu);
  return shared_->credentials;
}
int64_t SecuredEnds::NowS() const { return options_.now_s(); }
Result<void> SecuredEnds::StillGood(const Peer& peer) const { return shared_->StillGood(peer); }
void SecuredEnds::ExpectMetas(const std::vector<std::string>& addresses) {
  std::lock_guard<std::mutex> lock(shared_->mu);
  shared_->more_metas = std::set<std::string>(addresses.begin(), addresses.end());
}
std::vector<std::string> SecuredEnds::metas() const {
  std::vector<std::string> all = options_.meta_addresses;
  std::lock_guard<std::mutex> lock(shared_->mu);
  for (const std::string& a : shared_->more_metas) {
    if (std::find(all.begin(), all.end(), a) == all.end()) all.push_back(a);
  }
  return all;
}
ExpectedPeer SecuredEnds::Expected(const std::string& address) const { return shared_->Expected(address); }

void SecuredEnds::Secure(BulkClientOptions* options) const {
  options->tls = shared_->client;
  options->judge = [shared = shared_](const Peer& peer) { return shared->StillGood(peer); };
  options->expected = [shared = shared_](const std::string& address) { return std::optional<ExpectedPeer>(shared->Expected(address)); };
}

void SecuredEnds::Secure(BulkServerOptions* options) const {
  options->tls = shared_->server;
  options->judge = [this](const Peer& peer) { return StillGood(peer); };
  options->refused = [](const Error& why) { LogWarning("{}", why.message); };  // the log counts what comes again at each attempt
}

std::unique_ptr<TransportFactory> SecuredEnds::Over(TransportFactory* inner) { return std::make_unique<KnowingFactory>(this, inner); }

// ---- What changes ---------------------------------------------------------------------------------

void SecuredEnds::AskForMap() {
  if (!map_) return;
  std::shared_ptr<const ClusterMap> map = map_();
  if (!map || map == taken_) return;
  TakeMap(*map);
  taken_ = std::move(map);
}

namespace {

// For as long as there are maps without them.
template <class Map, class Take>
void TakeTrustOf(const Map& map, Take take) {
  if constexpr (requires { map.bundle, map.revoked; }) take(map.bundle, map.revoked);
}

}  // namespace

void SecuredEnds::TakeMap(const ClusterMap& map) {
  // One that is gone may have left its address to another.
  std::map<std::string, const NodeInfo*> best;
  for (const NodeInfo& n : map.nodes) {
    const NodeInfo*& there = best[n.address];
    if (there == nullptr || n.state < there->state) there = &n;
  }
  std::map<std::string, std::string> nodes;
  for (const auto& [address, node] : best) nodes[address] = node->name;
  {
    std::lock_guard<std::mutex> lock(shared_->mu);
    shared_->nodes = std::move(nodes);
  }
  TakeTrustOf(map, [this](const std::string& bundle, const std::vector<std::string>& revoked) { TakeTrust(bundle, revoked); });
}

void SecuredEnds::TakeTrust(const std::string& bundle, const std::vector<std::string>& revoked) {
  if (bundle.empty()) return;
  if (bundle.size() > kMaxPemBytes || revoked.size() > Revoked::kMax) {
    return LogWarning("what the map says of authorities or revoked certificates is too long, and is not used");
  }
  Result<Bundle> authorities = Bundle::FromPem(bundle);
  Result<Revoked> serials = Revoked::Parse(Joined(revoked));
  if (!authorities.ok()) return LogWarning("the authorities that the map tells are not used: {}", authorities.error());
  if (!serials.ok()) return LogWarning("the revoked certificates that the map tells are not used: {}", serials.error());
  if (authorities->cluster() != read_->identity.cluster) {
    return LogWarning("the authorities that the map tells are not used: they are of cluster {}", authorities->cluster());
  }
  Wanted wanted{std::move(*authorities), std::move(*serials), "", ""};
  wanted.bundle_pem = wanted.bundle.ToPem();
  wanted.revoked_text = wanted.revoked.Format();
  if (wanted_ && wanted_->bundle_pem == wanted.bundle_pem && wanted_->revoked_text == wanted.revoked_text) return;
  wanted_ = std::move(wanted);
  told_store_failed_ = false;
  stale_ = true;
  Adopt();
}

std::shared_ptr<const Credentials> SecuredEnds::Effective() const {
  if (!wanted_) return read_;
  Result<Credentials> both = Credentials::Of(read_->key, read_->certificate, wanted_->bundle, wanted_->revoked);
  if (both.ok()) return std::make_shared<const Credentials>(std::move(*both));
  LogWarning("the former authorities are believed until this program's certificate is renewed: {}", both.error());
  Result<Credentials> revoked = Credentials::Of(read_->key, read_->certificate, read_->bundle, wanted_->revoked);
  return revoked.ok() ? std::make_shared<const Credentials>(std::move(*revoked)) : read_;
}

void SecuredEnds::Adopt() {
  const int64_t now_ns = Executor::Current().NowNs();
  if (std::exchange(stale_, false)) {
    std::shared_ptr<const Credentials> now = Effective();
    shared_->server->Set(ServerContext(now, options_));
    shared_->client->Set(ClientContext(now, options_));
    {
      std::lock_guard<std::mutex> lock(shared_->mu);
      shared_->credentials = std::move(now);
    }
  } else if (now_ns - kJudgeAgainNs < judged_ns_) {
    return;
  }
  judged_ns_ = now_ns;
  for (const std::function<void()>& told : told_) told();
}

Task<void> SecuredEnds::Keep(Pool* pool) {
  while (true) {
    co_await Refresh(pool);
    co_await Sleep(kTrustLookNs);
  }
}

Task<void> SecuredEnds::Refresh(Pool* pool) {
  AskForMap();
  Result<std::shared_ptr<const Credentials>> read = co_await RunOn(*pool, [files = files_] { return files->Refresh(); });
  if (!read.ok()) {
    LogError("the credentials stay as they were: {}", read.error());
  } else if ((*read)->identity != read_->identity) {
    // Its name and role are what others know it by, and go with the program's settings.
    LogError("the credentials in {} are of another than this program started with, and are not used: restart it to be that", directory_);
  } else if (*read != read_) {
    if ((*read)->certificate.key_hash() != read_->certificate.key_hash()) {
      LogWarning("the key in {} is another: connections of before go on with the former one; restart this program to end that", directory_);
    }
    read_ = std::move(*read);
    stale_ = true;
    LogInfo("the credentials in {} have changed, and are used from now on", directory_);
  }
  co_await StoreWanted(pool);
  co_await RenewIfDue(pool);
  Adopt();
}

// So that the next start knows what this one was told.
Task<void> SecuredEnds::StoreWanted(Pool* pool) {
  if (!wanted_) co_return;
  const bool bundle = read_->bundle.ToPem() != wanted_->bundle_pem, revoked = read_->revoked.Format() != wanted_->revoked_text;
  if (!bundle && !revoked) co_return;
  const auto save = [directory = directory_, own = read_, wanted = *wanted_] {
    return StoreBelieved(directory, *own, wanted.bundle, wanted.revoked);
  };
  const Result<void> stored = co_await RunOn(*pool, save);
  if (stored.ok() || std::exchange(told_store_failed_, true)) co_return;
  LogWarning("authorities and revoked certificates of the map cannot be kept in {}, and count until the program ends: {}; let its user "
             "write there", directory_, stored.error());
}

// Of another authority that signs only the map tells.
bool SecuredEnds::IsDue() const {
  const Certificate& own = read_->certificate;
  if (!wanted_ || !renew_ || keep_()) return NowS() >= RenewAt(own);
  return RenewalIsDue(own, wanted_->bundle, NowS(), options_.overlap_s);
}

Task<void> SecuredEnds::RenewIfDue(Pool* pool) {
  const int64_t now_ns = Executor::Current().NowNs();
  const Certificate own = read_->certificate;
  if (!IsDue()) co_return;
  const Sha256Hash signs = (wanted_ ? wanted_->bundle : read_->bundle).all().back().hash();
  if (asked_ && asked_->signs == signs && now_ns < asked_->ns + RenewAgainNs(own)) co_return;
  asked_ = {now_ns, signs};
  const Result<void> renewed = co_await RenewNow(pool);
  if (renewed.ok()) co_return;
  if (IsAway(renewed.code())) asked_->ns = now_ns - RenewAgainNs(own) + std::min(kAskAgainNs, RenewAgainNs(own));
  const int64_t days = (own.not_after_s() - NowS()) / kDayS;
  LogWarning("the certificate in {} ends in {} days and was not renewed: {}", directory_, std::max<int64_t>(0, days), renewed.error());
}

Task<Result<void>> SecuredEnds::RenewNow(Pool* pool) {
  if (!renew_) co_return Error(FsError::kNotSupported, "this program does not renew it; make another");
  const std::shared_ptr<const Credentials> own = read_;
  // The same key: sessions and tokens are known by it.
  CO_ASSIGN_OR_RETURN(const std::string pem, co_await renew_(CertRequest::Make(own->key).ToDer()));
  // By an authority of the files, or by one that the map tells, which is in the files first. A former one goes with the next look.
  const Bundle believed = wanted_ ? wanted_->bundle : own->bundle;
  CO_ASSIGN_OR_RETURN(const Certificate certificate, AcceptRenewal(*own, believed, pem));
  CO_RETURN_IF_ERROR(co_await RunOn(*pool, [directory = directory_, believed, own, certificate] {
    return StoreRenewal(directory, *own, believed, certificate);
  }));
  CO_ASSIGN_OR_RETURN(read_, co_await RunOn(*pool, [files = files_] { return files->Refresh(); }));
  stale_ = true;
  LogInfo("the certificate in {} was renewed", directory_);
  co_return Ok();
}

}  // namespace stria
