// How a program proves itself and judges others while it runs: its credentials' files, the TLS contexts of its server and of its
// clients, and whom it expects at which address. One object per program; what it gives to transports may outlive it.
//
// The files are looked at every few seconds. What has changed counts for handshakes from then on, and OnChange is told, so that
// connections whose peers are not let in any more can be closed. The cluster's map brings the authorities that are believed and the
// serial numbers that are not; they count at once, and are kept in the files. The program's own certificate is renewed at two
// thirds of its life, or when another authority signs, over itself.
//
// Executor's thread, unless it says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "proto/bulk_transport.h"
#include "proto/transport.h"
#include "trust/credentials.h"
#include "trust/tls/tls_context.h"

namespace stria {

inline constexpr int64_t kTrustLookNs = 5 * kSecond;
inline constexpr int64_t kRenewAgainNs = 600 * kSecond;  // between two renewals by one authority, at most: a sixth of a certificate's life, if that is shorter
inline constexpr int64_t kAskAgainNs = 20 * kSecond;     // after one that nobody could be asked for
inline constexpr int64_t kJudgeAgainNs = 60 * kSecond;   // certificates end without any file changing

struct SecuredEndsOptions {
  RoleSet own;       // what this program may be
  RoleSet lets_in;   // those that its server lets in
  RoleSet talks_to;  // those that its clients believe, where nobody in particular is expected
  // Its server takes no less, and its clients would have this rather than more. Metadata servers take kPrivacy only.
  WireMode least = WireMode::kPrivacy;
  bool joins = false;                       // its server also takes who has no certificate yet
  std::vector<std::string> meta_addresses;  // a metadata server is expected there
  RoleSet elsewhere;                        // whom to expect where neither these nor the map tell
  int64_t overlap_s = 0;                    // it goes on with a certificate of the former authority for so long while that is changed
  std::function<int64_t()> now_s;           // any thread; empty: the wall clock
};

class SecuredEnds {
 public:
  // Gives the answer's certificate (PEM) for a request (DER).
  using Renew = std::function<Task<Result<std::string>>(std::string request)>;

  // Reads the files; blocks. An error is a sentence with the file: what is there is not good, or of a role that does not belong here.
  static Result<std::unique_ptr<SecuredEnds>> Open(const std::string& directory, SecuredEndsOptions options);
  // What Keep and Refresh run has been destroyed before.
  ~SecuredEnds();
  SecuredEnds(const SecuredEnds&) = delete;
  SecuredEnds& operator=(const SecuredEnds&) = delete;

  // ---- Any thread ----
  std::shared_ptr<const CurrentTls> server_tls() const;
  std::shared_ptr<const CurrentTls> client_tls() const;
  std::shared_ptr<const Credentials> credentials() const;
  Identity identity() const { return credentials()->identity; }
  const std::string& directory() const { return directory_; }
  int64_t NowS() const;
  // Whether that peer would be let in now.
  Result<void> StillGood(const Peer& peer) const;
  // Metadata servers are expected at these addresses, too; a metadata server has said so.
  void ExpectMetas(const std::vector<std::string>& addresses);
  // All of these addresses, none twice: those that the program was given first.
  std::vector<std::string> metas() const;
  // Who is to be at an address.
  ExpectedPeer Expected(const std::string& address) const;

  // ---- For transports that are made now ----
  void Secure(BulkClientOptions* options) const;
  void Secure(BulkServerOptions* options) const;  // refused handshakes are logged
  // Makes what `inner`, which outlives it, makes, and takes the map first: who is at an address that the map tells is expected there.
  std::unique_ptr<TransportFactory> Over(TransportFactory* inner);

  // ---- What changes ----
  // Looks at the files every kTrustLookNs, and does what else is due. Until it is destroyed. `pool` does what blocks.
  Task<void> Keep(Pool* pool);
  Task<void> Refresh(Pool* pool);  // now
  // Gives the map of now; null if there is none yet. Keep asks for it.
  void Follow(std::function<std::shared_ptr<const ClusterMap>()> map) { map_ = std::move(map); }
  void TakeMap(const ClusterMap& map);
  // The authorities to believe (PEM) and the serial numbers not to. "" changes nothing: the cluster says nothing of them. What would
  // leave this program without an authority for its own certificate waits until that is renewed; revoked numbers do not.
  void TakeTrust(const std::string& bundle, const std::vector<std::string>& revoked);
  void RenewBy(Renew renew) { renew_ = std::move(renew); }
  // While that is so it goes on with a certificate of the former authority, whatever the overlap is.
  void KeepFormerWhile(std::function<bool()> keep) { keep_ = std::move(keep); }
  // Is told when others may be judged in another way than before. `told` lives as long as this.
  void OnChange(std::function<void()> told) { told_.push_back(std::move(told)); }

 private:
  struct Shared;
  class KnowingFactory;
  struct Wanted {
    Bundle bundle;
    Revoked revoked;
    std::string bundle_pem, revoked_text;  // of both, to be compared
  };
  SecuredEnds(std::string directory, SecuredEndsOptions options, std::shared_ptr<CredentialFiles> files,
              std::shared_ptr<const Credentials> read);
  void AskForMap();
  std::shared_ptr<const Credentials> Effective() const;
  void Adopt();
  Task<void> StoreWanted(Pool* pool);
  bool IsDue() const;
  Task<void> RenewIfDue(Pool* pool);
  Task<Result<void>> RenewNow(Pool* pool);

  const std::string directory_;
  const SecuredEndsOptions options_;
  const std::shared_ptr<CredentialFiles> files_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<const Credentials> read_;  // what the files say
  std::optional<Wanted> wanted_;             // what the map says
  bool stale_ = false;                       // read_ or wanted_ is newer than what counts
  bool told_store_failed_ = false;
  struct Asked {
    int64_t ns;
    Sha256Hash signs;  // the authority that was to sign
  };
  std::optional<Asked> asked_;               // the last renewal
  int64_t judged_ns_ = INT64_MIN;
  std::function<std::shared_ptr<const ClusterMap>()> map_;
  std::shared_ptr<const ClusterMap> taken_;
  Renew renew_;
  std::function<bool()> keep_ = [] { return false; };
  std::vector<std::function<void()>> told_;
};

}  // namespace stria
