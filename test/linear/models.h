// What the linearizability checker knows of a filesystem: one file's bytes, and one directory's names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "test/linear/checker.h"

namespace stria::linear {

// A file of at most a few cells; each holds one value (0: a hole or zeros). Tests write and read whole cells.
struct FileModel {
  struct State {
    std::vector<uint32_t> cells;
    std::string Key() const;
  };
  struct Op {
    enum class Kind : uint8_t { kRead, kWrite, kAppend, kTruncate, kSize };
    Kind kind = Kind::kRead;
    uint32_t client = 0;
    uint64_t at = 0;                // kRead, kWrite: first cell
    uint64_t count = 0;             // kRead: cells asked for
    std::vector<uint32_t> values;   // read, or written
    uint64_t size = 0;              // kTruncate, kSize: cells
    bool page_cached = false;       // kRead: by way of the kernel's pages
  };
  static bool Apply(State* s, const Op& op);
  static std::string Describe(const Op& op);
};

// Names of one directory and which file each is, if any.
//
// Names may be links of one file; then a rename of one to another does nothing. A create without an answer makes a
// file that is not known (kUnknown and anything) until somebody finds it.
//
// With `two_lookups` a rename that succeeds may have done nothing although its source is gone and its target is
// there: Linux looks up both names, one after the other, and if it finds one file it takes them for links of it. (On
// a local filesystem nothing can come between, because all changes of a directory take its lock; a network filesystem
// has several.)
struct NamesModel {
  static constexpr uint64_t kUnknown = uint64_t{1} << 63;
  struct State {
    std::map<std::string, uint64_t> files;  // never 0
    std::string Key() const;
  };
  struct Op {
    enum class Kind : uint8_t { kLookup, kCreate, kUnlink, kRename, kLink, kList };
    Kind kind = Kind::kLookup;
    uint32_t client = 0;
    std::string name, to;
    int error = 0;      // errno: ENOENT, EEXIST
    uint64_t file = 0;  // found, created, or to be linked as `to`
    std::vector<std::string> names;  // listed, sorted
    bool two_lookups = true;  // through a kernel
  };
  static bool Apply(State* s, const Op& op);
  static std::string Describe(const Op& op);
};

// Times between which someone surely held a lock: from the return of the call that took it to the call that gave
// it up.
struct Hold {
  uint32_t client = 0;
  bool exclusive = true;
  uint64_t first = 0, last = 0;  // bytes
  int64_t from = 0, to = 0;
};
// "" or two holds that exclude each other and overlap.
std::string CheckExclusion(const std::vector<Hold>& holds);

// "" or what cannot be put in order, in sentences.
template <class Model>
std::string Explain(const std::vector<Event<typename Model::Op>>& history, const typename Model::State& start) {
  const Verdict v = Checker<Model>::Check(history, start);
  if (v.linearizable) return "";
  const auto line = [&](size_t i) {
    const auto& e = history[i];
    return "  [" + std::to_string(e.called) + ", " +
           (e.returned == kPending ? std::string("?") : std::to_string(e.returned)) + "] " + Model::Describe(e.op) + "\n";
  };
  std::string out = "no order explains the answers. The longest ends with:\n";
  const size_t n = v.longest.size();
  for (size_t i = n > 12 ? n - 12 : 0; i < n; ++i) out += line(v.longest[i]);
  out += "then none of these:\n";
  for (size_t i : v.stuck) out += line(i);
  return out;
}

}  // namespace stria::linear
