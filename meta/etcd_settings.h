// How the metadata servers' settings reach etcd. Reads a few files; for the start.
#pragma once

#include "common/error.h"
#include "common/ids.h"
#include "meta/ha_config.h"
#include "proto/etcd_coordinator.h"

namespace stria {

// Of the register of `cluster`. Errors name the file, and the setting that names it.
Result<EtcdOptions> EtcdOptionsOf(const HaConfig& ha, const Uuid& cluster);

}  // namespace stria
