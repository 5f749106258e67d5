// Room: relatime. Reading a file moves its atime if the file has changed since it was last read, or a day has passed.
//
// 1. The first read that finds it so notes the time here; stat shows it from then on (AttrView::Newest). The kernel forgets the
//    atime by itself when it has the read's answer (fuse_invalidate_atime), and is not told: each first read would wait for
//    that, and ask for the attributes again. What another thread's stat, under way at that moment, was answered before it
//    may show the old atime until the kernel asks again, 10 s at most.
// 2. The server is told soon, of one inode at most once in kTellEachNs; it takes the time only if nobody has changed
//    the inode since (SetAttrRequest::read_version), so that it never undoes a utime.
// Nothing waits for it, and it is lost with the client. A file that others write meanwhile (kShared) keeps its atime.
//
// Owns: the times of reads that the server may not know yet (InodeAtime, the room's part of an inode).
//
// Invariant: of an inode at most one task tells the server; as long as there is one the inode is in use.
//
// Called by: Reads. Calls: the server, through AtimesNeeds. Knows no other room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "api/types.h"
#include "common/exec/task.h"

namespace stria {

// Only Atimes changes it, but for Forget.
class InodeAtime {
 public:
  explicit InodeAtime(InodeId ino) : ino_(ino) {}
  InodeAtime(const InodeAtime&) = delete;
  InodeAtime& operator=(const InodeAtime&) = delete;

  InodeId ino() const { return ino_; }
  // Of the last read that moved the atime and that the server may not know yet.
  const std::optional<int64_t>& newest_ns() const { return newest_ns_; }
  // So the inode must stay.
  bool telling() const { return telling_; }
  void Forget() { newest_ns_.reset(); }  // a utime is newer

  void Note(int64_t ns) { newest_ns_ = ns; }
  bool Begin() { return !std::exchange(telling_, true); }  // false: somebody tells it already
  void End() { newest_ns_.reset(), telling_ = false; }
  int64_t told_at_ns() const { return told_at_ns_; }  // 0: never
  void ToldAt(int64_t ns) { told_at_ns_ = ns; }

 private:
  const InodeId ino_;
  std::optional<int64_t> newest_ns_;
  bool telling_ = false;
  int64_t told_at_ns_ = 0;
};
// Keeps the inode that it is a part of.
using InodeAtimePtr = std::shared_ptr<InodeAtime>;

struct AtimesNeeds {
  // Whether the server may be told of it now: it knows the inode, and we its attributes. May wait for the first.
  std::function<Task<bool>(InodeAtimePtr)> may_tell;
  // Tells it; false: it did not take it.
  std::function<Task<bool>(InodeAtimePtr, std::optional<int64_t> read_ns)> tell;
  // Notice: the inode may not be in use any more.
  std::function<void(const InodeAtimePtr&)> maybe_unused;
};

class Atimes {
 public:
  // `scope` outlives it and is cancelled before it goes.
  Atimes(bool relatime, AtimesNeeds needs, TaskScope& scope)
      : relatime_(relatime), needs_(std::move(needs)), scope_(scope) {}
  Atimes(const Atimes&) = delete;
  Atimes& operator=(const Atimes&) = delete;

  void SetRelatime(bool on) { relatime_ = on; }

  // It was read, when its attributes were these. `noatime`: by somebody who leaves no trace.
  void Note(const InodeAtimePtr& inode, Attr attr, bool noatime);

 private:
  Task<void> Tell(InodeAtimePtr inode);

  bool relatime_;
  const AtimesNeeds needs_;
  TaskScope& scope_;
};

}  // namespace stria
