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

}  // namespace stria
