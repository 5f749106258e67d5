// Keeps the backup of the metadata up to date: sends committed batches to data servers, in segments, and from time to time a
// checkpoint (archive.h), so that the backup is never more than some seconds behind.
//
// Each object goes to all `places` (two nodes) and counts when all of them have made it durable. A place that takes nothing for
// a while is given up, and another place with a checkpoint of its own takes over. Each life of the server also begins with a
// checkpoint, because batches between two lives are not kept: a checkpoint, and every batch since it began, come from one life.
//
// A shard stays as long as its deletion is not archived (DeletableUpTo), so a restored store finds its shards. For the store's
// executor thread; the walk of a checkpoint reads on it, in steps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/backup_api.h"
#include "common/exec/task.h"
#include "common/token.h"
#include "meta/backup/archive.h"
#include "meta/backup/batch_tape.h"
#include "meta/backup/checkpoint_walk.h"
#include "meta/store/txn.h"

namespace stria {

struct ArchiverOptions {
  int64_t segment_ns = 10 * kSecond;  // no batch waits longer to be sent ..
  int64_t garbage_segment_ns = 2 * kSecond;  // .. nor than this if there is garbage, which is deleted only after it
  uint64_t checkpoint_bytes_per_s = 20 * kMiB;
  // A checkpoint is made again when the segments since the last are larger than it and than this, or so many,
  // or when it is so old.
  uint64_t min_segment_bytes = 64 * kMiB;
  size_t max_segments = 16384;
  int64_t checkpoint_ns = int64_t{24} * 3600 * kSecond;
  size_t copies = 2;
  int64_t give_up_ns = 30 * kSecond;  // a place that takes nothing for so long
  int64_t shun_ns = 600 * kSecond;    // .. is not chosen again for so long
  int64_t absent_ns = 3600 * kSecond;  // nothing is held back for a backup that is so far behind
  int64_t retry_ns = 1 * kSecond;
  int64_t call_timeout_ns = 10 * kSecond;
  size_t tape_bytes = kMaxTapeBytes;
  bool encrypt = false;  // then nothing is restored without the cluster's master key
};

struct BackupNode {
  NodeId id;
  std::string address;
  uint64_t free_bytes = 0;
};

// All that it points to outlives the archiver.
struct ArchiverEnv {
  MetaStore* store = nullptr;
  BackupConnector* connector = nullptr;
  std::function<std::string()> token;              // to administer data servers
  SaidTerm said;                                   // this life of the server
  std::function<std::vector<BackupNode>()> nodes;  // that are up: on different failure domains
  std::function<bool(NodeId)> removed;             // the cluster knows no such node any more; null: none is
  std::function<bool()> forget_former;             // objects of earlier incarnations may go
  const ArchiveSeal* seal = nullptr;
};

class Archiver {
 public:
  Archiver(ArchiverEnv env, ArchiverOptions options = {});

  // Until it is destroyed.
  Task<void> Run();
  // Takes the store's commits (MetaStore::SetTap).
  void Add(CommitSeq seq, const KvBatch& batch);
  // Everything committed before the call is archived on return. kDeadline: not yet, with the reason.
  Task<Result<void>> BackupNow(int64_t deadline_ns);

  // Shards that became garbage in batches up to this may be deleted.
  CommitSeq DeletableUpTo() const;
  // Age of the oldest batch that is not archived; 0 if all are.
  int64_t BehindNs() const;
  // A checkpoint of this life and all batches up to archived() are on places().
  bool complete() const { return complete_; }
  CommitSeq archived() const { return archived_; }
  std::vector<NodeId> places() const { return places_; }
  int64_t checkpoint_wall_ns() const { return checkpoint_wall_ns_; }  // of the last one, 0: none in this life
  uint64_t checkpoint_bytes() const { return checkpoint_bytes_; }
  const std::string& problem() const { return problem_; }  // "" if all goes well

 private:
  struct Outgoing {
    ArchiveName name;
    Buffer bytes;
    std::set<NodeId> stored;
  };
  int64_t Now() const { return Executor::Current().NowNs(); }
  int64_t Wall() const { return Executor::Current().WallNs(); }
  Task<Result<bool>> Step();
  bool ChoosePlaces();
  void SetIncomplete();
  void BeginCheckpoint();
  bool CheckpointDue() const;
  bool SegmentDue() const;
  Task<Result<bool>> SendSegment();
  Task<Result<bool>> StepCheckpoint();
  Task<Result<void>> WalkPage();
  Task<Result<void>> EndCheckpoint();
  Outgoing Make(ArchiveKind kind, CommitSeq first, uint64_t walk, uint64_t last, const std::string& body) const;
  Task<Result<void>> Store(Outgoing* o);
  Task<Result<void>> PutOn(NodeId node, const Outgoing* o);
  Task<void> Clean();
  Task<Result<std::vector<ArchiveName>>> ListOn(std::string address);
  DataHeader Header() const;
  void NoteArchived();

  const ArchiverEnv env_;
  const ArchiverOptions options_;
  BatchTape tape_;
  std::vector<NodeId> places_;
  std::map<NodeId, int64_t> failing_;  // since when
  std::optional<Outgoing> segment_;    // being sent: the oldest of the tape
  size_t segments_since_ = 0;          // the last checkpoint began
  uint64_t bytes_since_ = 0;

  // The checkpoint that is being made.
  std::optional<CheckpointWalk> walk_;
  uint64_t walks_ = 0;  // begun in this life
  CommitSeq begin_;
  std::optional<CommitSeq> until_;  // the walk has ended
  std::optional<Outgoing> page_;
  std::vector<uint64_t> hashes_;
  uint64_t walk_bytes_ = 0;

  bool complete_ = false;
  int64_t incomplete_since_ns_ = 0;
  CommitSeq archived_;
  CommitSeq wanted_;  // by BackupNow: do not wait
  int64_t checkpoint_ns_ = 0;
  int64_t checkpoint_wall_ns_ = 0;
  uint64_t checkpoint_bytes_ = 0;
  std::string problem_;
  Event wake_;      // there is something to send
  Event progress_;  // pulsed when more is archived, or something went wrong
};

}  // namespace stria
