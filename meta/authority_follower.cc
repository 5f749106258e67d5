#include "meta/authority_follower.h"

#include "meta/trust_dir.h"
#include "meta/trust_start.h"
#include "trust/files.h"

namespace stria {
namespace {

constexpr char kBundleFile[] = "/ca.pem";

struct Files {
  std::shared_ptr<const Authority> authority, next;  // next: null if there is none, or it is the same
};

Result<Files> ReadFiles(const std::string& directory) {
  Files f;
  ASSIGN_OR_RETURN(f.authority, LoadAuthority(directory));
  ASSIGN_OR_RETURN(f.next, LoadNextAuthority(directory));
  if (f.next && f.next->certificate() == f.authority->certificate()) f.next.reset();
  return f;
}

std::string NameOf(const Certificate& c) { return HexOf(c.hash()); }

Result<FollowAuthorityRequest> Describe(const std::string& directory, const Credentials& own, bool offer) {
  ASSIGN_OR_RETURN(const Files files, ReadFiles(directory));
  FollowAuthorityRequest r;
  r.holds.push_back(NameOf(files.authority->certificate()));
  if (files.next) r.holds.push_back(NameOf(files.next->certificate()));
  if (offer && files.next) r.offer = files.next->ToPem();
  // As the file says, which the next start reads.
  ASSIGN_OR_RETURN(const std::string pem, ReadPublicFile(directory + kBundleFile));
  ASSIGN_OR_RETURN(const Bundle believed, Bundle::FromPem(pem));
  for (const Certificate& a : believed.all()) {
    r.believes.push_back(NameOf(a));
    if (SignedBy(own.certificate, a)) r.signed_by = NameOf(a);
  }
  for (const Certificate& c : OwnCertificates(own, directory)) r.given.push_back(c.ToPem());
  return r;
}

Error NotTaken(const std::string& why) {
  return Error(FsError::kBadRequest, "the authority that the primary of the metadata servers gives is not taken: " + why);
}

// What is to be there, good for this directory; nothing: it is there.
Result<Files> Choose(const Files& here, const FollowAuthorityReply& reply) {
  Files out;
  ASSIGN_OR_RETURN(Authority authority, Authority::FromPem(reply.authority));
  if (authority.cluster() != here.authority->cluster()) return NotTaken("it is of cluster " + authority.cluster().ToString());
  if (authority.certificate().not_before_s() < here.authority->certificate().not_before_s()) {
    return NotTaken("it was made before the one that is here, which the primary has lost; 'stria meta promote' this one, or copy authority.pem from here to it");
  }
  if (!reply.next.empty()) {
    ASSIGN_OR_RETURN(Authority next, Authority::FromPem(reply.next));
    if (next.cluster() != authority.cluster()) return NotTaken("that of the change is of cluster " + next.cluster().ToString());
    if (next.certificate() == authority.certificate()) return NotTaken("that of the change is the same");
    out.next = std::make_shared<const Authority>(std::move(next));
  }
  const bool same = authority.certificate() == here.authority->certificate();
  if (same && here.next && !out.next) return NotTaken("the one of a change that is here would be lost");
  out.authority = std::make_shared<const Authority>(std::move(authority));
  return out;
}

}  // namespace

Task<Result<FollowAuthorityRequest>> AuthorityFollower::Ask() {
  const std::shared_ptr<const Credentials> own = own_();
  co_return co_await RunOn(*pool_, [directory = directory_, own, offer = wants_] { return Describe(directory, *own, offer); });
}

Task<Result<bool>> AuthorityFollower::Take(FollowAuthorityReply reply) {
  wants_ = reply.wants;
  keep_ = reply.keep;
  bundle_ = std::move(reply.bundle);
  if (reply.authority.empty()) co_return false;
  CO_ASSIGN_OR_RETURN(const Files here, co_await RunOn(*pool_, [directory = directory_] { return ReadFiles(directory); }));
  CO_ASSIGN_OR_RETURN(const Files there, Choose(here, reply));
  const bool same = there.authority->certificate() == here.authority->certificate();
  // First the authority, then what comes after it: at any moment the files are some state of the primary's, or one that it goes on from.
  if (!same || !there.next) CO_RETURN_IF_ERROR(co_await files_.StoreOnly(there.authority));
  if (there.next) CO_RETURN_IF_ERROR(co_await files_.StoreNext(there.next));
  co_return true;
}

}  // namespace stria
