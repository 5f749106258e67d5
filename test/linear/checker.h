// Is a history of concurrent operations on one object linearizable? (Wing and Gong's search, with Lowe's memory of
// what was tried.) Objects are checked one by one: a history is linearizable if that of each object is.
//
// Model:
//   using State = ...;              // copied; its Key() (a string) tells states apart
//   struct Op { ...; };             // with what it asked for and what it was answered
//   static bool Apply(State*, const Op&);  // false: in this state the answer could not have been that
//
// Each operation took effect at one moment between its call and its return. One without a return (`kPending`: it
// failed in a way that says nothing) took effect at some moment after its call, or never.
//
// Time: exponential in how many operations overlap, and in practice linear in the history's length.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stria::linear {

inline constexpr int64_t kPending = std::numeric_limits<int64_t>::max();

template <class Op>
struct Event {
  int64_t called = 0;    // any clock that all clients share
  int64_t returned = kPending;
  Op op;
};

struct Verdict {
  bool linearizable = false;
  // If not: the most operations that could be put in order, as indexes of the history, and those that would have
  // had to follow and could not.
  std::vector<size_t> longest;
  std::vector<size_t> stuck;
};

template <class Model>
class Checker {
 public:
  using History = std::vector<Event<typename Model::Op>>;

  static Verdict Check(const History& history, const typename Model::State& start) {
    Checker c(history);
    c.Search(start);
    return std::move(c.verdict_);
  }

 private:
  struct Frame {
    typename Model::State state;
    std::vector<size_t> next;  // what may come now
    size_t tried = 0;
  };

  explicit Checker(const History& history) : history_(history), done_(history.size(), '0') {
    for (const auto& e : history_) open_ += e.returned != kPending;
  }

  // Those not yet in order that were called before any of them returned.
  std::vector<size_t> Candidates() const {
    int64_t first_return = kPending;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (done_[i] == '0') first_return = std::min(first_return, history_[i].returned);
    }
    std::vector<size_t> out;
    for (size_t i = 0; i < history_.size(); ++i) {
      if (done_[i] == '0' && history_[i].called <= first_return) out.push_back(i);
    }
    return out;
  }

  void Search(const typename Model::State& start) {
    std::set<std::string> seen;  // what was done, and the state that it led to
    std::vector<Frame> stack;
    std::vector<size_t> order;
    stack.push_back({start, Candidates(), 0});
    while (open_ > 0 && !stack.empty()) {
      Frame& f = stack.back();
      if (f.tried == f.next.size()) {
        if (order.size() > verdict_.longest.size() || verdict_.stuck.empty()) {
          verdict_.longest = order;
          verdict_.stuck = f.next;
        }
        stack.pop_back();
        if (!order.empty()) {
          Mark(order.back(), false);
          order.pop_back();
        }
        continue;
      }
      const size_t i = f.next[f.tried++];
      typename Model::State state = f.state;
      if (!Model::Apply(&state, history_[i].op)) continue;
      Mark(i, true);
      if (!seen.insert(done_ + state.Key()).second) {
        Mark(i, false);
        continue;
      }
      order.push_back(i);
      stack.push_back({std::move(state), Candidates(), 0});
    }
    verdict_.linearizable = open_ == 0;
    if (verdict_.linearizable) verdict_.longest = std::move(order), verdict_.stuck.clear();
  }

  void Mark(size_t i, bool done) {
    done_[i] = done ? '1' : '0';
    if (history_[i].returned != kPending) open_ += done ? -1 : 1;
  }

  const History& history_;
  std::string done_;
  int64_t open_ = 0;  // that returned and are not in order yet
  Verdict verdict_;
};

}  // namespace stria::linear
