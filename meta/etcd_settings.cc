#include "meta/etcd_settings.h"

#include <string>

#include "meta/replica/register_text.h"
#include "trust/files.h"

namespace stria {

Result<EtcdOptions> EtcdOptionsOf(const HaConfig& ha, const Uuid& cluster) {
  EtcdOptions o;
  o.endpoints = ha.etcd;
  o.key = RegisterKey(cluster);
  if (ha.ca.empty()) return o;
  EtcdOptions::Tls& tls = o.tls.emplace();
  const auto take = [](const char* setting, const Result<std::string>& text, std::string* to) -> Result<void> {
    if (!text.ok()) return text.error().WithContext(setting);
    *to = *text;
    return Ok();
  };
  RETURN_IF_ERROR(take("ha.ca", ReadPublicFile(ha.ca), &tls.ca));
  if (ha.cert.empty()) return o;
  RETURN_IF_ERROR(take("ha.cert", ReadPublicFile(ha.cert), &tls.certificate));
  RETURN_IF_ERROR(take("ha.key", ReadSecretFile(ha.key), &tls.private_key));
  return o;
}

}  // namespace stria
