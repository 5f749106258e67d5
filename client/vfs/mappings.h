// Room: mappings. Where the bytes of files lie, as far as the server has told.
//
// Owns: what is known of each file's mapping (InodeMapping, the room's part of an inode), within one budget for all files.
//
// Invariants: what is known is used under a lease that lets this client cache (MappingsNeeds::may_keep), or for the one read
// that it was asked for. Whoever hears, or causes, that it may be wrong says so at once (Forget, Changed): an answer that was
// asked for before is then not kept (epoch).
//
// Called by: Reads, the read path, Ranges; whoever changes a file's bytes tells the inode's part. Calls: the server's
// GetExtents, through MappingsNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/cache/extent_cache.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

class InodeMapping {
 public:
  // `proof`: the inode's OpenReply::proof, as it is when it is read.
  InodeMapping(InodeId ino, const std::string& proof, std::shared_ptr<ReadTally> tally,
               std::shared_ptr<ExtentBudget> budget)
      : ino_(ino), proof_(proof), tally_(std::move(tally)), known_(std::move(budget)),
        decoded_then_(tally_->reconstructed_bytes) {}
  InodeMapping(const InodeMapping&) = delete;
  InodeMapping& operator=(const InodeMapping&) = delete;

  InodeId ino() const { return ino_; }
  const std::string& proof() const { return proof_; }
  const ExtentCache& known() const { return known_; }
  // Another number whenever what is known, or on its way, may have become wrong.
  uint64_t epoch() const { return epoch_; }

  void Changed() { ++epoch_; }
  void Forget() { Changed(), known_.Clear(); }
  void Forget(uint64_t offset, uint64_t length) { Changed(), known_.Forget(offset, length); }
  // Nothing is there but these extents, as its only writer knows.
  void Know(uint64_t offset, uint64_t end, const std::vector<Extent>& extents) { known_.Know(offset, end, extents); }
  // What was asked at `asked_ns`, in this epoch.
  void Add(uint64_t offset, const GetExtentsReply& reply, int64_t asked_ns) { known_.Add(offset, reply, asked_ns); }
  void MakeRoom() { known_.MakeRoom(); }

  // After a read. Columns move to other disks when theirs are lost or emptied, of which nobody is told: what has to be decoded
  // may lie somewhere else by now. Until it does, asking for the mapping now and then costs nothing beside the decoding.
  void Doubt(int64_t now_ns);

 private:
  const InodeId ino_;
  const std::string& proof_;
  const std::shared_ptr<ReadTally> tally_;
  ExtentCache known_;
  uint64_t epoch_ = 0;
  uint64_t decoded_then_;     // when it was doubted last
  int64_t doubt_next_ns_ = 0;  // not again before this
};
// Keeps the inode that it is a part of.
using InodeMappingPtr = std::shared_ptr<InodeMapping>;

struct MappingsNeeds {
  std::function<Task<Result<GetExtentsReply>>(GetExtentsRequest)> ask;
  // What is told of the inode may be kept: it is held under a lease that lets us cache.
  std::function<bool(const InodeMappingPtr&)> may_keep;
};

class Mappings {
 public:
  // `timeout_ns`: for so long at least a mapping that changes all the time is asked for again.
  Mappings(uint64_t budget_bytes, int64_t timeout_ns, MappingsNeeds needs)
      : budget_(std::make_shared<ExtentBudget>(budget_bytes)), timeout_ns_(timeout_ns), needs_(std::move(needs)) {}
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  const std::shared_ptr<ExtentBudget>& budget() const { return budget_; }

  // The mapping of the range is known afterwards: until the next await if it may not be kept. `for_pages`: the answer waits for
  // no other client.
  Task<Result<void>> Ensure(InodeMappingPtr of, uint64_t offset, uint64_t length, bool for_pages);

  struct AtOnceHow {
    bool for_pages = false;
    bool any = false;       // also of a file that changes meanwhile
    uint64_t own_size = 0;  // the file is not shorter than this, whatever the server says
  };
  // The mapping of [offset, *end), which is cut at the end of the file, in `mapping`, and the attributes at that time. False if
  // the file changed between two answers. Nothing of it is kept.
  Task<Result<bool>> AtOnce(InodeMappingPtr of, uint64_t offset, AtOnceHow how, uint64_t* end, ExtentCache* mapping,
                            Attr* seen);

 private:
  const std::shared_ptr<ExtentBudget> budget_;
  const int64_t timeout_ns_;
  const MappingsNeeds needs_;
};

}  // namespace stria
