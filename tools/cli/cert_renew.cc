// stria cert renew: another certificate for credentials that no daemon keeps, as those of admins and monitors on their own machines.
#include <memory>
#include <utility>

#include "common/printable.h"
#include "tools/cli/context.h"
#include "tools/cli/events.h"
#include "tools/cli/setup/machine.h"
#include "trust/place.h"
#include "trust/renewal.h"

namespace stria::cli {
namespace {

std::string Day(int64_t time_s) { return UtcTime(time_s * kSecond); }
std::string WhoIs(const Identity& who) { return std::string(RoleName(who.role)) + " " + who.name; }

// What it takes when the certificate helps no more.
std::string JoinAnew(const Identity& who, const std::string& dir) {
  return "let this machine join anew: on one with the rights of an admin  stria token make --role " + std::string(RoleName(who.role)) + " --name " + who.name +
         "  and here, with the token,  stria join - --again --trust " + dir;
}

// The directory that this command's connections have their credentials from.
Result<std::string> DirectoryOf(const Context& ctx) {
  const std::string said = ctx.CredentialsNear("", {});
  ASSIGN_OR_RETURN(const TrustPlace place, FindTrust(said.empty() ? kTrustDirectory : said, {Role::kAdmin, Role::kMonitor, Role::kClient}));
  switch (place.is) {
    case TrustIs::kThere: return place.directory;
    case TrustIs::kOff: return Error(FsError::kInval, "without credentials there is nothing to renew: name their directory with --trust");
    case TrustIs::kAbsent: break;
  }
  return Error(FsError::kNoEnt, "there are no credentials in " + place.directory + ": name their directory with --trust");
}

struct Believed {
  Bundle bundle;
  Revoked revoked;
};

// What the cluster says of authorities and of revoked certificates.
Result<Believed> AskWhatToBelieve(ClusterClient& client, const Identity& who) {
  ASSIGN_OR_RETURN(const ClusterMap map, client.Call<ClusterMap>("cluster map", [](MetaService& meta, OpHeader header) {
    InodeRequest r;
    r.header = std::move(header);
    return meta.GetMap(std::move(r));
  }));
  if (map.bundle.empty()) return Error(FsError::kNotSupported, "the cluster is insecure: it has no authority that could renew a certificate");
  ASSIGN_OR_RETURN(Bundle bundle, Bundle::FromPem(map.bundle));
  if (bundle.cluster() != who.cluster) {
    return Error(FsError::kWrongCluster, "the server is of cluster " + bundle.cluster().ToString() + ", and these credentials are of cluster " + who.cluster.ToString());
  }
  Revoked revoked;
  for (const std::string& serial : map.revoked) revoked.Add(serial);
  return Believed{std::move(bundle), std::move(revoked)};
}

struct Outcome {
  std::shared_ptr<const Credentials> now;
  bool renewed = false;
};

Result<Outcome> RenewIn(const Context& ctx, const std::string& dir, bool force) {
  CredentialFiles files(dir);
  std::unique_ptr<ClusterClient> client;
  Outcome out;
  {
    const AsOwnerOf owner(dir);
    ASSIGN_OR_RETURN(out.now, files.Load());
    // By this certificate and no other.
    Context here = ctx;
    here.trust = dir;
    ASSIGN_OR_RETURN(client, here.Connect());
  }
  const Identity who = out.now->identity;
  const int64_t now_s = WallclockNs() / kSecond;
  if (const int64_t end_s = out.now->certificate.not_after_s(); end_s < now_s) {
    return Error(FsError::kAccess, "the certificate of " + WhoIs(who) + " in " + dir + " has expired at " + Day(end_s) + ", and nothing is renewed by it: " + JoinAnew(who, dir));
  }
  for (const std::string& a : client->addresses()) {
    if (!a.starts_with("unix:")) continue;
    return Error(FsError::kInval, "over " + a + " nobody shows a certificate: name the metadata server by --meta HOST[:PORT]");
  }
  const Result<Believed> believed = AskWhatToBelieve(*client, who);
  if (believed.code() == FsError::kAccess || believed.code() == FsError::kUnavailable) {
    return Error(believed.code(), believed.error().message + ". If the cluster has another authority than " + dir + " knows, or has revoked this certificate, " + JoinAnew(who, dir));
  }
  if (!believed.ok()) return believed.error();
  if (force || RenewalIsDue(out.now->certificate, believed->bundle, now_s)) {
    // The same key: the cluster knows this machine by it.
    const std::string request = CertRequest::Make(out.now->key).ToDer();
    ASSIGN_OR_RETURN(const RenewCertificateReply reply, client->CallTrust<RenewCertificateReply>("certificate", [request](TrustService& trust, OpHeader header) {
      return trust.RenewCertificate({std::move(header), request});
    }));
    ASSIGN_OR_RETURN(const Certificate certificate, AcceptRenewal(*out.now, believed->bundle, reply.certificate));
    const AsOwnerOf owner(dir);
    RETURN_IF_ERROR(StoreRenewal(dir, *out.now, believed->bundle, certificate));
    ASSIGN_OR_RETURN(out.now, files.Load());
    out.renewed = true;
  }
  const AsOwnerOf owner(dir);
  RETURN_IF_ERROR(StoreBelieved(dir, *out.now, believed->bundle, believed->revoked));
  ASSIGN_OR_RETURN(out.now, files.Refresh());
  return out;
}

int RunCertRenew(const Context& ctx, bool force) {
  const Result<std::string> dir = DirectoryOf(ctx);
  if (!dir.ok()) return ctx.Fail(dir.error());
  const Result<Outcome> done = RenewIn(ctx, *dir, force);
  if (!done.ok()) return ctx.Fail(done.error());
  const Certificate& own = done->now->certificate;
  const Identity& who = done->now->identity;
  if (ctx.json) {
    *ctx.out << Dump({{"role", RoleName(who.role)}, {"name", who.name}, {"directory", *dir}, {"renewed", done->renewed}, {"serial", own.serial()},
                      {"not_after_s", own.not_after_s()}, {"renew_at_s", RenewAt(own)}, {"authorities", done->now->bundle.all().size()}});
  } else if (done->renewed) {
    *ctx.out << WhoIs(who) << " has the certificate " << own.serial() << " now, in " << PrintableName(*dir) << ": it is good until " << Day(own.not_after_s()) << "\n";
  } else {
    *ctx.out << "nothing to do: the certificate of " << WhoIs(who) << " in " << PrintableName(*dir) << " is good until " << Day(own.not_after_s())
             << ", and is renewed from " << Day(RenewAt(own)) << " on\n";
  }
  return kExitOk;
}

}  // namespace

void AddCertRenew(CLI::App* cert, Context& ctx) {
  auto force = std::make_shared<bool>(false);
  CLI::App* renew = cert->add_subcommand("renew", "Renew the certificate that this command has, if it is due: at two thirds of its life, and when another authority signs");
  renew->add_flag("--force", *force, "Also if it is not due");
  AddCommon(renew, ctx, "stria cert renew --meta pc1 --trust /etc/stria/trust/admin");
  renew->callback([&ctx, force] { ctx.run = [&ctx, force] { return RunCertRenew(ctx, *force); }; });
}

}  // namespace stria::cli
