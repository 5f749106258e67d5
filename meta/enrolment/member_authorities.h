// What the other metadata servers have of the cluster's authority, as each of them says of itself to the one that serves: who has the key
// of it durably, believes it, and proves itself by it. Not durable: all of them say it again to whoever serves next.
//
// Pure, but for the list of members, which it is given. Executor's thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "trust/identity.h"

namespace stria {

// One of the other metadata servers, as the register has it.
struct ListedMember {
  std::string name;
  Uuid store;  // of its directory
  bool in_sync = false;
};
using ListedMembers = std::function<std::vector<ListedMember>()>;

class MemberAuthorities {
 public:
  explicit MemberAuthorities(ListedMembers others) : others_(std::move(others)) {}

  // Authorities by the SHA-256 of their certificates, in hex.
  struct Said {
    std::vector<std::string> holds, believes;
    std::string signed_by;
    Sha256Hash key{};                 // by which it has proved itself
    std::vector<std::string> serials;  // of the certificates in its directory
  };
  // A denial: none of the others is called so, with that directory.
  Result<void> Note(const std::string& name, const Uuid& store, Said said);

  // How far a member is with an authority. Each includes those before.
  enum class Far : uint8_t {
    kHolds,     // the key is durable in its directory
    kBelieves,  // so is the certificate, among those that it believes
    kProves,    // its own certificate is of it
    kOnly,      // and it holds no other
  };
  struct Lack {
    std::string name;
    std::string why;  // "has not got it"
    bool in_sync = false;
  };
  // Those of the others that are not so far.
  std::vector<Lack> Lacking(const std::string& authority, Far far) const;
  // The same of those that are in sync.
  bool InSyncAre(const std::string& authority, Far far) const;

  // Whether that certificate may be one by which one of the others proves itself; then a sentence says which, or why it cannot be told.
  std::string WhoMayUse(const Sha256Hash& key, std::string_view name) const;
  // One of the others proves itself by that key. kRetryLater: one has not been heard yet, and it may be that one's. A denial: none does.
  Result<void> CheckListed(const Sha256Hash& key) const;
  // Whether the member that has proved itself by that key has that certificate in its directory.
  bool Has(const Sha256Hash& key, const std::string& serial) const;

 private:
  struct Heard {
    Uuid store;
    Said said;
  };
  const Said* SaidBy(const ListedMember& member) const;  // null: nothing yet

  const ListedMembers others_;
  std::map<std::string, Heard> heard_;  // of those that are listed
};

// "pc2 has not got it, pc3 has not been heard".
std::string TextOf(const std::vector<MemberAuthorities::Lack>& lacking);

}  // namespace stria
