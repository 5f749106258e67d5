// When it is written to a session's record that its client calls from another host: at once, and then once in kEveryNs, however often
// it changes. A client with two addresses, which calls from them in turn, would make a write of each call. What is judged does not wait
// for that: it is always the address of the call itself.
//
// A pure state machine; bounded by the number of sessions. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

class AddressWrites {
 public:
  static constexpr int64_t kEveryNs = 60 * kSecond;

  // The session calls from another host than before. True: write it now; false: Due will say when.
  bool Moved(SessionId s, int64_t now_ns) {
    const auto [it, first] = written_.try_emplace(s, Written{now_ns, false});
    if (first) return true;
    it->second.waits = now_ns - it->second.at_ns < kEveryNs;
    if (!it->second.waits) it->second.at_ns = now_ns;
    return !it->second.waits;
  }
  // Those whose address is to be written now.
  std::vector<SessionId> Due(int64_t now_ns) {
    std::vector<SessionId> due;
    for (auto it = written_.begin(); it != written_.end();) {
      if (now_ns - it->second.at_ns < kEveryNs) {
        ++it;
      } else if (it->second.waits) {
        due.push_back(it->first);
        it->second = {now_ns, false};
        ++it;
      } else {
        it = written_.erase(it);  // its next one is written at once
      }
    }
    return due;
  }
  void Forget(SessionId s) { written_.erase(s); }
  size_t size() const { return written_.size(); }

 private:
  struct Written {
    int64_t at_ns = 0;
    bool waits = false;  // it has another address since
  };
  std::map<SessionId, Written> written_;  // of those that have moved within kEveryNs
};

}  // namespace stria
