// Room: commits. How the bytes that write-back has become stripes and extents that the server knows, what becomes known by
// that, and what else a flush waits for. It is what WriteBack and MadeAhead are given to store, commit and tell.
//
// Owns: of each inode which commits of ours are known durable, and what the server has of the file below its dirty bytes
// (VfsInode::last_commit, durable_commit, below_dirty).
//
// Invariants:
//  - a flush that is ok has committed what was dirty when it began, and told the server of the file if it was made ahead;
//    `durable`: that, and all changes of the file by its name, survive a power cut;
//  - what was written before the session lapsed is committed over one version of the file only (take_ups.h);
//  - stripes that a commit did not take are given back, or stay with the batch that has their bytes.
//
// Called by: WriteBack and MadeAhead, through what the wiring gives them, and calls that write, flush or change a file.
// Calls: Inodes, AttrView, NodeCache, WriteBack, MadeAhead, the session, data servers, CommitsNeeds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "client/io/stripe_io.h"
#include "client/io/stripe_pool.h"
#include "client/io/write_all.h"
#include "client/session/meta_session.h"
#include "client/vfs/attr_view.h"
#include "client/vfs/inodes.h"
#include "client/vfs/io_counters.h"
#include "client/vfs/made_ahead.h"
#include "client/vfs/node_cache.h"
#include "client/vfs/write_back.h"
#include "common/buffer.h"
#include "common/exec/task.h"

namespace stria {

struct CommitsNeeds {
  // The file has changed since its uncommitted bytes were written: they and its handles are lost (ComeBack::Lose).
  std::function<void(const VfsInodePtr&, const std::string& why)> lose;
};

// All of them outlive Commits.
struct CommitsRooms {
  Inodes& inodes;
  AttrView& attrs;
  NodeCache& nodes;
  WriteBack& write_back;
  MadeAhead& made_ahead;
  MetaSession& session;
  StripePool& pool;
  IoCounters& counters;  // of these committed_bytes
};

class Commits {
 public:
  Commits(CommitsRooms rooms, StripeIo io, CommitsNeeds needs);
  Commits(const Commits&) = delete;
  Commits& operator=(const Commits&) = delete;

  // ---- Bytes become dirty.
  Task<Result<void>> WaitForDirtyRoom(VfsInodePtr inode, uint64_t bytes, bool pages);
  void TakeDirty(const VfsInodePtr& inode, uint64_t offset, Buffer bytes, bool grows);
  // Bytes that found no space, of a file that is gone, wait for space no longer.
  void DropUnreachable(const VfsInodePtr& inode);

  // ---- Flushes.
  Task<Result<void>> FlushInode(VfsInodePtr inode, bool durable);
  // All that the server does not know and nobody else may see before the lease is given up. Under lease_mu.
  Task<Result<void>> FlushHeld(VfsInodePtr inode);
  // Of all inodes. The first error; the rest is tried nevertheless.
  Task<Result<void>> FlushAll();
  // Cutting a file down must be possible when there is no space for what was written to it: what is left of that is
  // flushed later.
  Task<Result<NodeReply>> CutUnflushed(VfsInodePtr inode, SetAttrRequest r, Caller who);

  // ---- Storing and committing.
  Task<Result<std::vector<WrittenPiece>>> Store(VfsInodePtr inode, BufferChain payload);
  // They are not committed, for this reason.
  void GiveBack(const std::vector<WrittenPiece>& written, FsError why);
  // No grow_to: append.
  Task<Result<CommitReply>> CommitPieces(VfsInodePtr inode, std::vector<StripeInfo> stripes, std::vector<Extent> extents,
                                         std::optional<uint64_t> grow_to, bool durable);

  // ---- Files made ahead.
  Task<void> CommitMade(VfsInodePtr inode, bool durable);  // a commit of nothing but the file itself
  void CouldNotBeMade(const VfsInodePtr& inode, const MadeFile& file);

 private:
  // `bare`: the commit did nothing but make it.
  void MadeAnswered(const VfsInodePtr& inode, const Result<CommitReply>& reply, uint64_t since, bool bare);
  CommitRequest RequestFor(VfsInode& n, std::vector<StripeInfo> stripes, std::optional<uint64_t> grow_to, bool durable);

  Inodes& inodes_;
  AttrView& attrs_;
  NodeCache& nodes_;
  WriteBack& write_back_;
  MadeAhead& made_ahead_;
  MetaSession& session_;
  StripePool& pool_;
  IoCounters& counters_;
  const StripeIo io_;
  const CommitsNeeds needs_;
};

}  // namespace stria
