// What a metadata server can be told (meta/meta_config.h reads it from a file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/units.h"
#include "meta/backup/archiver.h"
#include "meta/cluster/cluster_state.h"
#include "meta/core/given_life.h"
#include "meta/session/interest_table.h"
#include "meta/session/session_table.h"
#include "meta/upkeep/upkeep_options.h"

namespace stria {

struct MetaServerOptions {
  SessionTableOptions sessions;
  ClusterOptions cluster;
  RepairBudget repair;
  FoldOptions fold;
  size_t max_interests = kMaxInterests;
  bool root_squash = false;  // uid 0 of clients becomes squash_id
  uint32_t squash_id = 65534;
  // Clients (names, with * and ?) whose root counts as root where their export squashes root.
  std::vector<std::string> trusted_root;
  std::set<uint32_t> admin_uids = {0};  // who may change the cluster
  int64_t group_sync_ns = 5 * kMillisecond;
  int64_t token_ttl_ns = 3600 * kSecond;
  // A session that renews its lease but leaves an event unacknowledged, or a recall unanswered, for
  // this long lapses. More than a lease: a recall may flush a full write-back buffer.
  int64_t answer_timeout_ns = 90 * kSecond;
  int64_t tick_ns = 500 * kMillisecond;
  size_t count_at_once = 4096;  // stripes: with more, what status says of a node's loss is counted beforehand
  ArchiverOptions archiver;
  // How often it looks what is to be told as an event (meta/events); 0: it keeps no events.
  int64_t events_ns = 0;
  std::string version;  // of the program, for status (common/program.h)
  GivenLife life;  // of one of several metadata servers
};

}  // namespace stria
