// Prints the table of who may ask for what (proto/covers.h) as JSON: an object for each method, with its full name, the roles that
// may call it in a session, and those that may without.
#include <cstdio>
#include <string>

#include "proto/admin_stubs.h"
#include "proto/backup_stubs.h"
#include "proto/covers.h"
#include "proto/replica_stubs.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"

namespace stria {
namespace {

std::string Roles(const RoleSet& set) {
  std::string out;
  for (const Role role : kAllRoles) {
    if (set.Has(role)) out += (out.empty() ? "\"" : ", \"") + std::string(RoleName(role)) + "\"";
  }
  return "[" + out + "]";
}

bool first = true;

void Print(const std::string& service, const std::string& method, const Cover& row) {
  std::printf("%s{\"service\": \"%s\", \"method\": \"/%s/%s\", \"in_session\": %s, \"alone\": %s}", first ? "[" : ",\n ", service.c_str(),
              service.c_str(), method.c_str(), Roles(row.in_session).c_str(), Roles(row.alone).c_str());
  first = false;
}

}  // namespace
}  // namespace stria

int main() {
  using namespace stria;
#define META(Name, Request, Reply) Print(kMetaServiceName, #Name, kCoverOf<&MetaService::Name>);
#define ADMIN(Name, Request, Reply) Print(kAdminServiceName, #Name, kCoverOf<&AdminService::Name>);
#define DATA(Name, Request, Reply) Print(kDataServiceName, #Name, kCoverOf<&DataService::Name>);
#define BACKUP(Name, Request, Reply) Print(kBackupServiceName, #Name, kCoverOf<&BackupService::Name>);
#define REPLICA(Name, Request, Reply) Print(kReplicaServiceName, #Name, kCoverOf<&ReplicaService::Name>);
#define BEAT(Name, Request, Reply) Print(kBeatServiceName, #Name, kCoverOf<&BeatService::Name>);
#define MEMBER(Name, Request, Reply) Print(kMemberServiceName, #Name, kCoverOf<&MemberService::Name>);
#define TRUST(Name, Request, Reply) Print(kTrustServiceName, #Name, kCoverOf<&TrustService::Name>);
  STRIA_META_METHODS(META)
  STRIA_ADMIN_METHODS(ADMIN)
  STRIA_DATA_METHODS(DATA)
  STRIA_BACKUP_METHODS(BACKUP)
  STRIA_REPLICA_METHODS(REPLICA)
  STRIA_BEAT_METHODS(BEAT)
  STRIA_MEMBER_METHODS(MEMBER)
  STRIA_TRUST_METHODS(TRUST)
  std::printf("]\n");
  return 0;
}
