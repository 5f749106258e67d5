// What a LOOKUP of a name is told while renames of that name go through this mount.
//
// From the request to rename on, the kernel believes in the old name until the renaming thread has moved its entry, some time after the
// answer (late_moves.h). A LOOKUP of it meanwhile is told what the kernel has under that name; one that comes after the answer waits until
// the thread is surely past that. Ask decides all of that: each answer to a LOOKUP goes through it.
//
// A LOOKUP that the kernel began before the rename asks about the entry that is moved then. The answer that the name is gone, or leads
// elsewhere, would end that entry where it is now, with what is mounted below. So the answer names the inode that the kernel had under the name: that
// was right when the kernel asked. A LOOKUP that comes after the answer, when the kernel does not believe the name any more, may ask about that entry or about the
// name: it fails with ENOMEM, which says nothing of either.
//
// Executor's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/fuse/late_moves.h"
#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

class NameMoves {
 public:
  // `executor` outlives it.
  NameMoves(Executor* executor, LateMoves::Look look) : executor_(executor), late_(std::move(look)) {}

  // The kernel is renaming (dir, name), under which it has `ino`, and has not moved it until End.
  void Begin(InodeId dir, const std::string& name, InodeId ino) {
    moving_.emplace(std::pair(dir, name), ino);
    const auto [first, last] = asking_->equal_range({dir, name});
    for (auto it = first; it != last; ++it) *it->second = ino;
  }
  bool IsMoving(InodeId dir, const std::string& name) const { return moving_.contains({dir, name}); }
  // Before the answer to `thread` that it is renamed. Until `believed_ns` the kernel surely asks for no entry of that name.
  void Answered(InodeId dir, const std::string& name, uint32_t thread, int64_t believed_ns = 0) {
    late_.Answered(dir, name, thread, executor_->NowNs(), believed_ns);
  }
  void End(InodeId dir, const std::string& name) { moving_.erase({dir, name}); }
  // Before an answer that ends the kernel's belief in the name of an entry that it moves, or has moved.
  void Doubt() { late_.Doubt(); }

  template <class T>
  struct Answer {
    InodeId moving;          // the inode that the kernel has under the name, and is renaming; none: see `had` and `found`
    InodeId had;             // the inode that the kernel had under the name when it asked, and has moved since
    std::optional<T> found;  // the last result of `find`; none if `moving` or `had` is set
    bool unsure = false;     // the kernel may ask about the name, or about the entry that it moves: no answer fits both
  };
  // What `thread` is to be told of (dir, name). `find` finds whither it leads; it may be asked several times, and is alive until the end.
  template <class T>
  Task<Answer<T>> Ask(InodeId dir, std::string name, uint32_t thread, std::function<Task<T>()> find) {
    Answer<T> answer;
    answer.unsure = late_.MayAskOfEntry(dir, name, thread, executor_->NowNs());
    const Asking asking(asking_, {dir, name}, &answer.had);
    do {
      for (int64_t pause_ns = LateMoves::kFirstPauseNs; !answer.had && MayCome(dir, name, thread);) {
        co_await Sleep(pause_ns);
        pause_ns = std::min(2 * pause_ns, LateMoves::kLongestPauseNs);
      }
      answer.moving = From(dir, name);
      if (answer.moving || answer.had) {
        answer.found.reset();
        break;
      }
      answer.found = co_await find();
    } while (From(dir, name) || answer.had || MayCome(dir, name, thread));  // since it has begun
    if (answer.moving) answer.had = InodeId();
    co_return answer;
  }

 private:
  using Key = std::pair<InodeId, std::string>;
  using AllAsking = std::multimap<Key, InodeId*>;
  // While it lives, a LOOKUP is under way, which hears in `had` of a rename that begins.
  class Asking {
   public:
    Asking(std::shared_ptr<AllAsking> all, Key key, InodeId* had) : all_(std::move(all)), at_(all_->emplace(std::move(key), had)) {}
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    ~Asking() { all_->erase(at_); }

   private:
    const std::shared_ptr<AllAsking> all_;  // a LOOKUP that hangs may end after the mount
    const AllAsking::iterator at_;
  };
  InodeId From(InodeId dir, const std::string& name) const {
    if (moving_.empty()) return InodeId();
    const auto it = moving_.find({dir, name});
    return it == moving_.end() ? InodeId() : it->second;
  }
  bool MayCome(InodeId dir, const std::string& name, uint32_t thread) { return late_.MayCome(dir, name, thread, executor_->NowNs()); }

  Executor* const executor_;
  std::map<Key, InodeId> moving_;
  const std::shared_ptr<AllAsking> asking_ = std::make_shared<AllAsking>();
  LateMoves late_;
};

}  // namespace stria
