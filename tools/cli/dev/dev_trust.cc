#include "tools/cli/dev/dev_trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "tools/cli/dev/ports.h"
#include "trust/credentials.h"
#include "trust/join_token.h"

namespace stria::cli {
namespace {

constexpr uintmax_t kMaxClusterFileBytes = 1 << 20;

Result<void> MakePrivateDir(const std::string& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  if (chmod(dir.c_str(), 0700) != 0) return ErrnoError(errno, "protect the directory " + dir);
  return {};
}

constexpr size_t kJoinAtOnce = 4;
constexpr int64_t kTokenTtlS = 600;  // it is used at once

struct Joiner {
  std::string name, dir;
  std::vector<std::string> metas;
  JoinToken token;  // without an address
};

// A token for that member.
Result<Joiner> Invite(const DevCluster& c, const DevProcess& p, const DevJoining& how) {
  Joiner j{p.name, c.TrustOf(p), {}, {}};
  j.metas = c.MetaAddresses();
  j.token.secret = NewJoinSecret();
  const JoinVerifier verifier = VerifierOf(j.token.secret);
  MakeTokenRequest r;
  r.verifier.assign(verifier.begin(), verifier.end());
  r.role = p.kind == DevProcess::Kind::kNode ? Role::kData : Role::kClient;
  r.name = p.name;
  r.ttl_s = kTokenTtlS;
  const Result<MakeTokenReply> made = how.make_token(std::move(r));
  if (!made.ok()) {
    return made.error().WithContext(p.name + " has no certificate yet, and only a metadata server that runs (stria dev start meta, or stria dev up) gives it one");
  }
  const std::optional<Sha256Hash> authority = ParseSha256(made->authority);
  if (!authority) return Error(FsError::kBadRequest, "the server's answer has no hash of its authority");
  j.token.authority = *authority;
  return j;
}

// With another key than before: that of a certificate that was revoked gets no other. Of several metadata servers the primary lets in;
// the others use up nothing of the token.
Result<Credentials> AskEach(const Joiner& j, const DevJoining& how) {
  const PrivateKey key = PrivateKey::Make();
  Result<Credentials> own = Error(FsError::kNoEnt, "there is no metadata server");
  for (const std::string& meta : j.metas) {
    JoinToken token = j.token;
    token.host = meta.substr(0, meta.rfind(':'));
    token.port = static_cast<uint16_t>(PortOf(meta));
    own = RequestToJoin(how.ask, token, key, j.name, how.timeout_ns);
    if (own.ok()) break;
  }
  return own;
}

Result<void> Join(const Joiner& j, const DevJoining& how) {
  ASSIGN_OR_RETURN(const Credentials own, AskEach(j, how));
  RETURN_IF_ERROR(MakePrivateDir(j.dir));
  RETURN_IF_ERROR(CredentialFiles::SaveBundle(j.dir, own.bundle));
  return CredentialFiles::SaveNode(j.dir, own.key, own.certificate);
}

}  // namespace

Result<bool> HasToJoin(const DevCluster& c, const DevProcess& p, int64_t now_s) {
  const std::string dir = c.TrustOf(p);
  const Result<std::shared_ptr<const Credentials>> there = CredentialFiles(dir).Load();
  if (there.ok()) return now_s > (*there)->certificate.not_after_s();
  if (there.code() == FsError::kNoEnt) return true;
  return there.error().WithContext("the certificate of " + p.name + " is not used; if nobody needs it any more, remove " + dir);
}

Result<void> JoinDevMembers(const DevCluster& c, const std::vector<const DevProcess*>& members, const DevJoining& how) {
  std::vector<Joiner> joiners;
  for (const DevProcess* p : members) {
    ASSIGN_OR_RETURN(Joiner j, Invite(c, *p, how));
    joiners.push_back(std::move(j));
  }
  // Each waits for the network and for two disks, so several go at once; a server lets a few of one machine wait at its door.
  std::vector<Result<void>> done(joiners.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < std::min(kJoinAtOnce, joiners.size()); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < joiners.size(); i = next++) done[i] = Join(joiners[i], how);
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < joiners.size(); ++i) {
    if (!done[i].ok()) return done[i].error().WithContext(joiners[i].name + " cannot join its cluster");
  }
  return Ok();
}

bool HasDevAdmin(const DevCluster& c) { return access((c.AdminTrust() + "/node.pem").c_str(), F_OK) == 0; }

std::string DevTrustNear(const std::string& place, const std::vector<std::string>& addresses) {
  if (!place.starts_with('/')) return "";
  for (std::filesystem::path at = place;; at = at.parent_path()) {
    const std::string file = (at / "cluster.json").string();
    struct stat st;
    // Not one that somebody else has put above this user's files.
    if (lstat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
        static_cast<uintmax_t>(st.st_size) <= kMaxClusterFileBytes) {
      std::ostringstream text;
      text << std::ifstream(file, std::ios::binary).rdbuf();
      Result<DevCluster> c = DecodeDevCluster(text.str(), file);
      const auto is_asked = [&](const std::string& meta) { return std::count(addresses.begin(), addresses.end(), meta) > 0; };
      if (c.ok() && c->secured && std::ranges::any_of(c->MetaAddresses(), is_asked)) {
        c->dir = at.string();  // it may have been moved
        return c->AdminTrust();
      }
    }
    if (at == at.parent_path()) return "";
  }
}

}  // namespace stria::cli
