// What a program has to prove itself with, and by which it judges others: its key and certificate, the bundle, the revoked.
//
// In a directory (0700):
//   node.pem   0600  key and certificate in one file: there is no moment at which one is new and the other old
//   ca.pem     0644  the bundle
//   revoked    0644  serial numbers; may be missing
// They change by being replaced, and are read again by those that run: CredentialFiles::Refresh, every few seconds.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "trust/authority.h"
#include "trust/files.h"

namespace stria {

// Immutable; any thread.
struct Credentials {
  PrivateKey key;
  Certificate certificate;
  Identity identity;
  Bundle bundle;
  Revoked revoked;

  // Refuses a key that is not the certificate's, a certificate that no authority of the bundle has signed, and one of another
  // cluster. Not one that is over: whoever has it asks for another with it.
  static Result<Credentials> Of(PrivateKey key, Certificate certificate, Bundle bundle, Revoked revoked);

  // Of a peer that a handshake let in some time ago: the reason why it would not be let in now, if there is one. Who has
  // connections asks when the credentials have changed, and now and then for the time.
  Result<void> StillGood(const Peer& peer, int64_t now_s) const;
  // Who shows this certificate over another TLS than ours, which has seen to it that the key is there (gRPC). Refused as in a
  // handshake of ours: another cluster or authority, over or not begun, revoked, a role that is not in `roles`. kAccess with a sentence.
  Result<Peer> Judge(const Certificate& shown, const std::string& address, RoleSet roles, int64_t now_s) const;
};

class CredentialFiles {
 public:
  explicit CredentialFiles(std::string directory) : directory_(std::move(directory)) {}

  // The first time: what is there, or why not.
  Result<std::shared_ptr<const Credentials>> Load();
  // What was loaded last if the files are as they were; else what is there now. An error leaves the last as it is, and is told once
  // for each state of the files.
  Result<std::shared_ptr<const Credentials>> Refresh();

  // Key and certificate of this program, at once.
  static Result<void> SaveNode(const std::string& directory, const PrivateKey& key, const Certificate& certificate);
  static Result<void> SaveBundle(const std::string& directory, const Bundle& bundle);
  static Result<void> SaveRevoked(const std::string& directory, const Revoked& revoked);

 private:
  struct Stamps {
    FileStamp node, bundle, revoked;
    bool operator==(const Stamps&) const = default;
  };
  Stamps Look() const;
  Result<Credentials> Read() const;

  const std::string directory_;
  std::mutex mu_;
  Stamps stamps_;                           // guarded by mu_: when `last_` was read, or refused
  std::shared_ptr<const Credentials> last_;  // guarded by mu_
};

}  // namespace stria
