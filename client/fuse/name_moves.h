// What a LOOKUP of a name is told while renames of that name go through this mount.
//
// From the request to rename on, the kernel believes in the old name until the renaming thread has moved its entry, some time after the
// answer (late_moves.h). A LOOKUP of it meanwhile is told what the kernel has under that name; one that comes after the answer waits until
// the thread is surely past that; and an answer that was found before or during a rename is found again. All of that is decided here, in
// Ask: whoever answers a LOOKUP asks through it.
//
// Executor's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
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
  void Begin(InodeId dir, const std::string& name, InodeId ino) { moving_.emplace(std::pair(dir, name), ino); }
  bool IsMoving(InodeId dir, const std::string& name) const { return moving_.contains({dir, name}); }
  // Before the answer to `thread` that it is renamed.
  void Answered(InodeId dir, const std::string& name, uint32_t thread) { late_.Answered(dir, name, thread, executor_->NowNs()); }
  void End(InodeId dir, const std::string& name) { moving_.erase({dir, name}); }

  template <class T>
  struct Answer {
    InodeId moving;          // what the kernel has under the name that it is renaming; none: as `found` says
    std::optional<T> found;  // what `find` gave last; none while the name is moving
  };
  // What `thread` is to be told of (dir, name). `find` finds whither it leads; it may be asked several times, and is alive until the end.
  template <class T>
  Task<Answer<T>> Ask(InodeId dir, std::string name, uint32_t thread, std::function<Task<T>()> find) {
    Answer<T> answer;
    do {
      for (int64_t pause_ns = LateMoves::kFirstPauseNs; MayCome(dir, name, thread);) {
        co_await Sleep(pause_ns);
        pause_ns = std::min(2 * pause_ns, LateMoves::kLongestPauseNs);
      }
      answer.moving = From(dir, name);
      if (answer.moving) {
        answer.found.reset();
        break;
      }
      answer.found = co_await find();
    } while (From(dir, name) || MayCome(dir, name, thread));  // since it has begun
    co_return answer;
  }

 private:
  InodeId From(InodeId dir, const std::string& name) const {
    if (moving_.empty()) return InodeId();
    const auto it = moving_.find({dir, name});
    return it == moving_.end() ? InodeId() : it->second;
  }
  bool MayCome(InodeId dir, const std::string& name, uint32_t thread) { return late_.MayCome(dir, name, thread, executor_->NowNs()); }

  Executor* const executor_;
  std::map<std::pair<InodeId, std::string>, InodeId> moving_;
  LateMoves late_;
};

}  // namespace stria
