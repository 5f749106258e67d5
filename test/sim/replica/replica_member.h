// What a member of ReplicaModel is made of. Only replica_*.cc of this folder include this.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/coordinator.h"
#include "meta/replica/election.h"
#include "meta/replica/in_sync_set.h"
#include "meta/replica/promises.h"
#include "meta/replica/register_client.h"
#include "test/sim/replica/replica_model.h"

namespace stria {

inline int64_t ModelNs(double s) { return static_cast<int64_t>(s * static_cast<double>(kSecond)); }

struct ReplicaModel::Append {
  uint64_t boot, term;
  bool probe;             // asks for the shape of the log, sends nothing
  uint64_t prev, prev_term;
  std::vector<ModelStore::Entry> batches;
  int64_t sent_ns;
};

struct ReplicaModel::Reply {
  enum class Kind : uint8_t { kBeat, kAck, kShape, kLowerTerm } kind;
  uint64_t boot, term;
  int64_t sent_ns;
  uint64_t last = 0;
  bool whole = false;
  LogShape shape = {};
  std::vector<ModelStore::Puts> puts = {};        // of its log
  std::optional<ModelStore::Marker> marker = {};
};

struct ReplicaModel::Member {
  size_t i = 0;
  std::string name;
  Uuid uuid;
  double rate = 1;
  ModelStore store;
  std::unique_ptr<Coordinator> coordinator;
  // Of a life of the process.
  uint64_t boot = 0;
  bool up = false;
  int64_t paused_until_ns = 0;
  std::unique_ptr<Promises> promises;
  std::unique_ptr<RegisterClient> client;
  std::unique_ptr<Election> election;
  std::unique_ptr<InSyncSet> set;  // while it is primary
  MetaLife life;
  bool reading = false;
  bool syncing = false, sync_again = false;
  std::vector<std::function<void(size_t)>> after_sync;  // with the records that are synced
  std::deque<std::pair<uint64_t, uint64_t>> waiting;    // sequence, operation
  std::map<size_t, std::optional<uint64_t>> next;       // of each other member: what it has of the log, if that is known
  std::unique_ptr<TaskScope> scope;

  OwnLog Own() const {
    OwnLog own;
    own.shape = store.shape();
    own.whole = !store.marker();
    own.store_term = store.shape().LastTerm();
    own.opened_term = store.opened;
    return own;
  }
};

}  // namespace stria
