// What stria-meta proves itself with and judges others by.
//
// Owns: where the authority's directory is, the ends of secured connections, the authority and its files, the cluster's keys, and the
// admin's directory that was made beside them, whose certificate it keeps.
//
// Executor's thread. Make, MakeOwn, Open, LoadKeys and TrustOfServer block for the length of reading a few files; for the start of the
// program, or of a server.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/token.h"
#include "meta/authority_follower.h"
#include "meta/enrolment/authority_files.h"
#include "meta/meta_config.h"
#include "meta/service/trust_rooms.h"
#include "proto/secured_ends.h"
#include "trust/enrolment.h"
#include "trust/place.h"

namespace stria {

class MetaProof {
 public:
  // `config` and `pool`, which does what blocks while it serves, outlive it. `keys`: those that a setting names; none: Open finds them.
  MetaProof(const MetaConfig* config, std::vector<ClusterKey> keys, Pool* pool)
      : config_(*config), pool_(pool), keys_(std::move(keys)) {}

  // Makes the authority of `*cluster`, or says whose is there. kInval: trust is off.
  Result<void> Make(Uuid* cluster);
  // Of one more metadata server of a cluster: its own certificate, by the authority that was copied into the directory. Gives the cluster.
  // kNoEnt: it was not, or not the secret beside it.
  Result<Uuid> MakeOwn();
  // With `cluster`: of a store that is there.
  Result<void> Open(const std::optional<Uuid>& cluster);
  // After Open. None given: the secret beside the authority, or the file of former days.
  Result<void> LoadKeys();
  void UseKeys(std::vector<ClusterKey> keys) { keys_ = std::move(keys); }

  bool secured() const { return ends_ != nullptr; }
  SecuredEnds* ends() const { return ends_.get(); }  // null: insecure
  const TrustPlace& place() const { return place_; }
  const std::vector<ClusterKey>& keys() const { return keys_; }

  // What a server is to know of certificates at its start, of each life. None: insecure.
  std::optional<MetaTrust> TrustOfServer();
  // One of several metadata servers follows the one that serves. Null: insecure. Not beyond this.
  std::unique_ptr<AuthorityFollower> MakeFollower();
  // As SecuredEnds has it; before Follow.
  void KeepFormerWhile(std::function<bool()> keep) { keep_former_ = std::move(keep); }
  // What the certificates' files need while it serves, in `scope`. `renew`: asks whoever signs now. `map`: the cluster's of now, or null.
  using RenewFn = std::function<Task<Result<RenewCertificateReply>>(Peer who, std::string request)>;
  using MapFn = std::function<std::shared_ptr<const ClusterMap>()>;
  void Follow(RenewFn renew, MapFn map, TaskScope* scope);

 private:
  Result<TrustPlace> Look();
  void Reread();
  Result<MemberSecrets> SecretsOfMember() const;
  Task<Result<std::string>> RenewAs(std::shared_ptr<const Credentials> own, std::string request);
  void KeepAdmin(const MapFn& map, TaskScope* scope);

  const MetaConfig& config_;
  Pool* const pool_;
  std::vector<ClusterKey> keys_;
  TrustPlace place_;
  std::unique_ptr<SecuredEnds> ends_;
  std::unique_ptr<SecuredEnds> admin_ends_;  // of the admin's directory; null: it is not here
  std::shared_ptr<const Authority> authority_, next_authority_;  // null: insecure, or none
  std::unique_ptr<AuthorityFiles> authority_files_;
  RenewFn renew_;
  std::function<bool()> keep_former_;
};

}  // namespace stria
