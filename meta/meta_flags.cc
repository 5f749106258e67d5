#include "meta/meta_flags.h"

#include <utility>

#include "common/config.h"
#include "common/quantity.h"
#include "stripe/layout_spec.h"
#include "trust/certificate.h"
#include "trust/place.h"

namespace stria {

Result<MetaConfig> ConfigFrom(const MetaFlags& flags) {
  MetaConfig c;
  if (!flags.config_file.empty()) {
    ASSIGN_OR_RETURN(Config file, Config::Load(flags.config_file));
    ASSIGN_OR_RETURN(c, MetaConfigFrom(std::move(file)));
  }
  auto override_with = [](const std::string& flag, std::string* setting) {
    if (!flag.empty()) *setting = flag;
  };
  override_with(flags.data, &c.data);
  override_with(flags.listen, &c.listen);
  override_with(flags.cluster_key, &c.cluster_key_file);
  override_with(flags.insecure ? kTrustOff : flags.trust, &c.trust);
  override_with(flags.admin_socket, &c.admin_socket);
  override_with(flags.grpc_listen, &c.grpc_listen);
  override_with(flags.log_file, &c.log_file);
  override_with(flags.log_level, &c.log_level);
  override_with(flags.metrics, &c.metrics);
  if (!flags.certificate_life.empty()) {
    const Result<int64_t> life = ParseDuration(flags.certificate_life);
    if (!life.ok()) return life.error().WithContext("--certificate-life");
    if (*life < kMinCertificateLifeS * kSecond || *life > kCertificateDays * kDayS * kSecond) {
      return Error(FsError::kInval, "--certificate-life is " + flags.certificate_life + ": say 1min to " + std::to_string(kCertificateDays) + "d");
    }
    c.certificate_life_ns = *life;
  }
  if (!flags.trusted_root.empty()) c.server.trusted_root = flags.trusted_root;
  if (!flags.layout.empty()) {
    const Result<Layout> layout = ParseLayout(flags.layout);
    if (!layout.ok()) return layout.error().WithContext("--layout");
    c.layout = *layout;
  }
  RETURN_IF_ERROR(CompleteMetaConfig(&c));
  return c;
}

Result<void> CheckSeveralFlags(const MetaFlags& flags, const MetaConfig& config) {
  const auto no = [](std::string why) { return Error(FsError::kInval, std::move(why)); };
  const SeveralFlags& s = flags.several;
  const char* const flag = s.init ? "--ha-init" : s.join ? "--join" : s.leave ? "--ha-leave" : nullptr;
  if (s.init + s.join + s.leave > 1) return no("--ha-init, --join and --ha-leave exclude each other: give one of them");
  if (flag != nullptr && !config.ha) return no(std::string(flag) + " is given, and the settings have no [ha]: say there who this metadata server is (docs/settings.md)");
  if (s.join && (flags.format.format || flags.format.only || flags.format.make_trust)) {
    return no("--join is given with --format or --make-trust: what becomes one of several metadata servers is not a new cluster");
  }
  if (s.adopt && !s.init) return no("--adopt is given without --ha-init: leave it out");
  if (!s.cluster.empty() && !s.join) return no("--cluster is given without --join: leave it out");
  if (config.ha && flags.format.format && !s.init) return no("--format is given, and the settings have [ha]: give --ha-init, too, for a new cluster, or --join");
  if (config.ha && !flags.restore.from.empty()) return no("--restore-from is given, and the settings have [ha]: restore with settings without it, then start with --ha-init");
  Uuid cluster;
  if (!s.cluster.empty() && !Uuid::Parse(s.cluster, &cluster)) return no("--cluster is '" + s.cluster + "': give it as 'stria status --json' prints it");
  return Ok();
}

}  // namespace stria
