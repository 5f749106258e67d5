// What a file may hold. One writer applies operations in order; each may be acknowledged durable by a
// later fsync. Without a crash of the writer's client the content is exactly what all operations make.
// After one it is what some prefix of them makes, at least all that was acknowledged, with the next
// operation perhaps done in part from its front (a write may span two commits). When there is no space, truncations go
// before writes that found none, which are done later, as far as they are within the new size (Commits::CutUnflushed).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"

namespace stria {

class FileModel {
 public:
  void Write(uint64_t offset, const std::string& bytes);
  void Truncate(uint64_t size);
  // Everything so far survives any crash.
  void Acknowledge();
  // The content as its writer sees it.
  const std::string& now() const { return now_; }
  size_t unacknowledged() const { return ops_.size(); }
  // Nullopt if `content` is a state that a crash may leave; else why not. On success the model takes
  // `content` as the new state: what was lost stays lost. `full`: at times there was no space.
  std::optional<std::string> Recover(const std::string& content, bool full = false);
  // The same when nothing has crashed, but some operations failed, so that it is not known which were done: those that
  // `content` has may still be lost.
  std::optional<std::string> Resume(const std::string& content);

 private:
  struct Op {
    bool truncate = false;
    uint64_t offset = 0;  // or size
    std::string bytes;
  };
  static void Apply(std::string* content, const Op& op, uint64_t part = UINT64_MAX);
  struct Prefix {
    size_t ops = 0;       // done
    uint64_t part = 0;    // of the next one, from its front
  };
  // The longest that makes `content`.
  std::optional<Prefix> PrefixOf(const std::string& content) const;
  std::string NoPrefix(const std::string& content) const;
  bool IsPrefixOvertaken(const std::string& content) const;
  // How many of the operation's bytes the content has from its front.
  static uint64_t FrontOf(const Op& op, const std::string& content);
  std::string base_;  // acknowledged
  std::string now_;
  std::vector<Op> ops_;  // since
};

// Where two contents differ first, in words.
std::string FirstDifference(const std::string& want, const std::string& got);
// Bytes that do not repeat, so that misplaced ones are noticed.
std::string PatternBytes(Random& rng, size_t length);

}  // namespace stria
