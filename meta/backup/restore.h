// From archive objects back to a store: the newest whole checkpoint, and every batch after it up to the first gap. The result
// is the store as it was at one sequence, bit for bit; revive.h makes it fit to be served again.
//
// Objects that are damaged, missing or of another cluster are passed over, and named. Data servers keep each object twice: a
// damaged copy is read from the other. A missing batch ends the restore; a checkpoint that lacks a page gives way to the one
// before it.
//
// So are those that this cluster's metadata server has not made, or not provably (archive_seal.h), unless they are asked for. What
// is encrypted nobody can read without the key, asked for or not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "meta/backup/archive.h"

namespace stria {

// Where the objects are.
class ArchiveSource {
 public:
  virtual ~ArchiveSource() = default;
  // Copy number `copy` (from 0) of an object. kNoEnt: there are no so many copies. Other errors are of this
  // copy.
  virtual Task<Result<std::string>> Get(ArchiveName name, size_t copy) = 0;
};

// What is believed.
struct RestoreProof {
  const ArchiveSeal* seal = nullptr;  // null: the key is not there, and nothing can be proven
  bool unproven = false;              // also what is not proven, of releases that did not encrypt
};

struct RestoreResult {
  Uuid cluster;
  uint64_t incarnation = 0;  // of the store that was archived
  uint64_t term = 0;
  CommitSeq checkpoint;      // where its walk began
  CommitSeq seq;             // the store is as it was here
  int64_t wall_ns = 0;       // when that was: of its last batch, or of the checkpoint
  uint64_t pages = 0;
  uint64_t batches = 0;
  uint64_t bytes = 0;        // of the objects that were used
  uint64_t unproven = 0;     // objects that were used and are not proven
  std::string why_unproven;  // the first of them, in a sentence
  std::vector<std::string> passed_over;  // a sentence each, at most kMaxPassedOver
};
inline constexpr size_t kMaxPassedOver = 100;

// Writes into `kv` and removes its former content. `names`: all objects there are, in any order, repeated or not. Durable on
// return. kNoEnt: no checkpoint is whole. Errors of `kv`. What `proof` has outlives the call.
Task<Result<RestoreResult>> RestoreArchive(std::vector<ArchiveName> names, ArchiveSource* source, KvStore* kv, RestoreProof proof);

// Objects that are not needed any more: those before the second newest complete checkpoint of this incarnation, and the rest of
// checkpoints that were given up before the newest. Objects of other incarnations are kept; those of earlier ones, with
// `forget_former`, until there are two checkpoints of this one.
std::vector<ArchiveName> ObsoleteObjects(const std::vector<ArchiveName>& names, uint64_t incarnation,
                                         bool forget_former);

}  // namespace stria
